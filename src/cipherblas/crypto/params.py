"""The parameters of a CKKS instance: ring degree, primes, digits of key switching, scale, security."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cipherblas.common.errors import Advice, ParameterError, SecurityError
from cipherblas.crypto import security as security_table
from cipherblas.crypto.digits import checked_digits, digit_ranges, largest_digit
from cipherblas.crypto.families import (
    SPECIAL_MARGIN_BITS,
    RingFamily,
    encapsulating_bits,
    raising_special,
    row_special_bits,
)
from cipherblas.crypto.fields import MAX_LIMBS, ROW_LIMBS, Fields, check_alpha, check_degree
from cipherblas.crypto.fields import MAX_OPERAND_MESSAGE as MAX_OPERAND_MESSAGE

# What plans of rows take from here.
from cipherblas.crypto.fields import MAX_PRIME_BITS as MAX_PRIME_BITS
from cipherblas.crypto.fields import OPERAND_LIMBS as OPERAND_LIMBS
from cipherblas.crypto.fields import OPERAND_MODULI as OPERAND_MODULI

if TYPE_CHECKING:
    import cipherblas._core as _core

# P may fall short of the largest digit by so much: two primes "of 50 bits" differ in the last decimals.
SPECIAL_SLACK_BITS = 0.5
# The nearest prime must be this near to the wanted size; small primes = 1 mod 2N are few and far between.
PRIME_TOLERANCE_BITS = 0.5

_FIELDS = ("n", "q", "p", "alpha", "scale_bits", "security")
# Fields of sets whose keys serve fewer limbs than there are, of those whose rows have a ring of their own, of those
# whose digits have unlike numbers of limbs, of those whose rows are multiplied modulo other numbers, of those whose
# scale is the product of two primes, and of those whose plaintexts are integers modulo t.
_OPTIONAL = ("key_limbs", "row_degree", "digit_limbs", "operand_moduli", "level_limbs", "plain_modulus")


class TooFewPrimesError(ParameterError, code="ParameterError"):
    """There are fewer primes = 1 mod 2N of a size than are asked for; of larger ones there are more."""


def _log2(primes: Sequence[int]) -> float:
    return math.fsum(math.log2(prime) for prime in primes)


@functools.lru_cache(maxsize=4)
def _context(
    n: int, q: tuple[int, ...], p: tuple[int, ...], alpha: int, digit_limbs: tuple[int, ...] | None
) -> _core.Context:
    import cipherblas._core as _core

    return _core.Context(n, list(q), list(p), alpha, list(digit_limbs or ()))


@dataclass(frozen=True, repr=False)
class Parameters(Fields):
    """A CKKS instance. It is immutable and checked: every existing object is valid, and as secure as it says.

    Attributes:
        n: ring degree N, a power of two.
        q: primes q_0 … q_L; a rescale drops the last limb, or as many as a level has.
        p: special primes of key switching; may be empty when nothing is ever switched.
        alpha: limbs per digit, at most.
        scale_bits: log2 of the scale of fresh plaintexts.
        security: 128, 192 or 256; 0 marks an insecure set.
        key_limbs: keys are made for so many limbs at most; None: for all. Security is that of the larger modulus of
            Q, which ciphertexts have, and q_0 … q_{key_limbs - 1}·P, which keys have.
        row_degree: degree of a ring of their own for matrices that are encrypted by rows (`family`); None: they
            are in the ring of all else.
        digit_limbs: limbs of each digit from q_0 on, `alpha` of them at most; None: `alpha` each.
        operand_moduli: what operands of products by rows are encrypted modulo instead of Q, where they are, of two
            limbs at most: the product of these, coprime odd numbers of a byte. The product is switched to Q before any
            key is used. None: there are none.
        level_limbs: limbs of a level, which a rescale drops together, where that is not one: 2. The scale is about the
            product of their primes then, beyond what one prime can be.
        plain_modulus: t of plaintexts that are integers modulo t, coprime to all moduli above; None: plaintexts are
            real and complex numbers. No key depends on it but by the name of its parameters.

    A set of security 0 is made with the argument insecure=True alone; the attribute `insecure` tells such sets.

    Raises:
        ParameterError: a field is out of range, or a modulus is no prime = 1 mod 2N below 2^50.
        SecurityError: `security` is claimed but not reached, or 0 without `insecure`.
    """

    def __post_init__(self, insecure: bool) -> None:
        super().__post_init__(insecure)
        security_table.check_wanted(self.security, insecure)
        if self.security and self.log_qp > security_table.max_log_qp(self.n, self.security):
            raise SecurityError(
                f"The parameters claim {self.security}-bit security at N = {self.n}, which they do not have.",
                expected=f"log2(QP) <= {security_table.max_log_qp(self.n, self.security):g}",
                got=f"{self.log_qp:.2f}",
                advice=security_table.lower(self.n, self.log_qp),
            )

    def __repr__(self) -> str:
        modulus = f"{self.limbs} + {self.special_limbs} limbs, log2(QP) = {self.log_qp:.1f}"
        security = f"{self.security} bits of security" if self.security else "insecure"
        return f"Parameters(N = {self.n}, {modulus}, {security}, {self.fingerprint()[:8]})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles are made, and so checked, by the constructor; what arrives insecure warns, as a file does."""
        return _restored, (self.to_dict(),)

    def __copy__(self) -> Parameters:
        return self

    def __deepcopy__(self, memo: Any) -> Parameters:
        return self  # nothing of it changes

    def check_security(self, wanted: int = 128, insecure: bool = False) -> None:
        """Refuse a set that states fewer than `wanted` bits, unless `insecure`; below 128 bits that warns.

        What is stated has been checked for the largest modulus that anything is encrypted with, `log_qp`.

        Raises:
            SecurityError: it states less; or nothing is asked for (0) without `insecure`.
            ParameterError: `wanted` is not 128, 192, 256 or 0.
        """
        security_table.check_wanted(wanted, insecure)
        if insecure:
            if self.security == 0:
                security_table.warn_insecure(self.n, self.log_qp)
        elif self.security < wanted:
            raise SecurityError(
                "The parameters are less secure than asked for.",
                expected=f"{wanted} bits or more",
                got=f"{self.security} bits" if self.security else "0 bits: not secure at all",
                advice=Advice("insecure=True, for tests alone", {"insecure": True}),
            )

    @property
    def family(self) -> ParameterFamily:
        """The parameters of all rings of a program with these."""
        return ParameterFamily(self)

    def modulo(self, plain_modulus: int) -> Parameters:
        """The same rings, for plaintexts modulo another t; keys are the same.

        Raises:
            ParameterError: no t that these parameters can have.
        """
        return self if plain_modulus == self.plain_modulus else replace(self, plain_modulus=plain_modulus)

    @property
    def slots(self) -> int:
        """Complex slots per ciphertext, N/2."""
        return self.n // 2

    @property
    def limbs(self) -> int:
        """Limbs of a fresh ciphertext, L + 1."""
        return len(self.q)

    @property
    def special_limbs(self) -> int:
        """Number k of special primes."""
        return len(self.p)

    @property
    def dnum(self) -> int:
        """Digits of a ciphertext at the top level of keys."""
        return self.digits(self.key_limbs or self.limbs)

    @functools.cached_property
    def log_q(self) -> float:
        """log2 of q_0 … q_L."""
        return _log2(self.q)

    @functools.cached_property
    def log_p(self) -> float:
        """log2 of the product of the special primes."""
        return _log2(self.p)

    @functools.cached_property
    def log_qp(self) -> float:
        """log2 of the largest modulus that anything is encrypted with: that of keys, of ciphertexts, or of operands."""
        return max(self.log_q, _log2(self.q[: self.key_limbs]) + self.log_p, _log2(self.operand_moduli or ()))

    def digits(self, limbs: int) -> int:
        """Digits of a ciphertext that has `limbs` limbs."""
        self.check_limbs(limbs)
        return len(digit_ranges(limbs, self.alpha, self.digit_limbs))

    def check_limbs(self, limbs: int) -> None:
        """Raise ParameterError unless 1 <= limbs <= L + 1."""
        if not 1 <= limbs <= len(self.q):
            raise ParameterError(
                "The parameters do not have so many limbs.",
                expected=f"1 to {len(self.q)}",
                got=limbs,
                advice=f"limbs={1 if limbs < 1 else len(self.q)}",
            )

    def check_key_limbs(self, limbs: int) -> None:
        """Raise ParameterError unless keys may be made for so many limbs."""
        most = len(self.q) if self.key_limbs is None else self.key_limbs
        if not 1 <= limbs <= most:
            raise ParameterError(
                "The parameters have no keys for so many limbs.",
                expected=f"1 to {most}",
                got=limbs,
                advice=f"limbs={1 if limbs < 1 else most}",
            )

    def key_words(self, limbs: int) -> int:
        """Words in memory of a component of a switching key made for `limbs` limbs; see `key_words`."""
        return key_words(self.n, self.q[:limbs] + self.p)

    def key_bytes(self, limbs: int) -> int:
        """Bytes in memory of one switching key made for `limbs` limbs."""
        return self.digits(limbs) * 2 * self.key_words(limbs) * 8

    def ciphertext_bytes(self, limbs: int, components: int = 2) -> int:
        """Bytes in memory of one ciphertext."""
        self.check_limbs(limbs)
        return components * limbs * self.n * 8

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; `from_dict` is the inverse."""
        values: dict[str, Any] = {
            "n": self.n,
            "q": list(self.q),
            "p": list(self.p),
            "alpha": self.alpha,
            "scale_bits": self.scale_bits,
            "security": self.security,
        }
        values |= {name: own for name in _OPTIONAL if (own := getattr(self, name)) is not None}
        for name in ("digit_limbs", "operand_moduli"):
            if name in values:
                values[name] = list(values[name])
        return values

    @classmethod
    def from_dict(cls, values: Any, *, security: int = 128, insecure: bool = False) -> Parameters:
        """Rebuild from `to_dict`. Everything is checked again.

        Args:
            values: the dictionary.
            security: bits that the set must have.
            insecure: accept less; below 128 bits with a warning.

        Raises:
            ParameterError: as the constructor; also for missing or unknown fields.
            SecurityError: as the constructor and `check_security`.
        """
        parameters = cls.parsed(values)
        parameters.check_security(security, insecure)
        return parameters

    @classmethod
    def parsed(cls, values: Any) -> Parameters:
        """As `from_dict`, but nothing is demanded of the security: that is left to `check_security`."""
        if not isinstance(values, Mapping) or set(values) - set(_OPTIONAL) != set(_FIELDS):
            got = sorted(map(str, values)) if isinstance(values, Mapping) else type(values).__name__
            raise ParameterError(
                "The parameters have the wrong fields.",
                expected=sorted(_FIELDS),
                got=got,
                advice="the dictionary that to_dict() makes of parameters",
            )
        for name in ("q", "p"):
            if not isinstance(values[name], (list, tuple)):
                raise ParameterError(
                    f"The field {name} must be a list of primes.",
                    got=type(values[name]).__name__,
                    advice="the dictionary that to_dict() makes of parameters",
                )
        optional: Any = {name: values.get(name) for name in _OPTIONAL}
        return cls(**{name: values[name] for name in _FIELDS}, insecure=True, **optional)

    @functools.cached_property
    def _fingerprint(self) -> str:
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the canonical JSON form. Equal parameters, and no others, have equal fingerprints."""
        return self._fingerprint

    def context(self) -> _core.Context:
        """Return the arithmetic core for these parameters. It is cached; the first call builds the NTT tables."""
        return _context(self.n, self.q, self.p, self.alpha, self.digit_limbs)


