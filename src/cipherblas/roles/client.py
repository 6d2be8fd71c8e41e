"""The client: the only holder of the secret key. Encrypts operands, decrypts results."""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import (
    DTypeError,
    MismatchError,
    ParameterError,
    RangeError,
    ShapeError,
    capitalized,
)
from cipherblas.common.limits import check_available
from cipherblas.common.pickles import NeverCopied
from cipherblas.common.progress import Progress, Steps, shown
from cipherblas.crypto import files
from cipherblas.crypto.keys import (
    EvaluationKeys,
    KeyRequest,
    PublicKey,
    SecretKey,
    decrypt_coefficients,
    decrypt_residues,
    generate_public_key,
    generate_secret,
    make_evaluation_keys,
    write_evaluation_keys,
)
from cipherblas.crypto.keys.generation import WeightSecrets
from cipherblas.crypto.keys.key_id import FixedWeights
from cipherblas.crypto.residue_slots import residue_slots
from cipherblas.evaluators.policy.interface import Scale
from cipherblas.forms.form import Matrix, Words
from cipherblas.rlwe.matrices import CoefficientMatrix
from cipherblas.rlwe.matrices.encryption import combined_secrets, decrypt_integers
from cipherblas.rlwe.matrices.encryption import decrypt as decrypt_matrix
from cipherblas.roles.calls import called_by_users, operands_in_one_mapping
from cipherblas.roles.client_side import ClientSide, secret_operand
from cipherblas.roles.encryptor import check_public_key_planned, encrypt_operands
from cipherblas.roles.key_record import KeyRecord
from cipherblas.roles.sharing import Sharing, flooded
from cipherblas.roles.wire.messages import (
    RUN,
    EncryptedOperand,
    EncryptedResult,
    check_made_for,
    check_parameters,
    check_residues_of,
    residue_of,
    short_id,
)

OLDER = "decrypt(result, of=…), or --of FILE, with the operands that it was computed from"


