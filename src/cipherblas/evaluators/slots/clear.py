"""`Clear`: runs an algorithm on NumPy slot vectors, to check its data movement in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ShapeError
from cipherblas.evaluators.policy.interface import check_approximate
from cipherblas.evaluators.slots.bookkeeping import CONJUGATE, Term
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import (
    ClearFactor,
    Ct,
    OpenParts,
    Plain,
    Polynomials,
    Slots,
    WeightGroup,
)

GARBAGE_SEED = 2026  # of what is in parts of slots that are left open


def embedding_exponents(n: int) -> NDArray[np.int64]:
    """5^j modulo 2N: slot j is the value of the polynomial at that power of the 2N-th root of unity."""
    return np.array([pow(5, j, 2 * n) for j in range(n // 2)], np.int64)


def embedded(coefficients: NDArray[np.float64]) -> Slots:
    """The slots of a real polynomial, or of each row."""
    n = coefficients.shape[-1]
    values = n * np.fft.ifft(coefficients * np.exp(1j * np.pi / n * np.arange(n)))
    return np.asarray(values[..., embedding_exponents(n) // 2])


def coefficients_of(slots: Slots) -> NDArray[np.float64]:
    """The real polynomial that has these slots."""
    n = 2 * len(slots)
    exponents = embedding_exponents(n)
    values = np.empty(n, np.complex128)
    values[exponents // 2] = slots
    values[(2 * n - exponents) // 2] = np.conj(slots)
    return np.asarray((np.fft.fft(values) / n * np.exp(-1j * np.pi / n * np.arange(n))).real)


def _summed(lefts: Sequence[Slots], rights: Sequence[Slots], accumulator: Slots | None) -> Slots:
    """Σ left ⊙ right, added to an accumulator in place. Real slots stay real."""
    before = np.zeros(np.shape(rights[0])) if accumulator is None else accumulator
    total = before.astype(np.result_type(before, *lefts, *rights), copy=False)
    for left, right in zip(lefts, rights, strict=True):
        total += left * right
    return total


class Clear(Evaluator):
    """Exact slots in the clear. With `available` given, an operation whose key was not declared raises."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        check_approximate(self.policy, "complex slots in the clear")
        self._garbage = np.random.default_rng(GARBAGE_SEED)

    def encrypt(self, values: NDArray[Any], *, bound: float | None = None, limbs: int | None = None) -> Ct:
        """A fresh handle on `values` (S slots); the bound is by default the largest absolute value."""
        slots = np.asarray(values, dtype=np.complex128)
        if slots.shape != (self.slots,):
            raise ShapeError(
                "The vector has another length than there are slots.", expected=(self.slots,), got=slots.shape
            )
        return self.fresh(slots, bound=float(np.abs(slots).max()) if bound is None else bound, limbs=limbs)

    def left_open(self, ct: Ct, parts: Callable[[], OpenParts]) -> Ct:
        """As `Evaluator.left_open`: random numbers there, between half of what the bound allows and all of it."""
        real, imaginary = parts()
        before = ct.data
        kept = np.where(real, 0.0, ct.data.real) + 1j * np.where(imaginary, 0.0, ct.data.imag)
        size = self._garbage.uniform(0.5, 1.0, self.slots)
        size *= np.sqrt(np.maximum(ct.bound**2 - np.abs(kept) ** 2, 0.0))
        random_phases = size * np.exp(1j * self._garbage.uniform(0.0, 2 * np.pi, self.slots))
        sign = np.sign(random_phases.real)
        alone = real != imaginary
        ct.data = kept + np.where(real, np.where(alone, sign * size, random_phases.real), 0.0)
        ct.data += 1j * np.where(imaginary, np.where(alone, sign * size, random_phases.imag), 0.0)
        beyond = (real | imaginary) & (np.abs(before) > ct.bound)  # what breaks its bound must be seen to
        ct.data = np.where(beyond, before, ct.data)
        return ct

    def _rotated(self, data: Slots, step: int) -> Slots:
        return np.conj(data) if step == CONJUGATE else np.roll(data, -step, axis=-1)

    def _joined_data(self, parts: Sequence[Any], inner: Any, limbs: int) -> Any:
        coefficients = np.zeros((inner.n, self.n // inner.n))
        for power, slots in enumerate(parts):
            if slots is not None:
                coefficients[:, power] = coefficients_of(slots)
        return embedded(coefficients.ravel())

    def _parted_data(self, data: Any, inner: Any, limbs: int) -> Sequence[Any]:
        return list(embedded(np.ascontiguousarray(coefficients_of(data).reshape(inner.n, -1).T)))

    def _raise_data(self, data: Any, limbs: int) -> Any:
        return data  # without the multiples of q_0, which nothing in the clear could tell

    def _rotate_data(self, data: Any, steps: Sequence[int], limbs: int) -> list[Any]:
        return [self._rotated(data, step) for step in steps]

    def _transform_data(
        self,
        sources: Sequence[Any],
        terms: Sequence[Term],
        outputs: int,
        limbs: int,
        rescale: bool,
        order: str | None,
    ) -> list[Any]:
        results = [np.zeros(np.shape(sources[0]), np.complex128) for _ in range(outputs)]
        for term in terms:
            rotated = self._rotated(sources[term.source], term.step)
            results[term.output] += rotated if term.plain is None else term.plain.values() * rotated
        return results

    def _product_data(self, lefts: Sequence[Any], rights: Sequence[Any], accumulator: Any) -> Any:
        return _summed(lefts, rights, accumulator)

    def _plain_product_data(
        self, plains: Sequence[Plain], scale: float, cts: Sequence[Any], accumulator: Any, limbs: int
    ) -> Any:
        return _summed([plain.values() for plain in plains], cts, accumulator)

    def _weighted_sums_data(
        self, groups: Sequence[WeightGroup], scale: float, cts: Sequence[Any], limbs: int
    ) -> list[Any]:
        return [
            _summed(
                [group.build(term) for term in range(len(group.sources))],
                [cts[source] for source in group.sources],
                None,
            )
            for group in groups
        ]

    def _polynomial_sums_data(self, polynomials: Polynomials, cts: Sequence[Any]) -> list[Any]:
        whole = np.zeros((*polynomials.shape[:2], self.n))
        whole[..., : polynomials.shape[2]] = polynomials.unit * polynomials.integers()
        return [_summed(list(embedded(row)), cts, None) for row in whole]

    def _matrix_product_data(self, factor: ClearFactor, cts: Sequence[Ct], limbs: int) -> list[Any]:
        numbers = factor.unit * np.asarray(factor.integers(), np.float64)
        return list(np.tensordot(numbers, np.stack([ct.data for ct in cts]), 1))

    def _relinearise_data(self, data: Any, limbs: int) -> Any:
        return data

    def _rescale_data(self, data: Any) -> Any:
        return data

    def _drop_data(self, data: Any, limbs: int) -> Any:
        return data

    def _add_data(self, x: Any, y: Any) -> Any:
        return x + y

    def _sub_data(self, x: Any, y: Any) -> Any:
        return x - y

    def _negate_data(self, x: Any) -> Any:
        return -x

    def _add_plain_data(self, x: Any, plain: Plain, scale: float, factor: int, limbs: int) -> Any:
        return x + plain.values()

    def _times_monomial_data(self, x: Any, power: int, limbs: int) -> Any:
        return x * np.exp(1j * np.pi / self.n * (power * embedding_exponents(self.n) % (2 * self.n)))

    def _scale_data(self, x: Any, factor: int, value: float) -> Any:
        return x * value
