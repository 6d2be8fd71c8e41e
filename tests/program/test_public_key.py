"""Operands that the public key encrypts: plans, real runs on both forms, files, refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto import files, security
from cipherblas.crypto.keys import FreshCiphertext, decrypt_coefficients, generate_public_key, generate_secret
from cipherblas.evaluators.rows.symbolic import RowsSymbolic
from cipherblas.forms.row_forms import RowForm
from cipherblas.forms.slot_forms import SlotForm
from cipherblas.lang.analysis import has_public_key, trace
from cipherblas.lang.facts import products
from cipherblas.lang.operands import Operand
from cipherblas.rlwe.matrices import RlweRows
from cipherblas.rlwe.matrices.encryption import decrypt
from cipherblas.rlwe.noise import PRODUCT_TAIL, TAIL, NoiseModel
from cipherblas.runtime.row_products.fixed_weights import WeightsInKeys
from tests.corpus.machine import MACHINE
from tests.support.runs import encrypted, lasting, program_of, run, run_by_files, toy_rows, values_of

WEIGHTS = np.random.default_rng(9).integers(-128, 128, (256, 2048)).astype(np.int8)


def P(rows: int, cols: int, bound: float = 1.0) -> Operand:
    return cb.secret(rows, cols, bound=bound, encryption="public-key")


S = cb.secret


def check(function: Callable[..., Any], **arguments: Any) -> cb.Program:
    """One encrypted run, operands with the key that they are planned for; error, counts, bytes as planned."""
    return encrypted(function, **arguments).check().program


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda a, b: a @ b, {"a": P(20, 30), "b": P(30, 7)}),
        (lambda a, b: a @ b, {"a": P(20, 30), "b": S(30, 7)}),
        (lambda a, b: a.T @ b, {"a": S(30, 20), "b": P(30, 7, bound=16)}),
        (lambda a, b: a @ b, {"a": P(20, 30), "b": cb.public(30, 7)}),
        (lambda a, b: 3 * a - b, {"a": P(20, 30), "b": S(20, 30)}),
        (lambda a, b: a * b, {"a": P(20, 30), "b": S(20, 30)}),
        (lambda a, b, c: (a @ b) @ c, {"a": P(8, 9), "b": S(9, 10), "c": P(10, 11)}),
        (lambda a, b: (a @ b) * a, {"a": P(6, 6), "b": S(6, 6)}),
    ],
)
def test_slots(function: Callable[..., Any], operands: dict[str, Any]) -> None:
    assert check(function, **operands, form="blocks").plan.form == "blocks"


@pytest.mark.parametrize("algorithm", ["skewed", "bicyclic", "outer-product", "fame"])
def test_algorithms_in_slots(algorithm: str) -> None:
    check(lambda a, b: a @ b, a=P(13, 7), b=P(7, 11), algorithm=algorithm)


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda w, x: w @ x, {"w": cb.public(20, 30), "x": P(30, 7)}),
        (lambda w, x: x @ w, {"w": cb.public(30, 7, dtype="int8"), "x": P(20, 30, bound=16)}),
        (lambda w, x: w @ x, {"w": cb.public(3, 5, dtype="int8"), "x": P(5, 5000)}),
        (lambda w, x, y: w @ x + y, {"w": cb.public(3, 5, dtype="int8"), "x": P(5, 5000), "y": S(3, 5000)}),
        (lambda w, x, y: w @ x + y, {"w": cb.public(3, 5, dtype="int8"), "x": S(5, 5000), "y": P(3, 5000)}),
        (lambda x: np.ones((4, 6)) @ x - 1.0, {"x": P(6, 9)}),
    ],
)
def test_rows(function: Callable[..., Any], operands: dict[str, Any]) -> None:
    assert check(function, **operands, form="rows").plan.form == "rows"


def test_products_of_secrets_by_rows() -> None:
    program = toy_rows(lambda a, b: a @ b, a=P(9, 5), b=S(5, 6), key_policy="composed")
    run(program, values_of(program)).check()


def test_rows_in_pieces() -> None:
    """Rows longer than N have secrets of the client's: the public key encrypts pieces of N columns, with N a parts."""
    program = check(
        lambda w, x: w @ x, w=cb.public(3, 5, dtype="int8"), x=P(5, 5000), form="rows", ring_degree=4096
    )
    (wanted,) = program.inputs_of("x")
    assert isinstance(wanted.form, RowForm) and wanted.public_key
    assert wanted.form.pieces == ((0, 4096), (4096, 5000))
    assert program.plan.upload_bytes == wanted.limbs * 5 * (2 * 4096 + 5000) * 8


