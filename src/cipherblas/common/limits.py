"""Checks that client and server share: names of operands, the planned range of values, the memory of the machine."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.arrays import is_whole
from cipherblas.common.errors import MemoryBudgetError, ParameterError, RangeError

LONGEST_NAME = 100
MASK_BYTES = 384 << 20  # of masks and constants that a program keeps
MOST_MASK_BYTES = 4 << 30  # of one that refreshes
USUAL_MEMORY = 8 << 30  # that is available, where the system does not say
GRAM_COLUMNS = 1024  # symmetric products modulo q are cut into halves until they have at most so many columns
FLOAT_BITS = 53  # up to which integers are exact in float64
# Integers, and moduli, whose products are below 2^52: `kNarrowOffset`, `kNarrowBits` of the core.
NARROW_LARGEST, NARROW_BITS = 1 << 15, 36
# Integers that are one signed byte; rows that products of bytes are worth it for; and moduli whose residues are two
# bytes each when they are multiplied by each other: above one byte, up to twice `kTwoBytes` of the core.
BYTE_LARGEST, BYTE_ROWS = 128, 8
BYTE_COST = 1 / 7  # of a product of bytes, in products of float64: `kByteCost` of the core
BYTE_MODULI = (256.0, 2.0 * (127 * 2**8 + 127) + 1)
RUN_BYTES = 128 << 20  # of clear operands, that one run keeps
# Of ciphertexts of an operand: so many are expanded when a run begins, and of more, which products may take one by one,
# so many of each side at a time.
KEPT_BYTES, LENT_BYTES = 128 << 20, 64 << 20


def _identifier(name: object) -> str:
    """A name that may stand in place of one that may not."""
    found = re.sub(r"\W+", "_", str(name)[:LONGEST_NAME])
    found = found if found.isidentifier() and not keyword.iskeyword(found) else f"_{found}"[:LONGEST_NAME]
    return found if found.isidentifier() else "x"


def check_name(name: object, what: str = "name of an operand") -> None:
    """Check the name of an operand or a result, from a user or a file: it stands in formulas, and on terminals.

    Raises:
        ParameterError: it is no Python identifier, or longer than 100 characters.
    """
    if (
        not isinstance(name, str)
        or not name.isidentifier()
        or keyword.iskeyword(name)
        or len(name) > LONGEST_NAME
    ):
        raise ParameterError(
            f"The {what} must be a Python identifier.",
            got=repr(name),
            advice=_identifier(name),
        )


if TYPE_CHECKING:
    from cipherblas._core import Context


def check_whole(name: str, matrix: NDArray[Any]) -> None:
    """Raise RangeError when an entry of an operand with an integer type is no whole number."""
    if not is_whole(matrix):
        raise RangeError(
            f"Operand {name!r} was declared with an integer type and has fractions.",
            advice=("np.rint of the array", "another dtype=… where the operand is declared"),
        )


def check_bound(name: str, matrix: NDArray[Any], bound: float) -> None:
    """Raise RangeError when an entry is beyond the planned range, and does not say by how much: it may be secret."""
    largest = max(float(matrix.max()), -float(matrix.min()))
    if largest > bound * (1 + 1e-12):
        raise RangeError(
            f"Operand {name!r} has an entry beyond the planned range, which is {bound:g} in absolute value.",
            advice=(
                "bound=… where the operand is declared, the largest absolute value that an entry may have",
                f"np.clip({name}, {-bound:g}, {bound:g}) in place of {name}",
            ),
        )


def encoded(context: Context, values: NDArray[Any], scale: float, dither: int = 0) -> NDArray[Any]:
    """The coefficients round(scale · values) of a slot vector, int64 (N,); `dither` as `_core.Context.encode` has it.

    Raises:
        RangeError: one is not a number, infinite, or 2^62 or more in absolute value.
    """
    try:
        return context.encode(values, scale, dither)
    except ValueError as error:
        raise RangeError(f"The slots cannot be encoded: {error}.") from error


def all_encoded(
    context: Context, values: list[NDArray[Any]], scale: float, dithers: list[int]
) -> list[NDArray[Any]]:
    """The same of several slot vectors of full length, with a dither for each, in threads of the core.

    Raises:
        RangeError: as `encoded`, of any of them.
    """
    try:
        return context.encode_all(values, scale, dithers)
    except ValueError as error:
        raise RangeError(f"The slots cannot be encoded: {error}.") from error


def available_memory() -> int | None:
    """Bytes that this process may take now without swapping; None where the system does not say.

    The least of what the machine has left and of what every control group above the process, and its own resource
    limits, leave it.
    """
    return _core.available_memory()


def usable(available: int | None) -> int:
    """Bytes that were found to be available, or a guess where the system does not say."""
    return available or USUAL_MEMORY


def weight_budget_of(available: int | None) -> int:
    """Bytes of memory for encoded weights where so many are available: half of them."""
    return usable(available) // 2


def default_weight_budget() -> int:
    """Bytes of memory for encoded weights where nobody said."""
    return weight_budget_of(available_memory())


def check_available(needed: int, purpose: str, release: Callable[[], object] = lambda: None) -> None:
    """Raise MemoryBudgetError when more bytes are needed than are available.

    Where memory is short, `release` and the pool of the core first give back what is kept for later.
    """
    available = available_memory()
    if available is not None and needed > available:
        release()
        _core.trim_pool()
        available = available_memory()
    if available is not None and needed > available:
        raise MemoryBudgetError(
            f"There is not enough memory for {purpose}.",
            expected=f"{needed / 2**20:.0f} MiB",
            got=f"{available / 2**20:.0f} MiB available",
        )


def float_passes(q: float, k: int, largest: float) -> int:
    """Exact float64 GEMMs of k products each of integers up to `largest` and residues modulo q: one for each digit."""
    spare = FLOAT_BITS - math.log2(largest * k)
    return max(1, math.ceil((math.log2(q) - 1) / max(spare, 1.0)))


def is_narrow(q: float, k: int, largest: float) -> bool:
    """Whether integers up to `largest` are multiplied with residues modulo q by one 52-bit multiply-add each, where the
    processor has that: float64 would take several."""
    return largest <= NARROW_LARGEST and q < 2**NARROW_BITS and float_passes(q, k, largest) > 1


def is_byte(q: float, k: int, largest: float) -> bool:
    """Whether the exact products of integers up to `largest` and residues modulo q are products of bytes, where the
    processor has that, and float64 would take longer."""
    return (
        largest <= BYTE_LARGEST
        and q >= BYTE_MODULI[0]
        and BYTE_COST * bytes_of(q) < float_passes(q, k, largest)
    )


def bytes_of(q: float) -> int:
    """Bytes of a residue."""
    return math.ceil(math.log2(q) / 8)


def are_bytes(q: float) -> bool:
    """Whether residues modulo q are multiplied as two bytes each, where the processor has that: four products of bytes
    are half of a float64 one."""
    return BYTE_MODULI[0] <= q <= BYTE_MODULI[1]


def lent_together(nbytes: int) -> int:
    """How many ciphertexts of so many bytes are made for a product at a time."""
    return max(2, LENT_BYTES // nbytes)
