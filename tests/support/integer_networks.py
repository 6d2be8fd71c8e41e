"""Random networks of integers modulo t, and of exact integers, from a number each; Python's integers compute them too.

Convolutions with strides, padding, groups and zeros between taps, sums over windows, squares, products and sums of
branches, clear images, flattening, products with matrices, one image or several, in a toy ring.
`python -m tests.support.integer_networks` runs many of them, with --exact those of exact integers.
"""

from __future__ import annotations

import argparse
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

import cipherblas as cb
from cipherblas.common.errors import FitError
from cipherblas.crypto.params import Parameters
from tests.corpus.machine import MACHINE
from tests.support.integer_layers import layer
from tests.support.modular_programs import TOO_DEEP, TOO_LARGE, equal, primes, toy_ring
from tests.support.runs import Parties, comes_back, listed

conv2d, sum_pool2d, flatten = layer("conv2d"), layer("sum_pool2d"), layer("flatten")
DEGREES = (128, 256, 512)
MAX_LEVELS, MAX_EXACT_LEVELS = 5, 3
LIMBS = (16, 24)
METHODS = (None, None, None, "metakernel", "fhe-mp-cnn", "fhelipe")
REFUSED = (
    "has room for the errors",
    "larger than what is computed",
    "too few numbers t",
    "cannot be computed by",
)
Step = Callable[[Any], Any]


@dataclass
class IntegerNetwork:
    """A network, its operands, their values and the options of `compile`."""

    seed: int
    exact: bool
    modulus: int
    parameters: Parameters
    steps: list[tuple[str, Step]] = field(default_factory=list)
    operands: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, x: Any, w: Any = None) -> Any:
        self.filters = w
        for _, step in self.steps:
            x = step(x)
        return x

    def __str__(self) -> str:
        lines = [f"{name}: {operand.declared}" for name, operand in self.operands.items()]
        return "\n".join([*lines, *(name for name, _ in self.steps), f"options {self.options}"])


