"""Random programs of integers modulo t, and of exact integers, from a number each; Python's integers compute them too.

The lines are those of `tests.support.random_programs` that hold for integers. t is any prime that has slots in a toy
ring, from the smallest, 17, to the largest of 31 bits; of exact integers, which have up to 64 bits, several such.
`python -m tests.support.modular_programs` runs many of them, with --exact those of exact integers.
"""

from __future__ import annotations

import argparse
import functools
import math
import time
import traceback
import warnings
from collections import Counter
from random import Random
from typing import Any

import numpy as np

import cipherblas as cb
from cipherblas.common.errors import FitError
from cipherblas.crypto.fields import MAX_PLAIN_MODULUS, is_prime
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.lang.analysis import trace
from cipherblas.lang.batches import Batch
from cipherblas.lang.operations import Leaf
from tests.corpus.machine import MACHINE
from tests.support.random_programs import (
    JOINS,
    PRODUCTS,
    SHAPES,
    Drawn,
    Families,
    Known,
    Write,
    Writer,
    axes_summed,
    binary,
    cumulative,
    reduced,
)
from tests.support.runs import Parties, comes_back, listed

DEGREES = (8, 16, 32, 64, 128, 128)
LIMBS, LIMB_BITS = (14, 24), 49.0
MAX_PRODUCTS, MAX_EXACT_PRODUCTS = 5, 3  # one after another
NUMBERS = ("2", "-1", "3", "-(2**20)", "2**31 - 1", "2**40 + 1")
COEFFICIENTS = ("[1, 2, 3]", "[0, 0, 1]", "[-1, 0, 0, 5]", "[0, 1, 0, 2**20, 7]", "[3, 0, 0, 0, 0, -1, 2]")
METHODS = ("outer-product", "skewed", "bicyclic", "fame", "diagonals", "e2dm", "fhe-mm")
TOO_DEEP, TOO_LARGE = "too deep", "too large"  # for a toy ring, or for a method that was asked for
_NO_ROOM = "has room for the errors"
_TOO_LARGE = "larger than what is computed", "too few numbers t"  # exact integers
EXACT_BOUNDS = (1, 2, 2**8, 2**20, 2**31 - 1, 2**40, 2**47, 2**63 - 1)


class ModularDrawn(Drawn):
    """A random program modulo t."""

    modulus: int | None
    parameters: Parameters

    def _run(self, library: Any, given: Any) -> Any:
        if library is cb:
            return super()._run(library, given)
        return super()._run(library, {name: value.astype(object) for name, value in given.items()})

    def kept(self, value: Any) -> Any:
        """A value of a line: Python's integers would grow without end."""
        if not isinstance(value, (np.ndarray, np.integer, int)):
            return value
        whole = np.asarray(value, object)
        return np.array(whole if self.modulus is None else whole % self.modulus, object)

    def compiled(self) -> cb.Program:
        given = {"parameters": self.parameters, "security": 0, "insecure": True, "machine": MACHINE}
        return cb.compile(lambda **nodes: self.function(**nodes), self.operands, **given, **self.options)


@functools.lru_cache(maxsize=64)
def toy_ring(n: int, modulus: int, limbs: int) -> Parameters:
    return make_parameters(n, (LIMB_BITS,) * limbs, security=0, insecure=True, plain_modulus=modulus)


