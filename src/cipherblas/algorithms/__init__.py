"""Block products in slots, one file per algorithm, each written once against `Evaluator`."""

from cipherblas.algorithms.base import Algorithm
from cipherblas.algorithms.product import multiply_grids
from cipherblas.algorithms.registry import ALGORITHMS, build, find

__all__ = ["ALGORITHMS", "Algorithm", "build", "find", "multiply_grids"]
