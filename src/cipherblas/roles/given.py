"""What a server is given for a run, compared with what its program declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import clear_array, narrow_array
from cipherblas.common.errors import DTypeError, MismatchError, ShapeError
from cipherblas.lang.fixed_point import fixed_numbers
from cipherblas.lang.operands import Operand
from cipherblas.roles.planned import PlannedProgram
from cipherblas.roles.wire.messages import (
    AGAIN,
    EncryptedOperand,
    EncryptedResult,
    check_made_for,
    check_parameters,
    check_shape,
    given,
)


def checked_operands(
    program: PlannedProgram, key_id: str, operands: Mapping[str, Any]
) -> tuple[dict[str, EncryptedOperand], dict[str, NDArray[Any]]]:
    """The secret and the clear operands of a run, by name.

    Args:
        key_id: of the evaluation keys.
        operands: an `EncryptedOperand` for each secret one, an array for each public one.

    Raises:
        MismatchError: one is missing, unknown, a result, or belongs to another program or key pair.
        ShapeError, DTypeError, RangeError: a clear one is not a finite array of the declared shape.
    """
    declared = program.operands
    missing = [name for name in declared if name not in operands]
    unknown = [name for name in operands if name not in declared]
    if missing or unknown:
        raise MismatchError(
            "The operands are not those of the program.",
            expected=", ".join(declared),
            got=", ".join(operands) or "none",
            advice=given(declared),
        )
    encrypted: dict[str, EncryptedOperand] = {}
    clear: dict[str, NDArray[Any]] = {}
    for name, operand in declared.items():
        value = operands[name]
        if operand.secret:
            if isinstance(value, EncryptedResult):
                raise MismatchError(
                    f"Operand {name!r} is given a result: it lies as its program left it, with that program's error.",
                    expected="EncryptedOperand",
                    got=repr(value),
                    advice=(
                        "cb.compile of one function that computes both",
                        f"client.encrypt({{{name!r}: …}}) of the decrypted result",
                    ),
                    cause="No program is planned for what another one leaves: the form, the limbs and scale, and the "
                    "error of the result differ from those of a fresh encryption.",
                )
            if not isinstance(value, EncryptedOperand):
                hint = "; encrypt returns a dictionary of them" if isinstance(value, Mapping) else ""
                raise DTypeError(
                    f"Operand {name!r} is secret and must come encrypted.",
                    expected=f"EncryptedOperand{hint}",
                    got=type(value).__name__,
                    advice=f"client.encrypt({{{name!r}: …}})[{name!r}] in place of it",
                )
            _check_operand(program, key_id, name, operand, value)
            encrypted[name] = value
        else:
            if operand.fixed_point is not None:
                clear[name] = fixed_numbers(value, name, operand).astype(np.float64)
                continue
            value = clear_array(value, f"operand {name!r}")
            matrix = narrow_array(value, f"operand {name!r}", (len(operand.shape),))
            check_shape(name, matrix.shape, operand.shape)
            operand.check(name, matrix)
            clear[name] = matrix
    return encrypted, clear


def _check_operand(
    program: PlannedProgram, key_id: str, name: str, operand: Operand, value: EncryptedOperand
) -> None:
    check_made_for(value, name, program.owners_of(name))
    check_parameters(f"operand {name!r}", value.parameters, program.plan.parameters)
    if value.key_id != key_id:
        raise MismatchError(
            f"Operand {name!r} and the evaluation keys belong to different key pairs.",
            expected=key_id,
            got=value.key_id,
            advice="the evaluation keys of the client that encrypted it",
        )
    if value.encryption == "public-key" and not operand.public_key:
        raise MismatchError(
            f"Operand {name!r} is planned for the secret key, with a smaller error.",
            expected=operand.encryption,
            got=value.encryption,
            advice='cb.secret(…, encryption="public-key") where it is declared',
        )
    check_shape(name, value.shape, operand.shape)
    inputs = program.inputs_of(name)
    expected = [one.form.parts for one in inputs]
    got = [len(feed) for feed in value.feeds]
    if expected != got:
        raise ShapeError(
            f"Operand {name!r} has another number of ciphertexts than planned.",
            expected=expected,
            got=got,
            advice=AGAIN,
        )
    params = program.plan.parameters
    for one, feed in zip(inputs, value.feeds, strict=True):
        for part, (kind, extent) in zip(feed, one.form.sent(one.basis, params), strict=True):
            if not issubclass(part.kind, kind) or part.extent != extent:
                raise ShapeError(
                    f"A ciphertext of operand {name!r} has the wrong shape.",
                    expected=f"{kind.__name__} {extent}",
                    got=f"{part.kind.__name__} {part.extent}",
                    advice=AGAIN,
                )
