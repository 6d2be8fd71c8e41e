"""The logger "cipherblas": what was planned, refused and run. It is silent unless an application gives it a handler.

Messages hold names, sizes and times, and no entry of an array.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from cipherblas.common.errors import CipherblasError

LOG = logging.getLogger("cipherblas")
LOG.addHandler(logging.NullHandler())


@contextmanager
def refusals_logged() -> Iterator[None]:
    """Log an error of ours that passes."""
    try:
        yield
    except CipherblasError as error:
        LOG.info("refused: %s", error.sentence)
        raise
