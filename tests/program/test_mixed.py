"""Programs of several forms: products on encrypted rows, entrywise products on slots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto.params import make_parameters
from cipherblas.planner.search import mixed
from tests.support.foreign_files import forge
from tests.support.runs import run, toy, values_of

INSECURE: dict[str, Any] = {"form": "mixed", "insecure": True, "security": 0, "ring_degree": 4096}
RNG = np.random.default_rng(7)


def uniform(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.uniform(-1, 1, shape)


A, B, BIAS, TALL = uniform(20, 30), uniform(5, 20), uniform(20, 24), uniform(24, 9)
SQUARE = uniform(24, 24)

PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, ...]]]] = {
    "network": (lambda X: B @ cb.square(A @ X), {"X": (30, 24)}),
    "sum in slots": (lambda X, Y: (A @ X) * (A @ X) + Y, {"X": (30, 24), "Y": (20, 24)}),
    "sums in rows": (
        lambda X, Y, Z: B @ (cb.square(A @ X) + Y) - 3.0 * Z,
        {"X": (30, 24), "Y": (20, 24), "Z": (5, 24)},
    ),
    "clear sums": (lambda X: B @ (0.5 * cb.square(A @ X + BIAS) - BIAS) + BIAS[:5], {"X": (30, 24)}),
    "columns": (lambda X: cb.square(X @ A.T) @ B.T, {"X": (24, 30)}),
    "turned": (lambda X: cb.square(A @ X) @ TALL, {"X": (30, 24)}),
    "chain": (
        lambda X: TALL[:3, :5] @ (0.1 * cb.square(B @ (0.1 * cb.square(A @ X)))),
        {"X": (30, 8)},
    ),
    "both ways packed": (lambda X: SQUARE @ ((SQUARE @ X) * X), {"X": (24, 10)}),
    "column": (lambda X: B @ cb.square(A @ X), {"X": (30, 1)}),
    "vector": (lambda x: B @ cb.square(A @ x), {"x": (30,)}),
    "packed product": (lambda X, Y: B @ ((A @ X) * Y), {"X": (30, 16), "Y": (20, 16)}),
    # Terms by rows that were in slots, each at a scale of its own: of other ranges, weights, depths and orientations.
    "sum of products": (
        lambda X: B @ cb.square(A @ X) + (0.01 * B[::-1]) @ cb.square(7 * (A @ X) + BIAS),
        {"X": (30, 24)},
    ),
    "difference of depths": (
        lambda X: 0.1 * (TALL[:20, :5] @ (B @ cb.square(A @ X))) - 1e-3 * cb.square(A[::-1] @ X),
        {"X": (30, 24)},
    ),
    "sum with what was not in slots": (
        lambda X, Y: B @ (A @ Y) + B @ cb.square(A @ X),
        {"X": (30, 24), "Y": (30, 24)},
    ),
    "sum of columns and rows": (
        lambda X: cb.square(A @ X) @ SQUARE + SQUARE[:20, :5] @ (B @ cb.square(A @ X)),
        {"X": (30, 24)},
    ),
}


# Whose products of squares the planner has in place; all products by rows is another plan.
LAYOUT_PRESERVING = (
    *("network", "sums in rows", "clear sums", "columns", "chain", "packed product"),
    *("sum of products", "difference of depths"),
)
TRANSPOSED = ("turned", "sum of columns and rows")


def ran(program: cb.Program, values: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The decrypted result; counts are those of the plan."""
    client = program.client()
    server = program.server(client.evaluation_keys())
    result = client.decrypt(server.run(client.encrypt(values)))
    assert server.last.counts == program.plan.counts
    return result


