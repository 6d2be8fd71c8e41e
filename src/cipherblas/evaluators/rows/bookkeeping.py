"""The bookkeeping under every evaluator of encrypted rows: handles, memory, declared keys, and the hooks."""

from __future__ import annotations

import copy
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.errors import LevelError
from cipherblas.common.words import WORD_BYTES
from cipherblas.common.work import Work
from cipherblas.crypto.fields import MAX_OPERAND_MESSAGE
from cipherblas.crypto.keys.key_id import FixedWeights, KeyId
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.evaluators.policy.interface import PlaintextPolicy, Scale
from cipherblas.evaluators.policy.members import policy_of
from cipherblas.evaluators.rows.values import (
    EncryptedMatrix,
    MultiSecretRows,
    Rows,
    TransposedHalf,
)
from cipherblas.evaluators.slots.values import ClearFactor, Ledger
from cipherblas.rlwe.basis import Basis, FirstLimbs
from cipherblas.rlwe.costs import costs_of
from cipherblas.rlwe.counts import NOTHING, Counts
from cipherblas.rlwe.key_policies import KeyPolicy, check_policy
from cipherblas.rlwe.matrices.transposition import TransposePolicy, transpose_plan
from cipherblas.rlwe.noise import UNKNOWN, Spread
from cipherblas.rlwe.rings import Ring

Kind = TypeVar("Kind", bound="RowsBookkeeper")
STEPS_PER_PRODUCT = 10  # of the budget of work
KEYS_PER_STEP = 16
FRACTION_BITS = (64, 104)  # of products of operands that are switched to one limb, and to two
# What the policies of rotation keys mean for transpositions: one key for each automorphism, two digits, or bits.
TRANSPOSE_POLICIES: dict[KeyPolicy, TransposePolicy] = {
    "direct": "fast",
    "composed": "light",
    "binary": "binary",
}


@functools.lru_cache(maxsize=256)
def weight_keys(factor: int, rows: int) -> Mapping[FixedWeights, None]:
    """The names of the keys of a fixed factor, of its rows; hashed once."""
    return dict.fromkeys(FixedWeights(factor, row) for row in range(rows))


