"""The table of the kinds of products by rows, and which of them a product is."""

from __future__ import annotations

from collections.abc import Iterable

from cipherblas.common.errors import ParameterError
from cipherblas.lang.nodes import Expression
from cipherblas.methods.products import GEMM
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.byte_factors import ByteFactors
from cipherblas.runtime.row_products.clear_factors import ClearFactors
from cipherblas.runtime.row_products.clear_in_ring import ClearInRing
from cipherblas.runtime.row_products.fixed_weights import WeightsInKeys
from cipherblas.runtime.row_products.kind import RowProduct, Variant
from cipherblas.runtime.row_products.reduced_weights import ReducedWeights
from cipherblas.runtime.row_products.rounded_weights import RoundedWeights
from cipherblas.runtime.row_products.secret_factors import SecretFactors
from cipherblas.runtime.row_products.secrets_in_ring import SecretsInRing

# By name. The first one of a method that applies to a product is its kind, which variants change in their order.
PLAIN: dict[str, type[RowProduct]] = {
    kind.name: kind for kind in (ClearFactors, SecretFactors, ClearInRing, SecretsInRing)
}
VARIANTS: dict[str, type[Variant]] = {
    kind.name: kind for kind in (WeightsInKeys, RoundedWeights, ByteFactors, ReducedWeights)
}


def plain(product: Expression, program: Expression, method: str = GEMM) -> RowProduct:
    """The kind of a product that a method computes without any option.

    Raises:
        ParameterError: the method computes no products by rows.
    """
    for kind in PLAIN.values():
        if kind.method == method and kind.applies(product, program):
            return kind()
    raise ParameterError(
        "No such method computes products by rows.",
        expected=" | ".join(dict.fromkeys(kind.method for kind in PLAIN.values())),
        got=method,
    )


def chosen(options: Iterable[str]) -> list[type[Variant]]:
    """The variants that options choose, by their names."""
    return [VARIANTS[name] for name in VARIANTS if name in options]


def changed(kind: RowProduct, by: Iterable[type[Variant]]) -> RowProduct:
    """A kind as some variants change it."""
    for variant in by:
        kind = variant(kind)
    return kind


def decided(run: RowPieces, product: Expression) -> RowProduct:
    """The kind of a product as was decided.

    Raises:
        ParameterError: the decisions are impossible.
    """
    choice = run.run.choice(product)
    kind = plain(product, run.run.node, choice.method)
    return changed(kind, (one for one in chosen(choice.flags) if one.taken(run, product)))
