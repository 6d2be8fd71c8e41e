"""All programs of the corpus by name, in the order of its file."""

from __future__ import annotations

from . import matrix_products, matrix_programs, networks  # noqa: F401  (each enters its programs)
from .case import CASES

__all__ = ["CASES"]
