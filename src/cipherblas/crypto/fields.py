"""The fields of parameters, and what each may hold."""

from __future__ import annotations

import functools
import math
from dataclasses import InitVar, dataclass
from typing import Any

from cipherblas.common.errors import ParameterError
from cipherblas.crypto.digits import checked_digits

MAX_PRIME_BITS = 50  # limb primes are below 2^50 (52-bit words with lazy values below 4q)
MIN_LOG_N, MAX_LOG_N = 3, 17
MAX_LIMBS = 512  # far above the table's 3523 bits; bounds the work that a hostile file can ask for
# Of operands of products of two encrypted matrices: coprime odd numbers of a byte, the largest first; how many are in a
# word; by how many bits a prime that holds their masks exceeds N; and how many limbs there can be beside them.
OPERAND_MODULI = (255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191)
MODULI_OF_WORD, OPERAND_PRIME_BITS, OPERAND_LIMBS = 8, 10, 2
MAX_OPERAND_MESSAGE = (1 << 61) - 1  # with its error it is one word
MIN_SCALE_BITS, MAX_SCALE_BITS = 1, 200
MAX_PLAIN_MODULUS = 1 << 31  # products of two residues are int64
WORD_MODULUS = 1 << 32  # modulo which those of int64 that wrap around are right too
MAX_DECODED_BITS = 1000  # of the modulus of a ciphertext modulo t that is decrypted: its phase is a double
WIDE_LEVEL = 2  # limbs of a level, where it has more than one: plaintexts of two are 64-bit integers yet
MAX_ALPHA, MAX_SPECIAL_LIMBS = 64, 63  # of the kernels, which add up so many terms before they reduce
# Limbs of rows that have a ring of their own: one for what a refresh takes from their coefficients, others for
# products.
ROW_LIMBS = 3

PRIMES = "q and p that make_parameters(n, q_bits) chooses"
TYPICAL = {"n": 8192, "alpha": 1, "security": 128}


