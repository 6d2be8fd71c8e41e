"""Programs of matrices that are encrypted by rows or by columns, whose products are GEMMs.

W @ X wants X encrypted by rows and gives rows, X @ W by columns, a product of secrets wants its left factor by columns
and its right one by rows and gives either. Operands are encrypted as they are wanted; a computed value that is wanted
the other way is transposed under encryption.

Scales come from the top: the result's scale is as large as the modulus allows, and each node passes on what its
children need.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import strips
from cipherblas.common.errors import LevelError, MismatchError, ParameterError
from cipherblas.evaluators.rows.values import EXACT_BITS, ClearFactor, Rows
from cipherblas.forms import byte_rows
from cipherblas.forms.form import Placing, RowForm
from cipherblas.lang.analysis import has_public_key, is_constant, whole_nodes
from cipherblas.lang.arrangements import first_of
from cipherblas.lang.exact import is_exact
from cipherblas.lang.facts import operands_of, products
from cipherblas.lang.graph import same
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.lang.operations import Leaf
from cipherblas.methods.matmul.gemm import secret_product
from cipherblas.methods.matmul.ring_elements import Elements, placed_elements
from cipherblas.methods.products import GEMM, RING
from cipherblas.rlwe.matrices.matrix import bit_ceil
from cipherblas.rlwe.rings import low_limbs, operand_level
from cipherblas.runtime import byte_products
from cipherblas.runtime.byte_products import Sides
from cipherblas.runtime.executor import FORMS, OPERAND, Executor, FormRun, computes
from cipherblas.runtime.placing import LAID, Wish, lies_by_columns, placeable
from cipherblas.runtime.slots import KNOWN_BELOW
from cipherblas.runtime.values import Input, Value

ROWS = "rows"
# Between twice the message and the modulus: for the noise and for primes that are not 2^bits.
HEADROOM_BITS = 1.0
EXACT_HEADROOM_BITS = 0.03  # where errors are below one half of whole numbers that are large
# Times the noise, that the rounding of GEMMs may be where that was chosen: a bit of the modulus for half the GEMMs.
MOST_ROUNDING = 2.0
MOST_SCALE_BITS = 900.0  # a float64 holds it beside any bound


def rounded(values: NDArray[Any], unit: float, bits: int) -> NDArray[Any]:
    """values / unit, rounded to integers of so many bits and a sign, without a float64 copy of all of them."""
    integers = np.empty(values.shape, np.int32 if bits < 31 else np.float64)
    for rows in strips(values):
        integers[rows] = np.rint(np.divide(values[rows], unit, dtype=np.float64))
    return integers


def sums_are_exact(largest: float, terms: int) -> bool:
    """Whether a sum of so many integers up to `largest`, with any signs, is exact in float64."""
    return largest * terms < 2.0**EXACT_BITS


def most_weight_bits(terms: int) -> int:
    """Bits of rounded weights of which a sum of so many is exact in float64: keys of fixed weights are such sums."""
    return EXACT_BITS - 1 - math.ceil(math.log2(terms))


def known_norm(node: Expression) -> float:
    """The norm of a matrix, where more is known of it than follows from the bound of its entries."""
    usual = KNOWN_BELOW * node.bound * math.sqrt(math.prod(node.shape))
    return node.norm if node.norm < usual and not is_constant(node) else math.inf


def can_be_fixed(product: Expression) -> bool:
    """Whether a product can have keys of its own: of a constant and an operand that the secret key encrypts.

    The secrets of rows that share their a parts are the client's, so that no public key encrypts them.
    """
    clear, other = sorted(product.children, key=lambda part: part.secret)
    return (
        not clear.secret and is_constant(clear) and other.operand is not None and not other.operand.public_key
    )


def can_be_reduced(product: Expression) -> bool:
    """Whether residues of the clear factor of a product may be multiplied modulo the moduli of operands: it has
    integers of two bytes, and the other one is an operand that the secret key encrypts, or a multiple of it."""
    clear, other = sorted(product.children, key=lambda part: part.secret)
    while other.op == "scale":
        (other,) = other.children
    own = not clear.secret and other.operand is not None and not other.operand.public_key
    return own and byte_products.has_two_bytes(clear)


def switches_keys(node: Expression) -> bool:
    """Whether rows are transposed or multiplied by the secret: they are then at most N long."""
    sides = [[child.secret for child in product.children] for product in products(node)]
    return any(all(side) for side in sides) or len({side[0] for side in sides}) > 1


class RowProducts(NamedTuple):
    """A method of products by rows that is no GEMM.

    Attributes:
        of_secrets: (run, product, wish) → value.
        of_clear: (run, product, clear factor, rows, placing) → rows.
        growth: of a placing: what the scale of a product with a clear factor grows by beside that of the factor.
    """

    of_secrets: Callable[[Any, Expression, Wish], Value]
    of_clear: Callable[[Any, Expression, ClearFactor, Rows, Placing | None], Rows]
    growth: Callable[[Placing | None], float]


PRODUCTS: dict[str, RowProducts] = {}  # by the name of the method


class RowRun(FormRun):
    """Matrices encrypted by rows, or by columns, in one run."""

    name: ClassVar[str] = ROWS

    def __init__(self, run: Executor) -> None:
        super().__init__(run)
        self.ev = run.evaluators.rows
        self.limbs = low_limbs(run.evaluators.slots.params) if run.refreshed else len(self.ev.params.q)
        fixed = any(choice.options.get("fixed") for choice in run.choices.values())
        # Products with fixed weights come in pieces of N columns, and so do operands that a public key encrypts, since
        # longer rows have secrets of the client's: what is added to them must too.
        self.mixed = len(run.decisions.every_form) > 1  # values come from slots, or go there
        # So do operands with moduli of their own.
        apart = fixed or self.ev.params.operand_moduli is not None
        self._in_pieces = self.mixed or apart or switches_keys(run.node) or has_public_key(run.node)
        self._exact = is_exact(run.node)
        self._sides = {} if self.mixed else byte_products.sides_of(run.node)
        self._orientations: dict[int, bool | None] = {}
        self._elements: dict[Hashable, Elements] = {}  # of placed operands
        self._factors: dict[tuple[int, bool], ClearFactor] = {}  # those that are moved
        self._own_scales: dict[int, float | None] = {}

    def steps(self) -> int:
        """Products."""
        return sum(self.run.form_of(node) == self.name for node in products(self.run.node))

    def key(self, node: Expression, wish: Wish) -> Hashable:
        return wish

    def lasts(self, node: Expression) -> bool:
        return True

    def finished(self, value: Value) -> Value:
        for piece in value.handles:
            self.ev.check_switched(piece, "a result")
            self.ev.settled(piece)
        return value

    def result_wish(self, node: Expression) -> Wish:
        """As it was computed for other results; else at as large a scale as the modulus holds."""
        wishes = self.run.wishes(node, self.name)
        made = [wish for wish in wishes if isinstance(wish, Wish) and wish.placing is None]
        made = [wish for wish in made if wish.limbs is None or not self.ev.is_operand(wish.limbs)]
        if made:
            return max(made, key=lambda wish: wish.scale)
        room = min(self.ev.log_modulus(self.limbs) - 1 - self._headroom(node), MOST_SCALE_BITS)
        assumed = node
        while assumed.op == "assume":  # what it is a promise about must fit as well
            (assumed,) = assumed.children
        return Wish(bool(self.orientation(node)), 2.0**room / max(node.bound, assumed.bound))

    def _headroom(self, node: Expression) -> float:
        """Bits of the modulus for the error of a result; of exact integers it is below 1, however rare one is asked."""
        if not self._exact or not node.bound:
            return HEADROOM_BITS
        return min(HEADROOM_BITS, EXACT_HEADROOM_BITS + math.log2(1 + 1 / node.bound))

    def orientation(self, node: Expression) -> bool | None:
        """How a value comes by itself (by columns?); None: in either way."""
        if id(node) not in self._orientations:
            self._orientations[id(node)] = self._found_orientation(node)
        return self._orientations[id(node)]

    def _found_orientation(self, node: Expression) -> bool | None:
        if node.op in LAID:
            return lies_by_columns(node)
        if node.operand is not None:  # what is repeated is sent once in one way
            copies = [self._copies(node, by_columns) for by_columns in (False, True)]
            return None if copies[0] == copies[1] else copies[1] > copies[0]
        secret = [child for child in node.children if child.secret]
        if node.product and len(secret) > 1 and self._is_inner(node):
            return not placeable(node.children[0])
        if node.product:
            return None if len(secret) > 1 else node.children[0].secret
        found = map(self.orientation, sorted(secret, key=lambda child: child.packable))
        return next((one for one in found if one is not None), None)

    def _is_inner(self, product: Expression) -> bool:
        """Whether it is an inner product of ring elements, one factor of which comes from blocks."""
        choice = self.run.choices.get(self.run.number[id(product)])
        return choice is not None and choice.method == RING and not all(map(placeable, product.children))

    def own_scale(self, node: Expression) -> float | None:
        """The scale, about, that a value by rows comes in because some of it was in slots; None: any that is wanted."""
        if id(node) not in self._own_scales:
            self._own_scales[id(node)] = self._found_scale(node)
        return self._own_scales[id(node)]

    def _found_scale(self, node: Expression) -> float | None:
        if node.packable or not node.secret:
            return None
        if self.run.form_of(node) != self.name:
            slots = self.run.evaluators.slots
            return float(2.0**slots.params.scale_bits) / math.sqrt(slots.slots) / node.bound
        scales = [self.own_scale(child) for child in node.children]
        known = [scale for scale in scales if scale is not None]
        if not known:
            return None
        if not node.product:
            return max(known) / (float(node.gain(0)) if node.op == "scale" else 1.0)
        if all(child.secret for child in node.children):
            return math.prod(known)
        return known[0] / self.clear_factor(node, transposed=bool(self.orientation(node))).unit

    def of(self, value: Value, pieces: list[Any]) -> Value:
        """The value with other pieces."""
        return replace(value, cells=[[pieces]])

    def form(self, node: Expression, by_columns: bool, widths: list[int], shared: bool = False) -> RowForm:
        """A node in pieces of so many columns, or a few more, which are zeros."""
        rows, cols = matrix_shape(node)
        stops = np.cumsum(widths).tolist()
        pieces = tuple((stop - width, stop) for stop, width in zip(stops, widths, strict=True))
        return RowForm((cols, rows) if by_columns else (rows, cols), by_columns, pieces, shared)

    def operand(self, node: Expression, wish: Wish, shared: bool = False) -> Value:
        """A secret operand, as the client encrypts it: in pieces of N columns where that is needed."""
        assert node.operand is not None
        if wish.placing is not None:
            return self._placed_operand(node, wish, wish.placing)
        copies = self._copies(node, wish.by_columns)
        if copies > 1 and not shared and not wish.in_digits:
            value = self.operand(first_of(node, 1 if wish.by_columns else 0), wish)
            pieces = [self.ev.stack([piece] * copies) for piece in value.handles]
            return self.result(node.shape, wish.by_columns, pieces, value.unit)
        cols = node.shape[0 if wish.by_columns else 1]
        if wish.in_digits:
            cols *= 2
        length = self.ev.n if self._in_pieces and not shared else cols
        self.ev.spend(-(-cols // length), "pieces of an operand")
        if not shared:
            cols = self.width(cols)
        widths = [min(length, cols - start) for start in range(0, cols, length)]
        form = self.form(node, wish.by_columns, widths, shared)
        if wish.in_digits:
            form = replace(form, shape=(form.shape[0], cols), columns_by_bytes=True)
        return self._sent(node, wish, form)

    def _copies(self, node: Expression, by_columns: bool) -> int:
        """How many rows of an operand, or columns, are one and the same, which is sent once."""
        axis = 1 if by_columns else 0
        return node.shape[axis] if isinstance(node, Leaf) and node.repeated[axis] else 1

    def _placed_operand(
        self, node: Expression, wish: Wish, placing: Placing, turned: bool | None = None
    ) -> Value:
        """`turned`: how the form calls what is sent, where an operand and its transpose are one encryption."""
        self.ev.spend(1, "pieces of an operand")
        whole = self.form(node, wish.by_columns, [self.ev.n])
        by_columns = whole.by_columns if turned is None else turned
        return self._sent(node, wish, replace(whole, by_columns=by_columns, placing=placing))

    def placed_elements(self, node: Expression, wish: Wish) -> Elements:
        """A placed operand as ring elements, for all products that take it like this."""
        assert wish.placing is not None
        key = node.name, node.transposed != wish.by_columns, node.steps, wish.placing, wish.scale, wish.limbs
        if key not in self._elements:
            value = self._placed_operand(node, wish, wish.placing, turned=False)
            with self.run.measured(node, OPERAND):
                self._elements[key] = placed_elements(self.run.evaluators, value.first())
        return self._elements[key]

    @property
    def placed_scale(self) -> float:
        """Of operands that are multiplied as they are sent, one scale for all products: a quarter of the modulus, of
        which clear factors and what else is multiplied take the rest."""
        return float(2.0 ** math.floor(self.ev.log_modulus(self.limbs) / 4))

    def _sent(self, node: Expression, wish: Wish, form: RowForm) -> Value:
        assert node.operand is not None
        if node.operand.public_key and wish.limbs is not None and self.ev.is_operand(wish.limbs):
            raise LevelError(
                "A public key does not encrypt modulo the moduli of operands.",
                expected=f"at most {self.limbs} limbs",
                got=f"operand {node.name!r} of a product of secrets",
            )
        rows, cols = matrix_shape(node)
        shape = (cols, rows) if wish.by_columns else (rows, cols)
        wanted = Input(
            *(node.name, node.transposed != wish.by_columns, shape, form),
            *(wish.limbs or self.limbs, float(wish.scale), 1.0, node.operand.public_key),
            steps=node.steps,
        )
        bound = float(byte_rows.OFFSET) if wish.in_digits else node.bound
        return Value(node.shape, form, self.inputs.secret(wanted, bound, self.run.evaluators), 1.0)

    def width(self, cols: int) -> int:
        """The entries of a row of so many columns: where rows become slots it fills its subring, or whole pieces of N,
        with zeros."""
        if not self.mixed:
            return cols
        return max(2, bit_ceil(cols)) if cols <= self.ev.n else -(-cols // self.ev.n) * self.ev.n

    def turned(self, value: Value) -> Value:
        """The same matrix encrypted the other way: one C-MT per N × N block."""
        ev, form = self.ev, value.rows
        assert not (form.rows_by_bytes or form.columns_by_bytes)
        (rows, cols), n = form.shape, self.ev.n
        columns: list[list[Rows]] = []  # by piece of the result
        ev.spend(len(value.handles) * -(-rows // n), "transpositions")
        for start in range(0, rows, n):
            height = min(n, rows - start)
            blocks = [ev.rows_of(piece, start, start + height) for piece in value.handles]
            held = [min(stop, cols) - begin for begin, stop in form.pieces]  # rows of zeros are left out
            columns.append(
                [
                    ev.take(ev.transpose(block), count, self.width(height))
                    for block, count in zip(blocks, held, strict=True)
                ]
            )
        pieces = [ev.stack(column) for column in columns]
        return self.result(value.shape, not form.by_columns, pieces, value.unit)

    def result(
        self,
        shape: tuple[int, ...],
        by_columns: bool,
        pieces: list[Any],
        unit: float,
        cut: tuple[bool, bool] = (False, False),
    ) -> Value:
        """A value of these pieces; `cut`: whether their rows, and columns, are those of bytes or digits."""
        rows, stops = pieces[0].shape[0], np.cumsum([piece.shape[1] for piece in pieces]).tolist()
        ranges = tuple((stop - piece.shape[1], stop) for stop, piece in zip(stops, pieces, strict=True))
        cols = shape[0 if by_columns else 1]
        cols = min(stops[-1], 2 * cols if cut[1] else cols)
        form = RowForm((rows, cols), by_columns, ranges, rows_by_bytes=cut[0], columns_by_bytes=cut[1])
        return Value(shape, form, [[pieces]], unit)

    def order(self, node: Expression) -> tuple[float, bool]:
        """Of what is combined in a mixed program, the least is computed first: that with the largest scale of its own,
        since others are brought to it without loss; then what is computed, then what is packed."""
        return -(self.own_scale(node) or 0.0), node.packable

    def at_equal_limbs(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Both at the limbs of the one that has fewer."""
        limbs = min(x.first().limbs, y.first().limbs)

        def dropped(value: Value) -> Value:
            if value.first().limbs == limbs:
                return value
            return self.of(value, [self.ev.drop(piece, limbs) for piece in value.handles])

        return dropped(x), dropped(y)

    def factors(
        self, left: Expression, right: Expression, wishes: Mapping[int, Wish], matched: float | None
    ) -> tuple[Value, Value]:
        """Both factors of a product of secrets; what was in slots comes first: operands have its limbs.

        Args:
            matched: a scale that the product must have.
        """
        sides = (left, right)
        found: dict[int, Value] = {}
        for side in sorted(wishes, key=lambda side: self.mixed and self.order(sides[side])):
            wish = wishes[side]
            if self.mixed and found:
                first = next(iter(found.values())).first()
                wish = wish._replace(limbs=first.limbs)
                if matched is not None:
                    wish = wish._replace(scale=matched / first.scale, matched=True)
            found[side] = self.value(sides[side], wish)
        return self.at_equal_limbs(found[0], found[1])

    def pieces_product(self, node: Expression, wish: Wish, x: Value, y: Value) -> Value:
        """The products of the pieces of both factors."""
        ev, (left, right) = self.ev, node.children
        most = math.inf
        if x is not y and not any(value.rows.columns_by_bytes for value in (x, y)):
            self._know_sums(x, left, left.row_sum)
            self._know_sums(y, right, right.column_sum)
            if self.keeps(x, left) and self.keeps(y, right):
                most = node.bound / abs(x.unit * y.unit)
        first, second = (y, x) if wish.by_columns else (x, y)
        apart = not operands_of(left) & operands_of(right)
        ev.spend(ev.product_steps * len(first.handles) * len(second.handles), "products of pieces")
        pieces = [
            ev.rows_of(
                ev.stack(
                    [secret_product(ev, row_piece, col_piece, apart, most) for row_piece in first.handles]
                ),
                *(0, first.rows.shape[1]),
            )
            for col_piece in second.handles
        ]
        cut = first.rows.columns_by_bytes, second.rows.columns_by_bytes
        return self.result(node.shape, wish.by_columns, pieces, x.unit * y.unit, cut)

    def keeps(self, value: Value, node: Expression) -> bool:
        """Whether what the program knows of a node holds for the messages of its value: errors are no part of them."""
        return all(piece.bound <= node.bound / abs(value.unit) for piece in value.handles)

    def known_most(self, product: Expression, value: Value, secret: Expression) -> float:
        """What no entry of a product with a clear factor exceeds, in units of its secret one's value, of which the norm
        is known from here on."""
        if not self.keeps(value, secret):
            return math.inf
        for piece in value.handles:
            piece.norm = known_norm(secret) / abs(value.unit)
        return product.bound / abs(value.unit)

    def _know_sums(self, value: Value, node: Expression, known: float) -> None:
        """What the program knows of the sums over the inner dimension of a factor, and of its norm."""
        if self.keeps(value, node):
            unit, norm = abs(value.unit), known_norm(node)
            for piece in value.handles:
                piece.column_sum, piece.norm = known / unit, norm / unit

    def clear_factor(self, product: Expression, transposed: bool) -> ClearFactor:
        """The clear factor of a product in integers: as it is where that is exact, else rounded as was chosen."""
        node = next(child for child in product.children if not child.secret)
        rows, cols = matrix_shape(node)
        shape = (cols, rows) if transposed else (rows, cols)
        exact = whole_nodes(node)[id(node)] and sums_are_exact(node.bound, shape[1])
        bits = self.weight_bits(product)
        if exact:
            unit = min(node.bound, 1.0)  # whole numbers below 1 are zeros, which are whole in any unit
        else:
            bits = min(bits, most_weight_bits(shape[1]))
            largest = 2.0 ** math.ceil(math.log2(node.bound)) if self.run.refreshed else node.bound
            unit = (
                largest / 2**bits
            )  # the same of weights like each other: one encryption serves their products

        def integers() -> NDArray[Any]:
            values = self.inputs.given(node)
            if not exact:
                values = rounded(values, unit, bits)
            elif values.dtype.kind == "f":
                values = values.astype(np.float64, copy=False)
            return values.T if transposed else values

        total = node.column_sum if transposed else node.row_sum
        rounding = MOST_ROUNDING if self.options(product).get("rounded") else 1.0
        if any(self.sides(product)):
            return self._in_bytes(ClearFactor((), shape, node.bound, unit, exact, integers), node, transposed)
        known = total, known_norm(node)
        return ClearFactor((id(node), transposed), shape, node.bound, unit, exact, integers, *known, rounding)

    def _in_bytes(self, factor: ClearFactor, node: Expression, transposed: bool) -> ClearFactor:
        """The bytes of a factor, as rows of one."""
        return replace(
            factor,
            key=(id(node), transposed, "bytes"),
            shape=(byte_rows.rows_of(factor.shape[0]), factor.shape[1]),
            bound=float(byte_rows.OFFSET),
            integers=lambda: byte_rows.in_bytes(factor.integers()),
            rounding=0.0,  # products of bytes are exact
        )

    def sides(self, product: Expression) -> Sides:
        """Which of its factors are cut into bytes.

        Raises:
            ParameterError: decided so, where none can be.
        """
        if not self.options(product).get("bytes"):
            return Sides()
        if id(product) not in self._sides or self.run.choice(product).method != GEMM:
            raise ParameterError(
                "A product is decided to be one with the bytes of its factors, which only results of exact 16-bit "
                "integers may be.",
                expected="a result of exact integers, of a clear factor of two bytes, or of operands",
                got=product.title,
            )
        return self._sides[id(product)]

    def moved_factor(self, product: Expression, transposed: bool) -> ClearFactor:
        """The same of a product whose clear factor several others take, with integers that are made once."""
        key = id(product), transposed
        if key not in self._factors:
            self._factors[key] = self.clear_factor(product, transposed).once()
        return self._factors[key]

    def weight_bits(self, product: Expression) -> int:
        """Of its clear factor, where it must be rounded.

        Raises:
            ParameterError: they were not decided.
        """
        bits = self.options(product).get("weight_bits")
        if bits is None:
            raise ParameterError(
                f"The decisions lack the bits of the weights of {product.title}.",
                expected="weight_bits",
                got="none",
            )
        return int(bits)

    def other_products(self, product: Expression) -> RowProducts | None:
        """The method of a product that is no GEMM."""
        return PRODUCTS.get(self.run.choice(product).method)

    def reduced(self, product: Expression) -> bool:
        """Whether the residues of its clear factor modulo the moduli of operands are multiplied.

        Raises:
            ParameterError: decided so, where they cannot be.
        """
        if not self.options(product).get("moduli") or self.ev.params.operand_moduli is None:
            return False
        if not can_be_reduced(product) or self.run.choice(product).method != GEMM:
            raise ParameterError(
                "A product is decided to be one of residues, which only those of an operand and clear integers may be.",
                expected="clear integers of two bytes, and an operand that the secret key encrypts",
                got=product.title,
            )
        return True

    def fixed(self, product: Expression) -> bool:
        """Whether it has keys of its own."""
        return bool(self.options(product).get("fixed")) and can_be_fixed(product)

    def options(self, product: Expression) -> Mapping[str, Any]:
        """Of its method."""
        choice = self.run.choice(product)
        if choice.method != GEMM and choice.method not in PRODUCTS:
            raise ParameterError(
                "No such method computes products by rows.",
                expected=" | ".join((GEMM, *PRODUCTS)),
                got=choice.method,
            )
        return choice.options


