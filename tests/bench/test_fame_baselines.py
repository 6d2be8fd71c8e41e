"""FAME's products by published methods: the paper's counts, what is run and what is predicted, what is compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cipherblas.methods.matmul.baselines.fame_published import FamePublished
from cipherblas_bench import fame_baselines, run_fame_baselines
from cipherblas_bench.sets import FAME_SETS, Shape
from tests.support.bench_fields import check_fields
from tests.support.fame import PUBLISHED_TRANSFORMS, ROTATIONS

# The paper's formulas, computed by hand: types I to IV of each set (m-k-n with the small dimension 16).
PUBLISHED_ROTATIONS = {
    "A": (350, 6286, 8478, 510),
    "B": (670, 20686, 33310, 1022),
    "C": (830, 30958, 51870, 1278),
}
PRODUCTS = [(name, index) for name in FAME_SETS for index in range(4)]


@pytest.mark.parametrize(("name", "index"), PRODUCTS)
def test_published_rotations(name: str, index: int) -> None:
    """φ + ζ by Eq. 12-15."""
    shape = FAME_SETS[name].shapes[index]
    assert fame_baselines.published_rotations(*shape) == PUBLISHED_ROTATIONS[name][index]


def cyclic_diagonals(m: int, k: int, n: int, slots: int) -> tuple[int, int]:
    """Of all maps of FAME's Eq. 6-9 together: diagonals, modulo the slots, and those by 0."""
    r, c = np.arange(m), np.arange(n)[:, None]
    maps = [
        (r + (r + np.arange(k)[:, None]) % k * m) - (r + np.arange(k)[:, None] * m),
        ((np.arange(k) + c) % k + c * k) - (np.arange(k) + c * k),
    ]
    for i in range(k):
        maps += [(c + i) % k * m - c * m + 0 * r, (r + i) % k + c * k - r - c * m]
    steps = [np.unique(found % slots) for found in maps]
    return sum(map(len, steps)), sum(0 in found for found in steps)


@pytest.mark.parametrize(("name", "index"), PRODUCTS)
def test_rotations_that_are_run(name: str, index: int) -> None:
    """The published form has a rotation for each diagonal of its definition; two that are equal modulo the slots are
    one. The published formulas count more, but for ε where its columns wrap around once more than they say."""
    member = FAME_SETS[name]
    m, k, n = member.shapes[index]
    algorithm = FamePublished(m, k, n, member.n // 2)
    maps = [*algorithm.sigma(), *algorithm.tau()]
    maps += [found for i in range(k) for found in (algorithm.epsilon(i), algorithm.omega(i))]
    diagonals, by_zero = cyclic_diagonals(m, k, n, member.n // 2)
    assert (sum(map(len, maps)), len(maps)) == (diagonals, PUBLISHED_TRANSFORMS[name][index])
    assert diagonals - by_zero == ROTATIONS[name][index]
    wraps = sum(max(0, len(algorithm.epsilon(i)) - (n // k + 1)) for i in range(k))
    assert diagonals - wraps <= PUBLISHED_ROTATIONS[name][index]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Shape:
    """Set A with one small product."""
    shape = (4, 8, 8)
    monkeypatch.setitem(FAME_SETS, "A", replace(FAME_SETS["A"], shapes=(shape,)))
    return shape


def rows(**options: Any) -> list[dict[str, Any]]:
    return list(run_fame_baselines(sets=["A"], budget=0.0, **options))


@pytest.mark.encrypted
@pytest.mark.usefixtures("fewest_runs", "small")
def test_methods_are_run_and_compared() -> None:
    ours, *others, summary = rows()
    assert [ours["algorithm"], *(row["algorithm"].split()[0] for row in others)] == [
        fame_baselines.OURS,
        *fame_baselines.PUBLISHED,
    ]
    for row in (ours, *others):
        assert (row["set"], row["case"], row["key_policy"]) == ("A", "4x8x8", "direct")
        assert row["error"] <= 1e-4 * 8 and row["ciphertexts"] == 2 and row["seconds"] > 0
        assert row["rotations"] > 0 and row["transforms"] > 0
    best = min(others, key=lambda row: row["seconds"])
    assert [row for row in others if row.get("best")] == [best]
    assert ours["best_baseline"] == best["algorithm"]
    assert ours["best_over_ours"] == best["times_ours"] == best["seconds"] / ours["seconds"]
    published = next(row for row in others if row["algorithm"] == "fame-published")
    assert (published["published_rotations"], published["transforms"]) == (7 + 15 + 8 * (2 + 8 * 2), 18)
    assert summary["best_over_ours"] == ours["best_over_ours"]
    assert "published_speedup" not in summary  # that is of 12 products
    check_fields([ours, *others, summary])


@pytest.mark.usefixtures("small")
def test_what_takes_too_long_is_predicted() -> None:
    *found, _ = rows(limit=0.0)
    for row in found:
        assert row["estimated"] and "seconds" not in row and row["predicted_seconds"] > 0
        assert "longer than 0 s" in row["note"]


@pytest.mark.usefixtures("small")
def test_what_needs_too_much_memory_is_predicted_without_a_limit() -> None:
    *found, _ = rows(memory_budget=1 << 20)
    assert all(row["estimated"] and "budget" in row["note"] for row in found)
    assert min(row["key_bytes"] for row in found) > 1 << 20


def test_what_the_paper_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """About three seconds for 160-160-160, 1337 times faster than the best CPU code, on average 221 times."""
    times = dict.fromkeys(fame_baselines.PUBLISHED, 12.0) | {fame_baselines.OURS: 6.0}
    monkeypatch.setattr(
        fame_baselines, "_method", lambda name, *_: {"algorithm": name, "seconds": times[name]}
    )
    *rest, summary = run_fame_baselines()
    ours = [row for row in rest if row["algorithm"] == "fame"]
    assert len(ours) == 12
    assert all("published_seconds" not in row and "times_published" not in row for row in ours[:-1])
    assert (ours[-1]["published_seconds"], ours[-1]["published_speedup"]) == (3.0, 1337.0)
    assert ours[-1]["times_published"] == 2.0
    assert (summary["case"], summary["published_speedup"]) == ("12 products", 221.0)
    assert summary["best_over_ours"] == 2.0


def test_measured_times_are_not_compared_with_predicted_ones() -> None:
    """On a busy machine what is run takes longer than is predicted."""
    found = [
        {"algorithm": "fame", "seconds": 9.0, "predicted_seconds": 1.0},
        {"algorithm": "e2dm", "seconds": 9.5, "predicted_seconds": 3.0},
        {"algorithm": "hegmm", "predicted_seconds": 2.0, "estimated": True},
    ]
    assert fame_baselines._compared(found, (4, 8, 8)) == 2.0
    assert [row.get("times_ours") for row in found] == [None, 3.0, 2.0]
    assert (found[0]["best_baseline"], found[0]["compared_by"]) == ("hegmm", "predicted_seconds")


def test_unknown_sets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"set: expected A \| B \| C, got D"):
        next(run_fame_baselines(sets=["D"]))
