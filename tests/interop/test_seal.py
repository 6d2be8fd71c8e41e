"""SEAL at the client's side: its streams by known answers, and round trips with its wheel where that is there."""

from __future__ import annotations

import importlib.util
import io
import json
import struct
import sys
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.interop import seal_streams
from tests.support.scripts import script

S = cb.secret
SEAL = cb.interop.seal
ANSWERS = Path(__file__).resolve().parent / "answers" / "seal"
needs_seal = pytest.mark.skipif(
    importlib.util.find_spec("seal") is None, reason="seal-python is not installed"
)

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")


def answer(name: str) -> bytes:
    return (ANSWERS / name).read_bytes()


@pytest.fixture(scope="module")
def program() -> cb.Program:
    return cb.Program.from_bytes(answer("program"), insecure=True)


@pytest.fixture(scope="module")
def clear() -> dict[str, Any]:
    return {name: np.array(one) for name, one in json.loads(answer("values.json")).items()}


def test_known_answers(program: cb.Program, clear: dict[str, Any]) -> None:
    """Ciphertexts, relinearisation key and secret key of SEAL, and the stream of the result."""
    keys = SEAL.evaluation_keys(program, relinearisation=answer("relin-keys"))
    operands = {name: SEAL.operand(program, name, [answer(f"{name}-0")], keys) for name in clear}
    computed = program.server(keys).run(operands)
    client = program.client(secret=SEAL.secret_key(program, answer("secret-key"), key_id=keys.key_id))
    expected = clear["a"] ** 2 * clear["b"]
    np.testing.assert_allclose(
        client.decrypt(computed, of=operands), expected, rtol=0, atol=program.plan.error
    )
    (stream,) = SEAL.result(program, computed)
    found = seal_streams.ciphertext_of(stream, "A result", program.plan.parameters.n, 3)
    np.testing.assert_array_equal(found.words, computed.ciphertexts[0])
    assert found.scale == program.outputs[0].scale
    assert found.parms_id == seal_streams.parms_id_of(64, program.plan.parameters.q[: found.words.shape[1]])


def test_a_stream_is_written_as_seal_writes_it(program: cb.Program) -> None:
    stream, params = answer("a-0"), program.plan.parameters
    found = seal_streams.ciphertext_of(stream, "A ciphertext", params.n, params.limbs)
    again = seal_streams.stream_of(params.n, params.q, found.scale, found.words)
    assert len(again) == len(stream)
    assert [at for at in range(len(stream)) if again[at] != stream[at]] == [4, 93]  # the minor version, twice


def packed(content: bytes, how: int) -> bytes:
    """A compressed stream."""
    return answer("a-0")[:5] + bytes([how, 0, 0]) + struct.pack("<Q", 16 + len(content)) + content


def test_compressed_streams(program: cb.Program) -> None:
    stream = answer("a-0")
    keys = SEAL.evaluation_keys(program, relinearisation=answer("relin-keys"))
    expected = SEAL.operand(program, "a", [stream], keys)

    found = SEAL.operand(program, "a", [packed(zlib.compress(stream[16:]), 1)], keys)
    assert found.digest == expected.digest
    with pytest.raises(cb.FormatError, match="at most"):  # a bomb
        SEAL.operand(program, "a", [packed(zlib.compress(bytes(1 << 24)), 1)], keys)
    with pytest.raises(cb.FormatError, match="zlib"):
        SEAL.operand(program, "a", [packed(b"no zlib", 1)], keys)
    with pytest.raises(cb.FormatError, match="zstd"):
        SEAL.operand(program, "a", [packed(b"no zstd", 2)], keys)
    with pytest.raises(cb.FormatError, match="unknown way"):
        SEAL.operand(program, "a", [packed(b"", 3)], keys)


def test_streams_of_zstd(program: cb.Program) -> None:
    zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    stream, keys = answer("a-0"), SEAL.evaluation_keys(program, relinearisation=answer("relin-keys"))
    expected = SEAL.operand(program, "a", [stream], keys)
    assert SEAL.operand(program, "a", [packed(zstd.compress(stream[16:]), 2)], keys).digest == expected.digest


