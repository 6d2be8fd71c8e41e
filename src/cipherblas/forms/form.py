"""How a value is encrypted: blocks of a matrix or a tensor in slots, or rows in coefficients.

A form says what travels and what that takes, and is the only one that knows how to pack a value, what of it is
encrypted, how that lies on a server, and how a result is put together. Methods that compute on it are entered by its
`name`. It sees no key: who holds one is a `Sealer` or an `Opener`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ShapeError
from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.family import Evaluators
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.matrices import CoefficientMatrix
from cipherblas.rlwe.rings import Ring
from cipherblas.rlwe.traffic import Traffic

Matrix = NDArray[np.float64]
Words = NDArray[np.uint64]


class Sealer(Protocol):
    """Who encrypts what a form has packed."""

    params: Parameters

    def vectors(
        self, vectors: Sequence[Callable[[], NDArray[Any]]], scale: float, limbs: int
    ) -> tuple[Any, ...]:
        """Vectors of slots, each made by a function."""

    def coefficients(
        self, polynomials: Sequence[Callable[[], NDArray[Any]]], scale: float, limbs: int
    ) -> tuple[Any, ...]:
        """Polynomials of few coefficients, each made by a function; or of few rows, each the P slots that a polynomial
        repeats, side by side (`crypto.periodic`)."""

    def matrix(self, kind: type[CoefficientMatrix], matrix: Matrix, scale: float, basis: Basis) -> Any:
        """A matrix of coefficients."""


class Opener(Protocol):
    """Who decrypts what a form puts together."""

    def vector(self, ciphertext: Words, scale: float, halves: bool = False) -> NDArray[Any]:
        """The slots of a ciphertext, or 2 × S halves of them."""

    def matrix(
        self, kind: type[CoefficientMatrix], shape: tuple[int, int], scale: float, a: Words, b: Words
    ) -> Matrix:
        """The matrix of coefficients that an a and a b part are."""


class Receiver(Protocol):
    """Who takes what was sent for one use of an operand, and finds what others of its kind have found of it."""

    def ciphertexts(self, form: Any, feed: Sequence[Any], key: Hashable) -> list[Any]:
        """Of slots."""

    def matrices(self, feed: Sequence[Any], key: Hashable) -> list[Any]:
        """Of coefficients."""


class Form:  # no ABC: every value is asked for the kind of its form, which must take no time
    """How a matrix, a vector or an image is encrypted.

    Attributes:
        name: "blocks", "tensors" or "rows".
        kind: its name in files.
        in_files: what a client makes of it may lie in a file, and need not be in memory.
        operand_moduli: operands may be encrypted modulo operand moduli, without limbs of the ring.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    in_files: ClassVar[bool] = False
    operand_moduli: ClassVar[bool] = False

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """Equal for equal forms."""

    @property
    @abstractmethod
    def ciphertexts(self) -> int:
        """Ciphertexts, or encrypted rows."""

    @property
    def parts(self) -> int:
        """Number of parts that have seeds of their own: ciphertexts, or pieces of rows."""
        return self.ciphertexts

    @property
    @abstractmethod
    def lies(self) -> str:
        """How a value lies, for people."""

    # ---- what it takes ----

    @abstractmethod
    def degree(self, ring: Ring) -> int:
        """Of the ring, of those of a program, in which it is encrypted."""

    @abstractmethod
    def upload(self, words: int, n: int, public_key: bool) -> Traffic:
        """Return the traffic of one value in this form, and the client's work for it."""

    @abstractmethod
    def download(self, limbs: int, components: int, n: int) -> Traffic:
        """Return the traffic of one result in this form, and the client's work for it."""

    @abstractmethod
    def resident_bytes(self, words: int, n: int, public_key: bool) -> tuple[int, int]:
        """Bytes on the server for the whole run: of the arrays as they came, and of what it makes beside them."""

    def packing_bytes(self, words: int, n: int, public_key: bool) -> int:
        """Memory that encryption takes for a while, beside what it makes."""
        return 0

    @abstractmethod
    def opened_words(self, n: int) -> int:
        """Memory that decryption takes beside the matrix, in words."""

    # ---- in files ----

    @abstractmethod
    def to_json(self, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        """The form as a header has it, but for its kind; what is large is entered into `arrays`, by its name."""

    @abstractmethod
    def holds(self, shape: tuple[int, ...]) -> bool:
        """Whether a result of this shape, as it is decrypted, lies so: in all blocks, and ending in the last ones."""

    def holds_operand(self, rows: int, cols: int) -> bool:
        """Whether a matrix of an operand is packed so."""
        return self.holds((rows, cols))

    # ---- from the client to the server ----

    @abstractmethod
    def sealed(self, by: Sealer, matrix: Matrix, scale: float, basis: Basis) -> tuple[Any, ...]:
        """Return an operand, packed and encrypted, as it is sent."""

    @abstractmethod
    def sent(self, basis: Basis, params: Parameters) -> list[tuple[type, tuple[int, ...]]]:
        """Of each part the kind and the extent (words of an entry first)."""

    @abstractmethod
    def received(self, by: Receiver, feed: Sequence[Any], key: Hashable) -> list[Any]:
        """Return the data that a server computes with, from a feed as it was sent."""

    @abstractmethod
    def fresh(
        self, evaluators: Evaluators, data: Any, public_key: bool, bound: float, basis: Basis, scale: float
    ) -> list[list[Any]]:
        """Handles on it, block by block.

        Args:
            data: an iterator over the evaluator's representation of each part; None where there are none, and one block
                stands for all.
            bound: on the absolute value of a slot or entry.
            basis, scale: of the encryption.
        """

    # ---- and back ----

    @abstractmethod
    def evaluator(self, evaluators: Evaluators) -> Any:
        """Return the evaluator of values in this form."""

    @abstractmethod
    def arrays(self, limbs: int, components: int, n: int) -> list[tuple[int, ...]]:
        """Shapes of the arrays of a result."""

    @abstractmethod
    def opened(self, by: Opener, arrays: Sequence[Words], scale: float, shape: tuple[int, ...]) -> Matrix:
        """The matrix, vector or image that a result is."""

    def entries(self, shape: tuple[int, ...]) -> int:
        """How many entries are encrypted of a value of this shape, any of which may be off the most."""
        return math.prod(shape)

    def error(self, encrypted: float) -> float:
        """Return a bound on the error of an entry of a result, given that of the encrypted numbers."""
        return encrypted

    def check(self, got: Sequence[NDArray[Any]], limbs: int, components: int, n: int) -> None:
        """Raise ShapeError unless the arrays of a result have their number and shapes."""
        expected = self.arrays(limbs, components, n)
        if len(got) != len(expected):
            raise ShapeError(
                "The number of ciphertexts of the result is wrong.", expected=len(expected), got=len(got)
            )
        for array, shape in zip(got, expected, strict=True):
            if array.shape != shape:
                raise ShapeError(
                    "A ciphertext of the result has the wrong shape.",
                    expected=str(shape),
                    got=str(array.shape),
                )
