"""Clear × secret over the dimension in every form that the planner has, beside the float64 GEMM: claims of Bae et al.

Source: Y. Bae, J. H. Cheon, G. Hanrot, J. H. Park, D. Stehlé: Plaintext-Ciphertext Matrix Multiplication and FHE
Bootstrapping: Fast and Fused, https://eprint.iacr.org/2024/1284, whose slides report 0.31 s for 256×256 on one thread
of a Xeon Gold 6242, at most 3.5 times the plain product, and conversions that are negligible but for small matrices.

Each form is measured in a process of its own. What takes longer than a limit, or more memory than there is, is not run:
its row holds the plan's predictions and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import CipherblasError, MemoryBudgetError, ParameterError
from cipherblas.common.limits import available_memory
from cipherblas.methods.products import GEMM
from cipherblas.planner.plan.explain import size as size_text
from cipherblas.planner.plan.plan import Plan
from cipherblas.planner.predict.machine import Machine
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.matrices.matrix import bit_ceil
from cipherblas_bench.harness import Row, row, seconds_text
from cipherblas_bench.own_process import in_own_process
from cipherblas_bench.pc import PublicCase, measured
from cipherblas_bench.products import SERVER_TIME, YARDSTICK_ROWS, planned_fields
from cipherblas_bench.sets import Shape

SIZES = tuple(1 << bits for bits in range(7, 15))
LIMIT_SECONDS = 60.0  # of one run
PUBLISHED_SECONDS = {256: 0.31}
PUBLISHED_TIMES_GEMM = 3.5
UNLIMITED = 1 << 62  # bytes, where a plan is only predicted


class BaeCase(PublicCase):
    """int8 weights times a secret matrix in one form.

    Attributes:
        options: of `compile`, that force the form.
        converted: values come from slots, or go there.
        claimed: the paper's claims are about this form.
    """

    options: ClassVar[dict[str, Any]] = {"form": "rows"}
    converted: ClassVar[bool] = False
    claimed: ClassVar[bool] = True

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        return super().compile(shape, {**options, **cls.options})


class RlweRows(BaeCase):
    """Rows of at most N entries, each with an a part of its own."""

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        program, length = super().compile(shape, options), bit_ceil(shape[2])
        if program.plan.parameters.n >= length:
            return program
        return super().compile(shape, {**options, "ring_degree": length})


class SharedRows(BaeCase):
    """Rows longer than N, whose segments share an a part."""

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        program = super().compile(shape, options)
        n = program.plan.parameters.n
        if n >= shape[2]:
            raise ParameterError(
                "The planner takes no ring that is smaller than a row.",
                expected=f"N below {shape[2]}",
                got=n,
            )
        return program


class SharedBatch(BaeCase):
    """Weights that are a constant of the program: all rows share the a part of a segment, which a key switches."""

    fixed = True

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        program = super().compile(shape, options)
        if not program.plan.key_bytes:
            raise ParameterError(
                "The planner finds the product without keys faster.",
                expected="keys of the weights",
                got="none",
            )
        return program


class Slots(BaeCase):
    """The published product in slots (Jiang, Kim, Lauter, Song 2018), in blocks."""

    options: ClassVar[dict[str, Any]] = {"algorithm": "e2dm"}
    claimed = False


class _Converted(BaeCase):
    """A product beside an entrywise one with a clear matrix, which is in slots."""

    options: ClassVar[dict[str, Any]] = {"form": "mixed"}
    converted = True
    claimed = False

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        from cipherblas.lang.operands import public, secret
        from cipherblas.roles.program import compile as compile_program

        m, k, n = shape
        operands = {"a": public(m, k, dtype=cls.dtype), "b": secret(k, n), "c": public(*cls.entries(shape))}
        return compile_program(cls.formula, operands, **{**SERVER_TIME, **options, **cls.options})

    @staticmethod
    def formula(a: Any, b: Any, c: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def entries(cls, shape: Shape) -> tuple[int, int]:
        """The shape of the clear matrix."""
        raise NotImplementedError

    def encrypted(self) -> dict[str, Any]:
        self.clear = np.random.default_rng(2).uniform(-1, 1, self.entries(self.shape))
        return {**super().encrypted(), "c": self.clear}


class FromSlots(_Converted):
    """The secret factor is computed in slots."""

    @staticmethod
    def formula(a: Any, b: Any, c: Any) -> Any:
        return a @ (b * c)

    @classmethod
    def entries(cls, shape: Shape) -> tuple[int, int]:
        return shape[1:]

    def expected(self, rows: slice) -> NDArray[np.float64]:
        return np.asarray(self.left[rows].astype(np.float64) @ (self.right * self.clear))


class ToSlots(_Converted):
    """Something is computed of the product in slots."""

    @staticmethod
    def formula(a: Any, b: Any, c: Any) -> Any:
        return (a @ b) * c

    @classmethod
    def entries(cls, shape: Shape) -> tuple[int, int]:
        return shape[0], shape[2]

    def expected(self, rows: slice) -> NDArray[np.float64]:
        return np.asarray(super().expected(rows) * self.clear[rows])


PLAIN = "rlwe rows"
FORMS: dict[str, type[BaeCase]] = {
    PLAIN: RlweRows,
    "shared rows": SharedRows,
    "shared batch": SharedBatch,
    "from slots": FromSlots,
    "to slots": ToSlots,
    "jkls18": Slots,
}


def run(
    sizes: Sequence[int] = SIZES,
    *,
    forms: Sequence[str] = tuple(FORMS),
    threads: int = 1,
    budget: float = 2.0,
    limit: float = LIMIT_SECONDS,
    **options: Any,
) -> Iterator[Row]:
    """Rows of `bench pc --suite bae`, dimension by dimension: one per form.

    Args:
        sizes: dimensions d of the d × d × d products.
        forms: some of `FORMS`.
        threads: of the server and of the yardstick.
        budget: seconds spent on each side of each case.
        limit: seconds; what is predicted to take longer is not run.
        **options: further options of `compile`.

    Raises:
        ValueError: an unknown form, or a dimension below 1.
    """
    import cipherblas._core as _core

    if not set(forms) <= set(FORMS):
        raise ValueError(f"form: expected {' | '.join(FORMS)}, got {', '.join(forms)}")
    if min(sizes, default=1) < 1:
        raise ValueError(f"sizes: expected at least 1, got {min(sizes)}")
    _core.set_threads(threads)
    options = {"machine": Machine.usual(), "threads": threads, "upload_budget": UNLIMITED, **options}
    for d in sizes:
        found = [_form(name, d, budget, limit, options) for name in forms]
        _claims(found)
        yield from found


def _form(name: str, d: int, budget: float, limit: float, options: dict[str, Any]) -> Row:
    """The row of one form: measured, predicted, or why it has no plan."""
    shape, kind, threads = (d, d, d), FORMS[name], options["threads"]
    about: Row = {"suite": "bae", "d": d, "form": name}
    plan, reason = _planned(kind, shape, limit, options)
    if plan is None:
        return row("pc", _case(shape), threads=threads, **about, note=f"no plan: {reason}")
    about["note"] = ""
    if kind.converted and GEMM not in plan.algorithm:
        about["note"] = "the planner multiplies in slots, which it finds faster"
    if not reason:
        found = in_own_process(f"{_case(shape)}, {name}", _measured, name, shape, threads, budget, options)
        return {**found, **about}
    gemm = options["machine"].rates.seconds(Counts(float_macs=d**3), plan.parameters.n, threads)
    about["note"] = "; ".join(filter(None, (about["note"], f"predicted, not run: {reason}")))
    return row(
        "pc",
        _case(shape),
        threads=threads,
        products=plan.counts.plain_products,
        dtype=kind.dtype,
        fixed=kind.fixed,
        estimated=True,
        predicted_gemm_seconds=gemm,
        predicted_times_gemm=plan.seconds / gemm,
        **planned_fields(plan),
        **about,
    )


def _case(shape: Shape) -> str:
    return "x".join(map(str, shape))


def _planned(
    kind: type[BaeCase], shape: Shape, limit: float, options: dict[str, Any]
) -> tuple[Plan | None, str]:
    """The plan of a form, None where there is none, and why it is not run; nothing where it is."""
    try:
        try:
            plan, reason = kind.compile(shape, options).plan, ""
        except MemoryBudgetError as error:
            free = {**options, "memory_budget": UNLIMITED, "key_budget": UNLIMITED}
            plan, reason = kind.compile(shape, free).plan, error.message
    except CipherblasError as error:
        return None, error.message
    if plan.seconds > limit:
        return plan, reason or f"longer than {seconds_text(limit)}"
    needed = plan.peak_bytes + _clear_bytes(shape)
    if not reason and needed > (available_memory() or UNLIMITED):
        reason = f"client, server and yardstick together would take {size_text(needed)}"
    return plan, reason


def _clear_bytes(shape: Shape) -> int:
    """Bytes of the benchmark beside server and client: both factors, the result in the clear, and strips of the
    yardstick's left factor and result."""
    m, k, n = shape
    return 8 * (m * k + k * n + m * n + min(m, YARDSTICK_ROWS) * (k + n))


