"""Code written against `Evaluator`, run by itself on any of its interpreters: counted, in the clear, on ciphertexts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import is_scalar
from cipherblas.common.encoding import encoded
from cipherblas.common.errors import DTypeError, ParameterError, RangeError, ShapeError
from cipherblas.common.progress import Tell
from cipherblas.crypto.fields import MAX_LOG_N, MIN_LOG_N
from cipherblas.crypto.keys import (
    KeyRequest,
    decrypt_coefficients,
    encrypt,
    generate_secret,
    make_evaluation_keys,
)
from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct
from cipherblas.lab import rings
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy, check_policy, rotation_steps
from cipherblas.rlwe.rings import Ring

On = Literal["symbolic", "clear", "native"]
Function = Callable[..., Any]
Slots = NDArray[np.complex128]
MIN_SLOTS, MAX_SLOTS = 1 << (MIN_LOG_N - 1), 1 << (MAX_LOG_N - 1)


@dataclass(frozen=True)
class Outcome:
    """The results of `run`.

    Attributes:
        on: the interpreter.
        ring: parameters of ciphertexts; sizes of moduli alone where nothing was encrypted.
        value: the slots, complex: S of one result, results × S of a list of them; None of a symbolic run.
        counts: operations.
        keys: the evaluation keys that were declared.
        levels: rescales that the results have gone through, at most.
        peak_bytes: of ciphertexts, working buffers and masks together, operands and keys left out.
        bound: no slot of a result exceeds it.
        noise: predicted standard deviation of the error of a slot's real part, the largest of the results.
        error: predicted bound on the errors of all slots of all results, but for a chance of 2^-40.
        measured: the largest error of a real or imaginary part against the run in the clear, where it was asked for.
    """

    on: On
    ring: Ring
    value: Slots | None = field(repr=False)
    counts: Counts = field(repr=False)
    keys: KeyRequest = field(repr=False)
    levels: int
    peak_bytes: int
    bound: float
    noise: float
    error: float
    measured: float | None = None

    @property
    def slots(self) -> int:
        """Slots of a ciphertext."""
        return self.ring.n // 2

    @property
    def rotation_steps(self) -> list[int]:
        """The rotations that have a key."""
        return rotation_steps(self.keys.galois, self.ring.n)

    def __str__(self) -> str:
        spent = [f"{number} {name}" for name, number in vars(self.counts).items() if number]
        measured = "" if self.measured is None else f", measured {self.measured:.2g}"
        return "\n".join(
            [
                f"{self.on}: {self.slots} slots, {len(self.ring.q)} limbs, {self.levels} levels spent",
                f"counts: {', '.join(spent)}",
                f"keys: {len(self.keys)}, rotations by {self.rotation_steps}",
                f"error: at most {self.error:.2g} of values up to {self.bound:.3g}{measured}",
            ]
        )


def run(
    function: Function,
    inputs: Sequence[Any],
    on: On = "symbolic",
    *,
    slots: int | None = None,
    depth: int | None = None,
    ring: Ring | None = None,
    bound: float | None = None,
    key_policy: KeyPolicy = "direct",
    security: int = 128,
    insecure: bool = False,
    compare: bool = False,
    progress: Tell | None = None,
) -> Outcome:
    """Run code that is written against `Evaluator`, with nothing but the keys that it declares.

    "symbolic" computes nothing: counts, keys and errors alone. "clear" computes on NumPy slots. "native" makes a secret
    key and the evaluation keys, encrypts, computes on ciphertexts and decrypts, here: what it measures is true, what is
    secret is not kept from this process. All three count alike.

    Args:
        function: called as function(ev, *handles) with an evaluator and one ciphertext per input; returns a ciphertext
            or a list of them. It is called once without data, and more often where the depth is looked for.
        inputs: vectors of slots, real or complex; what is shorter than `slots` is followed by zeros. For a symbolic run
            a number will do, the bound on a vector.
        on: the interpreter.
        slots: of a ciphertext, a power of two; rotations go around them. By default as many as the longest input.
        depth: rescales above two limbs of 48 bits, each of 40 bits like the scale; by default the least that is enough.
        ring: parameters instead of these: `make_parameters(…)`, or without data a `RingShape`.
        bound: on the absolute values of the inputs; by default each one's largest.
        key_policy: how rotations are made of those that have keys: "direct", "composed" or "binary".
        security: bits that a native run must have, unless `insecure`.
        insecure: accept a toy ring, with a warning.
        compare: measure the error of a native run against one in the clear.
        progress: called with a few words on what is done now.

    Raises:
        LevelError: the ring, or any ring, has too few limbs.
        SecurityError: a native run on so few slots is not secure; names how many would be.
        ShapeError, DTypeError, RangeError, ParameterError: inputs or options are not as described.
    """
    if on not in get_args(On):
        raise ParameterError(
            "There is nothing of this name to run on.", expected=" | ".join(get_args(On)), got=on
        )
    check_policy(key_policy)
    given = [_given(value, number, on) for number, value in enumerate(inputs)]
    count = _slots(given, slots, ring)
    bounds = [_bound(value, bound) for value in given]
    tell: Tell = progress or (lambda what: None)

    def symbolic(on_ring: Ring) -> tuple[Symbolic, list[Ct]]:
        tell(f"counts on {len(on_ring.q)} limbs")
        ev = Symbolic(on_ring, key_policy=key_policy)
        return ev, _listed(_called(function, ev, [ev.fresh(None, bound=one) for one in bounds]))

    chosen = ring
    if chosen is None:
        if depth is None:
            depth = rings.least_depth(lambda tried: symbolic(rings.shape(count, tried)))
        elif not _is_integer(depth) or not 0 <= depth <= rings.MAX_DEPTH:
            raise ParameterError(
                "The depth is out of its range.", expected=f"0 to {rings.MAX_DEPTH}", got=depth
            )
        chosen = rings.shape(count, depth)
        if on == "native":
            chosen = rings.parameters(count, depth, security, insecure)
    elif depth is not None:
        raise ParameterError(
            "The ring and its depth cannot both be given.", expected="ring=… or depth=…", got="both"
        )
    counter, planned = symbolic(chosen)
    if on == "symbolic":
        return _outcome(on, counter, planned, None)
    vectors = [_padded(value, count) for value in given]
    if on == "clear":
        tell("computes in the clear")
        return _in_clear(function, vectors, bounds, chosen, counter.request, key_policy)
    if not isinstance(chosen, Parameters):
        raise DTypeError(
            "A native run needs Parameters for its ring.", expected="Parameters", got=type(chosen).__name__
        )
    chosen.check_security(security, insecure)
    found = _native(function, vectors, bounds, chosen, counter.request, key_policy, tell)
    if not compare:
        return found
    tell("computes in the clear")
    exact = _in_clear(function, vectors, bounds, chosen, counter.request, key_policy)
    assert found.value is not None and exact.value is not None
    difference = found.value - exact.value
    parts = np.abs(difference.real).max(), np.abs(difference.imag).max()
    return replace(found, measured=float(max(parts)))


def block_product(method: Algorithm) -> Function:
    """The product of two blocks by a method, for `run`: of the ciphertexts of the left one, then of the right one.

    Its layouts pack and unpack: `left_layout.pack(a)`, `right_layout.pack(b)`, `out_layout.unpack(list(value))`.
    """
    lefts = method.left_layout.ciphertexts

    def product(ev: Evaluator, *cts: Ct) -> list[Ct]:
        return method.finish(ev, method.multiply_once(ev, cts[:lefts], cts[lefts:], None))

    return product


# --- inputs ---


def _given(value: Any, number: int, on: On) -> Slots | float:
    """A vector of slots, or a bound where that is enough."""
    what = f"input {number}"
    if is_scalar(value):
        if on != "symbolic":
            raise DTypeError(
                f"The {what} must be a vector of slots where it is computed with.",
                expected="a vector of slots",
                got="a number, which is a bound",
            )
        if not 0 < value < math.inf:
            raise RangeError(
                f"The {what} must be a vector of slots or a positive bound.",
                expected="a positive bound, or a vector of slots",
                got=value,
            )
        return float(value)
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise DTypeError(f"The {what} must hold numbers.", expected="numbers", got=array.dtype)
    if array.ndim != 1 or not array.size:
        raise ShapeError(
            f"The {what} must be a vector of slots.", expected="a vector of slots", got=array.shape
        )
    if not np.isfinite(array).all():
        raise RangeError(f"The {what} must hold finite numbers.", expected="finite numbers", got="others")
    return array.astype(np.complex128)


def _slots(given: Sequence[Slots | float], slots: int | None, ring: Ring | None) -> int:
    lengths = [value.size for value in given if not isinstance(value, float)]
    if ring is not None:
        if slots not in (None, ring.n // 2):
            raise ParameterError(
                "The ring has another number of slots.",
                expected=f"{ring.n // 2}, those of the ring",
                got=slots,
            )
        slots = ring.n // 2
    elif slots is None:
        if not lengths:
            raise ParameterError(
                "The slots must be given where no input is a vector.",
                expected="slots=… where no input is a vector",
                got=None,
            )
        slots = max(MIN_SLOTS, 1 << (max(lengths) - 1).bit_length())
    if not _is_integer(slots) or slots < 1 or slots & (slots - 1):
        raise ParameterError(
            "The number of slots must be a power of two.", expected="a power of two", got=slots
        )
    if not MIN_SLOTS <= slots <= MAX_SLOTS:
        raise ParameterError(
            "There is no ring of so many slots.", expected=f"{MIN_SLOTS} to {MAX_SLOTS}", got=slots
        )
    if max(lengths, default=0) > slots:
        raise ShapeError(
            "An input is longer than the slots of the ring.",
            expected=f"at most {slots} slots",
            got=max(lengths),
        )
    return slots


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _bound(value: Slots | float, bound: float | None) -> float:
    """The declared bound of an input; of zeros 1 where nothing is declared."""
    largest = value if isinstance(value, float) else float(np.abs(value).max())
    if bound is None:
        return largest or 1.0
    if not is_scalar(bound) or not 0 < bound < math.inf:
        raise ParameterError("The bound must be a positive number.", expected="a positive number", got=bound)
    if largest > bound:
        raise RangeError(
            "An input exceeds its bound.", expected=f"absolute values up to {bound:g}", got=largest
        )
    return float(bound)


def _padded(value: Slots | float, slots: int) -> Slots:
    assert not isinstance(value, float)
    return np.pad(value, (0, slots - value.size))


# --- runs ---


def _called(function: Function, ev: Evaluator, cts: Sequence[Ct]) -> Any:
    """The result of the function: a ciphertext or a list of them."""
    found = function(ev, *cts)
    results = _listed(found)
    if not isinstance(results, (list, tuple)) or not results or not all(isinstance(ct, Ct) for ct in results):
        raise DTypeError(
            "The function must return a ciphertext or a list of them.",
            expected="a ciphertext or a list of them",
            got=type(found).__name__,
        )
    return found


def _listed(found: Any) -> Any:
    return [found] if isinstance(found, Ct) else found


def _in_clear(
    function: Function,
    vectors: Sequence[Slots],
    bounds: Sequence[float],
    ring: Ring,
    request: KeyRequest,
    key_policy: KeyPolicy,
) -> Outcome:
    """The run on slots, with no keys but those that were declared without data."""
    ev = Clear(ring, key_policy=key_policy, available=request)
    operands = [ev.fresh(vector.copy(), bound=bound) for vector, bound in zip(vectors, bounds, strict=True)]
    found = _called(function, ev, operands)
    return _outcome("clear", ev, found, [ct.data for ct in _listed(found)])


def _native(
    function: Function,
    vectors: Sequence[Slots],
    bounds: Sequence[float],
    params: Parameters,
    request: KeyRequest,
    key_policy: KeyPolicy,
    tell: Tell,
) -> Outcome:
    """The run on ciphertexts, decrypted. The secret ends with it."""
    context, scale = params.context(), 2.0**params.scale_bits
    with generate_secret(params) as secret:
        keys = make_evaluation_keys(secret, request, lambda done, total: tell(f"key {done} of {total}"))
        ev = Native(params, keys, key_policy=key_policy)
        tell("encrypts")
        operands = [
            ev.fresh(encrypt(secret, encoded(context, vector, scale)).expand(), bound=bound)
            for vector, bound in zip(vectors, bounds, strict=True)
        ]
        tell("computes on ciphertexts")
        found = _called(function, ev, operands)
        tell("decrypts")
        slots = [
            context.decode(decrypt_coefficients(secret, ev.engine.download(ct.data)) / ct.scale)
            for ct in _listed(found)
        ]
    return _outcome("native", ev, found, slots)


def _outcome(on: On, ev: Evaluator, found: Any, slots: Sequence[Slots] | None) -> Outcome:
    results = _listed(found)
    value = None if slots is None else np.array(slots[0] if isinstance(found, Ct) else slots)
    parts = 2 * len(results) * ev.slots  # real and imaginary ones
    return Outcome(
        on=on,
        ring=ev.params,
        value=value,
        counts=ev.counts,
        keys=ev.request,
        levels=max(ev.top_limbs - ct.limbs for ct in results),
        peak_bytes=ev.peak_bytes,
        bound=max(ct.bound for ct in results),
        noise=max(ct.noise for ct in results),
        error=max(ct.error(parts) for ct in results),
    )
