"""The client: the only holder of the secret key. Encrypts operands, decrypts results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.encryptor import Progress, check_public_key_planned, encrypt_operands
from cipherblas.errors import DTypeError, MismatchError
from cipherblas.formats import rows_format
from cipherblas.formats.encryption import combined_secrets
from cipherblas.formats.encryption import decrypt as decrypt_matrix
from cipherblas.keys import (
    EvaluationKeys,
    PublicKey,
    SecretKey,
    decrypt_coefficients,
    generate_public_key,
    generate_secret,
    make_evaluation_keys,
    write_evaluation_keys,
)
from cipherblas.keys.generation import WeightSecrets
from cipherblas.keys.request import weight_row
from cipherblas.limits import check_available
from cipherblas.matrices import EncryptedResult, short_id
from cipherblas.results import RowResultSpec

if TYPE_CHECKING:
    from cipherblas.program import Program


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

    def public_key(self) -> PublicKey:
        """A public key: with it and the program others encrypt operands (`Program.encryptor`), and decrypt nothing.

        Every call makes another one; they serve alike.

        Raises:
            MismatchError: no operand of the program is declared with encryption="public-key".
        """
        check_public_key_planned(self.program)
        return generate_public_key(self._secret)

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
        """Encrypt secret operands given by name with the secret key.

        Args:
            progress: called as progress(done, total), counted in ciphertexts.
            **operands: name=array, real and of the declared shape.

        Returns:
            The `EncryptedOperand`, or a dictionary of them by name when several were given.

        Raises:
            MismatchError: the program has no secret operand of that name.
            ShapeError, DTypeError: not a real array of the declared shape.
            RangeError: NaN, infinity, or an entry beyond the declared bound.
            MemoryBudgetError: less memory is available than the ciphertexts need.
        """
        return encrypt_operands(self.program, self._secret, operands, progress)

    def decrypt(self, result: EncryptedResult) -> NDArray[np.float64]:
        """The clear matrix, vector or image of a result, in its shape.

        Raises:
            DTypeError: not a result.
            MismatchError: the result belongs to another program or key pair.
            ShapeError, RangeError: its ciphertexts are not those that were planned.
            MemoryBudgetError: less memory is available than the decoded result needs.
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
        check_available(spec.working_bytes, "decrypting the result")
        if isinstance(spec, RowResultSpec):
            return self._decrypt_rows(spec, result.ciphertexts)
        context = program.plan.parameters.context()
        vectors = [
            context.decode(decrypt_coefficients(self._secret, ct) / spec.scale) for ct in result.ciphertexts
        ]
        return spec.assemble(vectors)

    def _decrypt_rows(
        self, spec: RowResultSpec, arrays: tuple[NDArray[np.uint64], ...]
    ) -> NDArray[np.float64]:
        params, key_id = self._secret.params, self._secret.key_id
        pieces = []
        for shape, a, b in zip(spec.pieces, arrays[::2], arrays[1::2], strict=True):
            kind = rows_format(shape[1], params.n)
            pieces.append(decrypt_matrix(self._secret, kind(params, shape, abs(spec.scale), b, a, key_id)))
        matrix = np.concatenate(pieces, axis=1) * math.copysign(1.0, spec.scale)
        return np.ascontiguousarray(matrix.T if spec.by_columns else matrix).reshape(self.program.shape)

    def save(self, path: str | Path) -> None:
        """Write the secret key file, readable by its owner alone."""
        self._secret.save(path)

    @classmethod
    def load(
        cls, program: Program, path: str | Path, *, security: int = 128, insecure: bool = False
    ) -> Client:
        """The client whose secret key `save` wrote.

        Args:
            program: what the key was made for.
            path: the key file.
            security: bits that its parameters must have: 128, 192 or 256.
            insecure: accept less; below 128 bits with a warning.

        Raises:
            FormatError, VersionError, StorageError: the file is not a whole file of ours.
            SecurityError: its parameters have less security.
            MismatchError: it belongs to another program.
        """
        fingerprint = program.plan.parameters.fingerprint()
        secret = SecretKey.load(path, fingerprint=fingerprint, security=security, insecure=insecure)
        if secret.program_id != program.id:
            raise MismatchError(
                "the secret key belongs to another program",
                expected=short_id(program.id),
                got=short_id(secret.program_id),
            )
        return cls(program, secret)
