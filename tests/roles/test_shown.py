"""What is printed, shown in notebooks, and logged: short, escaped, and without an entry of an operand."""

from __future__ import annotations

import logging
from html.parser import HTMLParser

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common import progress

LINE = 160  # characters of a repr at most


class Reader(HTMLParser):
    """Checks that tags are closed in their order; keeps the text and the tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def program() -> cb.Program:
    return cb.compile(
        lambda a, b: {"product": a @ b, "sum": a + 1}, {"a": cb.secret(4, 4), "b": cb.secret(4, 4)}
    )


def test_operands_are_a_line() -> None:
    shown = {
        cb.secret(4, 4): "<secret 4x4, bound 1>",
        cb.public(3, dtype=np.int8): "<public 3, bound 128, whole numbers>",
        cb.secret(): "<secret 1, bound 1>",
        cb.secret(2, dtype=np.int16, exact=True): "<secret 2, bound 32768, exact integers>",
        cb.secret(2, modulus=65537): "<secret 2, modulo 65537, whole numbers>",
        cb.secret(2, 3, norm=0.5): "<secret 2x3, bound 0.5, norm up to 0.5>",
        cb.secret(2, encryption="public-key"): "<secret 2, bound 1, by the public key>",
        cb.secret(2, fixed_point=10): "<secret 2, bound 1, 10 bits behind the point>",
    }
    for operand, expected in shown.items():
        assert repr(operand) == expected
    assert repr(cb.columns([3.0, 1.0, 2.0])) == "<bounds of 3 columns, 1 to 3>"


@pytest.mark.encrypted
def test_everything_prints_as_a_line(program: cb.Program, caplog: pytest.LogCaptureFixture) -> None:
    client = program.client()
    keys = client.evaluation_keys()
    server = program.server(keys)
    encrypted = client.encrypt({"a": np.full((4, 4), 0.123456), "b": np.eye(4)})
    run = server.prepare(encrypted)
    with caplog.at_level(logging.INFO, logger="cipherblas"):
        result = run.result()
    assert [record.getMessage().split()[0] for record in caplog.records] == ["ran"]
    everything = (
        *(program, program.plan, program.operands["a"], client, keys, server, run, result, encrypted["a"]),
        *(cb.Machine.here(), program.plan.machine, cb.columns([1.0] * 200), cb.secret(2, 200).bound),
    )
    for one in everything:
        assert len(repr(one)) <= LINE and "\n" not in repr(one), repr(one)
        assert "0.123" not in repr(one)


def test_notebooks_show_a_program(program: cb.Program) -> None:
    reader = Reader()
    reader.feed(program._repr_html_())
    assert not reader.open and "script" not in reader.tags
    assert {"table", "details", "pre"} <= reader.tags
    for line in program.explain().splitlines():
        assert line in reader.text
    assert "security128 bits" in reader.text and "node" in reader.text


def test_names_are_escaped() -> None:
    """Of a machine, which comes with a file."""
    program = cb.compile(lambda x: 2 * x, {"x": cb.secret(4)})
    object.__setattr__(program.plan.machine, "name", "<script>alert(1)</script>&")
    found = program._repr_html_()
    assert "<script" not in found and "&lt;script&gt;" in found


def test_plans_and_refusals_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="cipherblas"):
        cb.compile(lambda x: 2 * x, {"x": cb.secret(4)})
        with pytest.raises(cb.CipherblasError):
            cb.compile(lambda x: x * x, {"x": cb.secret(4)}, precision=1e-30)
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("planned ") and second.startswith("refused: ")
    assert logging.getLogger("cipherblas").handlers


def test_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert cb.show_config() is None
    lines = capsys.readouterr().out.splitlines()
    found = cb.show_config(mode="dicts")
    assert found is not None and len(lines) == len(found)
    assert found["cipherblas"] == cb.__version__ and found["numpy"] == np.__version__
    assert found["instruction set"] == cb.isa() and found["threads"] == cb.threads()
    with pytest.raises(cb.ParameterError, match="The mode of a configuration"):
        cb.show_config(mode="dict")  # type: ignore[arg-type]


@pytest.mark.encrypted
def test_progress_is_printed(program: cb.Program, capsys: pytest.CaptureFixture[str]) -> None:
    """progress=True prints the last step of each call; nothing is printed without it."""
    values = {"a": np.eye(4), "b": np.eye(4)}
    client = program.client()
    server = program.server(client.evaluation_keys(progress=True))
    encrypted = client.encrypt(values, progress=True)
    result = server.run(encrypted, progress=True)
    client.decrypt(result, of=encrypted, progress=True)
    program.evaluate(values, progress=True)
    words = ["making keys", "encrypting", "computing", "decrypting", "computing"]
    lines = capsys.readouterr().err.splitlines()
    done = [line.split(": ") for line in lines]
    last = [what for what, step in done if step.split(" of ")[0] == step.split(" of ")[1]]
    assert last == words
    client.decrypt(server.run(client.encrypt(values, progress=False)), progress=None)
    assert not capsys.readouterr().err
    cb.compile(lambda x: 2 * x, {"x": cb.secret(4)}, progress=True)
    with pytest.raises(cb.DTypeError, match="told to a function"):
        client.encrypt(values, progress="yes")  # type: ignore[arg-type]


def test_lines_of_progress_are_few(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    told = progress.Printed("planning")
    for step in range(10):
        now[0] = step / 10
        told(f"step {step}")
    assert capsys.readouterr().err == "planning: step 5\n"
