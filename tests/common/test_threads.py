"""Work in threads: every item once, in order; the first error; nothing more is begun after an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import cipherblas._core as _core
from cipherblas.common.memory import FEW_BYTES, in_threads


@pytest.fixture(params=[1, 2, 5], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = _core.threads()
    _core.set_threads(request.param)
    yield request.param
    _core.set_threads(before)


@pytest.mark.parametrize("number", [0, 1, 2, 100])
def test_every_item_once_and_in_order(number: int) -> None:
    done: list[int] = []

    def work(item: int) -> int:
        done.append(item)
        return item * item

    assert in_threads(work, range(number)) == [item * item for item in range(number)]
    assert sorted(done) == list(range(number))


def test_the_first_error_is_raised_and_nothing_else_begun(threads: int) -> None:
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        time.sleep(0.001)
        if item in (7, 8, 9):
            raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 7"):
        in_threads(work, range(10_000))
    assert len(begun) <= 8 + 2 * threads


def test_few_bytes_take_no_thread() -> None:
    here = threading.get_ident()
    assert set(in_threads(lambda _: threading.get_ident(), range(8), FEW_BYTES)) == {here}
