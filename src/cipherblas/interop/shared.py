"""Checks and conversions that the bridges to all other libraries share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.arrays import finite_array
from cipherblas.common.errors import DTypeError, MismatchError, ParameterError, RangeError, ShapeError
from cipherblas.common.memory import Array, aligned_empty
from cipherblas.crypto.params import Parameters
from cipherblas.interop.slot_vectors import OneVector, Vector, opened, vectors_of
from cipherblas.lang.results import Arranged
from cipherblas.roles.client_side import ClientSide, secret_operand
from cipherblas.roles.wire.messages import EncryptedResult, check_shape, short_id

SAVED = "the bytes that {} wrote"


def checked_program(program: ClientSide, peer: str) -> Parameters:
    """The parameters of a program that was compiled for a peer.

    Raises:
        ParameterError: it was not. DTypeError: not a program.
    """
    given: object = program
    if not isinstance(given, ClientSide):
        raise DTypeError(
            "This is for a program.", got=type(given).__name__, advice=f'cb.compile(…, for_peer="{peer}")'
        )
    if program.plan.for_peer != peer:
        raise ParameterError(
            f"The program was not compiled for clients with {peer}.",
            expected=peer,
            got=repr(program.plan.for_peer),
            advice=f'cb.compile(…, for_peer="{peer}")',
        )
    return program.plan.parameters


def operand_vectors(program: ClientSide, name: str, values: Any) -> list[OneVector]:
    """The vectors of slots of an operand, in cipherblas' order; errors as `Client.encrypt`."""
    declared = secret_operand(program, name)
    matrix = finite_array(values, f"operand {name!r}", (len(declared.shape),))
    check_shape(name, matrix.shape, declared.shape)
    matrix = declared.normalised(matrix)
    declared.check(name, matrix)
    params = program.plan.parameters
    return [one for each in program.inputs_of(name) for one in vectors_of(params, each, matrix)]


def check_decoded(program: ClientSide, decoded: Sequence[Any], peer: str) -> list[NDArray[Any]]:
    """The decoded vectors of all results; ShapeError where they are others."""
    given = [np.asarray(one) for one in decoded]
    slots, count = program.plan.parameters.slots, sum(one.form.ciphertexts for one in program.outputs)
    if [one.shape for one in given] != [(slots,)] * count:
        raise ShapeError(
            "The vectors are not those of the ciphertexts of the result.",
            expected=f"{count} vectors of {slots} numbers",
            got=[one.shape for one in given][:4],
            advice=f"a vector for each stream that cb.interop.{peer}.result gave, in their order",
        )
    return given


def result_values(program: ClientSide, own: Sequence[Vector]) -> Arranged[NDArray[np.float64]]:
    """The values of a result from its vectors of slots, in cipherblas' order.

    Raises:
        RangeError: an entry exceeds the bound of the result.
    """
    found, start = [], 0
    for output, node, figures in zip(program.outputs, program.results, program.plan.results, strict=True):
        count = output.form.ciphertexts
        value = opened(output, own[start : start + count]).reshape(node.shape)
        limit = node.bound + figures.error
        if not (np.abs(value) <= limit).all():
            raise RangeError(
                "The result has an entry beyond its bound: another key decrypted it, or it was not computed so.",
                expected=f"at most {limit:g} in absolute value",
                advice="the decoded vectors of the key that encrypted the operands",
            )
        found.append(value)
        start += count
    return program.arranged(found)


def check_streams(streams: Any, count: int, name: str, peer: str) -> None:
    """Raise unless these are so many streams of ciphertexts."""
    advice = f"one for each of cb.interop.{peer}.vectors(program, {name!r}, …)"
    if isinstance(streams, (bytes, bytearray, memoryview)) or not isinstance(streams, Sequence):
        raise DTypeError(
            "The ciphertexts of an operand come as a list of bytes.",
            expected="[bytes, …]",
            got=type(streams).__name__,
            advice=advice,
        )
    if len(streams) != count:
        raise ShapeError(
            f"Operand {name!r} has another number of ciphertexts than planned.",
            expected=count,
            got=len(streams),
            advice=advice,
        )


def check_result(program: ClientSide, computed: EncryptedResult) -> None:
    """Raise unless this is a result of the program, as it was planned."""
    given: object = computed
    if not isinstance(given, EncryptedResult):
        raise DTypeError(
            "A result is what a server computed.",
            expected="EncryptedResult",
            got=type(given).__name__,
            advice="server.run(operands)",
        )
    if computed.program_id != program.id:
        raise MismatchError(
            "The result belongs to another program.",
            expected=short_id(program.id),
            got=short_id(computed.program_id),
            advice="the program that the server ran",
        )
    for output, arrays in zip(program.outputs, computed.each, strict=True):
        output.check(arrays)


def aligned_words(words: Array) -> Array:
    found = aligned_empty(words.shape)
    found[...] = words
    return found


def check_residues(words: Array, primes: Sequence[int], what: str) -> None:
    largest = words.max(axis=(0, 2))
    if (largest >= np.array(primes, np.uint64)).any():
        raise RangeError(
            f"{what} has a residue that is not below its prime.",
            expected=f"below {min(primes)} and others",
            got=int(largest.max()),
            advice=SAVED.format("the other library"),
        )


def ternary_secret(n: int, primes: Sequence[int], words: Array, what: str) -> Array:
    """The coefficients of a secret in NTT form at all primes."""
    context = _core.Context(n, list(primes), [], 1)
    check_residues(words[None], primes, what)
    rows = np.asarray(context.rows_from_ntt(words[None]))[:, 0]
    centred = [
        np.where(row > prime // 2, row.view(np.int64) - prime, row.view(np.int64))
        for row, prime in zip(rows, primes, strict=True)
    ]
    first: Array = centred[0].astype(np.int64)
    if np.abs(first).max() > 1 or any((one != first).any() for one in centred):
        raise ParameterError(
            f"{what} is not ternary.",
            expected="coefficients -1, 0 and 1",
            got="others",
            advice=SAVED.format("the other library"),
        )
    return first


def check_weight(coefficients: Array) -> None:
    """The security table is of uniform ternary secrets: refuse what no such draw gives."""
    n, weight = len(coefficients), int(np.count_nonzero(coefficients))
    if abs(weight - 2 * n / 3) > 9 * math.sqrt(2 * n / 9):  # with a probability below 2^-60
        raise ParameterError(
            "The secret is not uniformly ternary: the security table does not hold for it.",
            expected=f"about {2 * n // 3} coefficients that are not 0",
            got=weight,
            advice="a secret key of uniform ternary coefficients",
        )