@dataclass(frozen=True, repr=False)
class Fields:
    """The fields of `Parameters`, which says what they are; each is checked."""

    n: int
    q: tuple[int, ...]
    p: tuple[int, ...]
    alpha: int
    scale_bits: float
    security: int
    insecure: InitVar[bool] = False
    key_limbs: int | None = None
    row_degree: int | None = None
    digit_limbs: tuple[int, ...] | None = None
    operand_moduli: tuple[int, ...] | None = None
    level_limbs: int | None = None
    plain_modulus: int | None = None

    def __post_init__(self, insecure: bool) -> None:
        object.__setattr__(self, "q", tuple(self.q))
        object.__setattr__(self, "p", tuple(self.p))
        self._check_numbers()
        self._check_primes()
        self._check_row_degree()
        self._check_digit_limbs()
        self._check_operand_moduli()
        self._check_level_limbs()
        self._check_plain_modulus()

    def _check_numbers(self) -> None:
        value: Any  # of any type: the fields may come from a file
        for name, value in (("n", self.n), ("alpha", self.alpha), ("security", self.security)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ParameterError(
                    f"The field {name} must be an integer.",
                    got=type(value).__name__,
                    advice=f"an integer, as {name}={TYPICAL[name]}",
                )
        check_degree(self.n)
        if not 1 <= len(self.q) <= MAX_LIMBS or len(self.p) > MAX_SPECIAL_LIMBS:
            raise ParameterError(
                "The parameters have too few or too many limbs.",
                expected=f"1 to {MAX_LIMBS} and at most {MAX_SPECIAL_LIMBS} special",
                got=f"{len(self.q)} and {len(self.p)} special",
                advice=f"1 to {MAX_LIMBS} primes in q, and at most {MAX_SPECIAL_LIMBS} in p",
            )
        check_alpha(self.alpha, len(self.q))
        self._check_key_limbs()
        value = self.scale_bits
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ParameterError(
                "The field scale_bits must be a number.",
                got=type(value).__name__,
                advice="a number, as scale_bits=40.0",
            )
        if not MIN_SCALE_BITS <= value <= MAX_SCALE_BITS:
            raise ParameterError(
                "The field scale_bits is out of its range.",
                expected=f"{MIN_SCALE_BITS} to {MAX_SCALE_BITS}",
                got=value,
                advice=f"scale_bits={MAX_SCALE_BITS if value > MAX_SCALE_BITS else MIN_SCALE_BITS}",
            )
        object.__setattr__(self, "scale_bits", float(value))

    def _check_primes(self) -> None:
        primes: tuple[Any, ...] = self.q + self.p
        for prime in primes:
            if isinstance(prime, bool) or not isinstance(prime, int):
                raise ParameterError("A modulus must be an integer.", got=type(prime).__name__, advice=PRIMES)
            if not 2 < prime < 1 << MAX_PRIME_BITS or prime % (2 * self.n) != 1 or not is_prime(prime):
                raise ParameterError(
                    "A modulus is no prime that the ring has.",
                    expected=f"a prime = 1 mod {2 * self.n} below 2^{MAX_PRIME_BITS}",
                    got=prime,
                    advice=PRIMES,
                )
        if len(set(primes)) != len(primes):
            raise ParameterError(
                "The moduli must be distinct primes.",
                expected="distinct primes",
                got=sorted(primes),
                advice=PRIMES,
            )

    def _check_key_limbs(self) -> None:
        value: Any = self.key_limbs
        if value is None:
            return
        most = len(self.q) - 1
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise ParameterError(
                "The limbs that keys are made for are out of their range.",
                expected=f"1 to {most}, or none for all limbs",
                got=value,
                advice=[*([f"key_limbs={most}, or fewer"] if most else []), "key_limbs=None, for all limbs"],
            )

    def _check_row_degree(self) -> None:
        value: Any = self.row_degree
        if value is None:
            return
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not (1 << MIN_LOG_N) <= value < self.n or value & (value - 1):
            half = self.n // 2
            smaller = [f"row_degree={half}, or a smaller power of two"] if half >= 1 << MIN_LOG_N else []
            raise ParameterError(
                "The degree of the ring of rows is out of its range.",
                expected=f"a power of two from 2^{MIN_LOG_N} on, below N = {self.n}, or none",
                got=value,
                advice=[*smaller, "row_degree=None, for none of their own"],
            )
        if len(self.q) < ROW_LIMBS:
            raise ParameterError(
                "The ring of rows takes more limbs than there are.",
                expected=ROW_LIMBS,
                got=len(self.q),
                advice=[f"q of {ROW_LIMBS} primes or more", "row_degree=None"],
            )

    def _check_digit_limbs(self) -> None:
        if self.digit_limbs is None:
            return
        sizes = checked_digits(self.digit_limbs, len(self.q))
        if max(sizes) != self.alpha:
            raise ParameterError(
                "The field alpha must be the limbs of the largest digit.",
                expected=max(sizes),
                got=self.alpha,
                advice=f"alpha={max(sizes)}",
            )
        object.__setattr__(self, "digit_limbs", sizes)

    def _check_operand_moduli(self) -> None:
        if self.operand_moduli is None:
            return
        given: Any = self.operand_moduli
        moduli: tuple[Any, ...] = tuple(given) if isinstance(given, (list, tuple)) else ()
        good = 1 <= len(moduli) <= len(OPERAND_MODULI) and all(type(one) is int for one in moduli)
        good = good and all(128 < one < 256 and one % 2 for one in moduli)
        good = good and math.lcm(*moduli) == math.prod(moduli)
        if not good:
            raise ParameterError(
                "The moduli of operands are none that there can be.",
                expected=f"1 to {len(OPERAND_MODULI)} coprime odd numbers from 129 to 255",
                got=given,
                advice=f"operand_moduli={OPERAND_MODULI[: max(1, min(len(moduli), len(OPERAND_MODULI)))]}",
            )
        if len(self.q) > OPERAND_LIMBS or self.row_degree is not None:
            raise ParameterError(
                "Operands have moduli of their own beside few limbs alone.",
                expected=f"at most {OPERAND_LIMBS} limbs and no ring of rows",
                got=f"{len(self.q)} limbs" if self.row_degree is None else "a ring of rows",
                advice="operand_moduli=None",
            )
        largest, least = max(self.q + self.p), 1 << (OPERAND_PRIME_BITS + self.n.bit_length() - 1)
        if largest < least:
            raise ParameterError(
                "No prime is large enough for masks of operands with moduli of their own.",
                expected=f"one from {least} on",
                got=largest,
                advice=[f"a prime of {least.bit_length()} bits or more in q or p", "operand_moduli=None"],
            )
        object.__setattr__(self, "operand_moduli", moduli)

    def _check_level_limbs(self) -> None:
        value: Any = self.level_limbs
        if value is None:
            return
        if type(value) is not int or value != WIDE_LEVEL:
            raise ParameterError(
                "The limbs of a level are out of their range.",
                expected=f"{WIDE_LEVEL}, or none for one",
                got=value,
                advice=[f"level_limbs={WIDE_LEVEL}", "level_limbs=None, for one"],
            )
        if self.row_degree is not None:
            raise ParameterError(
                "Levels of several limbs have no ring of rows beside them.",
                expected="one of them",
                got="both",
                advice=["row_degree=None", "level_limbs=None"],
            )

    def _check_plain_modulus(self) -> None:
        value: Any = self.plain_modulus
        if value is None:
            return
        if type(value) is not int or not is_plain_modulus(value):
            raise ParameterError(
                "The plain modulus is out of its range.",
                expected=f"an integer from 2 to {MAX_PLAIN_MODULUS}, or {WORD_MODULUS}, or none for real numbers",
                got=value,
                advice=["plain_modulus=65537", "plain_modulus=None"],
            )
        # A factor in common with Q would leave messages in the clear, and has no inverse by which they are scaled.
        if any(math.gcd(value, one) > 1 for one in (*self.q, *self.p, *(self.operand_moduli or ()))):
            raise ParameterError(
                "The plain modulus has a factor in common with a modulus of ciphertexts or keys.",
                expected="coprime moduli",
                got=value,
                advice="other primes in q and p",
            )


def is_plain_modulus(value: int) -> bool:
    """Whether there are plaintexts modulo a number."""
    return 2 <= value <= MAX_PLAIN_MODULUS or value == WORD_MODULUS


def check_degree(n: int) -> None:
    """Raise ParameterError for what is no ring degree; it advises the next one above, or the largest."""
    least, most = 1 << MIN_LOG_N, 1 << MAX_LOG_N
    if not least <= n <= most or n & (n - 1):
        raise ParameterError(
            f"The ring degree must be a power of two from 2^{MIN_LOG_N} to 2^{MAX_LOG_N}.",
            expected=f"a power of two from 2^{MIN_LOG_N} to 2^{MAX_LOG_N}",
            got=n,
            advice=f"n={least if n < least else min(most, 1 << (n - 1).bit_length())}",
        )


def check_alpha(alpha: int, limbs: int) -> None:
    """Raise ParameterError where digits cannot have so many limbs each."""
    most = min(limbs, MAX_ALPHA)
    if not 1 <= alpha <= most:
        raise ParameterError(
            "The number of limbs per digit is out of its range.",
            expected=f"1 to {most}",
            got=alpha,
            advice=f"alpha={1 if alpha < 1 else most}",
        )


@functools.lru_cache(maxsize=4096)
def is_prime(candidate: int) -> bool:
    """Miller-Rabin with bases that are a proof below 3.3·10^24."""
    if candidate < 2:
        return False
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    for base in bases:
        if candidate % base == 0:
            return candidate == base
    odd = candidate - 1
    twos = (odd & -odd).bit_length() - 1
    odd >>= twos
    for base in bases:
        power = pow(base, odd, candidate)
        if power in (1, candidate - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % candidate
            if power == candidate - 1:
                break
        else:
            return False
    return True
