"""Random programs of all operations, functions and several results, from a number each; NumPy computes them too.

A program is lines of Python, `v3 = cb.tanh(v1 @ v2, precision=0.02)`, which both run: with nodes and the library's
names, or with arrays and NumPy's under the same names. `python -m tests.support.random_programs` runs many of them.
"""

from __future__ import annotations

import argparse
import math
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.signal import correlate

import cipherblas as cb
from cipherblas.lang.analysis import trace
from cipherblas.lang.batches import Batch
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operations import Leaf
from tests.support.runs import TOY, Parties, comes_back, listed, matrix

MAX_LINES, MAX_TRIES = 7, 30
MAX_BOUND, MIN_BOUND = 1e4, 1e-4  # of a value that others are made of: toy rings are to hold all
MAX_DEPTH = 24  # of operations
MAX_ENTRIES = 400
MAX_BYTES = 1 << 30  # of a server, for a run
NUMBERS = ("2.0", "-1", "0.5", "-0.3", "1/3", "3")
_NAME = re.compile(r"\b[vx]\d+\b")
FUNCTIONS = {"cos": np.cos, "kink": np.abs, "line": lambda t: 0.5 * t}
COEFFICIENTS = (
    "[1, 2, 3]",
    "[0, 0, 1]",
    "[0.5, -1, 0, 0.25]",
    "[0, 1, 0, 0.5, 0.25]",
    "[1, 0, 0, 0, 0, 0.1, 0.2]",
)


# --- NumPy under the library's names ---


def _convolved(x: Any, weights: Any, padding: int = 0) -> NDArray[Any]:
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    return np.stack([correlate(padded, one, mode="valid")[0] for one in weights])


def _pooled(x: Any, size: int) -> NDArray[Any]:
    channels, rows, cols = x.shape[0], x.shape[1] // size, x.shape[2] // size
    return np.asarray(
        x[:, : rows * size, : cols * size].reshape(channels, rows, size, cols, size).mean(axis=(2, 4))
    )


def _powers(x: Any, coefficients: Any) -> NDArray[Any]:
    if np.asarray(x).dtype == object:  # Python's integers, which `polyval` makes floats of
        return np.asarray(sum(value * x**power for power, value in enumerate(coefficients)))
    return np.asarray(np.polynomial.polynomial.polyval(x, coefficients))


NUMPY = SimpleNamespace(
    **{
        name: getattr(np, name)
        for name in ("sum", "mean", "var", "cumsum", "concatenate", "stack", "where", "trace")
    },
    **{
        name: getattr(np, name)
        for name in ("broadcast_to", "expand_dims", "diag", "outer", "inner", "dot", "vdot")
    },
    **{name: getattr(np, name) for name in ("ravel", "reshape", "squeeze", "power", "matmul", "transpose")},
    square=np.square,
    matrix_power=np.linalg.matrix_power,
    squared_norm=lambda x: np.asarray(np.square(x), np.asarray(x).dtype).sum(),
    assume=lambda x, bound: x,
    refresh=lambda x: x,
    polynomial=_powers,
    tanh=lambda x, precision: np.tanh(x),
    sigmoid=lambda x, precision: special.expit(x),
    gelu=lambda x, precision: x * special.ndtr(x),
    exp=lambda x, precision: np.exp(x),
    inverse=lambda x, lower, precision: 1 / x,
    sqrt=lambda x, lower, precision: np.sqrt(x),
    relu=lambda x, precision: np.maximum(x, 0),
    chebyshev=lambda f, x, precision: f(x),
    joined=np.concatenate,
    split=np.split,
    flatten=np.ravel,
    conv2d=_convolved,
    avg_pool2d=_pooled,
    matvec=np.matmul,
)


# --- programs ---


