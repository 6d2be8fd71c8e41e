"""The fields of rows of benchmarks: docs/bench.md lists each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from cipherblas_bench import to_json
from cipherblas_bench.harness import Row
from tests.support import documents

PAGE = documents.ROOT / "docs" / "bench.md"


def listed(title: str) -> list[str]:
    """Those in the columns of this title."""
    return [field for row in documents.table(PAGE, title) for field in re.findall(r"`(\w+)`", row[title])]


REQUIRED, OTHERS = set(listed("field of every row")), set(listed("field"))


def check_fields(rows: Iterable[Row]) -> None:
    """Every field is listed, and those of every row are there."""
    for row in rows:
        names = set(json.loads(to_json(row)))
        assert names >= REQUIRED, REQUIRED - names
        assert names <= REQUIRED | OTHERS, names - REQUIRED - OTHERS
