"""The moduli of encrypted matrices: what a basis says, and one more kind of them from outside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from cipherblas.common.errors import LevelError, MismatchError
from cipherblas.evaluators.rows.symbolic import RowsSymbolic
from cipherblas.forms.row_forms import RowForm
from cipherblas.planner.predict.dry_run import counted_evaluators, sent
from cipherblas.rlwe.basis import OPERAND_BASIS, Basis, FirstLimbs
from cipherblas.rlwe.matrices import OperandRows, RlweRows
from cipherblas.rlwe.matrices.matrix import check_stackable
from cipherblas.rlwe.rings import Ring, RingShape
from cipherblas.runtime.inputs import SymbolicInputs
from cipherblas.runtime.values import Input
from tests.support import format_samples as samples

N = 64
RING = RingShape.from_bits(N, [40.0, 36.0, 36.0], [50.0], 1, 20.0)
BYTES = tuple(251.0 - 2 * number for number in range(17))


@dataclass(frozen=True)
class EverySecondPrime(Basis):
    """One that no room knows."""

    first: int

    @property
    def primes(self) -> int:
        return 2

    def moduli(self, ring: Ring) -> Sequence[float]:
        return ring.q[self.first :: 2]

    def __str__(self) -> str:
        return "every second prime"


def test_words_limbs_and_levels() -> None:
    own = RingShape.from_bits(N, [40.0, 36.0], [50.0], 1, 20.0, operand_moduli=BYTES)
    assert OPERAND_BASIS.words(own) == 3 and OPERAND_BASIS.moduli(own) == BYTES
    assert OPERAND_BASIS.levels_above(2, own) == 1 and FirstLimbs(2).levels_above(1, own) == 1
    assert FirstLimbs(2).words(own) == FirstLimbs(2).limbs == 2 and str(FirstLimbs(1)) == "1 limb"
    with pytest.raises(LevelError, match="the moduli of operands have no limbs"):
        _ = OPERAND_BASIS.limbs
    halved = RingShape.from_bits(N, [40.0] * 6, [50.0], 1, 20.0, level_limbs=2)
    assert FirstLimbs(5).levels_above(2, halved) == 2


def test_matrices_of_different_bases_do_not_meet() -> None:
    ev = RowsSymbolic(RING)
    x, y = (
        ev.fresh(None, (4, 8), bound=1.0, scale=4.0, basis=basis) for basis in (FirstLimbs(2), FirstLimbs(3))
    )
    with pytest.raises(Exception, match="equal shapes and limbs"):
        ev.add(x, y)
    secret, _ = samples.toy_keys(N, 2, 1)
    params = secret.params
    rows = [
        RlweRows(params, (2, 4), 1.0, np.zeros((limbs, 2, 4), np.uint64), np.zeros((limbs, 2, N), np.uint64))
        for limbs in (1, 2)
    ]
    with pytest.raises(MismatchError, match=r"numbers of limbs.*1 limb.*2 limbs"):
        check_stackable(list(rows))
    assert OperandRows.basis_of(2) is OPERAND_BASIS and rows[1].basis == FirstLimbs(2)


def test_a_kind_from_outside() -> None:
    """Handles, memory, traffic and the room of a message follow its moduli, and nothing is told of it."""
    basis = EverySecondPrime(0)
    form = RowForm((4, 8), False, ((0, 8),))
    wanted = Input("x", False, (4, 8), form, basis, 4.0)
    ((cells,),) = SymbolicInputs().secret(wanted, 1.0, counted_evaluators(RING))
    (x,) = cells
    assert x.basis == basis and x.limbs == 2
    assert sent(wanted, RING).upload_bytes == 2 * 4 * 8 * 8 + 32

    ev = RowsSymbolic(RING)
    assert ev.log_modulus(basis) == pytest.approx(76.0)
    assert ev.add(x, x).basis == basis and ev.nbytes((4, 8), basis) == 2 * 4 * (N + 8) * 8
    other = ev.fresh(None, (4, 8), bound=1.0, scale=4.0, basis=EverySecondPrime(1))
    with pytest.raises(LevelError, match="at every second prime"):
        ev.fresh(None, (4, 8), bound=1.0, scale=2.0**76, basis=basis)
    with pytest.raises(Exception, match="equal shapes and limbs"):
        ev.add(x, other)
    assert math.isfinite(ev.dropped(FirstLimbs(3), basis))
