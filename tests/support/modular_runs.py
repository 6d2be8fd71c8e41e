"""Programs of integers modulo t, compared with Python's integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.crypto.params import Parameters
from tests.support.runs import Parties, listed

Array = NDArray[Any]


def values_for(program: cb.Program, seed: int = 0) -> dict[str, Array]:
    """Operands of every size, of which residues are taken."""
    generator = np.random.default_rng(seed)
    largest = {True: 2**62, False: 2**31 - 1}
    return {
        name: generator.integers(-largest[one.secret], largest[one.secret], one.shape)
        for name, one in program.operands.items()
    }


def check(program: cb.Program, function: Callable[..., Any], values: dict[str, Array]) -> None:
    """Run, and compare with Python's integers."""
    parties = Parties(program)
    found = listed(program, parties.client.decrypt(parties.server.run(parties.inputs(values))))
    expected = listed(program, function(**{name: value.astype(object) for name, value in values.items()}))
    evaluated = listed(program, program.evaluate(values))
    for one, other, want in zip(found, evaluated, expected, strict=True):
        assert one.dtype == other.dtype == np.int64
        assert np.array_equal(one, want % program.modulus)
        assert np.array_equal(other, want % program.modulus)
    assert parties.server.last.counts == program.plan.counts


def largest_error(secret: Any, params: Parameters, words: Any) -> float:
    """The largest coefficient of ω, by the phase in Python's integers."""
    context, limbs, t = params.context(), words.shape[1], params.plain_modulus or 0
    moduli = params.q[:limbs]
    with secret.held_open():
        key = np.ascontiguousarray(secret.ntt()[:limbs])
        phase = np.ascontiguousarray(words[-1])
        for component in words[-2::-1]:
            phase = (context.multiply(phase, key) + component) % np.array(moduli, np.uint64)[:, None]
    residues = context.rows_from_ntt(np.ascontiguousarray(phase[None]))[:, 0]
    modulus = math.prod(moduli)
    units = [modulus // q * pow(modulus // q, -1, q) for q in moduli]
    found = 0
    for coefficient in residues.T.tolist():
        value = sum(residue * unit for residue, unit in zip(coefficient, units, strict=True)) * t % modulus
        found = max(found, min(value, modulus - value))
    return found / t
