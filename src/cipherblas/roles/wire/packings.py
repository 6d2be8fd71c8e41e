"""How operands and results lie, in a file of a program for clients: their forms, and what encodes and decodes them.

Layouts of blocks are made by many methods: a file holds which entry each slot has.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.errors import FitError, FormatError
from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.policy.modular import PlainFactor
from cipherblas.forms.form import Form
from cipherblas.forms.layouts import EMPTY, Layout, SlotIndex, in_coefficients
from cipherblas.forms.row_forms import ByteRowForm, Placing, RowForm, SharedRowForm
from cipherblas.forms.slot_forms import PackedForm, SlotForm, TensorForm
from cipherblas.forms.tensors import TensorLayout
from cipherblas.lang.operands import MAX_LENGTH
from cipherblas.lang.steps import MAX_ENTRIES, STEPS, steps_from_json, steps_to_json
from cipherblas.rlwe.basis import OPERAND_BASIS, FirstLimbs
from cipherblas.runtime.values import Input, Output

Tensors = dict[str, NDArray[Any]]
MAX_LIMBS = 1 << 10
MAX_PIECES = 1 << 12
MAX_SCALE = 2.0**1000

_LENGTH, _COUNT = schema.integer(1, MAX_LENGTH), schema.integer(0, MAX_LENGTH)
_PAIR = schema.pair(_LENGTH, _LENGTH)
_SCALE = schema.number(-MAX_SCALE, MAX_SCALE)
_TENSOR = schema.record(
    {
        "shape": schema.listed(_LENGTH, 3, 3),
        **dict.fromkeys(("slots", "channels", "pitch", "row", "col", "segment", "copies"), _LENGTH),
        "zero_padded": schema.flag,
        "places": schema.either(schema.nothing, schema.listed(schema.pair(_COUNT, _COUNT), 1, MAX_LENGTH)),
    }
)
_ROWS: dict[str, schema.Check] = {
    "shape": _PAIR,
    "by_columns": schema.flag,
    "pieces": schema.listed(schema.pair(_COUNT, _LENGTH), 1, MAX_PIECES),
    "placing": schema.either(
        schema.nothing,
        schema.record(
            {
                "each": _LENGTH,
                "first": schema.either(schema.nothing, schema.integer(-MAX_LENGTH, MAX_LENGTH)),
                "negative": schema.flag,
            }
        ),
    ),
}
_ROW_KINDS: dict[str, type[RowForm]] = {one.kind: one for one in (RowForm, SharedRowForm, ByteRowForm)}
_FORMS: dict[str, schema.Check] = {
    "tensors": schema.record({"kind": schema.text, "equal": _PAIR, "tensor": _TENSOR}),
    "blocks": schema.record(
        {
            "kind": schema.text,
            "equal": _PAIR,
            "grid": _PAIR,
            "layout": schema.text,
            "block": _PAIR,
            "signs": schema.listed(schema.integer(-1, 1), 1, MAX_LENGTH),
        },
        {"halves": schema.flag},
    ),
    "packed": schema.record(
        {"kind": schema.text, "block": _PAIR, "each": _LENGTH},
        {"repeated": _PAIR, "lines": _LENGTH, "by_columns": schema.flag},
    ),
    "rows": schema.record({"kind": schema.text, **_ROWS}),
    "shared-rows": schema.record({"kind": schema.text, **_ROWS}),
    "byte-rows": schema.record(
        {"kind": schema.text, **_ROWS, "rows_by_bytes": schema.flag, "columns_by_bytes": schema.flag}
    ),
}
_INPUT = schema.record(
    {
        "name": schema.text,
        "transposed": schema.flag,
        "shape": _PAIR,
        "form": schema.anything,
        "limbs": schema.integer(0, MAX_LIMBS),
        "scale": _SCALE,
        "unit": _SCALE,
        "public_key": schema.flag,
    },
    {"steps": STEPS},
)
_OUTPUT = schema.record(
    {
        "shape": schema.listed(_LENGTH, 0, 4),
        "form": schema.anything,
        "limbs": schema.integer(1, MAX_LIMBS),
        "components": schema.integer(2, 3),
        "scale": _SCALE,
    }
)


def form_to_json(form: Form, tensors: Tensors) -> dict[str, Any]:
    """A form as a header has it; the index of a layout of blocks is entered into `tensors`."""
    return {"kind": form.kind, **form.to_json(tensors)}


def form_of_json(value: Any, tensors: Mapping[str, NDArray[Any]], params: Parameters, place: str) -> Form:
    """The form that `form_to_json` wrote.

    Raises:
        FormatError, ShapeError: the fields are not those of a form on a ring with these parameters.
    """
    schema.record({"kind": schema.one_of(*_FORMS)}, others=True)(value, place)
    _FORMS[value["kind"]](value, place)
    if value["kind"] in _ROW_KINDS:
        kind = _ROW_KINDS[value["kind"]]
        given = {field.name: value[field.name] for field in fields(kind)}
        placing = given["placing"] and Placing(**given["placing"])
        pieces = tuple((start, stop) for start, stop in given["pieces"])
        if any(start >= stop for start, stop in pieces) or (placing and len(pieces) > 1):
            raise FormatError(
                f"The pieces of {place} are wrong.", expected="ranges of columns", got=str(pieces)
            )
        return kind(**{**given, "shape": tuple(given["shape"]), "pieces": pieces, "placing": placing})
    if value["kind"] == "packed":
        (rows, cols), each = value["block"], value["each"]
        block, by_columns = tuple(value.get("repeated", (1, 1))), value.get("by_columns", False)
        how: dict[str, Any] = {"lines": value.get("lines"), "by_columns": by_columns}
        try:
            packed = in_coefficients(rows, cols, params.n // 2, each, block, **how)
        except FitError as error:
            raise FormatError(
                f"The packing of {place} is wrong.", expected=error.expected, got=error.got
            ) from None
        if rows * cols > MAX_ENTRIES:
            raise FormatError(
                f"The packing of {place} is wrong.", expected=f"up to {MAX_ENTRIES} entries", got=rows * cols
            )
        return PackedForm.of(packed)
    equal = tuple(value["equal"])
    if value["kind"] == "tensors":
        given = value["tensor"]
        places = given["places"] and tuple((number, slot) for number, slot in given["places"])
        tensor = TensorLayout(**{**given, "shape": tuple(given["shape"]), "places": places})
        if math.prod(tensor.shape) > MAX_ENTRIES or (places and len(places) != tensor.shape[0]):
            raise FormatError(
                f"The tensor of {place} is wrong.", expected="a place for each channel", got="others"
            )
        form: SlotForm = TensorForm(tensor.layout, (1, 1), equal, tensor=tensor)
        most = tensor.groups, tensor.segments
    else:
        form = SlotForm(_layout(value, tensors, place), tuple(value["grid"]), equal)
        most = form.grid
    if form.layout.halves and params.plain_modulus is None:
        raise FormatError(
            f"The layout of {place} is one of integers.",
            expected="plaintexts modulo t",
            got="halves of slots",
        )
    if form.layout.slots != params.n // 2 or any(one > there for one, there in zip(equal, most, strict=True)):
        raise FormatError(
            f"The slots of {place} are not those of the parameters.",
            expected=params.n // 2,
            got=form.layout.slots,
        )
    return form


def _layout(value: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], place: str) -> Layout:
    (rows, cols), signs, name = value["block"], value["signs"], value["layout"]
    real, imag = tensors.get(f"{name}.real"), tensors.get(f"{name}.imag")

    def is_index(one: NDArray[Any] | None) -> bool:
        if one is None or one.dtype != np.int64 or one.ndim != 2 or len(one) != len(signs) or not one.size:
            return False
        return bool(one.min() >= EMPTY and one.max() < rows * cols)

    if real is None or not is_index(real) or any(signs) != is_index(imag):
        raise FormatError(f"The layout of {place} is wrong.", expected="an entry for each slot", got=name)
    if imag is not None and imag.shape != real.shape:
        raise FormatError(f"The layout of {place} is wrong.", expected=real.shape, got=imag.shape)

    def indexer(number: int) -> SlotIndex:
        own = imag[number] if imag is not None and signs[number] else None
        return SlotIndex(real[number], own, signs[number] or 1)

    # Indices are remembered by the key: that of another file is another one.
    digest = hashlib.blake2b(real.tobytes() + (b"" if imag is None else imag.tobytes())).digest()
    key = "from a file", digest, tuple(signs)
    halves = value.get("halves", False)
    return Layout("from a file", key, rows, cols, real.shape[1], len(signs), indexer, halves=halves)


def _scale(value: float, params: Parameters) -> Any:
    """A scale of a file: of integers modulo t a factor.

    Raises:
        FormatError: it is none.
    """
    if params.plain_modulus is None:
        return float(value)
    if value != int(value) or not 0 < abs(value) <= params.plain_modulus:
        raise FormatError(
            "A factor modulo t is out of its range.", expected=f"1 to {params.plain_modulus}, or its negative"
        )
    return PlainFactor(abs(int(value)) % params.plain_modulus, low=value < 0)


def _scale_number(scale: Any, params: Parameters) -> float:
    """The number that a scale is in a file: a factor, t for zero, and its negative in the low form."""
    if params.plain_modulus is None:
        return float(scale)
    number = scale.value or params.plain_modulus
    return -number if scale.low else number


def input_to_json(one: Input, tensors: Tensors, params: Parameters) -> dict[str, Any]:
    """The encoding of an operand as a header has it."""
    found = {
        "name": one.name,
        "transposed": one.transposed,
        "shape": list(one.shape),
        "form": form_to_json(one.form, tensors),
        "limbs": one.basis.primes,
        "scale": _scale_number(one.scale, params),
        "unit": one.unit,
        "public_key": one.public_key,
    }
    return {**found, "steps": steps_to_json(one.steps)} if one.steps else found


def input_of_json(
    value: Any, tensors: Mapping[str, NDArray[Any]], params: Parameters, shapes: Mapping[str, tuple[int, ...]]
) -> Input:
    """The encoding that `input_to_json` wrote.

    Args:
        shapes: of the operands, by name.

    Raises:
        FormatError, ShapeError: the encoding is of no such operand.
    """
    place = "an operand's encoding"
    _INPUT(value, place)
    form, steps = form_of_json(value["form"], tensors, params, place), steps_from_json(value.get("steps", ()))
    limbs, name = value["limbs"], value["name"]
    if name not in shapes or limbs > params.limbs or not value["scale"] or not value["unit"]:
        raise FormatError(
            "An operand's encoding is none of the program.", expected=", ".join(shapes), got=name
        )
    if not limbs and not (form.operand_moduli and params.family.rows.operand_moduli):
        raise FormatError("An operand's encoding has no limbs.", expected="limbs", got=limbs)
    shape = shapes[name]
    for step in steps:
        shape = step.out_shape(shape)
    rows, cols = value["shape"]
    if value["transposed"]:
        shape = (math.prod(shape[1:]), *shape[:1])
    if math.prod(shape) != rows * cols or not form.holds_operand(rows, cols):
        raise FormatError(
            "An operand's encoding does not hold the operand.", expected=shape, got=(rows, cols)
        )
    return Input(
        *(name, value["transposed"], (rows, cols), form, FirstLimbs(limbs) if limbs else OPERAND_BASIS),
        scale=_scale(value["scale"], params),
        unit=float(value["unit"]),
        public_key=value["public_key"],
        steps=steps,
    )


def output_to_json(one: Output, tensors: Tensors, params: Parameters) -> dict[str, Any]:
    """A result's way back as a header has it."""
    return {
        "shape": list(one.shape),
        "form": form_to_json(one.form, tensors),
        "limbs": one.limbs,
        "components": one.components,
        "scale": _scale_number(one.scale, params),
    }


def output_of_json(
    value: Any, tensors: Mapping[str, NDArray[Any]], params: Parameters, shape: tuple[int, ...]
) -> Output:
    """The way back that `output_to_json` wrote.

    Args:
        shape: of the result.

    Raises:
        FormatError, ShapeError: the encoding is of no such result.
    """
    place = "a result's encoding"
    _OUTPUT(value, place)
    form, own = form_of_json(value["form"], tensors, params, place), tuple(value["shape"])
    if value["limbs"] > params.limbs or not value["scale"]:
        raise FormatError(
            "A result's encoding has too many limbs.", expected=params.limbs, got=value["limbs"]
        )
    if math.prod(own) != math.prod(shape) or not form.holds(own):
        raise FormatError("A result's encoding does not hold the result.", expected=shape, got=own)
    return Output(
        own, form, value["limbs"], value["components"], _scale(value["scale"], params), form.degree(params)
    )
