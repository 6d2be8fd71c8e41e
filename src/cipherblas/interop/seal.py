"""Microsoft SEAL at the client's side: SEAL encrypts and decrypts, cipherblas computes.

Programs are compiled with `for_peer="seal"`. Streams are those of SEAL 4, of C++, .NET, JavaScript (node-seal) or
Python; SEAL itself is not needed here. Its transforms have the roots, the order and the components of cipherblas:
words are taken as they are. Its slots lie in another order, of the powers of 3, and half of them are conjugated.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.errors import (
    MismatchError,
    MissingKeyError,
    ParameterError,
    ShapeError,
)
from cipherblas.common.memory import aligned_empty
from cipherblas.crypto.fields import is_prime
from cipherblas.crypto.keys import EvaluationKeys, FreshCiphertext, SecretKey
from cipherblas.crypto.keys.key_id import RELINEARISATION, Galois, KeyId
from cipherblas.crypto.keys.switching import SwitchingKey, key_shape, pack
from cipherblas.crypto.params import Parameters
from cipherblas.interop import seal_streams as streams
from cipherblas.interop.shared import (
    SAVED,
    aligned_words,
    check_decoded,
    check_residues,
    check_result,
    check_streams,
    check_weight,
    checked_program,
    operand_vectors,
    result_values,
    ternary_secret,
)
from cipherblas.interop.slot_vectors import entries_of, from_peer, places_of, to_peer
from cipherblas.lang.results import Arranged
from cipherblas.roles.client_side import ClientSide, secret_operand
from cipherblas.roles.wire.messages import EncryptedOperand, EncryptedResult
from cipherblas.runtime.values import Output

GENERATOR = 3  # of the order of slots
SCALE_TOLERANCE = 2.0**-40  # relative; SEAL encodes at the double that it is given
MONTGOMERY_BITS = 26  # of 52, twice
MAX_BITS = {
    1 << 12: 109,
    1 << 13: 218,
    1 << 14: 438,
    1 << 15: 881,
}  # of all primes at 128 bits, as SEAL has it


def recipe(program: ClientSide) -> dict[str, Any]:
    """The recipe of a program for clients with SEAL, in any language: ready for JSON.

    Returns:
        `poly_modulus_degree`, `coeff_modulus` (the last prime is special), `galois_elements` and `relinearisation`:
        keys that the server needs; `operands`: by name the ciphertexts to encrypt, each with its `scale`, and what its
        slots hold: slot i has the real part `real[i]` and the imaginary part `imag[i]`: 0 for nothing, k for entry
        k - 1 of the operand in row-major order, -k for its negative; `results`: the `scale` of its ciphertexts, which
        streams have too, their `components`, the `shape`, and where each entry lies: `real[e]`, or `imag[e]`, is k, or
        -k for its negative, where it is the part of slot k - 1, counted through all ciphertexts.

    Raises:
        ParameterError: the program was not compiled for SEAL, or SEAL has no ring for it.

    Examples:
        >>> import cipherblas as cb
        >>> operands = {"x": cb.secret(4), "y": cb.secret(4)}
        >>> program = cb.compile(lambda x, y: x * y, operands, for_peer="seal")
        >>> found = cb.interop.seal.recipe(program)
        >>> found["poly_modulus_degree"], found["operands"]["x"][0]["real"][0]
        (4096, 1)
    """
    params = checked_program(program, "seal")
    return {
        "scheme": "ckks",
        "poly_modulus_degree": params.n,
        "coeff_modulus": _coefficient_moduli(params),
        "relinearisation": RELINEARISATION in program.plan.keys.limbs,
        "galois_elements": [one.element for one in program.plan.keys.limbs if isinstance(one, Galois)],
        "operands": {name: _operand_recipe(program, name) for name in _secret(program)},
        "results": [_result_recipe(output) for output in program.outputs],
    }


def vectors(program: ClientSide, name: str, values: Any) -> list[NDArray[np.complex128]]:
    """The vectors of slots to encrypt for an operand, in SEAL's order: at the scales of `recipe`.

    Args:
        name: of the operand.
        values: of its shape, within its bound.

    Raises:
        ParameterError: the program was not compiled for SEAL.
        MismatchError, ShapeError, DTypeError, RangeError: as `Client.encrypt`.
    """
    checked_program(program, "seal")
    return [to_peer(one.slots, GENERATOR) for one in operand_vectors(program, name, values)]


def values(program: ClientSide, decoded: Sequence[Any]) -> Arranged[NDArray[np.float64]]:
    """The values of a result, from the vectors that SEAL decrypted and decoded.

    Args:
        decoded: of each ciphertext of `result`, in their order, complex vectors of N/2 numbers.

    Raises:
        ParameterError: the program was not compiled for SEAL.
        ShapeError: other vectors than the result has ciphertexts.
        RangeError: an entry exceeds the bound of the result: another key decrypted it, or the server did not compute as
            planned.
    """
    checked_program(program, "seal")
    own = iter([from_peer(one, GENERATOR) for one in check_decoded(program, decoded, "seal")])
    # A scale of SEAL is positive.
    signs = [np.sign(output.scale) for output in program.outputs for _ in range(output.form.ciphertexts)]
    return result_values(program, [sign * one for sign, one in zip(signs, own, strict=True)])


def secret_key(program: ClientSide, data: bytes, *, key_id: str = "") -> SecretKey:
    """SEAL's secret key, for `program.client(secret=…)`: to decrypt results, and to make evaluation keys.

    Args:
        data: what `SecretKey.save` of SEAL wrote.
        key_id: the public name of the key pair, of `EvaluationKeys.key_id` where SEAL made these; by default a new one.

    Raises:
        ParameterError: the program was not compiled for SEAL; the secret is not ternary, or sparse.
        DTypeError, FormatError, VersionError: not the bytes of a secret key.
        MismatchError: it is of other parameters.
    """
    params, what = checked_program(program, "seal"), "The secret key of SEAL"
    primes = _coefficient_moduli(params)
    members = streams.Members(data, what, 8 * params.n * len(primes) + streams.SPARE_BYTES)
    found = members.plaintext()
    members.done()
    _check_parms(found.parms_id, params.n, primes, what)
    words = aligned_words(found.words.reshape(len(primes), params.n))
    coefficients = ternary_secret(params.n, primes, words, what)
    try:
        check_weight(coefficients)
        return SecretKey.of_coefficients(params, coefficients, program.id, key_id)
    finally:
        coefficients.fill(0)
        words.fill(0)


def evaluation_keys(
    program: ClientSide,
    *,
    relinearisation: bytes | None = None,
    galois: bytes | None = None,
    key_id: str = "",
) -> EvaluationKeys:
    """The evaluation keys that SEAL made, for `program.server`: those that the program needs, of `recipe`.

    They serve as they are. They hold no seeds, so that `save` refuses them: keep SEAL's streams.

    Args:
        relinearisation: what `RelinKeys.save` of SEAL wrote, of `create_relin_keys(destination)`.
        galois: what `GaloisKeys.save` wrote, of `create_galois_keys(elements, destination)`.
        key_id: the public name of the key pair; by default one that follows from these streams.

    Raises:
        ParameterError: the program was not compiled for SEAL.
        MissingKeyError: a key that the program needs is in none of the streams.
        DTypeError, FormatError, VersionError, RangeError: not the bytes of such keys.
        MismatchError: they are of other parameters.
    """
    params, wanted = checked_program(program, "seal"), program.plan.keys.limbs
    numbers = {one: (one.element - 1) // 2 if isinstance(one, Galois) else 0 for one in wanted}
    given: dict[str, tuple[bytes | None, list[KeyId]]] = {
        "relinearisation key": (relinearisation, [one for one in wanted if one == RELINEARISATION]),
        "Galois keys": (galois, [one for one in wanted if isinstance(one, Galois)]),
    }
    keys, hasher = [], hashlib.blake2b(program.id.encode(), digest_size=16, person=b"seal-keys")
    for what, (data, names) in given.items():
        found = _keys_of(params, data, f"The {what} of SEAL", [numbers[one] for one in names])
        missing = [one for one in names if numbers[one] not in found]
        if missing:
            raise MissingKeyError(
                f"The {what} that the program needs are not all there.",
                expected=", ".join(one.describe(params.n) for one in missing[:8]),
                got="none" if data is None else f"{len(names) - len(missing)} of {len(names)}",
                advice=(
                    "create_relin_keys(destination), and create_galois_keys(elements, destination), of the elements of "
                    "cb.interop.seal.recipe(program)",
                    "program.client(secret=cb.interop.seal.secret_key(program, data)).evaluation_keys(), by the owner",
                ),
            )
        for one in names:
            keys.append(_switching_key(params, one, wanted[one], found[numbers[one]]))
            hasher.update(keys[-1].seed)
    name = key_id or (hasher.hexdigest() if keys else os.urandom(16).hex())
    return EvaluationKeys(params, program.id, keys, name)


def operand(
    program: ClientSide, name: str, ciphertexts: Sequence[bytes], keys: EvaluationKeys | SecretKey
) -> EncryptedOperand:
    """An operand that SEAL encrypted, for `Server.run`.

    Args:
        name: of the operand.
        ciphertexts: what `Ciphertext.save` of SEAL wrote, in the order of `vectors`, encrypted with a public key. More
            limbs than are needed are dropped.
        keys: of the same key pair. That they are is not seen: results of others are noise.

    Raises:
        ParameterError: the program was not compiled for SEAL.
        ShapeError: another number of ciphertexts, of components or of limbs.
        DTypeError, FormatError, VersionError, RangeError: not the bytes of ciphertexts.
        MismatchError: they are of other parameters or at other scales, or the program has no such operand.
    """
    params, declared = checked_program(program, "seal"), secret_operand(program, name)
    inputs = program.inputs_of(name)
    counts = [one.form.ciphertexts for one in inputs]
    check_streams(ciphertexts, sum(counts), name, "seal")
    given, feeds = iter(ciphertexts), []
    for one, count in zip(inputs, counts, strict=True):
        scale = float(one.encoding_scale)
        feeds.append(
            tuple(_fresh(params, data, name, one.limbs, scale) for data in itertools.islice(given, count))
        )
    return EncryptedOperand(program.id, name, declared.shape, params, tuple(feeds), keys.key_id)


def result(program: ClientSide, computed: EncryptedResult) -> list[bytes]:
    """The ciphertexts of a result as streams for `Ciphertext.load` of SEAL; `values` takes the decoded vectors.

    Raises:
        ParameterError: the program was not compiled for SEAL. DTypeError: not a result.
        MismatchError, ShapeError: the result belongs to another program.
    """
    params = checked_program(program, "seal")
    check_result(program, computed)
    found = []
    for output, arrays in zip(program.outputs, computed.each, strict=True):
        found += [streams.stream_of(params.n, params.q, abs(float(output.scale)), array) for array in arrays]
    return found


# ---- parts of these ----


def _secret(program: ClientSide) -> list[str]:
    return [name for name, one in program.operands.items() if one.secret]


def _coefficient_moduli(params: Parameters) -> list[int]:
    """The primes of SEAL's parameters, the last one special: where no key is needed, the smallest that there is."""
    primes = [*params.q, *params.p]
    if not params.p:
        step = 2 * params.n
        primes.append(
            next(one for one in itertools.count(step + 1, step) if is_prime(one) and one not in primes)
        )
    bits, most = math.prod(primes).bit_length(), MAX_BITS.get(params.n)
    if params.security and (most is None or bits > most):
        raise ParameterError(
            "SEAL has no such ring at 128 bits.",
            expected=f"up to {most} bits at N = {params.n}" if most else "N up to 32768",
            got=f"{bits} bits at N = {params.n}",
            advice=f"ring_degree={2 * params.n} in cb.compile",
        )
    return primes


