"""What docs/algorithms.md and the threat model state in numbers is what the code does."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import CipherblasError
from cipherblas.crypto import security
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.methods.layers import CONV_BASELINES, LAYER_METHODS
from cipherblas.methods.polynomial.paterson_stockmeyer import scheme
from cipherblas.methods.products import ALGORITHMS, GEMM
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.rings.modulus_chains import LINES, Profile, chain, refresh_of
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import RingShape
from cipherblas_bench.bootstrap import SETS
from tests.corpus.machine import MACHINE
from tests.support import documents

PAGE = documents.ROOT / "docs" / "algorithms.md"
ARCHITECTURE = documents.ROOT / "docs" / "architecture.md"
THREATS = documents.ROOT / "docs" / "threat-model.md"
ERRORS = documents.ROOT / "docs" / "errors.md"
SIZE, TOP_LIMBS = 64, 12


def counted(name: str) -> dict[str, str]:
    """The row of the table of counts, from the code."""
    algorithm = ALGORITHMS[name]
    columns = SIZE if algorithm.worthwhile(SIZE, SIZE, SIZE) else 1
    slots = next(1 << bits for bits in range(10, 17) if algorithm.fits(SIZE, SIZE, columns, 1 << bits))
    ring = RingShape.from_bits(2 * slots, [50.0] * 4 + [30.0] * (TOP_LIMBS - 4), [50.0], 1, 30.0)
    evaluator = Symbolic(ring)
    product = algorithm(SIZE, SIZE, columns, slots)
    left, right = (
        [evaluator.fresh(None, bound=1.0) for _ in range(layout.ciphertexts)]
        for layout in (product.left_layout, product.right_layout)
    )
    (result, *_) = product.finish(evaluator, product.multiply_once(evaluator, left, right, None))
    counts = evaluator.counts
    row = {
        "algorithm": name,
        "slots": slots,
        "ciphertexts": len(left) + len(right),
        "products": counts.products,
        "plain products": counts.plain_products,
        "rotations": counts.rotations,
        "rotation keys": len(evaluator.request.galois),
        "relinearisations": counts.relinearisations,
        "levels": TOP_LIMBS - result.limbs,
    }
    return {column: str(value) for column, value in row.items()}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_counts(name: str) -> None:
    """Every algorithm has a row, and the row holds what the Symbolic counts."""
    rows = {row["algorithm"]: row for row in documents.table(PAGE, "algorithm")}
    assert set(rows) == set(ALGORITHMS)
    assert rows[name] == counted(name)


def test_counts_of_polynomials() -> None:
    """Levels, products and relinearisations of dense and of odd polynomials."""
    for row in documents.table(PAGE, "degree"):
        degree = int(row["degree"])
        numbers = [1.0 / (index + 3) for index in range(degree + 1)]
        dense = scheme(tuple(numbers))
        halves = tuple(number * (index % 2) for index, number in enumerate(numbers))
        odd = scheme(halves) if degree % 2 else None
        found = [dense.levels, dense.multiplications, dense.relinearisations]
        assert list(row.values())[1:4] == list(map(str, found))
        both = (odd.multiplications, odd.relinearisations) if odd else ("", "")
        assert list(row.values())[4:] == list(map(str, both))


def test_every_algorithm_has_a_section() -> None:
    assert {*ALGORITHMS, GEMM, *LAYER_METHODS, *CONV_BASELINES} <= documents.anchors(PAGE)


def test_counts_of_products_by_gemm() -> None:
    """64×64×64 with each key policy, from the plan; the formulas beside them give the same."""
    rows = documents.table(PAGE, "64×64×64 at N = 4096")
    assert [row.pop("64×64×64 at N = 4096") for row in rows] == list(get_args(KeyPolicy))
    switches = {"direct": 2 * 4095 + 64, "composed": 4 * 4096 + 64, "binary": 4096 * 12 + 64}
    for row, policy in zip(rows, get_args(KeyPolicy), strict=True):
        plan = cb.compile(
            lambda a, b: a @ b,
            {"a": cb.secret(64, 64), "b": cb.secret(64, 64)},
            form="rows",
            ring_degree=4096,
            key_policy=policy,
            machine=MACHINE,
        ).plan
        assert (plan.parameters.limbs, plan.parameters.special_limbs) == (1, 1)
        assert row == {
            "keys": str(len(plan.keys)),
            "key bytes": str(plan.key_bytes),
            "key switches": str(plan.counts.row_switches),
            "multiply-adds of bytes": str(plan.counts.operand_macs),
        }
        assert plan.counts.modular_macs == plan.counts.float_macs == 0
        moduli = plan.parameters.operand_moduli or ()
        assert plan.counts.operand_macs == len(moduli) * 64 * (4096 + 64) * (4096 + 64)
        below = plan.counts.row_switches < switches[policy]
        assert below if policy == "composed" else plan.counts.row_switches == switches[policy]


def test_security_table() -> None:
    for row in documents.table(PAGE, "N"):
        n = 1 << int(row["N"].removeprefix("2^"))
        for bits in security.LEVELS:
            assert float(row[f"{bits} bits"]) == security.max_log_qp(n, bits)


def test_options_of_a_plan() -> None:
    """The table of options names them all, with their defaults."""
    options = PlanOptions()
    rows = {row["option"].strip("`"): row["default"] for row in documents.table(ARCHITECTURE, "option")}
    assert list(rows) == list(PlanOptions.__dataclass_fields__)
    for name, default in rows.items():
        value = getattr(options, name)
        if isinstance(value, float):
            assert float(default) == value
        else:
            assert default.strip('"') == str(value), name


@pytest.mark.parametrize("row", documents.table(PAGE, "degree, working levels"))
def test_orders_of_bootstrapping(row: dict[str, str]) -> None:
    """Transforms and errors of a refresh, slots to coefficients first and ModRaise first."""
    name, *stated = row.values()
    found = re.fullmatch(r"N = 2\^(\d+), (\d+)", name)
    assert found
    log_n, working = map(int, found.groups())
    counted: list[str] = []
    for raised_first in (False, True):
        transforms, error = refresh_of(chain(1 << log_n, working, SETS[log_n][1], raised_first=raised_first))
        counted += [f"{transforms:,}", f"{error:.1e}"]
    assert stated == counted


def test_primes_of_lines_and_sines() -> None:
    """The table of chains, by what spends them."""
    rows = documents.table(PAGE, "primes for")
    columns = {"lines, N = 2^16": (16, LINES), "sines, N = 2^15": (15, Profile.of_sines(30.0))}
    for column, (log_n, profile) in columns.items():
        bits = chain(1 << log_n, 8, 5, profile=profile).q_bits
        found = [f"{len(list(run))} of {size:g}" for size, run in itertools.groupby(_by_segment(bits, log_n))]
        stated = [row[column].removesuffix(" bits") for row in rows]
        assert [f"1 of {stated[0]}", *stated[1:]] == found


def _by_segment(bits: Sequence[float], log_n: int) -> list[float]:
    """Sizes of a chain, those of slots to coefficients told from working levels of the same size."""
    down = 3 if log_n == 16 else 2
    return [size + 1e-12 * (1 <= place <= down) for place, size in enumerate(bits)]


def test_errors_are_listed() -> None:
    """Every public error class has a row that states its built-in base."""
    public = {
        name: item
        for name, item in vars(cb).items()
        if isinstance(item, type) and issubclass(item, CipherblasError)
    }
    rows = {row["error"].strip("`"): row["also a"].strip("`") for row in documents.table(ERRORS, "error")}
    assert set(rows) == set(public) - {"CipherblasError"}
    for name, base in rows.items():
        bases = [cls.__name__ for cls in public[name].__mro__[1:] if cls is not CipherblasError]
        assert bases[0] == (base or "Exception"), name


def test_example_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = documents.blocks(ERRORS, "python")
    exec(compile(block.text, ERRORS.name, "exec"), {})
    promised = re.findall(r"print\(.*\)  # (.+)", block.text)
    assert len(promised) == 2 and capsys.readouterr().out.splitlines() == promised


def test_bits_of_noise_flooding() -> None:
    """log2(σ/E) = log2(sqrt(24 n)) + s/2, to the tenth of a bit that the page gives."""
    for row in documents.table(THREATS, "entries shared n"):
        n = int(row.pop("entries shared n"))
        for heading, text in row.items():
            s = int(heading.removeprefix("s = "))
            assert float(text.split()[0]) == pytest.approx(math.log2(24 * n) / 2 + s / 2, abs=0.05)


def test_noise_flooding() -> None:
    """The examples run; what is shared is as far from the truth as stated, and not nearer."""
    first, second = documents.blocks(THREATS, "python")
    names: dict[str, Any] = {}
    exec(compile(first.text, THREATS.name, "exec"), names)
    once = names["shared"]
    exec(compile(second.text, THREATS.name, "exec"), names)
    assert not np.array_equal(once, names["shared"]) and list(names["book"].values()) == [320]
    program, a, b, shared = (names[name] for name in ("program", "w", "x", "shared"))
    assert isinstance(program, cb.Program)
    assert isinstance(a, np.ndarray)
    assert isinstance(b, np.ndarray)
    assert isinstance(shared, np.ndarray)
    errors = np.abs(shared - a @ b)
    sigma = math.sqrt(24 * 4096) * 2**15 * program.worst_error
    # 320 Gaussian numbers: the largest beyond 2σ but with probability below 10^-6, and below 7σ; rounding adds σ/2.
    assert 2 * sigma - sigma / 2 < errors.max() < 7.5 * sigma
    assert errors.max() / a.shape[1] < 1e-4


# Without moduli of operands.
SLOW = dataclasses.replace(MACHINE, rates=dataclasses.replace(MACHINE.rates, operands=None))


def test_worst_errors_are_as_stated() -> None:
    """E of the threat model's figures, relative to the bound of the result."""
    for sizes, options, stated in (
        ((64, 64, 64), {"form": "blocks", "precision": 3e-13, "machine": MACHINE}, -38),
        ((10, 64, 32), {"form": "rows", "precision": 3e-14, "machine": MACHINE}, -45),
        ((10, 64, 32), {"form": "rows", "precision": 3e-14, "machine": SLOW}, -42),
    ):
        m, k, n = sizes
        program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(m, k), "b": cb.secret(k, n)}, **options)
        found = math.log2(program.worst_error / program.expression.bound)
        assert stated - 1 < found < stated + 1


@pytest.mark.parametrize(
    "row", documents.table(PAGE, "by rows, exact"), ids=lambda row: row["by rows, exact"]
)
def test_moduli_of_exact_integers(row: dict[str, str]) -> None:
    """The table of exact integers is that of the plans."""
    dtype, length = row["by rows, exact"].split(", k = ")
    d = int(length)
    b = cb.secret(d, d, dtype=dtype, exact=True)
    for kind, a in (("clear × secret", cb.public(d, d, dtype=dtype)), ("secret × secret", b)):
        options = {"form": "rows", "minimise": "server", "memory_budget": 1 << 40, "machine": MACHINE}
        params = cb.compile(lambda a, b: a @ b, {"a": a, "b": b}, **options).plan.parameters
        primes = f"{params.limbs} prime{'s' if params.limbs > 1 else ''}"
        own = params.operand_moduli
        operands = f" (operands {math.log2(math.prod(own)):.0f})" if own else ""
        assert row[kind] == f"{params.log_q:.0f}{operands}, {primes}, 2^{params.n.bit_length() - 1}"
