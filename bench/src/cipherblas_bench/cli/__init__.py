"""The commands that the distribution adds: results go to stdout, everything else to stderr."""

from cipherblas_bench.cli.app import app

__all__ = ["app"]
