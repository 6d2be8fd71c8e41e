"""Every command shows what it does while it does it: a new one must be entered here, or this fails."""

from __future__ import annotations

import functools
import inspect
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import cipherblas_bench
from cipherblas.cli import checking, decrypt, encrypt, explain, plan, run
from cipherblas.cli.app import app
from cipherblas.cli.demo import command as demo
from cipherblas.cli.demo import flow as demo_flow
from cipherblas.crypto.keys import EvaluationKeys
from cipherblas.networks import TrainedNetwork
from cipherblas.planner.predict.machine import Machine
from cipherblas.report import Display, figures, program_picture
from cipherblas.roles.client import Client
from cipherblas.roles.encryptor import Encryptor
from cipherblas.roles.program import Program
from cipherblas.roles.server import Server
from cipherblas.roles.wire.messages import EncryptedOperand, EncryptedResult
from cipherblas_bench.cli import bench
from cipherblas_hardware import command as hardware
from tests.corpus.machine import MACHINE
from tests.support.onnx_models import fire

# Command → the bars of a run of it, in their order.
BARS: dict[str, tuple[str, ...]] = {
    "machine": ("measuring",),
    "plan": ("planning", "writing"),
    "import": ("reading the samples", "planning", "writing"),
    "check": ("reading the inputs", "reading the plan", "computing"),
    "explain": ("loading matplotlib", "counting", "drawing"),
    "inspect": (),
    "serve token create": (),
    "serve token list": (),
    "serve token revoke": (),
    "serve check": (),
    "keygen": ("reading the plan", "writing the plan and the secret key", "making evaluation keys"),
    "encrypt": ("reading the array", "reading the keys", "encrypting a", "writing"),
    "run": (
        "reading the plan",
        "reading a",
        "reading b",
        "reading the evaluation keys",
        "computing",
        "writing",
    ),
    "decrypt": (
        *("reading the keys", "reading the result", "reading the operands"),
        *("decrypting", "writing", "printing"),
    ),
    "demo": (
        *("loading the digits", "planning"),
        *(f"encrypted × encrypted: {what}" for what in ("writing the plan", "making keys")),
        *(f"encrypted × encrypted: encrypting {what}" for what in ("queries", "gallery")),
        *(f"encrypted × encrypted: {what}" for what in ("the server computes", "decrypting", "NumPy")),
        *(f"clear × encrypted: {what}" for what in ("writing the plan", "making keys")),
        *(f"clear × encrypted: {what}" for what in ("writing weights", "encrypting pixels")),
        *(f"clear × encrypted: {what}" for what in ("the server computes", "decrypting", "NumPy")),
        "drawing",
    ),
    "bench primitives": ("measuring",),
    "bench bootstrap": ("measuring",),
    "bench mambo": ("measuring",),
    "bench linear-transform": ("measuring",),
    "bench transpose": ("measuring",),
    "bench zn": ("measuring",),
    "bench cc": ("measuring",),
    "bench pc": ("measuring",),
    "bench gemm": ("measuring",),
    "bench nn": ("measuring",),
    "bench masks": ("measuring",),
    "bench peers": ("measuring",),
    "bench e2dm-study": ("measuring",),
    "fame-model": ("measuring",),
    "fame-sim": ("measuring",),
    "bench model": ("measuring",),
    "bench distributed": ("measuring",),
    "bench crossover": ("loading matplotlib", "measuring", "drawing"),
}
# What large inputs make slow: a command does it beneath a bar, which gets its steps where it tells them.
SLOW: tuple[tuple[Any, str], ...] = (
    *((kind, name) for kind in (Program, EncryptedOperand, EncryptedResult) for name in ("save", "load")),
    *(
        (Client, name)
        for name in ("load", "save", "public_key", "write_evaluation_keys", "encrypt", "decrypt")
    ),
    (Encryptor, "encrypt"),
    (EvaluationKeys, "load"),
    (EvaluationKeys, "load_all"),
    (Server, "run"),
    (Program, "evaluate"),
    (Machine, "measure"),
    (TrainedNetwork, "check"),
    (plan, "compile"),
    (demo, "compile"),
    (encrypt, "load_array"),
    *((checking, name) for name in ("load_array", "load_labelled")),
    (run, "load_array"),
    *((decrypt, name) for name in ("save_array", "save_arrays", "print_json", "_print_rows")),
    (demo_flow, "save_array"),
    (demo, "load_digits"),
    (demo, "draw"),
    (program_picture, "draw"),
    *((module, "check_drawing") for module in (explain, demo)),
    (figures, "save_png"),
)


