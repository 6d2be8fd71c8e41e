"""Reading IDX files: what was written comes back, and what is damaged is refused."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import cipherblas as cb
from classification.idx import read_idx
from classification.images import load_digits, load_folder, split


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_set(
    folder: Path, name: str, pixels: np.ndarray, digits: np.ndarray, *, packed: bool = False
) -> None:
    for kind, array in (("images-idx3-ubyte", pixels), ("labels-idx1-ubyte", digits)):
        content = idx_bytes(array.astype(np.uint8))
        path = folder / f"{name}-{kind}{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content) if packed else content)


@given(
    array=arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=3, max_side=9)),
    packed=st.booleans(),
)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, packed: bool) -> None:
    path = tmp_path_factory.mktemp("idx") / "array"
    content = idx_bytes(array)
    path.write_bytes(gzip.compress(content) if packed else content)
    found = read_idx(path, array.ndim)
    assert found.shape == array.shape
    np.testing.assert_array_equal(found, array)


@given(data=st.data(), packed=st.booleans())
def test_every_truncation_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, packed: bool
) -> None:
    path = tmp_path_factory.mktemp("idx") / "array"
    content = idx_bytes(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
    content = gzip.compress(content, mtime=0) if packed else content
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(cb.FormatError, match=r"truncated|damaged"):
        read_idx(path, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PNG...", "no IDX file .expected two zero bytes first, got 504e"),
        (b"\0\0\x0d\1" + bytes(8), "expected 0x08, unsigned bytes, got 0x0d"),
        (idx_bytes(np.zeros((2, 2), np.uint8)), "another number of dimensions .expected 1, got 2"),
        (idx_bytes(np.zeros(3, np.uint8)) + b"\0", "expected 3 bytes of content, got more"),
        (struct.pack(">HBBI", 0, 8, 1, 0), "expected 1 to 1073741824 entries"),
        (struct.pack(">HBBI", 0, 8, 1, 0xFFFFFFFF), "expected 1 to 1073741824 entries"),
        (gzip.compress(idx_bytes(np.arange(99, dtype=np.uint8)))[:-9] + bytes(9), "damaged"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(cb.FormatError, match=message):
        read_idx(tmp_path / "file", 1)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(cb.StorageError, match=r"Cannot read .*missing .expected an IDX file"):
        read_idx(tmp_path / "missing", 1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(cb.StorageError, match="got a special file"):
        read_idx(tmp_path / "pipe", 1)
    (tmp_path / "pipe").unlink()
    with pytest.raises(cb.StorageError, match="no images"):
        load_folder(tmp_path)


def test_folder(tmp_path: Path) -> None:
    """Training images come first; pixels go to columns of [-1/2, 1/2]."""
    random = np.random.default_rng(4)
    first, second = random.integers(0, 256, (30, 4, 5)), random.integers(0, 256, (20, 4, 5))
    digits = np.arange(50) % 10
    write_set(tmp_path, "t10k", second, digits[30:], packed=True)
    write_set(tmp_path, "train", first, digits[:30])
    found = load_folder(tmp_path)
    assert found.side == (4, 5)
    np.testing.assert_array_equal(found.digits, digits)
    np.testing.assert_array_equal(found.pixels, np.vstack([first, second]).reshape(50, 20).T / 255 - 0.5)
    training, testing = split(found, 12)
    np.testing.assert_array_equal(np.hstack([training.pixels, testing.pixels]), found.pixels)
    assert len(testing.digits) == 12


def test_folder_faults(tmp_path: Path) -> None:
    pixels, digits = np.zeros((20, 2, 2)), np.arange(20) % 10
    write_set(tmp_path, "t10k", pixels, digits[:19])
    with pytest.raises(cb.MismatchError, match="expected 20, got 19"):
        load_folder(tmp_path)
    write_set(tmp_path, "t10k", pixels, digits + 1)
    with pytest.raises(cb.RangeError, match="expected 0 to 9, got 10"):
        load_folder(tmp_path)
    write_set(tmp_path, "t10k", pixels, digits)
    write_set(tmp_path, "train", np.zeros((20, 3, 2)), digits)
    with pytest.raises(cb.MismatchError, match="The images differ in size"):
        load_folder(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(cb.StorageError, match="expected images and labels, got train-images-idx3-ubyte"):
        load_folder(tmp_path)


def test_split_faults() -> None:
    digits = load_digits()
    assert digits.pixels.shape == (64, 1797) and np.abs(digits.pixels).max() == 0.5
    with pytest.raises(cb.FormatError, match="got 1000"):
        split(digits, 1000)
    with pytest.raises(cb.FormatError, match="all of 0 to 9"):
        split(digits.part(0, 6), 1)
