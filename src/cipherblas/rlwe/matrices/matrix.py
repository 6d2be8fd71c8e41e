"""What all encrypted matrices in coefficient form share: two arrays of residues, and linear operations on them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.errors import (
    CipherblasError,
    DTypeError,
    FormatError,
    MismatchError,
    ParameterError,
    RangeError,
    ShapeError,
)
from cipherblas.common.memory import Array, aligned_empty, check_memory
from cipherblas.common.pickles import Rebuilt
from cipherblas.crypto import files, randomness
from cipherblas.crypto.params import Parameters
from cipherblas.rlwe.basis import Basis, FirstLimbs
from cipherblas.rlwe.matrices.uniform import expand

MAX_DIMENSION = 1 << 31  # rows or columns: stream indices have 32 bits for a row

KIND = "encrypted-matrix"

Matrix = TypeVar("Matrix", bound="CoefficientMatrix")


def bit_ceil(count: int) -> int:
    """Return the least power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()


def stride_of(length: int, size: int) -> int:
    """Return the distance, among `size` coefficients, between neighbouring entries of a row of `length` entries."""
    return size // bit_ceil(length)


@dataclass(frozen=True, eq=False)
class CoefficientMatrix(files.InMemory, Rebuilt):
    """An encrypted matrix as two arrays of residues modulo q_0, q_1, …, limb major, in the coefficient domain.

    Row i decrypts as b_i + a·s, taken at the coefficients that are stored, over `scale`; which a, which secret and
    which coefficients is what the subclasses differ in. So U·(a, b) mod q decrypts to U·M for every clear U.

    Attributes:
        params: the parameters it was made with.
        shape: rows × columns of the plain matrix.
        scale: message = scale · matrix; any positive number.
        b: uint64 (limbs, b rows, width).
        uniform: the a part, uint64 (limbs, a rows, N), or its 32-byte public seed when fresh; see `a`.
        key_id: the key pair it was encrypted with, or "".

    Raises:
        ShapeError, DTypeError: an array does not fit the shape, or is not C-contiguous uint64.
        ParameterError: more limbs than the parameters have, a seed or scale that is none.
    """

    params: Parameters
    shape: tuple[int, int]
    scale: float
    b: Array = field(repr=False)
    uniform: Array | bytes = field(repr=False)
    key_id: str = ""

    NAME: ClassVar[str] = ""  # in files
    ONE_A_PART: ClassVar[bool] = False  # for all rows

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(self, "scale", checked_scale(self.scale))
        self.check_shape(self.params, self.shape)
        rows, width = self.b_shape(self.shape)
        limbs = self.b.shape[0] if self.b.ndim == 3 else 0
        _check_array(self.b, (limbs, rows, width), "b part")
        self.check_moduli(self.params, limbs)
        if isinstance(self.uniform, bytes):
            if len(self.uniform) != randomness.SEED_BYTES:
                raise ParameterError(
                    "The seed has the wrong length.",
                    expected=f"{randomness.SEED_BYTES} bytes",
                    got=f"{len(self.uniform)} bytes",
                )
        else:
            _check_array(self.uniform, (limbs, self.a_rows(self.params, self.shape), self.params.n), "a part")

    # What a format defines.

    @classmethod
    def check_shape(cls, params: Parameters, shape: tuple[int, int]) -> None:
        """Raise ShapeError unless the format can hold a matrix of this shape."""

    @classmethod
    def b_shape(cls, shape: tuple[int, int]) -> tuple[int, int]:
        """Rows and width of the b part: those of the matrix, unless it lies transposed."""
        return shape

    @classmethod
    def a_rows(cls, params: Parameters, shape: tuple[int, int]) -> int:
        """Rows of the a part; one per row of b, unless rows share it."""
        return cls.b_shape(shape)[0]

    @classmethod
    def own_secrets(cls, params: Parameters, shape: tuple[int, int]) -> int:
        """Secrets, derived from the key, that a matrix of this shape is under; none: it is under the key itself."""
        return 0

    @classmethod
    def check_moduli(cls, params: Parameters, residues: int) -> None:
        """Raise ParameterError unless the format can have so many residues of an entry."""
        params.check_limbs(residues)

    @classmethod
    def basis_of(cls, residues: int) -> Basis:
        """The moduli of so many residues."""
        return FirstLimbs(residues)

    # What all have.

    @property
    def kind(self) -> type[CoefficientMatrix]:
        """Its class, wherever it lies."""
        return type(self)

    @property
    def extent(self) -> tuple[int, ...]:
        """Words of an entry first."""
        return int(self.b.shape[0]), *self.shape

    @property
    def basis(self) -> Basis:
        """The moduli of its residues."""
        return self.basis_of(int(self.b.shape[0]))

    @property
    def limbs(self) -> int:
        """Number of limbs.

        Raises:
            LevelError: its moduli are those of operands.
        """
        return self.basis.limbs

    @property
    def seed(self) -> bytes | None:
        """The public seed of the a part, or None when it is not fresh."""
        return self.uniform if isinstance(self.uniform, bytes) else None

    @functools.cached_property
    def a(self) -> Array:
        """The a part, uint64 (limbs, a rows, N); expanded from the seed at the first use, and kept."""
        if isinstance(self.uniform, bytes):
            return expand(self.params, self.uniform, self.basis, self.a_rows(self.params, self.shape))
        return self.uniform

    def a_columns(self, columns: NDArray[np.int64]) -> Array:
        """Some columns of the a part; of a seed that was not expanded no others are kept."""
        if isinstance(self.uniform, bytes) and "a" not in vars(self):
            rows = self.a_rows(self.params, self.shape)
            return expand(self.params, self.uniform, self.basis, rows, columns)
        return _taken(self.a, columns)

    def b_columns(self, columns: NDArray[np.int64]) -> Array:
        """Some columns of the b part."""
        return _taken(self.b, columns)

    @property
    def nbytes(self) -> int:
        """Bytes that travel: the b part, and the a part or its seed."""
        return self.b.nbytes + (len(self.uniform) if isinstance(self.uniform, bytes) else self.uniform.nbytes)

    def check_residues(self) -> None:
        """Raise RangeError unless all residues are below their moduli."""
        check_residues(self.params, self.b, self.basis)
        if not isinstance(self.uniform, bytes):
            check_residues(self.params, self.uniform, self.basis)

    def _check_arrived(self) -> None:
        self.check_residues()

    def add(self: Matrix, other: Matrix) -> Matrix:
        """The sum: of the same type, shape, scale, limbs and key pair. The errors add.

        Raises:
            MismatchError, ShapeError: the operands do not fit each other.
        """
        self._check_same(other)
        context = self.params.context()
        return replace(self, b=context.add_limbs(self.b, other.b), uniform=context.add_limbs(self.a, other.a))

    def sub(self: Matrix, other: Matrix) -> Matrix:
        """The difference; as `add`."""
        self._check_same(other)
        context = self.params.context()
        return replace(self, b=context.sub_limbs(self.b, other.b), uniform=context.sub_limbs(self.a, other.a))

    def times(self: Matrix, factor: int | float) -> Matrix:
        """The matrix times a number.

        An int multiplies the residues, and with them the error. A float changes the scale alone, at no cost (and the
        sign of the residues, if it is negative): in units of the matrix the error is multiplied too.

        Raises:
            DTypeError: not a real number.
            RangeError: a float that is NaN, infinite or 0, or leaves no finite scale.
        """
        if isinstance(factor, bool) or not isinstance(factor, (int, float, np.integer, np.floating)):
            raise DTypeError(
                "The factor must be a real number.", expected="a real number", got=type(factor).__name__
            )
        if isinstance(factor, (int, np.integer)):
            return self._times_integer(int(factor))
        size = abs(float(factor))
        scale = self.scale / size if size else math.inf
        if not 0 < scale < math.inf:
            raise RangeError(
                "The factor must leave a finite scale above 0.",
                expected="a float that leaves the scale finite and not 0",
                got=factor,
            )
        return replace(self if factor > 0 else self._times_integer(-1), scale=scale)

    def _times_integer(self: Matrix, factor: int) -> Matrix:
        context = self.params.context()
        return replace(
            self, b=context.scale_limbs(self.b, factor), uniform=context.scale_limbs(self.a, factor)
        )

    def drop(self: Matrix, limbs: int) -> Matrix:
        """The first `limbs` limbs alone: the same message modulo fewer primes. No copy is made.

        Raises:
            ParameterError: there are fewer.
        """
        if not 1 <= limbs <= self.limbs:
            raise ParameterError(
                "The matrix cannot keep so many limbs.", expected=f"1 to {self.limbs}", got=limbs
            )
        if limbs == self.limbs:
            return self
        uniform = self.uniform if isinstance(self.uniform, bytes) else self.uniform[:limbs]
        return replace(self, b=self.b[:limbs], uniform=uniform)

    def _check_same(self, other: CoefficientMatrix) -> None:
        if type(other) is not type(self):
            raise MismatchError(
                "The two matrices have different formats.",
                expected=type(self).__name__,
                got=type(other).__name__,
            )
        check_stackable([self, other])
        if other.shape != self.shape:
            raise ShapeError("The two matrices have different shapes.", expected=self.shape, got=other.shape)

    def save(self, path: files.Target) -> None:
        """Write to a file of kind "encrypted-matrix", atomically; a fresh one stores the seed.

        Raises:
            StorageError: the system refuses.
        """
        _save(self, path)

    @classmethod
    def load(
        cls: type[Matrix],
        path: files.Source,
        *,
        security: int = 128,
        insecure: bool = False,
    ) -> Matrix:
        """Read what `save` wrote.

        Args:
            path: the file, its bytes, or a stream of them.
            security: bits that its parameters must have: 128, 192 or 256.
            insecure: accept less; below 128 bits with a warning.

        Raises:
            FormatError, VersionError, SecurityError, StorageError, MemoryBudgetError: as `files.read`.
            MismatchError: another kind of file or format.
        """
        return _load(cls, path, security, insecure)