FORMS[ROWS] = RowRun


@computes(ROWS, "operand", "view")
def operand(run: RowRun, node: Expression, wish: Wish) -> Value:
    """A secret matrix, encrypted as it is wanted."""
    return run.operand(node, wish)


@computes(ROWS, "scale")
def scale(run: RowRun, node: Expression, wish: Wish) -> Value:
    """A change of scale alone, and of sign."""
    factor = node.gain(0)
    value = run.value(node.children[0], wish._replace(scale=wish.scale * factor))
    pieces = [run.ev.absorb(piece, factor) for piece in value.handles]
    return replace(
        run.of(value, pieces), unit=math.copysign(value.unit, value.unit * node.parameters["factor"])
    )


@computes(ROWS, "assume")
def assume(run: RowRun, node: Expression, wish: Wish) -> Value:
    """The same matrix with another bound."""
    value, exact = run.value(node.children[0], wish), "error" in node.parameters
    pieces = [run.ev.as_message(piece) if exact else piece for piece in value.handles]
    return run.of(value, [run.ev.bounded(piece, node.bound) for piece in pieces])


@computes(ROWS, "truncated")
def truncated(run: RowRun, node: Expression, wish: Wish) -> Value:
    """The same matrix."""
    return run.value(node.children[0], wish)