def _measured(name: str, shape: Shape, threads: int, budget: float, options: dict[str, Any]) -> Row:
    import cipherblas._core as _core

    _core.set_threads(threads)
    kind = FORMS[name]
    return measured(kind(shape, options), [], kind.dtype, kind.fixed, threads, budget)


def _claims(found: Sequence[Row]) -> None:
    """Enter whether the published claims hold, and what conversions cost, of the rows of one dimension.

    A row that was not run is judged by predictions, of the yardstick too: other work on the machine lengthens what is
    measured alone.
    """
    plain = next((one for one in found if one["form"] == PLAIN), {})
    for one in found:
        kind = FORMS[one["form"]]
        estimated = "estimated" in one
        field, ratio = (
            ("predicted_seconds", "predicted_times_gemm") if estimated else ("seconds", "times_gemm")
        )
        if field not in one:
            continue
        if kind.claimed:
            one["published_times_gemm"] = PUBLISHED_TIMES_GEMM
            one["meets_times_gemm"] = one[ratio] <= PUBLISHED_TIMES_GEMM
            if one["d"] in PUBLISHED_SECONDS:
                one["published_seconds"] = PUBLISHED_SECONDS[one["d"]]
                one["meets_seconds"] = one[field] <= one["published_seconds"]
        if kind.converted and "predicted_seconds" in plain:
            both = "predicted_seconds" if estimated or "seconds" not in plain else "seconds"
            one["times_unconverted"] = one[both] / plain[both]
