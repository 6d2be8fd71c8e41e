"""The two forms: which one is taken, and forcing one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.planner.search.blocks import BlockStrategy
from tests.support.runs import run

FORMS = ("blocks", "rows")


def product(a: Any, b: Any) -> Any:
    return a @ b


def of_shape(m: int, k: int, n: int, left_secret: bool, **options: Any) -> cb.Program:
    left = cb.secret(m, k) if left_secret else cb.public(m, k, dtype="int8")
    return cb.compile(product, {"a": left, "b": cb.secret(k, n)}, **options)


def compiled(d: int, left_secret: bool = True, **options: Any) -> cb.Program:
    return of_shape(d, d, d, left_secret, **options)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("left_secret", [False, True])
def test_forced_form_is_taken_and_computes_the_product(form: Any, left_secret: bool) -> None:
    program = compiled(5, left_secret, form=form)
    assert program.plan.form == form
    assert (program.plan.algorithm == "gemm") == (form == "rows")
    random = np.random.default_rng(3)
    a = random.uniform(-1, 1, (5, 5)) if left_secret else random.integers(-128, 128, (5, 5), dtype=np.int8)
    b = random.uniform(-1, 1, (5, 5))
    found = run(program, {"a": a, "b": b}).check().decrypted
    assert np.abs(found - a.astype(float) @ b).max() <= program.plan.error


SHAPES = [(8, 8, 8), (64, 64, 64), (10, 784, 200), (1, 900, 3), (60, 2, 90), (400, 400, 400)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "k", "n", "left_secret", "minimise"),
    [  # every shape with one or the other, in turn
        (*shape, number % 2 == 0, "server" if number % 3 else "end-to-end")
        for number, shape in enumerate(SHAPES)
    ],
)
def test_the_planner_takes_the_form_that_is_predicted_to_be_faster(
    m: int, k: int, n: int, left_secret: bool, minimise: str
) -> None:
    """A forced form is searched in full: what the comparison of forms leaves out changes nothing."""
    options: dict[str, Any] = {"threads": 1, "minimise": minimise}
    forced = {form: of_shape(m, k, n, left_secret, form=form, **options).plan for form in FORMS}
    seconds = {form: plan.minimised for form, plan in forced.items()}
    chosen = of_shape(m, k, n, left_secret, **options).plan
    assert chosen.form == min(seconds, key=seconds.__getitem__)
    assert chosen.decisions() == forced[chosen.form].decisions()
    other = next(form for form in FORMS if form != chosen.form)
    losers = {loser.algorithm: loser for loser in chosen.rejected}
    if "slots" not in losers:
        # It was searched as far as that decides, or priced on a ring that may be too small.
        loser = losers[forced[other].algorithm]
        assert loser.seconds is not None and chosen.minimised < loser.seconds <= 1.5 * forced[other].minimised
        if "or more" not in loser.reason:
            assert loser.seconds == pytest.approx(forced[other].minimised, rel=0.05)


def test_slots_that_cannot_be_faster_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockStrategy, "families", None)
    program = of_shape(10, 784, 2000, False, threads=1)
    assert program.plan.form == "rows"
    (line,) = (line for line in program.explain().splitlines() if line.startswith("  slots"))
    assert "at least" in line
    assert "bound" in line


def test_a_forced_form_survives_the_file(tmp_path: Any) -> None:
    program = compiled(6, False, form="blocks")
    program.save(tmp_path / "plan")
    loaded = cb.Program.load(tmp_path / "plan")
    assert (loaded.id, loaded.plan.form) == (program.id, "blocks")


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(
        cb.ParameterError, match=r"blocks \| tensors \| rows \| mixed \| features, got columns"
    ):
        compiled(4, form="columns")


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({"form": "blocks", "algorithm": "gemm"}, "blocks"),
        ({"form": "rows", "algorithm": "skewed"}, "rows"),
        ({"form": "rows", "block": 4}, "rows"),
        ({"form": "rows", "options": {}}, "rows"),
        ({"form": "tensors", "block": 4}, "tensors"),
        ({"form": "tensors", "options": {}}, "tensors"),
        ({"form": "tensors", "algorithm": "skewed"}, "tensors"),
        ({"form": "tensors", "algorithm": "gemm"}, "tensors"),
        ({"form": "rows", "algorithm": "metakernel"}, "rows"),
        ({"form": "blocks", "algorithm": "metakernel"}, "blocks"),
    ],
)
def test_options_that_contradict_the_form_are_refused(options: dict[str, Any], form: str) -> None:
    with pytest.raises(cb.ParameterError, match=f"of the form .*, and form={form} is asked for") as caught:
        compiled(4, **options)
    compiled(
        4, **{name: value for name, value in options.items() if name not in caught.value.advice[0].options}
    )


@pytest.mark.parametrize("algorithm", ["gemm", "metakernel"])
@pytest.mark.parametrize("options", [{"block": 4}, {"options": {}}])
def test_options_of_blocks_are_refused_with_other_algorithms(options: dict[str, Any], algorithm: str) -> None:
    (name,) = options
    with pytest.raises(
        cb.ParameterError,
        match=f"algorithm {algorithm} does not take {name}=, .*\n.*the same without .*=",
    ):
        compiled(4, algorithm=algorithm, **options)


def test_a_program_that_needs_slots_has_no_form_by_rows() -> None:
    with pytest.raises(cb.ParameterError, match="no method by rows for product 4x4"):
        cb.compile(lambda a, b: (a @ b) * a, {"a": cb.secret(4, 4), "b": cb.secret(4, 4)}, form="rows")
