"""Wrong usage ends with 2, our errors with 1 and a line that says expected and got; nothing is written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cipherblas.common.errors import RangeError


def failed(result: Any, *words: str) -> None:
    """One line, and below it what to write and the cause: no traceback, with these words."""
    assert result.exit_code == 1, (result.exit_code, result.stdout, result.stderr)
    assert result.stdout == ""
    line, *rest = result.stderr.splitlines()
    assert line.startswith("cipherblas: error: ")
    assert all(one.startswith(("  Write: ", "  Or: ", "  Cause: ")) for one in rest)
    for word in words:
        assert word in result.stderr


def misused(result: Any, *words: str) -> None:
    assert (result.exit_code, result.stdout) == (2, "")
    text = " ".join(result.stderr.replace("│", " ").split())
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["plan"], "no operand"),
        (["plan", "--a", "4x5"], "--program"),
        (["plan", "--a", "4y5", "--b", "5x4"], "ROWSxCOLUMNS"),
        (["plan", "--a", "4x5", "--b", "5x4", "--c-public"], "--c"),
        (["plan", "--a", "4x5", "--b", "5x4", "--bound-c", "3"], "--c"),
        (["plan", "--a", "4x5", "--b", "5x4", "--program", "a @ x"], "--operand x="),
        (["plan", "--a", "4x5", "--b", "5x4", "--program", "a @ c"], "--c RxC"),
        (["plan", "--a", "4x5", "--b", "5x4", "--program", "__import__('os')"], "not allowed"),
        (["plan", "--a", "4x5", "--b", "5x4", "--program", "a @ b @ 2"], "must be a matrix"),
        (["plan", "--a", "4x5", "--operand", "a=5x4"], "twice"),
        (["plan", "--a", "4x5", "--b", "5x4", "--memory-budget", "lots"], "8GiB"),
        (["plan", "--a", "4x5", "--b", "5x4", "--threads", "0"], "--threads"),
        (["plan", "--unknown"], "--unknown"),
        (["keygen"], "PLAN"),
        (["frobnicate"], "frobnicate"),
        (["bench", "cc", "--shape", "64x64"], "MxKxN"),
        (["bench", "cc", "--peer", "nobody"], "nobody"),
        (["bench", "cc", "--suite", "fame", "--shape", "4x4x4"], "shapes of its own"),
        (["bench", "primitives", "--case", "nonsense"], "nonsense"),
    ],
)
def test_usage(invoke: Any, arguments: list[str], word: str) -> None:
    misused(invoke(*arguments), word)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--a", "4x5", "--b", "4x5"], ["inner dimensions", "4x5 and 4x5", "a @ b.T"]),
        (["--a", "0x5", "--b", "5x4"], ["positive number of rows", "got 0"]),
        (["--a", "4x5", "--b", "5x4", "--security", "100"], ["security", "100"]),
        (["--a", "4x5", "--b", "5x4", "--precision", "1e-40"], ["cannot be reached", "got 1e-40"]),
        (
            ["--a", "4x5", "--b", "5x4", "--precision", "1e-4", "--error", "1"],
            ["Both precision= and error=", "Write: the same without --precision"],
        ),
        (["--a", "4x5", "--b", "5x4", "--algorithm", "magic"], ["magic", "expected"]),
        (["--a", "4x5", "--b", "5x4", "--memory-budget", "1KiB"], ["budget", "needs", "Write: --"]),
        (["--a", "4x5", "--b", "5x4", "--a-public", "--b-public"], ["secret"]),
        (["--a", "4x5", "--b", "5x4", "--bound-a", "-1"], ["bound", "> 0"]),
        (["--a", "4x5", "--b", "5x4", "--c", "1x1", "--program", "a @ b"], ["does not use the operand 'c'"]),
    ],
)
def test_impossible_plans(invoke: Any, tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    result = invoke("plan", *arguments, "-o", tmp_path / "plan.cb")
    failed(result, *words)
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_where(flow: Any, invoke: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "A.npy", 3 * np.ones((5, 7)))
    result = invoke("encrypt", flow.keys, tmp_path / "A.npy", "-o", tmp_path / "A.ct", "--debug")
    assert isinstance(result.exception, RangeError)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.ones((7, 5)), ["shape", "expected 5x7", "got 7x5"]),
        (np.full((5, 7), np.nan), ["finite", "NaN at [0, 0]"]),
        (np.where(np.eye(5, 7) > 0, np.inf, 0), ["finite", "infinity"]),
        (np.full((5, 7), 1.5), ["beyond the planned range", "which is 1", "bound=…"]),
        (np.ones((5, 7), dtype=complex), ["real", "complex128"]),
        (np.ones(35), ["2 dimensions", "(35,)"]),
        (np.array([[object()] * 7] * 5), ["Python objects"]),
        (np.full((5, 7), "x"), ["real", "<U1"]),
    ],
)
def test_wrong_matrices(flow: Any, invoke: Any, tmp_path: Path, matrix: Any, words: list[str]) -> None:
    np.save(tmp_path / "A.npy", matrix, allow_pickle=True)
    result = invoke("encrypt", flow.keys, tmp_path / "A.npy", "--as", "a", "-o", tmp_path / "A.ct")
    failed(result, *words)
    assert [path.name for path in tmp_path.iterdir()] == ["A.npy"]


def npz(path: Path) -> None:
    with path.open("wb") as stream:
        np.savez(stream, a=np.ones((5, 7)))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: None, ["Cannot read", "No such file"]),
        (lambda path: path.mkdir(), ["Cannot read", "directory"]),
        (lambda path: path.write_bytes(b""), ["is empty"]),
        (lambda path: path.write_text("1,2,3\n"), ["not a NumPy file"]),
        (lambda path: path.write_bytes(np.zeros(3).dumps()), ["not a NumPy file"]),  # a pickle
        (npz, ["several arrays"]),
        (lambda path: (np.save(path, np.ones((5, 7))), path.write_bytes(path.read_bytes()[:-8])), ["NumPy"]),
        (
            lambda path: (
                np.save(path, np.ones((5, 7))),
                path.write_bytes(path.read_bytes().replace(b"(5, 7)", b"(5, 9" + b"9" * 12 + b")", 1)),
            ),
            ["NumPy"],
        ),
    ],
)
def test_no_matrix_files(flow: Any, invoke: Any, tmp_path: Path, write: Any, words: list[str]) -> None:
    write(tmp_path / "A.npy")
    result = invoke("encrypt", flow.keys, tmp_path / "A.npy", "--as", "a", "-o", tmp_path / "A.ct")
    failed(result, "A.npy", *words)
    assert not (tmp_path / "A.ct").exists()


def test_a_text_is_told_apart(flow: Any, invoke: Any, tmp_path: Path) -> None:
    """What to write is said, and nothing of pickles."""
    np.savetxt(tmp_path / "A.csv", flow.A, delimiter=",")
    result = invoke("encrypt", flow.keys, tmp_path / "A.csv", "--as", "a", "-o", tmp_path / "A.ct")
    failed(result, "A.csv", "is a text", "numpy.save('A.npy', numpy.loadtxt('A.csv', delimiter=','))")
    assert "pickle" not in result.stderr


def test_a_pipe_is_refused_without_waiting(flow: Any, invoke: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "A.npy"
    os.mkfifo(pipe)
    refused = (f"Cannot read {pipe}", "got a special file")
    failed(invoke("encrypt", flow.keys, pipe, "--as", "a", "-o", tmp_path / "A.ct"), *refused)
    failed(invoke("bench", "crossover", "--rows", pipe), *refused)
    assert list(tmp_path.iterdir()) == [pipe]


def test_operand_names(flow: Any, invoke: Any, tmp_path: Path) -> None:
    failed(
        invoke("encrypt", flow.keys, flow.a_npy, "--as", "z", "-o", tmp_path / "z.ct"),
        "no secret operand of that name",
        "got z",
    )
    run = ["run", flow.plan, flow.evaluation, "-o", tmp_path / "c.ct"]
    misused(invoke(*run, "--a", flow.a), "missing", "--b FILE")
    misused(invoke(*run, "--a", flow.a, "--b", flow.b, "--c", flow.b), "no operand c")
    misused(invoke(*run, "--a", flow.a, "--operand", f"a={flow.a}", "--b", flow.b), "twice")
    failed(invoke(*run, "--a", flow.b, "--b", flow.b), "another name", "expected a", "got b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["missing", "empty", "foreign", "truncated", "flipped"])
@pytest.mark.parametrize("target", ["plan", "evaluation", "operand", "result", "secret"])
def test_damaged_files(flow: Any, invoke: Any, tmp_path: Path, target: str, damage: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(flow.folder, copy)
    evaluation = max((copy / "keys/evaluation").iterdir(), key=lambda path: path.stat().st_size)
    paths = {
        "plan": copy / "plan.cb",
        "evaluation": evaluation,
        "operand": copy / "A.ct",
        "result": copy / "C.ct",
        "secret": copy / "keys/secret-key",
    }
    hurt(paths[target], damage)
    out = tmp_path / "out"
    if target in ("result", "secret"):
        result = invoke("decrypt", copy / "keys", copy / "C.ct", "-o", out)
    else:
        run = [
            "run",
            copy / "plan.cb",
            copy / "keys/evaluation",
            "--a",
            copy / "A.ct",
            "--b",
            copy / "B.ct",
        ]
        result = invoke(*run, "-o", out)
    failed(result, paths[target].name)
    assert not out.exists()


def hurt(path: Path, damage: str) -> None:
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "foreign":
        path.write_bytes(b"PK\x03\x04" + bytes(500))
    elif damage == "truncated":
        path.write_bytes(content[:-16])
    else:
        middle = len(content) - 5
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :])


def test_kinds_of_files_are_told_apart(flow: Any, invoke: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    operands = ["--a", flow.a, "--b", flow.b, "-o", out]
    failed(invoke("run", flow.a, flow.evaluation, *operands), "expected program", "got ciphertext")
    failed(invoke("run", flow.plan, flow.secret, *operands), "expected evaluation-keys", "got secret-key")
    failed(invoke("run", flow.plan, flow.keys, *operands), f"Write: {flow.evaluation}", "secret key")
    failed(invoke("decrypt", flow.keys, flow.a, "-o", out), "expected result", "got operand")
    failed(invoke("run", flow.plan, flow.evaluation, "--a", flow.c, "--b", flow.b, "-o", out), "operand")
    failed(invoke("decrypt", flow.evaluation, flow.c, "-o", out), f"Write: {flow.keys}")
    failed(invoke("decrypt", flow.plan, flow.c, "-o", out), "a folder")
    assert not out.exists()


def test_files_that_are_not_ours_are_named(flow: Any, invoke: Any, tmp_path: Path) -> None:
    """An array, an archive, a text and an empty file: what each is, and what is to be given."""
    text, empty, out = tmp_path / "t.txt", tmp_path / "empty", tmp_path / "out"
    text.write_text("a,b\n1,2\n3,4\n")
    empty.write_bytes(b"")
    np.savez(tmp_path / "Z.npz", a=np.eye(3))
    plan = "Write: the file that cipherblas plan -o FILE"
    failed(invoke("explain", flow.a_npy), "is a NumPy file, not a program", plan)
    failed(invoke("explain", tmp_path / "Z.npz"), "is a .npz or .zip archive, not a program", plan)
    failed(invoke("explain", text), "is a text, not a program", plan)
    failed(invoke("explain", empty), "is empty, not a program", plan)
    result = invoke("run", flow.plan, flow.evaluation, "--a", flow.a_npy, "--b", flow.b, "-o", out)
    ours = Path(flow.a_npy).with_suffix(".ct")
    failed(
        result, "is a NumPy file, not a ciphertext", f"Write: cipherblas encrypt KEYS {flow.a_npy} -o {ours}"
    )
    failed(invoke("encrypt", flow.keys, tmp_path / "Z.npz", "-o", out), "numpy.load('Z.npz')[name]")
    failed(invoke("encrypt", flow.keys, empty, "-o", out), "is empty", f"numpy.save({str(empty)!r}, array)")
    assert not out.exists()


def test_programs_are_told_apart(flow: Any, invoke: Any, tmp_path: Path) -> None:
    plan, keys, out = tmp_path / "plan.cb", tmp_path / "keys", tmp_path / "out"
    assert invoke("plan", "--a", "5x7", "--b", "7x3", "--bound-a", "2", "-o", plan).exit_code == 0
    assert invoke("keygen", plan, "-o", keys).exit_code == 0
    operands = ["--a", flow.a, "--b", flow.b, "-o", out]
    failed(invoke("run", plan, keys / "evaluation", *operands), "expected", "got")
    failed(invoke("run", flow.plan, keys / "evaluation", *operands), "expected", "got")
    failed(invoke("decrypt", keys, flow.c, "-o", out), "expected", "got")
    (keys / "secret-key").write_bytes(flow.secret.read_bytes())
    failed(invoke("encrypt", keys, flow.a_npy, "-o", out), "expected", "got")
    assert not out.exists()


def test_keys_are_never_overwritten(flow: Any, invoke: Any, tmp_path: Path) -> None:
    before = flow.secret.read_bytes()
    failed(invoke("keygen", flow.plan, "-o", flow.keys), "never overwritten", "a folder with files")
    assert flow.secret.read_bytes() == before
    failed(invoke("keygen", flow.plan, "-o", flow.plan), "a file")


# Per command where its work begins, and its arguments before the target.
WORK: dict[str, tuple[str, list[str]]] = {
    "plan": ("cipherblas.cli.plan.compile", ["--a", "2x2", "--b", "2x2", "-o"]),
    "keygen": ("cipherblas.roles.client.Client.write_evaluation_keys", ["{flow.plan}", "-o"]),
    "encrypt": ("cipherblas.cli.encrypt.open_client", ["{flow.keys}", "{flow.a_npy}", "-o"]),
    "run": (
        "cipherblas.roles.program.Program.load",
        ["{flow.plan}", "{flow.evaluation}", "--a", "{flow.a}", "--b", "{flow.b}", "-o"],
    ),
    "decrypt": ("cipherblas.cli.decrypt.open_client", ["{flow.keys}", "{flow.c}", "-o"]),
    "demo": ("cipherblas.cli.demo.command.load_digits", ["-o"]),
    "bench crossover": ("cipherblas_bench.run_crossover", ["--plot"]),
}


@pytest.mark.parametrize("command", WORK)
def test_outputs_that_cannot_be_written(
    flow: Any, invoke: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Refused before the work begins."""
    work, arguments = WORK[command]
    monkeypatch.setattr(work, lambda *_, **__: pytest.fail("the work began"))
    given = [*command.split(), *(text.format(flow=flow) for text in arguments)]
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    reasons = {"nowhere/x": "No such file", "file/x": "Not a directory", "folder": "directory"}
    if command == "keygen":
        del reasons["folder"]  # which it would fill
    for target, reason in reasons.items():
        failed(invoke(*given, tmp_path / target), f"Cannot write {tmp_path / target}", reason)
    assert {path.name for path in tmp_path.rglob("*")} == {"folder", "file"}


def test_no_command_writes_a_file_named_minus(
    flow: Any, invoke: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, (work, arguments) in WORK.items():
        monkeypatch.setattr(work, lambda *_, **__: pytest.fail("the work began"))
        given = [*command.split(), *(text.format(flow=flow) for text in arguments)]
        misused(invoke(*given, "-"), "'-' names no file", "/dev/stdout")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("CIPHERBLAS_THREADS", "abc", ["CIPHERBLAS_THREADS", "expected 1 to 4096, got 'abc'"]),
        ("CIPHERBLAS_ISA", "avx9", ["CIPHERBLAS_ISA", "scalar", "got 'avx9'"]),
    ],
)
def test_environment_variables(
    invoke: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: list[str]
) -> None:
    monkeypatch.setenv(name, value)
    failed(invoke("plan", "--a", "4x4", "--b", "4x4"), *words)


def test_readable_secret_key_is_warned_about(flow: Any, invoke: Any, tmp_path: Path) -> None:
    shutil.copytree(flow.keys, tmp_path / "keys")
    (tmp_path / "keys/secret-key").chmod(0o644)
    result = invoke("decrypt", tmp_path / "keys", flow.c)
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("cipherblas: warning: ") and "0600" in line