def _operand_recipe(program: ClientSide, name: str) -> list[dict[str, Any]]:
    shape = program.operands[name].shape
    return [
        {
            "scale": float(one.encoding_scale),
            "limbs": one.limbs,
            **{part: _integers(found) for part, found in _parts(slots).items() if found.any()},
        }
        for one in program.inputs_of(name)
        for slots in entries_of(program, one, shape)
    ]


def _parts(slots: NDArray[np.complex128]) -> dict[str, NDArray[np.float64]]:
    found = to_peer(slots, GENERATOR)
    return {"real": found.real, "imag": found.imag}


def _result_recipe(output: Output) -> dict[str, Any]:
    places = places_of(output, lambda slots: from_peer(slots, GENERATOR))
    sign = np.sign(output.scale)
    return {
        "shape": list(output.shape),
        "ciphertexts": output.form.ciphertexts,
        "components": output.components,
        "scale": abs(float(output.scale)),
        **{part: _integers(sign * found) for part, found in places.items() if found.any()},
    }


def _integers(found: NDArray[np.float64]) -> list[int]:
    return [int(one) for one in np.rint(found).reshape(-1)]


def _check_parms(name: bytes, n: int, primes: Sequence[int], what: str) -> None:
    expected = streams.parms_id_of(n, primes)
    if name != expected:
        raise MismatchError(
            f"{what} is of other parameters.",
            expected=expected.hex()[:16],
            got=name.hex()[:16],
            advice="poly_modulus_degree and coeff_modulus of cb.interop.seal.recipe(program)",
        )