@pytest.mark.parametrize("name", ["a-0", "secret-key", "relin-keys"])
def test_damaged_streams_are_refused(program: cb.Program, name: str) -> None:
    """Truncated anywhere, or with any byte of their members changed: an error of ours, or the same words."""
    keys = SEAL.evaluation_keys(program, relinearisation=answer("relin-keys"))
    reads: dict[str, Callable[[bytes], Any]] = {
        "a-0": lambda data: SEAL.operand(program, "a", [data], keys),
        "secret-key": lambda data: SEAL.secret_key(program, data),
        "relin-keys": lambda data: SEAL.evaluation_keys(program, relinearisation=data),
    }
    read, whole = reads[name], answer(name)
    for length in (0, 1, 15, 16, 40, 100, 130, len(whole) - 8, len(whole) - 1):
        with pytest.raises(cb.FormatError):
            read(whole[:length])
    with pytest.raises(cb.FormatError):
        read(whole + b"\0")
    random = np.random.default_rng(1)
    for at in [*range(140), *random.integers(140, len(whole), 200)]:
        changed = bytearray(whole)
        changed[at] ^= 1 << int(random.integers(8))
        try:
            read(bytes(changed))
        except cb.CipherblasError:
            continue
        except ValueError as error:  # no other kind
            raise AssertionError(f"byte {at}") from error
    with pytest.raises(cb.DTypeError):
        read("a path")  # type: ignore[arg-type]


def test_foreign_parameters_and_scales_are_refused(program: cb.Program, clear: dict[str, Any]) -> None:
    params, keys = (
        program.plan.parameters,
        SEAL.evaluation_keys(program, relinearisation=answer("relin-keys")),
    )
    found = seal_streams.ciphertext_of(answer("a-0"), "A ciphertext", params.n, params.limbs)
    write = seal_streams.stream_of
    other = write(params.n, (*params.q[:2], params.p[0]), found.scale, found.words)
    for data, error, match in (
        (other, cb.MismatchError, "other parameters"),
        (write(params.n, params.q, 2 * found.scale, found.words), cb.MismatchError, "scale"),
        (write(params.n, params.q, found.scale, found.words[:, :1]), cb.ShapeError, "3 primes or more"),
        (
            write(params.n, params.q, found.scale, np.full_like(found.words, 1 << 60)),
            cb.RangeError,
            "below its prime",
        ),
        (
            write(params.n, params.q, found.scale, np.repeat(found.words, 2, 0)[:3]),
            cb.ShapeError,
            "2 components",
        ),
    ):
        with pytest.raises(error, match=match):
            SEAL.operand(program, "a", [data], keys)
    with pytest.raises(cb.ShapeError, match="another number"):
        SEAL.operand(program, "a", [answer("a-0")] * 2, keys)
    with pytest.raises(cb.DTypeError, match="list of bytes"):
        SEAL.operand(program, "a", answer("a-0"), keys)  # type: ignore[arg-type]
    with pytest.raises(cb.MissingKeyError):
        SEAL.evaluation_keys(program)
    with pytest.raises(cb.FormatError):
        SEAL.secret_key(program, answer("a-0"))


def test_sparse_secrets_are_refused(program: cb.Program) -> None:
    params = program.plan.parameters
    stream, coefficients = bytearray(answer("secret-key")), np.zeros(params.n, np.int64)
    coefficients[:3] = 1
    words = np.asarray(params.context().plaintext(coefficients, params.limbs, special=True))
    stream[-words.nbytes :] = words.tobytes()
    with pytest.raises(cb.ParameterError, match="uniformly ternary"):
        SEAL.secret_key(program, bytes(stream))
    coefficients[0] = 2
    words = np.asarray(params.context().plaintext(coefficients, params.limbs, special=True))
    stream[-words.nbytes :] = words.tobytes()
    with pytest.raises(cb.ParameterError, match="not ternary"):
        SEAL.secret_key(program, bytes(stream))


