"""The names of switching keys: of what kind a key is, which one of its kind, and for which ciphertexts.

A kind says everything that is public about its keys: their numbers in files, their words, the parameters they are made
with, which others come with them. What they switch between is secret: `generation` knows it. One more kind is a class
that `register` is given, and an entry there; nothing between looks at kinds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

from cipherblas.common.errors import ParameterError
from cipherblas.crypto.families import KeyModulus, KeyRing
from cipherblas.crypto.fields import ROW_LIMBS
from cipherblas.crypto.params import Parameters

MAX_SECRETS = 127  # of ciphertexts that share their a part

# In files a key is one number. Above those of the kinds stands whether it is for the ring of rows, and above that how
# many ciphertexts share their a part.
_RING_OF_ROWS = 1 << 34
_SHARED = 1 << 35
_WEIGHT_ROWS = 1 << 24
_PLACES = 1 << 10


Size = tuple[KeyRing, KeyModulus, int]
_SIZES: dict[Size, Size] = {}  # each once: those of thousands of keys are compared


@dataclass(frozen=True, slots=True, eq=False)
class KeyId:
    """The name of a switching key; ordered by its number.

    Attributes:
        ring: of the ciphertexts that it is for.
        shared: how many ciphertexts share the a part that it switches; 0 for ordinary ciphertexts.
        size: ring, modulus, and as many ordinary keys as it is as large as.
    """

    numbers: ClassVar[range]  # of all keys of this kind, in files
    name: ClassVar[str]  # of this kind, in files
    words: ClassVar[str] = ""  # what such a key does, where there is but one
    modulus: ClassVar[KeyModulus] = "own"
    fixed_limbs: ClassVar[int | None] = None  # of kinds whose keys serve no other number of limbs
    for_shared: ClassVar[tuple[bool, ...]] = (False,)  # whether its ciphertexts share their a part

    ring: KeyRing = field(default="slots", kw_only=True)
    shared: int = field(default=0, kw_only=True)
    size: Size = field(init=False, repr=False)
    _order: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        order = self.shared, int(self.ring == "rows"), self.numbers.start, *self._own()
        # Computed once: names are looked up for every operation, and requests have thousands of them.
        object.__setattr__(self, "_order", order)
        size = self.ring, self.modulus, self.b_parts // 2 + 1
        object.__setattr__(self, "size", _SIZES.setdefault(size, size))

    # ---- what a kind says ----

    def _own(self) -> tuple[int, ...]:
        """The numbers that tell it from others of its kind; none where there is but one."""
        return ()

    @classmethod
    def _at(cls, offset: int) -> KeyId:
        """The key of this kind whose number is so far from the first one."""
        return cls()

    def _offset(self) -> int:
        """The inverse of `_at`."""
        return sum(self._own())

    def _words(self, n: int) -> str:
        """`describe`, apart from ring and a part."""
        return self.words

    def _check(self, params: Parameters) -> None:
        """Raise ParameterError unless there is such a key of its kind for the parameters of its ring."""

    def companions(self) -> tuple[KeyId, ...]:
        """Other keys without which this one is of no use."""
        return ()

    @property
    def b_parts(self) -> int:
        """How many b parts it has beside one a part: one for each ciphertext that shares it; 0 of ordinary keys."""
        return self.shared

    # ---- the same of all ----

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._order == other._order

    def __hash__(self) -> int:
        return hash(self._order)

    def __lt__(self, other: KeyId) -> bool:
        return self._order < other._order

    @property
    def number(self) -> int:
        """Its number in files."""
        ring = _RING_OF_ROWS * (self.ring == "rows")
        return self.shared * _SHARED + ring + self.numbers.start + self._offset()

    @staticmethod
    def of_number(number: int) -> KeyId:
        """The key of a number, which may be one that no parameters have; the inverse of `number`.

        Raises:
            ParameterError: no kind has this number.
        """
        shared, rest = divmod(number, _SHARED)
        in_rows, own = divmod(rest, _RING_OF_ROWS)
        for kind in KINDS:
            if own in kind.numbers:
                found = kind._at(own - kind.numbers.start)
                return replace(found, ring="rows" if in_rows else "slots", shared=shared)
        raise ParameterError("No key has this number.", expected="that of a kind of keys", got=number)

    def __str__(self) -> str:
        """Its name in files."""
        shared = f"shared-{self.shared}-" if self.shared else ""
        ring = "rows-" if self.ring == "rows" else ""
        return shared + ring + "-".join((self.name, *map(str, self._own())))

    def describe(self, n: int) -> str:
        """Describe the key in words, for ring degree n."""
        shared = " with a shared a part" if self.shared else ""
        return self._words(n) + (" in the ring of rows" if self.ring == "rows" else "") + shared

    def in_rows(self: Named) -> Named:
        """The same key of the ring of rows, where that is another one."""
        return replace(self, ring="rows")

    @property
    def components(self) -> int:
        """Pairs of components, of one as many as an ordinary key has: ⌈(r + 1)/2⌉ for r b parts."""
        return self.size[2]

    def parameters(self, params: Parameters) -> Parameters:
        """Return the parameters with which the key is made, derived from a program's.

        Raises:
            ParameterError, SecurityError: there are none.
        """
        return params.family.at(self.ring, self.modulus)

    def check(self, params: Parameters, limbs: int) -> None:
        """Raise ParameterError unless this key exists for a program's parameters and so many limbs."""
        if self.shared:
            check_secrets(self.shared)
        if bool(self.shared) not in self.for_shared or (self.shared and self.ring == "rows"):
            ciphertexts = "ordinary ciphertexts" if self.shared else "ciphertexts that share their a part"
            raise ParameterError("There is no such key.", expected=f"one for {ciphertexts}", got=str(self))
        own = self.parameters(params)
        self._check(own)
        if not own.special_limbs:
            raise ParameterError("Key switching needs special primes.", expected="at least one", got=0)
        own.check_key_limbs(limbs)
        if self.fixed_limbs not in (None, limbs):
            raise ParameterError(
                f"The key for {self.describe(params.n)} has another number of limbs.",
                expected=self.fixed_limbs,
                got=limbs,
            )


