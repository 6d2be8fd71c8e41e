"""Structural mutations of the files of every kind, their checksums recomputed: what the tests and the fuzzer share.

`samples` writes one small file of each kind, with what a user does with it. `mutated` changes such a file: values,
names and order of its JSON, and its tensors. All that a forger can make right is made right: the checksum, the
fingerprint of the parameters, the digests of tensors, and (`with_identity`) the identity of a program.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import cipherblas as cb
from cipherblas.crypto.files import format as form
from cipherblas.crypto.keys import SecretKey
from cipherblas.crypto.keys.storage import MANIFEST
from cipherblas.crypto.params import Parameters
from cipherblas.rlwe import matrices
from cipherblas.rlwe.matrices.encryption import decrypt, encrypt_rows
from cipherblas.roles import key_lock
from cipherblas.roles.budget import ProcessBudget
from cipherblas.roles.key_record import SUFFIX, KeyRecord
from cipherblas.roles.sharing import Sharing
from tests.support.foreign_files import TINY, assert_harmless, failure, identity
from tests.support.runs import program_of

INSECURE: dict[str, Any] = {"insecure": True, "security": 0}
IN_JSON = ("parameters", "header", "digests")  # entries of the metadata that are JSON themselves

# Numbers and words of JSON as they are written, also those that Python's `json` writes otherwise or not at all.
TOKENS = (
    *("1e999", "-1e999", "NaN", "Infinity", "1" + "0" * 400, "-1" + "0" * 400, "1" * 5000),
    *("-1", "0", "1", "2", "3", "8", "17", "100", "1000", "65536", "16777216", "16777217", "4294967296"),
    *("2147483647", "2147483648", "8589934592", "9223372036854775807", "9223372036854775808"),
    *(
        "18446744073709551615",
        "18446744073709551616",
        "18446744073709551617",
        "-9223372036854775808",
        "-9223372036854775809",
    ),
    *("0.5", "-0.5", "-0.0", "1.0", "2.0", "1e-300", "5e-324", "1e300", "1e18", "1e22"),
    *("true", "false", "null", '""', '"x"', '"0"', '"1e999"', '"\\ud800"', '"\\u0000"', f'"{"x" * 3000}"'),
    *("[]", "{}", "[[]]", "[0]", "[1,1]", "[1,1,1]", "[-1,1]", "[0.5,1]", '["a","b"]', "[null]", '{"a":1}'),
    *("[" * 12 + "]" * 12, "[" * 100 + "]" * 100, "[" * 3000 + "]" * 3000, "[" + "0," * 3000 + "0]"),
)
_MARK = "@raw@"


@dataclass(frozen=True)
class Sample:
    """A file of one kind, and what is done with it: `use` of a path loads it and works with it."""

    name: str
    kind: str
    raw: bytes
    use: Callable[[Path], object]


@dataclass(frozen=True)
class Forged:
    """The parts of a file; `raw()` puts them together, checksums right."""

    kind: str
    metadata: dict[str, Any]  # those of IN_JSON parsed
    entries: dict[str, Any]
    data: bytes

    @classmethod
    def of(cls, raw: bytes) -> Forged:
        length = int.from_bytes(raw[:8], "little")
        entries = json.loads(raw[8 : 8 + length])
        metadata = entries.pop("__metadata__")
        metadata.update({name: json.loads(metadata[name]) for name in IN_JSON})
        return cls(metadata["kind"], metadata, entries, raw[8 + length :])

    def raw(self) -> bytes:
        metadata = dict(self.metadata)
        metadata.update({name: _written(metadata[name]) for name in IN_JSON if name in metadata})
        if "checksum" in metadata:
            metadata["checksum"] = form.NO_CHECKSUM
        text = _written({"__metadata__": metadata, **self.entries}).encode()
        text += b" " * (-(8 + len(text)) % 64)
        text = text.replace(form.NO_CHECKSUM.encode(), form.header_checksum(text).encode(), 1)
        return len(text).to_bytes(8, "little") + text + self.data


def _written(value: Any) -> str:
    """JSON with the tokens in it."""
    pieces = json.dumps(value, separators=(",", ":")).split(f'"{_MARK}')
    written = pieces[0]
    for piece in pieces[1:]:
        number, rest = piece.split('"', 1)
        written += TOKENS[int(number)] + rest
    return written


def _parts(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values but the whole, containers included."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*place, key)
            yield from _parts(value[key], (*place, key))


def _change(rng: random.Random, whole: Any) -> None:
    """One change at a random place of a JSON value."""
    found = list(_parts(whole))
    if not found:
        return
    *way, last = rng.choice(found)
    inside = whole
    for step in way:
        inside = inside[step]
    old, what = inside[last], rng.random()
    token = f"{_MARK}{rng.randrange(len(TOKENS))}"
    if what < 0.25 and type(old) is int:  # of the right type, for what lies behind the checks of types
        inside[last] = rng.choice([1, 2, 3, 4, 5, 7, 8, 16, 64, 255, 1000, 4096, 2**16, 2**20, 2**24])
    elif what < 0.55:
        inside[last] = token
    elif what < 0.65 and type(old) in (int, float):
        inside[last] = rng.choice([old + 1, old - 1, 2 * old, -old, float(old), str(old), old * 2**20])
    elif what < 0.72:
        del inside[last]
    elif what < 0.78:  # another value of the same file
        *way, other = rng.choice(found)
        source = whole
        for step in way:
            source = source[step] if isinstance(source, list) or step in source else {}
        if isinstance(source, dict):
            inside[last] = copy.deepcopy(source.get(other, token))
        elif isinstance(source, list) and isinstance(other, int) and other < len(source):
            inside[last] = copy.deepcopy(source[other])
    elif isinstance(inside, list):
        inside[:] = rng.choice([inside * 2, inside[::-1], [*inside, token], inside[:-1], [inside[last]] * 40])
    elif what < 0.86:
        inside[rng.choice(["new", "shape", "of", "options", "", "x" * 3000, "a\x1b[2J"])] = token
    elif what < 0.94 or not isinstance(old, list):
        inside[rng.choice([*map(str, inside), "renamed"])] = inside.pop(last)
    else:
        rng.shuffle(old)


def _change_tensors(rng: random.Random, forged: Forged) -> Forged:
    """Another dtype, shape, place, name or content of a tensor."""
    names = sorted(forged.entries)
    if not names:
        return forged
    name, other = rng.choice(names), rng.choice(names)
    entry, data, what = forged.entries[name], forged.data, rng.randrange(8)
    digests = forged.metadata["digests"]
    if what == 0:
        entry["dtype"] = rng.choice([*form.DTYPES, "BF16"])
    elif what == 1:
        entry["shape"] = rng.choice(
            [entry["shape"][::-1], [*entry["shape"], 1], [1, *entry["shape"]], [entry["data_offsets"][1]]]
        )
    elif what == 2:
        forged.entries[name], forged.entries[other] = forged.entries[other], entry
        digests[name], digests[other] = digests[other], digests[name]
    elif what == 3:
        forged.entries["renamed"], digests["renamed"] = forged.entries.pop(name), digests.pop(name)
    elif what == 4:  # another type of the same bytes
        begin, end = entry["data_offsets"]
        dtype = rng.choice(sorted(form.DTYPES))
        count = (end - begin) // form.DTYPES[dtype].itemsize
        entry.update(dtype=dtype, shape=rng.choice([[count], [1, count], [count, 1], [1, 1, count]]))
    elif what == 5:  # the last tensor gone, or grown
        last = max(names, key=lambda each: forged.entries[each]["data_offsets"][1])
        begin, end = forged.entries[last]["data_offsets"]
        data = data[:begin] + b"\xff" * rng.choice([0, 8, 64, 2 * (end - begin)])
        forged.entries[last].update(data_offsets=[begin, len(data)], dtype="U8", shape=[len(data) - begin])
    else:  # special values
        begin, end = entry["data_offsets"]
        word = rng.choice([b"\xff" * 8, bytes(8), np.float64(np.nan).tobytes(), np.float64(1e300).tobytes()])
        data = data[:begin] + (word * (end - begin))[: end - begin] + data[end:]
    return replace(forged, data=data)


def mutated(rng: random.Random, raw: bytes) -> bytes:
    """A file with one to three changes, checksums right."""
    forged = Forged.of(raw)
    parts = sorted(rng.random() for _ in range(rng.choice([1, 1, 1, 2, 3])))
    for part in parts:  # what takes its place for granted comes first
        if part < 0.13:
            forged = _change_tensors(rng, forged)
        elif part < 0.85:
            _change(rng, forged.metadata["header"])
        elif part < 0.94:
            _change(rng, forged.metadata["parameters"])
        elif part < 0.97:
            _change(rng, forged.entries)
        else:
            _change(rng, forged.metadata)
            break
    _make_right(rng, forged)
    return forged.raw()


def _make_right(rng: random.Random, forged: Forged) -> None:
    """What a forger of parameters and of tensors makes right."""
    metadata = forged.metadata
    header, parameters, digests = (metadata.get(name) for name in ("header", "parameters", "digests"))
    if isinstance(header, dict) and isinstance(header.get("decisions"), dict) and rng.random() < 0.9:
        header["decisions"]["parameters"] = parameters
    try:
        found = Parameters.parsed(json.loads(_written(parameters)))
        metadata.update(fingerprint=found.fingerprint(), security=str(found.security))
    except (cb.CipherblasError, ValueError, RecursionError):
        pass
    for name, entry in forged.entries.items():
        try:
            begin, end = entry["data_offsets"]
            if digests.get(name):
                content = forged.data[begin:end]
                digests[name] = hashlib.blake2b(content, digest_size=32, person=b"cipherblas").hexdigest()
        except (LookupError, TypeError, ValueError, AttributeError):
            pass


def with_identity(raw: bytes) -> bytes | None:
    """A program file with the identity of its content; None where it has none."""
    forged = Forged.of(raw)
    header = forged.metadata["header"]
    tensors = {
        name: np.frombuffer(forged.data[slice(*entry["data_offsets"])], form.DTYPES[entry["dtype"]]).reshape(
            entry["shape"]
        )
        for name, entry in forged.entries.items()
    }
    found = identity(header, tensors, Parameters.parsed(forged.metadata["parameters"]))
    if found == str(header.get("id")):
        return None
    header["id"] = found
    return forged.raw()


def outcome(sample: Sample, raw: bytes, path: Path) -> str:
    """What became of a file: the name of a typed error, or "used". Anything else is raised as it is."""
    path.write_bytes(raw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            try:
                sample.use(path)
            except cb.MismatchError as error:
                right = None
                if sample.kind == "program" and error.message == "identity of the program":
                    right = with_identity(raw)
                if right is None:
                    raise
                path.write_bytes(right)
                sample.use(path)
        except cb.CipherblasError as error:
            assert_harmless(failure(error))
            return type(error).__name__
    return "used"


def name_of(seed: int, sample: Sample, number: int) -> str:
    """The name of a mutation, and the seed that makes it."""
    return f"{seed}/{sample.name}/{number}"


def samples(folder: Path) -> list[Sample]:
    """One small file of each kind, INSECURE."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(_samples(folder))