class Client(NeverCopied):
    """Makes keys, encrypts, decrypts; made by `Program.client()` or `Client.load`.

    The secret key never leaves this object, except into the key file that `save` writes for its owner alone: a client
    can be neither pickled nor copied. The program, public and evaluation keys, operands and results can.
    """

    refusal = "A client holds the secret key and can be neither pickled nor copied."
    instead = "client.save(path), a file of its owner, and cb.Client.load(path, program)"

    def __init__(
        self,
        program: ClientSide,
        secret: SecretKey | None = None,
        *,
        record: KeyRecord | None = None,
        keys: KeyRequest | None = None,
    ) -> None:
        self.program = program
        self._secret = generate_secret(program.plan.parameters, program.id) if secret is None else secret
        self._record = record or KeyRecord(
            self._secret.key_id, self._secret.params, recorded=self._secret.recorded
        )
        self._keys = (
            program.plan.keys if keys is None else keys
        )  # that a server needs, of all programs of the key

    @classmethod
    def of(cls, program: ClientSide, secret: SecretKey | None) -> Client:
        """The client of a program with this key, or a new one; errors as `Program.client`."""
        if secret is None:
            return cls(program)
        if not isinstance(secret, SecretKey):
            raise DTypeError(
                "A client takes a secret key.",
                expected="SecretKey",
                got=type(secret).__name__,
                advice="cb.interop.seal.secret_key(program, data)",
            )
        if secret.program_id != program.id:
            raise MismatchError(
                "The secret key was read for another program.",
                expected=short_id(program.id),
                got=short_id(secret.program_id) or "no program",
                advice="cb.interop.seal.secret_key(program, data), of this program",
            )
        check_parameters("the secret key", secret.params, program.plan.parameters)
        return cls(program, secret)

    def __repr__(self) -> str:
        closed = ", closed" if self.closed else ""
        return f"<Client of program {short_id(self.program.id)}{closed}>"

    @property
    def key_id(self) -> str:
        """The name of its key pair, which keys and ciphertexts carry."""
        return self._secret.key_id

    @property
    def closed(self) -> bool:
        """Whether `close` has overwritten the secret key."""
        return self._secret.closed

    def close(self) -> None:
        """Overwrite the secret key in memory, as far as Python allows: see the threat model. The end of a `with` block
        does it too; files and bytes of the key stay. Any later use that needs the key is a SecurityError.

        Examples:
            >>> import cipherblas as cb
            >>> program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)})
            >>> with program.client() as client:
            ...     keys = client.evaluation_keys()
            >>> client.closed
            True
        """
        self._secret.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def evaluation_keys(self, progress: Progress | bool | None = None) -> EvaluationKeys:
        """The public keys that the server needs: exactly those that the plan declared.

        Args:
            progress: called as progress(done, total), counted in keys.
        """
        self._secret.check_open()
        told = shown(progress, "making keys")
        with self._weight_secrets() as weights:
            return make_evaluation_keys(self._secret, self._keys, told, weights)

    def write_evaluation_keys(self, path: files.Target, progress: Progress | bool | None = None) -> None:
        """Make the evaluation keys straight into a file or folder for the server; memory holds a part at a time.

        Args:
            path: a file, or a folder where they exceed 1 GiB or `path` is one; or a stream, to which all go.
            progress: called as progress(done, total), counted in keys.
        """
        self._secret.check_open()  # before a file is begun
        with self._weight_secrets() as weights:
            told = shown(progress, "making keys")
            write_evaluation_keys(self._secret, self._keys, path, told, weights)

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
        """The secrets that keys of fixed weights switch from: rows of (weights · secrets of the shared batch).

        The rows of one factor are kept at a time, and overwritten when another one's are made and at the end.
        """
        factors = self.program.fixed_factors
        context = self._secret.params.context()
        limbs = self._secret.params.limbs
        combined: dict[int, NDArray[Any]] = {}
        lock = threading.Lock()  # rows are not overwritten while a polynomial is made of them

        def forget() -> None:
            for rows in combined.values():
                rows.fill(0)
            combined.clear()

        def polynomial(key: FixedWeights) -> NDArray[np.uint64]:
            factor, row = key.factor, key.row
            with lock:
                if factor not in combined:
                    forget()
                    combined[factor] = combined_secrets(self._secret, factors[factor].integers())
                return context.plaintext(combined[factor][row], limbs, special=True)

        try:
            yield polynomial
        finally:
            with lock:
                forget()

    @operands_in_one_mapping
    def encrypt(
        self,
        operands: Mapping[str, Any],
        /,
        *,
        folder: str | Path | None = None,
        progress: Progress | bool | None = None,
    ) -> dict[str, EncryptedOperand]:
        """Encrypt secret operands with the secret key.

        Args:
            operands: name → array, real and of the declared shape.
            folder: of a disk, where ciphertexts of slots that the memory does not hold are put, in a file that vanishes
                with them: it needs as much room as they take, beside that of what `EncryptedOperand.save` writes.
            progress: called as progress(done, total), counted in ciphertexts.

        Returns:
            name → encrypted operand, as `Server.run` and `decrypt(of=…)` take them.

        Raises:
            DTypeError: the operands are in no mapping.
            MismatchError: the program has no secret operand of that name.
            ShapeError, DTypeError: not a real array of the declared shape.
            RangeError: NaN, infinity, or an entry beyond the declared bound.
            MemoryBudgetError: less memory is available than the ciphertexts need, and there is no folder, or they are
                rows.
            StorageError: nor has the folder room for them.

        Warns where the record beside the key file (see `decrypt`) cannot be written.
        """
        self._secret.check_open()
        progress = shown(progress, "encrypting")
        encrypted = encrypt_operands(self.program, self._secret, operands, folder, progress)
        self._record.note({self._noted(name): operand.digest for name, operand in encrypted.items()})
        return encrypted

    @called_by_users
    def decrypt(
        self,
        result: EncryptedResult,
        *,
        of: Mapping[str, EncryptedOperand] | None = None,
        share: Sharing | None = None,
        progress: Progress | bool | None = None,
    ) -> Any:
        """The clear matrix, vector or image of a result, in its shape; of several results, as the program returns them.

        An encrypted result names the encryptions that it was computed from. They must be those of `of`; operands that
        are not among them must be the latest encryptions that this client made, or, where it made none, that other
        processes made with its key file. Only what was never encrypted with the secret key is not checked. This finds
        results of earlier runs, not lies of a server.

        Args:
            of: the encrypted operands that the result is of, all or some, by name as `encrypt` returns them.
            share: for results that others will see: adds noise that hides the error, and rounds; what that costs is
                `share.deviation(program)`. Takes the entries, of several results those of all, from the budget of the
                key, before anything is decrypted.
            progress: called as progress(done, total), counted in arrays of the result. Before what is shared, it tells
                of what `share.deviation` does.

        Returns:
            An array; of a program with several results a tuple, or a dictionary, of arrays. Those of integers modulo t
            are int64, or uint64 where t exceeds 2^63; exact ones are int64, or Python's integers where their bound is
            2^63 or more. What is shared has noise, and is float64 in any program.

        Raises:
            DTypeError: not a result, not encrypted operands, not a `Sharing`.
            MismatchError: the result belongs to another program or key pair, or to another encryption of an operand;
                or another budget was begun under this key.
            ShapeError, RangeError: its ciphertexts are not those that were planned.
            RangeError: a decrypted entry exceeds the bound of the result by more than its error.
            MemoryBudgetError: less memory is available than the decoded result needs.
            SecurityError: the client is closed; the result was shared before, or has more entries than may still be
                shared.
            PrecisionError: the noise that sharing needs is larger than the result.
            FormatError, VersionError, StorageError: the record beside the key file is damaged, or cannot be written.
        """
        self._secret.check_open()  # before anything is spent for a result that cannot be decrypted
        progress = shown(progress, "decrypting")
        self._check(result)
        self._check_operands(result, of)
        if self.program.computed_moduli and share is not None:
            raise ParameterError(
                "Results of integers are exact, and tell nothing about errors: they are shared as they are.",
                got="share=…",
                advice="client.decrypt(result), without share=",
            )
        program = self.program
        if share is None:
            each = self._decrypted_residues(result, progress) if program.computed_moduli else []
            if each:
                return program.arranged(program.whole(each))
            values = self._decrypted(result, progress)
            return program.arranged(program.whole([values]) if program.exact else values)
        if not isinstance(share, Sharing):
            raise DTypeError(
                "`share` must be a Sharing.", got=type(share).__name__, advice="share=cb.Sharing(entries=…)"
            )
        sigmas = share.deviations(self.program, progress)
        entries = sum(math.prod(node.shape) for node in self.program.results)
        self._record.spend(share, entries, result.digest)
        errors = self.program.found_worst_errors(None)
        pairs = zip(self._decrypted(result, progress, errors), sigmas, strict=True)
        return self.program.arranged([flooded(values, sigma) for values, sigma in pairs])

    def _noted(self, name: str) -> str:
        """The name of an operand in the record: of a key of several programs that of its encoding too."""
        return name if self._secret.program_id else f"{name} {self.program.encoding_id(name)}"

    def _check(self, result: EncryptedResult) -> None:
        """Raise unless this is a result of this program, for this key pair, as it was planned."""
        program = self.program
        if not isinstance(result, EncryptedResult):
            raise DTypeError(
                "Only an encrypted result can be decrypted.",
                expected="EncryptedResult",
                got=type(result).__name__,
                advice="client.decrypt(server.run(operands))",
            )
        if result.program_id != program.id:
            raise MismatchError(
                "The result belongs to another program.",
                expected=short_id(program.id),
                got=short_id(result.program_id),
                advice="the client of the program that the server ran",
            )
        check_parameters("the result", result.parameters, program.plan.parameters)
        if result.key_id != self._secret.key_id:
            raise MismatchError(
                "The result belongs to another key pair.",
                expected=self._secret.key_id,
                got=result.key_id,
                advice="the client that encrypted the operands",
            )
        each, outputs = result.each, program.outputs
        if len(each) != len(outputs) or bool(result.parts) != program.expression.root:
            raise ShapeError(
                "The program has another number of results.",
                expected=", ".join(program.labels) or "one",
                got=len(each),
                advice=RUN,
            )
        for arrays in each:
            check_residues_of(arrays, len(program.residues), "the result", RUN)
        for number, modulo in enumerate(program.residues):
            for output, arrays in zip(modulo.outputs, each, strict=True):
                output.check(residue_of(arrays, number, len(program.residues)))
        check_available(sum(output.working_bytes for output in program.outputs), "decrypting the result")

    def _check_operands(self, result: EncryptedResult, of: Mapping[str, EncryptedOperand] | None) -> None:
        """Raise MismatchError unless the result is of these encryptions, and else of the latest ones."""
        secret = [name for name, operand in self.program.operands.items() if operand.secret]
        if sorted(result.operands) != sorted(secret):
            raise MismatchError(
                "The result was computed from other operands than the program has.",
                expected=", ".join(secret),
                got=", ".join(result.operands) or "none",
                advice=RUN,
            )
        given, noted = _digests(of, self.program), self._record.latest()
        latest = {name: noted[self._noted(name)] for name in secret if self._noted(name) in noted}
        for name, digest in {**latest, **given}.items():
            if name in given:
                secret_operand(self.program, name)
            if result.operands.get(name, digest) != digest:
                which = "the given" if name in given else "the latest"
                raise MismatchError(
                    f"The result is not of {which} encryption of operand {name!r}.",
                    expected=short_id(digest),
                    got=short_id(result.operands[name]),
                    advice=() if name in given else OLDER,
                )

    def _decrypted_residues(
        self, result: EncryptedResult, progress: Progress | None
    ) -> list[list[NDArray[np.float64]]]:
        """The values of each checked result of integers, of the program modulo each t: whole numbers."""
        programs, steps = self.program.residues, Steps(progress, len(result.ciphertexts))
        found = []
        for number, modulo in enumerate(programs):
            modulus = modulo.plan.parameters.plain_modulus
            assert modulus is not None
            opener = KeyOpener(self._secret.modulo(modulus), steps)
            parts = zip(modulo.outputs, result.each, self.program.results, strict=True)
            found.append(
                [
                    output.opened(opener, residue_of(arrays, number, len(programs))).reshape(node.shape)
                    for output, arrays, node in parts
                ]
            )
        return found

    def _decrypted(
        self, result: EncryptedResult, progress: Progress | None, errors: Sequence[float] | None = None
    ) -> list[NDArray[np.float64]]:
        """The values of each checked result; RangeError where they cannot be right.

        Args:
            errors: of each result at most; by default that of the plan. Of what is shared that for whatever data: a
                refusal which others see must not depend on the error.
        """
        program, found = self.program, []
        opener = KeyOpener(self._secret, Steps(progress, len(result.ciphertexts)))
        figures, parts = program.plan.results, zip(program.outputs, result.each, strict=True)
        errors = [figure.error for figure in figures] if errors is None else errors
        for figure, error, node, (output, arrays) in zip(
            figures, errors, program.results, parts, strict=True
        ):
            values = output.opened(opener, arrays).reshape(node.shape)
            limit = node.bound + error
            inside = np.abs(values) <= limit  # not where one is not a number
            if not inside.all():  # the message tells no value
                what = f"result {figure.label!r}" if figure.label else "the result"
                raise RangeError(
                    f"{capitalized(what)} has an entry beyond its bound: it was not computed as planned, "
                    "or an operand or an assumption of the program does not keep its bound.",
                    expected=f"at most {limit:g} in absolute value",
                    advice="bounds (bound=…, cb.assume) that all inputs keep, as program.check(inputs) tells",
                )
            found.append(values)
        return found

    def save(self, path: str | Path) -> None:
        """Write the secret key file, readable by its owner alone; what is remembered (see `decrypt`) goes beside it."""
        files.check_path(path)
        self._secret.check_open()
        with self._record.beside(path):
            self._secret.save(path, recorded=True)

    @classmethod
    def load(
        cls, path: str | Path, program: ClientSide, *, security: int = 128, insecure: bool = False
    ) -> Client:
        """The client whose secret key `save` wrote.

        Args:
            path: the key file.
            program: what the key was made for, whole or without weights.
            security: bits that its parameters must have: 128, 192 or 256.
            insecure: accept less; below 128 bits with a warning.

        Raises:
            DTypeError: not a program.
            FormatError, VersionError, StorageError: the file is not a whole file of ours.
            SecurityError: its parameters have less security.
            MismatchError: it belongs to another program.
        """
        cls._check_program(program)  # first: who gives the two in the other order is told both
        files.check_path(path)
        secret = cls._secret_of(path, program, security, insecure)
        client = cls(program, secret)
        client._record = KeyRecord(secret.key_id, secret.params, path, secret.recorded)
        return client

    def to_bytes(self) -> bytes:
        """The content of a file of the secret key, for a vault: not encrypted.

        What was shared under the key is not in it: a client of these bytes shares no results, and has no latest
        encryptions but its own. Python cannot overwrite the bytes.

        Raises:
            SecurityError: the client is closed.
        """
        stream = io.BytesIO()
        self._secret.save(stream, recorded=True)
        return stream.getvalue()

    @classmethod
    def from_bytes(
        cls,
        content: bytes | bytearray | memoryview,
        program: ClientSide,
        *,
        security: int = 128,
        insecure: bool = False,
    ) -> Client:
        """The client whose secret key `to_bytes` returned; it does all but share results.

        Args:
            content: that `to_bytes` returned, or that of a key file.
            program, security, insecure: as those of `load`.

        Raises:
            DTypeError: no bytes, or not a program.
            FormatError, VersionError, SecurityError, MismatchError: as `load`.
        """
        files.check_bytes(content, "cb.Client.load(path, program)")
        secret = cls._secret_of(content, program, security, insecure)
        client = cls(program, secret)
        client._record = KeyRecord(secret.key_id, secret.params, recorded=True)
        return client

    @staticmethod
    def _check_program(program: object) -> None:
        if not isinstance(program, ClientSide):
            raise DTypeError(
                "A client is loaded with the file of a key and a program.",
                got=type(program).__name__,
                advice=(
                    "cb.Client.load(path, program), with program = cb.Program.load(file)",
                    "cb.ClientProgram.load(file) for a file of program.save_client(file)",
                ),
            )

    @classmethod
    def _secret_of(
        cls, source: files.Source, program: ClientSide, security: int, insecure: bool
    ) -> SecretKey:
        """The key of a file that is of this program."""
        cls._check_program(program)
        fingerprint = program.plan.parameters.fingerprint()
        secret = SecretKey.load(source, fingerprint=fingerprint, security=security, insecure=insecure)
        if not program.made_for(secret.program_id):
            raise MismatchError(
                "The secret key belongs to another program.",
                expected=short_id(program.id),
                got=short_id(secret.program_id) or "no program",
                advice="the program that the key was made for, or program.client() for a key of this one",
            )
        return secret


