"""All programs of the corpus by name, in the order of its file."""

from __future__ import annotations

from . import (  # noqa: F401  (each enters its programs)
    matrix_products,
    matrix_programs,
    networks,
    several_results,
)
from .case import CASES

__all__ = ["CASES"]
