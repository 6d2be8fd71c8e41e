"""Clear matrix times encrypted matrix through the public interface, beside the float64 GEMM of the same shape.

`seconds` is the server's evaluation, the conversion of the weights included unless they are fixed; planning, key
generation, encryption, the expansion of seeds and decryption stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas_bench.harness import Row, Timing, in_turns, params_fields, row
from cipherblas_bench.products import (
    EXACT_DTYPES,
    SERVER_TIME,
    AlikeCase,
    Case,
    ExactCase,
    ModularCase,
    exact_fields,
    exact_note,
    exact_options,
    gemm_side,
    integers,
    modular_fields,
)
from cipherblas_bench.sets import Shape

DTYPES = ("int8", "int16", "float16", "float32", "float64")


class PublicCase(Case):
    """public @ secret, with weights of a type that a subclass names."""

    dtype = "int8"
    fixed = False

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        from cipherblas.lang.operands import public, secret
        from cipherblas.roles.program import compile as compile_program

        m, k, n = shape
        options = {**SERVER_TIME, **options}
        if cls.fixed:
            weights, _ = cls.factors(shape, np.random.default_rng(1))
            return compile_program(lambda b: weights @ b, {"b": secret(k, n)}, **options)
        return compile_program(
            lambda a, b: a @ b, {"a": public(m, k, dtype=cls.dtype), "b": secret(k, n)}, **options
        )

    @classmethod
    def factors(cls, shape: Shape, random: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        m, k, n = shape
        kind = np.dtype(cls.dtype)
        if kind.kind == "f":
            weights = random.uniform(-1, 1, (m, k)).astype(kind)
        else:
            weights = integers(cls.dtype, (m, k), random)
        return weights, random.uniform(-1, 1, (k, n))

    def encrypted(self) -> dict[str, Any]:
        weights = {} if self.fixed else {"a": self.left}
        return {**weights, **self.client.encrypt({"b": self.right})}


class ExactPublicCase(ExactCase, PublicCase):
    """public @ secret of exact integers, both of one type."""

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        from cipherblas.lang.operands import public, secret
        from cipherblas.roles.program import compile as compile_program

        m, k, n = shape
        options, b = exact_options(options), secret(k, n, dtype=cls.dtype, exact=True)
        if cls.fixed:
            weights, _ = cls.factors(shape, np.random.default_rng(1))
            return compile_program(lambda b: weights @ b, {"b": b}, **options)
        return compile_program(lambda a, b: a @ b, {"a": public(m, k, dtype=cls.dtype), "b": b}, **options)


class ModularPublicCase(ModularCase, PublicCase):
    """public integers @ secret modulo t."""

    @classmethod
    def factors(cls, shape: Shape, random: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        m, k, n = shape
        return integers(cls.dtype, (m, k), random), random.integers(0, cls.modulus, (k, n))

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        from cipherblas.lang.operands import public, secret
        from cipherblas.roles.program import compile as compile_program

        m, k, n = shape
        options, b = exact_options(options), secret(k, n, modulus=cls.modulus)
        if cls.fixed:
            weights, _ = cls.factors(shape, np.random.default_rng(1))
            return compile_program(lambda b: weights @ b, {"b": b}, **options)
        return compile_program(lambda a, b: a @ b, {"a": public(m, k, dtype=cls.dtype), "b": b}, **options)


class AlikePublicCase(AlikeCase, PublicCase):
    """public @ secret of the same integers, the secret ones as real numbers."""

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        from cipherblas.lang.operands import public, secret
        from cipherblas.roles.program import compile as compile_program

        m, k, n = shape
        options, b = {**exact_options(options), "error": cls.error}, secret(k, n, bound=cls.bound())
        if cls.fixed:
            weights, _ = cls.factors(shape, np.random.default_rng(1))
            return compile_program(lambda b: weights @ b, {"b": b}, **options)
        return compile_program(lambda a, b: a @ b, {"a": public(m, k, dtype=cls.dtype), "b": b}, **options)


def run(
    shapes: Sequence[Shape] = ((1024, 1024, 1024),),
    *,
    dtypes: Sequence[str] = ("int8",),
    fixed: bool = False,
    exact: bool = False,
    modulus: int | None = None,
    threads: int = 1,
    budget: float = 2.0,
    **options: Any,
) -> Iterator[Row]:
    """Rows of `bench pc`, as they are measured.

    Args:
        shapes: (m, k, n) of each product: m × k weights.
        dtypes: of the weights.
        fixed: the weights are a constant of the program, prepared once.
        exact: weights and secret matrices are exact integers of an integer type, and float forms of the same shape,
            with weights of that type, are measured in turns with them.
        modulus: t of secret matrices of integers modulo t, with weights of an integer type, and in turns with them the
            floats in the same form; not with `exact`.
        threads: of the server and of the yardstick.
        budget: seconds spent on each side of each case.
        **options: further options of `compile`.

    Raises:
        ValueError: unknown type.
    """
    import cipherblas._core as _core

    if exact and modulus is not None:
        raise ValueError("modulus: expected no exact integers beside it, got both")
    known = EXACT_DTYPES if exact or modulus is not None else DTYPES
    for name in dtypes:
        if name not in known:
            raise ValueError(f"dtype: expected {' | '.join(known)}, got {name}")
    _core.set_threads(threads)
    options = {"threads": threads, **options}
    for shape in shapes:
        for name in dtypes:
            about = {"dtype": name, "fixed": fixed}
            if modulus is not None:
                kind: type[PublicCase] = ModularPublicCase
                case = _made(kind, shape, options, **about, modulus=modulus)
                others = [_made(PublicCase, shape, {"form": case.program.plan.form, **options}, **about)]
                yield measured(case, others, name, fixed, threads, budget, modulus)
                continue
            case = _made(ExactPublicCase if exact else PublicCase, shape, options, **about)
            others = []
            if exact:
                alike = {**about, "error": case.program.plan.error}
                others = [
                    _made(PublicCase, shape, options, **about),
                    _made(AlikePublicCase, shape, options, **alike),
                ]
            yield measured(case, others, name, fixed, threads, budget)


def _made(kind: type[PublicCase], shape: Shape, options: dict[str, Any], **attributes: Any) -> PublicCase:
    """A case of a kind with other attributes."""
    named: type[PublicCase] = type(kind.__name__, (kind,), attributes)
    return named(shape, options)


def measured(
    case: PublicCase,
    others: list[PublicCase],
    dtype: str,
    fixed: bool,
    threads: int,
    budget: float,
    modulus: int | None = None,
) -> Row:
    """The row of a case; of exact integers with both float forms beside it, of integers modulo t with one."""
    error, peak_bytes = case.check()
    for other in others:
        other.check()
    sides = [case.side, gemm_side(case.left, case.right), *(other.side for other in others)]
    ours, gemm, *floats = (Timing.of(runs) for runs in in_turns(sides, budget=budget))
    plan, counts = case.program.plan, case.server.last.counts
    largest = _largest(case.left) * _largest(case.right)
    found = row(
        "pc",
        "x".join(map(str, case.shape)),
        params=params_fields(plan.parameters),
        algorithm=plan.algorithm,
        threads=threads,
        timing=ours,
        error=error,
        rotations=counts.rotations,
        products=counts.plain_products,
        key_bytes=plan.key_bytes,
        upload_bytes=case.upload_bytes,
        peak_bytes=peak_bytes,
        gemm_seconds=gemm.seconds,
        dtype=dtype,
        fixed=fixed,
        relative_error=error / (largest * case.shape[1]),
        predicted_seconds=plan.seconds,
        predicted_error=plan.error,
        predicted_peak_bytes=plan.peak_bytes,
        note=f"{dtype} weights{', fixed' if fixed else ''}",
        **case.stages,
    )
    if modulus is not None:
        (alike,), (beside,) = others, floats
        found.update(modular_fields(modulus, alike.program.plan, ours, beside))
    elif others:
        found.update(exact_fields(others, ours, floats))
        found["note"] = exact_note(dtype + ", fixed" * fixed, found)
    for each in (case, *others):
        each.drop()
    return found


def _largest(matrix: NDArray[Any]) -> float:
    """The largest absolute value of an entry, without a copy of all of them."""
    return max(float(matrix.max()), -float(matrix.min()))