def test_rows_that_share_their_a_parts_are_not_planned() -> None:
    """Their secrets are the client's: weights are not fixed for an operand that the public key encrypts."""
    arguments: dict[str, Any] = {"algorithm": "gemm", "minimise": "server", "machine": MACHINE}
    assert program_of(lambda x: WEIGHTS @ x, x=S(2048, 32), **arguments).plan.keys.weights
    assert not len(program_of(lambda x: WEIGHTS @ x, x=P(2048, 32), **arguments).plan.keys)
    few = WEIGHTS[:3, :5]
    node = trace(lambda x, y: few @ x + few @ y, {"x": P(5, 4), "y": S(5, 4)})
    assert [WeightsInKeys.applies(one, node) for one in products(node)] == [False, True] and has_public_key(
        node
    )


# --- the plan ---


@pytest.mark.parametrize("form", ["blocks", "rows"])
def test_the_plan_is_made_for_the_larger_error(form: str) -> None:
    arguments: dict[str, Any] = {"form": form, "ring_degree": 4096}
    arguments |= {"algorithm": "outer-product"} if form == "blocks" else {}
    own = program_of(lambda w, x: w @ x, w=cb.public(20, 30, dtype="int8"), x=S(30, 40), **arguments)
    others = program_of(lambda w, x: w @ x, w=cb.public(20, 30, dtype="int8"), x=P(30, 40), **arguments)
    assert others.plan.error <= others.plan.error_target
    # The error is sqrt(4N/3) = 2^6.2 times larger, in slots PRODUCT_TAIL = 2^1.9 times more, since products with the
    # secret have a heavier tail; in slots the scale of the weights grows along with that of x.
    larger_modulus = others.plan.parameters.log_q - own.plan.parameters.log_q
    assert 5 < (larger_modulus / 2 - 1.9 if form == "blocks" else larger_modulus) < 8
    assert others.plan.upload_bytes > own.plan.upload_bytes
    assert others.id != own.id
    assert "x 30x40 secret (by public key)" in others.explain()
    assert "public key" in others.explain().split("operands")[1].split("\n", 1)[1]
    assert "public key" not in own.explain()


def test_forced_parameters_show_the_larger_error() -> None:
    """Without key switches the error is that of encryption, and a little rounding of the clear operand."""
    arguments: dict[str, Any] = {"w": cb.public(8, 8), "algorithm": "outer-product", "machine": MACHINE}
    parameters = program_of(lambda w, x: w @ x, x=S(8, 8), **arguments).plan.parameters
    error, upload = {}, {}
    for kind in (S, P):
        plan = program_of(lambda w, x: w @ x, x=kind(8, 8), parameters=parameters, **arguments).plan
        error[kind], upload[kind] = plan.error, plan.upload_bytes - 32 * plan.upload_ciphertexts * (kind is S)
    model = NoiseModel(parameters)
    factor = model.fresh(1.0, public_key=True) / model.fresh(1.0)
    assert error[P] == pytest.approx(factor * error[S], rel=0.2)
    assert upload[P] == 2 * upload[S]


def test_the_upload_budget_counts_both_halves() -> None:
    arguments: dict[str, Any] = {"algorithm": "skewed", "ring_degree": 8192}
    upload = program_of(lambda a, b: a @ b, a=S(8, 8), b=S(8, 8), **arguments).plan.upload_bytes
    arguments["upload_budget"] = upload
    program_of(lambda a, b: a @ b, a=S(8, 8), b=S(8, 8), **arguments)
    with pytest.raises(cb.MemoryBudgetError, match="upload"):
        program_of(lambda a, b: a @ b, a=P(8, 8), b=P(8, 8), **arguments)


def test_the_noise_model_in_slots() -> None:
    program = cb.compile(lambda a: 1.0 * a + 0.5, {"a": P(60, 60)}, form="blocks")
    client = program.client()
    sent = program.encryptor(client.public_key()).encrypt({"a": np.zeros((60, 60))})["a"]
    (feed,), (spec,) = sent.feeds, program.inputs_of("a")
    assert isinstance(spec.form, SlotForm)
    context = program.plan.parameters.context()
    errors = np.stack([context.decode(decrypt_coefficients(client._secret, ct.expand())) for ct in feed])
    predicted = NoiseModel(program.plan.parameters).fresh(spec.scale, public_key=True) * spec.scale
    # The model has the margin for the tails of products in its deviation.
    assert 0.8 < PRODUCT_TAIL * errors.real.std() / predicted < 1.2
    assert np.abs(errors.real).max() <= TAIL * predicted