def _programs() -> dict[str, cb.Program]:
    random = np.random.default_rng(5)
    filters, weights = random.normal(size=(2, 1, 3, 3)), random.normal(size=(3, 8))
    coarse: dict[str, Any] = {"precision": 0.01, "ring_degree": 4096, **INSECURE}
    return {
        "slots": program_of(
            lambda a, b: 0.5 * (a @ b) - np.ones((2, 2)),
            a=cb.secret(2, 2, encryption="public-key"),
            b=cb.secret(2, 2, bound=3.0),
            **{"algorithm": "skewed", "parameters": TINY, "precision": 0.5, **INSECURE},
        ),
        "rows": program_of(
            lambda w, x: w @ x + np.ones((2, 2)),
            **{"w": cb.public(2, 3), "x": cb.secret(3, 2), "algorithm": "gemm", **coarse},
        ),
        "layers": cb.compile(
            lambda x: weights @ cb.flatten(cb.square(cb.conv2d(x, filters, stride=1))),
            {"x": cb.secret(1, 4, 4, bound=2.0, normalise=(0.5, [0.25]))},
            **coarse,
        ),
        "function": cb.compile(lambda x: cb.tanh(x, degree=5), {"x": cb.secret(4)}, **coarse),
        "results": program_of(
            lambda a, b: {"product": a @ b, "sum": a + b, "again": a @ b},
            **{"a": cb.secret(2, 2), "b": cb.secret(2, 2), "error": {"product": 0.5, "sum": 0.5, "again": 1}},
            **{"parameters": TINY, **INSECURE},
        ),
    }


