"""A rank reads its own columns of an operand by rows, each group checked by itself, and what it needs whole once."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto import files
from cipherblas.crypto.files import Reader
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.in_process import run_ranks
from cipherblas.distributed.matrices import COLUMNS, REPLICATED, TRANSPOSED, OperandShare
from cipherblas.distributed.shares import Indices, Shares
from cipherblas.rlwe.matrices import CoefficientMatrix
from cipherblas.roles.wire import columns, messages, stored
from cipherblas.roles.wire.columns import by_rows, columns_each
from cipherblas.roles.wire.stored_rows import StoredRows
from tests.distributed.test_rows_on_ranks import PROGRAMS
from tests.support.runs import toy_rows, values_of

RANKS = (1, 2, 3)
P, S = cb.public, cb.secret
READ: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, str]]] = {
    "square": (lambda a, b: a @ b, {"a": S(64, 64), "b": S(64, 64)}, {"a": TRANSPOSED, "b": REPLICATED}),
    "indivisible": (
        lambda a, b: a @ b,
        {"a": S(37, 53), "b": S(53, 261)},
        {"a": TRANSPOSED, "b": REPLICATED},
    ),
    "public key": (
        lambda a, b: a @ b,
        {name: S(*shape, encryption="public-key") for name, shape in (("a", (37, 53)), ("b", (53, 61)))},
        {"a": TRANSPOSED, "b": REPLICATED},
    ),
    "clear": (lambda a, b: a @ b, {"a": P(37, 53), "b": S(53, 301)}, {"b": COLUMNS}),
    "right clear": (lambda a, b: a @ b, {"a": S(37, 53), "b": P(53, 31)}, {"a": COLUMNS}),
    "public key, clear": (
        lambda a, b: a @ b,
        {"a": P(37, 53), "b": S(53, 301, encryption="public-key")},
        {"b": COLUMNS},
    ),
    "gram": (lambda a: a.T @ a, {"a": S(50, 60)}, {"a": REPLICATED}),
}


class InFiles:
    """A program, its operands in files, and its result on one process."""

    def __init__(self, program: cb.Program, folder: Path) -> None:
        self.program, self.folder, self.values = program, folder, values_of(program)
        client = program.client()
        self.sent: dict[str, cb.EncryptedOperand] = {}
        for name, operand in program.operands.items():
            if operand.secret:
                public = operand.encryption == "public-key"
                source = program.encryptor(client.public_key()) if public else client
                self.sent |= source.encrypt({name: self.values[name]})
        for name, encrypted in self.sent.items():
            encrypted.save(folder / name)
        self.keys = client.evaluation_keys()
        self.alone = program.server(self.keys).run({**self.values, **self.sent})

    def loaded(self, name: str, lazy: bool = True) -> cb.EncryptedOperand:
        return cb.EncryptedOperand.load(self.folder / name, insecure=True, security=0, lazy=lazy)

    def on(self, ranks: int) -> list[tuple[cb.Server, dict[str, cb.EncryptedOperand]]]:
        """Of each rank its server and its operands, once the result is that of one process."""

        def work(communicator: Communicator) -> Any:
            sent = {name: self.loaded(name) for name in self.sent}
            server = self.program.server(self.keys, communicator=communicator)
            return server.run({**self.values, **sent}), server, sent

        (result, *_), *_ = found = run_ranks(ranks, work)
        assert result.digest == self.alone.digest and result.operands == self.alone.operands
        assert all(
            server.last.sent == server.rank_runs[rank].sent for rank, (_, server, _) in enumerate(found)
        )
        return [(server, sent) for _, server, sent in found]


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[int, int], list[tuple[int, bool, Any]]]:
    """Bytes that each reader read, and what was taken of operands."""
    read: dict[int, int] = {}
    taken: list[tuple[int, bool, Any]] = []
    read_into, take = Reader._read_into, OperandShare._read

    def reading(self: Reader, offset: int, target: memoryview) -> None:
        read[id(self)] = read.get(id(self), 0) + len(target)
        read_into(self, offset, target)

    def taking(self: OperandShare, is_b: bool, own: Indices | None) -> Any:
        taken.append((id(self), is_b, None if own is None else tuple(own)))
        return take(self, is_b, own)

    monkeypatch.setattr(Reader, "_read_into", reading)
    monkeypatch.setattr(OperandShare, "_read", taking)
    return read, taken


def reader_of(operand: cb.EncryptedOperand) -> Reader:
    first = operand.feeds[0][0]
    assert isinstance(first, StoredRows)
    return first.stored.reader


def own_bytes(rows: Any, kind: str, ranks: int, rank: int) -> int:
    """Of the groups of columns of a piece that a rank needs."""
    total, n = 0, rows.params.n
    for part, width in ((rows.b, rows.shape[1]), *(() if rows.seed else ((rows.a, n),))):
        shares = Shares(n, ranks)
        own = {
            REPLICATED: np.arange(width),
            COLUMNS: np.arange(width)[shares.columns(width, rank)],
            TRANSPOSED: shares.rows(width, rank),
        }[kind]
        limbs, height, _ = part.shape
        each = columns_each((width, limbs, height))
        groups = set((own // each).tolist())
        total += sum(min(each, width - group * each) for group in groups) * limbs * height * 8
    return total


@pytest.mark.parametrize("least", [1, columns.MIN_BYTES])
@pytest.mark.parametrize("name", READ)
def test_a_rank_reads_its_own_columns(
    name: str, least: int, tmp_path: Path, noted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte, with groups of one column and of more; and each rank's sums to less than all of it for each."""
    monkeypatch.setattr(columns, "MIN_BYTES", least)
    function, operands, kinds = READ[name]
    whole = InFiles(toy_rows(function, key_policy="composed", precision=1e-2, **operands), tmp_path)
    for ranks in RANKS:
        read, _ = noted
        read.clear()
        for rank, (_, sent) in enumerate(whole.on(ranks)):
            for operand, kind in kinds.items():
                reader = reader_of(sent[operand])
                header = min(info.offset for info in reader.tensors.values())
                pieces = whole.sent[operand].feeds[0]
                seeds = sum(len(one.seed or b"") for one in pieces)
                expected = sum(own_bytes(one, kind, ranks, rank) for one in pieces)
                assert read[id(reader)] == header + seeds + expected
                if ranks > 1 and least == 1 and kind != REPLICATED:
                    assert expected < sum(own_bytes(one, REPLICATED, ranks, rank) for one in pieces) * 0.7


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_taken_was_planned(name: str, tmp_path: Path, noted: Any) -> None:
    """All of it, before the run begins, and once."""
    function, operands = PROGRAMS[name]
    whole = InFiles(toy_rows(function, n=64, key_policy="composed", precision=1e-2, **operands), tmp_path)
    for ranks in RANKS:
        _, taken = noted
        taken.clear()
        found = whole.on(ranks)
        assert len(taken) == len(set(taken))
        planned = [parts for run in found[0][0].rank_runs for each in run.taken.values() for parts in each]
        assert len(taken) == sum(map(len, planned))


