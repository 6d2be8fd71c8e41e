"""OpenFHE at the client's side: OpenFHE encrypts and decrypts, cipherblas computes.

OpenFHE makes its primes itself: programs are compiled with `for_peer="openfhe"` and the parameters that `parameters`
reads from its context. Streams are those that its `Serialize` writes as JSON (`SERJSON`). Roots, order, components and
slots are those of cipherblas, so that words are taken as they are. Its special primes have 60 bits, more than ours may:
evaluation keys are made from its secret key.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import (
    DTypeError,
    FormatError,
    MismatchError,
    ParameterError,
    ShapeError,
)
from cipherblas.common.memory import Array
from cipherblas.crypto.fields import MAX_PRIME_BITS, is_prime
from cipherblas.crypto.keys import FreshCiphertext, SecretKey
from cipherblas.crypto.params import Parameters
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
from cipherblas.lang.results import Arranged
from cipherblas.roles.client_side import ClientSide, secret_operand
from cipherblas.roles.wire.messages import EncryptedOperand, EncryptedResult
from cipherblas.runtime.values import Output

PEER = "openfhe"
MARGIN_BITS = 2.9  # of the special prime above the others
DIGITS, SPARE_BYTES = 80, 1 << 16  # of a word in JSON with its indent, and of a stream beside its words
MAX_LIMBS, MAX_DEGREE = 64, 1 << 17
FIRST, NEW = 1 << 31, "ptr_wrapper"  # of cereal: an object that follows, and what holds its number
TAG = re.compile(r"[0-9a-f]{1,64}")
SERIALIZED = SAVED.format("Serialize(…, SERJSON)")


def parameters(context: bytes, *, security: int = 128, insecure: bool = False) -> Parameters:
    """The parameters of OpenFHE's context, for `cb.compile(…, for_peer="openfhe", parameters=…)`.

    Args:
        context: what `Serialize(context, SERJSON)` wrote, of CKKS with `FIXEDMANUAL` scaling.
        security: bits that they must have, of the primes and a special one of ours, by our table.
        insecure: accept less.

    Raises:
        DTypeError, FormatError: not the JSON of a context.
        ParameterError: a prime of 2^50 or more. SecurityError: less security.
    """
    built = _at(
        _parsed(context, "The context", MAX_DEGREE),
        "value0",
        NEW,
        "data",
        "cc",
        NEW,
        "data",
        "value0",
        "value0",
    )
    ring = _at(built, "value0", "elp", NEW, "data")
    towers = _list(_at(ring, "p"), MAX_LIMBS)
    primes = [_integer(_at(one, NEW, "data", "value0", "cm", "v"), 2, 1 << 60) for one in towers]
    n = _integer(_at(ring, "value0", "rd"), 2, MAX_DEGREE)
    bits = _integer(_at(built, "value0", "enp", NEW, "data", "m"), 1, 60)
    if max(primes) >> MAX_PRIME_BITS:
        raise ParameterError(
            "OpenFHE's primes are too large.",
            expected=f"up to {MAX_PRIME_BITS} bits",
            got=f"{max(primes).bit_length()} bits",
            advice=f"SetFirstModSize({MAX_PRIME_BITS - 1}) and SetScalingModSize({MAX_PRIME_BITS - 5}), or less",
        )
    most = min(2.0**MAX_PRIME_BITS, max(primes) * 2**MARGIN_BITS)
    tried = range((int(most) - 2) // (2 * n) * 2 * n + 1, 1, -2 * n)
    special = next(one for one in tried if one not in primes and is_prime(one))
    return Parameters(
        n=n,
        q=tuple(primes),
        p=(special,),
        alpha=1,
        scale_bits=float(bits),
        security=security,
        insecure=insecure,
    )


def vectors(program: ClientSide, name: str, values: Any) -> list[NDArray[np.complex128]]:
    """The vectors of slots to encrypt for an operand: by `MakeCKKSPackedPlaintext` with `SetCKKSDataType(COMPLEX)`.

    Args:
        name: of the operand.
        values: of its shape, within its bound.

    Raises:
        ParameterError: the program was not compiled for OpenFHE.
        MismatchError, ShapeError, DTypeError, RangeError: as `Client.encrypt`.
    """
    scale = _scale(checked_program(program, PEER))
    return [one.slots * (one.scale / scale) for one in operand_vectors(program, name, values)]


def values(program: ClientSide, decoded: Sequence[Any]) -> Arranged[NDArray[np.float64]]:
    """The values of a result, from the vectors that OpenFHE decrypted (`GetCKKSPackedValue`).

    Args:
        decoded: of each ciphertext of `result`, in their order, vectors of N/2 complex numbers.

    Raises:
        ParameterError: the program was not compiled for OpenFHE.
        ShapeError: other vectors than the result has ciphertexts.
        RangeError: an entry exceeds the bound of the result: another key decrypted it, or the server did not compute as
            planned.
    """
    params = checked_program(program, PEER)
    factors = [
        _power(params, one)[1] / one.scale for one in program.outputs for _ in range(one.form.ciphertexts)
    ]
    given = check_decoded(program, decoded, PEER)
    own = [np.asarray(one * factor, np.complex128) for one, factor in zip(given, factors, strict=True)]
    return result_values(program, own)


def secret_key(program: ClientSide, data: bytes) -> SecretKey:
    """OpenFHE's secret key, for `program.client(secret=…)`: to make evaluation keys, and to decrypt. Its key tag is the
    name of the key pair, which ciphertexts have too.

    Args:
        data: what `Serialize(secretKey, SERJSON)` wrote.

    Raises:
        ParameterError: the program was not compiled for OpenFHE; the secret is not ternary, or sparse.
        DTypeError, FormatError: not the JSON of a secret key.
        MismatchError, ShapeError, RangeError: it is of other parameters.
    """
    params, what = checked_program(program, PEER), "The secret key of OpenFHE"
    held = _at(_parsed(data, what, params.n * params.limbs), "value0", NEW, "data")
    limbs = _limbs(params, _at(held, "s"), what)
    if len(limbs) != params.limbs:
        raise ShapeError(
            f"{what} has another number of primes.", expected=params.limbs, got=len(limbs), advice=SERIALIZED
        )
    coefficients = ternary_secret(params.n, params.q, aligned_words(limbs), what)
    try:
        check_weight(coefficients)
        return SecretKey.of_coefficients(
            params, coefficients, program.id, _tag(_at(held, "value0", "value0"))
        )
    finally:
        coefficients.fill(0)
        limbs.fill(0)


def operand(program: ClientSide, name: str, ciphertexts: Sequence[bytes]) -> EncryptedOperand:
    """An operand that OpenFHE encrypted, for `Server.run`.

    Args:
        name: of the operand.
        ciphertexts: what `Serialize(ciphertext, SERJSON)` wrote, in the order of `vectors`, by a public key.

    Raises:
        ParameterError: the program was not compiled for OpenFHE.
        ShapeError: another number of ciphertexts, of components or of limbs.
        DTypeError, FormatError, RangeError: not the JSON of ciphertexts.
        MismatchError: they are of other parameters, at other scales or of several key pairs; no such operand.
    """
    params, declared = checked_program(program, PEER), secret_operand(program, name)
    inputs = program.inputs_of(name)
    counts = [one.form.ciphertexts for one in inputs]
    check_streams(ciphertexts, sum(counts), name, PEER)
    read = [_ciphertext(params, data, f"A ciphertext of operand {name!r}") for data in ciphertexts]
    tags = sorted({one.tag for one in read})
    if len(tags) > 1:
        raise MismatchError(
            f"The ciphertexts of operand {name!r} belong to several key pairs.",
            expected=tags[0],
            got=tags[1],
            advice="all of them encrypted with one public key",
        )
    given, feeds = iter(read), []
    for one, count in zip(inputs, counts, strict=True):
        feeds.append(tuple(_fresh(params, each, name, one.limbs) for each in itertools.islice(given, count)))
    return EncryptedOperand(program.id, name, declared.shape, params, tuple(feeds), tags[0])


def result(program: ClientSide, computed: EncryptedResult, like: bytes) -> list[bytes]:
    """The ciphertexts of a result as JSON for `DeserializeCiphertextString(…, SERJSON)` of OpenFHE.

    Args:
        like: a ciphertext that the client sent: what OpenFHE writes beside words, its context, is taken from it.

    Raises:
        ParameterError: the program was not compiled for OpenFHE. DTypeError, FormatError: no result, no ciphertext.
        MismatchError, ShapeError: the result belongs to another program or key pair; three components.
    """
    params = checked_program(program, PEER)
    check_result(program, computed)
    found = _ciphertext(params, like, "The ciphertext of the client")
    if found.tag != computed.key_id:
        raise MismatchError(
            "The result belongs to another key pair than the ciphertext.",
            expected=computed.key_id,
            got=found.tag,
            advice="a ciphertext of one of its operands",
        )
    streams = []
    for output, arrays in zip(program.outputs, computed.each, strict=True):
        degree, scale = _power(params, output)
        streams += [_written(found.whole, array, degree, scale).encode() for array in arrays]
    return streams


# ---- parts of these ----


class Ciphertext(NamedTuple):
    """A ciphertext of OpenFHE: words (components, limbs, N), the tag of its key, and all of its JSON."""

    words: Array
    tag: str
    whole: dict[str, Any]


def _scale(params: Parameters) -> float:
    return float(2.0**params.scale_bits)


def _power(params: Parameters, output: Output) -> tuple[int, float]:
    """The degree of the scale that OpenFHE takes a result to have, and that scale: the nearest power."""
    degree = max(1, round(math.log2(abs(output.scale)) / params.scale_bits))
    return degree, float(2.0 ** (params.scale_bits * degree))


def _parsed(data: Any, what: str, words: int) -> Any:
    if not isinstance(data, (bytes, bytearray)):
        raise DTypeError(
            f"{what} comes as bytes.",
            expected="bytes",
            got=type(data).__name__,
            advice=f"{SERIALIZED}, encoded",
        )
    if len(data) > DIGITS * words + SPARE_BYTES:
        raise _damaged(what, expected=f"at most {DIGITS * words + SPARE_BYTES} bytes", got=len(data))
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged(what, got=str(error)[:80]) from error


def _damaged(what: str, **parts: Any) -> FormatError:
    return FormatError(f"{what} is no JSON of OpenFHE, or damaged.", advice=SERIALIZED, **parts)


def _at(value: Any, *names: str) -> Any:
    for name in names:
        if not isinstance(value, dict) or name not in value:
            raise _damaged("The stream", expected=f"a field {name!r}", got="none")
        value = value[name]
    return value


def _list(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise _damaged("The stream", expected=f"a list of up to {most}", got=type(value).__name__)
    return value


def _integer(value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise _damaged("The stream", expected=f"an integer from {least} to {most}", got=str(value)[:40])
    return value


def _tag(value: Any) -> str:
    found = _at(value, "kt")
    if not isinstance(found, str) or not TAG.fullmatch(found):
        raise _damaged("The stream", expected="a key tag", got=str(found)[:40])
    return found


def _limbs(params: Parameters, polynomial: Any, what: str) -> Array:
    """The words (limbs, N) of a polynomial in NTT form."""
    if _integer(_at(polynomial, "f"), 0, 1) != 0:
        raise MismatchError(f"{what} is not in NTT form.", expected="0", got="1", advice=SERIALIZED)
    rows = []
    for index, one in enumerate(_list(_at(polynomial, "v"), params.limbs)):
        held = _at(one, "v", NEW, "data")
        prime = _integer(_at(held, "m", "v"), 2, 1 << 60)
        if prime != params.q[index]:
            raise MismatchError(
                f"{what} is of other parameters.",
                expected=params.q[index],
                got=prime,
                advice='parameters=cb.interop.openfhe.parameters(context) in cb.compile(…, for_peer="openfhe")',
            )
        words = _list(_at(held, "v"), params.n)
        if len(words) != params.n or any(type(word) is not int or not 0 <= word < 1 << 64 for word in words):
            raise _damaged(what, expected=f"{params.n} words", got=len(words))
        rows.append(np.array(words, np.uint64))
    found = np.stack(rows)
    check_residues(found[None], params.q[: len(found)], what)
    return found


def _ciphertext(params: Parameters, data: bytes, what: str) -> Ciphertext:
    whole = _parsed(data, what, 3 * params.n * params.limbs)
    held = _at(whole, "value0", NEW, "data")
    polynomials = [_limbs(params, one, what) for one in _list(_at(held, "v"), 3)]
    if len(polynomials) != 2 or len({one.shape for one in polynomials}) != 1:
        raise ShapeError(
            f"{what} has the wrong shape.", expected="2 components", got=len(polynomials), advice=SERIALIZED
        )
    scale, degree = _at(held, "s"), _integer(_at(held, "d"), 1, 1 << 10)
    if degree != 1 or scale != _scale(params):
        raise MismatchError(
            f"{what} has another scale.",
            expected=_scale(params),
            got=str(scale)[:40],
            advice="FIXEDMANUAL scaling, and a ciphertext as Encrypt made it",
        )
    return Ciphertext(np.stack(polynomials), _tag(_at(held, "value0")), whole)


def _fresh(params: Parameters, given: Ciphertext, name: str, limbs: int) -> FreshCiphertext:
    if given.words.shape[1] < limbs:
        raise ShapeError(
            f"A ciphertext of operand {name!r} has the wrong shape.",
            expected=f"{limbs} primes or more",
            got=given.words.shape[1],
            advice="a ciphertext as Encrypt made it, at level 0",
        )
    return FreshCiphertext(params, limbs, None, aligned_words(given.words[:, :limbs]))


def _written(whole: dict[str, Any], words: Array, degree: int, scale: float) -> str:
    """The JSON of a ciphertext, like that of another one of all limbs."""
    components, limbs, n = words.shape
    found = copy.deepcopy(whole)
    held = found["value0"][NEW]["data"]
    if components != len(held["v"]):
        raise ShapeError(
            "The result has other components than ciphertexts of OpenFHE here.",
            expected=len(held["v"]),
            got=components,
            advice='algorithm=…, or a sum after the last product, in cb.compile(…, for_peer="openfhe")',
        )
    full = len(held["v"][0]["v"])
    if limbs > full:
        raise ShapeError(
            "The result has more limbs than the ciphertext of the client.",
            expected=f"{limbs} or more",
            got=full,
            advice="a ciphertext as Encrypt made it, at level 0",
        )
    if limbs < full:
        _shorten(held, limbs, n)
    for polynomial, rows in zip(held["v"], words.tolist(), strict=True):
        for one, row in zip(polynomial["v"], rows, strict=True):
            one["v"][NEW]["data"]["v"] = row
    held["d"], held["s"], held["l"] = degree, scale, full - limbs
    return json.dumps(found)


def _shorten(held: dict[str, Any], limbs: int, n: int) -> None:
    """Cut the polynomials to their first limbs: the ring of these is an object of its own, which the first one has."""
    number = 1 + max(_numbers(held))
    first = held["v"][0]
    primes = [one["v"][NEW]["data"]["m"]["v"] for one in first["v"][:limbs]]
    product, none = math.prod(primes), {"v": [0], "m": 0}
    words = [product >> shift & (1 << 64) - 1 for shift in range(0, product.bit_length(), 64)]
    ring = {"co": 2 * n, "rd": n, "cm": {"v": words, "m": product.bit_length()}}
    data = {
        "value0": {**ring, "ru": none, "bm": none, "br": none},
        "p": [one["p"] for one in first["v"][:limbs]],
    }
    for polynomial in held["v"]:
        polynomial["v"] = polynomial["v"][:limbs]
        polynomial["p"] = {**polynomial["p"], NEW: {"id": number}}
    first["p"][NEW] = {"id": FIRST + number, "data": data}


def _numbers(value: Any) -> list[int]:
    """The numbers of all objects of cereal."""
    if isinstance(value, list):
        return [number for one in value if isinstance(one, (dict, list)) for number in _numbers(one)]
    found = [value["id"] % FIRST] if isinstance(value.get("id"), int) else []
    return found + [
        number for one in value.values() if isinstance(one, (dict, list)) for number in _numbers(one)
    ]