Named = TypeVar("Named", bound=KeyId)
KINDS: list[type[KeyId]] = []  # in the order in which the keys of a request are made
Kind = TypeVar("Kind", bound=type[KeyId])


def register(kind: Kind) -> Kind:
    """Enter a kind of keys, whose numbers in files no other one may have."""
    own = kind.numbers
    taken = any(own.start < other.numbers.stop and other.numbers.start < own.stop for other in KINDS)
    if taken or own.stop > _RING_OF_ROWS:
        raise ParameterError(
            f"The numbers of {kind.__name__} are not free.",
            expected=f"numbers below {_RING_OF_ROWS} that no other kind has",
            got=own,
        )
    KINDS.append(kind)
    return kind


def check_secrets(secrets: int) -> None:
    """Raise ParameterError unless so many ciphertexts can share an a part: components are computed two by two."""
    if type(secrets) is not int or not 1 <= secrets <= MAX_SECRETS or secrets % 2 == 0:
        raise ParameterError(
            "An odd number of ciphertexts share their a part.",
            expected=f"1, 3, 5, … {MAX_SECRETS}",
            got=secrets,
        )


@register
@dataclass(frozen=True, slots=True, eq=False)
class Relinearisation(KeyId):
    """From the square of the secret."""

    numbers = range(1)
    name = "relinearisation"
    words = "relinearisation"


RELINEARISATION = Relinearisation()


