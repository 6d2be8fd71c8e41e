"""Programs with several results: on real ciphertexts, in all forms, and what plans, files and copies say of them."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto import files
from cipherblas.lang import graph
from tests.support.file_mutations import with_identity
from tests.support.runs import (
    Parties,
    encrypted,
    listed,
    program_of,
    run,
    run_by_files,
    toy,
    toy_rows,
    values_of,
)

S, P = cb.secret, cb.public
RANDOM = np.random.default_rng(11)
W1, W2 = RANDOM.uniform(-1, 1, (6, 10)), RANDOM.uniform(-1, 1, (3, 10))
HIDDEN = RANDOM.uniform(-0.3, 0.3, (10, 8))
FILTERS = RANDOM.uniform(-0.5, 0.5, (2, 1, 3, 3))


def heads(x: Any) -> dict[str, Any]:
    """Two heads of a network on one hidden value."""
    hidden = cb.square(HIDDEN @ x)
    return {"classes": W1 @ hidden, "where": W2 @ hidden}


def image_heads(x: Any) -> tuple[Any, ...]:
    """Results of different shapes, at different depths."""
    features = cb.square(cb.conv2d(x, FILTERS))
    return features, cb.avg_pool2d(features, 2), RANDOM_HEAD @ cb.flatten(features)


RANDOM_HEAD = RANDOM.uniform(-0.1, 0.1, (4, 72))
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "least squares": (lambda x, y: {"gram": x.T @ x, "moment": x.T @ y}, {"x": S(20, 3), "y": S(20)}),
    "of one": (lambda a, b: (a @ b,), {"a": S(5, 6), "b": S(6, 4)}),
    "of one by name": (lambda a, b: {"c": a @ b}, {"a": S(5, 6), "b": S(6, 4)}),
    "a result of another one": (
        lambda a, b, c: (a @ b, (a @ b) @ c),
        {"a": S(6, 5), "b": S(5, 4), "c": S(4, 7)},
    ),
    "the deeper one first": (
        lambda a, b, c: [(a @ b) @ c, a @ b],
        {"a": S(6, 5), "b": S(5, 4), "c": S(4, 7)},
    ),
    "transposed": (lambda a, b: (a @ b, (a @ b).T, b.T @ a.T), {"a": S(5, 6), "b": S(6, 4)}),
    "the same twice": (lambda a, b: {"one": a @ b, "two": a @ b}, {"a": S(5, 6), "b": S(6, 4)}),
    "up to a factor": (lambda a, b: (a @ b, -3.5 * (a @ b)), {"a": S(5, 6), "b": S(6, 4)}),
    "with an operand": (lambda a, b: (a, a @ b, a + 1), {"a": S(5, 6), "b": S(6, 4)}),
    "sums and products of entries": (lambda a, b: (a + b, a * b, a - 2 * b), {"a": S(5, 6), "b": S(5, 6)}),
    "of different shapes": (lambda a, b: (a * a, b + 1), {"a": S(30, 40), "b": S(3, 5)}),
    "without anything in common": (lambda a, b: (a @ W1.T, b * b), {"a": S(4, 10), "b": S(3, 3)}),
    "numbers": (lambda x, y: {"xy": x @ y, "xx": x @ x, "both": x + y}, {"x": S(9), "y": S(9)}),
    "ranges that differ": (
        lambda a, b: (a @ b, a, b.T @ b),
        {"a": S(5, 6, bound=1e-6), "b": S(6, 4, bound=2000.0)},
    ),
    "four deep": (
        lambda a: {f"p{n}": cb.assume(a, 1.0) @ a if n == 1 else _power(a, n) for n in (1, 2, 3)},
        {"a": S(4, 4, bound=0.25)},
    ),
    "by public key": (
        lambda x, y: {"gram": x.T @ x, "moment": x.T @ y},
        {"x": S(12, 3, encryption="public-key"), "y": S(12)},
    ),
    "extreme bounds": (
        lambda a, b: (a @ b, a, b * b, 2.0**500 * (a @ b)),
        {"a": S(5, 6, bound=2.0**-560), "b": S(6, 6, bound=2.0**100)},
    ),
    "clear factors": (lambda a, w: (w @ a, a @ w, w + a), {"a": S(6, 6), "w": P(6, 6)}),
}


def _power(a: Any, n: int) -> Any:
    return a if n == 0 else _power(a, n - 1) @ a


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_result_is_as_near_as_promised(name: str) -> None:
    function, operands = PROGRAMS[name]
    found = encrypted(function, **operands).check()
    assert found.program.plan.form in ("blocks", "tensors", "rows")
    sizes = [one.nbytes for one in found.program.plan.results]
    assert sum(sizes) == found.program.plan.result_bytes


@pytest.mark.parametrize(("function", "operands"), [(heads, {"x": S(8)}), (image_heads, {"x": S(1, 8, 8)})])
def test_heads_of_a_network(function: Any, operands: Any) -> None:
    found = encrypted(function, **operands).check()
    assert found.program.plan.form == "tensors"
    assert sum(node.title.startswith("square") for node in found.program.plan.nodes) == 1  # computed once


ROWS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "least squares": (lambda x, y: {"gram": x.T @ x, "moment": x.T @ y}, {"x": S(20, 3), "y": S(20, 1)}),
    "a result of another one": (
        lambda a, b, c: (a @ b, (a @ b) @ c),
        {"a": S(6, 5), "b": S(5, 4), "c": S(4, 7)},
    ),
    "rows and columns": (lambda a, w: (w @ a, a @ w, w @ a + a), {"a": S(6, 6), "w": P(6, 6)}),
    "transposed": (lambda a, b: (a @ b, (a @ b).T), {"a": S(5, 6), "b": S(6, 4)}),
    "constants": (lambda a: (W1 @ a, W2 @ a, -a), {"a": S(10, 4)}),
}


@pytest.mark.parametrize("name", ROWS)
def test_by_rows(name: str) -> None:
    function, operands = ROWS[name]
    program = toy_rows(function, **operands)
    run(program, values_of(program)).check()


def test_fixed_weights_of_two_results_have_keys_of_their_own() -> None:
    program = toy_rows(lambda a: (W1 @ a, W2 @ a), fixed=True, a=S(10, 4))
    assert len(program.fixed_factors) == 2
    run(program, values_of(program)).check()


def test_what_results_share_is_sent_and_computed_once() -> None:
    operands = {"a": S(40, 8), "b": S(8, 30), "c": S(30, 5)}
    both = program_of(lambda a, b, c: (a @ b, (a @ b) @ c), **operands)
    deep = program_of(lambda a, b, c: (a @ b) @ c, **operands)
    assert sum(node.title.startswith("product") for node in both.plan.nodes) == 2
    assert [len(both.inputs_of(name)) for name in operands] == [1, 1, 1]
    assert both.plan.counts.products <= 2 * deep.plan.counts.products
    by_rows = toy_rows(lambda a, b, c: (a @ b, (a @ b) @ c), **operands)
    assert [len(by_rows.inputs_of(name)) for name in operands] == [1, 1, 1]
    assert sum(node.title.startswith("product") for node in by_rows.plan.nodes) == 2


def test_a_factor_of_products_of_other_widths_is_sent_once() -> None:
    program = program_of(lambda x, y: (x.T @ x, x.T @ y), x=S(100, 5), y=S(100), algorithm="skewed")
    assert program.plan.form == "blocks"
    # As the left factor of both products, and as the right one of the first.
    assert [one.transposed for one in program.inputs_of("x")] == [True, False]
    assert program.plan.blocks["y.cols"] == program.plan.blocks["x.cols"] == 5
    by_rows = program_of(lambda x, y: (x.T @ x, x.T @ y), x=S(100, 5), y=S(100), form="rows")
    assert [one.form.by_columns for one in by_rows.inputs_of("x")] == [True, False]


def test_shallow_results_are_sent_with_no_more_limbs_than_they_need() -> None:
    """Four products deep: the others have limbs left over, which nobody reads."""
    program = program_of(lambda a: (a @ a, _power(a, 4), a + 1), a=S(4, 4, bound=0.5), form="blocks")
    limbs = [output.limbs for output in program.outputs]
    top = program.plan.parameters.limbs
    assert program.plan.levels >= 2 and max(limbs) <= top - program.plan.levels + 1
    q = program.plan.parameters.q
    for output, node in zip(program.outputs, program.results, strict=True):
        needed = math.log2(abs(output.scale) * node.bound)
        assert needed + 1 < math.fsum(map(math.log2, q[: output.limbs]))
    run(program, values_of(program)).check()


# --- precision ---


def test_precision_is_relative_to_the_bound_of_each_result() -> None:
    operands = {"a": S(8, 8, bound=100.0), "b": S(8, 8, bound=0.01)}
    program = program_of(lambda a, b: {"big": a @ a, "small": b @ b}, precision=1e-5, **operands)
    figures = {one.label: one for one in program.plan.results}
    assert figures["big"].bound == 8e4 and figures["small"].bound == pytest.approx(8e-4)
    for one in figures.values():
        assert one.target == pytest.approx(1e-5 * one.bound) and one.error <= one.target
    run(program, values_of(program)).check()


@pytest.mark.parametrize("error", [{"big": 10.0, "small": 1e-7}, {"small": 1e-7, "big": 10.0}, 2e-4])
def test_absolute_errors_are_of_each_result(error: Any, tmp_path: Path) -> None:
    operands = {"a": S(8, 8, bound=100.0), "b": S(8, 8, bound=0.01)}
    program = program_of(lambda a, b: {"big": a @ a, "small": b @ b}, error=error, **operands)
    asked = [error["big"], error["small"]] if isinstance(error, dict) else [error, error]
    assert [one.target for one in program.plan.results] == asked
    assert program.plan.precision == min(asked[0] / 8e4, asked[1] / program.results[1].bound)
    run(program, values_of(program)).check()
    program.save(tmp_path / "program")
    loaded = cb.Program.load(tmp_path / "program")
    assert (loaded.id, loaded.plan) == (program.id, program.plan)
    text = program.explain()
    assert f"asked: {asked[1]:.2g} by error={asked[1]:.2g}" in text


def test_absolute_errors_of_a_tuple() -> None:
    program = program_of(lambda a, b: (a @ b, b @ a), a=S(4, 6), b=S(6, 4), error=(1e-3, 1e-5))
    assert [one.target for one in program.plan.results] == [1e-3, 1e-5]
    assert program.plan.asked_error == (1e-3, 1e-5)
    run(program, values_of(program)).check()


@pytest.mark.parametrize(
    ("error", "kind", "word"),
    [
        ({"c": 1e-3}, cb.ParameterError, "errors must be arranged as the results"),
        ((1e-3,), cb.ParameterError, "errors must be arranged as the results"),
        ({"0": 1e-3, "1": 1e-3}, cb.ParameterError, "errors must be arranged as the results"),
        ((1e-3, 7.0), cb.PrecisionError, "bound 6 of the result 1"),
        ((1e-3, -1), cb.PrecisionError, "a positive number"),
        ((1e-3, "x"), cb.DTypeError, "a number"),
        ("x", cb.DTypeError, "a number"),
    ],
)
def test_errors_that_do_not_fit(error: Any, kind: type[Exception], word: str) -> None:
    with pytest.raises(kind, match=word):
        program_of(lambda a, b: (a @ b, a @ b + 0), a=S(4, 6), b=S(6, 4), error=error)


def test_one_result_has_one_error() -> None:
    with pytest.raises(cb.ParameterError, match="error of the only result must be a number"):
        program_of(lambda a, b: a @ b, a=S(4, 6), b=S(6, 4), error={"c": 1e-3})


def test_terms_are_left_out_where_no_result_shows_them() -> None:
    """x + tiny·x² loses its square, but not where the square is a result by itself, or is enlarged in another one."""

    def curve(x: Any) -> Any:
        return x + 1e-8 * (x * x)

    alone = program_of(lambda x: (curve(x), 2 * x), x=S(4, 4))
    assert alone.plan.counts.products == 0
    run(alone, values_of(alone)).check()
    shown = program_of(lambda x: (curve(x), 1e4 * cb.assume(curve(x) - x, 1e-4)), x=S(4, 4))
    assert shown.plan.counts.products > 0 and "truncated" not in graph.formula(shown.expression)


# --- what is printed, stored and copied ---


@pytest.fixture(scope="module")
def squares() -> cb.Program:
    return cb.compile(lambda x, y: {"gram": x.T @ x, "moment": x.T @ y}, {"x": S(20, 3), "y": S(20)})


def test_explain_names_every_result(squares: cb.Program) -> None:
    lines = [line for line in squares.explain().splitlines() if line.startswith("expected error")]
    assert len(lines) == 2
    assert "gram 3x3 up to 20" in lines[0] and "moment 3 up to 20" in lines[1]
    assert all("(asked: 0.002 by precision=0.0001)" in line for line in lines)
    assert squares.explain().startswith("program           gram = x.T @ x; moment = x.T @ y\n")
    assert squares.shape == {"gram": (3, 3), "moment": (3,)}
    assert squares.plan.to_dict()["results"][1]["label"] == "moment"


def test_by_files(squares: cb.Program, tmp_path: Path) -> None:
    values = values_of(squares)
    found = run_by_files(squares, values, tmp_path).check()
    solution = np.linalg.solve(found.decrypted["gram"], found.decrypted["moment"])
    expected = np.linalg.lstsq(values["x"], values["y"], rcond=None)[0]
    assert np.abs(solution - expected).max() < 1e-3


@pytest.mark.parametrize("name", ["of one", "numbers", "the same twice"])
def test_others_by_files(name: str, tmp_path: Path) -> None:
    function, operands = PROGRAMS[name]
    program = program_of(function, **operands)
    run_by_files(program, values_of(program), tmp_path).check()


def test_by_rows_by_files(tmp_path: Path) -> None:
    function, operands = ROWS["rows and columns"]
    program = toy_rows(function, **operands)
    run_by_files(program, values_of(program), tmp_path).check()


def test_names_and_order_are_part_of_the_identity() -> None:
    operands = {"a": S(4, 4), "b": S(4, 4)}
    functions: list[Callable[..., Any]] = [
        lambda a, b: a @ b,
        lambda a, b: (a @ b,),
        lambda a, b: {"c": a @ b},
        lambda a, b: {"d": a @ b},
        lambda a, b: (a @ b, b @ a),
        lambda a, b: (b @ a, a @ b),
        lambda a, b: {"c": a @ b, "d": b @ a},
        lambda a, b: {"d": b @ a, "c": a @ b},
    ]
    programs = [program_of(function, **operands) for function in functions]
    assert len({program.id for program in programs}) == len(programs)
    again = program_of(lambda a, b: [a @ b, b @ a], **operands)  # a list is a tuple
    assert again.id == programs[4].id


def test_copies(squares: cb.Program) -> None:
    again = pickle.loads(pickle.dumps(squares))
    assert (again.id, again.shape, again.plan) == (squares.id, squares.shape, squares.plan)
    parties = Parties(squares)
    result = parties.server.run(parties.inputs(values_of(squares)))
    copied = pickle.loads(pickle.dumps(result))
    assert copied.shape == result.shape and copied.parts == result.parts and copied.digest == result.digest
    found, expected = parties.client.decrypt(copied), squares.evaluate(values_of(squares))
    for label, figures in zip(squares.labels, squares.plan.results, strict=True):
        assert np.abs(found[label] - expected[label]).max() <= figures.error
    assert result.nbytes == squares.plan.result_bytes


def test_results_that_are_no_results_of_the_program(squares: cb.Program) -> None:
    parties = Parties(squares)
    result = parties.server.run(parties.inputs(values_of(squares)))
    with pytest.raises(cb.ShapeError, match="another number of parts"):
        dataclasses.replace(result, parts=(1, 2, 3))
    with pytest.raises(cb.ShapeError, match="another number of results"):
        parties.client.decrypt(dataclasses.replace(result, parts=(), shape=(3, 3)))
    one = dataclasses.replace(
        result,
        parts=result.parts[:1],
        shape={"gram": (3, 3)},
        ciphertexts=result.ciphertexts[: result.parts[0]],
    )
    with pytest.raises(cb.ShapeError, match="another number of results"):
        parties.client.decrypt(one)
    count = len(result.ciphertexts)
    if count > 2 or result.parts != (1, 1):
        uneven = (result.parts[0] + 1, result.parts[1] - 1)
        with pytest.raises(cb.ShapeError, match="ciphertexts of the result"):
            parties.client.decrypt(dataclasses.replace(result, parts=uneven))


# --- files that somebody else made ---


def rewritten(path: Path, kind: str, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
    """A file with another header and other tensors, under a right checksum."""
    with files.Reader(path, kind) as reader:
        header, tensors, parameters = dict(reader.header), dict(reader.read_all()), reader.parameters
    header = copy.deepcopy({name: header[name] for name in header if name != "parameters"})
    change(header, tensors)
    files.write(path, kind, header, tensors, parameters=parameters)


def _results(header: dict[str, Any]) -> dict[str, Any]:
    row = header["graph"][-1]
    assert row["op"] == "results"
    return row


HOSTILE_PROGRAMS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "no results": lambda h, t: _results(h).update(of=[], labels=[]),
    "no names": lambda h, t: _results(h).pop("labels"),
    "too few names": lambda h, t: _results(h).update(labels=["gram"]),
    "equal names": lambda h, t: _results(h).update(labels=["gram", "gram"]),
    "a name that is no name": lambda h, t: _results(h).update(labels=["gram", "\x1b[31m"]),
    "a name that is a number": lambda h, t: _results(h).update(labels=["gram", 3]),
    "names in a string": lambda h, t: _results(h).update(labels="ab"),
    "too many results": lambda h, t: _results(h).update(of=[1] * 257, labels=None),
    "results of nothing": lambda h, t: _results(h).update(of=[99, 1]),
    "results of themselves": lambda h, t: _results(h).update(of=[len(h["graph"]) - 1, 1]),
    "results within results": lambda h, t: h["graph"].append(
        {"op": "results", "labels": None, "of": [len(h["graph"]) - 1]}
    ),
    "something of results": lambda h, t: h["graph"].append(
        {"op": "scale", "factor": 2.0, "of": [len(h["graph"]) - 1]}
    ),
    "results in the middle": lambda h, t: h["graph"].append(dict(h["graph"][-2])),
    "errors of three": lambda h, t: h["decisions"].update(asked_error=[1.0, 1.0, 1.0]),
    "errors of none": lambda h, t: h["decisions"].update(asked_error=[]),
    "errors that are another precision": lambda h, t: h["decisions"].update(asked_error=[1.0, 1e-9]),
    "errors that are text": lambda h, t: h["decisions"].update(asked_error=["1", "1"]),
}


@pytest.mark.parametrize("name", HOSTILE_PROGRAMS)
def test_hostile_programs(squares: cb.Program, tmp_path: Path, name: str) -> None:
    path = tmp_path / "program"
    squares.save(path)
    rewritten(path, "program", HOSTILE_PROGRAMS[name])
    with pytest.raises((cb.FormatError, cb.ParameterError)):
        cb.Program.load(path)


def test_a_program_that_asks_for_no_error_at_all(squares: cb.Program, tmp_path: Path) -> None:
    """Nothing divides by the error that a file says was asked for."""
    path = tmp_path / "program"
    squares.save(path)
    rewritten(path, "program", lambda h, t: h["decisions"].update(asked_error=[0, 0], precision=0.0))
    right = with_identity(path.read_bytes())
    assert right is not None
    path.write_bytes(right)
    assert cb.Program.load(path).explain().count("NOT reached") == 2


def test_another_order_of_results_is_another_program(squares: cb.Program, tmp_path: Path) -> None:
    path = tmp_path / "program"
    squares.save(path)
    rewritten(path, "program", lambda h, t: _results(h).update(labels=["moment", "gram"]))
    with pytest.raises(cb.MismatchError, match="not the one that its file names"):
        cb.Program.load(path)


HOSTILE_RESULTS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "too few names": lambda h, t: h.update(labels=["gram"]),
    "equal names": lambda h, t: h.update(labels=["gram", "gram"]),
    "other names": lambda h, t: h.update(labels=["gram", "other"]),
    "a name that is no name": lambda h, t: h.update(labels=["gram", "\x1b[31m"]),
    "names that are numbers": lambda h, t: h.update(labels=[1, 2]),
    "no names": lambda h, t: h.pop("labels"),
    "names of one": lambda h, t: h.update(shape=[3, 3]),
    "a shape that is negative": lambda h, t: h.update(shape=[[3, 3], [-3]]),
    "a shape by name": lambda h, t: h.update(shape={"gram": [3, 3], "moment": [3]}),
    "no shapes": lambda h, t: h.update(shape=[], labels=[]),
    "a shape that is a number": lambda h, t: h.update(shape=[[3, 3], 3]),
    "one missing": lambda h, t: t.pop("result.moment"),
    "one more": lambda h, t: t.update({"result.other": t["result.gram"]}),
    "of another type": lambda h, t: t.update({"result.gram": t["result.gram"].astype(np.int64)}),
    "of other dimensions": lambda h, t: t.update({"result.gram": t["result.gram"][0]}),
}


@pytest.mark.parametrize("name", HOSTILE_RESULTS)
def test_hostile_results(squares: cb.Program, tmp_path: Path, name: str) -> None:
    parties, path = Parties(squares), tmp_path / "result"
    parties.server.run(parties.inputs(values_of(squares))).save(path)
    rewritten(path, "ciphertext", HOSTILE_RESULTS[name])
    with pytest.raises(cb.FormatError):
        cb.EncryptedResult.load(path)


def test_ciphertexts_of_other_results_are_refused(squares: cb.Program, tmp_path: Path) -> None:
    """Well-formed, and not what was planned."""
    parties, path = Parties(squares), tmp_path / "result"
    parties.server.run(parties.inputs(values_of(squares))).save(path)
    rewritten(
        path, "ciphertext", lambda h, t: t.update({"result.gram": np.repeat(t["result.gram"], 2, axis=0)})
    )
    with pytest.raises(cb.ShapeError, match="ciphertexts of the result"):
        parties.client.decrypt(cb.EncryptedResult.load(path))


# --- sharing ---


def test_shared_results_have_noise_by_their_own_errors() -> None:
    program = program_of(
        lambda a, b: {"big": a @ b, "small": b @ b},
        precision=1e-10,
        a=S(4, 4, bound=100.0),
        b=S(4, 4),
        form="blocks",
    )
    share = cb.Sharing(entries=40)
    worst, sigma = program.worst_error, share.deviation(program)
    assert set(worst) == set(sigma) == {"big", "small"}
    for figures in program.plan.results:
        assert worst[figures.label] >= figures.error
        expected = math.sqrt(24 * 40) * 2**15 * worst[figures.label]
        assert sigma[figures.label] == pytest.approx(expected)
    assert sigma["big"] > 10 * sigma["small"]
    parties, values = Parties(program), values_of(program)
    result = parties.server.run(parties.inputs(values))
    found, expected = parties.client.decrypt(result, share=share), program.evaluate(values)
    for label in found:
        error = np.abs(found[label] - expected[label]).max()
        assert sigma[label] / 20 < error < 10 * sigma[label]
    with pytest.raises(cb.SecurityError, match="shared before"):
        parties.client.decrypt(result, share=share)
    other = parties.server.run(parties.inputs(values))
    with pytest.raises(cb.SecurityError, match="at most 8 of 40 entries, got 32"):
        parties.client.decrypt(other, share=share)


def test_toy_rings_and_random_programs() -> None:
    """Random programs of several results against NumPy, in blocks of a small ring."""
    random = np.random.default_rng(5)
    for number in range(4):
        m, k, n = (int(length) for length in random.integers(2, 9, 3))

        def function(a: Any, b: Any, number: int = number) -> Any:
            c = a @ b
            found = [c, 2 * c - 1, a.T @ c, c @ b.T + a, c * c, b]
            kept = [found[place] for place in np.random.default_rng(number).permutation(6)[:3]]
            return [*kept, c]

        program = toy(function, a=S(m, k), b=S(k, n), form="blocks", ring_degree=1 << 13)
        found = run(program, values_of(program, number)).check()
        assert len(listed(program, found.decrypted)) == 4
