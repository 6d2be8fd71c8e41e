"""For researchers: everything that a method or an operation of one's own is written with, from one place.

>>> import cipherblas as cb
>>> outcome = cb.lab.run(lambda ev, x: ev.add(x, ev.rotate(x, 1)), [[1.0, 2.0, 3.0, 4.0]], on="clear")
>>> outcome.counts.rotations, outcome.value.real
(1, array([3., 5., 7., 5.]))

- trying code: `run`, `block_product`, `Outcome`, and rings for it, `RingShape` and `make_parameters`
- what `run` calls: `Evaluator`, `Ct`, `Plain`, `Transform`
- a product of matrices: `Algorithm`, `Accumulator`, `Operand`, `accumulate`, `split_path`; where entries lie: `Layout`,
  `SlotIndex`, `EMPTY`, `entry_index`, `column_major`
- a product of a clear matrix and a vector: `OneVectorMethod`, `TensorLayout`, `Weights`
- to be chosen by name and by the planner: `register`, `unregister`
- an operation: `operation`, `Expression`, `schema`; how it is computed: `computes`, with `BlockRun`, `TensorRun`,
  `SlotRun`, `RowRun`, `Value`, `Steps`

It is of the client: `run` on ciphertexts makes a secret key.
"""

from __future__ import annotations

from cipherblas.common import schema
from cipherblas.crypto.params import make_parameters
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Plain, Transform
from cipherblas.forms.layouts import EMPTY, Layout, SlotIndex, column_major, entry_index
from cipherblas.forms.tensors import TensorLayout
from cipherblas.lab.trial import Outcome, block_product, run
from cipherblas.lang.nodes import Expression, operation
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand, accumulate, split_path
from cipherblas.methods.matvec_conv.base import OneVectorMethod, Weights
from cipherblas.methods.registry import register, unregister
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.blocks import BlockRun
from cipherblas.runtime.executor import Steps, computes
from cipherblas.runtime.rows import RowRun
from cipherblas.runtime.slots import SlotRun
from cipherblas.runtime.tensors import TensorRun
from cipherblas.runtime.values import Value

__all__ = [
    "EMPTY",
    "Accumulator",
    "Algorithm",
    "BlockRun",
    "Ct",
    "Evaluator",
    "Expression",
    "Layout",
    "OneVectorMethod",
    "Operand",
    "Outcome",
    "Plain",
    "RingShape",
    "RowRun",
    "SlotIndex",
    "SlotRun",
    "Steps",
    "TensorLayout",
    "TensorRun",
    "Transform",
    "Value",
    "Weights",
    "accumulate",
    "block_product",
    "column_major",
    "computes",
    "entry_index",
    "make_parameters",
    "operation",
    "register",
    "run",
    "schema",
    "split_path",
    "unregister",
]
