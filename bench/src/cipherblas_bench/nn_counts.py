"""Operations of MetaKernel's ten kernels and two examples, ours and the baselines', beside what the paper reports.

Nothing is computed: methods run on `Symbolic`. Ours is the MetaKernel pattern of fewest rotations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cipherblas.common.errors import ShapeError
from cipherblas.forms.tensors import tensor_shape
from cipherblas.lang.layers import Conv2d
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import public, secret
from cipherblas.lang.operations import Leaf, MatMul
from cipherblas.methods.layers import CONV_BASELINES, MATVEC_BASELINES
from cipherblas.methods.matvec_conv.base import LayerMethod
from cipherblas.methods.matvec_conv.baselines.imra import Pattern
from cipherblas.planner.predict.dry_run import dry_run
from cipherblas.planner.search.tensors import GreedyMethods, layer_counts
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.tensors import PACKING, TENSORS, method_of, packing
from cipherblas.runtime.values import Decisions
from cipherblas_bench.harness import Row
from cipherblas_bench.nn_shapes import EXAMPLES, KERNELS, Kernel, named

DEPTH = 4  # rescales that the ring of the search has room for


class FewestRotations:
    """Prices by which the planner's search minimises rotations; of equal patterns, that with fewest plaintexts."""

    def layer(self, pattern: Pattern, taps: int, inputs: int, outputs: int) -> float:
        """Rotations, and a fraction for plaintexts."""
        rotations = pattern.rotations(taps, inputs, outputs)
        return rotations + 1e-9 * pattern.plaintexts(taps, inputs, outputs)

    def steps(self, babies: int, giants: int, plaintexts: int) -> float:
        """The same, of numbers."""
        return babies + giants + 1e-9 * plaintexts


def run(names: Sequence[str] = ()) -> Iterator[Row]:
    """Rows of `bench nn --counts`: one per kernel, the examples too, and method that offers it.

    Raises:
        ValueError: an unknown kernel.
    """
    for kernel in named(names, KERNELS + EXAMPLES):
        for method in methods(kernel):
            yield counted(kernel, method)


def methods(kernel: Kernel) -> Iterator[LayerMethod]:
    """Ours, then the baselines; those that do not offer the shape are left out."""
    yield metakernel(kernel)
    for name in CONV_BASELINES if kernel.window else MATVEC_BASELINES:
        try:
            yield baseline(kernel, name)
        except ShapeError:
            continue


def metakernel(kernel: Kernel) -> LayerMethod:
    """The pattern of fewest rotations, over packings of the input too."""
    x = Leaf("x", secret(*kernel.input_shape))
    weights = Leaf("weights", public(*kernel.weight_shape))
    node: Expression
    if kernel.window is None:
        node = MatMul(weights, x)
    else:
        node = Conv2d(x, weights, padding=kernel.window.padding)
    chooser = GreedyMethods(node, kernel.slots, FewestRotations())
    found = dry_run(RingShape.for_depth(kernel.slots, DEPTH), node, Decisions(TENSORS), choose=chooser)
    packed, chosen = sorted(found.choices.values(), key=lambda choice: choice.method != PACKING)
    return method_of(node, packing(x, kernel.slots, **packed.options), chosen)


def baseline(kernel: Kernel, name: str) -> LayerMethod:
    """A named baseline on an input that is packed as it asks for.

    Raises:
        ShapeError: it does not offer the shape.
    """
    if kernel.window is not None:
        conv = CONV_BASELINES[name]
        return conv(conv.input_layout(kernel.window, kernel.slots), kernel.window)
    matvec, rows = MATVEC_BASELINES[name], kernel.weight_shape[0]
    return matvec(matvec.input_layout(tensor_shape(kernel.input_shape), rows, kernel.slots), rows)


def counted(kernel: Kernel, method: LayerMethod) -> Row:
    """The counts of one run of a method, beside the published figures."""
    counts = layer_counts(method, kernel.slots)
    weights = math.prod(kernel.weight_shape)
    if kernel.window is not None:  # every weight stands in as many slots as the image has entries
        weights *= math.prod(kernel.input_shape[1:])
    held = kernel.slots * method.plaintexts
    found: Row = {
        "bench": "kernels --counts",
        "case": kernel.name,
        "params": {"n": 2 * kernel.slots},
        "algorithm": method.name,
        "flops": kernel.flops,
        "rotations": counts.rotations,
        "trivial_rotations": method.trivial_rotations,
        "hoistings": counts.hoistings,
        "plaintexts": method.plaintexts,
        "slot_use": weights / held,
        "padded_slot_use": method.padded_weights / held,
        "depth": method.levels,
    }
    published = kernel.published.get(method.name)
    if published is not None:
        found |= {
            "published_rotations": published.rotations,
            "published_slot_use": published.slot_use,
            "published_in": published.where,
        }
    return found