@dataclass
class Drawn:
    """A random program.

    Attributes:
        operands: name → declared operand.
        lines: assignments, one value each, in the order in which they are computed.
        returned: what the program returns, of these values.
        options: of `cb.compile`.
        values: of the operands, on which assumed bounds hold.
    """

    seed: int
    operands: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    returned: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    values: dict[str, NDArray[Any]] = field(default_factory=dict)

    def function(self, **given: Any) -> Any:
        """What `cb.compile` calls."""
        return self._run(cb, given)

    def expected(self) -> Any:
        """NumPy's results."""
        return self._run(NUMPY, self.values)

    def _run(self, library: Any, given: Any) -> Any:
        names = names_of(library) | dict(given)
        for line in self.lines:
            exec(line, names)
            name = line.split(" = ", 1)[0]
            names[name] = self.kept(names[name])
        return eval(self.returned, names)

    def kept(self, value: Any) -> Any:
        """The value of a line, as others use it."""
        return value

    def compiled(self) -> cb.Program:
        def function(**nodes: Any) -> Any:
            return self.function(**nodes)

        return cb.compile(function, self.operands, **TOY, **self.options)

    def __str__(self) -> str:
        declared = [f"{name} = {operand}" for name, operand in self.operands.items()]
        return "\n  ".join(
            [f"program {self.seed}", *declared, *self.lines, f"return {self.returned}", str(self.options)]
        )


def names_of(library: Any) -> dict[str, Any]:
    """What lines may name beside values."""
    return {"cb": library, "np": np, **FUNCTIONS}


@dataclass
class Known:
    """A value that lines may use: as a node, or a batch, and as an array."""

    name: str
    node: Any
    array: NDArray[Any]

    @property
    def bound(self) -> float:
        nodes = list(self.node) if isinstance(self.node, Batch) else [self.node]
        return max(float(one.bound) for one in nodes)

    @property
    def secret(self) -> bool:
        return any(one.secret for one in (self.node if isinstance(self.node, Batch) else [self.node]))


Write = Callable[["Writer", Known], "str | None"]  # of the text of a line, which uses a value
Families = tuple[tuple[Write, ...], ...]