def _keys_of(
    params: Parameters, data: bytes | None, what: str, numbers: Sequence[int]
) -> Mapping[int, list[streams.SealCiphertext]]:
    if data is None or not numbers:
        return {}
    primes = [*params.q, *params.p]
    each = params.limbs * (streams.ciphertext_bytes(params.n, len(primes), 2))
    members = streams.Members(data, what, params.n * each)
    name, found = members.switching_keys(numbers)
    members.done()
    _check_parms(name, params.n, primes, what)
    return found


def _switching_key(
    params: Parameters, name: KeyId, limbs: int, digits: Sequence[streams.SealCiphertext]
) -> SwitchingKey:
    """A key for so many limbs, of one for all: its digits and primes are among those."""
    primes, what = [*params.q, *params.p], f"The key for {name.describe(params.n)}"
    if len(digits) != params.limbs:
        raise ShapeError(
            f"{what} has another number of digits.",
            expected=params.limbs,
            got=len(digits),
            advice=SAVED.format("SEAL"),
        )
    kept = [*range(limbs), *range(params.limbs, len(primes))]
    own = [primes[one] for one in kept]
    context = _core.Context(params.n, own, [], 1)
    data = aligned_empty(key_shape(params, limbs))
    hasher = hashlib.blake2b(digest_size=32, person=b"seal-key")
    for number, digit in enumerate(digits):
        if digit.words.shape != (2, len(primes), params.n):
            raise ShapeError(
                f"{what} has the wrong shape.",
                expected=(2, len(primes), params.n),
                got=digit.words.shape,
                advice=SAVED.format("SEAL"),
            )
        _check_parms(digit.parms_id, params.n, primes, what)
        check_residues(digit.words, primes, what)
        if number >= limbs:
            continue
        words = aligned_words(digit.words[:, kept])
        for _ in range(2):  # to Montgomery form
            words = np.asarray(context.multiply_scalar(words, 1 << MONTGOMERY_BITS))
        hasher.update(words.tobytes())
        data[number] = pack(params, words)
    return SwitchingKey(name, limbs, hasher.digest(), data, seeded=False)


def _fresh(params: Parameters, data: bytes, name: str, limbs: int, scale: float) -> FreshCiphertext:
    what = f"A ciphertext of operand {name!r}"
    found = streams.ciphertext_of(data, what, params.n, params.limbs)
    components, got, n = found.words.shape
    if components != 2 or n != params.n or not limbs <= got <= params.limbs:
        raise ShapeError(
            f"{what} has the wrong shape.",
            expected=f"2 components, {limbs} primes or more, N = {params.n}",
            got=f"{components} components, {got} primes, N = {n}",
            advice="a ciphertext as SEAL's Encryptor makes it, of the parameters of cb.interop.seal.recipe(program)",
        )
    _check_parms(found.parms_id, params.n, params.q[:got], what)
    if abs(found.scale / scale - 1) > SCALE_TOLERANCE:
        raise MismatchError(
            f"{what} has another scale.",
            expected=repr(scale),
            got=repr(found.scale),
            advice="the scale of cb.interop.seal.recipe(program), of this very ciphertext",
        )
    check_residues(found.words, params.q[:got], what)
    return FreshCiphertext(params, limbs, None, aligned_words(found.words[:, :limbs]))
