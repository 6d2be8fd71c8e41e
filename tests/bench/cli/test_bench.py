"""The benchmarks as commands, small."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cipherblas_bench.harness import REQUIRED


def test_bench_prints_lines_of_json(invoke: Any) -> None:
    result = invoke("bench", "cc", "--shape", "4x5x6", "--shape", "3x3x3", "--seconds", "0", "--json", "-q")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {"4x5x6", "3x3x3"} <= {row["case"] for row in rows if row["bench"] == "cc"}
    for row in rows:
        assert row["error"] < 1e-4 * 6 and row["peak_bytes"] > 0 and row["threads"] == 1


@pytest.mark.parametrize(
    "options",
    [
        ("primitives", "--n", "8192", "--case", "rescale"),
        ("primitives", "--scheme", "bgv", "--case", "multiply_rescale"),
        ("linear-transform", "--set", "A", "--diagonals", "3"),
        ("pc", "--shape", "6x5x4", "--fixed"),
        ("nn", "--case", "Conv1", "--baseline", "none"),
    ],
)
def test_every_row_has_the_required_fields(invoke: Any, options: tuple[str, ...]) -> None:
    result = invoke("bench", *options, "--seconds", "0", "--json", "-q")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows and result.exit_code == 0
    for row in rows:
        assert list(row)[: len(REQUIRED)] == list(REQUIRED)
        assert row["bench"] == options[0]
        assert 0 < row["seconds_min"] <= row["seconds"] <= row["seconds_max"]
        assert row["error"] is not None and row["peak_bytes"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("primitives", "--peer", "seal", "--n", "65536", "--case", "rotate"), "8192, 32768, got 65536"),
        (("primitives", "--n", "100"), "got 100"),
        (("primitives", "--roofline", "--threads", "2"), "neither --peer nor --threads"),
        (("primitives", "--scheme", "bgv", "--peer-scheme", "bfv"), "needs --scheme bgv and --peer"),
        (("primitives", "--scheme", "bgv", "--peer", "openfhe", "--peer-scheme", "bfv"), "bfv of seal alone"),
        (("primitives", "--scheme", "bgv", "--n", "8192"), "16384, got 8192"),
        (("primitives", "--scheme", "bgv", "--case", "ntt"), "got ntt"),
        (("primitives", "--scheme", "bgv", "--roofline"), "nor --scheme"),
        (("cc", "--suite", "fame", "--order", "limb"), "neither algorithm nor order"),
        (("cc", "--suite", "fame", "--shape", "4x4x4"), "shapes of its own"),
        (("cc", "--baselines"), "needs --suite"),
        (("cc", "--suite", "fame", "--baselines", "--order", "limb"), "takes neither --peer"),
        (("cc", "--suite", "fame", "--limit", "3"), "needs --baselines"),
        (("nn", "--counts", "--case", "Conv9"), "got Conv9"),
        (("nn", "--counts", "--baseline", "fhelipe"), "for all of them"),
        (("nn", "--counts", "--published"), "one of --counts"),
        (("nn", "--published-ring", "--ring-degree", "8192"), "takes neither --ring-degree"),
        (("distributed", "--images", "4"), "needs --suite secret-network"),
        (("distributed", "--suite", "fhe4dmm", "--link", "10"), "needs --suite secret-network"),
        (("distributed", "--suite", "secret-network", "--slots", "256"), "needs --suite fhe4dmm"),
        (("distributed", "--model"), "needs --suite"),
        (("pc", "--suite", "bae", "--fixed"), "takes none of --shape"),
        (("pc", "--sizes", "64,128"), "needs --suite"),
        (("pc", "--suite", "bae", "--suite-form", "mlwe"), "got mlwe"),
    ],
)
def test_what_is_not_measured_is_refused(invoke: Any, options: tuple[str, ...], message: str) -> None:
    result = invoke("bench", *options, "--json", "-q")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_bench_of_the_published_patterns(invoke: Any) -> None:
    result = invoke("bench", "nn", "--published", "--case", "MVM1", "--json", "-q")
    (row,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (row["superblocks"], row["side_by_side"], row["search_size"]) == (128, 4, 36)


def test_bench_of_every_form(invoke: Any) -> None:
    options = ("--suite", "bae", "--sizes", "16", "--suite-form", "rlwe rows", "--suite-form", "jkls18")
    result = invoke("bench", "pc", *options, "--limit", "0", "--json", "-q")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["form"], row["d"]) for row in rows] == [("rlwe rows", 16), ("jkls18", 16)]
    assert "meets_times_gemm" in rows[0] and all(row["estimated"] for row in rows)


def test_bench_gemm_prints_a_path_per_line(invoke: Any) -> None:
    result = invoke("bench", "gemm", "--shape", "6x7x8", "--seconds", "0", "--json", "-q")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0 and {row["case"] for row in rows} == {"6x7x8"}
    assert {"float64", "scalar", "small rounded"} <= {row["algorithm"] for row in rows}


def test_bench_prints_a_table(invoke: Any) -> None:
    result = invoke("bench", "cc", "--shape", "4x5x6", "--seconds", "0", "-q")
    assert result.exit_code == 0 and "bench cc" in result.stdout and "4x5x6" in result.stdout


def test_bench_of_a_transposition(invoke: Any) -> None:
    options = ("--shape", "9x12", "--policy", "binary", "--seconds", "0", "--json", "-q")
    result = invoke("bench", "transpose", *options)
    (row,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (row["case"], row["algorithm"], row["keys"]) == ("9x12", "binary", 4)
    assert row["error"] < 1e-7  # at scale 2^40


def test_bench_names_a_missing_peer(invoke: Any) -> None:
    result = invoke(
        "bench", "primitives", "--peer", "openfhe", "--peer-python", "/nonexistent", "--json", "-q"
    )
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("cipherblas: error: ")


def test_exact_products_take_a_type_and_no_peer(invoke: Any) -> None:
    assert invoke("bench", "cc", "--dtype", "int8").exit_code == 2
    assert invoke("bench", "cc", "--exact", "--peer", "seal").exit_code == 2
    assert invoke("bench", "cc", "--exact", "--suite", "fame").exit_code == 2
    assert invoke("bench", "cc", "--modulus", "31bit", "--peer", "seal").exit_code == 2
    assert invoke("bench", "cc", "--modulus", "31 bits").exit_code == 2
    assert invoke("bench", "pc", "--modulus", "31bit", "--exact").exit_code == 2