class Writer:
    """Writes one program: every line uses what there is, and is kept if the library takes it."""

    def __init__(self, seed: int) -> None:
        self.random, self.rng = Random(seed), np.random.default_rng(seed)
        self.drawn = self.make(seed)
        self.known: list[Known] = []
        self.refused: Counter[str] = Counter()
        self.exact = self.random.random() < 0.06
        for _ in range(self.random.choice((1, 2, 2, 3))):
            self.operand()
        wanted, tries = self.random.randint(1, MAX_LINES), 0
        while wanted and tries < MAX_TRIES:
            tries += 1
            wanted -= self._line()
        self._return()
        self.options()

    # --- what other kinds of programs do otherwise ---

    def make(self, seed: int) -> Drawn:
        """A program without lines."""
        return Drawn(seed)

    @property
    def families(self) -> Families:
        """What lines are made of."""
        products = (*PRODUCTS, *_LAYERS)
        return SHAPES, _SUMS, _ENTRIES, products, products, _FUNCTIONS, JOINS

    def holds(self, one: Known) -> bool:
        """Whether toy rings hold a value, and others that are made of it."""
        return MIN_BOUND < one.bound < MAX_BOUND

    # --- operands ---

    def length(self) -> int:
        return self.random.choice((1, 2, 3, 4, 4, 6))

    def shape(self) -> tuple[int, ...]:
        kind = self.random.random()
        if kind < 0.08:
            return ()
        if kind < 0.35:
            return (self.length(),)
        if kind < 0.85:
            return (self.length(), self.length())
        return (2, 4, 4) if kind < 0.95 else (2, self.length(), self.length())

    def operand(self) -> None:
        name = f"x{len(self.drawn.operands)}"
        shapes = [one.array.shape for one in self.known]
        shape = self.random.choice(shapes) if shapes and self.random.random() < 0.5 else self.shape()
        keywords: dict[str, Any] = {"bound": self.random.choice((1.0, 1.0, 0.5, 3.0))}
        make: Callable[..., Any] = cb.secret
        if self.exact:
            keywords = {"dtype": "int8", "bound": 7.0, "exact": True}
        elif shapes and self.random.random() < 0.2:
            make = cb.public
        elif self.random.random() < 0.1:
            keywords["encryption"] = "public-key"
        operand = make(*shape, **keywords)
        self.drawn.operands[name] = operand
        self.drawn.values[name] = matrix(operand, self.rng)
        self.known.append(Known(name, Leaf(name, operand), self.drawn.values[name]))

    # --- lines ---

    def _line(self) -> bool:
        """Add a line; whether there is one that the library takes."""
        a = self._used()
        write = self.random.choice(self.random.choice(self.families))
        text = write(self, a)
        if text is None:
            return False
        name = f"v{len(self.drawn.lines)}"
        found: list[Any] = []
        for library, values in (
            (cb, {one.name: one.node for one in self.known}),
            (NUMPY, {one.name: one.array for one in self.known}),
        ):
            try:
                with np.errstate(all="ignore"):
                    found.append(eval(text, names_of(library) | values))
            except cb.CipherblasError as error:
                self.refused[type(error).__name__] += 1
                return False
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error}\nin {text}\n{self.drawn}") from error
        node, array = found[0], np.asarray(self.drawn.kept(found[1]))
        if not isinstance(node, (Expression, Batch)):
            return False
        one = Known(name, node, array)
        line = f"{name} = {text}"
        assert node.shape == array.shape, f"{line}: {node.shape}, in NumPy {array.shape}\n{self.drawn}"
        if array.size > MAX_ENTRIES or not self.holds(one) or _depth(node) > MAX_DEPTH:
            return False
        self.drawn.lines.append(line)
        self.known.append(one)
        return True

    def _used(self) -> Known:
        """One of the values, late ones rather."""
        places = range(len(self.known))
        return self.known[max(self.random.choice(places), self.random.choice(places))]

    def beside(self, a: Known, fits: Callable[[tuple[int, ...]], bool]) -> Known:
        """A value whose shape fits, if there is one."""
        fitting = [one for one in self.known if fits(one.array.shape)]
        return self.random.choice(fitting) if fitting else a

    def constant(self, *shape: int) -> str:
        """Clear numbers of a shape."""
        values = self.rng.integers(-4, 5, shape)
        scaled = "" if self.exact or self.random.random() < 0.5 else " / 4"
        return f"np.array({values.tolist()}){scaled}"

    # --- results ---

    def _return(self) -> None:
        secret = [one for one in self.known if one.secret]
        last = [one for one in secret if one.name.startswith("v")] or secret
        chosen = [last[-1]]
        if not isinstance(chosen[0].node, Batch) and self.random.random() < 0.4:
            others = [one for one in secret if not isinstance(one.node, Batch)]
            chosen += self.random.sample(others, min(len(others), self.random.randint(1, 2)))
        names = [one.name for one in chosen]
        if len(chosen) == 1:
            self.drawn.returned = names[0]
        elif self.random.random() < 0.5:
            self.drawn.returned = f"({', '.join(names)},)"
        else:
            self.drawn.returned = "{" + ", ".join(f"'r{i}': {name}" for i, name in enumerate(names)) + "}"
        self._keep_what_is_used()

    def _keep_what_is_used(self) -> None:
        """Leave out lines, and then operands, of which no result is made."""
        used, kept = set(_NAME.findall(self.drawn.returned)), []
        for line in reversed(self.drawn.lines):
            name, text = line.split(" = ", 1)
            if name in used:
                used |= set(_NAME.findall(text))
                kept.append(line)
        self.drawn.lines = kept[::-1]
        for name in self.drawn.operands.keys() - used:
            del self.drawn.operands[name], self.drawn.values[name]

    def options(self) -> None:
        options: dict[str, Any] = {}
        if not self.exact:
            options["precision"] = self.random.choice((1e-2, 1e-2, 1e-3, 1e-4))
            if "precision=" in "".join(self.drawn.lines) or "refresh" in "".join(self.drawn.lines):
                options["precision"] = 0.1
        if self.random.random() < 0.15:
            options["form"] = self.random.choice(("blocks", "rows", "tensors", "mixed"))
        if self.random.random() < 0.1:
            options["block"] = self.random.choice((2, 3, 4))
        if self.random.random() < 0.1:
            options["minimise"] = "server"
        if self.random.random() < 0.05:
            options["key_policy"] = self.random.choice(("direct", "composed", "binary"))
        self.drawn.options = options


def _depth(node: Any) -> int:
    return max(one.depth for one in (node if isinstance(node, Batch) else [node]))


# --- what lines are made of: (writer, value) → the text of a line, or None ---


def _axis(w: Writer, a: Known) -> str:
    axes = [*range(-a.array.ndim, a.array.ndim), None]
    return str(w.random.choice(axes))


