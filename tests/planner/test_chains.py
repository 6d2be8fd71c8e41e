"""Chains of primes for programs that refresh: what security allows, and digits of about equal bits."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cipherblas.common.errors import LevelError
from cipherblas.crypto.digits import digit_ranges
from cipherblas.crypto.security import max_log_qp, max_log_qp_sparse
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.methods.bootstrapping.refresh import bootstrapping_of
from cipherblas.planner.rings import modulus_chains
from cipherblas.planner.rings.first import First
from cipherblas.planner.rings.sizing import budget_bits


@pytest.mark.parametrize(("log_n", "working", "digits"), [(16, 15, 3), (16, 8, 3), (15, 3, 8)])
def test_as_few_digits_as_security_allows(log_n: int, working: int, digits: int) -> None:
    """Digits of about equal bits: at N = 2^16 one fewer than digits of equal numbers of limbs would be."""
    n = 1 << log_n
    found = modulus_chains.chains(n, working, budget_bits(n, 128, False))
    assert len(found[-1].digit_limbs or ()) == digits
    assert [one.log_qp for one in found] == sorted(one.log_qp for one in found)
    for sizing in found:
        params = sizing.parameters(128, insecure=False)
        assert params.log_qp <= max_log_qp(n, 128)
        assert params.digit_limbs == sizing.shape().digit_limbs == sizing.digit_limbs
        ranges = digit_ranges(params.limbs, params.alpha, params.digit_limbs)
        largest = max(math.fsum(math.log2(params.q[limb]) for limb in digit) for digit in ranges)
        assert largest <= params.log_p


def test_smaller_limbs_of_coefficients_to_slots_lose_no_precision() -> None:
    def bits(largest: float) -> float:
        profile = replace(modulus_chains.LINES, transform=largest)
        params = modulus_chains.chain(1 << 16, 15, 4, profile=profile).parameters(128, insecure=False)
        method, ev = bootstrapping_of(params), Symbolic(params)
        result = method.run(ev, ev.fresh(None, bound=1.0, limbs=method.levels_before + 1))
        return -math.log2(result.error(params.slots))

    assert bits(modulus_chains.LINES.transform) == pytest.approx(bits(modulus_chains.LINES.up), abs=0.02)


@pytest.mark.parametrize(("log_n", "working", "digits"), [(15, 2, 8), (16, 7, 4), (16, 14, 3)])
def test_the_order_of_a_refresh_is_the_one_that_takes_less(log_n: int, working: int, digits: int) -> None:
    """Slots to coefficients first: transforms where limbs are few, and coefficients' errors that are not added up."""
    first = modulus_chains.chain(1 << log_n, working, digits)
    other = modulus_chains.chain(1 << log_n, working, digits, raised_first=True)
    assert other.log_qp <= budget_bits(1 << log_n, 128, False)
    (transforms, error), (more, worse) = modulus_chains.refresh_of(first), modulus_chains.refresh_of(other)
    assert 1.1 < more / transforms < 1.4 and worse > 100 * error
    assert not modulus_chains.raises_first(first, other)
    assert modulus_chains.raises_first(other, first)


@pytest.mark.parametrize(("log_n", "working", "digits"), [(15, 3, 8), (16, 15, 3), (16, 8, 4)])
def test_t4_is_made_of_unrounded_squares_in_every_ring(log_n: int, working: int, digits: int) -> None:
    """Which is what holds the errors of EvalMod below those of a sine."""
    assert modulus_chains.refresh_of(modulus_chains.chain(1 << log_n, working, digits))[1] < 2.0**-15.2


@pytest.mark.parametrize("log_n", [15, 16])
def test_encapsulating_primes_exist_for_sines_of_every_scale(log_n: int) -> None:
    """q_0 is so small that half of it would hardly be a prime = 1 mod 2N."""
    for scale in modulus_chains.SINE_SCALES:
        profile = modulus_chains.Profile.of_sines(scale)
        params = modulus_chains.chain(1 << log_n, 1, 8, profile=profile).parameters(128, insecure=False)
        sparse = params.family.sparse
        assert sparse.q == params.q[:1] and sparse.log_p >= math.log2(params.q[0]) + 3.5
        assert sparse.log_qp <= max_log_qp_sparse(1 << log_n, 128)


