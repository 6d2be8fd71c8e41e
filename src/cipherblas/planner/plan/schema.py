"""What the decisions of a plan, and what it was made for, look like in a file: types, ranges, options by algorithm."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, get_args

from cipherblas.common.errors import FormatError
from cipherblas.common.limits import MAX_MASK_BYTES
from cipherblas.common.schema import (
    Check,
    anything,
    either,
    flag,
    integer,
    listed,
    mapping,
    nothing,
    number,
    number_text,
    one_of,
    plain_text,
    record,
)
from cipherblas.crypto.fields import MAX_PLAIN_MODULUS
from cipherblas.crypto.keys.key_id import MAX_SECRETS
from cipherblas.evaluators.slots.values import Order
from cipherblas.forms.convert.coefficients import MAX_STAGES
from cipherblas.lang.operands import MAX_LENGTH
from cipherblas.lang.results import MAX_RESULTS
from cipherblas.methods.layers import METAKERNEL, MULTIPLEXED
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.products import ALGORITHMS, GEMM, RING
from cipherblas.methods.registry import names, options_of
from cipherblas.planner.plan.plan import FormName, PeerName
from cipherblas.planner.predict.machine import check_machine
from cipherblas.planner.predict.promises import check_promise
from cipherblas.planner.predict.stages import Minimise
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.runtime.blocks import BLOCKS, COEFFICIENTS, FEATURES, LAYOUT_PRESERVING
from cipherblas.runtime.conversions import MAX_RESCALES
from cipherblas.runtime.row_products.table import VARIANTS
from cipherblas.runtime.rows import ROWS
from cipherblas.runtime.tensors import PACKING

SLOWEST_LINK = 1e-300  # above zero, as the option is
MODULI, MAX_MODULI = "moduli", 64  # of exact integers by residues
MAX_WEIGHT_BITS = 64  # of rounded weights: a precision of float64 takes 54

_LENGTH = integer(1, MAX_LENGTH)
_GRID = record(
    {"channels": _LENGTH, "pitch": _LENGTH, "row": _LENGTH}, {"segment": _LENGTH, "copies": _LENGTH}
)
_FILLED = record({"filled": _LENGTH})
_TYPES: Mapping[str, Check] = {"bool": flag, "int": _LENGTH, "int | None": either(nothing, _LENGTH)}
_LAYER = record({}, {"mask": flag, "layout": _GRID})
_WEIGHT_BITS = {"weight_bits": integer(1, MAX_WEIGHT_BITS)}
_OPTIONS: Mapping[str, Check] = {
    RING: record({}, _WEIGHT_BITS),
    LAYOUT_PRESERVING: record({}),
    FEATURES: record({}, _WEIGHT_BITS),
    COEFFICIENTS: record({"each": _LENGTH}),
    PACKING: either(record({}, {"channels": _LENGTH, "pitch": _LENGTH, "rows": _LENGTH}), _GRID),
    METAKERNEL: record(
        dict.fromkeys(("n", "k", "p_b", "p_s", "each"), _LENGTH),
        {"mask": flag, "layout": either(_GRID, _FILLED)},
    ),
    MULTIPLEXED: record(
        {"unit": _LENGTH}, {"layout": _FILLED, "paired": flag, "joined": flag, "folded": flag}
    ),
}


@functools.lru_cache(maxsize=256)
def _product_options(algorithm: type[Algorithm]) -> Check:
    """The options of a product in slots, all of which have a default."""
    return record({}, {name: _TYPES[kind] for name, kind in options_of(algorithm).items()})


def _gemm_options() -> Check:
    """The options of a product by rows: the variants that there are now."""
    return record(_WEIGHT_BITS, {kind.name: flag for kind in VARIANTS.values() if kind.method == GEMM})


def _options_of(method: str) -> Check:
    """The options of a method by its name."""
    if method == GEMM:
        return _gemm_options()
    if method in _OPTIONS:
        return _OPTIONS[method]
    return _product_options(ALGORITHMS[method]) if method in ALGORITHMS else _LAYER


def _choice(value: Any, place: str) -> None:
    record({"method": plain_text, "options": anything})(value, place)
    method = value["method"]
    known = dict.fromkeys((*names(), *_OPTIONS))
    if method not in known:
        raise FormatError(
            f"The method of {place} is not registered here: call cb.register, or install the package that has it.",
            expected=" | ".join(known),
            got=repr(method),
        )
    _options_of(method)(value["options"], f"options of {method}")


def _sharing(value: Any, place: str) -> None:
    integer(1, MAX_SECRETS)(value, place)
    if value % 2 == 0:
        raise FormatError(f"The value of {place} must be odd.", expected="an odd number", got=value)


_DECISIONS = record(
    {
        "form": one_of(*get_args(FormName)),
        "parameters": anything,  # compared with those of the file
        "choices": mapping(_choice, number_text),
        "blocks": mapping(_LENGTH, plain_text),
        "key_policy": one_of(*get_args(KeyPolicy)),
        "order": one_of(*get_args(Order)),
        "precision": number(0, 1),
    },
    {
        "asked_error": either(listed(number(0), 1, MAX_RESULTS), number(0)),
        "promise": check_promise,
        "for_peer": one_of(*get_args(PeerName)),
        MODULI: listed(integer(2, MAX_PLAIN_MODULUS), 1, MAX_MODULI),
        "forms": mapping(one_of(BLOCKS, ROWS), number_text),
        "sharing": _sharing,
        "unrelinearised": flag,
        "halves": flag,
        "crossings": mapping(
            record({}, {"stages": integer(1, MAX_STAGES), "rescales": integer(0, MAX_RESCALES)}), number_text
        ),
    },
)

_PLANNED_FOR = record(
    {
        "machine": check_machine,
        "threads": integer(1),
        "minimise": one_of(*get_args(Minimise)),
        "link": number(SLOWEST_LINK),
        "mask_budget": integer(0, MAX_MASK_BYTES),
    }
)


def check_decisions(values: Any) -> None:
    """Raise FormatError unless a value of a file has the form of `Plan.decisions`."""
    _DECISIONS(values, "decisions")


def check_planned_for(values: Any) -> None:
    """Raise FormatError unless a value of a file has the form of `Plan.planned_for`."""
    _PLANNED_FOR(values, "planned_for")