@computes(ROWS, "add")
def add(run: RowRun, node: Expression, wish: Wish) -> Value:
    """The entrywise sum of pieces."""
    ev = run.ev
    # What was in slots has a scale and limbs of its own, which the other term then follows.
    first, second = sorted(node.children, key=lambda part: (not part.secret, run.mixed and run.order(part)))
    x = run.value(first, wish)
    if not second.secret:
        return _with_clear(run, x, second)
    if run.mixed:
        wish = Wish(wish.by_columns, x.first().scale, x.first().limbs, matched=True)
    y = run.value(second, wish)
    x, y = run.at_equal_limbs(x, y)
    if abs(x.unit) != abs(y.unit):
        raise MismatchError(
            "Rows that are added must have equal units.", expected=abs(x.unit), got=abs(y.unit)
        )
    combine = ev.add if x.unit == y.unit else ev.sub
    return run.of(x, [combine(p, q) for p, q in zip(x.handles, y.handles, strict=True)])


def _with_clear(run: RowRun, x: Value, clear: Expression) -> Value:
    def entries(start: int, stop: int) -> NDArray[np.float64]:
        matrix = run.inputs.given(clear)
        part = (matrix.T if x.rows.by_columns else matrix)[:, start:stop]
        missing = stop - start - part.shape[1]
        if missing:
            part = np.pad(part, ((0, 0), (0, missing)))
        return np.asarray(np.multiply(part, x.unit, dtype=np.float64))

    pieces = [
        run.ev.add_clear(piece, functools.partial(entries, *place), clear.bound)
        for piece, place in zip(x.handles, x.rows.pieces, strict=True)
    ]
    return run.of(x, pieces)