def _taken(part: Array, columns: NDArray[np.int64]) -> Array:
    found = aligned_empty((*part.shape[:2], len(columns)))
    np.take(part, columns, axis=2, out=found, mode="clip")
    return found


def check_residues(params: Parameters, residues: Array, basis: Basis) -> None:
    """Raise RangeError unless all residues, limb major, are below their moduli."""
    if basis.of_operands:
        moduli = list(params.operand_moduli or ())
        for number, word in enumerate(residues):
            if word.size and not _core.are_operands(np.ascontiguousarray(word), moduli, number):
                raise RangeError(
                    f"A residue of an operand, in word {number}, is not below its modulus.",
                    expected=f"bytes below {', '.join(map(str, moduli))}",
                    got="others",
                )
        return
    for number, (limb, modulus) in enumerate(zip(residues, basis.moduli(params), strict=True)):
        largest = int(limb.max(initial=0))
        if largest >= modulus:
            raise RangeError(
                f"A residue of limb {number} is not below its modulus.",
                expected=f"below {modulus}",
                got=largest,
            )


def checked_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """Two positive dimensions, as ints; ShapeError otherwise."""
    sizes = tuple(shape)
    if len(sizes) != 2 or not all(1 <= size < MAX_DIMENSION for size in sizes):
        raise ShapeError(
            f"A matrix must have two dimensions from 1 to {MAX_DIMENSION - 1}.",
            expected=f"two dimensions from 1 to {MAX_DIMENSION - 1}",
            got=sizes,
        )
    return int(sizes[0]), int(sizes[1])


