"""Whole programs by the reference engine: every method's ciphertexts are those of the processor's, word by word."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import cipherblas as cb
from cipherblas import public, secret
from cipherblas.common.errors import DTypeError, ParameterError
from cipherblas.crypto.params import make_parameters
from cipherblas.engines import registry
from cipherblas.engines.cpu import CpuEngine
from cipherblas.methods.products import ALGORITHMS
from cipherblas.methods.registry import Methods
from tests.support.reference_engine import ReferenceEngine
from tests.support.runs import toy, toy_rows, values_of

pytestmark = pytest.mark.encrypted

NAME, EXACT = "reference", "cpu-exact"
RNG = np.random.default_rng(6)


class ExactEngine(CpuEngine):
    """The processor, on which every product of integers and residues is exact."""

    def multiply_integers(self, integers: Any, x: Any, exact: bool) -> Any:
        return super().multiply_integers(integers, x, True)


@pytest.fixture(scope="module", autouse=True)
def engines() -> Iterator[None]:
    cb.register_engine(NAME, ReferenceEngine)
    cb.register_engine(EXACT, ExactEngine)
    yield
    for name in (NAME, EXACT):
        registry.unregister_engine(name)


def weights(*shape: int) -> Any:
    return RNG.uniform(-1, 1, shape)


def check(program: cb.Program, *, ours: str = EXACT) -> None:
    """The same keys and operands on the reference and on the processor: within the promises of the plan, and equal bit
    for bit unless `ours` is an engine that rounds where it may.
    """
    client, values = program.client(), values_of(program)
    keys, expected = client.evaluation_keys(), program.evaluate(values)
    hidden = {name: values[name] for name, operand in program.operands.items() if operand.secret}
    operands = {**values, **client.encrypt(hidden)}
    results = []
    for engine in (ours, NAME):
        server = program.server(keys, engine=engine)
        result = server.run(operands)
        assert server.last.counts == program.plan.counts
        assert np.abs(client.decrypt(result) - expected).max() <= program.plan.error
        results.append(result)
    one, other = results
    for x, y in zip(one.ciphertexts, other.ciphertexts, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        assert ours != EXACT or np.array_equal(x, y)


class RoughEngine(CpuEngine):
    """The processor, as if its products were off by more than plans count; whoever asks for one is noted."""

    asked: ClassVar[list[bool]] = []

    def gemm_error(self, k: int, largest: float, modulus: float) -> float:
        return 1.0 + super().gemm_error(k, largest, modulus)

    def multiply_integers(self, integers: Any, x: Any, exact: bool) -> Any:
        self.asked.append(exact)
        return super().multiply_integers(integers, x, exact)


def test_an_engine_that_rounds_more_than_was_counted_is_asked_for_exact_products() -> None:
    program = toy_rows(lambda w, a: w @ a, n=64, w=public(5, 8), a=secret(8, 6), error=1e-1)
    client, values = program.client(), values_of(program)
    keys, operands = client.evaluation_keys(), {**values, **client.encrypt({"a": values["a"]})}
    exact = program.server(keys, engine=EXACT).run(operands).ciphertexts
    cb.register_engine("rough", RoughEngine)
    RoughEngine.asked.clear()
    rough = program.server(keys, engine="rough").run(operands).ciphertexts
    registry.unregister_engine("rough")
    assert RoughEngine.asked and all(RoughEngine.asked)
    assert all(np.array_equal(one, other) for one, other in zip(rough, exact, strict=True))


# --- blocks of matrices in slots ---


@pytest.fixture(scope="module")
def small() -> dict[str, Any]:
    """An INSECURE ring below those that `compile` plans for: the reference takes sixteen times as long on 2^12."""
    sizes = [50.0, 50.0, 40.0, 40.0, 40.0]
    parameters = make_parameters(256, sizes, alpha=2, scale_bits=40.0, security=0, insecure=True)
    return {"parameters": parameters, "ring_degree": None}


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.filterwarnings("ignore")
def test_products(name: str, small: dict[str, Any]) -> None:
    a, b = secret(5, 6), secret(6, 4)
    check(toy(lambda a, b: a @ b, a=a, b=b, algorithm=name, **small))
    check(toy(lambda a, b: a @ b, a=a, b=public(6, 4), algorithm=name, **small))


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "another layout": (lambda a: a @ a @ a.T, {"a": secret(4, 4)}),
    "several blocks": (lambda a, b: a @ b, {"a": secret(6, 7), "b": secret(7, 5), "block": 4}),
    "constants and scalars": (
        lambda a: (2.5 - (weights(4, 4) * a) @ weights(4, 3)) / 3 + weights(4, 3),
        {"a": secret(4, 4)},
    ),
    "entrywise": (lambda a, b: (a @ b) * (a - b) - a * a, {"a": secret(4, 4), "b": secret(4, 4)}),
    "composed rotations": (lambda a: a @ a, {"a": secret(4, 4), "key_policy": "composed"}),
    "loops by rotations": (lambda a: a @ a, {"a": secret(4, 4), "key_policy": "binary", "order": "rotation"}),
    "vectors": (lambda x, a: a @ x + x, {"x": secret(4), "a": secret(4, 4)}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_matrices(name: str) -> None:
    function, arguments = PROGRAMS[name]
    check(toy(function, **arguments))


@pytest.mark.filterwarnings("ignore")
def test_features(small: dict[str, Any]) -> None:
    """Clear weights and encrypted ones, more samples than slots."""
    first, second = weights(3, 4), weights(2, 3)
    options = {**small, "form": "features", "precision": 1e-2}
    check(toy(lambda x: second @ cb.square(first @ x), x=secret(4, 130), **options))
    check(toy(lambda w, x: cb.square(x) @ w, w=secret(4, 2), x=secret(9, 4), **options))


# --- tensors in slots ---


@pytest.mark.parametrize("name", sorted(Methods("matvec", "tensors")))
def test_products_of_weights_and_a_vector(name: str) -> None:
    matrix = weights(8, 12)
    check(toy(lambda x: matrix @ x, x=secret(12), algorithm=name, form="tensors"))


@pytest.mark.parametrize("name", sorted(Methods("convolution", "tensors")))
def test_convolutions(name: str) -> None:
    kernel = weights(2, 2, 3, 3)
    check(toy(lambda x: cb.conv2d(x, kernel, padding=1), x=secret(2, 4, 4), algorithm=name))


def test_a_network() -> None:
    """Layers in different packings, polynomials, pooling, weights that are no constants."""
    kernel, bias, dense = weights(3, 2, 3, 3) / 9, weights(3), weights(4, 3 * 2 * 2)

    def network(x: Any, w: Any) -> Any:
        x = cb.polynomial(cb.conv2d(x, kernel, bias, padding=1), [0.1, 0.5, 0.25])
        return cb.matvec(w, cb.square(cb.matvec(dense, cb.flatten(cb.avg_pool2d(x, 2)))))

    check(toy(network, x=secret(2, 4, 4), w=public(2, 4)))


# --- rows in coefficients ---


@pytest.mark.parametrize("key_policy", ["direct", "composed", "binary"])
def test_products_by_rows(key_policy: Any) -> None:
    """Of two secrets: transpositions (C-MT), exact GEMMs and relinearisation."""
    program = toy_rows(
        lambda a, b: a @ b, n=64, key_policy=key_policy, a=secret(3, 20), b=secret(20, 5), error=1e-2
    )
    assert program.plan.keys.relinearise
    check(program)


ROWS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "clear factors on both sides": (
        lambda a, w: 2 * (w @ a) - np.arange(15.0).reshape(5, 3) @ a.T @ a.T,
        {"a": secret(3, 3), "w": public(5, 3, dtype=np.int8)},
    ),
    "fixed weights": (
        lambda a: (np.arange(40) % 7 - 3).reshape(5, 8) @ a,
        {"a": secret(8, 70), "fixed": True},
    ),
    "sums and clear addends": (
        lambda a, b, c: a + (np.arange(9) % 4).reshape(3, 3) @ b - c,
        {"a": secret(3, 3), "b": secret(3, 3), "c": public(3, 3)},
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_programs_by_rows(name: str) -> None:
    function, arguments = ROWS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(toy_rows(function, n=64, **{"error": 1e-1, **arguments}))


def test_rounded_products() -> None:
    """One float64 GEMM whose sums exceed its significand: within the plan's error on both, though not the same."""
    program = toy_rows(lambda a, w: w @ a, n=64, a=secret(40, 9), w=public(5, 40), precision=1e-4)
    assert program.plan.parameters.limbs == 1  # residues of several limbs must belong together
    check(program, ours=registry.CPU)