@pytest.fixture
def by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No product is in place."""
    monkeypatch.setattr(mixed, "may_preserve_layout", lambda node: False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYOUT_PRESERVING)
def test_all_products_by_rows(name: str, by_rows: None) -> None:
    test_against_numpy(name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_numpy(name: str) -> None:
    function, shapes = PROGRAMS[name]
    options = {**INSECURE, "key_policy": "composed" if name == "turned" else "direct"}
    if name in TRANSPOSED:  # N key switches and more, each time: on an INSECURE small ring
        small = make_parameters(
            1 << 10, [50.0, *[40.0] * 11], alpha=4, scale_bits=40.0, security=0, insecure=True
        )
        options |= {"parameters": small, "ring_degree": None}
    program = cb.compile(function, {key: cb.secret(*shape) for key, shape in shapes.items()}, **options)
    assert len(program.plan.decided.every_form) == 2
    values = {key: uniform(*shape) for key, shape in shapes.items()}
    for key in values:
        values[key].flat[::7] = 0
        values[key].flat[0] = 1
    found = ran(program, values)
    error = np.abs(found - program.evaluate(values)).max()
    assert error < program.plan.error <= program.plan.error_target
    assert program.plan.error < program.worst_error


SECRETS: dict[str, Callable[..., Any]] = {
    "product": lambda q, k, v: ((q @ k.T) * (q @ k.T)) @ v,
    "sum of products": lambda q, k, v: (
        cb.square(q @ k.T) @ v - 3.0 * (A[:12, :6] @ cb.square(A[:6, :10] @ v))
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SECRETS)
def test_products_of_secrets(name: str) -> None:
    """Scores of a secret query and key, squared, times values: two transpositions each side of the slots.

    A transposition has N key switches and as many keys: on an INSECURE tiny ring.
    """
    shapes = {"q": (12, 6), "k": (10, 6), "v": (10, 5)}
    operands = {key: cb.secret(*shape) for key, shape in shapes.items()}
    tiny = make_parameters(128, [50.0, *[40.0] * 11], alpha=4, scale_bits=40.0, security=0, insecure=True)
    options = {"form": "mixed", "insecure": True, "security": 0, "parameters": tiny}
    program = cb.compile(SECRETS[name], operands, **options)
    assert set(program.plan.decided.every_form) == {"rows", "blocks"}
    values = {key: uniform(*shape) for key, shape in shapes.items()}
    error = np.abs(ran(program, values) - program.evaluate(values)).max()
    assert error < program.plan.error


@pytest.mark.filterwarnings("ignore")
def test_public_key() -> None:
    operands = {"X": cb.secret(30, 24, encryption="public-key")}
    program = cb.compile(PROGRAMS["network"][0], operands, **INSECURE)
    client, X = program.client(), uniform(30, 24)
    server = program.server(client.evaluation_keys())
    sent = program.encryptor(client.public_key()).encrypt({"X": X})
    found = client.decrypt(server.run(sent), of=sent)
    assert np.abs(found - program.evaluate({"X": X})).max() < program.plan.error


@pytest.mark.filterwarnings("ignore")
def test_files(tmp_path: Path, by_rows: None) -> None:
    program = cb.compile(
        PROGRAMS["sums in rows"][0],
        {"X": cb.secret(30, 24), "Y": cb.secret(20, 24), "Z": cb.secret(5, 24)},
        **INSECURE,
    )
    program.save(tmp_path / "program")
    loaded = cb.Program.load(tmp_path / "program", insecure=True, security=0)
    assert (loaded.id, loaded.plan.decided) == (program.id, program.plan.decided)
    client = loaded.client()
    values = {"X": uniform(30, 24), "Y": uniform(20, 24), "Z": uniform(5, 24)}
    for name, operand in client.encrypt(values).items():
        operand.save(tmp_path / name)
    sent = {name: cb.EncryptedOperand.load(tmp_path / name, insecure=True, security=0) for name in values}
    server = loaded.server(client.evaluation_keys())
    server.run(sent).save(tmp_path / "result")
    result = cb.EncryptedResult.load(tmp_path / "result", insecure=True, security=0)
    assert np.abs(client.decrypt(result) - program.evaluate(values)).max() < program.plan.error


@pytest.mark.filterwarnings("ignore")
def test_explained(by_rows: None) -> None:
    program = cb.compile(PROGRAMS["network"][0], {"X": cb.secret(30, 24)}, **INSECURE)
    text = program.explain()
    assert "nodes:" in text
    for form in (" rows ", " blocks ", "rows to blocks", "blocks to rows"):
        assert form in text, form
    assert "2 stages" in text


@pytest.mark.filterwarnings("ignore")
def test_a_product_in_place_by_decision(tmp_path: Path, by_rows: None) -> None:
    """A file may decide it where the planner would not: the plan is another one, and right."""
    program = cb.compile(PROGRAMS["network"][0], {"X": cb.secret(30, 24)}, **INSECURE)
    program.save(tmp_path / "good")
    decided = program.plan.decisions()
    (square,), last = decided["forms"], max(decided["choices"], key=int)

    def change(header: dict[str, Any]) -> None:
        header["decisions"]["forms"][last] = "blocks"
        header["decisions"]["choices"][last] = {"method": "in place", "options": {}}
        del header["decisions"]["crossings"][square]

    forge(tmp_path / "good", tmp_path / "other", change)
    other = cb.Program.load(tmp_path / "other", insecure=True, security=0)
    assert other.plan.levels < program.plan.levels
    values = {"X": uniform(30, 24)}
    assert np.abs(ran(other, values) - program.evaluate(values)).max() < other.plan.error


@pytest.mark.filterwarnings("ignore")
def test_hostile_decisions(tmp_path: Path, by_rows: None) -> None:
    """Of forms and conversions that nothing asks for, that nothing knows, or that cannot be; each has a typed error."""
    program = cb.compile(PROGRAMS["network"][0], {"X": cb.secret(30, 24)}, **INSECURE)
    program.save(tmp_path / "good")
    decided = program.plan.decisions()
    (square,), last = decided["forms"], len(program.plan.nodes) + 1
    (product, _), (_, packed) = decided["crossings"], ("", "0")
    last_product, in_place = max(decided["choices"], key=int), {"method": "in place", "options": {}}
    hostile: list[dict[str, Any]] = [
        {"forms": {square: "tensors"}},
        {"forms": {square: "anything"}},
        {"forms": {square: 3}},
        {"forms": {square: "blocks", "-1": "blocks"}},
        {"forms": {square: "blocks", "99": "blocks"}},
        {"forms": {square: "blocks", packed: "blocks"}},
        {"forms": {square: "blocks", product: "rows"}},
        {"forms": {square: "blocks", product: "blocks"}},
        {"forms": {square: "blocks", str(last): "blocks"}},
        {"forms": {square: "rows"}},
        {"forms": {}},
        {"form": "blocks"},
        {"form": "tensors"},
        {"crossings": {**decided["crossings"], "99": {"stages": 1}}},
        {"crossings": {**decided["crossings"], packed: {}}},
        {"crossings": {product: {"stages": 0}}},
        {"crossings": {product: {"stages": 2.5}}},
        {"crossings": {product: {"stages": 5}}},
        {"crossings": {product: {"rescales": 3}}},
        {"crossings": {product: {"rescales": -1}}},
        {"crossings": {product: {"speed": 3}}},
        {"crossings": {product: {"stages": 4, "rescales": 2}, square: {"stages": 4}}},
        {"crossings": [1]},
        {"blocks": {}},
        {"choices": {}},
        # Products in place: by rows, of what the client packs, and with options.
        {"choices": {**decided["choices"], last_product: in_place}},
        {
            "choices": {**decided["choices"], product: in_place},
            "forms": {square: "blocks", product: "blocks"},
        },
        {
            "choices": {**decided["choices"], last_product: {**in_place, "options": {"baby_steps": 2}}},
            "forms": {square: "blocks", last_product: "blocks"},
        },
    ]
    for number, change in enumerate(hostile):
        forge(
            tmp_path / "good",
            tmp_path / "bad",
            lambda header, change=change: header["decisions"].update(change),
        )
        with pytest.raises(cb.CipherblasError) as caught:
            cb.Program.load(tmp_path / "bad", insecure=True, security=0)
        assert not isinstance(caught.value, cb.MismatchError), (number, change, caught.value)


def test_refused() -> None:
    with pytest.raises(cb.ParameterError, match="several forms"):
        cb.compile(lambda X: A @ X, {"X": cb.secret(30, 24)}, form="mixed")
    with pytest.raises(cb.ParameterError, match="several forms"):
        cb.compile(lambda X: cb.square(X), {"X": cb.secret(30, 24)}, form="mixed")


@pytest.mark.filterwarnings("ignore")
def test_several_results() -> None:
    """In rows, in slots, and by rows again: each within its own error."""

    def function(X: Any) -> dict[str, Any]:
        hidden = A @ X
        return {"hidden": hidden, "squared": cb.square(hidden), "out": B @ cb.square(hidden)}

    program = cb.compile(function, {"X": cb.secret(30, 24)}, **INSECURE)
    assert set(program.plan.decided.every_form) == {"rows", "blocks"}
    values = {"X": np.sign(uniform(30, 24))}
    found, expected = ran(program, values), program.evaluate(values)
    for figures in program.plan.results:
        assert np.abs(found[figures.label] - expected[figures.label]).max() < figures.error  # type: ignore[call-overload]


def test_a_product_beside_a_function_of_zeros() -> None:
    """A variance of one entry is zero: the program is counted in rings of which nothing is known yet."""
    coefficients = [0.657, -0.005, 0.508, 0.161, 0.314, 0.854]
    program = toy(
        lambda x, y: (y @ y, cb.polynomial(x.var(axis=-1), coefficients)),
        x=cb.secret(1, 1),
        y=cb.secret(2, 2),
    )
    run(program, values_of(program)).check()