class Watch:
    """The bars of commands, and what is done beneath none."""

    def __init__(self) -> None:
        self.bars: list[str] = []
        self.told: list[Any] = []
        self.open = 0

    @contextmanager
    def bar(self, display: Display, title: str, *, printing: bool = False) -> Iterator[Callable[..., Any]]:
        """In the place of `Display.progress` and `Display.telling`."""
        if display.quiet:  # the server of the demonstration
            yield lambda *step: None
            return
        self.bars.append(title)
        self.open += 1
        try:
            yield lambda *step: self.told.append((title, *step))
        finally:
            self.open -= 1

    def watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which fails where no bar is shown, or where the bar does not get its steps."""
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            assert self.open, f"{function.__qualname__} is called beneath no bar"
            given = signature.bind(*args, **kwargs).arguments
            if "progress" in signature.parameters and not given.get("lazy"):
                assert given.get("progress") is not None, (
                    f"{function.__qualname__} is not asked for its steps"
                )
            return function(*args, **kwargs)

        return checked


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    found = Watch()
    for name in ("progress", "telling"):
        monkeypatch.setattr(
            Display, name, lambda display, title, **how: found.bar(display, title, **how), raising=True
        )
    for owner, name in SLOW:
        static = inspect.getattr_static(owner, name)
        if isinstance(static, classmethod):
            monkeypatch.setattr(owner, name, classmethod(found.watched(static.__func__)))
        else:
            monkeypatch.setattr(owner, name, found.watched(static))
    return found


def _commands(group: Any, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield before + name


def test_every_command_is_entered() -> None:
    assert sorted(_commands(typer.main.get_command(app))) == sorted(BARS)


def test_machine(watch: Watch, invoke: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(kind: Any, name: str | None = None, *, progress: Any = None) -> Machine:
        progress(1, 2)
        return MACHINE

    monkeypatch.setattr(Machine, "measure", classmethod(watch.watched(measure)))
    check(watch, "machine", invoke("machine"))
    assert watch.told == [("measuring", 1, 2)]


def test_the_client_and_the_server(watch: Watch, flow: Any, invoke: Any, tmp_path: Path) -> None:
    check(watch, "plan", invoke("plan", "--a", "5x7", "--b", "7x3", "-o", tmp_path / "plan"))
    assert len(watch.told) > 5  # what is tried
    check(watch, "explain", invoke("explain", flow.plan, "--plot", tmp_path / "plan.png"))
    check(watch, "keygen", invoke("keygen", flow.plan, "-o", tmp_path / "keys"))
    assert any(title == "making evaluation keys" for title, *_ in watch.told)
    check(watch, "encrypt", invoke("encrypt", flow.keys, flow.a_npy, "-o", tmp_path / "a.ct"))
    assert {title for title, *_ in watch.told} >= {"encrypting a", "writing"}
    operands = ("--a", flow.a, "--b", flow.b)
    check(watch, "run", invoke("run", flow.plan, flow.evaluation, *operands, "-o", tmp_path / "c.ct"))
    assert {title for title, *_ in watch.told} >= {"reading a", "reading b", "computing", "writing"}


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_networks(watch: Watch, invoke: Any, tmp_path: Path) -> None:
    (tmp_path / "network.onnx").write_bytes(fire())
    np.save(tmp_path / "samples.npy", np.random.default_rng(1).uniform(-1, 1, (8, 3, 8, 8)))
    given = ["import", tmp_path / "network.onnx", "--samples", tmp_path / "samples.npy", "--error", "1"]
    toy = ["--degree", "7", "--security", "0", "--insecure", "--ring-degree", "4096"]
    check(watch, "import", invoke(*given, *toy, "-o", tmp_path / "network.cb"))
    assert len(watch.told) > 5
    files = [tmp_path / name for name in ("network.cb", "network.onnx", "samples.npy")]
    check(watch, "check", invoke("check", *files, "--security", "0", "--insecure"))
    assert {title for title, *_ in watch.told} >= {"reading the plan", "computing"}


@pytest.mark.parametrize("json", [(), ("--json",)])
def test_decrypt(watch: Watch, flow: Any, invoke: Any, tmp_path: Path, json: tuple[str, ...]) -> None:
    shown = [bar for bar in BARS["decrypt"] if bar != "writing"]
    check(watch, shown, invoke("decrypt", flow.keys, flow.c, "--of", flow.a, "--of", flow.b, *json))
    assert {title for title, *_ in watch.told} >= set(shown) - {"reading the keys", "printing"}
    written = invoke("decrypt", flow.keys, flow.c, "--of", flow.a, "--of", flow.b, "-o", tmp_path / "c.npy")
    check(watch, BARS["decrypt"][:-1], written)


def test_an_array_for_a_public_key(watch: Watch, invoke: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.ones((3, 3)))
    shapes = ("--a", "3x3", "--b", "3x3", "--b-public-key")
    check(watch, "plan", invoke("plan", *shapes, "-o", tmp_path / "plan"))
    check(watch, "keygen", invoke("keygen", tmp_path / "plan", "-o", tmp_path / "keys"))
    key = ("--public-key", tmp_path / "keys" / "public-key")
    encrypted = invoke("encrypt", tmp_path / "plan", tmp_path / "b.npy", *key, "-o", tmp_path / "b.ct")
    check(watch, [bar.replace("encrypting a", "encrypting b") for bar in BARS["encrypt"]], encrypted)


def test_demo(watch: Watch, invoke: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def here(command: list[str], *, cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
        """The server in this process: it takes no time to start."""
        with monkeypatch.context() as inside:
            inside.chdir(cwd)
            result = invoke(*command[3:])
        return subprocess.CompletedProcess(command, result.exit_code, result.stdout)

    monkeypatch.setattr(demo_flow.subprocess, "run", watch.watched(here))
    monkeypatch.setattr(demo, "draw", watch.watched(lambda path, picture: None))
    check(watch, "demo", invoke("demo", "--queries", "10", "--gallery", "10", "-o", tmp_path / "demo.png"))
    assert any(title == "planning" for title, *_ in watch.told)


@pytest.mark.parametrize("name", sorted(name for name in BARS if name.startswith("bench ")))
def test_benchmarks(
    name: str,
    watch: Watch,
    invoke: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    crossover_rows: str,
) -> None:
    row = {"bench": "any", "case": "64x64x64"}
    for function in [one for one in vars(cipherblas_bench) if one.startswith("run_")]:
        monkeypatch.setattr(cipherblas_bench, function, lambda *_, **__: iter([row]))
    options: tuple[object, ...] = ("--json",)
    if name == "bench crossover":
        (tmp_path / "rows").write_text(crossover_rows)
        options = ("--rows", tmp_path / "rows", "--plot", tmp_path / "crossover.png")
    check(watch, name, invoke(*name.split(), *options))
    assert watch.told[0][1].startswith("1 done, the last was ")


def test_counted_operations(watch: Watch, invoke: Any) -> None:
    check(watch, "bench nn", invoke("bench", "nn", "--counts", "--case", "MVM1"))


def test_every_benchmark_shows_its_rows_alike() -> None:
    """All go through `collected`, which has the bar, or through `printed`, which calls it."""
    places = (Path(inspect.getfile(module)).parent for module in (bench, hardware))
    commands = (path for place in places for path in place.glob("*.py"))
    sources = {path.name: path.read_text(encoding="utf-8") for path in commands}
    found = [
        name
        for name, source in sources.items()
        if re.search("^    from cipherblas_.* import run_", source, re.M)
    ]
    assert {"bench.py", "crossover.py", "bench_pc.py", "command.py"} <= set(found)
    assert [
        name for name in found if not {"printed(", "collected("} & set(re.findall(r"\w+\(", sources[name]))
    ] == []


def check(watch: Watch, expected: Any, result: Any) -> None:
    """The command ended well, and had these bars, which are forgotten."""
    assert result.exit_code == 0, result.stderr or repr(result.exception)
    wanted = BARS[expected] if isinstance(expected, str) else expected
    assert watch.bars == list(wanted)
    watch.bars.clear()