# Instead of the argument's default, which as an attribute would call every set secure (`dataclasses.replace` reads it).
Parameters.insecure = property(lambda self: self.security == 0)  # type: ignore[attr-defined]


def _restored(values: dict[str, Any]) -> Parameters:
    """The set that `Parameters.__reduce__` describes: an insecure one was accepted when it was made, and warns here."""
    return Parameters.from_dict(values, insecure=True)


def make_parameters(
    n: int,
    q_bits: Sequence[float],
    special_bits: float | None = None,
    special_limbs: int | None = None,
    alpha: int = 1,
    scale_bits: float = 40.0,
    security: int = 128,
    insecure: bool = False,
    key_limbs: int | None = None,
    row_degree: int | None = None,
    digit_limbs: Sequence[int] | None = None,
    operand_moduli: Sequence[int] | None = None,
    level_limbs: int | None = None,
    plain_modulus: int | None = None,
) -> Parameters:
    """MethodChooser distinct primes nearest to the wanted sizes and check the security table.

    Args:
        n: ring degree, a power of two.
        q_bits: log2 of each wanted prime q_0 … q_L, at most 50.
        special_bits: log2 of each special prime; by default what P needs (see below).
        special_limbs: number of special primes, 0 for parameters without key switching; by default the
            smallest number whose product P is at least the largest digit, with 2.9 bits more where 50-bit
            primes and the security table leave them.
        alpha: limbs per digit.
        scale_bits: log2 of the scale.
        security: bits of security to reach: 128, 192 or 256.
        insecure: accept less, with a warning below 128 bits; `security` of the result is what is reached.
        key_limbs: limbs that keys are made for, at most; by default all.
        row_degree: degree of a ring of their own for rows; by default they have none.
        digit_limbs: limbs of each digit from q_0 on; by default `alpha` each, which is not looked at otherwise.
        operand_moduli: of operands of products by rows; by default they have none of their own.
        level_limbs: limbs that a rescale drops, where it is two; by default one.
        plain_modulus: t of plaintexts that are integers modulo t; by default they are real numbers.

    Raises:
        ParameterError: no such primes, or P would be smaller than the largest digit.
        SecurityError: the table is exceeded and `insecure` is not set.
    """
    check_degree(n)
    if not 1 <= len(q_bits) <= MAX_LIMBS:
        raise ParameterError(
            "The parameters have too few or too many limbs.",
            expected=f"1 to {MAX_LIMBS}",
            got=len(q_bits),
            advice=f"q_bits of {1 if not q_bits else MAX_LIMBS} sizes",
        )
    unlike = None if digit_limbs is None else checked_digits(digit_limbs, len(q_bits))
    if unlike is not None:
        alpha = max(unlike)
    check_alpha(alpha, len(q_bits))
    excluded = () if plain_modulus is None else (plain_modulus,)
    q = nearest_primes(n, q_bits, exclude=excluded)
    switched = q[:key_limbs]
    log_q = _log2(switched)
    largest = largest_digit(
        [math.log2(prime) for prime in switched], digit_ranges(len(switched), alpha, unlike)
    )
    room = math.inf
    if not insecure:
        room = security_table.max_log_qp(n, security) - log_q - largest
    # Primes are not exactly of the wanted size: stay a little below the table, at worst within the slack.
    margin = min(SPECIAL_MARGIN_BITS, max(room - 0.05, 0.1 - SPECIAL_SLACK_BITS))
    wanted = _special_sizes(largest, special_bits, special_limbs, margin)
    p = nearest_primes(n, wanted, exclude=(*q, *excluded))
    if p and _log2(p) < largest - SPECIAL_SLACK_BITS:
        raise ParameterError(
            "The special primes are smaller than the largest digit.",
            expected=f"log2(P) >= {largest:.2f}",
            got=f"{_log2(p):.2f}",
            advice="the same without special_bits= and special_limbs=: as many and as large as are needed",
        )
    most = max(_log2(q), log_q + _log2(p), _log2(operand_moduli or ()))
    reached = security_table.check(n, most, security, insecure)
    optional: Any = {"key_limbs": key_limbs, "row_degree": row_degree, "digit_limbs": unlike}
    optional |= {"operand_moduli": operand_moduli, "level_limbs": level_limbs, "plain_modulus": plain_modulus}
    return Parameters(n, q, p, alpha, float(scale_bits), reached, insecure=insecure, **optional)