def test_the_noise_model_by_rows() -> None:
    program = cb.compile(lambda w, x: w @ x, {"w": cb.public(3, 40), "x": P(40, 500)}, form="rows")
    client = program.client()
    sent = program.encryptor(client.public_key()).encrypt({"x": np.zeros((40, 500))})["x"]
    ((rows,),), (spec,) = sent.feeds, program.inputs_of("x")
    assert isinstance(rows, RlweRows) and isinstance(spec.form, RowForm)
    errors = decrypt(client._secret, rows) * spec.scale
    counter = RowsSymbolic(program.plan.parameters)
    handle = counter.fresh(None, (40, 500), bound=1.0, scale=spec.scale, basis=spec.basis, public_key=True)
    assert (
        0.75 < errors.std() / handle.noise < 1.05
    )  # the secret and the key's error are taken as large as they may be
    assert np.abs(errors).max() <= TAIL * handle.noise


def test_the_public_key_is_of_the_modulus_that_was_checked() -> None:
    """Q, at the top level; the table is applied to QP, of which it is a divisor."""
    program = cb.compile(lambda a, b: a @ b, {"a": P(8, 8), "b": P(8, 8)}, algorithm="skewed")
    params = program.plan.parameters
    key = program.client().public_key()
    assert key.params == params and key.data.shape == (2, params.limbs, params.n)
    assert params.log_q <= params.log_q + params.log_p <= security.max_log_qp(params.n, 128)


# --- who may encrypt what ---


@pytest.fixture(scope="module")
def mixed() -> cb.Program:
    """`a` by the secret key, `b` by the public one."""
    return cb.compile(lambda a, b: a @ b, {"a": S(4, 4), "b": P(4, 4)}, algorithm="skewed")


@pytest.fixture(scope="module")
def client(mixed: cb.Program) -> cb.Client:
    return mixed.client()


@pytest.fixture(scope="module")
def encryptor(mixed: cb.Program, client: cb.Client) -> cb.Encryptor:
    return mixed.encryptor(client.public_key())


def test_the_client_may_encrypt_everything(mixed: cb.Program, client: cb.Client) -> None:
    values = values_of(mixed)
    sent = client.encrypt(values)
    assert {operand.encryption for operand in sent.values()} == {"secret-key"}
    result = client.decrypt(mixed.server(client.evaluation_keys()).run(sent))
    assert np.abs(result - mixed.evaluate(values)).max() <= mixed.plan.error


def test_what_is_planned_for_the_secret_key_is_refused(
    mixed: cb.Program, client: cb.Client, encryptor: cb.Encryptor
) -> None:
    ones = np.ones((4, 4))
    with pytest.raises(cb.MismatchError, match=r"'a' is planned for the secret key(?s:.*)public-key"):
        encryptor.encrypt({"a": ones})
    with pytest.raises(cb.MismatchError, match=r"expected a \| b, got c"):
        encryptor.encrypt({"c": ones})
    a = client.encrypt({"a": ones})["a"]
    unseeded = tuple(
        tuple(FreshCiphertext(ct.params, ct.limbs, None, ct.expand()) for ct in feed) for feed in a.feeds
    )
    server = mixed.server(client.evaluation_keys())
    with pytest.raises(cb.MismatchError, match="expected secret-key, got public-key"):
        server.run({"a": replace(a, feeds=unseeded), **client.encrypt({"b": ones})})


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.ones((4, 5)), cb.ShapeError),
        (np.full((4, 4), np.nan), cb.RangeError),
        (np.full((4, 4), 1.5), cb.RangeError),
        (np.ones((4, 4), dtype=complex), cb.DTypeError),
    ],
)
def test_bad_matrices(encryptor: cb.Encryptor, value: Any, kind: type[cb.CipherblasError]) -> None:
    with pytest.raises(kind):
        encryptor.encrypt({"b": value})


def test_keys_that_do_not_belong(mixed: cb.Program, client: cb.Client) -> None:
    for stranger in (client, client._secret, client.evaluation_keys(), None):
        with pytest.raises(cb.DTypeError, match="expected PublicKey"):
            mixed.encryptor(stranger)  # type: ignore[arg-type]
    other = cb.compile(lambda a, b: a @ b, {"a": S(4, 4), "b": P(4, 4)}, algorithm="skewed", precision=1e-6)
    with pytest.raises(cb.MismatchError, match="public key belongs to another program"):
        mixed.encryptor(other.client().public_key())
    of_several = mixed.encryptor(generate_public_key(generate_secret(mixed.plan.parameters)))
    assert of_several.encrypt({"b": np.ones((4, 4))})["b"].program_id == mixed.encoding_id("b")
    with pytest.raises(cb.MismatchError, match="other parameters"):
        mixed.encryptor(generate_public_key(generate_secret(other.plan.parameters, mixed.id)))


def test_a_public_key_of_another_pair(mixed: cb.Program, client: cb.Client) -> None:
    """It encrypts, since it belongs to the program; the server notices."""
    foreign = mixed.encryptor(mixed.client().public_key()).encrypt({"b": np.ones((4, 4))})["b"]
    server = mixed.server(client.evaluation_keys())
    with pytest.raises(cb.MismatchError, match="different key pairs"):
        server.run({**client.encrypt({"a": np.ones((4, 4))}), "b": foreign})


