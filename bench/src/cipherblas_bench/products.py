"""One product through the public interface, ready to run: what the benchmarks of products share."""

from __future__ import annotations

import functools
import gc
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import strips
from cipherblas.lang.modular import multiplied
from cipherblas.planner.plan.plan import Plan
from cipherblas_bench.harness import (
    MeasurementError,
    Row,
    Side,
    Timing,
    params_fields,
    peak_memory,
    time_once,
)
from cipherblas_bench.sets import MODULUS_31_BITS, Shape

# Benchmarks measure the evaluation: the plan is the one that makes it least.
SERVER_TIME = {"minimise": "server"}
YARDSTICK_ROWS = 4096  # of the left factor, that are multiplied at a time


class Case(ABC):
    """One product: program, client, server and operands a and b, ready to run.

    Attributes:
        left, right: the clear factors.
        stages: seconds of planning, key generation, encryption, expansion of seeds, decryption.
    """

    def __init__(self, shape: Shape, options: dict[str, Any]) -> None:
        self.shape = shape
        self.left, self.right = self.factors(shape, np.random.default_rng(1))
        start = time.perf_counter()
        self.program = self.compile(shape, options)
        planned = time.perf_counter()
        self.client = self.program.client()
        keys = self.client.evaluation_keys()
        made = time.perf_counter()
        self.server = self.program.server(keys)
        self.stages = {"plan_seconds": planned - start, "keygen_seconds": made - planned}
        start = time.perf_counter()
        self.operands = self.encrypted()
        self.stages["encrypt_seconds"] = time.perf_counter() - start

    @staticmethod
    @abstractmethod
    def compile(shape: Shape, options: dict[str, Any]) -> Any:
        """The program of operands a (left) and b (right)."""

    @staticmethod
    @abstractmethod
    def factors(shape: Shape, random: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        """Clear matrices to multiply."""

    @abstractmethod
    def encrypted(self) -> dict[str, Any]:
        """The operands as the server takes them."""

    @property
    def upload_bytes(self) -> int:
        """Bytes of the encrypted operands."""
        return sum(
            value.nbytes for name, value in self.operands.items() if self.program.operands[name].secret
        )

    def run(self, order: str | None = None) -> Any:
        """One run, in a loop order other than the plan's if wanted: the same keys and ciphertexts serve both."""
        if order is not None:
            self.program.plan = replace(self.program.plan, order=order)
        return self.server.run(self.operands)

    def side(self, repeats: int, order: str | None = None) -> list[float]:
        """Seconds of the evaluation alone, as the server measures them."""
        return [self._timed(order).seconds for _ in range(repeats)]

    def check(self, order: str | None = None) -> tuple[float, int]:
        """(largest error against NumPy, peak bytes of a run)."""
        with peak_memory() as peak:
            result = self._timed(order)
        start = time.perf_counter()
        found = self.client.decrypt(result)
        self.stages["decrypt_seconds"] = time.perf_counter() - start
        return max(self.difference(found[rows], self.expected(rows)) for rows in strips(found)), peak.bytes

    def expected(self, rows: slice) -> NDArray[np.float64]:
        """Rows of the result by NumPy."""
        left, right = (matrix.astype(np.float64, copy=False) for matrix in (self.left[rows], self.right))
        return np.asarray(left @ right)

    def difference(self, found: NDArray[Any], expected: NDArray[np.float64]) -> float:
        """The largest error of an entry."""
        return float(np.abs(found - expected).max())

    def _timed(self, order: str | None) -> Any:
        start = time.perf_counter()
        result = self.run(order)
        # What a run does before it evaluates: mostly the expansion of seeded ciphertexts. Rows are kept expanded, so
        # that later runs do not show it.
        self.stages.setdefault("expand_seconds", time.perf_counter() - start - result.seconds)
        return result

    def drop(self) -> None:
        """Give memory back before the next case, whose peak it would raise."""
        import cipherblas._core as _core

        self.__dict__.clear()
        gc.collect()
        _core.trim_pool()


class SecretCase(Case):
    """secret @ secret."""

    @staticmethod
    def compile(shape: Shape, options: dict[str, Any]) -> Any:
        from cipherblas.lang.operands import secret
        from cipherblas.roles.program import compile as compile_program

        m, k, n = shape
        options = {**SERVER_TIME, **options}
        return compile_program(lambda a, b: a @ b, {"a": secret(m, k), "b": secret(k, n)}, **options)

    @staticmethod
    def factors(shape: Shape, random: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        m, k, n = shape
        return random.uniform(-1, 1, (m, k)), random.uniform(-1, 1, (k, n))

    def encrypted(self) -> dict[str, Any]:
        return dict(self.client.encrypt({"a": self.left, "b": self.right}))


class ChainCase(SecretCase):
    """(secret @ secret) @ secret, of square matrices."""

    @staticmethod
    def compile(shape: Shape, options: dict[str, Any]) -> Any:
        from cipherblas.lang.operands import secret
        from cipherblas.roles.program import compile as compile_program

        m, k, n = shape
        operands = {"a": secret(m, k), "b": secret(k, n), "c": secret(n, n)}
        return compile_program(lambda a, b, c: (a @ b) @ c, operands, **{**SERVER_TIME, **options})

    def encrypted(self) -> dict[str, Any]:
        self.third = np.random.default_rng(2).uniform(-1, 1, (self.shape[2],) * 2)
        return dict(self.client.encrypt({"a": self.left, "b": self.right, "c": self.third}))

    def expected(self, rows: slice) -> NDArray[np.float64]:
        """Rows of the result by NumPy."""
        return np.asarray(super().expected(rows) @ self.third)


def planned_fields(plan: Plan) -> Row:
    """The plan's figures of a program that is not run."""
    return {
        "params": params_fields(plan.parameters),
        "algorithm": plan.algorithm,
        "rotations": plan.counts.rotations,
        "key_bytes": plan.key_bytes,
        "upload_bytes": plan.upload_bytes,
        "predicted_seconds": plan.seconds,
        "predicted_error": plan.error,
        "predicted_peak_bytes": plan.peak_bytes,
    }


EXACT_DTYPES = ("int8", "int16")


def integers(dtype: str, shape: tuple[int, int], random: np.random.Generator) -> NDArray[Any]:
    """Integers that span a type."""
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


class ExactCase(Case):
    """A product of exact integers, of a type that a subclass names."""

    dtype = "int8"

    @classmethod
    def factors(cls, shape: Shape, random: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        m, k, n = shape
        return integers(cls.dtype, (m, k), random), integers(cls.dtype, (k, n), random)

    def difference(self, found: NDArray[Any], expected: NDArray[np.float64]) -> float:
        """Zero: the result must be that of NumPy, whose float64 sums are exact here, bit for bit."""
        if found.dtype != np.int64 or not np.array_equal(found, expected.astype(np.int64)):
            raise MeasurementError("a product of exact integers differs from NumPy's")
        return 0.0


class ExactSecretCase(ExactCase):
    """secret @ secret of exact integers."""

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        from cipherblas.lang.operands import secret
        from cipherblas.roles.program import compile as compile_program

        m, k, n = shape
        a, b = (secret(*each, dtype=cls.dtype, exact=True) for each in ((m, k), (k, n)))
        return compile_program(lambda a, b: a @ b, {"a": a, "b": b}, **exact_options(options))

    def encrypted(self) -> dict[str, Any]:
        return dict(self.client.encrypt({"a": self.left, "b": self.right}))


class ModularCase(Case):
    """A product of integers modulo a `modulus`, which a subclass names."""

    modulus = MODULUS_31_BITS

    def expected(self, rows: slice) -> NDArray[Any]:
        """Rows of the result by NumPy, from 0 to the modulus."""
        left, right = (np.asarray(one, np.int64) % self.modulus for one in (self.left[rows], self.right))
        return multiplied(left, right, self.modulus)

    def difference(self, found: NDArray[Any], expected: NDArray[Any]) -> float:
        """Zero: the result must be that of NumPy, bit for bit."""
        if found.dtype != np.int64 or not np.array_equal(found, expected):
            raise MeasurementError("a product of integers modulo t differs from NumPy's")
        return 0.0


class ModularSecretCase(ModularCase):
    """secret @ secret modulo t."""

    @classmethod
    def factors(cls, shape: Shape, random: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        m, k, n = shape
        return random.integers(0, cls.modulus, (m, k)), random.integers(0, cls.modulus, (k, n))

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        from cipherblas.lang.operands import secret
        from cipherblas.roles.program import compile as compile_program

        m, k, n = shape
        a, b = (secret(*each, modulus=cls.modulus) for each in ((m, k), (k, n)))
        return compile_program(lambda a, b: a @ b, {"a": a, "b": b}, **exact_options(options))

    def encrypted(self) -> dict[str, Any]:
        return dict(self.client.encrypt({"a": self.left, "b": self.right}))


def modular_fields(modulus: int, plan: Plan, ours: Timing, floats: Timing) -> Row:
    """The fields of a row modulo t for the floats that were measured in turns with it."""
    ratio = ours.seconds / floats.seconds
    return {
        "modulus": modulus,
        "float_seconds": floats.seconds,
        "modular_over_float": ratio,
        "float_algorithm": plan.algorithm,
        "float_params": params_fields(plan.parameters),
        "note": f"modulo {modulus}: {ratio:.2f} x float",
    }


def exact_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options of `compile` for exact integers: a precision is that of the float form beside it."""
    return {**SERVER_TIME, **{name: value for name, value in options.items() if name != "precision"}}


class AlikeCase(Case):
    """The same integers as real numbers, with the error that the plan of exact ones has: like for like.

    Attributes:
        error: of an entry of the result, at most.
    """

    dtype = "int8"
    error = 0.5

    @classmethod
    def factors(cls, shape: Shape, random: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        left, right = ExactCase.factors.__func__(cls, shape, random)  # type: ignore[attr-defined]
        return left, right.astype(np.float64)

    @classmethod
    def bound(cls) -> float:
        """On the absolute value of an integer of the type."""
        return -float(np.iinfo(cls.dtype).min)

    def difference(self, found: NDArray[Any], expected: NDArray[np.float64]) -> float:
        """The largest error of an entry, which must not be more than was asked for."""
        largest = super().difference(found, expected)
        if largest > self.error:
            raise MeasurementError(f"an entry is off by {largest:g}, where {self.error:g} was asked for")
        return largest


class AlikeSecretCase(AlikeCase):
    """secret @ secret."""

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        from cipherblas.lang.operands import secret
        from cipherblas.roles.program import compile as compile_program

        m, k, n = shape
        a, b = (secret(*each, bound=cls.bound()) for each in ((m, k), (k, n)))
        options = {**exact_options(options), "error": cls.error}
        return compile_program(lambda a, b: a @ b, {"a": a, "b": b}, **options)

    def encrypted(self) -> dict[str, Any]:
        return dict(self.client.encrypt({"a": self.left, "b": self.right}))


def exact_fields(others: Sequence[Case], ours: Timing, timings: Sequence[Timing]) -> Row:
    """The fields of a row of exact integers for the float forms that were measured in turns with it: at the default
    precision, and with the error of the exact one."""
    plan, other = (case.program.plan for case in others)
    theirs, same = timings
    return {
        "exact": True,
        "float_seconds": theirs.seconds,
        "exact_over_float": ours.seconds / theirs.seconds,
        "float_algorithm": plan.algorithm,
        "float_params": params_fields(plan.parameters),
        "same_error_seconds": same.seconds,
        "exact_over_same_error": ours.seconds / same.seconds,
        "same_error_algorithm": other.algorithm,
        "same_error_params": params_fields(other.parameters),
    }


def exact_note(dtype: str, fields: Row) -> str:
    """The ratios, for people."""
    return (
        f"exact {dtype}: {fields['exact_over_float']:.2f} x float, {fields['exact_over_same_error']:.2f} x with "
        "the same error"
    )


def gemm_side(left: NDArray[Any], right: NDArray[Any]) -> Side:
    """The yardstick: the float64 GEMM of the same shape, on as many threads.

    Of many rows it is done in strips, which take less memory and as many seconds.
    """
    import cipherblas._core as _core
    from cipherblas.common import openblas

    if not openblas.load():
        raise ValueError("the yardstick: expected the BLAS of scipy-openblas64, got none")
    b, rows = np.ascontiguousarray(right, dtype=np.float64), min(len(left), YARDSTICK_ROWS)
    out = np.empty((rows, b.shape[1]))

    @functools.lru_cache(maxsize=1)
    def strip(start: int) -> NDArray[np.float64]:
        return np.ascontiguousarray(left[start : start + rows], dtype=np.float64)

    def once() -> float:
        seconds = 0.0
        for start in range(0, len(left), rows):
            a = strip(start)
            seconds += time_once(functools.partial(_core.double_gemm, a, b, out[: len(a)]))
        return seconds

    return lambda repeats: [once() for _ in range(repeats)]