class KeyOpener:
    """`forms.form.Opener` with the secret key."""

    def __init__(self, secret: SecretKey, steps: Steps) -> None:
        self._secret, self._steps = secret, steps

    def vector(self, ciphertext: Words, scale: Scale, halves: bool = False) -> NDArray[Any]:
        """The slots of a ciphertext, or 2 × S halves of them."""
        params = self._secret.params
        if params.plain_modulus is not None:
            transforms, inverse = (
                residue_slots(params.n, params.plain_modulus),
                pow(scale.value, -1, params.plain_modulus),
            )
            self._steps.tick()
            residues = decrypt_residues(self._secret, ciphertext)
            return transforms.halves(residues, inverse) if halves else transforms.slots(residues, inverse)
        coefficients = decrypt_coefficients(self._secret, ciphertext)
        slots: NDArray[np.complex128] = self._secret.params.context().decode(coefficients / scale)
        self._steps.tick()
        return slots

    def matrix(
        self, kind: type[CoefficientMatrix], shape: tuple[int, int], scale: Scale, a: Words, b: Words
    ) -> Matrix:
        """The matrix of coefficients that an a and a b part are."""
        secret = self._secret.rows
        if secret.params.plain_modulus is not None:
            encrypted = kind(secret.params, shape, 1.0, b, a, secret.key_id)
            self._steps.tick(2)
            return decrypt_integers(secret, encrypted, scale.value).astype(np.float64)
        found = decrypt_matrix(secret, kind(secret.params, shape, abs(scale), b, a, secret.key_id))
        found *= math.copysign(1.0, scale)
        self._steps.tick(2)
        return found


def _digests(of: Mapping[str, EncryptedOperand] | None, program: ClientSide) -> dict[str, str]:
    """Name → digest of given operands."""
    if of is None:
        return {}
    if not isinstance(of, Mapping):
        raise DTypeError(
            "`of` must be a dictionary of encrypted operands.",
            got=type(of).__name__,
            advice="of=client.encrypt(operands)",
        )
    for name, operand in of.items():
        if not isinstance(operand, EncryptedOperand):
            raise DTypeError(
                "`of` must hold encrypted operands.",
                expected="EncryptedOperand",
                got=type(operand).__name__,
                advice="of=client.encrypt(operands)",
            )
        check_made_for(operand, name, program.owners_of(name))
    return {name: operand.digest for name, operand in of.items()}
