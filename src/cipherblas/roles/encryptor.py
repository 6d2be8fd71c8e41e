"""Encrypting the operands of a program: with the client's secret key, or by anyone with the public key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.arrays import finite_array
from cipherblas.common.encoding import encoded
from cipherblas.common.errors import Advice, DTypeError, MemoryBudgetError, MismatchError
from cipherblas.common.limits import check_available
from cipherblas.common.memory import Array, aligned_empty, mapped_file
from cipherblas.common.progress import Progress, Steps, shown
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto import randomness
from cipherblas.crypto.keys import FreshCiphertext, PublicKey, SecretKey, encrypt
from cipherblas.crypto.periodic import side_by_side
from cipherblas.crypto.plain_residues import reduced
from cipherblas.crypto.residue_slots import residue_slots
from cipherblas.evaluators.policy.interface import Scale
from cipherblas.forms.form import Matrix
from cipherblas.lang.crt import exact_numbers, residues_of
from cipherblas.lang.modular import residues
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.matrices import CoefficientMatrix
from cipherblas.rlwe.matrices.encryption import encrypt_integers, encrypt_rows
from cipherblas.roles.calls import operands_in_one_mapping
from cipherblas.roles.client_side import ClientSide, secret_operand
from cipherblas.roles.wire.messages import (
    EncryptedOperand,
    check_parameters,
    check_shape,
    short_id,
)
from cipherblas.runtime.values import Input

Key = SecretKey | PublicKey

THREADED_DEGREE = (
    1 << 14
)  # messages of smaller rings are encrypted faster than threads change places between them


class Encryptor:
    """Encrypts operands with the public key alone; made by `Program.encryptor(public_key)`.

    It encrypts what is declared with encryption="public-key", and decrypts nothing.

    Raises:
        DTypeError: not a public key.
        MismatchError: the key belongs to another program or to other parameters, or no operand is planned for one.
    """

    def __init__(self, program: ClientSide, key: PublicKey) -> None:
        if not isinstance(key, PublicKey):
            raise DTypeError(
                "An encryptor takes a public key.",
                expected="PublicKey",
                got=type(key).__name__,
                advice="program.encryptor(client.public_key())",
            )
        if not program.made_for(key.program_id):
            raise MismatchError(
                "The public key belongs to another program.",
                expected=short_id(program.id),
                got=short_id(key.program_id) or "no program",
                advice="client.public_key() of a client of this program",
            )
        check_parameters("the public key", key.params, program.plan.parameters)
        check_public_key_planned(program)
        self.program = program
        self._key = key

    def __repr__(self) -> str:
        return f"<Encryptor of program {short_id(self.program.id)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made, and so checked, by the constructor."""
        return Encryptor, (self.program, self._key)

    @operands_in_one_mapping
    def encrypt(
        self,
        operands: Mapping[str, Any],
        /,
        *,
        folder: str | Path | None = None,
        progress: Progress | bool | None = None,
    ) -> dict[str, EncryptedOperand]:
        """Encrypt operands given by name with the public key.

        Arguments, result and errors as `Client.encrypt`; also MismatchError where the plan has the secret key encrypt
        an operand: its error bound does not hold for the public key.
        """
        progress = shown(progress, "encrypting")
        return encrypt_operands(self.program, self._key, operands, folder, progress)


def check_public_key_planned(program: ClientSide) -> None:
    """Raise MismatchError unless an operand of the program is planned for the public key."""
    if not any(operand.public_key for operand in program.operands.values()):
        raise MismatchError(
            "No operand of the program is planned for a public key.",
            advice='cb.secret(…, encryption="public-key") where one is declared',
            got=", ".join(name for name, operand in program.operands.items() if operand.secret),
        )


def encrypt_operands(
    program: ClientSide,
    key: Key,
    operands: Mapping[str, Any],
    folder: str | Path | None,
    progress: Progress | None,
) -> dict[str, EncryptedOperand]:
    """The operands encrypted as the plan asks for; arguments, result and errors as `Client.encrypt`."""
    matrices = {name: _checked(program, key, name, value) for name, value in operands.items()}
    inputs_of = {name: program.inputs_of(name) for name in matrices}
    all_inputs = [one for inputs in inputs_of.values() for one in inputs]
    in_file = _goes_to_file(key, all_inputs, f"encrypting {', '.join(matrices)}", folder)
    sealer = KeySealer(
        key, Steps(progress, sum(one.form.parts for one in all_inputs)), folder if in_file else None
    )
    moduli = program.computed_moduli
    sealers = [sealer.modulo(one) for one in moduli] or [sealer]
    encrypted: dict[str, EncryptedOperand] = {}
    for name, matrix in matrices.items():
        each = [residues_of(matrix, one) for one in moduli] if program.exact and moduli else [matrix]
        feeds = tuple(
            one.form.sealed(own, arranged_input(one, values), one.encoding_scale, one.basis)
            for own, values, modulo in zip(sealers, each, program.residues, strict=True)
            for one in modulo.inputs_of(name)
        )
        made_for = program.id if key.program_id else program.encoding_id(name)
        encrypted[name] = EncryptedOperand(
            made_for, name, matrix.shape, program.plan.parameters, feeds, key.key_id
        )
    return encrypted


def _checked(program: ClientSide, key: Key, name: str, value: Any) -> Matrix:
    operand = secret_operand(program, name)
    if isinstance(key, PublicKey) and not operand.public_key:
        raise MismatchError(
            f"Operand {name!r} is planned for the secret key, with a smaller error.",
            advice=(
                'cb.secret(…, encryption="public-key") where it is declared',
                "client.encrypt, with the secret key",
            ),
            got="a public key",
        )
    if program.exact and program.computed_moduli:
        return exact_numbers(value, name, operand)
    if operand.plain_modulus is not None:
        return residues(value, name, operand)
    if operand.exact:
        value = exact_numbers(value, name, operand)
    matrix = finite_array(value, f"operand {name!r}", (len(operand.shape),))
    check_shape(name, matrix.shape, operand.shape)
    matrix = operand.normalised(matrix)
    operand.check(name, matrix)
    return matrix


