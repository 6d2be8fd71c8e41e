"""Random programs over extreme bounds, values, types, formulas and options, from a number each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.methods.products import ALGORITHMS

Array = NDArray[Any]

# What types can just hold, what they cannot, what squares of it overflow, and what no bound may be.
ORDINARY_BOUNDS = (1.0, 1.0, 1.0, 0.5, 3.0, 127.0, 1e-3, 1e5, 2.0**31)
EXTREME_BOUNDS = (
    *(5e-324, 1e-310, 1e-300, 2.0**-600, 1e-150, 1e-100, 1e-40, 6e-8, 1e-5),
    *(65504.0, 1e14, 2.0**53, 2.0**63, 1e20, 1e39, 1e100, 1e150, 2.0**600, 1e300),
)
NO_BOUNDS = (0.0, -1.0, math.inf, math.nan, 10**400)
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "longdouble"),
)
FACTORS = (-1.0, 2.0, -3.0, 0.5, 1 / 3, 0.0, 1e-6, 1e5, 1e-300, 1e300, 5e-324, np.float16(0.1), np.int8(-128))
PRECISIONS = (1e-4, 1e-4, 1e-4, 0.5, 1e-2, 1e-6, 1e-8, 1e-10, 1e-12, 1e-15, 1e-300)


@dataclass
class Case:
    """A program to compile, and what it is run on.

    Attributes:
        text: the formula, as a lambda of the operands; `constants` are its other names.
        operands: name → arguments of `cb.secret` or `cb.public`.
        options: of `cb.compile`.
        seed: of the values.
    """

    seed: int
    text: str = ""
    operands: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def declared(self) -> dict[str, Any]:
        """The operands; errors as `cb.secret` and `cb.public`."""
        return {
            name: getattr(cb, kind)(*shape, **keywords)
            for name, (kind, shape, keywords) in self.operands.items()
        }

    @property
    def function(self) -> Callable[..., Any]:
        """The formula of nodes."""
        made: Callable[..., Any] = eval(  # a text, so that a case that fails can be read and run again
            f"lambda {', '.join(self.operands)}: {self.text}", {"cb": cb, "np": np, **self.constants}
        )
        return made

    def __str__(self) -> str:
        rows = [f"case {self.seed}: {self.text}", f"  operands {self.operands}", f"  options {self.options}"]
        rows += [f"  {name} = {value!r} ({value.dtype})" for name, value in self.constants.items()]
        return "\n".join(rows)


def case(seed: int) -> Case:
    """The case of a number."""
    return _Writer(seed).case


class _Writer:
    """Writes one case: a formula of matrices, or of vectors and images."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rng = np.random.default_rng(seed)
        self.case = Case(seed)
        self.extreme = self.random.random() < 0.5  # the others are to run
        self.left = self.random.randint(1, 5)  # operations still to be written
        if self.random.random() < 0.4:
            self.case.text = self._network()
            self._options("tensors", ("metakernel",), 0.0)
        else:
            self.case.text = self._matrix(
                (self._length(), self._length()), self.random.choice((1, 1, 1, 2, 3)), True
            )
            self._options("blocks", tuple(ALGORITHMS), 1.0)

    def _length(self) -> int:
        return self.random.choice((1, 2, 3, 4, 5, 8, 17))

    def _bound(self) -> float:
        chance = self.random.random() if self.extreme else 1.0
        known = NO_BOUNDS if chance < 0.02 else EXTREME_BOUNDS if chance < 0.3 else ORDINARY_BOUNDS
        return self.random.choice(known)

    # --- operands and constants ---

    def _operand(self, shape: tuple[int, ...], secret: bool) -> str:
        for name, (kind, known, _) in self.case.operands.items():
            if known == shape and (kind == "secret") == secret and self.random.random() < 0.3:
                return name
        name = f"x{len(self.case.operands)}"
        keywords: dict[str, Any] = {"bound": self._bound()}
        if secret and self.random.random() < 0.15:
            keywords["encryption"] = "public-key"
        if not secret and self.random.random() < 0.5:
            keywords["dtype"] = self.random.choice(("int8", "uint8", "int16", "int32", "float16", "float32"))
            if self.random.random() < 0.6:
                del keywords["bound"]
        self.case.operands[name] = ("secret" if secret else "public", shape, keywords)
        return name

    def _clear(self, shape: tuple[int, ...]) -> str:
        """A public operand, or a constant."""
        if self.random.random() < 0.35:
            return self._operand(shape, False)
        name = f"c{len(self.case.constants)}"
        values = self._values(shape)
        bound = self.random.choice(EXTREME_BOUNDS if self.extreme else ORDINARY_BOUNDS)
        kind = self.random.choice(("real", "real", "whole", "zeros", "ratio"))
        if kind == "whole":
            values = np.rint(values * 10.0 ** self.random.choice((0, 1, 2, 4, 8, 12, 14, 15, 17, 20)))
        elif kind == "ratio":  # entries far apart
            values = values * bound * 10.0 ** -self.rng.integers(0, 40, shape).astype(float)
        else:
            values = values * (0.0 if kind == "zeros" else bound)
        if len(shape) > 1 and self.random.random() < 0.2:
            values[0] = 0
        self.case.constants[name] = in_type(values, self.random.choice(DTYPES))
        return name

    def _values(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return units(self.rng, shape, self.random.choice(("random", "signs", "ones", "sparse")))

    # --- matrices ---

    def _matrix(self, shape: tuple[int, int], depth: int, secret: bool) -> str:
        """A formula of this shape; depth counts products along a path."""
        if not secret:
            return self._clear_formula(shape)
        self.left -= 1
        kinds = ["operand"] if self.left <= 0 or not depth else ["matmul"] * 4 + ["multiply"]
        if self.left > 0:
            kinds += ["add", "sub", "scale", "transpose"]
        return self._written(self.random.choice(kinds), shape, depth)

    def _written(self, kind: str, shape: tuple[int, int], depth: int) -> str:
        draw = self.random
        if kind == "matmul":
            inner, both = self._length(), draw.random() < 0.3
            first = both or draw.random() < 0.5
            left = self._matrix((shape[0], inner), depth - 1, first)
            return f"({left} @ {self._matrix((inner, shape[1]), depth - 1, both or not first)})"
        if kind in ("add", "sub", "multiply"):
            less = depth - (kind == "multiply")
            sign = {"add": "+", "sub": "-", "multiply": "*"}[kind]
            left, right = self._matrix(shape, less, True), self._matrix(shape, less, draw.random() < 0.5)
            return f"({left} {sign} {right})"
        if kind == "scale":
            factor = draw.choice(FACTORS if self.extreme else FACTORS[:5])
            if draw.random() < 0.3:
                return f"({self._matrix(shape, depth, True)} / {_number(factor)})"
            return f"({_number(factor)} * {self._matrix(shape, depth, True)})"
        if kind == "transpose":
            return f"({self._matrix(shape[::-1], depth, True)}).T"
        return self._operand(shape, True)

    def _clear_formula(self, shape: tuple[int, int]) -> str:
        if self.random.random() < 0.75:
            return self._clear(shape)
        inner = self._length()
        if self.random.random() < 0.5:
            left = self._operand((shape[0], inner), False)
            return f"({left} @ {self._operand((inner, shape[1]), False)})"
        return f"(-{self._operand(shape, False)})"

    # --- networks ---

    def _network(self) -> str:
        if self.random.random() < 0.5:
            return self._vector((self._length(),))
        channels, height, width = self.random.choice((1, 2, 3)), *self.random.choice(((4, 4), (5, 6), (3, 3)))
        text = self._operand((channels, height, width), True)
        kinds = ("conv", "pool", "multiply", "add", "scale")
        for kind in [self.random.choice(kinds) for _ in range(self.random.choice((1, 1, 2)))]:
            if kind == "conv":
                outputs = self.random.choice((1, 2))
                text = f"cb.conv2d({text}, {self._clear((outputs, channels, 2, 2))})"
                channels, height, width = outputs, height - 1, width - 1
            elif kind == "pool":
                text = f"cb.avg_pool2d({text}, 2, stride=1)"
                height, width = height - 1, width - 1
            else:
                text = self._elementwise(kind, text, (channels, height, width))
        if self.random.random() < 0.3:
            rows = self._length()
            text = f"({self._clear((rows, channels * height * width))} @ cb.flatten({text}))"
        return text

    def _vector(self, shape: tuple[int]) -> str:
        (length,) = shape
        text = self._operand(shape, True)
        kinds = ("matvec", "matvec", "matvec", "multiply", "add", "scale", "square", "polynomial", "assume")
        for kind in [self.random.choice(kinds) for _ in range(self.random.choice((1, 1, 2, 3)))]:
            if kind == "matvec":
                rows = self._length()
                text = f"({self._clear((rows, length))} @ {text})"
                length = rows
            elif kind == "square":
                text = f"cb.square({text})"
            elif kind == "polynomial":
                coefficients = [
                    float(self.random.choice(FACTORS)) for _ in range(self.random.choice((2, 3, 4)))
                ]
                text = f"cb.polynomial({text}, {coefficients})"
            elif kind == "assume":
                text = f"cb.assume({text}, 2.0**600)"  # a promise that every value keeps
            else:
                text = self._elementwise(kind, text, (length,))
        return text

    def _elementwise(self, kind: str, text: str, shape: tuple[int, ...]) -> str:
        if kind == "scale":
            return f"({_number(self.random.choice(FACTORS if self.extreme else FACTORS[:5]))} * {text})"
        sign = "*" if kind == "multiply" else self.random.choice("+-")
        other = self._operand(shape, True) if self.random.random() < 0.2 else self._clear(shape)
        return f"({text} {sign} {other})"

    # --- options ---

    def _options(self, form: str, algorithms: tuple[str, ...], blocks: float) -> None:
        """Options that can suit the program, and now and then one that cannot."""
        draw, options = self.random, self.case.options
        rare = 0.1 if self.extreme else 0.04
        if draw.random() < 0.6:
            options["precision"] = draw.choice(PRECISIONS if self.extreme else PRECISIONS[:7])
        if draw.random() < 0.5:
            text = self.case.text
            products = "@" in text and not any(other in text for other in ("cb.", ") * ", "x0 * ", "x1 * "))
            options["form"] = draw.choice((form, "rows") if products or draw.random() < 0.1 else (form,))
        choices: dict[str, tuple[Any, ...]] = {
            "algorithm": (*algorithms, "gemm"),
            "block": (1, 2, 3, 8),
            "key_policy": ("direct", "composed", "binary"),
            "order": ("limb", "rotation"),
            "security": (128, 192, 256),
            "ring_degree": (1 << 12, 1 << 13),
            "memory_budget": (1 << 20, 200 << 20, 1 << 30),
            "key_budget": (0, 1 << 20, 1 << 28),
            "upload_budget": (0, 1 << 18, 1 << 26),
            "threads": (1, 64),
        }
        for name, values in choices.items():
            if draw.random() < rare * (blocks if name == "block" else 1):
                options[name] = draw.choice(values)


def _number(value: Any) -> str:
    return repr(value) if isinstance(value, float) else f"np.{type(value).__name__}({value})"


def units(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> NDArray[np.float64]:
    """Entries in [-1, 1]."""
    values: NDArray[np.float64] = rng.uniform(-1, 1, shape)
    if kind == "ones":
        values = np.ones(shape)
    elif kind == "signs":
        values = np.sign(values)
    elif kind == "sparse":
        values[rng.random(shape) < 0.7] = 0
    elif kind == "zeros":
        values = np.zeros(shape)
    return values


def in_type(values: NDArray[np.float64], dtype: str) -> Array:
    """The values in a type that holds numbers of their size, whole ones where it is an integer type."""
    kind = np.dtype(dtype)
    size = float(np.abs(values).max())
    if kind.kind == "b":
        return values > 0 if size == 1 else values
    if kind.kind == "u":
        values = np.abs(values)
    if kind.kind in "iu":
        return np.rint(values).astype(kind) if size < float(np.iinfo(kind).max) else values
    return values.astype(kind) if size < float(np.finfo(kind).max) else values


def fillings(program: cb.Program, seed: int) -> Iterator[dict[str, Array]]:
    """Values of all operands: two of those at ±bound, zeros and random ones, in turns; each in some type that holds
    them."""
    random, rng, kinds = Random(seed), np.random.default_rng(seed), ["signs", "zeros", "random"]
    del kinds[seed % 3]
    for kind in kinds:
        values: dict[str, Array] = {}
        for name, operand in program.operands.items():
            entries = units(rng, operand.shape, kind) * operand.bound
            typed = in_type(np.trunc(entries) if operand.whole else entries, random.choice(DTYPES))
            if float(np.abs(typed.astype(np.float64)).max()) > operand.bound:  # rounded up
                typed = np.trunc(entries) if operand.whole else entries
            values[name] = typed
        yield values