class _Draw:
    """Draws one network."""

    def __init__(self, seed: int, exact: bool) -> None:
        self.random = random = Random(f"network {seed} {exact}")
        self.rng = np.random.default_rng([seed, exact])
        n = random.choice(DEGREES)
        modulus = primes(n, random)
        if exact:
            modulus = next(t for t in (2147352577, modulus) if t % (2 * n) == 1)
        self.found = IntegerNetwork(seed, exact, modulus, toy_ring(n, modulus, random.choice(LIMBS)))
        self.levels, self.most = 0, MAX_EXACT_LEVELS if exact else MAX_LEVELS
        images = (random.choice((2, 3)),) if random.random() < 0.2 else ()
        sides = random.choice((4, 5, 6)), random.choice((4, 5, 6))
        self.shape: tuple[int, ...] = (*images, random.choice((1, 1, 2, 3)), *sides)
        self._operand()
        for _ in range(random.choice((1, 2, 3, 4, 5))):
            self._step()
        if algorithm := random.choice(METHODS):
            self.found.options["algorithm"] = algorithm
        if random.random() < 0.15:
            self.found.options["key_policy"] = random.choice(("direct", "binary"))

    def _operand(self) -> None:
        found, random, t = self.found, self.random, self.found.modulus
        key = {"encryption": "public-key"} if random.random() < 0.1 else {}
        if found.exact:
            bound = random.choice((1, 255, 2**20, 2**31, 2**45, 2**63 - 1))
            found.operands["x"] = cb.secret(*self.shape, dtype="int64", exact=True, bound=bound, **key)
            values = self.rng.integers(-bound, bound, self.shape, endpoint=True)
            ends = [0, 1, -1, bound, -bound]
        else:
            found.operands["x"] = cb.secret(*self.shape, modulus=t, **key)
            values, ends = self.rng.integers(0, t, self.shape), [0, 1, t - 1, t // 2, t // 2 + 1, -1, 2**62]
        few = random.choice((0.0, 0.3, 1.0))
        found.values["x"] = np.where(
            self.rng.random(self.shape) < few, self.rng.choice(ends, self.shape), values
        )

    def weights(self, *shape: int) -> Any:
        most = self.random.choice(
            (1, 9, 127, 2**15) if self.found.exact else (1, 127, self.found.modulus, 2**40)
        )
        found = self.rng.integers(-most, most, shape, endpoint=True)
        return found * (self.rng.random(shape) < self.random.choice((0.3, 0.8, 1.0)))

    def _step(self) -> None:
        names = ["scale", "add", "times"] + ["conv"] * 4 + ["pool", "square", "branches", "flatten"]
        name = self.random.choice(
            names if len(self.shape) > 2 else ["dense", "dense", "square", "scale", "add"]
        )
        if name in ("conv", "times", "square", "branches", "dense"):
            if self.levels == self.most:
                return
            self.levels += 1 + (name == "branches")
        getattr(self, f"_{name}")()

    def _take(self, text: str, step: Step) -> None:
        """Enter a step, and find the shape that it leaves."""
        self.found.steps.append((text, step))
        self.shape = np.shape(step(np.zeros(self.shape, object)))

    def _window(self) -> tuple[int, int]:
        height, width = self.shape[-2:]
        return self.random.randint(1, min(3, height)), self.random.randint(1, min(3, width))

    def _conv(self) -> None:
        channels, random = self.shape[-3], self.random
        groups = channels if channels > 1 and random.random() < 0.25 else 1
        outputs = groups * random.choice((1, 2, 3) if groups == 1 else (1, 2))
        filters = self.weights(outputs, channels // groups, *self._window())
        if random.random() < 0.2 and min(self.shape[-2:]) >= 2 * max(filters.shape[2:]) - 1:
            wide = np.zeros(
                (*filters.shape[:2], *(2 * length - 1 for length in filters.shape[2:])), filters.dtype
            )
            wide[:, :, ::2, ::2] = filters
            filters = wide
        size = min(filters.shape[2:]) // 2
        more: dict[str, Any] = {"groups": groups, "padding": random.choice((0, size))}
        more["stride"] = random.choice((1, 1, 2, (1, 2)))
        bias = self.weights(outputs).tolist() if random.random() < 0.4 else None
        text = f"conv2d {filters.tolist()}, {bias}, {more}"
        given = (
            "w" not in self.found.operands and random.random() < 0.15 and int(np.abs(filters).max()) < 2**31
        )
        if given:
            self.found.operands["w"] = cb.public(*filters.shape, dtype="int32")
            self.found.values["w"] = filters
            found = self.found

            def of_operand(x: Any) -> Any:
                own = found.filters if not isinstance(x, np.ndarray) else filters
                return conv2d(x, own, bias, **more)

            return self._take(f"{text} of an operand", of_operand)
        return self._take(text, lambda x: conv2d(x, filters, bias, **more))

    def _pool(self) -> None:
        kernel = self._window()
        stride = kernel if self.random.random() < 0.7 else (1, 1)
        pads = (0, 0) if self.random.random() < 0.6 else (kernel[0] // 2, kernel[1] // 2)
        self._take(f"sums {kernel} {stride} {pads}", lambda x: sum_pool2d(x, kernel, stride, pads))

    def _square(self) -> None:
        self._take("square", lambda x: x * x)

    def _scale(self) -> None:
        number = self.random.choice((-1, 2, 3, -7, 2**20 if not self.found.exact else 5))
        self._take(f"times {number}", lambda x: number * x)

    def _add(self) -> None:
        values = self.weights(*self.shape)
        exact = values.astype(object)
        self._take(f"plus {values.tolist()}", lambda x: x + (exact if isinstance(x, np.ndarray) else values))

    def _times(self) -> None:
        values = self.weights(*self.shape)
        exact = values.astype(object)
        self._take(f"times {values.tolist()}", lambda x: x * (exact if isinstance(x, np.ndarray) else values))

    def _branches(self) -> None:
        """A sum, or a product, of two convolutions of the same value."""
        channels, product = self.shape[-3], self.random.random() < 0.5
        first = self.weights(2, channels, *self._window())
        second = self.weights(*first.shape)

        def step(x: Any) -> Any:
            a, b = conv2d(x, first), conv2d(x, second)
            return a * b if product else a - 3 * b

        self._take(f"branches {first.tolist()} {second.tolist()} {'product' if product else 'sum'}", step)

    def _flatten(self) -> None:
        self._take("flatten", flatten)

    def _dense(self) -> None:
        matrix = self.weights(self.random.choice((1, 2, 5)), self.shape[-1])
        exact = matrix.astype(object)
        if len(self.shape) == 1:
            return self._take(
                f"W @ x {matrix.tolist()}", lambda x: (exact if isinstance(x, np.ndarray) else matrix) @ x
            )
        return self._take(
            f"X @ W.T {matrix.tolist()}", lambda x: x @ (exact.T if isinstance(x, np.ndarray) else matrix.T)
        )


def checked(seed: int, exact: bool = False) -> str:
    """What became of a network: "runs", or a refusal. All else is a fault, and above all an entry that differs."""
    found = _Draw(seed, exact).found
    options = {"parameters": found.parameters, "security": 0, "insecure": True, "machine": MACHINE}
    function = (lambda x, w: found(x, w)) if "w" in found.operands else (lambda x: found(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            try:
                program = cb.compile(function, found.operands, **options, **found.options)
            except cb.CipherblasError as error:
                if REFUSED[0] in str(error):
                    return TOO_DEEP
                if isinstance(error, FitError) or any(text in str(error) for text in REFUSED):
                    return TOO_LARGE
                return f"{type(error).__name__}: {str(error).splitlines()[0]}"
            comes_back(program)
            wanted = listed(program, found(found.values["x"].astype(object)))
            modulus = None if exact else found.modulus
            equal(listed(program, program.evaluate(found.values)), wanted, modulus, "in the clear")
            parties = Parties(program)
            result = parties.client.decrypt(parties.server.run(parties.inputs(found.values)))
            assert parties.server.last.counts == program.plan.counts
            equal(listed(program, result), wanted, modulus, "encrypted")
            return "runs" if not program.plan.moduli else "runs by residues"
        except Exception as error:
            raise AssertionError(
                f"{type(error).__name__}: {error}\nN = {found.parameters.n}, t = {found.modulus}\n{found}"
            ) from error


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.integer_networks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first network")
    parser.add_argument("--count", type=int, default=300, help="how many")
    parser.add_argument("--exact", action="store_true", help="of exact integers")
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    started = time.perf_counter()
    for seed in range(options.first, options.first + options.count):
        try:
            outcome = checked(seed, exact=options.exact)
        except AssertionError:
            outcome = "FAULT"
            print(f"=== {seed}", *traceback.format_exc(limit=-3).splitlines()[-40:], sep="\n", flush=True)
        if outcome not in ("runs", "runs by residues", TOO_DEEP, TOO_LARGE, "FAULT"):
            print(f"{seed}: {outcome}", flush=True)
        outcomes[outcome.split(":")[0]] += 1
    seconds = time.perf_counter() - started
    print(f"{sum(outcomes.values())} networks from {options.first} in {seconds:.0f} s: {dict(outcomes)}")


if __name__ == "__main__":
    main()