def _goes_to_file(key: Key, inputs: Sequence[Input], what: str, folder: str | Path | None) -> bool:
    """Whether ciphertexts of slots go to a file, of a folder if there is one, because memory does not hold them.

    Raises:
        MemoryBudgetError: nor does it hold what must be there.
    """
    try:
        check_available(_working_bytes(key, inputs), what)
        return False
    except MemoryBudgetError as error:
        in_memory = [one for one in inputs if not one.form.in_files]
        if len(in_memory) == len(inputs):
            raise
        if folder is None:
            error.advice = (
                Advice("folder=… of a disk, where ciphertexts of slots go to a file"),
                *error.advice,
            )
            raise
    check_available(_working_bytes(key, in_memory), what)
    return True


def _working_bytes(key: Key, inputs: Sequence[Input]) -> int:
    """Memory that encryption takes: all that is made, and what is made for one at a time."""
    public = isinstance(key, PublicKey)
    sizes = [(one.basis.words(key.params), one.form.degree(key.params), public) for one in inputs]
    kept = sum(one.form.upload(*size).upload_bytes for one, size in zip(inputs, sizes, strict=True))
    once = (one.form.packing_bytes(*size) for one, size in zip(inputs, sizes, strict=True))
    return kept + max(once, default=0)


class KeySealer:
    """`forms.form.Sealer` with a key.

    Args:
        steps: told of every ciphertext.
        folder: of a file for ciphertexts of slots; None where memory holds them.
    """

    def __init__(self, key: Key, steps: Steps, folder: str | Path | None) -> None:
        self.params, self._key, self._steps, self._folder = key.params, key, steps, folder

    def modulo(self, plain_modulus: int) -> KeySealer:
        """The same for integers modulo t."""
        return KeySealer(self._key.modulo(plain_modulus), self._steps, self._folder)

    def vectors(
        self, vectors: Sequence[Callable[[], NDArray[Any]]], scale: Scale, limbs: int
    ) -> tuple[FreshCiphertext, ...]:
        context, n, modulus = self.params.context(), self.params.n, self.params.plain_modulus

        def message(vector: Callable[[], NDArray[Any]]) -> NDArray[np.int64]:
            slots = np.asarray(vector(), dtype=np.complex128)
            if modulus is not None:
                return residue_slots(n, modulus).coefficients(slots, scale.value)
            return encoded(context, slots, scale, randomness.fresh_dither())

        return self._encrypted([partial(message, vector) for vector in vectors], limbs)

    def coefficients(
        self, polynomials: Sequence[Callable[[], NDArray[Any]]], scale: Scale, limbs: int
    ) -> tuple[FreshCiphertext, ...]:
        """As `vectors`."""
        n, modulus = self.params.n, self.params.plain_modulus

        def message(polynomial: Callable[[], NDArray[Any]]) -> NDArray[np.int64]:
            given, found = polynomial(), np.zeros(n, np.int64)
            if given.ndim == 2:
                exact = given if modulus is None else reduced(given, modulus)
                given = side_by_side(exact, n, modulus)
            whole = np.rint(given * scale) if modulus is None else reduced(given, modulus, scale.value)
            found[: given.size] = whole
            return found

        return self._encrypted([partial(message, one) for one in polynomials], limbs)

    def _encrypted(
        self, messages: Sequence[Callable[[], NDArray[np.int64]]], limbs: int
    ) -> tuple[FreshCiphertext, ...]:
        """Encrypted in threads, where these are worth it."""
        key, n = self._key, self.params.n
        # In the order in which a file has them: it is written from there.
        shape = (len(messages), *((limbs, n) if isinstance(key, SecretKey) else (2, limbs, n)))
        if self._folder is None:
            room = aligned_empty(shape)
        else:
            file = mapped_file(WORD_BYTES * math.prod(shape), "Ciphertexts", self._folder)
            room = np.frombuffer(file, np.uint64).reshape(shape)

        def encrypted(message: Callable[[], NDArray[np.int64]], place: Array) -> FreshCiphertext:
            return encrypt(key, message(), limbs, place)

        found: list[FreshCiphertext] = []
        from concurrent.futures import ThreadPoolExecutor  # as `common.memory`

        with ThreadPoolExecutor(max_workers=max(1, _core.threads())) as pool:
            for one in (pool.map if n >= THREADED_DEGREE else map)(encrypted, messages, room):
                found.append(one)
                self._steps.tick()
        return tuple(found)

    def matrix(
        self, kind: type[CoefficientMatrix], matrix: Matrix, scale: Scale, basis: Basis
    ) -> CoefficientMatrix:
        """Encrypted in the format of this kind."""
        key = self._key.rows if isinstance(self._key, SecretKey) else self._key
        modulus = self.params.plain_modulus
        if modulus is None:
            found = encrypt_rows(key, matrix, scale, basis, kind)
        else:
            integers = reduced(matrix, modulus, scale.value)
            found = encrypt_integers(key, integers, basis, kind, scale.low)
        self._steps.tick()
        return found


def arranged_input(wanted: Input, matrix: Matrix) -> Matrix:
    """An operand as it is packed."""
    for step in wanted.steps:
        matrix = step(matrix)
    if wanted.transposed:
        matrix = np.atleast_1d(matrix)
        matrix = matrix.reshape(len(matrix), -1).T
    return matrix.reshape(wanted.shape)