def checked_scale(scale: float) -> float:
    """A positive finite float; ParameterError otherwise."""
    if isinstance(scale, bool) or not isinstance(scale, (int, float, np.integer, np.floating)):
        raise ParameterError("The scale must be a number.", got=type(scale).__name__)
    if not 0 < scale < math.inf:
        raise ParameterError(
            "The scale must be finite and above 0.", expected="finite and above 0", got=scale
        )
    return float(scale)


def _check_array(array: Array, shape: tuple[int, int, int], what: str) -> None:
    if array.shape != shape:
        raise ShapeError(
            f"The {what} has the wrong shape.", expected=f"(limbs, {shape[1]}, {shape[2]})", got=array.shape
        )
    if array.dtype != np.uint64 or not array.flags.c_contiguous:
        raise DTypeError(
            f"The {what} must be an array of C-contiguous uint64.",
            expected="C-contiguous uint64",
            got=array.dtype,
        )


def check_stackable(matrices: list[CoefficientMatrix]) -> None:
    """Raise MismatchError unless parameters, key pairs, limbs and scales agree."""
    first = matrices[0]
    for other in matrices[1:]:
        pairs = [
            ("parameters", first.params.fingerprint(), other.params.fingerprint()),
            ("numbers of limbs", str(first.basis), str(other.basis)),
        ]
        if first.key_id and other.key_id:
            pairs.append(("key pairs", first.key_id, other.key_id))
        for what, expected, got in pairs:
            if expected != got:
                raise MismatchError(f"The two matrices have different {what}.", expected=expected, got=got)
        if not math.isclose(first.scale, other.scale, rel_tol=1e-12):
            raise MismatchError(
                "The two matrices have different scales.", expected=first.scale, got=other.scale
            )