# --- the registry ---


def test_servers_carry_the_name_of_their_engine() -> None:
    program = toy(lambda a: a @ a, a=secret(4, 4))
    client = program.client()
    server = program.server(client.evaluation_keys(), engine=NAME)
    again = pickle.loads(pickle.dumps(server))
    operands = client.encrypt(values_of(program))
    assert again.run(operands).digest == server.run(operands).digest
    with pytest.raises(
        ParameterError, match=r"no such engine .expected cpu \| reference \| cpu-exact.*, got gone"
    ):
        program.server(client.evaluation_keys(), engine="gone")


@pytest.mark.parametrize("name", ["cpu", "", "Upper", "a b", 3])
def test_names_of_engines(name: Any) -> None:
    with pytest.raises(ParameterError, match="engine cannot have this name"):
        cb.register_engine(name, ReferenceEngine)


def test_engines_are_entered_and_taken_off() -> None:
    with pytest.raises(DTypeError, match="engine is registered by its class"):
        cb.register_engine("other", None)  # type: ignore[arg-type]
    cb.register_engine("other", CpuEngine)
    assert registry.engine_names()[:4] == ["cpu", NAME, EXACT, "other"]
    registry.unregister_engine("other")
    for name in ("other", "cpu"):
        with pytest.raises(ParameterError, match="No engine of this name was registered"):
            registry.unregister_engine(name)


def test_engines_share_no_encodings() -> None:
    """What one has encoded the other cannot read."""
    program = toy(lambda a: a @ a, a=secret(4, 4), algorithm="skewed")
    keys = program.client().evaluation_keys()
    ours, theirs = (program.server(keys, engine=engine) for engine in (registry.CPU, NAME))
    assert ours._equipment.encodings.masks is not theirs._equipment.encodings.masks
    assert ours._equipment.encodings.masks is program.server(keys)._equipment.encodings.masks