def reduced(name: str) -> Callable[[Writer, Known], str | None]:
    def write(w: Writer, a: Known) -> str | None:
        keep = ", keepdims=True" if w.random.random() < 0.25 else ""
        call = f"cb.{name}({a.name}, " if w.random.random() < 0.5 else f"{a.name}.{name}("
        return f"{call}axis={_axis(w, a)}{keep})"

    return write


def axes_summed(w: Writer, a: Known) -> str | None:
    if a.array.ndim < 2:
        return None
    axes = tuple(w.random.sample(range(a.array.ndim), 2))
    return f"{a.name}.sum(axis={axes})"


def cumulative(w: Writer, a: Known) -> str | None:
    return f"cb.cumsum({a.name}, axis={_axis(w, a)})" if a.array.ndim else None


def _factored(w: Writer, entries: int) -> tuple[int, ...]:
    divisors = [one for one in range(1, entries + 1) if entries % one == 0]
    first = w.random.choice(divisors)
    rest = entries // first
    if w.random.random() < 0.3:
        second = w.random.choice([one for one in range(1, rest + 1) if rest % one == 0])
        return first, second, rest // second
    return w.random.choice(((entries,), (first, rest), (first, -1)))


def _index(w: Writer, a: Known) -> str | None:
    parts = []
    for length in a.array.shape:
        start = w.random.randrange(length)
        parts.append(
            w.random.choice(
                (
                    ":",
                    ":",
                    "::-1",
                    "::2",
                    f"{start}",
                    f"{start}:",
                    f"-{start + 1}:",
                    f":{start + 1}",
                    "None, :",
                )
            )
        )
    if not parts or w.random.random() < 0.1:
        return f"{a.name}[...]"
    cut = w.random.randint(1, len(parts))
    return f"{a.name}[{', '.join(parts[:cut])}]"


def _taken(w: Writer, a: Known) -> str | None:
    if not a.array.ndim:
        return None
    length = a.array.shape[0]
    indices = [w.random.randrange(-length, length) for _ in range(w.random.randint(1, 4))]
    if w.random.random() < 0.3:
        mask = [w.random.random() < 0.6 for _ in range(length)]
        return f"{a.name}[np.array({mask})]" if any(mask) else None
    return f"{a.name}[{indices}]"


def _broadcast(w: Writer, a: Known) -> str:
    shape = tuple(w.random.randint(2, 3) if length == 1 else length for length in a.array.shape)
    return (
        f"cb.broadcast_to({a.name}, {(2, *shape) if w.random.random() < 0.4 and len(shape) < 3 else shape})"
    )


def _transposed(w: Writer, a: Known) -> str | None:
    if a.array.ndim < 3:
        return f"{a.name}.T"
    axes = w.random.sample(range(a.array.ndim), a.array.ndim)
    return f"{a.name}.transpose({', '.join(map(str, axes))})"


SHAPES: tuple[Write, ...] = (
    lambda w, a: f"{a.name}.reshape{_factored(w, a.array.size)}".replace(",)", ")"),
    lambda w, a: f"{a.name}.ravel()",
    _transposed,
    _transposed,
    _index,
    _index,
    _index,
    _taken,
    _broadcast,
    lambda w, a: (
        f"cb.expand_dims({a.name}, {w.random.randint(0, a.array.ndim)})" if a.array.ndim < 3 else None
    ),
    lambda w, a: f"{a.name}.squeeze()",
    lambda w, a: f"cb.diag({a.name})" if a.array.ndim in (1, 2) else None,
    lambda w, a: (
        f"{a.name}.diagonal({w.random.choice((0, 0, 1, -1))})"
        if min(a.array.shape, default=0) > 1 and a.array.ndim == 2
        else None
    ),
    lambda w, a: (
        f"cb.split({a.name}, [1], axis={w.random.randint(0, 1)})[1]"
        if a.array.ndim == 2 and min(a.array.shape) > 1
        else None
    ),
)
_SUMS: tuple[Write, ...] = (
    reduced("sum"),
    reduced("sum"),
    reduced("mean"),
    reduced("var"),
    axes_summed,
    cumulative,
    lambda w, a: f"cb.trace({a.name})" if a.array.ndim == 2 else None,
    lambda w, a: f"cb.squared_norm({a.name})",
    lambda w, a: f"cb.avg_pool2d({a.name}, 2)" if a.array.ndim == 3 and min(a.array.shape[1:]) > 1 else None,
)


