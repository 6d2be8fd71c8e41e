"""A rank reads its own blocks of an operand's file, each checked by itself; files without digests of blocks whole."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto import files
from cipherblas.crypto.keys import StoredCiphertext
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.cuts import cut_of
from cipherblas.distributed.in_process import run_ranks
from cipherblas.distributed.ranks import PER_OFFSET
from cipherblas.distributed.slots import DISTRIBUTIONS
from cipherblas.roles.wire import messages, stored
from tests.distributed.test_slots_on_ranks import InBlocks

SHAPE = (24, 19, 8)  # 3 × 1 × 3 blocks


@pytest.fixture(scope="module", params=["secret-key skewed", "public-key skewed", "secret-key fhe-mm"])
def whole(request: pytest.FixtureRequest) -> InBlocks:
    encryption, algorithm = request.param.split()
    return InBlocks(SHAPE, algorithm, encryption)


@pytest.fixture(scope="module")
def folder(whole: InBlocks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("blocks")
    for name, operand in whole.sent.items():
        operand.save(found / name)
    return found


def loaded(folder: Path, **options: Any) -> dict[str, cb.EncryptedOperand]:
    return {
        name: cb.EncryptedOperand.load(folder / name, insecure=True, **{"lazy": True, **options})
        for name in "ab"
    }


def parts_of(operand: cb.EncryptedOperand) -> Any:
    """The tensor in the file that its ciphertexts are read from."""
    first: Any = operand.feeds[0][0]
    return first._read.func.__self__


def on_files(whole: InBlocks, folder: Path, ranks: int, sharing: Any) -> list[tuple[Any, Any, Any]]:
    """Of each rank its result, its server and its operands, which it has opened itself."""

    def work(communicator: Communicator) -> tuple[Any, Any, Any]:
        sent = loaded(folder)
        server = whole.program.server(whole.keys, communicator=communicator, sharing=sharing)
        return server.run(sent), server, sent

    return run_ranks(ranks, work)


@pytest.mark.parametrize("sharing", DISTRIBUTIONS)
def test_a_rank_reads_its_own_blocks(
    whole: InBlocks, folder: Path, sharing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once; in 4D-B those that it prepares."""
    if sharing in PER_OFFSET and whole.program.plan.algorithm != "fhe-mm":
        with pytest.raises(cb.ParameterError, match="4d-b"):
            on_files(whole, folder, 3, sharing)
        return
    read: list[tuple[int, int]] = []
    plain = stored.StoredParts.read

    def noted(self: stored.StoredParts, index: int) -> Any:
        read.append((id(self.reader), index))
        return plain(self, index)

    monkeypatch.setattr(stored.StoredParts, "read", noted)
    ranks = 9 if sharing == "t3d" else 3
    found = on_files(whole, folder, ranks, sharing)
    assert found[0][0].digest == whole.alone.digest
    cut = cut_of(whole.blocks, ranks, 8, sharing)
    seen: dict[str, list[int]] = {"a": [], "b": []}
    for rank, (_, server, sent) in enumerate(found):
        products = list(cut.products(rank)) if rank < cut.grid.volume else []
        needed = {"a": {3 * i + t for i, _, t in products}, "b": {t for _, _, t in products}}
        for name, operand in sent.items():
            own = [index for reader, index in read if reader == id(parts_of(operand).reader)]
            assert len(own) == len(set(own)) and set(own) <= needed[name]
            assert sharing == "4d-b" or set(own) == needed[name]
            seen[name] += own
        used = server.rank_runs[rank].used
        assert sorted(len(places) for places in used.values()) == sorted(
            sum(reader == id(parts_of(operand).reader) for reader, _ in read)
            for operand in sent.values()
            if products
        )
    assert set(seen["a"]) == set(range(9)) and set(seen["b"]) == set(range(3))
    if sharing == "4d-b":
        assert sorted(seen["a"]) == list(range(9)) and sorted(seen["b"]) == list(range(3))