@register
@dataclass(frozen=True, slots=True, eq=False)
class Galois(KeyId):
    """From the secret after an automorphism, X → X^element: a rotation, or conjugation."""

    numbers = range(1, 1 << 20)
    name = "galois"
    for_shared = (False, True)

    element: int

    def _own(self) -> tuple[int, ...]:
        return (self.element,)

    def _offset(self) -> int:
        return self.element - self.numbers.start

    @classmethod
    def _at(cls, offset: int) -> Galois:
        return cls(cls.numbers.start + offset)

    def _words(self, n: int) -> str:
        order = 2 * n
        element = 1
        for step in range(n // 2):
            if element == self.element:
                step = step if step <= n // 4 else step - n // 2
                return f"rotation by {step} (Galois element {self.element})"
            if order - element == self.element:
                after = f" after rotation by {step}" if step else ""
                return f"conjugation{after} (Galois element {self.element})"
            element = element * 5 % order
        return f"Galois element {self.element}"

    def _check(self, params: Parameters) -> None:
        if not 1 < self.element < 2 * params.n or self.element % 2 == 0:
            raise ParameterError(
                "There is no such Galois element.",
                expected=f"odd, above 1, below {2 * params.n}",
                got=self.element,
            )


@register
@dataclass(frozen=True, slots=True, eq=False)
class FixedWeights(KeyId):
    """From a row of (integer factor) · (secrets of a batch whose rows share an a part)."""

    numbers = range(1 << 32, 1 << 33)
    name = "weights"

    factor: int
    row: int

    def _own(self) -> tuple[int, ...]:
        return self.factor, self.row

    def _offset(self) -> int:
        return self.factor * _WEIGHT_ROWS + self.row

    @classmethod
    def _at(cls, offset: int) -> FixedWeights:
        return cls(*divmod(offset, _WEIGHT_ROWS))

    def _words(self, n: int) -> str:
        return f"row {self.row} of fixed factor {self.factor}"

    def _check(self, params: Parameters) -> None:
        factors = len(self.numbers) // _WEIGHT_ROWS
        if not 0 <= self.factor < factors or not 0 <= self.row < _WEIGHT_ROWS:
            raise ParameterError(
                "A key of fixed weights has a number out of its range.",
                expected=f"a factor below {factors}, a row below {_WEIGHT_ROWS}",
                got=str(self),
            )


@register
@dataclass(frozen=True, slots=True, eq=False)
class ToSparse(KeyId):
    """To the sparse secret under which moduli are raised (sparse-secret encapsulation), from where `FromSparse` or keys
    that are `Raising` lead back."""

    numbers = range(1 << 31, (1 << 31) + 1)
    name = "to-sparse"
    words = "the switch to the sparse secret"
    modulus = "sparse"
    fixed_limbs = 1
    for_shared = (False, True)

    def companions(self) -> tuple[KeyId, ...]:
        return (FromSparse(shared=self.shared),) if self.shared else ()


@register
@dataclass(frozen=True, slots=True, eq=False)
class FromSparse(KeyId):
    """From the sparse secret, at the limbs to which a modulus is raised."""

    numbers = range((1 << 31) + 1, (1 << 31) + 2)
    name = "from-sparse"
    words = "the switch from the sparse secret"
    for_shared = (False, True)

    def companions(self) -> tuple[KeyId, ...]:
        return (ToSparse(ring=self.ring, shared=self.shared),)


@register
@dataclass(frozen=True, slots=True, eq=False)
class Raising(KeyId):
    """From the sparse secret after an automorphism, of coefficients below q_0: the switch from the sparse secret and a
    rotation in one."""

    numbers = range(1 << 30, (1 << 30) + (1 << 20))
    name = "raising"
    modulus = "raising"

    element: int

    def _own(self) -> tuple[int, ...]:
        return (self.element,)

    @classmethod
    def _at(cls, offset: int) -> Raising:
        return cls(offset)

    def _words(self, n: int) -> str:
        return f"the switch from the sparse secret with Galois element {self.element}"

    def _check(self, params: Parameters) -> None:
        if not 1 <= self.element < 2 * params.n or self.element % 2 == 0:
            raise ParameterError(
                "There is no such Galois element.",
                expected=f"odd, from 1 on, below {2 * params.n}",
                got=self.element,
            )

    def companions(self) -> tuple[KeyId, ...]:
        return (ToSparse(ring=self.ring),)


@register
@dataclass(frozen=True, slots=True, eq=False)
class ToRows(KeyId):
    """To the secret of the ring of rows, from the ring of slots."""

    numbers = range((1 << 31) + 2, (1 << 31) + 3)
    name = "to-rows"
    words = "the switch to the ring of rows"
    modulus = "descending"
    fixed_limbs = ROW_LIMBS

    def companions(self) -> tuple[KeyId, ...]:
        return (FromRows(),)


@register
@dataclass(frozen=True, slots=True, eq=False)
class FromRows(KeyId):
    """From the secret of the ring of rows, to that of slots."""

    numbers = range((1 << 31) + 3, (1 << 31) + 4)
    name = "from-rows"
    words = "the switch from the ring of rows"
    fixed_limbs = ROW_LIMBS

    def companions(self) -> tuple[KeyId, ...]:
        return (ToRows(),)


@dataclass(frozen=True, slots=True, eq=False)
class OfPlace(KeyId):
    """Between the secret of ordinary ciphertexts and that of a place among those that share their a part."""

    direction: ClassVar[str]
    for_shared = (True,)

    place: int

    def _own(self) -> tuple[int, ...]:
        return (self.place,)

    @classmethod
    def _at(cls, offset: int) -> KeyId:
        return cls(offset)

    def describe(self, n: int) -> str:
        return f"the switch {self.direction} place {self.place} of a shared a part"

    def _check(self, params: Parameters) -> None:
        if not 0 <= self.place < self.shared:
            raise ParameterError("There is no such place.", expected=f"0 to {self.shared - 1}", got=str(self))

    def companions(self) -> tuple[KeyId, ...]:
        return tuple(replace(self, place=place) for place in range(self.shared) if place != self.place)


@register
@dataclass(frozen=True, slots=True, eq=False)
class ToPlace(OfPlace):
    """An ordinary ciphertext comes to a place."""

    numbers = range(1 << 20, (1 << 20) + _PLACES)
    name = "to-place"
    direction = "to"


@register
@dataclass(frozen=True, slots=True, eq=False)
class FromPlace(OfPlace):
    """The ciphertext of a place becomes an ordinary one, by an ordinary key."""

    numbers = range((1 << 20) + _PLACES, (1 << 20) + 2 * _PLACES)
    name = "from-place"
    direction = "from"

    @property
    def b_parts(self) -> int:
        return 0
