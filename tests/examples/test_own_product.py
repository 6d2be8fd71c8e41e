"""The product of one's own: entries on every interpreter, blocks, clear operands, and the planner's look at it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cipherblas as cb
import own_product
from cipherblas.methods import registry
from own_product import InnerSums
from tests.support.product_runs import check
from tests.support.runs import TOY, run, run_by_files, values_of

SIZES = st.integers(1, 9)


@pytest.fixture
def registered() -> Iterator[None]:
    """The method, entered for one test."""
    cb.register(InnerSums)
    yield
    registry.unregister("inner-sums")


@given(SIZES, SIZES, SIZES, st.integers(4, 9))
def test_any_shape_in_the_clear(m: int, k: int, n: int, bits: int) -> None:
    """Counts and keys are those of the run without data; see `check`."""
    if InnerSums.fits(m, k, n, 1 << bits):
        check(InnerSums(m, k, n, 1 << bits), seed=m + 10 * k + 100 * n)


@pytest.mark.parametrize("public", ["left", "right"])
def test_blocks_and_clear_operands(public: str) -> None:
    counts = check(InnerSums(4, 5, 6, 128), seed=1, grid=(2, 3, 2), public=public).counts
    assert counts.rotations == 4 * 2 * 3  # 4 blocks of the result, 2 ciphertexts each, 8 slots to sum up


def test_levels_and_keys() -> None:
    outcome = check(InnerSums(6, 7, 5, 1024), seed=2)
    assert outcome.counts.rotations == len(outcome.counter.request.galois) == 3
    assert outcome.counts.products == outcome.counts.relinearisations == 1
    assert outcome.counts.rescales == 0


@pytest.mark.usefixtures("registered")
@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
@pytest.mark.parametrize("public", [False, True])
def test_programs_on_ciphertexts(public: bool, tmp_path: Path) -> None:
    """In blocks, one product after another, saved and loaded."""
    b = cb.public(9, 30) if public else cb.secret(9, 30)
    operands = {"a": cb.secret(40, 9), "b": b, "c": cb.secret(30, 5)}
    program = cb.compile(lambda a, b, c: (a @ b) @ c, operands, algorithm="inner-sums", block=24, **TOY)
    assert program.plan.algorithm == "inner-sums"
    values = values_of(program)
    run(program, values).check()
    run_by_files(program, values, tmp_path).check()


@pytest.mark.usefixtures("registered")
def test_the_planner_considers_it() -> None:
    """Among the losers, or taken."""
    operands = {"a": cb.secret(8, 8), "b": cb.secret(8, 8)}
    plan = cb.compile(lambda a, b: a @ b, operands).plan
    assert "inner-sums" in {plan.algorithm, *(loser.algorithm for loser in plan.rejected)}
    assert "inner-sums" in cb.compile(lambda a, b: a @ b, operands, algorithm="inner-sums").explain()


@pytest.mark.usefixtures("registered")
def test_the_planner_takes_it_where_it_is_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the methods of the house out of the search."""
    for other in registry.Methods("product", "blocks").values():
        if other is not InnerSums:
            monkeypatch.setattr(other, "baseline", True)
    plan = cb.compile(lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)}).plan
    assert plan.algorithm == "inner-sums"


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`own_product.py`: the errors are below what was predicted."""
    try:
        own_product.main()
    finally:
        registry.unregister("inner-sums")
    printed = capsys.readouterr().out
    bound, measured = re.findall(r"error: at most (\S+) of .*measured (\S+)", printed)[0]
    assert 0 < float(measured) < float(bound)
    allowed, error = re.findall(r"allowed (\S+), largest error (\S+)", printed)[0]
    assert 0 < float(error) < float(allowed)
    counts = re.findall(r"^counts: .*$", printed, re.MULTILINE)
    assert len(counts) == 3 and len(set(counts)) == 1


def test_numbers_in_the_clear_are_exact() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-5, 6, (3, 4)), rng.integers(-5, 6, (4, 2))
    method = InnerSums(3, 4, 2, 32)
    inputs = [*method.left_layout.pack(a), *method.right_layout.pack(b)]
    found = cb.lab.run(cb.lab.block_product(method), inputs, "clear").value
    assert found is not None
    np.testing.assert_array_equal(method.out_layout.unpack(list(found)), a @ b)