def binary(w: Writer, a: Known) -> str | None:
    def fits(shape: tuple[int, ...]) -> bool:
        try:
            np.broadcast_shapes(shape, a.array.shape)
        except ValueError:
            return False
        return True

    b = w.beside(a, fits)
    sign = w.random.choice(("+", "-", "*", "*"))
    if w.random.random() < 0.2:
        shape = a.array.shape[-1:] if w.random.random() < 0.5 else a.array.shape
        return f"{a.name} {sign} {w.constant(*shape)}"
    return f"{a.name} {sign} {b.name}"


def _where(w: Writer, a: Known) -> str:
    b = w.beside(a, lambda shape: shape == a.array.shape)
    mask = (w.rng.random(a.array.shape) < 0.5).tolist()
    return f"cb.where(np.array({mask}), {a.name}, {w.random.choice((b.name, '0.5', '0'))})"


_ENTRIES: tuple[Write, ...] = (
    binary,
    binary,
    binary,
    lambda w, a: f"{a.name} * {w.random.choice(NUMBERS)}",
    lambda w, a: f"{w.random.choice(NUMBERS)} - {a.name}",
    lambda w, a: f"{a.name} / {w.random.choice(('2', '-0.7'))}",
    lambda w, a: f"-{a.name}",
    lambda w, a: f"{a.name} ** {w.random.choice((1, 2, 2, 3, 4))}",
    lambda w, a: f"cb.square({a.name})",
    lambda w, a: f"0 * {a.name} + 1",
    _where,
)


def _product(w: Writer, a: Known) -> str | None:
    if not a.array.ndim:
        return None
    inner = a.array.shape[-1]
    b = w.beside(a, lambda shape: len(shape) > 0 and shape[-2 if len(shape) > 1 else 0] == inner)
    if w.random.random() < 0.3:
        rows = w.length()
        shape = (inner, rows) if w.random.random() < 0.7 else (inner,)
        return f"{a.name} @ {w.constant(*shape)}"
    if b.array.ndim == 0 or b.array.shape[-2 if b.array.ndim > 1 else 0] != inner:
        return (
            f"{a.name} @ {a.name}.T"
            if a.array.ndim == 2
            else f"{a.name} @ {a.name}"
            if a.array.ndim == 1
            else None
        )
    if 3 in (a.array.ndim, b.array.ndim) and 1 in (a.array.ndim, b.array.ndim):
        return None
    return f"{a.name} @ {b.name}"


def _by_constant(w: Writer, a: Known) -> str | None:
    if a.array.ndim == 3:
        return None
    return f"{w.constant(w.length(), a.array.shape[0])} @ {a.name}" if a.array.ndim else None


def _outer(w: Writer, a: Known) -> str | None:
    b = w.beside(a, lambda shape: len(shape) == 1)
    if a.array.size * b.array.size > MAX_ENTRIES:
        return None
    return f"cb.outer({a.name}, {b.name})"


def _inner(w: Writer, a: Known) -> str | None:
    b = w.beside(a, lambda shape: shape == a.array.shape)
    return f"cb.{w.random.choice(('vdot', 'inner'))}({a.name}, {b.name})" if a.array.ndim in (1, 2) else None


PRODUCTS: tuple[Write, ...] = (
    _product,
    _product,
    _product,
    _by_constant,
    _outer,
    _inner,
    lambda w, a: (
        f"cb.matrix_power({a.name}, {w.random.choice((2, 3))})"
        if a.array.ndim == 2 and len(set(a.array.shape)) == 1
        else None
    ),
)
_LAYERS: tuple[Write, ...] = (
    lambda w, a: (
        f"cb.conv2d({a.name}, {w.constant(2, a.array.shape[0], 2, 2)}, padding={w.random.randint(0, 1)})"
        if a.array.ndim == 3 and min(a.array.shape) > 1
        else None
    ),
    lambda w, a: (
        f"cb.matvec({w.constant(w.length(), *a.array.shape)}, {a.name})" if a.array.ndim == 1 else None
    ),
    lambda w, a: f"cb.flatten({a.name})" if a.array.ndim == 3 else None,
)


