"""Means of what convolutions make, where they are refreshed: convolutions of a larger stride.

The mean over windows of what a filter finds is what the mean of the filter at all places of the window finds. A
convolution of all places, which a mean behind it would leave one of in four, or in nine, fills as many ciphertexts as
it has results, and after the mean they hold as much air. By one filter with the stride of both what is left is packed
without gaps, and no more than that is refreshed, which takes most of the time of a network.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherblas.lang.facts import facts_of
from cipherblas.lang.layers import Assume, AvgPool2d, Conv2d
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operations import Add, Constant
from cipherblas.lang.refreshing import REFRESH
from cipherblas.planner.plan.passes import Following, Outcome, PlanRequest
from cipherblas.planner.predict.feasible import Infeasible

Array = NDArray[np.float64]


def with_means_in_filters(request: PlanRequest, following: Following) -> Outcome:
    """The program with means that are refreshed as part of the convolutions before them; as it is where that cannot be
    planned."""
    changed = means_in_filters(request.expression)
    if changed is request.expression:
        return following(request)
    request.tell("means as part of the convolutions before them")
    found = following(request.of(changed))
    return following(request) if isinstance(found, Infeasible) else found


def means_in_filters(expression: Expression) -> Expression:
    """The program with one convolution in the place of each that has a mean behind it, which is refreshed; itself where
    there is none."""
    order = facts_of(expression).order
    readers: dict[int, list[Expression]] = {}
    for node in order:
        for child in node.children:
            readers.setdefault(id(child), []).append(node)
    made: dict[int, Expression] = {}
    for node in order:
        if isinstance(node, AvgPool2d) and _is_refreshed(node, readers):
            steps = _from_convolution(node, readers)
            if steps:
                made[id(node)] = _joined(node, steps, made)
                continue
        parts = [made[id(child)] for child in node.children]
        changed = any(a is not b for a, b in zip(parts, node.children, strict=True))
        made[id(node)] = node.rebuilt(parts) if changed else node
    return made[id(expression)]


def _is_refreshed(node: Expression, readers: dict[int, list[Expression]]) -> bool:
    """Whether refreshes alone read a value, promises of its bound looked through."""
    found = readers.get(id(node), [])
    return bool(found) and all(
        _is_refreshed(one, readers) if isinstance(one, Assume) else one.op == REFRESH for one in found
    )


def _from_convolution(mean: AvgPool2d, readers: dict[int, list[Expression]]) -> list[Expression]:
    """The steps from a mean back to the convolution that it is of, that itself the last one; nothing where there is
    none, something else is read of it, or the mean sees more than its filters: these would have far more taps then."""
    found, node = list[Expression](), mean.image
    while len(readers[id(node)]) == 1:
        found.append(node)
        if isinstance(node, Conv2d):
            fits = isinstance(node.weights, Constant) and mean.window.padding == (0, 0)
            seen = zip(mean.window.kernel, node.window.kernel, strict=True)
            strides = zip(mean.window.stride, node.window.stride, strict=True)
            square = len({more * own for more, own in strides}) == 1
            return found if fits and square and all(most <= own for most, own in seen) else []
        if isinstance(node, Assume) and node.promised_error is None:
            node = node.x
        elif isinstance(node, Add) and sum(isinstance(part, Constant) for part in node.children) == 1:
            (node,) = (part for part in node.children if not isinstance(part, Constant))
        else:
            break
    return []


def _joined(mean: AvgPool2d, steps: list[Expression], made: dict[int, Expression]) -> Expression:
    """The same value by one convolution."""
    conv = steps[-1]
    assert isinstance(conv, Conv2d) and isinstance(conv.weights, Constant)
    window, more = conv.window, mean.window
    stride = window.stride[0] * more.stride[0], window.stride[1] * more.stride[1]
    sums = _spread(conv.weights.values, more.kernel, window.stride)
    filters = Constant(sums / mean.divisor, conv.weights.replaces)
    groups = window.groups // window.images
    found: Expression = Conv2d(made[id(conv.image)], filters, stride, window.padding, groups)
    for step in reversed(steps[:-1]):
        if isinstance(step, Assume):
            found = Assume(found, step.bound)
            continue
        (added,) = (part for part in step.children if isinstance(part, Constant))
        found = Add(found, Constant(mean.evaluate([added.values]), added.replaces))
    return found


def _spread(filters: Array, kernel: tuple[int, int], stride: tuple[int, int]) -> Array:
    """The sum of filters at all places of a window, which are a stride apart."""
    (rows, columns), (down, right) = filters.shape[2:], stride
    found = np.zeros((*filters.shape[:2], rows + (kernel[0] - 1) * down, columns + (kernel[1] - 1) * right))
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            found[:, :, row * down : row * down + rows, column * right : column * right + columns] += filters
    return found