def test_a_client_with_their_key_is_saved_and_loaded(program: cb.Program, tmp_path: Path) -> None:
    client = program.client(secret=SEAL.secret_key(program, answer("secret-key")))
    client.save(tmp_path / "key")
    again = cb.Client.load(tmp_path / "key", program, insecure=True)
    keys = client.evaluation_keys()
    operands = {name: SEAL.operand(program, name, [answer(f"{name}-0")], keys) for name in ("a", "b")}
    computed = program.server(keys).run(operands)
    np.testing.assert_array_equal(again.decrypt(computed, of=operands), client.decrypt(computed, of=operands))
    data = cb.PublicKey.from_bytes(client.public_key().to_bytes(), insecure=True)
    assert data.key_id == client.evaluation_keys().key_id
    with pytest.raises(cb.MismatchError, match="another program"):
        cb.compile(lambda a: a + a, {"a": S(3)}, for_peer="seal").client(
            secret=SEAL.secret_key(program, answer("secret-key"))
        )
    with pytest.raises(cb.DTypeError):
        program.client(secret=b"")  # type: ignore[arg-type]


def test_nothing_is_promised_of_foreign_errors(program: cb.Program) -> None:
    keys = SEAL.evaluation_keys(program, relinearisation=answer("relin-keys"))
    operands = {name: SEAL.operand(program, name, [answer(f"{name}-0")], keys) for name in ("a", "b")}
    computed = program.server(keys).run(operands)
    client = program.client(secret=SEAL.secret_key(program, answer("secret-key"), key_id=keys.key_id))
    with pytest.raises(cb.SecurityError, match="No largest error"):
        client.decrypt(computed, share=cb.Sharing(entries=12))
    with pytest.raises(cb.SecurityError, match="No largest error"):
        program.worst_error  # noqa: B018
    with pytest.raises(cb.ParameterError, match="no seed"):
        keys.save(io.BytesIO())


def test_plans_keep_to_what_seal_has() -> None:
    program = cb.compile(
        lambda a, b: (a @ b) @ b, {"a": S(8, 8), "b": S(8, 8)}, for_peer="seal", precision=1e-3
    )
    params = program.plan.parameters
    assert params.alpha == 1 and params.special_limbs == 1 and params.n <= 1 << 15
    assert all(one.public_key for one in program.operands.values())
    assert program.plan.form != "rows" and not program.plan.decided.forms
    for again in (cb.Program.from_bytes(program.to_bytes()), saved_for_clients(program)):
        assert again.plan.for_peer == "seal" and again.id == program.id
        assert SEAL.recipe(again) == SEAL.recipe(program)
    plain = cb.compile(lambda a, b: (a @ b) @ b, {"a": S(8, 8), "b": S(8, 8)}, precision=1e-3)
    with pytest.raises(cb.ParameterError, match="not compiled for clients with seal"):
        SEAL.recipe(plain)
    with pytest.raises(cb.DTypeError):
        SEAL.recipe("program")  # type: ignore[arg-type]


def saved_for_clients(program: cb.Program) -> cb.ClientProgram:
    file = io.BytesIO()
    program.save_client(file)
    return cb.ClientProgram.load(file.getvalue())


@pytest.mark.parametrize(
    ("options", "operand"),
    [
        ({"form": "rows"}, S(8, 8)),
        ({"form": "mixed"}, S(8, 8)),
        ({"algorithm": "gemm"}, S(8, 8)),
        ({"ring_degree": 1 << 16}, S(8, 8)),
        ({}, S(8, 8, dtype="int16", exact=True)),
        ({}, S(8, 8, modulus=65537)),
    ],
)
def test_what_seal_cannot_do_is_refused(options: dict[str, Any], operand: Any) -> None:
    with pytest.raises(cb.ParameterError, match='for_peer="seal"'):
        cb.compile(lambda a: a @ a, {"a": operand}, for_peer="seal", **options)


def test_an_unknown_peer_is_refused() -> None:
    with pytest.raises(cb.ParameterError, match="no such peer"):
        cb.compile(lambda a: a @ a, {"a": S(8, 8)}, for_peer="SEAL")


