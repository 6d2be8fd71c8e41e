"""Files: what is written is read back, and what cannot be written is refused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from cipherblas.common.errors import FormatError, InsecureParametersWarning, ParameterError
from cipherblas.crypto import files
from cipherblas.crypto.files import format as form
from cipherblas.crypto.params import Parameters
from tests.support.file_samples import TOY, assert_equal, tensors, write

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")


def test_round_trip(tmp_path: Path) -> None:
    write(tmp_path / "x.ct")
    header, found = files.read(tmp_path / "x.ct", "ciphertext", fingerprint=TOY.fingerprint(), insecure=True)
    assert_equal(found, tensors())
    assert header["program_id"] == "abc"
    assert header["names"] == ["x"]
    assert header["kind"] == "ciphertext"
    assert header["fingerprint"] == TOY.fingerprint()
    assert header["format_version"] == files.FORMAT_VERSION
    assert header["security"] == 0
    assert Parameters.from_dict(header["parameters"], insecure=True) == TOY
    assert all(array.ctypes.data % 64 == 0 for array in found.values() if array.size)


def test_any_safetensors_program_reads_our_files(tmp_path: Path) -> None:
    write(tmp_path / "x.ct")
    assert_equal(load_file(tmp_path / "x.ct"), tensors())


def test_insecure_parameters_are_stamped_and_warn(tmp_path: Path) -> None:
    write(tmp_path / "x.ct")
    with safetensors_metadata(tmp_path / "x.ct") as metadata:
        assert metadata["security"] == "0"
    with pytest.warns(InsecureParametersWarning):
        files.read(tmp_path / "x.ct", "ciphertext", insecure=True)


class safetensors_metadata:
    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        self.metadata = json.loads(raw[8 : 8 + length])["__metadata__"]

    def __enter__(self) -> dict[str, str]:
        return self.metadata

    def __exit__(self, *details: object) -> None:
        pass


@given(
    shapes=st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=4),
    dtype=st.sampled_from(sorted(form.DTYPES)),
    header=st.dictionaries(
        st.text(max_size=8).filter(lambda name: name not in {"parameters", *form.ENTRIES, "format_version"}),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        max_size=4,
    ),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip_of_anything(
    tmp_path: Path, shapes: list[list[int]], dtype: str, header: dict[str, Any]
) -> None:
    generator = np.random.default_rng(1)
    expected = {
        f"t{index}": generator.integers(0, 100, shape).astype(form.DTYPES[dtype])
        for index, shape in enumerate(shapes)
    }
    files.write(tmp_path / "x", "program", header, expected, parameters=TOY)
    found_header, found = files.read(tmp_path / "x", "program", insecure=True)
    assert_equal(found, expected)
    assert {name: found_header[name] for name in header} == header


def test_strided_arrays_are_written_as_they_read(tmp_path: Path) -> None:
    whole = np.arange(4 * 2 * 3 * 16, dtype=np.uint64).reshape(4, 2, 3, 16)
    strided = {"b": whole[:, 0], "columns": whole[0, 0].T, "every": whole[0, 0, 0][::3]}
    files.write(tmp_path / "x", "evaluation-keys", {}, strided, parameters=TOY)
    assert_equal(files.read(tmp_path / "x", "evaluation-keys", insecure=True)[1], strided)


def test_large_tensors_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "BLOCK_BYTES", 1000)
    expected = {"b": np.random.default_rng(2).integers(0, 2**60, (3, 1001), np.uint64)}
    files.write(tmp_path / "x", "ciphertext", {}, expected, parameters=TOY)
    assert_equal(files.read(tmp_path / "x", "ciphertext", insecure=True)[1], expected)


def test_reading_one_tensor(tmp_path: Path) -> None:
    write(tmp_path / "x.ct")
    with files.Reader(tmp_path / "x.ct", "ciphertext", insecure=True) as reader:
        np.testing.assert_array_equal(reader.read("b"), tensors()["b"])
        with pytest.raises(FormatError, match="lacks"):
            reader.read("c")
        with pytest.raises(FormatError, match="uint64"):
            reader.expect("b", np.uint64, (2, 3, 17))
        reader.expect("b", np.uint64, (2, 3, 16))


@pytest.mark.parametrize(
    ("kind", "header", "content"),
    [
        ("pickle", {}, {}),
        ("program", {"f": float("nan")}, {}),
        ("program", {"f": object()}, {}),
        ("program", {"f": "x" * (1 << 24)}, {}),
        ("program", {}, {"t": np.zeros(3, complex)}),
        ("program", {}, {"t": np.array([None])}),
        ("program", {}, {"t": np.zeros(3, ">u8")}),
        ("program", {}, {"t": [1, 2]}),
        ("program", {}, {"__metadata__": np.zeros(3)}),
        ("program", {}, {"t": np.zeros((1,) * 9)}),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, kind: str, header: dict[str, Any], content: Any) -> None:
    with pytest.raises(ParameterError):
        files.write(tmp_path / "x", kind, header, content, parameters=TOY)
    assert list(tmp_path.iterdir()) == []


def test_parameters_are_required(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="parameters"):
        files.write(tmp_path / "x", "program", {}, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        files.write(tmp_path / "x", "program", {"parameters": TOY.to_dict()}, {})
    assert files.read(tmp_path / "x", "program", insecure=True)[0]["fingerprint"] == TOY.fingerprint()
