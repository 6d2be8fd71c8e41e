"""The secret key: it lives in this object and in the client's key file, and nowhere else."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import numpy as np

from cipherblas.common import schema
from cipherblas.common.errors import FormatError, ParameterError, SecurityError, SecurityWarning, printable
from cipherblas.common.memory import Array
from cipherblas.common.pickles import NeverCopied
from cipherblas.crypto import files, randomness
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.security import SPARSE_WEIGHT

_HEADER = schema.record(
    {"program_id": schema.text, "key_id": schema.text}, {"recorded": schema.flag}, others=True
)


class _KeptAlive:
    """An array of a key for NumPy to look at: a view of it keeps the key, whose end would overwrite the array."""

    __slots__ = ("__array_interface__", "_array", "_key")

    def __init__(self, array: Array, key: SecretKey) -> None:
        self.__array_interface__ = array.__array_interface__
        self._array, self._key = array, key


class SecretKey(NeverCopied):
    """A uniform ternary secret, derived from a 32-byte seed.

    It is not shown by `repr`, cannot be pickled or copied, and is saved by `save` only. `close` (or leaving a
    `with` block) overwrites it in memory, as far as Python allows: copies that libraries made are out of reach.

    Attributes:
        params: the parameters it belongs to.
        program_id: the program it was made for, or "".
        key_id: a random public name of the key pair: what was made with another key pair is told apart by it.
        recorded: whether its file has a record beside it, of what was shared under the key.
    """

    refusal = "A secret key can be neither pickled nor copied."
    instead = "SecretKey.save(path), a file of its owner, and SecretKey.load(path)"

    __slots__ = (
        "_closed",
        "_coefficients",
        "_modulo",
        "_ntt",
        "_rows",
        "_seed",
        "key_id",
        "params",
        "program_id",
        "recorded",
    )

    def __init__(
        self,
        params: Parameters,
        seed: bytes | bytearray | Array,
        program_id: str = "",
        key_id: str = "",
        recorded: bool = False,
    ) -> None:
        """Derive the secret from its seed; use `generate_secret` for a new one."""
        if len(seed) != randomness.SEED_BYTES:
            raise ParameterError(
                "The seed has the wrong length.",
                expected=f"{randomness.SEED_BYTES} bytes",
                got=f"{len(seed)} bytes",
            )
        self.params = params
        self.program_id = program_id
        self.key_id = key_id or os.urandom(16).hex()
        self.recorded = recorded
        self._closed = False
        self._seed: Array = np.frombuffer(bytearray(seed), np.uint8)
        context = params.context()
        self._coefficients: Array = randomness.ternary(context, self._seed, randomness.Purpose.SECRET)
        self._ntt: Array = context.plaintext(self._coefficients, params.limbs, special=True)
        self._rows: SecretKey | None = None
        self._modulo: dict[int, SecretKey] = {}

    @classmethod
    def of_coefficients(
        cls,
        params: Parameters,
        coefficients: Array,
        program_id: str = "",
        key_id: str = "",
        recorded: bool = False,
    ) -> SecretKey:
        """The key of ternary coefficients (N,) that another library drew, without a seed: nothing is derived from it.

        Raises:
            ParameterError: they are not ternary, or rows have a ring of their own, whose secret needs a seed.
        """
        ternary = coefficients.shape == (params.n,) and np.isin(coefficients, (-1, 0, 1)).all()
        if not ternary or params.row_degree is not None:
            raise ParameterError(
                "No secret key is made of these coefficients.",
                expected=f"{params.n} of -1, 0 and 1, and parameters without row_degree",
                got=f"shape {coefficients.shape}",
            )
        key = cls.__new__(cls)
        key.params, key.program_id, key.recorded = params, program_id, recorded
        key.key_id = key_id or os.urandom(16).hex()
        key._closed, key._rows, key._modulo = False, None, {}
        key._seed = np.zeros(0, np.uint8)
        key._coefficients = np.array(coefficients, np.int64)
        key._ntt = params.context().plaintext(key._coefficients, params.limbs, special=True)
        return key

    def check_open(self) -> None:
        """Raise SecurityError where the key is closed."""
        if self._closed:
            raise SecurityError(
                "The secret key is closed.",
                advice="cb.Client.load(path, program), or program.client() for another key",
                cause="`close` overwrites the secret.",
            )

    @property
    def closed(self) -> bool:
        """Whether the secret has been overwritten."""
        return self._closed

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Keep the secret alive during a computation. Leaving the block raises an error if the key was closed
        meanwhile.

        Raises:
            SecurityError: the key is closed, or was meanwhile, by another thread; what was computed is not to be used.
        """
        self.check_open()
        yield
        self.check_open()

    def coefficients(self) -> Array:
        """The ternary coefficients, int64 (N,). Secret; they keep this key, and `close` overwrites them."""
        self.check_open()
        return np.asarray(_KeptAlive(self._coefficients, self))

    def ntt(self) -> Array:
        """All limbs of Q and P in NTT form, uint64 (L + 1 + k, N). Secret; they keep this key, and `close` overwrites
        them: use them within `held_open` where another thread might close the key.
        """
        self.check_open()
        return np.asarray(_KeptAlive(self._ntt, self))

    def shared_coefficients(self, index: int) -> Array:
        """Secret number `index` of the shared-a formats, int64 (N,): uniform ternary, from the same seed."""
        purpose = randomness.Purpose.SHARED_SECRET
        with self.held_open():
            return randomness.ternary(self.params.context(), self._seed, purpose, index)

    def sparse_coefficients(self, index: int = 0) -> Array:
        """The secret of weight `SPARSE_WEIGHT` under which moduli are raised, int64 (N,): from the same seed. Number
        1 + j is that of ciphertexts that share their a part, at place j."""
        with self.held_open():
            return randomness.sparse_ternary(self.params.n, self._seed, SPARSE_WEIGHT, index)

    @property
    def rows(self) -> SecretKey:
        """The secret of matrices that are encrypted by rows: this one, or one of their ring, whose seed is derived from
        this one's; `close` closes it too."""
        if self.params.row_degree is None:
            return self
        with self.held_open():
            if self._rows is None:
                seed = np.empty(randomness.SEED_BYTES, np.uint8)
                randomness.keystream(self._seed, randomness.Purpose.ROW_SECRET, 0, seed)
                own = SecretKey(self.params.family.rows, seed, self.program_id, self.key_id)
                seed.fill(0)
                self._rows = own
            return self._rows

    def modulo(self, plain_modulus: int) -> SecretKey:
        """This secret for messages modulo another t, on which no key depends; `close` closes it too."""
        if plain_modulus == self.params.plain_modulus:
            return self
        with self.held_open():
            if plain_modulus not in self._modulo:
                params = self.params.modulo(plain_modulus)
                self._modulo[plain_modulus] = SecretKey(params, self._seed, self.program_id, self.key_id)
            return self._modulo[plain_modulus]

    def row_coefficients(self) -> Array:
        """The secret of the ring of rows as a polynomial of X^(N/n), n its degree: int64 (N,)."""
        with self.held_open():
            own, found = self.rows.coefficients(), np.zeros(self.params.n, np.int64)
            found[:: self.params.n // len(own)] = own
            return found

    def close(self) -> None:
        """Overwrite the secret, also in arrays that were handed out. Any later use raises SecurityError."""
        self._closed = True
        if self._rows is not None:
            self._rows.close()
        for other in self._modulo.values():
            other.close()
        for array in (self._seed, self._coefficients, self._ntt):
            array.fill(0)

    def save(self, path: files.Target, *, recorded: bool = False) -> None:
        """Write the key file, readable by its owner only, atomically.

        Args:
            path: where to; or a stream.
            recorded: whether a record of what is shared under the key is kept beside the file.

        Raises:
            SecurityError: the key is closed.
            StorageError: the file cannot be written.
        """
        with self.held_open():
            name = "seed" if self._seed.size else "coefficients"
            secret = self._seed.copy() if self._seed.size else self._coefficients.astype(np.int8)
        header = {"program_id": self.program_id, "key_id": self.key_id, "recorded": recorded or self.recorded}
        try:
            files.write(path, "secret-key", header, {name: secret}, parameters=self.params, private=True)
        finally:
            secret.fill(0)

    @classmethod
    @files.advised("secret-key")
    def load(
        cls,
        path: files.Source,
        *,
        fingerprint: str | None = None,
        security: int = 128,
        insecure: bool = False,
    ) -> SecretKey:
        """Read a key file; warns (SecurityWarning) when others than its owner may read it.

        Raises:
            FormatError, VersionError, MismatchError, SecurityError, StorageError: as `files.read`, whose arguments
                these are.
        """
        with files.Reader(
            path, "secret-key", fingerprint=fingerprint, security=security, insecure=insecure
        ) as reader:
            mode = 0 if files.is_read(path) else stat.S_IMODE(os.stat(reader.path).st_mode)
            if mode & 0o077:
                warnings.warn(
                    f"The secret key file {printable(reader.path)} can be read by others (expected mode 0600, "
                    f"got {mode:04o}).",
                    SecurityWarning,
                    stacklevel=2,
                )
            drawn = "coefficients" in reader.tensors  # by another library
            name = "coefficients" if drawn else "seed"
            params = reader.parameters
            reader.expect(
                name, np.int8 if drawn else np.uint8, (params.n if drawn else randomness.SEED_BYTES,)
            )
            _HEADER(reader.header, f"{reader.path}: a secret key")
            header, secret = reader.header, reader.read(name)
            recorded = header.get("recorded", False)  # not in files of earlier versions
            names = header["program_id"], header["key_id"], recorded
            try:
                return cls.of_coefficients(params, secret, *names) if drawn else cls(params, secret, *names)
            except ParameterError as error:
                raise FormatError(f"{reader.path}: {error}") from error
            finally:
                secret.fill(0)

    def __enter__(self) -> SecretKey:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_ntt", None) is not None:
            self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"SecretKey(N={self.params.n}, parameters {self.params.fingerprint()[:12]}{state})"


def generate_secret(params: Parameters, program_id: str = "") -> SecretKey:
    """A new secret key from 32 bytes of the operating system's randomness."""
    return SecretKey(params, randomness.fresh_seed(), program_id)