def test_real_parameters(tmp_path: Path, noted: Any) -> None:
    """Of a clear factor and a secret: transpositions in a secure ring take seconds, and read as those above."""
    program = cb.compile(lambda a, b: a @ b, {"a": P(24, 20), "b": S(20, 5000)}, algorithm="gemm")
    whole = InFiles(program, tmp_path)
    read, _ = noted
    read.clear()
    for rank, (_, sent) in enumerate(whole.on(2)):
        reader, pieces = reader_of(sent["b"]), whole.sent["b"].feeds[0]
        header = min(info.offset for info in reader.tensors.values())
        expected = sum(32 + own_bytes(piece, COLUMNS, 2, rank) for piece in pieces)
        assert read[id(reader)] == header + expected


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> InFiles:
    """A left operand of the secret key, a right one of the public key."""
    right = S(53, 61, encryption="public-key")
    made = toy_rows(lambda a, b: b @ a, a=S(61, 37), b=right, key_policy="composed", precision=1e-2)
    return InFiles(made, tmp_path_factory.mktemp("both"))


@pytest.fixture
def beside(both: InFiles, tmp_path: Path) -> InFiles:
    """The same with files that may be changed."""
    found = copy.copy(both)
    found.folder = tmp_path
    for name in both.sent:
        (tmp_path / name).write_bytes((both.folder / name).read_bytes())
    return found


@pytest.mark.parametrize(("name", "tensor"), [("a", "columns0"), ("b", "columns0"), ("b", "uniform0")])
def test_damaged_columns_end_the_run(beside: InFiles, name: str, tensor: str) -> None:
    """With an error that names the file; one process refuses the file before it runs."""
    path = beside.folder / name
    info = reader_of(beside.loaded(name)).tensors[f"feed0.{tensor}"]
    content = bytearray(path.read_bytes())
    content[info.offset + info.nbytes - 1] ^= 1  # of the last columns
    path.write_bytes(content)
    with pytest.raises(cb.FormatError, match=rf"{path} is damaged: the checksum of part .*'feed0.{tensor}'"):
        beside.on(2)
    with pytest.raises(cb.FormatError, match=rf"{path} is damaged: the checksum of tensor"):
        beside.loaded(name, lazy=False)