def _approximated(name: str, most: float) -> Callable[[Writer, Known], str | None]:
    def write(w: Writer, a: Known) -> str | None:
        return f"cb.{name}({a.name}, precision=0.02)" if a.bound <= most else None

    return write


def _lifted(name: str) -> Callable[[Writer, Known], str | None]:
    def write(w: Writer, a: Known) -> str | None:
        return (
            f"cb.{name}({a.name} + {2 * a.bound!r}, lower={a.bound!r}, precision=0.02)" if a.secret else None
        )

    return write


_FUNCTIONS: tuple[Write, ...] = (
    _approximated("tanh", 5),
    _approximated("sigmoid", 8),
    _approximated("gelu", 5),
    _approximated("exp", 3),
    lambda w, a: f"cb.relu({a.name}, precision=0.1)" if w.random.random() < 0.3 else None,
    lambda w, a: (
        f"cb.chebyshev({w.random.choice(('cos', 'line'))}, {a.name}, precision=0.02)"
        if a.bound <= 5
        else None
    ),
    lambda w, a: f"cb.chebyshev(kink, {a.name}, precision=0.1)",
    lambda w, a: f"cb.polynomial({a.name}, {w.random.choice(COEFFICIENTS)})",
    lambda w, a: f"cb.polynomial({a.name}, {w.random.choice(COEFFICIENTS)})",
    _lifted("inverse"),
    _lifted("sqrt"),
    lambda w, a: f"cb.assume({a.name}, {max(1e-3, 1.001 * float(np.abs(a.array).max()))!r})",
    lambda w, a: f"cb.refresh({a.name})" if w.random.random() < 0.3 else None,
)


def _concatenated(w: Writer, a: Known) -> str | None:
    if not a.array.ndim:
        return None
    axis = w.random.randrange(a.array.ndim)

    def fits(shape: tuple[int, ...]) -> bool:
        return (
            len(shape) == a.array.ndim
            and np.delete(shape, axis).tolist() == np.delete(a.array.shape, axis).tolist()
        )

    b = w.beside(a, fits)
    join = "joined" if a.array.ndim == 2 and w.random.random() < 0.2 else "concatenate"
    return f"cb.{join}([{a.name}, {b.name}], axis={axis})"


def _stacked(w: Writer, a: Known) -> str | None:
    b = w.beside(a, lambda shape: shape == a.array.shape)
    return (
        f"cb.stack([{a.name}, {b.name}], axis={w.random.randint(0, a.array.ndim)})"
        if a.array.ndim < 3
        else None
    )


JOINS: tuple[Write, ...] = (_concatenated, _concatenated, _stacked)


# --- running them ---


def drawn(seed: int) -> Drawn:
    """The program of a number. AssertionError where a line does in the library what it does not in NumPy."""
    return Writer(seed).drawn


def checked(seed: int, encrypted: bool) -> str:
    """What became of a program: "runs" or "compiles", or the name of the documented error. All else is a fault.

    Compiled, it comes back from a pickle. Encrypted, every result is as near to NumPy's as the plan promises.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = drawn(seed)
        try:
            trace(lambda **nodes: found.function(**nodes), found.operands)
            try:
                program = found.compiled()
            except cb.CipherblasError as error:
                return type(error).__name__
            comes_back(program)
            if not encrypted or program.plan.peak_bytes > MAX_BYTES:
                return "compiles"
            run = Parties(program).run(found.values).within()
            wanted, got = (listed(program, one) for one in (found.expected(), run.decrypted))
            for value, expected, figures in zip(got, wanted, program.plan.results, strict=True):
                assert value.shape == np.shape(expected), f"{value.shape}, in NumPy {np.shape(expected)}"
                off = float(np.abs(value - expected).max())
                assert off <= figures.error, f"off by {off:.3g}, {figures.error:.3g} promised"
            return "runs"
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{found}") from error


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.random_programs", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--count", type=int, default=3000, help="how many")
    parser.add_argument("--encrypted", type=int, default=6, help="one of so many is run encrypted")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so many")
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    started = time.perf_counter()
    for seed in range(options.first, options.first + options.count):
        begun = time.perf_counter()
        try:
            outcome = checked(seed, seed % options.encrypted == 0)
        except AssertionError:
            outcome = "FAULT"
            print(f"=== {seed}", traceback.format_exc(limit=-8), flush=True)
        outcomes[outcome] += 1
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