def primes(n: int, chance: Random) -> int:
    """A prime that has slots in the ring of degree n: the smallest, one of two or three bytes, or any."""
    step = 2 * n
    last = (MAX_PLAIN_MODULUS - 1) // step
    start = chance.choice((1, 1, last, chance.randint(1, 1 + (1 << 16) // step), chance.randint(1, last)))
    if start == last:
        return next(t for t in range(last * step + 1, 1, -step) if is_prime(t))
    return next(t for t in range(start * step + 1, MAX_PLAIN_MODULUS, step) if is_prime(t))


class ModularWriter(Writer):
    """Writes one program modulo t."""

    def __init__(self, seed: int) -> None:
        chance = Random(f"modulus {seed}")
        self.n = chance.choice(DEGREES)
        self.modulus, self.limbs = primes(self.n, chance), chance.choice(LIMBS)
        super().__init__(seed)

    def make(self, seed: int) -> Drawn:
        found = ModularDrawn(seed)
        found.modulus, found.parameters = self.modulus, toy_ring(self.n, self.modulus, self.limbs)
        return found

    @property
    def families(self) -> Families:
        return _FAMILIES

    def holds(self, one: Known) -> bool:
        return _products(one.node) <= MAX_PRODUCTS

    def constant(self, *shape: int) -> str:
        t = self.modulus
        most = self.random.choice((4, t, 2**31))
        values = self.rng.integers(-most, most, shape)
        values[self.rng.random(shape) < 0.3] = self.random.choice((0, 1, -1, t - 1))
        return f"np.array({values.tolist()})"

    def shape(self) -> tuple[int, ...]:
        return super().shape()[: self.random.choice((2, 2, 2, 3))]

    def operand(self) -> None:
        name = f"x{len(self.drawn.operands)}"
        shapes = [one.array.shape for one in self.known]
        shape = self.random.choice(shapes) if shapes and self.random.random() < 0.5 else self.shape()
        if shapes and self.random.random() < 0.25:
            dtype = self.random.choice(("int8", "uint8", "int16", "int32", "uint32"))
            operand = cb.public(*shape, dtype=dtype)
            values = self.rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
        else:
            key = {"encryption": "public-key"} if self.random.random() < 0.1 else {}
            operand = cb.secret(*shape, modulus=self.modulus, **key)
            values = self._secret(shape)
        self.drawn.operands[name] = operand
        self.drawn.values[name] = values
        self.known.append(Known(name, Leaf(name, operand), np.asarray(values).astype(object)))

    def _secret(self, shape: tuple[int, ...]) -> Any:
        """Entries of which some, or all, are at the ends; a few beyond, which are reduced."""
        t = self.modulus
        ends = np.array([0, 1, t - 1, t // 2, t // 2 + 1, -1, t, 2**63 - 1, -(2**63)])
        kind = self.random.random()
        if kind < 0.15:
            return np.full(shape, self.random.choice(ends[:5]))
        values = np.asarray(self.rng.integers(0, t, shape))
        return np.where(self.rng.random(shape) < 0.3, self.rng.choice(ends, shape), values)

    def options(self) -> None:
        options: dict[str, Any] = {}
        if self.random.random() < 0.15 or self.n == min(DEGREES):
            options["block"] = self.random.choice((2, 3, 4) if self.n > min(DEGREES) else (1, 2))
        if self.random.random() < 0.1:
            options["minimise"] = "server"
        if self.random.random() < 0.1:
            options["key_policy"] = self.random.choice(("direct", "composed", "binary"))
        if self.random.random() < 0.6 and any(" @ " in line for line in self.drawn.lines):
            options["algorithm"] = self.random.choice(METHODS)
        self.drawn.options = options


class ExactWriter(ModularWriter):
    """Writes one program of exact integers."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed + (1 << 32))

    def make(self, seed: int) -> Drawn:
        found = super().make(seed)
        assert isinstance(found, ModularDrawn)
        found.modulus = None
        return found

    def holds(self, one: Known) -> bool:
        return _products(one.node) <= MAX_EXACT_PRODUCTS

    def operand(self) -> None:
        super().operand()
        name = self.known.pop().name
        operand = self.drawn.operands[name]
        if operand.secret:
            bound = self.random.choice(EXACT_BOUNDS)
            shape, encryption = operand.shape, operand.encryption
            operand = cb.secret(*shape, dtype="int64", exact=True, bound=bound, encryption=encryption)
            ends = np.array([0, 1, -1, bound, -bound, bound // 2])
            values = self.rng.integers(-bound, bound, shape, endpoint=True)
            few = self.random.choice((0.0, 0.3, 1.0))
            self.drawn.values[name] = np.where(
                self.rng.random(shape) < few, self.rng.choice(ends, shape), values
            )
            self.drawn.operands[name] = operand
        self.known.append(
            Known(name, Leaf(name, operand), np.asarray(self.drawn.values[name]).astype(object))
        )


def _products(node: Any) -> int:
    """Products one after another."""
    return max(map(_products, node)) if isinstance(node, Batch) else _products_of(node, {})


def _products_of(node: Any, found: dict[int, int]) -> int:
    if id(node) not in found:
        below = max((_products_of(child, found) for child in node.children), default=0)
        found[id(node)] = below + (node.op in ("matmul", "multiply"))
    return found[id(node)]


_ENTRIES: tuple[Write, ...] = (
    binary,
    binary,
    binary,
    lambda w, a: f"{a.name} * {w.random.choice(NUMBERS)}",
    lambda w, a: f"{w.random.choice(NUMBERS)} - {a.name}",
    lambda w, a: f"-{a.name}",
    lambda w, a: f"{a.name} ** {w.random.choice((1, 2, 2, 3, 4, 7))}",
    lambda w, a: f"cb.square({a.name})",
    lambda w, a: f"cb.polynomial({a.name}, {w.random.choice(COEFFICIENTS)})",
    lambda w, a: f"{w.modulus} * {a.name} + {a.name}",
    lambda w, a: f"cb.where(np.array({(w.rng.random(a.array.shape) < 0.5).tolist()}), {a.name}, 0)",
)
_SUMS: tuple[Write, ...] = (
    reduced("sum"),
    reduced("sum"),
    axes_summed,
    cumulative,
    lambda w, a: f"cb.trace({a.name})" if a.array.ndim == 2 else None,
    lambda w, a: f"cb.squared_norm({a.name})",
)
_FAMILIES: Families = (SHAPES, _SUMS, _ENTRIES, PRODUCTS, PRODUCTS, JOINS)


def drawn(seed: int, exact: bool = False) -> ModularDrawn:
    """The program of a number."""
    return (ExactWriter if exact else ModularWriter)(seed).drawn  # type: ignore[return-value]


def checked(seed: int, encrypted: bool = True, exact: bool = False) -> str:
    """What became of a program: "runs" or "compiles", "too deep", or a refusal. All else is a fault, and above all an
    entry that differs from that of Python's integers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = drawn(seed, exact)
        try:
            trace(lambda **nodes: found.function(**nodes), found.operands)
            try:
                program = found.compiled()
            except cb.CipherblasError as error:
                if _NO_ROOM in str(error):
                    return TOO_DEEP
                if isinstance(error, FitError) or any(text in str(error) for text in _TOO_LARGE):
                    return TOO_LARGE
                return f"{type(error).__name__}: {str(error).splitlines()[0]}"
            comes_back(program)
            wanted = listed(program, found.expected())
            equal(listed(program, program.evaluate(found.values)), wanted, found.modulus, "in the clear")
            if not encrypted:
                return "compiles"
            parties = Parties(program)
            result = parties.client.decrypt(parties.server.run(parties.inputs(found.values)))
            assert parties.server.last.counts == program.plan.counts
            equal(listed(program, result), wanted, found.modulus, "encrypted")
            return "runs"
        except Exception as error:
            raise AssertionError(
                f"{type(error).__name__}: {error}\nN = {found.parameters.n}, t = {found.modulus}\n{found}"
            ) from error


def equal(values: Any, expected: Any, modulus: int | None, where: str) -> None:
    for value, wanted in zip(values, expected, strict=True):
        exact = np.array(wanted if modulus is None else np.asarray(wanted, object) % modulus, object)
        assert value.dtype in (np.int64, object) and value.shape == exact.shape, where
        assert modulus is None or value.dtype == np.int64, where
        assert np.array_equal(value, exact), f"{where}: {value}, not {exact}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.modular_programs", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--count", type=int, default=1000, help="how many")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so many")
    parser.add_argument("--exact", action="store_true", help="of exact integers")
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    started = time.perf_counter()
    for seed in range(options.first, options.first + options.count):
        begun = time.perf_counter()
        try:
            outcome = checked(seed, exact=options.exact)
        except AssertionError:
            outcome = "FAULT"
            print(f"=== {seed}", *traceback.format_exc(limit=-3).splitlines()[-40:], sep="\n", flush=True)
        if outcome not in ("runs", TOO_DEEP, TOO_LARGE, "FAULT"):
            print(f"{seed}: {outcome}", flush=True)
        outcomes[outcome.split(":")[0]] += 1
        took = time.perf_counter() - begun
        if took > 20:
            print(f"slow: {seed}, {took:.0f} s, {outcome}", flush=True)
        if time.perf_counter() - started > options.seconds:
            print(f"stopped after {seed}")
            break
    seconds = time.perf_counter() - started
    print(f"{sum(outcomes.values())} programs from {options.first} in {seconds:.0f} s: {dict(outcomes)}")


if __name__ == "__main__":
    main()
