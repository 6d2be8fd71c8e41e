"""The `Evaluator` interface and its interpreters: `Counter`, `Clear`, `Ckks` (in its module, as it needs the core)."""

from cipherblas.evaluators.base import Evaluator
from cipherblas.evaluators.bookkeeping import CONJUGATE
from cipherblas.evaluators.clear import Clear
from cipherblas.evaluators.counter import Counter
from cipherblas.evaluators.counts import Counts
from cipherblas.evaluators.shape import Ring, RingShape
from cipherblas.evaluators.values import Ct, Plain, Step, Transform

__all__ = [
    "CONJUGATE",
    "Clear",
    "Counter",
    "Counts",
    "Ct",
    "Evaluator",
    "Plain",
    "Ring",
    "RingShape",
    "Step",
    "Transform",
]