def _described(path: Path) -> object:
    program = cb.Program.load(path, insecure=True)
    return program.explain(), repr(program), json.dumps(program.plan.to_dict()), program.inputs_of("a")


def _used_by_a_client(program: cb.Program, path: Path) -> object:
    """A result of the whole program, if it is the same."""
    known = cb.ClientProgram.load(path, insecure=True)
    client = known.client()
    given = {name: np.zeros(operand.shape) for name, operand in program.operands.items()}
    sent = client.encrypt({name: np.zeros(operand.shape) for name, operand in known.operands.items()})
    keys = client.evaluation_keys()
    return repr(known), client.decrypt(program.server(keys).run({**given, **sent}))


def _samples(folder: Path) -> Iterator[Sample]:
    def sample(name: str, kind: str, save: Callable[[Path], None], use: Callable[[Path], object]) -> Sample:
        path = folder / name.replace(" ", "-")
        save(path)
        found = Sample(name, kind, path.read_bytes(), use)
        path.unlink()
        return found

    programs = _programs()
    for name, program in programs.items():
        yield sample(f"program {name}", "program", program.save, _described)
    for name in ("slots", "rows", "layers", "results"):
        use = functools.partial(_used_by_a_client, programs[name])
        yield sample(f"client program {name}", "client-program", programs[name].save_client, use)
    program = programs["slots"]
    rows = programs["rows"]
    parameters, client = program.plan.parameters, program.client()
    values = {"a": np.eye(2), "b": np.eye(2)}
    sent, keys, public = client.encrypt(values), client.evaluation_keys(), client.public_key()
    server = program.server(keys)
    result = server.run(sent)
    several = programs["results"]
    several_client = several.client()
    results = several.server(several_client.evaluation_keys()).run(several_client.encrypt(values))
    row_client = rows.client()
    row_sent = row_client.encrypt({"x": np.ones((3, 2))})["x"]
    row_server = rows.server(row_client.evaluation_keys())
    row_result = row_server.run({"x": row_sent, "w": np.ones((2, 3))})
    yield sample(
        *("secret key", "secret-key", client.save),
        lambda path: _decrypted(program, path, result),
    )
    yield sample(
        *("public key", "public-key", public.save),
        lambda path: program.encryptor(cb.PublicKey.load(path, insecure=True)).encrypt({"a": np.eye(2)})["a"],
    )
    yield sample(
        *("evaluation keys", "evaluation-keys", keys.save),
        lambda path: program.server(cb.EvaluationKeys.load(path, insecure=True)).run(sent),
    )
    yield sample(
        *("operand", "ciphertext", sent["a"].save),
        lambda path: server.run({"a": cb.EncryptedOperand.load(path, insecure=True), "b": sent["b"]}),
    )
    yield sample(
        *("operand rows", "ciphertext", row_sent.save),
        lambda path: row_server.run(
            {"x": cb.EncryptedOperand.load(path, insecure=True), "w": np.ones((2, 3))}
        ),
    )
    yield sample(
        *("result", "ciphertext", result.save),
        lambda path: client.decrypt(cb.EncryptedResult.load(path, insecure=True)),
    )
    yield sample(
        *("result rows", "ciphertext", row_result.save),
        lambda path: row_client.decrypt(cb.EncryptedResult.load(path, insecure=True)),
    )
    yield sample(
        *("several results", "ciphertext", results.save),
        lambda path: several_client.decrypt(cb.EncryptedResult.load(path, insecure=True)),
    )
    manifest = folder / "keys"
    manifest.mkdir()
    keys.save(manifest)

    def use_manifest(path: Path) -> object:
        path.replace(manifest / MANIFEST)
        return program.server(cb.EvaluationKeys.load(manifest, insecure=True)).run(sent)

    yield Sample("manifest", "evaluation-keys", (manifest / MANIFEST).read_bytes(), use_manifest)
    secret = SecretKey(TINY, np.arange(32, dtype=np.uint8))
    matrix = encrypt_rows(secret, np.ones((2, 16)), 2.0**20)
    yield sample(
        *("matrix", "encrypted-matrix", matrix.save),
        lambda path: decrypt(secret, matrices.RlweRows.load(path, insecure=True)),
    )
    key_file = folder / "key"
    client.save(key_file)
    record = KeyRecord(public.key_id, parameters, key_file)
    record.spend(Sharing(entries=100), 4, "00" * 32)
    record.note({"a": "11" * 32})
    raw = key_file.with_name(key_file.name + SUFFIX).read_bytes()

    def use_record(path: Path) -> object:
        path.replace(key_file.with_name(key_file.name + SUFFIX))
        key_file.with_name(key_file.name + key_lock.SUFFIX).unlink(
            missing_ok=True
        )  # its count of earlier samples
        known = KeyRecord(public.key_id, parameters, key_file)
        known._here = ProcessBudget()
        known.latest()
        known.spend(Sharing(entries=100), 1, "22" * 32)
        return known.latest()

    yield Sample("key record", "key-record", raw, use_record)


def _decrypted(program: cb.Program, path: Path, result: cb.EncryptedResult) -> object:
    return cb.Client.load(path, program, insecure=True).decrypt(result)
