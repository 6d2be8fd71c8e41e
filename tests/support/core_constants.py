"""Constants of the C++ of the core, read from its text: what Python has too, and the core does not tell."""

from __future__ import annotations

import re
from typing import Any

from tests.support.rooms import CPP

_TYPE = re.compile(r"(?:std::)?u?int\d*_t|std::size_t")
_HEX_FLOAT = re.compile(r"0x1p(\d+)")


def constant(file: str, name: str) -> Any:
    """The value of the first `constexpr` of this name in a file below cpp/; it may be made of others in that file."""
    text = (CPP / file).read_text(encoding="utf-8")
    found = re.search(rf"constexpr [^;=]*?\b{name} = ([^;]+?)(?:, k\w+ = [^;]+)?;", text)
    found = found or re.search(rf"constexpr [^;]*, {name} = ([^;,]+);", text)
    assert found is not None, f"cpp/{file} has no constant {name}"
    expression = _HEX_FLOAT.sub(r"(1 << \1)", _TYPE.sub("", found[1]))
    expression = re.sub(r"k[A-Z]\w*", lambda other: str(constant(file, other[0])), expression)
    assert re.fullmatch(r"[\d\s.(){}<+*-]+", expression), expression
    return eval(expression.replace("{", "(").replace("}", ")"))  # of digits and signs