@computes(ROWS, "matmul")
def matmul(run: RowRun, node: Expression, wish: Wish) -> Value:
    """GEMMs: of one clear factor, which gives the orientation, or of two secrets."""
    natural = run.orientation(node)
    turned = natural is not None and natural != wish.by_columns
    value = _product(run, node, wish._replace(by_columns=wish.by_columns != turned))
    run.run.tick()
    return run.turned(value) if turned else value


def _product(run: RowRun, node: Expression, wish: Wish) -> Value:
    ev, (left, right) = run.ev, node.children
    if left.secret and right.secret:
        return _secret_product(run, node, wish)
    other = right if right.secret else left
    factor, method = run.clear_factor(node, transposed=wish.by_columns), run.other_products(node)
    growth = 1.0 if method is None else method.growth(wish.placing)
    sides = run.sides(node)
    if any(sides):
        growth = byte_products.growth(node, sides)
    inner = wish._replace(scale=wish.scale * factor.unit / growth)
    if run.reduced(node) and wish.limbs in (None, run.limbs):
        limbs = operand_level(ev.params)
        inner = inner._replace(scale=inner.scale * ev.dropped(limbs, run.limbs), limbs=limbs)
    if run.fixed(node):
        number = len(run.run.fixed_factors)
        run.run.fixed_factors.append(factor)
        x = run.operand(other, inner, shared=True)
        pieces = list(ev.fixed_product(factor, number, x.first(), run.known_most(node, x, other)))
    else:
        x, factor = run.value(other, inner), factor.once()
        if method is None:
            most = math.inf if any(sides) else run.known_most(node, x, other)
            pieces = [ev.clear_product(factor, piece, most) for piece in x.handles]
        else:
            pieces = [method.of_clear(run, node, factor, piece, wish.placing) for piece in x.handles]
    return run.result(node.shape, wish.by_columns, pieces, x.unit, (any(sides), False))


