"""Runs a program with the methods of its plan. Whoever imports a part of this finds all methods entered."""

from cipherblas.runtime import methods  # noqa: F401