@pytest.mark.parametrize("log_n", [15, 16, 17])
@pytest.mark.parametrize(("scale", "up"), [(29.0, 36.0), (32.0, 39.0), (33.0, 40.0), (34.0, 41.0)])
def test_primes_of_sines_take_no_larger_words_than_their_sizes(scale: float, up: float, log_n: int) -> None:
    """Of primes on both sides of 2^32, half would take 64 bits in weights, and 40 in keys."""
    assert (scale, up) in modulus_chains.SINE_SIZES
    profile = modulus_chains.Profile.of_sines(scale, up)
    params = modulus_chains.chain(1 << log_n, 4, 8, profile=profile).parameters(128, insecure=False)
    top = len(params.q) - len(_up(1 << log_n))
    for primes, bits in (
        (params.q[:1], scale + 3),
        (params.q[1:7], scale),
        (params.q[top - 7 : top], up),
        (params.q[top:], up - 1),
    ):
        assert bits not in modulus_chains.WORDS or max(primes) < 2**bits
        assert math.log2(min(primes)) == pytest.approx(bits, abs=0.03)


# Of the design of refreshes for networks: ring degree, working levels, and bits of precision, rms; the scale, bits of
# EvalMod and digits that it has for them, and log2(QP).
DEMANDS = {
    "A": (15, 8, 13.0, (30.0, 37.0, 5, 850.0)),
    "B": (15, 8, 12.5, (29.0, 36.0, 4, 862.0)),
    "C": (15, 9, 12.5, (29.0, 36.0, 5, 858.0)),
    "D": (16, 16, 13.8, (34.0, 38.0, 2, 1643.0)),
    "E": (16, 8, 15.8, (36.0, 40.0, 3, 1168.0)),
}


@pytest.mark.parametrize("name", DEMANDS)
def test_the_search_finds_chains_for_sines_of_a_precision(name: str) -> None:
    """The smallest sizes that are precise enough, with as few digits as security allows; as good as those of the
    design."""
    log_n, levels, bits, (scale, up, digits, log_qp) = DEMANDS[name]
    n = 1 << log_n

    def run(ring: Any) -> Any:
        if modulus_chains.working(ring) < levels:
            raise LevelError("The chain is too short.")
        method, ev = bootstrapping_of(ring), Symbolic(ring)
        result = method.run(ev, ev.fresh(None, bound=1.0, limbs=method.limbs_before))
        off = result.errors.deviation * method.period / (2 * math.pi)
        return SimpleNamespace(off=off, transforms=ev.counts.ntt_limbs)

    def excess(found: Any) -> float:
        return float(found.off * 2.0**bits)

    profile = modulus_chains.Profile.of_sines(modulus_chains.SINE_SCALES[0])
    found = modulus_chains.chain_sizings(run, n, excess, 128, False, First(), profile=profile)
    for sizing in found:
        assert sizing.log_qp <= budget_bits(n, 128, False)
    assert excess(run(found[0].shape())) <= 1
    designed = modulus_chains.chain(n, levels, digits, profile=modulus_chains.Profile.of_sines(scale, up))
    assert designed.log_qp == pytest.approx(log_qp, abs=16)
    fewest = min(run(sizing.shape()).transforms for sizing in found)
    assert fewest <= 1.02 * run(designed.shape()).transforms
    # Nothing smaller would do.
    profiles = [modulus_chains.Profile.of_sines(*both) for both in modulus_chains.SINE_SIZES]
    sizes = found[0].scale_bits, found[0].q_bits[-len(_up(n)) - 1]
    place = [(one.scale, one.up) for one in profiles].index(sizes)
    for smaller in modulus_chains.SINE_SIZES[max(0, place - 2) : place]:
        ring = modulus_chains.chain(n, levels, 8, profile=modulus_chains.Profile.of_sines(*smaller)).shape()
        assert excess(run(ring)) > modulus_chains.MARGIN


def _up(n: int) -> tuple[int, ...]:
    """Factors of coefficients to slots."""
    return modulus_chains.method_of(n).up
