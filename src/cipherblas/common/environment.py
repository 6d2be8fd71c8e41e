"""How the core runs here: instruction set and threads, and the environment variables that choose them.

The core reads the variables once. What they say is checked here, where something is about to be planned or run, so that
a value that nobody can follow is an error that names it.
"""

from __future__ import annotations

import operator
import os
import re

import cipherblas._core as _core
from cipherblas.common.errors import DTypeError, ParameterError

ISA, THREADS = "CIPHERBLAS_ISA", "CIPHERBLAS_THREADS"
MAX_THREADS = 4096


def check() -> None:
    """Raise a ParameterError where an environment variable has a value that cannot be followed."""
    wanted = os.environ.get(ISA, "")
    if wanted and wanted not in _core.isas():
        raise ParameterError(
            f"The environment variable {ISA} does not name an instruction set of this processor.",
            expected=" or ".join(_core.isas()),
            got=repr(wanted),
            advice=[f"{ISA}={name}" for name in _core.isas()],
        )
    text = os.environ.get(THREADS, "")
    if text and (re.fullmatch(r"[0-9]{1,9}", text) is None or not 1 <= int(text) <= MAX_THREADS):
        raise ParameterError(
            f"The environment variable {THREADS} is not a number of threads.",
            expected=f"1 to {MAX_THREADS}",
            got=repr(text),
            advice=f"{THREADS}=1, or more",
        )


def isa() -> str:
    """Return the instruction set in use: "avx512ifma", "avx2" or "scalar".

    Raises:
        ParameterError: an environment variable cannot be followed.
    """
    check()
    return _core.isa()


def threads() -> int:
    """Return the number of threads that the arithmetic may use.

    Raises:
        ParameterError: an environment variable cannot be followed.
    """
    check()
    return _core.threads()


def set_threads(count: int) -> None:
    """Set the number of threads of the arithmetic in this process, from now on.

    Args:
        count: 1 to 4096.

    Raises:
        DTypeError: not an integer. ParameterError: out of range, or an environment variable cannot be followed.

    Examples:
        >>> set_threads(2)
        >>> threads()
        2
    """
    check()
    try:
        number = operator.index(count)
    except TypeError:
        raise DTypeError(
            "The number of threads must be an integer.", got=repr(count), advice="an integer, as 2"
        ) from None
    if not 1 <= number <= MAX_THREADS:
        raise ParameterError(
            "The number of threads is out of range.",
            expected=f"1 to {MAX_THREADS}",
            got=number,
            advice="1" if number < 1 else str(MAX_THREADS),
        )
    _core.set_threads(number)