class RowsBookkeeper(ABC):
    """Counts, keys, memory and noise of one run, the policy of its plaintexts, and the hooks of all operations."""

    work: Work | None = None

    def __init__(
        self,
        params: Ring,
        *,
        key_policy: KeyPolicy = "direct",
        available: KeyRequest | None = None,
        policy: PlaintextPolicy | None = None,
    ) -> None:
        check_policy(key_policy)
        self.params = params
        self.key_policy = key_policy
        self.n = params.n
        self.counts = NOTHING.copy()
        self.costs = costs_of(params)
        self.ledger = Ledger()
        self.policy = policy_of(params, level_limbs=1) if policy is None else policy
        self._available = available
        self._variance = self.policy.row_steps()
        self._weight = self._variance.weight
        self._needed: dict[KeyId, int] = {}  # key → the most limbs that it was asked for
        self.key_limbs = params.key_limbs or len(params.q)
        self._used: dict[Hashable, int] = {}  # name of keys that are used together → limbs at which they were

    # ---- threads ----

    def sibling(self: Kind) -> Kind:
        """Another evaluator of the same run, for another thread; as that of slots."""
        other = copy.copy(self)
        other.counts, other._needed, other._used = Counts(), {}, {}
        return other

    def join(self, sibling: RowsBookkeeper) -> None:
        """Take over what a sibling counted and declared; its thread is done."""
        self.counts += sibling.counts
        for key, limbs in sibling._needed.items():
            self._needed[key] = max(limbs, self._needed.get(key, 0))

    # ---- hooks ----

    @abstractmethod
    def _clear_product_data(self, factor: ClearFactor, x: Rows, exact: bool) -> Any: ...

    @abstractmethod
    def _fixed_product_data(
        self, factor: ClearFactor, number: int, x: MultiSecretRows, exact: bool
    ) -> Sequence[Any]: ...

    @abstractmethod
    def _parts_data(self, x: Rows) -> tuple[Any, Any]: ...

    @abstractmethod
    def _gram_data(self, x: Rows) -> tuple[Any, Any]: ...

    @abstractmethod
    def _part_product_data(self, part: TransposedHalf, x: Rows) -> Any: ...

    @abstractmethod
    def _switched_product_data(self, part: TransposedHalf, x: Rows) -> Any:
        """A product of operands with moduli of their own, switched to Q."""

    @abstractmethod
    def _reduced_product_data(self, factor: ClearFactor, x: Rows) -> Any:
        """A clear product of an operand with moduli of its own, switched to Q."""

    @abstractmethod
    def _switched_gram_data(self, x: Rows) -> tuple[Any, Any]:
        """The same of an encryption and itself."""

    @abstractmethod
    def _transpose_data(self, x: Rows) -> Any: ...

    def _transpose_spent_data(self, x: Rows) -> Any:
        """The same of what is used no more, whose memory may be overwritten."""
        return self._transpose_data(x)

    @abstractmethod
    def _relinearise_data(self, x: Rows) -> Any: ...

    @abstractmethod
    def _take_data(self, x: Rows, rows: int, cols: int) -> Any: ...

    @abstractmethod
    def _rows_data(self, x: Rows, start: int, stop: int) -> Any: ...

    @abstractmethod
    def _stack_data(self, xs: Sequence[Rows]) -> Any: ...

    @abstractmethod
    def _add_data(self, x: Rows, y: Rows) -> Any: ...

    @abstractmethod
    def _sub_data(self, x: Rows, y: Rows) -> Any: ...

    @abstractmethod
    def _rescale_data(self, x: Rows) -> Any: ...

    @abstractmethod
    def _drop_data(self, x: Rows, limbs: int) -> Any: ...

    @abstractmethod
    def _elements_data(self, x: Rows, start: int, stop: int) -> list[Any]:
        """Rows as ciphertexts of the evaluator of slots of the same kind."""

    @abstractmethod
    def _of_elements_data(self, datas: Sequence[Any], shape: tuple[int, int], held: int, scale: Scale) -> Any:
        """Rows from ring elements, the first `held` of N / columns of each, in bit-reversed order."""

    @abstractmethod
    def _add_clear_data(self, x: Rows, values: Callable[[], NDArray[np.float64]]) -> Any: ...

    # ---- handles ----

    @property
    def product_steps(self) -> int:
        """Steps of a product of secrets: its GEMMs and sums, and the keys of its two transpositions."""
        keys, _ = transpose_plan(self.n, TRANSPOSE_POLICIES[self.key_policy])
        return STEPS_PER_PRODUCT + 2 * len(keys) // KEYS_PER_STEP

    def spend(self, steps: int, what: str) -> None:
        """Announce so many steps of a loop: `RowsSymbolic` has a budget of them."""
        if self.work is not None:
            self.work.spend(steps, what)

    @property
    def request(self) -> KeyRequest:
        """The evaluation keys that the operations so far needed."""
        return KeyRequest(dict(self._needed))

    @property
    def peak_bytes(self) -> int:
        """Largest number of bytes of live encryptions and working buffers so far."""
        return self.ledger.peak

    def log_modulus(self, basis: Basis) -> float:
        """log2 of the product of all moduli."""
        return self.policy.log_modulus(basis)

    @property
    def whole(self) -> Basis:
        """All limbs of Q."""
        return FirstLimbs(len(self.params.q))

    def dropped(self, basis: Basis, kept: Basis) -> float:
        """The divisor of scales between a basis and a smaller one.

        Raises:
            LevelError: no double holds it.
        """
        return self.policy.divisor(basis, kept)

    def switch_rounding(self, x: EncryptedMatrix) -> float:
        """By how much more than 1/2, relative, a product with operands x is off that is switched to Q: the weights of
        fractions are rounded, which counts for each modulus and sum of `OPERAND_DEPTH` products."""
        kept = self.params.q
        unit = 2.0 ** FRACTION_BITS[0 if len(kept) == 1 else 1]
        weights = 64 * len(x.basis.moduli(self.params)) * -(-x.shape[0] // _core.OPERAND_DEPTH)
        return 1 + 2 * weights * math.prod(map(float, kept)) / unit

    def check_switched(self, x: EncryptedMatrix, what: str) -> None:
        """Raise LevelError for operands with moduli of their own."""
        if x.basis.of_operands:
            raise LevelError(
                f"Rows modulo the moduli of operands cannot be {what}.",
                expected=f"at most {len(self.params.q)} limbs",
                got="an operand of products",
            )

    def nbytes(self, shape: tuple[int, int], basis: Basis) -> int:
        """Bytes of an encryption."""
        return basis.words(self.params) * shape[0] * (self.n + shape[1]) * WORD_BYTES

    def make(
        self,
        shape: tuple[int, int],
        basis: Basis,
        scale: Scale,
        bound: float,
        noise: float,
        bias: float,
        data: Any,
        independent: bool = False,
        source: Rows | None = None,
        booked: bool = True,
        spread: Spread = UNKNOWN,
    ) -> Rows:
        """A handle, booked and checked: the message must not wrap around the modulus.

        Args:
            source: the handle whose data these are, or are a part of: it holds them, and is booked.
            booked: memory is counted here; that of operands, which stay for the whole run, is counted by the plan.

        Raises:
            LevelError: scale · bound needs a larger modulus.
        """
        if math.isfinite(bound):
            self.policy.check_rows(basis, scale, bound, noise, bias)
        nbytes = self.nbytes(shape, basis) if booked and source is None else 0
        known = self.policy, independent, source, spread
        return Rows(shape, basis, scale, bound, noise, bias, data, self.ledger, nbytes, *known)

    def fresh_batch(
        self, data: Any, shape: tuple[int, int], *, bound: float, scale: Scale, basis: Basis
    ) -> MultiSecretRows:
        """A handle on a fresh encryption whose rows share their a parts; see `fresh`."""
        noise, share = math.sqrt(self._variance.fresh()), self.policy.message_share(scale, bound)
        self.policy.check_rows(basis, scale, bound, noise, share)
        own = self._fresh_data(data)
        return MultiSecretRows(
            *(shape, basis, scale, bound, noise, share, own, self.ledger, 0), self.policy, True
        )

    def _fresh_data(self, data: Any) -> Any:
        """The evaluator's own representation of what `fresh` and `fresh_batch` are given."""
        return data

    def fresh(
        self,
        data: Any,
        shape: tuple[int, int],
        *,
        bound: float,
        scale: Scale,
        basis: Basis,
        public_key: bool = False,
    ) -> Rows:
        """A handle on a fresh encryption; entries are rounded to integers after scaling.

        `public_key`: encrypted with the public key (more noise).

        Raises:
            LevelError: the message does not fit the modulus, or of an operand with moduli of its own a word.
        """
        message = self.policy.magnitude(scale, bound)
        if basis.of_operands and message >= MAX_OPERAND_MESSAGE:
            raise LevelError(
                "The messages of operands with moduli of their own are words.",
                expected=f"log2(scale · bound) below {math.log2(MAX_OPERAND_MESSAGE):.1f}",
                got=f"{math.log2(message):.1f}",
            )
        noise = math.sqrt(self._variance.fresh(public_key))
        share, own = self.policy.message_share(scale, bound), self._fresh_data(data)
        return self.make(shape, basis, scale, bound, noise, share, own, independent=True, booked=False)

    # ---- costs ----

    def _for_parts(
        self, cost: Callable[[Counts, int, int, int], None], shape: tuple[int, int], limbs: int
    ) -> None:
        """Book what a call of the engine costs for the a and for the b part of an encryption."""
        for width in (self.n, shape[1]):
            cost(self.counts, shape[0], width, limbs)

    # ---- keys ----

    def _use_keys(self, name: Hashable, keys: Collection[KeyId], limbs: int) -> None:
        """Ask for keys that are used together, always the same ones of a name."""
        if limbs <= self._used.get(name, 0):
            return
        self._check_key_limbs(limbs)
        if self._available is not None:
            for key in keys:
                self._available.expect(key, limbs, self.n)
        self._needed.update(dict.fromkeys(keys, limbs))
        self._used[name] = limbs

    def _check_key_limbs(self, limbs: int) -> None:
        if limbs > self.key_limbs:
            raise LevelError(
                "There are no keys for so many limbs.", expected=f"at most {self.key_limbs}", got=limbs
            )