def _special_sizes(largest_digit: float, bits: float | None, limbs: int | None, margin: float) -> list[float]:
    """log2 of each special prime: `limbs` of them, together at least the largest digit."""
    if limbs is not None and limbs < 0:
        raise ParameterError(
            "The number of special primes must not be negative.",
            expected="0 or more",
            got=limbs,
            advice="special_limbs=0, where nothing is switched; or without it: as many as are needed",
        )
    needed = largest_digit - SPECIAL_SLACK_BITS
    if limbs is None:
        limbs = math.ceil(needed / (MAX_PRIME_BITS if bits is None else max(bits, 1.0)))
    if bits is None and limbs:
        bits = min(float(MAX_PRIME_BITS), (largest_digit + margin) / limbs)
    return [bits] * limbs if bits is not None else []


@functools.lru_cache(maxsize=1 << 12)
def key_words(n: int, moduli: tuple[float, ...]) -> int:
    """Words in memory of a component of a switching key modulo these primes: residues have 32, 40, 48 or 50 bits, the
    least that a prime has room in.

    Every key switch reads the whole key.
    """
    import cipherblas._core as _core

    *few, most = _core.PACKED_BITS
    bits = (next((bits for bits in few if modulus < 1 << bits), most) for modulus in moduli)
    return sum(-(-n * each // 64) for each in bits)


def factor_words(n: int, moduli: Sequence[float]) -> int:
    """Words in memory of a clear vector that ciphertexts of these limbs are multiplied by: residues modulo primes below
    2^32 take half a word each."""
    import cipherblas._core as _core

    halves = sum(1 if modulus < 1 << _core.HALF_WORD_BITS else 2 for modulus in moduli)
    return n * halves // 2


class ParameterFamily(RingFamily[Parameters]):
    """The parameters of one program's rings."""

    @property
    def sparse(self) -> Parameters:
        return _sparse(self.slots)

    @property
    def raising(self) -> Parameters:
        return _raising(self.slots)

    @property
    def descending(self) -> Parameters:
        _ = self.rows  # whose security is that of these
        return super().descending

    def _with_row_limbs(self, degree: int | None) -> Parameters:
        return _of_rows(self.slots, degree or self.slots.n)


@functools.lru_cache(maxsize=64)
def _sparse(params: Parameters) -> Parameters:
    first = params.q[0]
    each = encapsulating_bits(first)
    special = nearest_primes(params.n, [each, each], exclude=params.q + params.p)
    log_qp = _log2((first, *special))
    if params.security and log_qp > security_table.max_log_qp_sparse(params.n, params.security):
        raise SecurityError(
            f"A sparse secret does not reach {params.security}-bit security at N = {params.n}.",
            expected=f"log2(QP) <= {security_table.max_log_qp_sparse(params.n, params.security):g}",
            got=f"{log_qp:.2f}",
            advice="a ring in which a sparse secret is secure: n=32768, and q_0 of 50 bits at most",
        )
    scale_bits, security = params.scale_bits, params.security
    return Parameters(params.n, (first,), special, 1, scale_bits, security, insecure=security == 0)


@functools.lru_cache(maxsize=64)
def _raising(params: Parameters) -> Parameters:
    special, insecure = params.p[: raising_special(params.q[0], params.p)], params.security == 0
    digit = len(params.q)
    return Parameters(
        params.n, params.q, special, digit, params.scale_bits, params.security, insecure=insecure
    )


@functools.lru_cache(maxsize=64)
def _of_rows(params: Parameters, n: int) -> Parameters:
    q = params.q[:ROW_LIMBS]
    special = nearest_primes(params.n, [row_special_bits(q[0])], exclude=params.q + params.p)
    return Parameters(n, q, special, 1, params.scale_bits, params.security, insecure=params.security == 0)


def nearest_primes(n: int, bits: Sequence[float], exclude: Sequence[int]) -> tuple[int, ...]:
    """Distinct primes = 1 mod 2N nearest to 2^bits, in the order asked for."""
    import cipherblas._core as _core

    chosen: list[int] = []
    for size in bits:
        if not math.isfinite(size) or not 2 <= size <= MAX_PRIME_BITS:
            raise ParameterError(
                "There are no primes of this size.",
                expected=f"2 to {MAX_PRIME_BITS}",
                got=size,
                advice=f"sizes of {MAX_PRIME_BITS} bits at most, and more of them"
                if size > 2
                else "larger sizes",
            )
        try:
            (prime,) = _core.primes_near(n, 2.0**size, 1, [*exclude, *chosen])
        except ValueError:
            prime = 0
        if prime == 0 or abs(math.log2(prime) - size) > PRIME_TOLERANCE_BITS:
            raise TooFewPrimesError(
                f"There are too few primes = 1 mod {2 * n} near 2^{size:g}.",
                expected=f"{len(bits)} within {PRIME_TOLERANCE_BITS} bits",
                got=len(chosen),
                advice=["larger sizes, of which there are more primes", "a smaller n"],
            )
        chosen.append(prime)
    return tuple(chosen)
