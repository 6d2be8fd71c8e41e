"""Tracebacks of refusals, which lead to the line of the user: what lines of this package say, the error says too."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from cipherblas.common.errors import CipherblasError

SWITCH = "CIPHERBLAS_TRACEBACK"  # of the environment: "full" shows lines of the package too
PACKAGE = f"{Path(__file__).resolve().parent.parent}{os.sep}"


def shortened(error: CipherblasError) -> CipherblasError:
    """The same error, whose traceback, and those of its causes, have no lines of this package."""
    cause: BaseException | None = error
    while isinstance(cause, CipherblasError) and os.environ.get(SWITCH) != "full":
        cause.__traceback__ = _of_users(cause.__traceback__)
        cause = cause.__cause__
    return error


def _of_users(found: TracebackType | None) -> TracebackType | None:
    kept = []
    while found is not None:
        if not found.tb_frame.f_code.co_filename.startswith(PACKAGE):
            kept.append(found)
        found = found.tb_next
    for one in reversed(kept):
        found = TracebackType(found, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return found
