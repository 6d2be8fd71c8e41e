"""Networks whose weights are encrypted, on ranks: their scores, their layers, and the model beside FHE-MM."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from cipherblas.distributed.blocks import optimal_blocks
from cipherblas.distributed.communicator import Sent
from cipherblas.distributed.messages import Network
from cipherblas.planner.predict.machine import Machine
from cipherblas_bench import run_secret_network
from cipherblas_bench.distributed import check_sent
from cipherblas_bench.fhe4dmm_model import SLOTS, prices
from cipherblas_bench.harness import MeasurementError, render
from cipherblas_bench.secret_network import NETWORKS, SecretNetwork, predicted_rows, real_rows
from cipherblas_bench.secret_network_model import PUBLISHED, chain, layers_of, model_rows
from tests.support.bench_fields import check_fields

pytestmark = pytest.mark.filterwarnings("ignore")
WINDOWS = SecretNetwork("toy", 3, 2, 4, 3)
PLACES = SecretNetwork("toy", 3, 2, 5, 3, 8, (2.0, 2.0, 2.0))
LARGE = SecretNetwork("toy", 1, 1, 8000, 2, 8192)  # two blocks of samples are four images


@pytest.mark.parametrize("network", [WINDOWS, PLACES])
def test_scores_are_those_of_the_network(network: SecretNetwork) -> None:
    """Of the program that is encrypted, as Python's integers, and of real numbers."""
    program, values = network.program(3, "bgv"), network.values(3, exact=True)
    whole = {name: value.astype(object) for name, value in values.items()}
    x = whole["x"].reshape(network.windows, 3, 3) if network.places is None else whole["x"].reshape(3, 8, 3)
    squares = (x @ whole["filters"]) ** 2
    if network.places is None:
        then = sum(one @ two for one, two in zip(squares, whole["hidden"], strict=True))
    else:
        assert not x[:, 5:].any()
        then = squares.transpose(0, 2, 1).reshape(3, -1) @ whole["hidden"]
    exact = (then**2) @ whole["last"]
    assert (program.evaluate(values) == exact).all() and exact.any()
    real = {name: value / 1024 for name, value in values.items()}
    assert all((real[name] == value).all() for name, value in network.values(3, exact=False).items())
    found = network.program(3, "ckks", values=real).evaluate(real)
    assert np.allclose(found, (exact / 2**110).astype(float))
    for name, most in zip(("filters", "hidden", "last"), network.sums, strict=False):
        assert np.abs(real[name]).sum(axis=0).max() <= most


def test_layers_are_told_by_their_titles() -> None:
    for network, hidden in ((NETWORKS["digits"], "4x16"), (NETWORKS["photographs"], "8192x128")):
        width, units = hidden.split("x")
        told = {
            ("matmul", f"product 9x{network.pixels} · {network.pixels}x{network.channels}"): "convolution",
            ("multiply", f"square 9x{width}"): "first_square",
            ("matmul", f"product 9x{width} · {hidden}"): "hidden",
            ("add", f"sum 9x{units}"): "hidden",
            ("multiply", f"square 9x{units}"): "second_square",
            ("matmul", f"product 9x{units} · {units}x10"): "last",
            ("operand", "last 16x10"): "weights",
            ("arrange", "arrangement"): "other",
        }
        assert [network.layer_of(*node) for node in told] == list(told.values())


@pytest.mark.encrypted
def test_ranks_compute_the_scores_of_one() -> None:
    alone, two = rows = list(real_rows(LARGE, "bgv", 4, (1, 2), Network(0.0, 0.0), 100, 1, (1, 1)))
    check_fields(rows)
    assert all(row["error"] == 0 and row["sample_blocks"] == 2 and row["plain_moduli"] > 1 for row in rows)
    assert (alone["messages"], alone["message_bytes"]) == (0, 0) < (two["messages"], two["message_bytes"])
    for row in rows:
        layers = [row[f"{name}_seconds"] for name in ("convolution", "first_square", "hidden", "last")]
        assert min(layers) > 0 and sum(layers) < row["seconds"] * 1.1