PROGRAMS: dict[str, tuple[Callable[..., Any], Mapping[str, Any], float]] = {
    "product": (lambda a, b: a @ b, {"a": S(24, 20), "b": S(20, 28)}, 1e-4),
    "three components": (lambda a, b: a * b, {"a": S(24, 20), "b": S(24, 20)}, 1e-4),
    "relinearised by SEAL's key": (lambda a: (a * a - 0.5) * a, {"a": S(64)}, 1e-4),
    "layer": (lambda a: np.tril(np.ones((8, 16))) / 16 @ a, {"a": S(16)}, 1e-4),
    "several": (lambda a, b: {"x": -(a * b), "y": a.sum()}, {"a": S(40), "b": S(40)}, 1e-4),
}


@needs_seal
@pytest.mark.parametrize("name", PROGRAMS)
def test_round_trips(name: str) -> None:
    """SEAL encrypts and decrypts, with its own public key, at its own 128 bits; by the recipe as JSON has it."""
    import seal

    saved = script("make_peer_answers").saved
    function, operands, precision = PROGRAMS[name]
    program = cb.compile(function, operands, for_peer="seal", precision=precision)
    recipe = json.loads(json.dumps(SEAL.recipe(program)))
    parameters = seal.EncryptionParameters(seal.scheme_type.ckks)
    parameters.set_poly_modulus_degree(recipe["poly_modulus_degree"])
    parameters.set_coeff_modulus([seal.Modulus(prime) for prime in recipe["coeff_modulus"]])
    context = seal.SEALContext(parameters, True, seal.sec_level_type.tc128)
    assert context.parameters_set(), context.parameter_error_message()
    maker, public = seal.KeyGenerator(context), seal.PublicKey()
    maker.create_public_key(public)
    encryptor, encoder = seal.Encryptor(context, public), seal.CKKSEncoder(context)
    decryptor = seal.Decryptor(context, maker.secret_key())
    if recipe["galois_elements"]:  # the wheel makes no keys for elements: the owner does
        keys = program.client(secret=SEAL.secret_key(program, saved(maker.secret_key()))).evaluation_keys()
    else:
        relinearisation = seal.RelinKeys()
        if recipe["relinearisation"]:
            maker.create_relin_keys(relinearisation)
        data = saved(relinearisation) if recipe["relinearisation"] else None
        keys = SEAL.evaluation_keys(program, relinearisation=data)
    random, clear, encrypted = np.random.default_rng(3), {}, {}
    for each, operand in operands.items():
        clear[each] = random.uniform(-1, 1, operand.shape)
        entries = np.concatenate([[0.0], clear[each].ravel()])
        streams = []
        for one in recipe["operands"][each]:
            parts = [np.array(one.get(part, [0])) for part in ("real", "imag")]
            real, imag = (np.sign(part) * entries[np.abs(part)] for part in parts)
            streams.append(saved(encryptor.encrypt(encoder.encode_complex(real + 1j * imag, one["scale"]))))
        encrypted[each] = SEAL.operand(program, each, streams, keys)
        assert len(SEAL.vectors(program, each, clear[each])) == len(streams)
    decoded = []
    for stream in SEAL.result(program, program.server(keys).run(encrypted)):
        ciphertext = seal.Ciphertext()
        ciphertext.load_bytes(context, stream)
        decoded.append(np.array(encoder.decode_complex(decryptor.decrypt(ciphertext))))
    results: Any = SEAL.values(program, decoded)
    expected = function(**clear)
    start, pairs = 0, zip(named(results), recipe["results"], program.plan.results, strict=True)
    for (label, value), one, figures in pairs:
        wanted = expected if label is None else expected[label]
        np.testing.assert_allclose(value, wanted, rtol=0, atol=figures.target)
        own = np.concatenate([[0.0], *decoded[start : start + one["ciphertexts"]]])
        start += one["ciphertexts"]
        real, imag = (np.array(one.get(part, [0])) for part in ("real", "imag"))
        by_recipe = np.sign(real) * own.real[np.abs(real)] + np.sign(imag) * own.imag[np.abs(imag)]
        np.testing.assert_array_equal(by_recipe.reshape(np.shape(value)), value)


def named(results: Any) -> Any:
    return list(results.items()) if isinstance(results, dict) else [(None, results)]
