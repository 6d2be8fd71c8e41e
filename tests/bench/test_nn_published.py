"""MetaKernel as it was published: Table 8, and the ring of its evaluation."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

import cipherblas_bench as bench
from cipherblas_bench import nn, nn_published
from cipherblas_bench.nn_shapes import KERNELS, Kernel

# Table 8: P_I, P_O, size of the search, P_b, P_s, bs_opt; what is not applicable to products W·x is 1.
TABLE_8 = {
    "Conv1": (1, 1, 3, 4, 1, 9),
    "Conv2": (1, 1, 5, 16, 1, 9),
    "Conv3": (1, 1, 11, 32, 2, 9),
    "Conv4": (1, 1, 18, 64, 4, 9),
    "Conv1_Large": (8, 8, 1, 8, 1, 9),
    "Conv2_Large": (4, 4, 1, 32, 1, 9),
    "Conv3_Large": (2, 2, 1, 128, 1, 9),
    "Conv4_Large": (1, 1, 1, 512, 1, 9),
    "MVM1": (1, 1, 36, 128, 4, 32),
    "MVM2": (1, 1, 13, 64, 1, 64),
}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_table_8(kernel: Kernel) -> None:
    found = nn_published.blocking(kernel)
    assert (
        *(found.inputs, found.outputs, found.search),
        *(found.p_b, found.p_s, found.baby_steps),
    ) == TABLE_8[kernel.name]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_rotations_are_nearly_the_published_ones(kernel: Kernel) -> None:
    """Those of large convolutions exactly; the others are up to 8 above the paper's own formula."""
    found, published = nn_published.blocking(kernel).rotations, kernel.published["metakernel"].rotations
    if kernel.name.endswith("Large"):
        assert found == published
    else:
        assert 1 <= published - found <= 8


def test_rows_of_the_published_patterns() -> None:
    rows = list(nn_published.run())
    assert [row["case"] for row in rows] == [kernel.name for kernel in KERNELS]
    assert [row["search_size"] for row in rows] == [3, 5, 11, 18, 1, 1, 1, 1, 36, 13]
    with pytest.raises(ValueError, match="got Conv9"):
        next(nn_published.run(["Conv9"]))


@pytest.mark.parametrize(("depth", "published_bits"), [(2, 172), (4, 284)])
def test_the_ring_is_nearly_the_published_one(depth: int, published_bits: int) -> None:
    params = nn_published.published_parameters(depth)
    assert params.n == 1 << 16 and params.security >= 128
    assert params.scale_bits == 49.0 and max(params.q) < 1 << 50
    assert abs(params.log_q - published_bits) < 0.07 * published_bits
    assert len(params.q) == 2 + depth and math.isclose(sum(map(math.log2, params.q[:2])), 70, abs_tol=0.1)


def test_fhelipes_large_convolutions_are_deeper() -> None:
    depths = {kernel.name: nn_published.published_depth(kernel, "fhelipe") for kernel in KERNELS}
    assert {name for name, depth in depths.items() if depth == 4} == {
        name for name in depths if name.endswith("Large")
    }
    assert {nn_published.published_depth(kernel, "metakernel") for kernel in KERNELS} == {2}


def test_everything_is_predicted_beyond_a_limit() -> None:
    """In the ring of the paper, ours too; then predictions are compared with predictions."""
    ours, theirs = bench.run_nn(["Conv1_Large"], limit=0.0, published_ring=True)
    assert (ours["algorithm"], theirs["algorithm"]) == ("metakernel", "fhelipe")
    assert (ours["params"]["limbs"], theirs["params"]["limbs"]) == (4, 6)
    for row in (ours, theirs):
        assert row["params"]["n"] == nn_published.RING_DEGREE and row["params"]["security"] == 128
        assert row["estimated"] and "predicted, not run" in row["note"] and "seconds" not in row
    assert theirs["times_metakernel"] == theirs["predicted_seconds"] / ours["predicted_seconds"] > 1
    assert theirs["times_rotations"] == theirs["rotations"] / ours["rotations"]
    assert theirs["published_times_metakernel"] == pytest.approx(136.6, abs=0.01)


def test_published_ratios() -> None:
    published = {"helib-bsgs": 3.45, "fhelipe": 187.23}
    (kernel,) = (kernel for kernel in KERNELS if kernel.name == "MVM1")
    rows = {
        name: {"rotations": 1, "predicted_seconds": 1.0, "published_seconds": kernel.published[name].seconds}
        for name in ("metakernel", *published)
    }
    for name, ratio in published.items():
        nn._compared(rows[name], rows["metakernel"])
        assert rows[name]["published_times_metakernel"] == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize(
    ("stored", "peak", "said"),
    [(700, 0, "700 MiB of weights"), (500, 600, "1100 MiB of weights, keys and values"), (500, 400, "")],
)
def test_what_does_not_fit_the_memory_is_not_run(
    stored: int, peak: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = object.__new__(nn._Case)
    counts = SimpleNamespace(stored_bytes=stored << 20)
    case.program = SimpleNamespace(plan=SimpleNamespace(seconds=1.0, counts=counts, peak_bytes=peak << 20))
    monkeypatch.setattr(nn, "_available", lambda: 1000 << 20)
    assert case.too_much(math.inf, 0.0) == said
    assert case.too_much(1.0, 0.0) == "2 s"
    case.weight_budget = 300 << 20  # the others lie in a file
    assert case.too_much(math.inf, 0.0) == ""
    case.weight_budget = 500 << 20
    assert case.too_much(math.inf, 0.0) == ("1100 MiB of weights, keys and values" if peak == 600 else "")


@pytest.mark.encrypted
@pytest.mark.usefixtures("fewest_runs")
def test_both_methods_are_right_in_the_ring_of_the_paper() -> None:
    ours, theirs = bench.run_nn(["Conv1"], budget=0.0, published_ring=True)
    for row in (ours, theirs):
        assert row["params"]["n"] == nn_published.RING_DEGREE
        assert row["relative_error"] <= 1e-5 and row["error"] <= row["predicted_error"]
    assert theirs["times_metakernel"] == theirs["seconds"] / ours["seconds"]


@pytest.mark.encrypted
@pytest.mark.usefixtures("fewest_runs")
def test_weights_beyond_a_budget_are_read_from_a_file() -> None:
    (ours,) = bench.run_nn(["Conv1"], baselines=(), budget=0.0, weight_budget=1 << 20)
    assert ours["weight_budget"] == 1 << 20 < ours["stored_bytes"]
    assert ours["relative_error"] <= 1e-5