def _save(matrix: CoefficientMatrix, path: files.Target) -> None:
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


def _load(
    format_: type[Matrix],
    path: files.Source,
    security: int,
    insecure: bool,
) -> Matrix:
    """Read a matrix of the given format; see `CoefficientMatrix.load`."""
    with files.Reader(path, KIND, security=security, insecure=insecure) as reader:
        found = reader.text("format")
        if found != format_.NAME:
            raise MismatchError(
                f"{reader.path} holds another format.", expected=format_.NAME or "a format", got=found
            )
        key_id = reader.text("key_id")
        shape, scale = _described(reader, format_)
        limbs = _expect_tensors(reader, format_, shape)
        check_memory(sum(info.nbytes for info in reader.tensors.values()), f"reading {reader.path}")
        b = reader.read("b")
        uniform = reader.read("seed").tobytes() if "seed" in reader.tensors else reader.read("a")
        matrix = format_(reader.parameters, shape, scale, b, uniform, key_id)
        assert len(b) == limbs
        try:
            matrix.check_residues()
        except RangeError as error:
            raise FormatError(f"{reader.path}: {error}") from error
        return matrix


def _described(reader: files.Reader, format_: type[CoefficientMatrix]) -> tuple[tuple[int, int], float]:
    """Shape and scale of the header, checked."""
    shape: Any = reader.header.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise FormatError(
            f"{reader.path} names no shape of a matrix.", expected="two whole numbers", got=shape
        )
    try:
        checked = checked_shape(shape)  # type: ignore[arg-type]
        scale = checked_scale(reader.header.get("scale"))  # type: ignore[arg-type]
        format_.check_shape(reader.parameters, checked)
    except CipherblasError as error:
        raise FormatError(f"{reader.path}: {error}") from error
    return checked, scale


def _expect_tensors(reader: files.Reader, format_: type[CoefficientMatrix], shape: tuple[int, int]) -> int:
    """Raise FormatError unless the tensors are those of this format and shape; return the number of residues."""
    names = set(reader.tensors)
    if names not in ({"a", "b"}, {"seed", "b"}):
        raise FormatError(
            f"{reader.path} holds other tensors than a matrix has.",
            expected="b, and a or seed",
            got=sorted(names),
        )
    params = reader.parameters
    found = reader.tensors["b"].shape
    limbs = found[0] if len(found) == 3 else 0
    try:
        format_.check_moduli(params, limbs)
    except ParameterError as error:
        raise FormatError(
            f"{reader.path} has a tensor 'b' of the wrong shape.",
            expected=f"({error.expected} limbs, rows, width)",
            got=found,
        ) from error
    reader.expect("b", np.uint64, (limbs, *format_.b_shape(shape)))
    if "seed" in names:
        reader.expect("seed", np.uint8, (randomness.SEED_BYTES,))
    else:
        reader.expect("a", np.uint64, (limbs, format_.a_rows(params, shape), params.n))
    return limbs