def test_what_is_no_product_is_read_where_it_is_used(tmp_path: Path) -> None:
    """By every rank."""
    from tests.support.runs import toy, values_of

    program = toy(
        lambda a, b: (a * a) @ b, a=cb.secret(8, 8), b=cb.secret(8, 8), form="blocks", precision=1e-2
    )
    client = program.client()
    sent, keys = client.encrypt(values_of(program)), client.evaluation_keys()
    for name, operand in sent.items():
        operand.save(tmp_path / name)

    def work(communicator: Communicator) -> Any:
        return program.server(keys, communicator=communicator).run(loaded(tmp_path))

    assert run_ranks(2, work)[0].digest == program.server(keys).run(sent).digest


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_damaged_block_ends_the_run(whole: InBlocks, folder: Path, tmp_path: Path, name: str) -> None:
    """On all ranks, with an error of the file; one process refuses the file before it runs."""
    for other in "ab":
        (tmp_path / other).write_bytes((folder / other).read_bytes())
    parts = parts_of(loaded(folder)[name])
    info = parts.reader.tensors[parts.name]
    content = bytearray((folder / name).read_bytes())
    content[info.offset + info.nbytes - 1] ^= 1  # of the last block
    (tmp_path / name).write_bytes(content)
    with pytest.raises(cb.FormatError, match=rf"checksum of part \d of tensor '{parts.name}'"):
        on_files(whole, tmp_path, 2, "4d-s")
    with pytest.raises(cb.FormatError, match="checksum of tensor"):
        loaded(tmp_path, lazy=False)


def test_a_file_that_became_shorter(whole: InBlocks, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes((folder / "a").read_bytes())
    operand = cb.EncryptedOperand.load(tmp_path / "a", insecure=True, lazy=True)
    with open(tmp_path / "a", "r+b") as stream:
        stream.truncate(parts_of(operand).reader.tensors["feed0.data"].offset + 8)
    with pytest.raises(cb.StorageError, match="became shorter"):
        operand.feeds[0][-1].expand()  # type: ignore[union-attr]


def test_files_without_digests_of_blocks(
    whole: InBlocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of earlier versions, and of very many blocks: read whole, with the same results."""
    monkeypatch.setattr(messages, "parted", lambda feeds: [])
    for name, operand in whole.sent.items():
        operand.save(tmp_path / name)
        again = cb.EncryptedOperand.load(tmp_path / name, insecure=True, lazy=True)
        assert not any(isinstance(ct, StoredCiphertext) for ct in again.feeds[0])
        with files.Reader(tmp_path / name, "ciphertext", insecure=True) as reader:
            assert "parts" not in reader.header

    def work(communicator: Communicator) -> Any:
        return whole.program.server(whole.keys, communicator=communicator).run(loaded(tmp_path))

    assert run_ranks(2, work)[0].digest == whole.alone.digest


def wrong(digests: dict[str, list[str]]) -> Sequence[Any]:
    (name,) = digests
    each = digests[name]
    return (
        {name: each[:-1]},
        {name: [*each, each[0]]},
        {"feed7.data": each},
        {name: [each[1], each[0], *each[2:]]},
        {name: "text"},
        {name: [1, *each[1:]]},
        [each],
    )


@pytest.mark.parametrize("case", range(7))
def test_digests_that_do_not_fit(
    whole: InBlocks, tmp_path: Path, case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too few, too many, of no tensor, of other blocks, no texts: refused when the file is opened, or a block read."""
    right = stored.digests_of
    monkeypatch.setattr(messages, "digests_of", lambda *args: wrong(right(*args))[case])
    whole.sent["a"].save(tmp_path / "a")
    with pytest.raises(cb.FormatError):
        pickle.dumps(cb.EncryptedOperand.load(tmp_path / "a", insecure=True, lazy=True))  # reads all


def test_stored_ciphertexts_are_those_that_were_sent(whole: InBlocks, folder: Path) -> None:
    for name, operand in loaded(folder).items():
        sent = whole.sent[name]
        assert all(isinstance(ct, StoredCiphertext) for ct in operand.feeds[0])
        assert (operand.digest, operand.nbytes, operand.encryption) == (
            sent.digest,
            sent.nbytes,
            sent.encryption,
        )
        again = copy.deepcopy(operand), pickle.loads(pickle.dumps(operand))
        for one in (operand, *again):
            for ct, expected in zip(one.feeds[0], sent.feeds[0], strict=True):
                np.testing.assert_array_equal(ct.expand(), expected.expand())  # type: ignore[union-attr]
        assert not any(isinstance(ct, StoredCiphertext) for one in again for ct in one.feeds[0])
        with pytest.raises(cb.FormatError, match="lacks a part"):
            parts_of(operand).reader.read_part("feed0.data", len(operand.feeds[0]), "")
