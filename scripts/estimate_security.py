"""Costs of the known lattice attacks on the parameters in use, by the formulas of the literature.

usage: estimate_security.py [--write]                                the tables of docs/security-estimates.md
       estimate_security.py --n N --log-qp BITS [--secrets T]        one parameter set

Everything is LWE of dimension N with uniform ternary secrets (and one sparse one), errors of standard deviation 3.2 and
as many samples as the attacker likes. Logarithms are natural but where a name says bits. The attacks:

- uSVP: the secret is the unique shortest vector of Bai and Galbraith's lattice (ACISP 2014) scaled for small secrets,
  found where Alkim, Ducas, Pöppelmann and Schwabe's condition holds (USENIX Security 2016; Albrecht, Göpfert, Virdia,
  Wunderer, ASIACRYPT 2017);
- BDD: a weaker reduction, then one sieve in a larger block at the end (Liu, Nguyen, CT-RSA 2013);
- dual hybrid: short dual vectors, and exhaustive search of some coordinates of the secret (Espitau, Joux,
  Kharchenko, INDOCRYPT 2020). That its samples are independent is a heuristic, in favour of the attack;
- hybrid, of the sparse secret: coordinates that hold few of its entries are searched by meeting in the middle, with
  Babai's nearest plane on the reduced lattice of the others (Howgrave-Graham, CRYPTO 2007). In favour of the attack
  it takes the square root of the number of guesses, always meets, and Babai always succeeds where the last vector of
  the basis is at least 4σ long.

The shape of reduced bases is that of the geometric series assumption with the root Hermite factor of Chen's thesis
(2013). What a reduction costs, in bits, for blocks β of a lattice of dimension d:

- MATZOV: gates of a classical sieve (Albrecht, Gheorghiu, Postlethwaite, Schanck, ASIACRYPT 2020, as corrected and
  improved by MATZOV, 2022; constants as fitted by the Lattice Estimator), progressive, with dimensions for free
  (Ducas, EUROCRYPT 2018);
- BDGL16: 0.292·β + 16.4 + log2(8d) (Becker, Ducas, Gama, Laarhoven, SODA 2016);
- quantum: 0.265·β + 16.4 + log2(8d) (Laarhoven, Mosca, van de Pol, 2014);
- core-SVP: one sieve and nothing else: 0.292·β, quantum 0.257·β (Chailloux, Loyer, ASIACRYPT 2021).

Source of the formulas in this combination: Albrecht, Player, Scott (eprint 2015/046) and the Lattice Estimator, with
which Bossuat et al. (eprint 2024/463) estimated uSVP and dual hybrid. The least of both in MATZOV's model gives the
table of `cipherblas.crypto.security`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cipherblas.crypto import security
from cipherblas.lang.operands import MAX_LENGTH
from cipherblas.planner.search.rows import ROW_DEGREES
from cipherblas_bench.sets import FAME_SETS

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "security-estimates.md"
BEGIN, END = "<!-- begin: scripts/estimate_security.py --write -->", "<!-- end -->"

ERROR_DEVIATION, SECRET_DEVIATION = 3.2, math.sqrt(2 / 3)
SUCCESS = math.sqrt(0.99)  # of each of the two stages of the dual hybrid attack
SIEVE_BITS = 0.2075  # a sieve in dimension β gives 2^(0.2075 β) vectors
BLOCKS = np.arange(41.0, 2500.0)
MAX_GUESSED = 150
SPARSE_BLOCKS, MAX_FOUND = 460, 16  # of the hybrid attack: blocks to try, entries ±1 that it searches for

# What a user may see: the program of the README (its plan: docs/tutorial.md), the largest number of secrets under one a
# at the rings of `rows`.
README_SET = ("README's program", 1 << 12, 61.9 + 33.8, 1)
MANY_SECRETS = [(f"fixed weights, N = 2^{n.bit_length() - 1}", n, MAX_LENGTH) for n in ROW_DEGREES]

Array = NDArray[np.float64]
Cost = Callable[[Array, Array], Array]


def log_hermite(beta: Array) -> Array:
    """ln δ of blocks β: δ^(2(β - 1)) = β/(2πe) · (πβ)^(1/β)."""
    return np.log(beta / (2 * math.pi * math.e) * (math.pi * beta) ** (1 / beta)) / (2 * (beta - 1))


def free_dimensions(beta: Array) -> Array:
    """Dimensions for free: a sieve in β less so many solves SVP in dimension β."""
    return np.maximum(beta * math.log(4 / 3) / np.log(beta / (2 * math.pi * math.e)), 0)


@dataclass(frozen=True)
class Sieve:
    """A cost model: bits of a reduction with blocks β in dimension d, and what the dual attack gets of it.

    Attributes:
        slope, offset: bits of one sieve in dimension β: slope · β + offset.
        gates: MATZOV's count of gates; else tours cost 8d sieves.
    """

    slope: float
    offset: float
    gates: bool = False

    PROGRESSIVE = 5.46  # the sieves of all smaller dimensions, over the last one

    def sieve(self, dimension: Array) -> Array:
        """Bits of one sieve."""
        return self.slope * dimension + self.offset + (math.log2(self.PROGRESSIVE) if self.gates else 0)

    def reduction(self, beta: Array, d: Array) -> Array:
        """Bits of BKZ with blocks `beta`, of one call where d = β; LLL included."""
        if self.gates:
            calls = self.PROGRESSIVE * np.maximum(d - beta, 1)
            sieve = self.sieve(beta - free_dimensions(beta))
        else:
            calls = np.where(d > beta, 8 * d, 1)
            sieve = self.sieve(beta)
        bits: Array = np.logaddexp2(3 * np.log2(d), np.log2(calls) + sieve)
        return bits

    def sampling_dimension(self, beta: Array, d: Array) -> Array:
        """The dimension of the sieve that gives short vectors: that of the reduction, or, where gates are counted,
        one that costs what the reduction costs (Guo, Johansson, ASIACRYPT 2021).
        """
        if not self.gates:
            return beta
        extra = np.log2(np.maximum(d - beta, 1) * self.PROGRESSIVE) / self.slope
        return np.minimum(d, np.floor(beta - np.floor(free_dimensions(beta)) + extra))

    def sampling(self, beta: Array, d: Array, vector_bits: Array) -> Array:
        """Bits of 2^vector_bits short vectors: the reduction and a sieve, repeated where one gives too few."""
        dimension = self.sampling_dimension(beta, d)
        repeated = np.log2(np.ceil(2.0 ** np.clip(vector_bits - SIEVE_BITS * dimension, 0, 900)))
        once = self.reduction(beta, d)
        return repeated + (np.logaddexp2(once, self.sieve(dimension)) if self.gates else once)


MATZOV = Sieve(0.29613500308205365, 20.387885985467914, gates=True)
BDGL16 = Sieve(0.292, 16.4)
QUANTUM = Sieve(0.265, 16.4)


@dataclass(frozen=True)
class Attack:
    """Bits of the cheapest attack of a kind, its blocks and dimension."""

    bits: float
    beta: int
    dimension: int


def usvp(n: int, log_qp: float, model: Sieve) -> Attack:
    """Blocks β and the smallest dimension d that reveal the secret: of all, the cheapest.

    σ·sqrt(β) <= δ^(2β - d - 1) · (σ · ξ^n · q^(d - n - 1))^(1/d) with ξ = σ/σ_s: a quadratic inequality in d.
    """
    log_q, log_delta = log_qp * math.log(2), log_hermite(BLOCKS)
    norm = np.log(ERROR_DEVIATION) + np.log(BLOCKS) / 2
    a, b = -log_delta, log_delta * (2 * BLOCKS - 1) + log_q - norm
    c = math.log(ERROR_DEVIATION) + n * math.log(ERROR_DEVIATION / SECRET_DEVIATION) - (n + 1) * log_q
    discriminant = b * b - 4 * a * c
    beta = BLOCKS[discriminant >= 0]
    a, b, root = (values[discriminant >= 0] for values in (a, b, np.sqrt(np.maximum(discriminant, 0))))
    d = np.maximum(np.ceil((root - b) / (2 * a)), beta + 1)
    bits = model.reduction(beta, d)
    best = int(np.argmin(bits))
    return Attack(float(bits[best]), int(beta[best]), int(d[best]))


_LOG_BALLS = np.array([k / 2 * math.log(math.pi) - math.lgamma(k / 2 + 1) for k in range(3000)])


def bdd(n: int, log_qp: float, model: Sieve) -> Attack:
    """Reduction with blocks β, then one sieve in the last η + 1 dimensions, where the error is shorter than what the
    Gaussian heuristic expects; over β up to that of `usvp`, and d.
    """
    start = usvp(n, log_qp, model).beta
    log_q = log_qp * math.log(2)
    beta = np.arange(max(BLOCKS[0], start - 24), start + 1)[:, None, None]
    log_delta = log_hermite(beta)
    d = np.ceil(np.sqrt(n * log_q / log_delta) * np.linspace(0.75, 1, 26)[:, None])
    block = np.arange(max(2.0, start - 60), start + 200)
    volume = (d - n) * log_q + n * math.log(ERROR_DEVIATION / SECRET_DEVIATION)
    last = block / d * volume - (d - block) * block * log_delta
    shortest = 2 * (last + math.log(ERROR_DEVIATION) - _LOG_BALLS[block.astype(int) + 1]) / (block + 1)
    reveals = (shortest >= np.log(ERROR_DEVIATION**2 * (block + 1))) & (d > n)
    eta = block[np.argmax(reveals, axis=2)]
    beta, d = np.broadcast_to(beta[..., 0], eta.shape), d[..., 0]
    bits = np.logaddexp2(model.reduction(beta, d), model.reduction(eta + 1, eta + 1))
    best = int(np.argmin(np.where(reveals.any(axis=2), bits, math.inf)))
    return Attack(float(bits.flat[best]), int(beta.flat[best]), int(d.flat[best]))


def dual_hybrid(n: int, log_qp: float, model: Sieve) -> Attack:
    """Short dual vectors of the lattice of N - ζ coordinates, exhaustive search of the other ζ ones.

    A dual vector of norm ρ·δ^d·… turns samples into ones of ζ coordinates with error σ'; 8·exp(4π²σ'²/q²)·ln(guesses)
    of them tell the right guess. The blocks are near those of `usvp`.
    """
    start = usvp(n, log_qp, model).beta
    log_q = log_qp * math.log(2)
    beta = np.arange(max(BLOCKS[0], start - 40), start + 20)[:, None]
    log_delta = log_hermite(beta)
    guessed = np.arange(float(MAX_GUESSED))
    rest = n - guessed
    log_c = math.log(SECRET_DEVIATION / ERROR_DEVIATION) + log_q
    samples = np.maximum(np.ceil(np.sqrt(rest * log_c / log_delta)) - rest, 1)
    d = samples + rest
    dimension = model.sampling_dimension(beta, 2 * beta)
    longer = math.log(4 / 3) / 2 + (dimension - 1) * (log_hermite(dimension) - log_delta)
    log_error = longer + math.log(SECRET_DEVIATION) + d * log_delta - log_c * samples / d
    guesses = np.maximum(guessed * math.log(3) + math.log(SUCCESS), 0)
    exponent = 4 * math.pi**2 * np.exp(np.minimum(2 * log_error, 8))
    vectors = (math.log(8) + exponent + np.log(guesses - math.log(-math.log(SUCCESS)))) / math.log(2)
    search = 1 + guesses / math.log(2) + vectors
    bits = np.logaddexp2(search, model.sampling(beta, d, vectors))
    best = int(np.argmin(bits))
    return Attack(
        float(bits.flat[best]), int(np.broadcast_to(beta, bits.shape).flat[best]), int(d.flat[best])
    )


def _log2_choose(n: int, k: int) -> float:
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)


@dataclass(frozen=True)
class Hybrid:
    """Bits of the cheapest hybrid attack on a sparse secret, its blocks, and how many coordinates it searches."""

    bits: float
    beta: int
    guessed: int


def hybrid(n: int, log_q: float, weight: int, model: Sieve) -> Hybrid:
    """Meeting in the middle over `guessed` coordinates that hold at most so many of the entries ±1, Babai on the rest.

    The attack is repeated until a choice of coordinates holds so few: 1 / (its probability) times.
    """
    blocks, counts = BLOCKS[:SPARSE_BLOCKS], range(min(weight, MAX_FOUND) + 1)
    found = np.array(counts)[:, None]
    log_delta, best = log_hermite(blocks), Hybrid(math.inf, 0, 0)
    log_modulus, places = log_q * math.log(2), _log2_choose(n, weight)
    for guessed in range(n // 2, n - n // 64, n // 128):
        rest = n - guessed
        ways = np.array([[_log2_choose(guessed, count)] for count in counts])
        others = np.array([[_log2_choose(rest, weight - count)] for count in counts])
        searched = np.logaddexp2.accumulate(ways + found)
        chance = np.minimum(np.logaddexp2.accumulate(ways + others - places), 0)
        d = np.maximum(np.ceil(np.sqrt(rest * log_modulus / log_delta)), rest + 2)
        deviation = np.sqrt(np.maximum(weight - found, 1) / rest)
        volume = (d - rest) * log_modulus + rest * np.log(ERROR_DEVIATION / deviation)
        reveals = volume / d - (d - 1) * log_delta >= math.log(4 * ERROR_DEVIATION)
        once = np.logaddexp2(model.reduction(blocks, d), searched / 2 + 2 * np.log2(d))
        bits = np.where(reveals, once - chance, math.inf)
        place = int(np.argmin(bits))
        if bits.flat[place] < best.bits:
            best = Hybrid(float(bits.flat[place]), int(blocks[place % len(blocks)]), guessed)
    return best


@dataclass(frozen=True)
class Estimate:
    """What one parameter set costs to break, in bits.

    Attributes:
        usvp, bdd, dual: classical, MATZOV.
        bdgl16, quantum: the least of the three attacks.
        core, core_quantum: one sieve of `usvp`.
    """

    n: int
    log_qp: float
    usvp: Attack
    bdd: Attack
    dual: Attack
    bdgl16: float
    quantum: float

    @property
    def guidelines(self) -> float:
        """The least of the two attacks that the guidelines estimate."""
        return min(self.usvp.bits, self.dual.bits)

    @property
    def core(self) -> float:
        """Core-SVP, classical."""
        return 0.292 * self.usvp.beta

    @property
    def core_quantum(self) -> float:
        """Core-SVP, quantum."""
        return 0.257 * self.usvp.beta


def estimate(n: int, log_qp: float) -> Estimate:
    """All attacks and cost models on one parameter set."""
    attacks = (usvp, bdd, dual_hybrid)
    first, second, third = (attack(n, log_qp, MATZOV) for attack in attacks)
    bdgl16, quantum = (
        min(attack(n, log_qp, model).bits for attack in attacks) for model in (BDGL16, QUANTUM)
    )
    return Estimate(n, log_qp, first, second, third, bdgl16, quantum)


def largest_log_qp(n: int, level: int, start: int) -> int:
    """The largest whole log2(QP) with `level` bits by the method of the guidelines."""

    def enough(log_qp: int) -> bool:
        return min(usvp(n, log_qp, MATZOV).bits, dual_hybrid(n, log_qp, MATZOV).bits) >= level

    low, step = start, 1
    while not enough(low):
        low -= step
    while enough(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def bounds() -> list[tuple[int, int, int]]:
    """(level, N, log2(QP)) of every entry of the security table."""
    degrees = [1 << log_n for log_n in range(10, 18)]
    return [(level, n, int(security.max_log_qp(n, level))) for level in security.LEVELS for n in degrees]


def _line(*cells: object) -> str:
    return "| " + " | ".join(f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"


_FIGURES = ("β", "d", "uSVP", "BDD", "dual hybrid", "BDGL16", "quantum", "core-SVP", "core-SVP quantum")


def _figures(found: Estimate) -> tuple[object, ...]:
    attacks = (found.usvp.bits, found.bdd.bits, found.dual.bits)
    others = (found.bdgl16, found.quantum, found.core, found.core_quantum)
    return found.usvp.beta, found.usvp.dimension, *attacks, *others


def _table(header: tuple[str, ...], rows: list[tuple[object, ...]]) -> list[str]:
    return [_line(*header), _line(*("---" for _ in header)), *(_line(*row) for row in rows)]


def tables() -> str:
    """All tables as Markdown: the entries of the security table, the sets in use, the sparse secret."""
    entries: list[tuple[object, ...]] = []
    for level, n, bound in bounds():
        largest = largest_log_qp(n, level, bound)
        entries.append((level, f"2^{n.bit_length() - 1}", bound, largest, *_figures(estimate(n, bound))))
    sets = [
        README_SET,
        *((f"FAME {name}", chosen.n, float(chosen.log_qp), 1) for name, chosen in FAME_SETS.items()),
        *((name, n, security.max_log_qp(n, 128), secrets) for name, n, secrets in MANY_SECRETS),
    ]
    used: list[tuple[object, ...]] = []
    for name, n, log_qp, secrets in sets:
        found = estimate(n, log_qp)
        least = min(found.guidelines, found.bdd.bits)
        lost = math.log2(secrets)
        ring = f"2^{n.bit_length() - 1}"
        used.append((name, ring, log_qp, lost, least, found.quantum, least - lost, found.quantum - lost))
    lines = _table(("level", "N", "log2(QP)", "largest", *_FIGURES), entries)
    header = ("set", "N", "log2(QP)", "log2 T", "classical", "quantum", "less log2 T", "quantum, less log2 T")
    return "\n".join([*lines, "", *_table(header, used), "", *sparse_table()]) + "\n"


def sparse_table() -> list[str]:
    """The entry of the sparse secret, in the smallest ring that may use it and in larger ones."""
    rows: list[tuple[object, ...]] = []
    for log_n in (15, 16, 17):
        log_q = security.max_log_qp_sparse(1 << log_n, 128)
        found = [
            hybrid(1 << log_n, log_q, security.SPARSE_WEIGHT, model) for model in (MATZOV, BDGL16, QUANTUM)
        ]
        first = found[0]
        bits = (one.bits for one in found)
        rows.append((f"2^{log_n}", log_q, security.SPARSE_WEIGHT, first.beta, first.guessed, *bits))
    header = (
        "N of the sparse secret",
        "log2(q_0·P')",
        "weight",
        "β",
        "searched",
        "hybrid",
        "BDGL16",
        "quantum",
    )
    return _table(header, rows)


def stored() -> str:
    """The tables in the document."""
    return DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip("\n") + "\n"


def write() -> None:
    """Put the tables into the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{tables()}\n{END}{after}", encoding="utf-8")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help=f"write the tables into {DOCUMENT.name}")
    parser.add_argument("--n", type=int, help="dimension: N, or rank times degree")
    parser.add_argument("--log-qp", type=float, help="log2 of the product of all primes")
    parser.add_argument("--secrets", type=int, default=1, help="secrets under one a")
    given = parser.parse_args()
    if (given.n is None) != (given.log_qp is None):
        parser.error("--n and --log-qp go together")
    if given.n is not None:
        found = estimate(given.n, given.log_qp)
        print("\n".join(_table(_FIGURES, [_figures(found)])))
        print(f"{given.secrets} secrets under one a: {math.log2(given.secrets):.1f} bits of the proof less")
    elif given.write:
        write()
    else:
        print(tables(), end="")


if __name__ == "__main__":
    main()