def test_ranks_that_sent_something_else_are_told() -> None:
    planned: Any = SimpleNamespace(runs=[SimpleNamespace(sent=Sent()), SimpleNamespace(sent=Sent(2, 16, 1))])
    none, some = ({"messages": n, "nbytes": 8 * n, "headers": n // 2} for n in (0, 2))
    assert check_sent("case", planned, [{"sent": [none, some]}]) == Sent(2, 16, 1)
    with pytest.raises(MeasurementError, match="rank 0 sent"):
        check_sent("case", planned, [{"sent": [none, some]}, {"sent": [some, some]}])


def test_more_ranks_than_blocks_of_samples_gain_nothing() -> None:
    rows = list(predicted_rows(LARGE, "bgv", [4], Machine.usual(), (100, 101), 1, (1, 2, 64)))
    check_fields(rows)
    assert [row["ranks_taking_part"] for row in rows] == [1, 2, 2]
    one, two, many = (row["predicted_seconds"] for row in rows)
    assert one > two == many
    assert rows[0]["messages"] == 0 < rows[1]["messages"] == rows[2]["messages"]


@pytest.mark.parametrize(("name", "columns", "inner"), [("digits", 1024, 4), ("photographs", 128, 50)])
def test_layouts_are_those_of_the_paper(name: str, columns: int, inner: int) -> None:
    published = PUBLISHED[name]
    inputs, units = published.features
    for images in (8192, 1 << 16):
        assert optimal_blocks((units, images, inputs), SLOTS) == (1, images // columns, inner)
    assert published.block == (units, columns, inputs // inner)


def test_the_model_beside_the_paper() -> None:
    machine, name = Machine.usual(), "digits"
    ours = [
        {"images": 1 << 18, "ranks": ranks, "plain_moduli": 5, "threads": 1, "predicted_seconds": seconds}
        for ranks, seconds in ((1, 1.0), (64, 3.0), (64, 2.0), (64, 9.0))
    ]
    rows = list(model_rows(name, 49, machine, 1, ours))
    check_fields(rows)
    baseline, four = rows
    assert (
        four["params"]["security"] == 128 and 590 < four["params"]["logq"] < 650
    )  # the paper: about 620 to 650
    assert (baseline["movements"], four["movements"]) == (32, 16 + 1 / 16)
    assert baseline["blocks"] == four["blocks"] == "1x256x4"
    for row in rows:
        parts = row["products_seconds"] + row["convolution_seconds"] + row["squares_seconds"]
        assert row["predicted_seconds"] == pytest.approx(parts) and row["mpi_seconds"] > 0
    assert four["speedup_over_baseline"] == pytest.approx(
        baseline["predicted_seconds"] / four["predicted_seconds"]
    )
    assert 1 < four["speedup_over_baseline"] < four["products_speedup_over_baseline"]
    assert four["speedup_over_baseline"] < four["speedup_with_encodings"]
    render(rows, console=Console(file=io.StringIO(), width=500))
    assert four["times_features"] == pytest.approx(four["predicted_seconds"] / 2.0)


def test_layers_take_less_where_fewer_limbs_are_left() -> None:
    block, machine = PUBLISHED["digits"].block, Machine.usual()
    program = chain(block)
    layers = layers_of(program, block, 49, machine, 1)
    assert layers.first_square > layers.second_square > 0 < layers.convolution
    assert layers.hidden.product > layers.last.product and layers.hidden.sent.fresh > layers.last.sent.fresh
    whole = prices(block, program.plan.parameters, machine.rates, 1)
    assert whole.product > layers.hidden.product and whole.encoding > layers.hidden.encoding > 0


def test_what_there_is_not() -> None:
    with pytest.raises(ValueError, match="network: expected digits or photographs, got 'letters'"):
        list(run_secret_network(["letters"], []))
    with pytest.raises(ValueError, match="scheme: expected bgv or ckks, got 'bfv'"):
        list(run_secret_network(["digits"], [], schemes=["bfv"]))
