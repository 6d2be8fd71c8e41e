"""Encrypted matrices in files of kind "encrypted-matrix"."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from cipherblas import files, randomness
from cipherblas.errors import CipherblasError, FormatError, MismatchError, RangeError
from cipherblas.formats.matrix import CoefficientMatrix, checked_scale, checked_shape
from cipherblas.memory import check_memory
from cipherblas.params import Parameters

KIND = "encrypted-matrix"

Matrix = TypeVar("Matrix", bound=CoefficientMatrix)


def save(matrix: CoefficientMatrix, path: files.PathLike) -> None:
    """Write a matrix; a fresh one with its seed instead of the a part."""
    header = {
        "format": matrix.NAME,
        "shape": list(matrix.shape),
        "scale": matrix.scale,
        "key_id": matrix.key_id,
    }
    tensors = {"b": matrix.b}
    if isinstance(matrix.uniform, bytes):
        tensors["seed"] = np.frombuffer(matrix.uniform, np.uint8)
    else:
        tensors["a"] = matrix.uniform
    files.write(path, KIND, header, tensors, parameters=matrix.params)


def load(
    format_: type[Matrix],
    path: files.PathLike,
    params: Parameters | None,
    security: int,
    insecure: bool,
) -> Matrix:
    """Read a matrix of the given format; see `CoefficientMatrix.load`."""
    fingerprint = None if params is None else params.fingerprint()
    with files.Reader(path, KIND, fingerprint=fingerprint, security=security, insecure=insecure) as reader:
        found = reader.text("format")
        if found != format_.NAME:
            raise MismatchError(
                f"{reader.path} holds another format", expected=format_.NAME or "a format", got=found
            )
        key_id = reader.text("key_id")
        shape, scale = _described(reader, format_)
        limbs = _expect_tensors(reader, format_, shape)
        check_memory(sum(info.nbytes for info in reader.tensors.values()), f"reading {reader.path}")
        b = reader.read("b")
        uniform = reader.read("seed").tobytes() if "seed" in reader.tensors else reader.read("a")
        matrix = format_(reader.parameters, shape, scale, b, uniform, key_id)
        assert matrix.limbs == limbs
        try:
            matrix.check_residues()
        except RangeError as error:
            raise FormatError(f"{reader.path}: {error}") from error
        return matrix


def _described(reader: files.Reader, format_: type[CoefficientMatrix]) -> tuple[tuple[int, int], float]:
    """Shape and scale of the header, checked."""
    shape: Any = reader.header.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise FormatError(f"{reader.path}: shape", expected="two whole numbers", got=shape)
    try:
        checked = checked_shape(shape)  # type: ignore[arg-type]
        scale = checked_scale(reader.header.get("scale"))  # type: ignore[arg-type]
        format_.check_shape(reader.parameters, checked)
    except CipherblasError as error:
        raise FormatError(f"{reader.path}: {error}") from error
    return checked, scale


def _expect_tensors(reader: files.Reader, format_: type[CoefficientMatrix], shape: tuple[int, int]) -> int:
    """Raise FormatError unless the tensors are those of this format and shape; return the number of limbs."""
    names = set(reader.tensors)
    if names not in ({"a", "b"}, {"seed", "b"}):
        raise FormatError(f"{reader.path}: tensors", expected="b, and a or seed", got=sorted(names))
    params = reader.parameters
    found = reader.tensors["b"].shape
    limbs = found[0] if len(found) == 3 and 1 <= found[0] <= params.limbs else 0
    if limbs == 0:
        raise FormatError(
            f"{reader.path}: tensor 'b'", expected=f"(1 to {params.limbs} limbs, rows, width)", got=found
        )
    reader.expect("b", np.uint64, (limbs, *format_.b_shape(shape)))
    if "seed" in names:
        reader.expect("seed", np.uint8, (randomness.SEED_BYTES,))
    else:
        reader.expect("a", np.uint64, (limbs, format_.a_rows(params, shape), params.n))
    return limbs
