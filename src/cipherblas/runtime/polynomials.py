"""Polynomials of every entry: arguments in [-1, 1], also in slots that hold no entry, and what these hold afterwards.

Beyond [-1, 1] a polynomial of a high degree grows without bound: what stands between the entries must be zero, or known
to be no larger than they are. Zeros become p(0): that is not part of what is computed, and is added to the entries
alone, so that other slots are zero again.
"""

from __future__ import annotations

from cipherblas.lang.nodes import Expression
from cipherblas.lang.polynomials import Polynomial
from cipherblas.methods.polynomial.paterson_stockmeyer import PatersonStockmeyer
from cipherblas.runtime.slots import SlotRun
from cipherblas.runtime.values import Value


def polynomial_of(node: Expression) -> Polynomial:
    """A node that is one."""
    assert isinstance(node, Polynomial)
    return node


def evaluated(run: SlotRun, node: Polynomial, x: Value, unit: float, zeros: bool) -> Value:
    """p(x) in a unit that it does not exceed; with `zeros`, p(x) - p(0).

    Args:
        x: no slot is larger than the bound of the argument.
        zeros: slots of x without entries are zero, and stay it.
    """
    to_unit = x.unit / node.reach
    numbers = [value / unit for value in node.coefficients]
    if to_unit < 0:
        numbers = [-value if index % 2 else value for index, value in enumerate(numbers)]
    bound = 1.0
    if zeros:
        numbers[0] -= node.at_zero / unit
        bound += abs(node.at_zero) / unit
    method, most = PatersonStockmeyer(numbers, bound), min(1.0, node.x.bound / node.reach)
    most += run.run.beyond.get(id(node.x), 0.0) / node.reach
    value = run.mapped(
        *("polynomial", x),
        lambda ev, ct: method.run(ev, ev.fold_into_scale(ct, abs(to_unit)), most=most),
    )
    return run.laid(node.shape, x.slots, value.cells, unit)