def rewritten(whole: InFiles, name: str, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
    """The file of an operand with other header fields or tensors, and digests that fit."""
    header, tensors = files.read(whole.folder / name, "ciphertext", insecure=True, security=0)
    del header["parameters"]
    change(header, tensors)
    parameters = whole.program.plan.parameters
    files.write(whole.folder / name, "ciphertext", header, tensors, parameters=parameters)


def test_residues_are_checked_where_they_are_read(beside: InFiles) -> None:
    def change(header: dict[str, Any], tensors: dict[str, Any]) -> None:
        for name in ("feed0.columns0", "feed0.uniform0"):
            tensors[name][0, 0, 0] = 1 << 63
            header["parts"][name] = files.part_digests(tensors[name], columns_each(tensors[name].shape))

    rewritten(beside, "b", change)
    (rows,) = beside.loaded("b").feeds[0]
    assert isinstance(rows, StoredRows)
    first, second = np.arange(1), np.arange(20, 21)
    for columns_of in (rows.a_columns, rows.b_columns):
        columns_of(second)
        with pytest.raises(cb.FormatError, match=rf"{beside.folder / 'b'}.*not below its modulus"):
            columns_of(first)


def test_a_file_that_became_shorter(beside: InFiles) -> None:
    (rows,) = beside.loaded("a").feeds[0]
    assert isinstance(rows, StoredRows)
    with open(beside.folder / "a", "r+b") as stream:
        stream.truncate(rows.stored.reader.tensors["feed0.columns0"].offset + 8)
    with pytest.raises(cb.StorageError, match="became shorter"):
        rows.b_columns(np.arange(rows.shape[1]))


def test_files_of_earlier_versions(beside: InFiles) -> None:
    """Rows one after the other, without digests of columns: read whole, with the same results."""

    def change(header: dict[str, Any], tensors: dict[str, Any]) -> None:
        del header["parts"]
        for new, old in (("feed0.columns0", "feed0.rows0"), ("feed0.uniform0", "feed0.a0")):
            if new in tensors:
                tensors[old] = by_rows(tensors.pop(new))

    for name in beside.sent:
        rewritten(beside, name, change)
        assert isinstance(beside.loaded(name).feeds[0][0], CoefficientMatrix)
        assert beside.loaded(name).digest == beside.sent[name].digest
    beside.on(2)


@pytest.mark.parametrize("room", [0, 4, 12])
def test_headers_have_room_for_some_digests(
    beside: InFiles, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of none, of one part of b, of both."""
    monkeypatch.setattr(stored, "MAX_PARTS", room)
    for name, operand in beside.sent.items():
        operand.save(beside.folder / name)
    beside.on(2)


@pytest.mark.parametrize("case", range(4))
def test_digests_that_do_not_fit(beside: InFiles, case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few, too many, of other columns, of a tensor that has none."""
    right = stored.digests_of

    def wrong(*args: Any) -> dict[str, list[str]]:
        found = right(*args)
        each = found["feed0.columns0"]
        changed = (each[:-1], [*each, each[0]], each[::-1], each)[case]
        return {**found, ("feed1.columns0" if case == 3 else "feed0.columns0"): changed}

    monkeypatch.setattr(messages, "digests_of", wrong)
    beside.sent["a"].save(beside.folder / "a")
    with pytest.raises(cb.FormatError):
        beside.on(2)


def test_stored_rows_are_those_that_were_sent(both: InFiles) -> None:
    for name, sent in both.sent.items():
        operand = both.loaded(name)
        assert (operand.digest, operand.nbytes, operand.encryption) == (
            sent.digest,
            sent.nbytes,
            sent.encryption,
        )
        for one in (operand, copy.deepcopy(operand), pickle.loads(pickle.dumps(operand))):
            for rows, expected in zip(one.feeds[0], sent.feeds[0], strict=True):
                assert isinstance(rows, StoredRows) == (one is operand)
                np.testing.assert_array_equal(rows.a, expected.a)  # type: ignore[union-attr]
                np.testing.assert_array_equal(rows.b, expected.b)  # type: ignore[union-attr]
    sent = {name: both.loaded(name) for name in both.sent}
    assert both.program.server(both.keys).run(sent).digest == both.alone.digest
