"""Products of clear matrices and values whose rows (columns) are ciphertexts, one sample in each slot.

With rows as ciphertexts, entry (i, j) of W @ X is Σ_t W[i, t]·X[t, j]: every ciphertext of the product is the sum of
those of X times numbers, at once for all samples. No slot moves: there are no rotations and no keys for them.

Source: Gilad-Bachrach, Dowlin, Laine, Lauter, Naehrig, Wernsing, "CryptoNets" (2016).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import Advice, ParameterError, UnsuitedError
from cipherblas.evaluators.policy.approximate import dither
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.products import SUMMED
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.forms.layouts import (
    CoefficientLayout,
    Layout,
    column_major,
    in_coefficients,
    transposed,
    with_garbage,
)
from cipherblas.forms.slot_forms import PackedForm
from cipherblas.lang.analysis import integral_nodes
from cipherblas.lang.arrangements import Arrange
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.methods.doubling import folded_by_eights
from cipherblas.runtime.blocks import (
    BLOCK_OPERANDS,
    BLOCK_PRODUCTS,
    COEFFICIENTS,
    FEATURES,
    BlockRun,
    RequiredBlocks,
)
from cipherblas.runtime.executor import Steps
from cipherblas.runtime.inputs import Inputs
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.positions import flattening
from cipherblas.runtime.row_products.clear_factors import most_weight_bits, sums_are_exact
from cipherblas.runtime.values import Cells, Handles, MethodChoice, Value

OUTPUTS = 8  # whose packed weights are taken apart together
LAYERS = 3  # of parts of coefficients that are made at once
BATCH = 4  # polynomials that are taken apart together


def product(run: BlockRun, node: Expression) -> Steps[Value]:
    """Of a matrix of weights, clear or encrypted, and one whose rows (columns) are ciphertexts, or positions of each
    image in one."""
    secret, weights = run.sides(node)
    rows = secret is node.children[1]
    layout, inner, own = run.dense(secret), run.block(node)[1], run.block(node)[0 if rows else 2]
    if (
        own != 1
        or layout.ciphertexts != 1
        or (inner > 1 and not (weights.secret and _in_positions(run, secret)))
    ):
        raise ParameterError(
            f"The method of {node.title} does not fit its factors.",
            expected="a matrix of weights, and one ciphertext for each row that it multiplies",
            got=node.title,
        )
    x = yield from run.factor(secret, layout, None)
    if weights.secret:
        return (yield from _of_secrets(run, node, x, weights, rows))
    return _of_clear(run, node, x, rows)


BLOCK_PRODUCTS[FEATURES] = product


def _in_positions(run: BlockRun, node: Expression) -> bool:
    """Whether a block holds all positions of images, and nothing else."""
    names, axis = run.axes.of(node), run.positions.axis or 0
    return names[axis] in run.positions.images and run.lengths[names[1 - axis]] == run.positions.each


def _of_weights(run: BlockRun, node: Expression) -> Layout:
    """A block of encrypted weights, the same for all images: one in all slots, or one for each position."""
    rows, cols = run.block_of(node)
    layout = column_major(rows * cols, 1, run.ev.slots, period=rows * cols)
    return layout if cols == 1 else transposed(layout)


def _lines(cells: Cells, rows: bool) -> list[Handles]:
    """The ciphertexts that are summed up, for each ciphertext of a row (column)."""
    lines = zip(*cells, strict=True) if rows else cells
    return [[ct for cell in line for ct in cell] for line in lines]


def _arranged(lines: list[Handles], rows: bool, outputs: int, made: Iterable[Handles]) -> list[list[Handles]]:
    """The cells of a product.

    Args:
        outputs: the number of ciphertexts that come of a line.
        made: those of each line that is here; other ranks have others.
    """
    own = iter(made)
    found = [[[ct] for ct in next(own)] if line else [[] for _ in range(outputs)] for line in lines]
    return [list(row) for row in zip(*found, strict=True)] if rows else found


def _of_clear(run: BlockRun, node: Expression, x: Value, rows: bool) -> Value:
    """Levels: one where something is computed from the product, which is scaled up then as by a clear vector."""
    streamed = run.run.may_stream(node.children[rows], x)
    outputs = matrix_shape(node)[0 if rows else 1]
    read = bool(run.run.readers(node))
    if run.modulus is None:
        factor, missing = _factor(run, node, x, read)
        gain, bound = factor(run.inputs).gain, x.first().bound
    else:
        factor, missing, gain, bound = _residues(run, node), 0, 1.0, math.inf

    def work(context: RunContext, cells: Cells) -> list[list[Handles]]:
        ev, matrix = context.slots, factor(context.inputs)

        def summed(cts: Handles) -> Handles:
            for ct in cts if streamed else ():
                ct.stream()
            sums = ev.matrix_product(matrix, cts)
            if run.modulus is not None:
                return ev.one_for_all([_divided(ev, ct, matrix) if read else ct for ct in sums])
            sums = [ev.fold_into_scale(ct, 1 / gain) for ct in sums]
            return ev.one_for_all([ev.bounded(ev.scaled_up(ct, missing), bound) for ct in sums])

        lines = _lines(cells, rows)
        own = [line for line in lines if line]
        made = ev.repeat(len(own), lambda number: summed(own[number]))
        return _arranged(lines, rows, outputs, made)

    cells = run.run.perform("multiply", [x.cells], work)
    run.run.tick()
    after = run.form(node, run.dense(node))
    return run.bounded(run.laid(node.shape, after, cells, x.unit * gain), node.bound)


def _of_secrets(run: BlockRun, node: Expression, x: Value, weights: Expression, rows: bool) -> Steps[Value]:
    """Every weight is a ciphertext that holds it in all slots, or those of a channel are one that holds them in its
    positions; then neighbouring slots are added up, before anything is divided. Keys: relinearisation, once for every
    sum, and rotations by powers of two."""
    repeated = _of_weights(run, weights)
    positions = repeated.rows * repeated.cols

    def summed(ev: Evaluator, lines: list[Handles], sums: list[Handles]) -> list[Handles]:
        """Of each line and each list of weights."""
        if not lines:
            return []
        whole = ev.one_for_all([*itertools.chain.from_iterable(ev.relinearised_sums(lines, sums))])
        if positions > 1:
            whole = ev.repeat(len(whole), lambda number: folded_by_eights(ev, whole[number], positions, 1))
        return [whole[start : start + len(sums)] for start in range(0, len(whole), len(sums))]

    choice = run.run.choice_or_none(weights)
    if choice is not None and by_outputs(run, weights):
        packed = _packed(run, weights, choice, weights is node.children[0])
        encryption = run.usual(weights)._replace(limbs=x.first().limbs)
        w = yield from run.read(weights, RequiredBlocks(packed, encryption))
        more = _more_limbs(run, weights, encryption.limbs)
        limbs = min(w.first().limbs - more, encryption.limbs)
        x = run.lowered_to(x, limbs)
        (number, length), lines = packed.grid[::-1] if packed.by_columns else packed.grid, packed.lines

        def work(context: RunContext, cells: Cells, own: Cells) -> list[list[Handles]]:
            ev, packs, every = context.slots, own[0][0], -(-lines * length // packed.each)
            mine = [line for line in _lines(cells, rows) if line]  # other ranks have others

            def of_outputs(group: int, outputs: int = lines) -> list[Handles]:
                made = _parted(ev, packs[group * every :], outputs * length, packed.each, bool(more))
                made = [ev.drop(ct, limbs) for ct in made] if made[0].limbs > limbs else made
                sums = [made[start : start + length] for start in range(0, len(made), length)]
                return summed(ev, mine, sums)

            groups, last = divmod(number, lines)
            found = ev.repeat(groups, of_outputs) + ([of_outputs(groups, last)] if last else [])
            made = [[ct for group in found for ct in group[line]] for line in range(len(mine))]
            return _arranged(_lines(cells, rows), rows, number, made)

    else:
        w = yield from run.factor(weights, repeated, x)
        limbs = min(x.first().limbs, w.first().limbs)
        x, w = run.lowered_to(x, limbs), run.lowered_to(w, limbs)

        def work(context: RunContext, cells: Cells, own: Cells) -> list[list[Handles]]:
            sums, lines = _lines(own, not rows), _lines(cells, rows)
            made = summed(context.slots, [line for line in lines if line], sums)
            return _arranged(lines, rows, len(sums), made)

    cells = run.run.perform("multiply", [x.cells, w.cells], work)
    run.run.tick()
    after = run.dense(node)
    if positions > 1 and not after.open:  # what other places hold crosses images
        after = with_garbage(after)
    return run.bounded(run.laid(node.shape, run.form(node, after), cells, x.unit * w.unit), node.bound)


def by_outputs(run: BlockRun, weights: Expression) -> bool:
    """Whether a product takes packed weights apart while it multiplies, those of a few outputs at a time: all of them
    would fill the memory."""
    return run.positions.axis is not None and len(run.run.readers(weights)) == 1


def _divided(ev: Evaluator, ct: Any, factor: ClearFactor) -> Any:
    """A product modulo t of which something is computed: errors that grew by more than half of a level are divided by
    it, for products would multiply them by one another."""
    grown = 2 * math.log2(factor.largest_sum)
    return ev.rescale(ct) if grown > math.log2(ev.level_size(ct.limbs)) else ct


def _clear_side(node: Expression) -> tuple[Expression, bool, tuple[int, int]]:
    """The clear factor of a product, whether it is multiplied transposed, and its shape then."""
    left, right = node.children
    clear, transposed = (right, True) if left.secret else (left, False)
    rows, cols = matrix_shape(clear)
    return clear, transposed, (cols, rows) if transposed else (rows, cols)


def _residues(run: BlockRun, node: Expression) -> Callable[[Inputs], ClearFactor]:
    """The clear factor of a product of integers modulo t, of least absolute value."""
    clear, transposed, shape = _clear_side(node)
    policy = run.ev.policy
    bound = policy.clear_bound(clear.bound)
    total = (clear.column_sum if transposed else clear.row_sum) if bound == clear.bound else math.inf

    def integers(inputs: Inputs) -> NDArray[Any]:
        values = inputs.given(clear)
        if bound < clear.bound:
            values = policy.clear_entries(values)
        elif values.dtype.kind == "f":
            values = values.astype(np.float64, copy=False)
        return values.T if transposed else values

    def of_inputs(inputs: Inputs) -> ClearFactor:
        own = functools.cache(functools.partial(integers, inputs))
        return ClearFactor((id(clear), transposed), shape, bound, 1.0, True, own, total)

    return of_inputs


def _more_limbs(run: BlockRun, node: Expression, limbs: int) -> int:
    """With which packed weights come that are multiplied at so many: a level, by which errors that their parts add up
    are divided, of integers modulo t where there is one."""
    more = run.ev.level_limbs
    return more if run.modulus is not None and limbs + more <= run.usual(node).limbs else 0


def _parted(ev: Evaluator, packs: Handles, count: int, each: int, divided: bool) -> Handles:
    """So many packed weights."""
    whole, left = divmod(count, each)

    def parts(number: int, count: int = each) -> Handles:
        return constants(ev, packs[number], count, each, divided)

    found = ev.repeat(whole, parts) + ([parts(whole, left)] if left else [])
    return list(itertools.chain.from_iterable(found))


def _packed(run: BlockRun, node: Expression, choice: MethodChoice, by_rows: bool) -> CoefficientLayout:
    """How encrypted weights come packed: row after row, or those of a few outputs in ciphertexts of their own.

    Args:
        by_rows: outputs are rows of the weights.
    """
    each, shape, block = int(choice.options.get("each", 0)), matrix_shape(node), run.block_of(node)
    if not 1 < each <= run.ev.slots:
        raise ParameterError(
            f"Operand {node.title} does not come as coefficients.",
            expected=f"weights of products of features, up to {run.ev.slots} in a ciphertext",
            got=each,
        )
    if not by_outputs(run, node):
        return in_coefficients(*shape, run.ev.slots, each, block)
    number = shape[0] // block[0] if by_rows else shape[1] // block[1]
    lines = min(OUTPUTS, number)
    return in_coefficients(*shape, run.ev.slots, each, block, lines=lines, by_columns=not by_rows)


def unpacked(run: BlockRun, node: Expression, choice: MethodChoice, required: RequiredBlocks) -> Value:
    """Encrypted weights, each a ciphertext that holds it in all slots, from ciphertexts whose coefficients they are; or
    blocks of them, each one that repeats it; or packed still, where that is required.

    Integers modulo t come with a level more, where there is one, by which errors that the sums add up are divided.
    """
    usual, repeated = run.usual(node), _of_weights(run, node)
    asked, packed = required.encryption or usual, required.layout
    if not isinstance(packed, CoefficientLayout):
        if packed is not None and not packed.equals(repeated):
            raise ParameterError(
                f"Operand {node.title} does not come as coefficients.",
                expected="weights of products of features",
                got=packed.name,
            )
        packed = _packed(run, node, choice, True)
    more = _more_limbs(run, node, asked.limbs)
    scale = asked.scale / packed.each if run.modulus is None else asked.scale
    sent = asked._replace(limbs=asked.limbs + more, scale=scale)
    value = run.operand(node, PackedForm.of(packed), matrix_shape(node), sent)
    if isinstance(required.layout, CoefficientLayout):
        return value
    down, across = packed.grid

    def work(context: RunContext, cells: Cells) -> list[list[Handles]]:
        found = _parted(context.slots, cells[0][0], down * across, packed.each, bool(more))
        return [[[ct] for ct in found[row * across :][:across]] for row in range(down)]

    cells = run.run.perform("unpack", [value.cells], work)
    return run.laid(node.shape, run.form(node, repeated), cells, value.unit)


BLOCK_OPERANDS[COEFFICIENTS] = unpacked


def constants(ev: Evaluator, ct: Any, count: int, each: int, divided: bool = False) -> list[Any]:
    """Of a polynomial the first coefficients, each in all slots; or of Σ_k w_k·X^k, each w_k with `each` in its powers
    of X, the first of these.

    Polynomials are taken apart by exponents modulo 8, and their parts again. The factors of 2 that come of it are those
    of a scale. Of an error every coefficient is in one part, so that a sum of products with parts sees it once; in the
    slots of a period, those of a part are combined by orthogonal vectors, as independent errors are. Levels: none.
    Keys: 7 rotations for three layers. Automorphisms: about one for each coefficient.

    Args:
        count: of coefficients that are wanted: each other one is zero.
        each: the scale is that of the ciphertext times this, a power of two.
        divided: they are rescaled: before the last layers, most of the parts of which take less time then.
    """
    found, levels = [ct], each.bit_length() - 1
    most = min(LAYERS, ev.n.bit_length() - 3)  # kernels take eight words at a time
    for level in range(0, levels, most):
        if divided and level + most >= levels:
            found = _rescaled(ev, found)
        found = _taken_apart(ev, found, count, level, min(most, levels - level))
    different = {id(part): part for part in found}
    for part in different.values():
        part.errors = part.errors.seen_once()
    # In a dry run one of them stands for several, which are no multiples of it.
    return [different.pop(id(part), None) or part.twins([part.data])[0] for part in found]


def _rescaled(ev: Evaluator, cts: Handles) -> Handles:
    return ev.repeat(len(cts), lambda number: ev.rescale(cts[number]))


def _taken_apart(ev: Evaluator, cts: Handles, count: int, level: int, layers: int) -> list[Handles]:
    """The parts of up to 2^level polynomials: the first ones of all, the second ones, and so on."""
    power = 1 << level
    more = (count - 1) % power + 1  # polynomials of as many parts as the first one
    outputs = min(-(-count // power), 1 << layers)
    fewer = outputs if count >= power << layers else outputs - 1
    parts = _parts(ev, cts[:more], level, layers, outputs) + _parts(ev, cts[more:], level, layers, fewer)
    return [own[b] for b in range(outputs) for own in parts if b < len(own)]


def _parts(ev: Evaluator, cts: Handles, level: int, layers: int, outputs: int) -> list[Handles]:
    """The parts of each; a few together read keys once."""

    def of_some(group: int) -> list[Handles]:
        some = cts[group * BATCH : (group + 1) * BATCH]
        made = ev.coefficient_parts(some, level, layers, outputs)
        return [made[start : start + outputs] for start in range(0, len(made), outputs)]

    whole, left = divmod(len(cts), BATCH)
    groups = ev.repeat(whole, of_some) + ([of_some(whole)] if left else [])
    return list(itertools.chain.from_iterable(groups))


def _factor(
    run: BlockRun, node: Expression, x: Value, read: bool
) -> tuple[Callable[[Inputs], ClearFactor], int]:
    """The clear factor of a product in integers, and log2 of what its products lack to the scale that a clear vector
    would have given them: nothing where nobody computes with them.

    Integers have as few bits as were decided: they take less time than ones of the whole scale.
    """
    clear, transposed, shape = _clear_side(node)
    bits = run.run.choice(node).options.get("weight_bits")
    if bits is None:
        raise ParameterError(
            f"The decisions lack the bits of the weights of {node.title}.", expected="weight_bits", got="none"
        )
    total = clear.column_sum if transposed else clear.row_sum
    gain, largest = min(total, shape[1] * clear.bound), clear.bound
    usual = gain / run.ev.mask_scale(x.first().limbs)  # the unit of such integers
    exact = integral_nodes(clear)[id(clear)] and sums_are_exact(largest, min(SUMMED, shape[1]))
    if exact:
        unit = min(largest, 1.0)
        missing = math.floor(math.log2(unit / usual))
    else:
        wanted = largest / 2 ** min(int(bits), most_weight_bits(SUMMED) - 1)
        missing = max(0, math.floor(math.log2(wanted / usual)))
        unit = usual * 2**missing

    def integers(inputs: Inputs) -> NDArray[Any]:
        values = inputs.given(clear)
        if not exact:
            values = _by_chance(values, unit)
        elif values.dtype.kind == "f":
            values = values.astype(np.float64, copy=False)
        return values.T if transposed else values

    def of_inputs(inputs: Inputs) -> ClearFactor:
        own = functools.cache(functools.partial(integers, inputs))
        return ClearFactor((id(clear), transposed), shape, largest, unit, exact, own, total)

    return of_inputs, max(0, missing) if read else 0


def _by_chance(values: NDArray[Any], unit: float) -> NDArray[np.float64]:
    """values / unit, rounded up or down so that sums of what is missed are as small as those of independent numbers,
    whatever the values are; equal matrices alike."""
    quotients = np.divide(values, unit, dtype=np.float64)
    chances = np.random.default_rng(dither(("features", values.shape))).random(values.shape)
    return np.asarray(np.floor(quotients + chances))


def lines_of(node: Arrange, axis: int) -> list[int] | None:
    """Of an arrangement of a value whose rows are ciphertexts, the rows that it takes, in order; None where it moves
    samples.

    Args:
        axis: along which samples lie: 1 where rows are ciphertexts, 0 where columns are.
    """
    before, places = matrix_shape(node.children[0]), node.index().reshape(matrix_shape(node))
    lines, samples = np.divmod(places, before[1]) if axis else np.divmod(places, before[1])[::-1]
    if not axis:
        lines, samples = lines.T, samples.T
    whole = samples.shape[1] == before[axis] and bool((samples == np.arange(before[axis])).all())
    if whole and (places >= 0).all() and (lines == lines[:, :1]).all():
        return [int(line) for line in lines[:, 0]]
    return None


def taken(run: BlockRun, node: Arrange, x: Value) -> Value:
    """Some of the ciphertexts of a value: rows, or channels whose positions become those of images. Levels: none."""
    form, before = run.form(node, run.dense(node)), (x.layout.rows, x.layout.cols)
    flat, axis = flattening(node), 1 if before[0] == 1 else 0
    if run.positions.axis is not None:
        axis = run.positions.axis
    if flat is not None and flat.axis == run.positions.axis:
        after, together = (form.layout.rows, form.layout.cols), before[axis]
        fits = before[1 - axis] == 1 and (after[axis] * flat.positions, after[1 - axis]) == (
            together,
            flat.positions,
        )
        lines = flat.channels if fits else None
    else:
        same = before[1 - axis] == 1 and before == (form.layout.rows, form.layout.cols)
        lines = lines_of(node, axis) if same else None
    if lines is None:
        raise UnsuitedError(
            "Samples stay in the slots where they are: of what is computed, rows can be taken, and nothing else.",
            expected="whole rows, with all their samples",
            got=node.title,
            advice=Advice("another form", {"form": None}),
        )
    chosen = lines

    def work(context: RunContext, cells: Cells) -> list[list[Handles]]:
        if axis:
            return [cells[line] for line in chosen]
        return [[row[line] for line in chosen] for row in cells]

    cells = run.run.perform("take ciphertexts", [x.cells], work)
    if x.layout.open and not form.layout.open:
        form = run.form(node, with_garbage(form.layout))
    return run.laid(node.shape, form, cells, x.unit)
