"""Candidates whose ciphertexts are rows, one sample in each slot: many samples, clear weights, no rotations."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from cipherblas.common.errors import Advice, ParameterError
from cipherblas.common.words import WORD_BYTES
from cipherblas.lang.arrangements import Arrange
from cipherblas.lang.facts import facts_of, products
from cipherblas.lang.graph import axes_of
from cipherblas.lang.modular import modulus_of
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.lang.operations import Leaf
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.plan.schema import MAX_WEIGHT_BITS
from cipherblas.planner.predict.cost import Rates
from cipherblas.planner.search.rows import weight_bits_for
from cipherblas.planner.search.strategy import Candidate, RefuseUpload, Strategy
from cipherblas.rlwe.counts import Counts
from cipherblas.runtime.blocks import BLOCKS, COEFFICIENTS, FEATURES
from cipherblas.runtime.executor import missing
from cipherblas.runtime.features import OUTPUTS, lines_of
from cipherblas.runtime.positions import Positions, flattening, positions_of
from cipherblas.runtime.rows import ROWS
from cipherblas.runtime.values import Decisions, MethodChoice

FEW_SAMPLES = 256  # that fill too little of the smallest ring to be worth a look
PACKINGS = (16, 64, 256)  # encrypted weights in a ciphertext, to try
MIN_WEIGHT_BITS = 16  # of rounded weights: fewer take as long


def may_gain(expression: Expression) -> bool:
    """Whether a program may be fastest in this form: where something is computed of products of clear matrices, or of
    any of integers modulo t, and many samples, which rows cannot do alone."""
    exact = modulus_of(expression) is not None
    return (
        missing(expression, ROWS) is not None
        and (exact or not any(map(_of_secrets, products(expression))))
        and unsupported(expression) is None
        and samples_of(expression) >= FEW_SAMPLES
    )


def axis_of(expression: Expression) -> int | None:
    """Along which samples lie in every secret matrix: the columns where weights multiply from the left, the rows where
    they do from the right; None where there is no product, or they differ. Of products of secrets alone, along the
    longer side of the first."""
    nodes, positions = products(expression), positions_of(expression)
    if positions is not None and positions.axis is not None:
        return positions.axis
    sides = {int(node.children[1].secret) for node in nodes if not _of_secrets(node)}
    if not sides and nodes:
        rows, cols = matrix_shape(nodes[0])
        sides = {int(cols >= rows)}
    return sides.pop() if len(sides) == 1 else None


def weights_of(expression: Expression) -> list[Expression]:
    """The encrypted matrices of weights: the factors without samples of products of secrets."""
    axis = axis_of(expression) or 0
    return [node.children[1 - axis] for node in products(expression) if _of_secrets(node)]


def of_samples(expression: Expression) -> list[Expression]:
    """The secret matrices that hold samples."""
    weights = set(map(id, weights_of(expression)))
    nodes = (node for node in facts_of(expression).order if node.secret and not node.root)
    return [node for node in nodes if id(node) not in weights]


def samples_of(expression: Expression) -> int:
    """How many there are, positions of images among them."""
    axis = axis_of(expression) or 0
    return max(matrix_shape(node)[axis] for node in of_samples(expression))


def unsupported(expression: Expression) -> str | None:
    """Why a program cannot be computed in this form; None where it can."""
    axis, unknown = axis_of(expression), missing(expression, BLOCKS)
    if not products(expression):
        return "there is no matrix product"
    if axis is None:
        return "matrices of weights multiply from both sides"
    if unknown is not None:
        return f"no method in slots for {unknown.title}"
    readers = facts_of(expression).readers
    for node in weights_of(expression):
        whole = all(_of_secrets(one) and one.children[1 - axis] is node for one in readers[id(node)])
        if not (isinstance(node, Leaf) and whole):
            return f"{node.title} would be both weights and samples"
    positions = positions_of(expression)
    if positions is None:
        return "values are flattened in different ways"
    samples, axes = samples_of(expression), axes_of(expression)
    for node in of_samples(expression):
        own, other = (axes.of(node)[side] for side in (axis, 1 - axis))
        if isinstance(node, Arrange) and flattening(node) is None and _moves_samples(node, expression, axis):
            return f"the {node.title} moves samples"
        if matrix_shape(node)[axis] * (positions.each if own in positions.images else 1) != samples:
            return f"{node.title} has not one entry for each of {samples} samples"
        if other in positions.flat and own not in positions.images:
            return f"the positions of {node.title} are no samples before"
    for node in products(expression):
        inner = axes.of(node.children[0])[1]
        if inner in positions.flat and not _of_secrets(node):
            return f"the weights of {node.title} are not encrypted, and it adds up positions"
    if _long(expression, axis) & _short(expression, axis):
        return "samples and features are along one axis"
    return None


def _moves_samples(node: Arrange, expression: Expression, axis: int) -> bool:
    """Whether it is more than some of the ciphertexts of its child."""
    positions, names = positions_of(expression), axes_of(expression).of(node.children[0])
    return lines_of(node, axis) is None or (positions is not None and names[1 - axis] in positions.flat)


def _of_secrets(node: Expression) -> bool:
    """Whether both factors of a product are encrypted."""
    return all(child.secret for child in node.children)


def _long(expression: Expression, axis: int) -> set[str]:
    """The axes along which samples lie."""
    axes = axes_of(expression)
    return {axes.of(node)[axis] for node in of_samples(expression)}


def _short(expression: Expression, axis: int) -> set[str]:
    """The axes along which features do."""
    axes = axes_of(expression)
    found = {axes.of(node)[1 - axis] for node in of_samples(expression)}
    return found.union(*(axes.of(node) for node in weights_of(expression)))


class FeatureStrategy(Strategy):
    """Blocks of one row, or of one column where samples lie along the rows."""

    form: ClassVar[str] = BLOCKS
    label: ClassVar[str] = FEATURES
    fine, failing = False, 1
    far = near = 3.0
    alphas = (2, 4)

    @classmethod
    def refusal(cls, expression: Expression, options: PlanOptions) -> ParameterError | None:
        reason = unsupported(expression)
        if reason is None:
            return None
        return ParameterError(
            "The program cannot be computed with one ciphertext for each feature.",
            expected="products W @ X of weights and samples along the columns of X, and entrywise operations",
            got=reason,
            advice=Advice("another form, or none", {"form": None}),
        )

    @property
    def degrees(self) -> Sequence[int]:
        """Degrees of rings that hold an image, where there are any."""
        given = super().degrees
        return [n for n in given if self._positions.each <= n // 2] or given

    def is_single_block(self, candidate: Candidate) -> bool:
        """Whether all samples are in one ciphertext."""
        return self._ciphertexts(candidate.n) == 1

    def families(self, thorough: bool, refuse: RefuseUpload) -> Iterator[Iterator[list[Candidate]]]:
        yield ([self._candidate(n, 1)] for n in self.degrees)
        if (
            weights_of(self.expression) and not self.options.for_peer
        ):  # apart: a budget may leave these alone, which take longer
            yield (self._packed(n) for n in self.degrees)

    def _packed(self, n: int) -> list[Candidate]:
        return [self._candidate(n, each) for each in self._packings(n)]

    def _packings(self, n: int) -> list[int]:
        """How many encrypted weights come in one ciphertext, at most: few, which leaves small errors, and many."""
        most = max((self._together(node, n, n) for node in weights_of(self.expression)), default=1)
        return [each for each in PACKINGS if each < most] + ([most] if most > 1 else [])

    def _together(self, node: Expression, n: int, each: int) -> int:
        """How many weights of a matrix come in one ciphertext, or blocks of them that slots repeat, at most `each`."""
        positions, (rows, cols) = self._positions, matrix_shape(node)
        flat = positions.flat.intersection(axes_of(self.expression).of(node))
        length = positions.each if flat else 1
        blocks = rows * cols // length
        if positions.axis is not None:  # those of a few outputs in ciphertexts of their own
            outputs = (cols, rows)[positions.axis]
            blocks = blocks // outputs * min(OUTPUTS, outputs)
        return max(1, min(each, n // 2 // length, 1 << (blocks - 1).bit_length()))

    def _candidate(self, n: int, each: int) -> Candidate:
        clear: dict[str, int] = {}
        if self.modulus is None:
            bits = max(MIN_WEIGHT_BITS, weight_bits_for(float(self.options.precision), self.expression))
            clear = {"weight_bits": min(bits, MAX_WEIGHT_BITS)}
        numbers = {id(node): number for number, node in enumerate(facts_of(self.expression).order)}
        choices = {
            numbers[id(node)]: MethodChoice(FEATURES, {} if _of_secrets(node) else clear)
            for node in products(self.expression)
        }
        for node in weights_of(self.expression):
            together = self._together(node, n, each)
            if together > 1:
                choices[numbers[id(node)]] = MethodChoice(COEFFICIENTS, {"each": together})
        return Candidate(FEATURES, Decisions(BLOCKS, choices, self._blocks(n)), n)

    @functools.cached_property
    def _positions(self) -> Positions:
        return positions_of(self.expression) or Positions()

    def _blocks(self, n: int) -> Mapping[str, int]:
        """All samples, in as few ciphertexts as hold them: those of an image in one of them."""
        axis, positions = axis_of(self.expression) or 0, self._positions
        images = -(-samples_of(self.expression) // positions.each // self._ciphertexts(n))
        blocks = dict.fromkeys(axes_of(self.expression).lengths, 1)
        blocks |= dict.fromkeys(_long(self.expression, axis), images * positions.each)
        blocks |= dict.fromkeys(positions.images, images)
        return blocks | dict.fromkeys(positions.flat, positions.each)

    def _ciphertexts(self, n: int) -> int:
        """Of a row: modulo t there are two samples in a slot."""
        places, each = n // 2 if self.modulus is None else n, self._positions.each
        return -(-samples_of(self.expression) // each // max(1, places // each))

    def least_seconds(self, rates: Rates, threads: int) -> float:
        """The GEMMs at one limb, and what is sent at one limb where that counts."""
        n = min(self.degrees, key=lambda n: (self._ciphertexts(n) * n, n))
        words, counts = self._ciphertexts(n) * n, Counts()
        for node in products(self.expression):
            if _of_secrets(node):
                continue
            (rows, inner), cols = node.children[0].shape, node.shape[1]
            counts.float_macs += 2 * words * inner * (rows if node.children[1].secret else cols)
        seconds = rates.seconds(counts, n, threads)
        if self.options.minimise == "end-to-end":
            axis = axis_of(self.expression)
            rows_sent = sum(
                matrix_shape(node)[1 - (axis or 0)]
                for node in of_samples(self.expression)
                if isinstance(node, Leaf) and not all(node.repeated)
            )
            seconds += 8 * WORD_BYTES * words * rows_sent / self.options.link
        return seconds
