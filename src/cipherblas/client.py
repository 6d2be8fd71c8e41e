"""The client: the only holder of the secret key. Encrypts operands, decrypts results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cipherblas import _core
from cipherblas.errors import DTypeError, MismatchError
from cipherblas.execution import FeedSpec
from cipherblas.expressions import finite_matrix
from cipherblas.formats import rows_format
from cipherblas.formats.encryption import (
    combined_secrets,
    encrypt_rows,
    encrypt_shared_batch,
    encrypt_shared_rows,
)
from cipherblas.formats.encryption import decrypt as decrypt_matrix
from cipherblas.keys import (
    EvaluationKeys,
    FreshCiphertext,
    SecretKey,
    decrypt_coefficients,
    encrypt,
    generate_secret,
    make_evaluation_keys,
    write_evaluation_keys,
)
from cipherblas.keys.generation import WeightSecrets
from cipherblas.keys.request import weight_row
from cipherblas.layouts.blocks import block_of, join
from cipherblas.limits import check_bound
from cipherblas.matrices import EncryptedOperand, EncryptedResult, EncryptedRows, check_shape, short_id
from cipherblas.results import RowResultSpec
from cipherblas.row_execution import RowFeed

if TYPE_CHECKING:
    from cipherblas.program import Program

Progress = Callable[[int, int], None]


class Client:
    """Makes keys, encrypts, decrypts; made by `Program.client()` or `Client.load`.

    The secret key never leaves this object, except into the key file that `save` writes for its owner alone.
    """

    def __init__(self, program: Program, secret: SecretKey | None = None) -> None:
        self.program = program
        self._secret = generate_secret(program.plan.parameters, program.id) if secret is None else secret

    def __repr__(self) -> str:
        return f"<Client of program {short_id(self.program.id)}>"

    def evaluation_keys(self, progress: Progress | None = None) -> EvaluationKeys:
        """The public keys that the server needs: exactly those that the plan declared."""
        with self._weight_secrets() as weights:
            return make_evaluation_keys(self._secret, self.program.plan.keys, progress, weights)

    def write_evaluation_keys(self, path: str | Path, progress: Progress | None = None) -> None:
        """Make the evaluation keys straight into a file or folder for the server; memory holds a part at a time."""
        with self._weight_secrets() as weights:
            write_evaluation_keys(self._secret, self.program.plan.keys, path, progress, weights)

    @contextmanager
    def _weight_secrets(self) -> Iterator[WeightSecrets]:
        """What the keys of fixed weights switch from: rows of (weights · secrets of the shared batch).

        The rows of one factor are kept at a time, and overwritten when another one's are made and at the end.
        """
        factors = self.program.fixed_factors
        context = self._secret.params.context()
        limbs = self._secret.params.limbs
        combined: dict[int, NDArray[Any]] = {}

        def forget() -> None:
            for rows in combined.values():
                rows.fill(0)
            combined.clear()

        def polynomial(number: int) -> NDArray[np.uint64]:
            factor, row = weight_row(number)
            if factor not in combined:
                forget()
                combined[factor] = combined_secrets(self._secret, factors[factor].integers())
            return context.plaintext(combined[factor][row], limbs, special=True)

        try:
            yield polynomial
        finally:
            forget()

    def encrypt(self, /, *, progress: Progress | None = None, **operands: Any) -> Any:
        """Encrypt secret operands given by name.

        Args:
            progress: called as progress(done, total), counted in ciphertexts.
            **operands: name=matrix, a real 2-D array of the declared shape.

        Returns:
            The `EncryptedOperand`, or a dictionary of them by name when several were given.

        Raises:
            MismatchError: the program has no secret operand of that name.
            ShapeError, DTypeError: not a real matrix of the declared shape.
            RangeError: NaN, infinity, or an entry beyond the declared bound.
        """
        matrices = {name: self._checked(name, value) for name, value in operands.items()}
        feeds_of = {name: self.program.feeds_of(name) for name in matrices}
        total = sum(_units(feed) for feeds in feeds_of.values() for feed in feeds)
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(done, total)

        encrypted = {}
        for name, matrix in matrices.items():
            feeds = tuple(
                self._encrypt_rows(feed, matrix, tick)
                if isinstance(feed, RowFeed)
                else self._encrypt_feed(feed, matrix, tick)
                for feed in feeds_of[name]
            )
            encrypted[name] = EncryptedOperand(
                self.program.id, name, matrix.shape, self.program.plan.parameters, feeds, self._secret.key_id
            )
        return next(iter(encrypted.values())) if len(encrypted) == 1 else encrypted

    def _checked(self, name: str, value: Any) -> NDArray[np.float64]:
        operand = self.program.operands.get(name)
        if operand is None or not operand.secret:
            secret = [key for key, item in self.program.operands.items() if item.secret]
            raise MismatchError("no secret operand of that name", expected=" | ".join(secret), got=name)
        matrix = finite_matrix(value, f"operand {name!r}")
        check_shape(name, matrix.shape, (operand.rows, operand.cols))
        check_bound(name, matrix, operand.bound)
        return matrix

    def _encrypt_feed(
        self, feed: FeedSpec, matrix: NDArray[np.float64], tick: Callable[[], None]
    ) -> tuple[FreshCiphertext, ...]:
        context = self.program.plan.parameters.context()
        source = matrix.T if feed.transposed else matrix
        layout = feed.layout
        cells = [(i, j) for i in range(feed.grid[0]) for j in range(feed.grid[1])]

        def encrypt_block(cell: tuple[int, int]) -> list[FreshCiphertext]:
            vectors = layout.pack(block_of(source, layout.rows, layout.cols, *cell))
            return [
                encrypt(
                    self._secret,
                    context.encode(np.asarray(v, dtype=np.complex128), feed.encoding_scale),
                    feed.limbs,
                )
                for v in vectors
            ]

        found: list[FreshCiphertext] = []
        with ThreadPoolExecutor(max_workers=max(1, _core.threads())) as pool:
            for block in pool.map(encrypt_block, cells):
                found.extend(block)
                for _ in block:
                    tick()
        return tuple(found)

    def _encrypt_rows(
        self, feed: RowFeed, matrix: NDArray[np.float64], tick: Callable[[], None]
    ) -> tuple[EncryptedRows, ...]:
        source = matrix.T if feed.transposed else matrix
        found: list[EncryptedRows] = []
        if feed.shared:
            tick()
            return (encrypt_shared_batch(self._secret, source, feed.scale, feed.limbs),)
        for start, stop in feed.pieces:
            encrypt_piece = encrypt_rows if stop - start <= self._secret.params.n else encrypt_shared_rows
            found.append(encrypt_piece(self._secret, source[:, start:stop], feed.scale, feed.limbs))
            tick()
        return tuple(found)

    def decrypt(self, result: EncryptedResult) -> NDArray[np.float64]:
        """The clear matrix of a result.

        Raises:
            DTypeError: not a result.
            MismatchError: the result belongs to another program or key pair.
            ShapeError, RangeError: its ciphertexts are not those that were planned.
        """
        program = self.program
        if not isinstance(result, EncryptedResult):
            raise DTypeError("what to decrypt", expected="EncryptedResult", got=type(result).__name__)
        if result.program_id != program.id:
            raise MismatchError(
                "the result belongs to another program",
                expected=short_id(program.id),
                got=short_id(result.program_id),
            )
        if result.key_id != self._secret.key_id:
            raise MismatchError(
                "the result belongs to another key pair", expected=self._secret.key_id, got=result.key_id
            )
        spec = program.result
        spec.check(result.ciphertexts)
        if isinstance(spec, RowResultSpec):
            return self._decrypt_rows(spec, result.ciphertexts)
        context = program.plan.parameters.context()
        vectors = [
            context.decode(decrypt_coefficients(self._secret, ct) / spec.scale) for ct in result.ciphertexts
        ]
        size = spec.layout.ciphertexts
        blocks = [
            [spec.layout.unpack(vectors[(i * spec.grid[1] + j) * size :][:size]) for j in range(spec.grid[1])]
            for i in range(spec.grid[0])
        ]
        return join(blocks, *spec.shape)

    def _decrypt_rows(
        self, spec: RowResultSpec, arrays: tuple[NDArray[np.uint64], ...]
    ) -> NDArray[np.float64]:
        params, key_id = self._secret.params, self._secret.key_id
        pieces = []
        for shape, a, b in zip(spec.pieces, arrays[::2], arrays[1::2], strict=True):
            kind = rows_format(shape[1], params.n)
            pieces.append(decrypt_matrix(self._secret, kind(params, shape, abs(spec.scale), b, a, key_id)))
        matrix = np.concatenate(pieces, axis=1) * math.copysign(1.0, spec.scale)
        return np.ascontiguousarray(matrix.T if spec.by_columns else matrix)

    def save(self, path: str | Path) -> None:
        """Write the secret key file, readable by its owner alone."""
        self._secret.save(path)

    @classmethod
    def load(cls, program: Program, path: str | Path) -> Client:
        """The client whose secret key `save` wrote; MismatchError when it belongs to another program."""
        secret = SecretKey.load(path, fingerprint=program.plan.parameters.fingerprint())
        if secret.program_id != program.id:
            raise MismatchError(
                "the secret key belongs to another program",
                expected=short_id(program.id),
                got=short_id(secret.program_id),
            )
        return cls(program, secret)


def _units(feed: FeedSpec | RowFeed) -> int:
    """In what progress is counted: ciphertexts, or pieces that are encrypted by rows."""
    return len(feed.pieces) if isinstance(feed, RowFeed) else feed.ciphertexts
