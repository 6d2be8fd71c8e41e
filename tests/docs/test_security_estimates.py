"""The security estimates: the page is what the script prints, and the security table holds by them."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from types import ModuleType

import pytest

from cipherblas.crypto import security
from cipherblas_bench.sets import FAME_SETS
from tests.support import documents
from tests.support.scripts import script

SCRIPT = documents.ROOT / "scripts" / "estimate_security.py"


@pytest.fixture(scope="module")
def estimates() -> ModuleType:
    return script("estimate_security")


def test_the_page_is_what_the_script_prints(estimates: ModuleType) -> None:
    assert estimates.stored() == estimates.tables()


def test_every_entry_of_the_security_table_holds(estimates: ModuleType) -> None:
    """Classically by the method of the guidelines; by BDD all but the two that the page names, within 0.2 bits."""
    below = {}
    for level, n, bound in estimates.bounds():
        found = estimates.estimate(n, bound)
        assert found.guidelines >= level, (level, n)
        assert found.bdgl16 >= level, (level, n)
        if found.bdd.bits < level:
            below[level, n] = found.bdd.bits
    assert set(below) == {(128, 1 << 17), (192, 1 << 17)}
    assert all(bits >= level - 0.2 for (level, _), bits in below.items())


@pytest.mark.parametrize(("level", "row"), [(128, 0), (192, 1), (256, 1)])
def test_the_largest_moduli_are_those_of_the_guidelines(estimates: ModuleType, level: int, row: int) -> None:
    """Each is the entry or one more: the formulas neither flatter nor slander the table."""
    for log_n in range(10 + row, 18):
        entry = int(security.max_log_qp(1 << log_n, level))
        if (level, log_n) != (256, 17):  # an entry of our own
            assert estimates.largest_log_qp(1 << log_n, level, entry) in (entry, entry + 1), log_n
    assert estimates.largest_log_qp(1 << 17, 256, 929) == 1866  # as published


# Bossuat et al. 2024, quantum, ternary secrets: (level, log2 N, largest log2(QP)), large rings.
QUANTUM = [(128, 15, 825), (128, 16, 1663), (128, 17, 3349), (192, 17, 2301), (256, 17, 1784)]


@pytest.mark.parametrize(("level", "log_n", "bound"), QUANTUM)
def test_quantum_moduli_are_those_of_the_guidelines(
    estimates: ModuleType, level: int, log_n: int, bound: int
) -> None:
    def bits(log_qp: int) -> float:
        attacks = (estimates.usvp, estimates.dual_hybrid)
        return min(attack(1 << log_n, log_qp, estimates.QUANTUM).bits for attack in attacks)

    assert bits(bound) >= level > bits(bound + 2)


def test_estimates_fall_with_the_modulus_and_grow_with_the_dimension(estimates: ModuleType) -> None:
    for attack in (estimates.usvp, estimates.bdd, estimates.dual_hybrid):
        small, middle, large = (attack(1 << 13, bits, estimates.MATZOV).bits for bits in (160, 200, 214))
        assert small > middle > large
        assert attack(1 << 14, 214, estimates.MATZOV).bits > large


def test_published_sets_and_the_readme_are_in_the_table(estimates: ModuleType) -> None:
    rows = {row["set"]: row for row in documents.table(estimates.DOCUMENT, "set")}
    for name, chosen in FAME_SETS.items():
        assert float(rows[f"FAME {name}"]["log2(QP)"]) == chosen.log_qp
    (block,) = documents.blocks(documents.ROOT / "docs" / "tutorial.md", "text")
    (line,) = (line for line in block.text.splitlines() if line.startswith("log2(Q), log2(P)"))
    sizes = [float(bits) for bits in re.findall(r"([0-9.]+) \([0-9]+ limbs\)", line)]
    assert len(sizes) == 2
    assert float(rows["README's program"]["log2(QP)"]) == pytest.approx(sum(sizes))
    for row in rows.values():
        assert float(row["less log2 T"]) == pytest.approx(
            float(row["classical"]) - float(row["log2 T"]), abs=0.11
        )


def test_the_command_line_estimates_one_set(estimates: ModuleType) -> None:
    given = [sys.executable, str(SCRIPT), "--n", "4096", "--log-qp", "106", "--secrets", "1024"]
    printed = subprocess.run(given, check=True, capture_output=True, text=True).stdout
    found = estimates.estimate(4096, 106)
    assert f"| {found.usvp.bits:.1f} |" in printed
    assert f"{math.log2(1024):.1f} bits of the proof less" in printed


def test_the_sparse_secret_holds(estimates: ModuleType) -> None:
    """No less than the level, and than its authors state; more in larger rings, less for a larger modulus or weight."""
    rows = documents.table(estimates.DOCUMENT, "N of the sparse secret")
    for row, log_n in zip(rows, (15, 16, 17), strict=True):
        assert row["N of the sparse secret"] == f"2^{log_n}"
        assert float(row["log2(q_0·P')"]) == security.max_log_qp_sparse(1 << log_n, 128)
        assert int(row["weight"]) == security.SPARSE_WEIGHT
        assert all(float(row[name]) >= 139 for name in ("hybrid", "BDGL16", "quantum"))
    hybrid, model = estimates.hybrid, estimates.MATZOV
    bits = hybrid(1 << 13, 40.0, 32, model).bits
    assert hybrid(1 << 14, 40.0, 32, model).bits > bits > hybrid(1 << 13, 60.0, 32, model).bits
    assert hybrid(1 << 13, 40.0, 48, model).bits > bits > hybrid(1 << 13, 40.0, 16, model).bits