def test_programs_without_public_key_operands() -> None:
    program = cb.compile(lambda a, b: a @ b, {"a": S(4, 4), "b": S(4, 4)}, algorithm="skewed")
    with pytest.raises(cb.MismatchError, match=r"planned for a public key .got a, b"):
        program.client().public_key()
    key = generate_public_key(generate_secret(program.plan.parameters, program.id))
    with pytest.raises(cb.MismatchError, match="planned for a public key"):
        program.encryptor(key)


def test_no_encryptions() -> None:
    for wrong in ("rot13", None, ["public-key"]):
        with pytest.raises(cb.ParameterError, match=r'encryption="secret-key"\s+Or: encryption="public-key"'):
            cb.secret(3, 3, encryption=wrong)  # type: ignore[arg-type]
    with pytest.raises(cb.ParameterError, match="clear operand"):
        Operand((3, 3), False, 1.0, encryption="public-key")


# --- files ---


@pytest.mark.parametrize("form", ["blocks", "rows"])
def test_files(tmp_path: Path, form: str) -> None:
    """Three parties that share files alone: the owner of the key, the source of x, the server."""
    made = cb.compile(
        lambda w, x: w @ x, {"w": cb.public(6, 9), "x": P(9, 2500)}, form=form, ring_degree=4096
    )
    run_by_files(made, values_of(made), tmp_path).check()
    assert cb.Program.load(tmp_path / "program").explain().splitlines() == lasting(made)


def without(tensors: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in tensors.items() if name not in names}


@pytest.mark.parametrize("form", ["blocks", "rows"])
def test_operand_files_with_wrong_content(tmp_path: Path, form: str) -> None:
    program = cb.compile(
        lambda w, x: w @ x, {"w": cb.public(3, 4), "x": P(4, 5)}, form=form, ring_degree=4096
    )
    parameters = program.plan.parameters
    path = tmp_path / "x"
    program.encryptor(program.client().public_key()).encrypt({"x": np.ones((4, 5))})["x"].save(path)
    header, tensors = files.read(path, "ciphertext")
    header = {key: header[key] for key in header if key != "parameters"}
    uniform = "feed0.data" if form == "blocks" else "feed0.uniform0"
    assert uniform in tensors and "feed0.seed" not in tensors
    whole = tensors[uniform]
    outside = whole.copy()
    outside[(0, 1, 0, 0) if form == "blocks" else (0, 0, 0)] = 1 << 63
    shorter = (whole[..., :100], whole[:, :1]) if form == "blocks" else (whole[:100], whole[..., :1])
    degree, half = map(np.ascontiguousarray, shorter)
    changed: dict[str, dict[str, Any]] = {
        "residue": {**tensors, uniform: outside},
        "signed": {**tensors, uniform: whole.astype(np.int64)},
        "another degree": {**tensors, uniform: degree},
        "one half": {**tensors, uniform: half},
        "flat": {**tensors, uniform: whole.ravel()},
        "missing": without(tensors, uniform),
    }
    if form == "blocks":
        changed["seeds beside both halves"] = {**tensors, "feed0.seed": np.zeros((len(whole), 32), np.uint8)}
    else:
        changed["a piece too many"] = {**tensors, "feed0.columns1": tensors["feed0.columns0"]}
    for name, content in changed.items():
        files.write(path, "ciphertext", header, content, parameters=parameters)
        with pytest.raises(cb.FormatError):
            pytest.fail(f"{name}: {cb.EncryptedOperand.load(path)}")


def test_ciphertexts_of_both_keys_in_one_feed(mixed: cb.Program, client: cb.Client, tmp_path: Path) -> None:
    ones = np.ones((4, 4))
    (own,) = client.encrypt({"b": ones})["b"].feeds
    (others,) = mixed.encryptor(client.public_key()).encrypt({"b": ones})["b"].feeds
    mixture = replace(client.encrypt({"b": ones})["b"], feeds=((*own, *others),))
    assert mixture.encryption == "public-key"
    with pytest.raises(cb.MismatchError, match="all with seeds, or none, got 1 of 2"):
        mixture.save(tmp_path / "b")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("damage", ["truncated", "flipped", "foreign", "other kind"])
def test_damaged_public_keys(mixed: cb.Program, client: cb.Client, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "public-key"
    client.public_key().save(path)
    assert cb.PublicKey.load(path).key_id == client._secret.key_id
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
    elif damage == "foreign":
        path.write_bytes(b"\x89PNG\r\n" + bytes(range(256)) * 20)
    else:
        client.save(path)
    with pytest.raises((cb.FormatError, cb.MismatchError)):
        cb.PublicKey.load(path)