def _secret_product(run: RowRun, node: Expression, wish: Wish) -> Value:
    """(M1 M2)ᵀ = M2ᵀ M1ᵀ by rows is M1 M2 by columns."""
    left, right = node.children
    method = run.other_products(node)
    if method is not None:
        return method.of_secrets(run, node, wish)
    sides = run.sides(node)
    scale, (left_bound, right_bound) = wish.scale, byte_products.bounds(node, sides)
    if any(sides):
        scale /= byte_products.growth(node, sides)
    limbs = wish.limbs
    if run.ev.params.operand_moduli is not None:
        limbs = operand_level(run.ev.params)
        scale *= run.ev.dropped(limbs, run.limbs)
    if right.packable and not run.mixed and same(left.T, right):  # Xᵀ X: one encryption of X serves for both
        x = run.value(right, Wish(False, math.sqrt(scale), limbs, in_digits=sides.right))
        return run.pieces_product(node, wish, x, x)
    left_scale = math.sqrt(scale) * math.sqrt(right_bound) / math.sqrt(left_bound)
    wishes = {
        0: Wish(True, left_scale, limbs, in_digits=sides.left),
        1: Wish(False, scale / left_scale, limbs, in_digits=sides.right),
    }
    x, y = run.factors(left, right, wishes, scale if wish.matched else None)
    return run.pieces_product(node, wish, x, y)
