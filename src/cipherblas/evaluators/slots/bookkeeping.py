"""The bookkeeping under every evaluator: costs of the building blocks, declared keys, room for the message.

Nothing here touches data. A subclass adds the operations (`Evaluator`) and the hooks that compute.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from cipherblas.common.errors import LevelError
from cipherblas.common.limits import MASK_BYTES, RUN_BYTES
from cipherblas.common.work import Work
from cipherblas.crypto.fields import ROW_LIMBS
from cipherblas.crypto.keys.key_id import (
    RELINEARISATION,
    FromRows,
    FromSparse,
    Galois,
    KeyId,
    Raising,
    ToRows,
    ToSparse,
)
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.evaluators.policy.interface import PlaintextPolicy, Scale
from cipherblas.evaluators.policy.members import policy_of
from cipherblas.evaluators.slots.values import Ct, Ledger, MaskGroup, Plain
from cipherblas.rlwe.costs import Costs, costs_of
from cipherblas.rlwe.counts import NOTHING, Counts
from cipherblas.rlwe.key_policies import KeyPolicy, check_policy
from cipherblas.rlwe.noise import SlotErrors
from cipherblas.rlwe.rings import Ring

CONJUGATE = -1  # stands for complex conjugation where a rotation step is expected
DEFAULT_WORKING_BYTES = 1 << 30

Kind = TypeVar("Kind", bound="Bookkeeper")
Properties = tuple[int, Scale, float, SlotErrors, int]  # of a handle: limbs, scale, bound, errors, components


class Term(NamedTuple):
    """plain ⊙ Rot_step(source), added to one output of a linear transform; plain None is the factor 1."""

    output: int
    source: int
    step: int
    plain: Plain | None


@functools.lru_cache(maxsize=1 << 15)
def _rotation_key(step: int, n: int, shared: int) -> Galois:
    element = 2 * n - 1 if step == CONJUGATE else pow(5, step, 2 * n)
    return Galois(element, shared=shared)


class Bookkeeper:
    """Counts, keys, memory of one run, and the policy of its plaintexts."""

    schedule: ClassVar[str] = "local"  # of `runtime.schedule`, by which tasks on many blocks are run
    work: Work | None = None
    shared_by = 0  # how many ciphertexts share the a part that keys are for; 0 of ordinary ciphertexts
    on_weights: Callable[[int], None] | None = None  # called with numbers of weights that were encoded

    def __init__(
        self,
        params: Ring,
        *,
        key_policy: KeyPolicy = "direct",
        working_bytes: int = DEFAULT_WORKING_BYTES,
        available: KeyRequest | None = None,
        mask_budget: int = MASK_BYTES,
        policy: PlaintextPolicy | None = None,
    ) -> None:
        check_policy(key_policy)
        self.params = params
        self.n = params.n
        self.slots = params.n // 2
        self.key_policy = key_policy
        self.working_bytes = working_bytes
        self.counts = NOTHING.copy()
        self.costs = costs_of(params)
        self.ledger = Ledger()
        self.policy = policy_of(params) if policy is None else policy
        self.top_limbs = len(params.q)
        self.level_limbs = self.policy.level_limbs
        self._special = len(params.p)
        self._available = available
        self._booking = threading.RLock()  # encodings, of all siblings
        self._encoded: dict[Hashable, int] = {}  # encodings of each plaintext, one per block, that are kept
        self._encoded_anew: dict[
            Hashable, int
        ] = {}  # uses of plaintexts some of whose encodings are not kept
        self._encoded_bytes = {True: 0, False: 0}  # of constants, of others
        self._encoding_budgets = {True: mask_budget, False: RUN_BYTES}
        self._repeats = 1  # how often what is done now happens, on different blocks
        self._asked: dict[int, int] = {}  # rotation step → the most limbs that its key was asked for
        self._needed: dict[KeyId, int] = {}  # key → the most limbs that it was asked for

    # ---- threads ----

    def sibling(self: Kind) -> Kind:
        """Another evaluator of the same run, for another thread: they share ledger, encodings and keys; counts and
        declared keys begin anew, until `join`."""
        other = copy.copy(self)
        other.counts, other._needed, other._asked = Counts(), {}, {}
        other._begin_anew()
        return other

    def _begin_anew(self) -> None:
        """Make anew everything that a sibling has of its own beside that."""

    def join(self, sibling: Bookkeeper) -> None:
        """Take over what a sibling counted and declared; its thread is done."""
        self.counts += sibling.counts
        for key, limbs in sibling._needed.items():
            self._needed[key] = max(limbs, self._needed.get(key, 0))

    def beside(self, other: Bookkeeper) -> None:
        """Take the ledger and the encodings of another evaluator of the same run and ring."""
        self.ledger, self.work = other.ledger, other.work
        self._booking, self._encoded, self._encoded_anew = other._booking, other._encoded, other._encoded_anew
        self._encoded_bytes, self._encoding_budgets = other._encoded_bytes, other._encoding_budgets

    # ---- keys ----

    def rotation_key(self, step: int) -> Galois:
        """The name of the key of a rotation: 5^step mod 2N; 2N - 1 for `CONJUGATE`."""
        return _rotation_key(step, self.n, self.shared_by)

    @property
    def request(self) -> KeyRequest:
        """The evaluation keys that the operations so far needed, each at its largest number of limbs."""
        return KeyRequest(dict(self._needed))

    def _use_key(self, key: KeyId, limbs: int) -> None:
        if self._needed.get(key, 0) < limbs:
            self._check_key(key, limbs)
            self._needed[key] = limbs

    def use_rotations(self, steps: Iterable[int], limbs: int) -> None:
        """Declare the keys of rotations."""
        asked, needed, n, shared = self._asked, self._needed, self.n, self.shared_by
        for step in steps:
            if asked.get(step, 0) < limbs:
                key = _rotation_key(step, n, shared)
                if needed.get(key, 0) < limbs:
                    if self._available is not None:
                        self._available.expect(key, limbs, n)
                    needed[key] = limbs
                asked[step] = limbs

    def _check_key(self, key: KeyId, limbs: int) -> None:
        """Raise MissingKeyError where the key was not declared, or not for so many limbs."""
        if self._available is not None:
            self._available.expect(key, limbs, self.n)

    def _use_relinearisation_key(self, limbs: int) -> None:
        self._use_key(RELINEARISATION, limbs)

    def _use_encapsulation_keys(self, limbs: int) -> None:
        self._use_key(ToSparse(shared=self.shared_by), 1)
        self._use_key(FromSparse(shared=self.shared_by), limbs)

    def raising_key(self, step: int) -> Raising:
        """The name of the key of a rotation of what is under the sparse secret."""
        return Raising(self.rotation_key(step).element if step else 1)

    def use_raising_keys(self, steps: Iterable[int], limbs: int) -> None:
        """Declare the keys of such rotations, and of the switch to the sparse secret."""
        self._use_key(ToSparse(), 1)
        for step in steps:
            self._use_key(self.raising_key(step), limbs)

    def _use_ring_switching_keys(self) -> None:
        self._use_key(ToRows(), ROW_LIMBS)
        self._use_key(FromRows(), ROW_LIMBS)

    @functools.cached_property
    def _descending_costs(self) -> Costs:
        """Of switches to the secret of the ring of rows."""
        return costs_of(self.params.family.descending)

    @functools.cached_property
    def raising_costs(self) -> Costs:
        """Of switches from the sparse secret of coefficients below q_0."""
        return costs_of(self.params.family.raising)

    # ---- costs of the building blocks ----

    def digits(self, limbs: int) -> int:
        """Digits of key switching at `limbs` limbs."""
        return self.costs.digits(limbs)

    def _book_encodings(self, plains: Sequence[Plain], scale: Scale, limbs: int, each: int) -> int:
        """Book the memory of encoded plaintexts, of `each` bytes: as coefficients (no limbs), or to multiply by.

        Returns:
            Bytes of those that are not kept, because the caches of the program or of the run are full.
        """
        with self._booking:
            return self._booked(plains, scale, limbs, each)

    def _booked(self, plains: Sequence[Plain], scale: Scale, limbs: int, each: int) -> int:
        if isinstance(plains, MaskGroup):
            return self._book_masks(plains, scale, limbs, each)
        passing = masks = anew = 0  # encodings of all blocks
        known = self._encoded
        for plain in plains:
            key = (plain.key, scale, limbs)
            kept = known.get(key)
            if kept is None:
                kept = known[key] = self._keep_encodings(plain.blocks, each, plain.constant)
                masks += kept * plain.constant
            if kept < plain.blocks:
                passing += plain.blocks - kept
                anew += plain.constant * (
                    self._uses_anew(key, plain.blocks - kept, plain.blocks) if kept else self._repeats
                )
        if masks or anew:
            self._count_encodings(masks, anew)
        return min(passing, len(plains)) * each  # of one block at a time

    def _book_masks(self, masks: MaskGroup, scale: Scale, limbs: int, each: int) -> int:
        """`_book_encodings` of masks that are used together: the first ones are kept, as many as there is room for."""
        key = (masks.key, scale, limbs)
        kept = self._encoded.get(key)
        if kept is None:
            kept = self._encoded[key] = self._keep_encodings(len(masks), each, True)
            self._count_encodings(kept, 0)
        missing = len(masks) - kept
        if missing:
            self._count_encodings(0, missing * self._repeats)
        return missing * each

    def _keep_encodings(self, number: int, each: int, constant: bool) -> int:
        """How many of so many encodings there is room for; they are kept from now on."""
        kept = min(number, (self._encoding_budgets[constant] - self._encoded_bytes[constant]) // each)
        self._encoded_bytes[constant] += kept * each
        if not constant:
            self.ledger.add(kept * each)
        return kept

    def _uses_anew(self, key: Hashable, missing: int, blocks: int) -> int:
        """How many encodings one more use of the blocks of a plaintext takes, of which some are not kept."""
        before = self._encoded_anew.get(key, 0)
        after = self._encoded_anew[key] = before + self._repeats
        return missing * after // blocks - missing * before // blocks

    def _count_encodings(self, masks: int, anew: int) -> None:
        """Count encodings of masks and constants, of all blocks: those that are kept, and those of every run."""
        self.counts.mask_encodings += masks
        self.counts.operand_encodings += anew

    @property
    def run_bytes(self) -> int:
        """Bytes of encoded clear operands that are kept for the rest of the run."""
        return self._encoded_bytes[False]

    @property
    def mask_bytes(self) -> int:
        """Bytes of encoded masks and constants that are kept for later runs."""
        return self._encoded_bytes[True]

    # ---- handles ----

    def spend(self, steps: int, what: str) -> None:
        """Announce so many steps of a loop: `Symbolic` has a budget of them."""
        if self.work is not None:
            self.work.spend(steps, what)

    def ct_bytes(self, ct: Ct) -> int:
        """Bytes in memory of a ciphertext."""
        return ct.components * ct.limbs * self.n * 8

    @property
    def peak_bytes(self) -> int:
        """Largest number of bytes in live ciphertexts, working buffers and encoded plaintexts, in this run or a later
        one, which finds all masks; operands, keys and stored weights not included."""
        return self.ledger.peak + self.mask_bytes

    def limb_bytes(self) -> int:
        """Bytes of one limb."""
        return self.n * 8

    def below(self, limbs: int, levels: int = 1) -> int:
        """Return the number of limbs after `levels` rescales of a ciphertext with `limbs` limbs."""
        return limbs - levels * self.level_limbs

    def level_size(self, limbs: int) -> float:
        """Return the divisor of a rescale at this number of limbs."""
        return self.policy.size(limbs, max(0, self.below(limbs)))

    def mask_scale(self, limbs: int) -> Scale:
        """The scale of clear vectors after whose product with `for_masks(x)` a rescale of so many limbs leaves the
        scale of x."""
        return self.policy.mask(limbs)

    def make(
        self,
        limbs: int,
        scale: Scale,
        bound: float,
        errors: SlotErrors,
        components: int,
        data: Any,
        booked: bool = True,
    ) -> Ct:
        """A handle, booked and checked: the message must not wrap around the modulus.

        Memory of operands, which stay for the whole run, is counted by the plan and not `booked` here.

        Raises:
            LevelError: no limbs left, or scale · bound needs more limbs than there are.
        """
        if limbs < 1 or limbs > self.top_limbs:
            raise LevelError("There is no such level.", expected=f"1 to {self.top_limbs} limbs", got=limbs)
        self.check_room(limbs, scale, bound, errors.deviation)
        nbytes = self._handle_bytes(components, limbs) if booked else 0
        return Ct(limbs, scale, bound, errors, components, data, self.ledger, nbytes)

    def undivided(self, x: Ct, data: Any) -> Ct:
        """A handle on a sum of rotations of x modulo Q·P, which is no ciphertext yet."""
        limbs = x.limbs + len(self.params.p)
        return Ct(limbs, x.scale, x.bound, x.errors, 2, data, self.ledger, self._handle_bytes(2, limbs))

    def _handle_bytes(self, components: int, limbs: int) -> int:
        return components * limbs * self.n * 8

    def make_all(self, data: Sequence[Any], properties: Properties) -> list[Ct]:
        """Handles that differ in their data alone; their properties as `make` takes them, from limbs to components."""
        return [self.make(*properties, one) for one in data]

    def least_limbs(self, ct: Ct) -> int:
        """The fewest limbs that hold the message of a ciphertext, of those that it has."""
        fits = self.policy.fits
        return next((n for n in range(1, ct.limbs) if fits(n, ct.scale, ct.bound, ct.noise)), ct.limbs)

    def check_room(self, limbs: int, scale: Scale, bound: float, noise: float) -> None:
        """Raise LevelError where slots up to a bound, with errors of this deviation, do not fit the modulus."""
        self.policy.check_room(limbs, scale, bound, noise)
