"""The commands from plan to decryption: results, files, JSON, what stands on which stream."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cipherblas.cli.app import app
from cipherblas.crypto.files import Reader
from cipherblas.roles.program import Program

COMMANDS = ["plan", "keygen", "encrypt", "run", "decrypt", "demo"]


def test_version_and_help(invoke: Any) -> None:
    assert invoke("--version").stdout.startswith("cipherblas 0.")
    listing = invoke("--help").stdout
    assert all(name in listing for name in [*COMMANDS, "bench"])


def test_result_is_the_product(flow: Any, invoke: Any, tmp_path: Path) -> None:
    result = invoke("decrypt", flow.keys, flow.c, "-o", tmp_path / "C.npy")
    assert (result.exit_code, result.stdout) == (0, "")
    program = Program.load(flow.plan)
    found = np.load(tmp_path / "C.npy")
    assert np.abs(found - flow.A @ flow.B).max() <= program.plan.error <= program.plan.error_target


def test_result_on_stdout(flow: Any, invoke: Any) -> None:
    result = invoke("decrypt", flow.keys, flow.c)
    found = np.array([[float(x) for x in line.split(",")] for line in result.stdout.splitlines()])
    target = Program.load(flow.plan).plan.error_target
    assert result.stderr == "" and np.abs(found - flow.A @ flow.B).max() <= target


def test_result_as_json(flow: Any, invoke: Any, tmp_path: Path) -> None:
    values = json.loads(invoke("decrypt", flow.keys, flow.c, "--json").stdout)
    target = Program.load(flow.plan).plan.error_target
    assert np.abs(np.array(values["values"]) - flow.A @ flow.B).max() <= target
    written = json.loads(invoke("decrypt", flow.keys, flow.c, "--json", "-o", tmp_path / "C.npy").stdout)
    assert written["shape"] == [5, 3] and "values" not in written and Path(written["file"]).exists()


def test_plan_prints_what_the_program_explains(invoke: Any, tmp_path: Path) -> None:
    path = tmp_path / "plan.cb"
    result = invoke("plan", "--a", "4x6", "--b", "6x2", "--b-public", "--bound-a", "16", "-o", path)
    program = Program.load(path)
    assert "a 4x6 secret, b 6x2 public" in result.stdout
    for word in ("algorithm", "evaluation keys", "peak memory", "expected error"):
        assert word in result.stdout
    assert f"wrote {path}" in result.stderr
    assert (program.operands["a"].bound, program.operands["b"].secret) == (16.0, False)


def test_plan_as_json(invoke: Any, tmp_path: Path) -> None:
    path = tmp_path / "plan.cb"
    arguments = ["plan", "--a", "4x6", "--b", "6x2", "--precision", "1e-3", "--security", "192"]
    result = invoke(*arguments, "--json", "--quiet", "-o", path)
    found = json.loads(result.stdout)
    program = Program.load(path)
    assert result.stderr == ""
    assert (found["id"], found["program"], found["shape"]) == (program.id, "a @ b", [4, 2])
    assert (found["security"], found["precision"]) == (192, 1e-3)
    assert found["expected_error"] <= found["error_target"] == pytest.approx(6e-3)


def test_plan_with_an_absolute_error(invoke: Any) -> None:
    found = json.loads(invoke("plan", "--a", "4x6", "--b", "6x2", "--error", "1e-3", "--json").stdout)
    assert found["asked_error"] == 1e-3 and found["precision"] == 1e-3 / 6
    assert found["expected_error"] <= found["error_target"] == pytest.approx(1e-3)


def test_plan_with_a_link(invoke: Any) -> None:
    shapes = ["--a", "64x64", "--b", "64x64", "--json"]
    least = json.loads(invoke("plan", *shapes, "--minimise", "server", "--link", "100Mbit/s").stdout)
    assert (least["minimise"], least["stages"]["link"]) == ("server", 1e8)
    assert least["stages"]["upload"] == pytest.approx(8 * least["upload_bytes"] / 1e8)
    slow = json.loads(invoke("plan", *shapes, "--link", "1M").stdout)
    assert slow["minimise"] == "end-to-end"
    assert slow["upload_bytes"] < least["upload_bytes"]
    assert slow["end_to_end_seconds"] > slow["first_run_seconds"] >= slow["seconds"]


def test_plan_with_an_algorithm(invoke: Any) -> None:
    found = json.loads(invoke("plan", "--a", "4x6", "--b", "6x2", "--algorithm", "bicyclic", "--json").stdout)
    assert found["algorithm"] == "bicyclic"


def test_program_of_named_operands(invoke: Any, tmp_path: Path) -> None:
    """Clear and encrypted operands of any name, a transpose, a sum and a factor."""
    random = np.random.default_rng(3)
    weights, x, y = (random.uniform(-2, 2, shape) for shape in ((4, 6), (3, 6), (4, 3)))
    for name, matrix in (("weights", weights), ("x", x), ("y", y)):
        np.save(tmp_path / f"{name}.npy", matrix)
    plan, keys = tmp_path / "plan.cb", tmp_path / "keys"
    operands = ["weights=4x6:public:bound=2", "x=3x6:bound=2", "y=4x3:bound=2"]
    options = [word for operand in operands for word in ("--operand", operand)]
    steps = [
        ["plan", *options, "--program", "weights @ x.T - 0.5 * y", "-o", plan],
        ["keygen", plan, "-o", keys],
        ["encrypt", keys, tmp_path / "x.npy", "-o", tmp_path / "x.ct"],
        ["encrypt", keys, tmp_path / "y.npy", "-o", tmp_path / "y.ct"],
        ["run", plan, keys / "evaluation", "-o", tmp_path / "z.ct"]
        + [word for file in ("weights.npy", "x.ct", "y.ct")
           for word in ("--operand", f"{file.split('.')[0]}={tmp_path / file}")],
        ["decrypt", keys, tmp_path / "z.ct", "-o", tmp_path / "z.npy"],
    ]  # fmt: skip
    for step in steps:
        result = invoke(*step)
        assert result.exit_code == 0, result.stderr
    errors = np.abs(np.load(tmp_path / "z.npy") - (weights @ x.T - 0.5 * y))
    assert errors.max() <= Program.load(plan).plan.error_target


def test_keys_lie_apart(flow: Any) -> None:
    """The folder for the server holds evaluation keys alone, and the secret key nobody else may read."""
    assert sorted(path.name for path in flow.keys.iterdir()) == [
        *("evaluation", "program", "secret-key", "secret-key.lock", "secret-key.record")
    ]
    assert stat.S_IMODE(flow.secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(flow.keys.stat().st_mode) == 0o700
    with Reader(flow.secret, "secret-key") as reader:
        seed = reader.read("seed").tobytes()
    public = [path for path in flow.evaluation.rglob("*") if path.is_file()]
    assert public
    for path in public:
        Reader(path, "evaluation-keys").close()
    for path in [*public, flow.plan, flow.a, flow.b, flow.c]:
        assert seed not in path.read_bytes()


def test_keygen_as_json(flow: Any, invoke: Any, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()  # an empty folder is as good as none
    found = json.loads(invoke("keygen", flow.plan, "-o", tmp_path / "keys", "--json", "-q").stdout)
    plan = Program.load(flow.plan).plan
    assert (found["keys"], found["memory_bytes"]) == (len(plan.keys), plan.key_bytes)
    assert found["public_key"] is None
    files = [path for path in Path(found["evaluation_keys"]).rglob("*") if path.is_file()]
    assert found["file_bytes"] == sum(path.stat().st_size for path in files)


def test_run_as_json_counts_what_was_planned(flow: Any, invoke: Any, tmp_path: Path) -> None:
    result = invoke(
        *("run", flow.plan, flow.evaluation, "--a", flow.a, "--b", flow.b, "-o", tmp_path / "C.ct"),
        *("--json", "-q", "--threads", "1"),
    )
    found = json.loads(result.stdout)
    counts = Program.load(flow.plan).plan.counts
    assert (found["counts"]["products"], found["counts"]["rotations"]) == (counts.products, counts.rotations)
    assert found["seconds"] > 0 and found["peak_bytes"] > 1 << 20 and found["shape"] == [5, 3]


@pytest.mark.parametrize(
    ("file", "options", "operand"),
    [("A.npy", [], "a"), ("b.npy", [], "b"), ("first.npy", [], "a"), ("b.npy", ["--as", "a"], "a")],
)
def test_operand_is_found_by_name_or_shape(
    flow: Any, invoke: Any, tmp_path: Path, file: str, options: list[str], operand: str
) -> None:
    np.save(tmp_path / file, flow.A if operand == "a" else flow.B)
    result = invoke("encrypt", flow.keys, tmp_path / file, *options, "-o", tmp_path / "x.ct", "--json", "-q")
    assert json.loads(result.stdout)["operand"] == operand


def test_ambiguous_operand_is_asked_for(invoke: Any, tmp_path: Path) -> None:
    plan, keys = tmp_path / "plan.cb", tmp_path / "keys"
    assert invoke("plan", "--a", "3x3", "--b", "3x3", "-o", plan).exit_code == 0
    assert invoke("keygen", plan, "-o", keys).exit_code == 0
    np.save(tmp_path / "data.npy", np.ones((3, 3)))
    result = invoke("encrypt", keys, tmp_path / "data.npy", "-o", tmp_path / "x.ct")
    assert result.exit_code == 2 and "--as" in result.stderr
    assert not (tmp_path / "x.ct").exists()


def test_quiet_commands_say_nothing(flow: Any, invoke: Any, tmp_path: Path) -> None:
    for command in (
        ["keygen", flow.plan, "-o", tmp_path / "keys"],
        ["encrypt", flow.keys, flow.a_npy, "-o", tmp_path / "a.ct"],
        ["run", flow.plan, flow.evaluation, "--a", flow.a, "--b", flow.b, "-o", tmp_path / "c.ct"],
        ["decrypt", flow.keys, flow.c, "--of", flow.a, "-o", tmp_path / "c.npy"],
    ):
        result = invoke(*command, "--quiet")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_the_application_is_the_console_script() -> None:
    from importlib.metadata import entry_points

    found = [entry for entry in entry_points(group="console_scripts") if entry.name == "cipherblas"]
    assert app.info.name == "cipherblas"
    assert all(entry.value == "cipherblas.cli:main" for entry in found)


@pytest.mark.parametrize("form", ["blocks", "rows"])
def test_plan_with_a_form(invoke: Any, form: str) -> None:
    found = json.loads(invoke("plan", "--a", "4x4", "--b", "4x4", "--form", form, "--json").stdout)
    assert found["form"] == form
    refused = invoke("plan", "--a", "4x4", "--b", "4x4", "--form", "columns")
    assert refused.exit_code == 2 and "--form" in refused.stderr
