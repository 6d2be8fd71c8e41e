"""The registry of methods: what a method from outside must have, names, plug-ins, files, and what errors say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import cipherblas as cb
from cipherblas.lang.operands import MAX_LENGTH
from cipherblas.methods import registry
from cipherblas.methods.layers import CONV_BASELINES, LAYER_METHODS, METAKERNEL
from cipherblas.methods.matmul.skewed import Skewed
from cipherblas.methods.matvec_conv.baselines.halevi_shoup_bsgs import MatVecHelib
from cipherblas.methods.products import ALGORITHMS, GEMM, RING, build, find
from cipherblas.planner.plan.schema import check_decisions
from cipherblas.runtime.blocks import LAYOUT_PRESERVING
from cipherblas.runtime.tensors import PACKING
from tests.support.documents import ROOT
from tests.support.runs import toy

SQUARE = {"a": cb.secret(6, 6), "b": cb.secret(6, 6)}


class Relabelled(Skewed):
    """A method of the house under another name."""

    name, title, source, summary = "relabelled", "skewed again", "a test", "never"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """What a test registers is taken off again."""
    before = set(registry.entries())
    yield
    for entry in set(registry.entries()) - before:
        registry.unregister(entry.name)


def variant(base: type = Relabelled, **attributes: Any) -> type:
    """A class with other attributes."""
    return type("Variant", (base,), attributes)


def product(a: Any, b: Any) -> Any:
    return a @ b


# --- one registry ---


def test_every_method_is_there_once() -> None:
    entries = registry.entries()
    assert len({(entry.name, entry.computes) for entry in entries}) == len(entries)
    assert set(registry.names()) == {*ALGORITHMS, GEMM, RING, *LAYER_METHODS, *CONV_BASELINES}
    assert {entry.form for entry in entries} == {"blocks", "tensors", "rows"}
    for entry in entries:
        assert not entry.outside
        assert entry.name in (GEMM, RING, getattr(entry.method, "name", None))


def test_the_house_would_be_accepted_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `register` asks for, all products in slots have."""
    monkeypatch.setattr(registry, "_ENTRIES", {})
    for entry in registry._PRODUCTS:
        assert cb.register(entry) is entry
    assert list(ALGORITHMS) == [entry.name for entry in registry._PRODUCTS]


def test_what_is_unknown_names_all_there_is() -> None:
    with pytest.raises(cb.ParameterError, match=r"skewed .* gemm \| ring-products \| metakernel .* got fast"):
        find("fast")
    with pytest.raises(cb.ParameterError, match=r"no algorithm of this name .expected .*skewed.*, got fast"):
        cb.compile(product, SQUARE, algorithm="fast")
    with pytest.raises(cb.ParameterError, match="taken by themselves there"):
        cb.compile(product, SQUARE, algorithm=RING)
    with pytest.raises(KeyError):
        ALGORITHMS[METAKERNEL]


def test_names_of_plans_are_reserved() -> None:
    for word in (PACKING, LAYOUT_PRESERVING, "elementwise"):
        with pytest.raises(
            cb.ParameterError, match=r"A method cannot have this name .expected small letters"
        ):
            cb.register(variant(name=word))


# --- registering ---


def test_registered_methods_are_planned_and_run() -> None:
    assert cb.register(Relabelled) is Relabelled
    assert cb.register(Relabelled) is Relabelled  # again: nothing changes
    assert ALGORITHMS["relabelled"] is find("relabelled") is Relabelled
    plan = cb.compile(product, SQUARE).plan
    assert "relabelled" in {plan.algorithm, *(loser.algorithm for loser in plan.rejected)}
    assert cb.compile(product, SQUARE, algorithm="relabelled").plan.algorithm == "relabelled"
    cb.lab.unregister("relabelled")
    with pytest.raises(cb.ParameterError, match="got relabelled"):
        cb.compile(product, SQUARE, algorithm="relabelled")


def test_baselines_are_left_out_of_the_search() -> None:
    cb.register(variant(baseline=True))
    plan = cb.compile(product, SQUARE).plan
    assert "relabelled" not in {plan.algorithm, *(loser.algorithm for loser in plan.rejected)}
    assert cb.compile(product, SQUARE, algorithm="relabelled").plan.algorithm == "relabelled"


def test_a_class_that_is_defined_again_replaces_itself() -> None:
    first, second = variant(), variant()
    cb.register(first)
    cb.register(second)
    assert ALGORITHMS["relabelled"] is second
    other = variant()
    other.__qualname__ = "Another"
    with pytest.raises(
        cb.ParameterError, match=r"name of the method is taken .expected another one than .*got relabelled"
    ):
        cb.register(other)


@pytest.mark.parametrize("name", ["skewed", GEMM, METAKERNEL, "fhelipe"])
def test_names_of_the_house_are_taken(name: str) -> None:
    with pytest.raises(cb.ParameterError, match=f"is taken .expected another one than diagonals.*got {name}"):
        cb.register(variant(name=name))
    with pytest.raises(cb.ParameterError, match="No method of this name was registered"):
        cb.lab.unregister(name)


class WithOption(Skewed):
    name, title, source, summary = "with-option", "another", "a test", "never"

    def __init__(self, m: int, k: int, n: int, slots: int, *, depth: float = 1.0) -> None:
        super().__init__(m, k, n, slots)


class WithUnknownType(WithOption):
    def __init__(self, m: int, k: int, n: int, slots: int, *, depth: Nowhere = 1) -> None:  # type: ignore[name-defined] # noqa: F821
        super().__init__(m, k, n, slots)


class WithoutDefault(WithOption):
    def __init__(self, m: int, k: int, n: int, slots: int, *, depth: int) -> None:
        super().__init__(m, k, n, slots)


class WithAnyOptions(WithOption):
    def __init__(self, m: int, k: int, n: int, slots: int, **options: int) -> None:
        super().__init__(m, k, n, slots)


class WithPositional(WithOption):
    def __init__(self, m: int, k: int, n: int, slots: int, depth: int = 1) -> None:
        super().__init__(m, k, n, slots)


class OfTwoLengths(WithOption):
    def __init__(self, m: int, k: int) -> None:
        super().__init__(m, k, k, 64)


class Incomplete(cb.lab.Algorithm):
    name, title, source, summary = "incomplete", "half of one", "a test", "never"

    @property
    def options(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Incomplete,
            "method Incomplete is incomplete .expected an implementation of candidates, finish, multiply",
        ),
        (
            lambda: WithOption,
            r"option depth of WithOption is not declared .*bool or int or int \| None, got depth: float",
        ),
        (lambda: WithUnknownType, "annotations of WithUnknownType .*Nowhere"),
        (
            lambda: WithoutDefault,
            r"WithoutDefault takes the wrong arguments .*options with defaults\), got .*depth",
        ),
        (
            lambda: WithAnyOptions,
            "option options of WithAnyOptions is not declared as options are .expected a keyword argument",
        ),
        (
            lambda: WithPositional,
            "option depth of WithPositional is not declared as options are .expected a keyword argument",
        ),
        (lambda: OfTwoLengths, r"OfTwoLengths takes the wrong arguments .expected \(m, k, n, slots, "),
        (lambda: variant(title=""), "attribute title of Variant must be a text[.]"),
        (lambda: variant(source=None), "attribute source of Variant must be a text[.]"),
        (lambda: variant(summary=3), "attribute summary of Variant must be a text .got 3"),
        (lambda: variant(name="Two words"), "A method cannot have this name .expected small letters"),
        (lambda: variant(name=7), "attribute name of Variant must be a text .got 7"),
        (lambda: variant(baseline=1), "attribute baseline of Variant must be a bool .got 1"),
        (lambda: variant(blocks_inner=None), "attribute blocks_inner of Variant must be a bool[.]"),
        (lambda: variant(min_levels=-1), "levels of Variant must be a whole number from 0 on .got -1"),
        (
            lambda: variant(MatVecHelib, name="own", baseline=False),
            "baseline of Variant has the wrong value .expected True",
        ),
    ],
)
def test_what_is_missing_is_said(make: Callable[[], type], message: str) -> None:
    before = registry.names()
    with pytest.raises(cb.ParameterError, match=message):
        cb.register(make())
    assert registry.names() == before


@pytest.mark.parametrize("method", [int, "skewed", Skewed(2, 2, 2, 64), lambda: None, None])
def test_what_is_no_method_is_refused(method: Any) -> None:
    with pytest.raises(cb.DTypeError, match=r"a subclass of cb\.lab\.Algorithm"):
        cb.register(method)


def test_values_of_options_are_those_that_files_hold() -> None:
    cb.register(Relabelled)
    assert build("relabelled", 4, 4, 4, 64, {"baby_steps": None}).options["baby_steps"] == 2
    for options, expected in (
        ({"baby_steps": 0}, f"from 1 to {MAX_LENGTH}"),
        ({"baby_steps": 2.0}, f"from 1 to {MAX_LENGTH}"),
        ({"complex_packing": 1}, "True or False"),
        ({"size": 3}, "size"),
    ):
        with pytest.raises(cb.ParameterError, match=expected):
            build("relabelled", 4, 4, 4, 64, options)


class OwnDiagonals(MatVecHelib):
    """A product of a clear matrix and a vector."""

    name, title, source = "own-diagonals", "HElib's again", "a test"
    seen: ClassVar[list[int]] = []

    def __init__(self, x: Any, rows: int) -> None:
        super().__init__(x, rows)
        self.seen.append(rows)


def test_products_with_a_vector() -> None:
    """By name: layers are planned by patterns."""
    weights = [[0.5, 0.25, 0.0], [0.0, 1.0, 0.5]]
    cb.register(OwnDiagonals)
    assert "own-diagonals" in LAYER_METHODS
    operands = {"x": cb.secret(3)}
    plan = cb.compile(lambda x: weights @ x, operands, algorithm="own-diagonals").plan
    assert plan.algorithm == "own-diagonals" and plan.form == "tensors" and 2 in OwnDiagonals.seen
    assert "own-diagonals" not in cb.compile(lambda x: weights @ x, operands, form="tensors").explain()


# --- files ---


def test_programs_load_where_the_method_is_registered(tmp_path: Path) -> None:
    cb.register(Relabelled)
    program = toy(product, **SQUARE, algorithm="relabelled")
    program.save(tmp_path / "program")
    insecure = {"insecure": True}
    with pytest.warns(cb.InsecureParametersWarning):
        assert cb.Program.load(tmp_path / "program", **insecure).id == program.id
    cb.lab.unregister("relabelled")
    message = r"not registered here: call cb\.register, .*expected diagonals .*got 'relabelled'"
    with (
        pytest.warns(cb.InsecureParametersWarning),
        pytest.raises(cb.FormatError, match=message),
    ):
        cb.Program.load(tmp_path / "program", **insecure)


def test_options_of_registered_methods_are_checked_in_files() -> None:
    cb.register(Relabelled)
    decisions = toy(product, **SQUARE, algorithm="relabelled").plan.decisions()
    check_decisions(decisions)
    (choice,) = decisions["choices"].values()
    for options in ({"baby_steps": 0}, {"baby_steps": "2"}, {"complex_packing": None}, {"size": 3}):
        choice["options"] = options
        with pytest.raises(cb.FormatError, match="options of relabelled"):
            check_decisions(decisions)


# --- plug-ins ---


def installed(folder: Path, package: str, points: dict[str, str], source: str) -> None:
    """A distribution with entry points, as an installer leaves it."""
    (folder / f"{package}.py").write_text(source, encoding="utf-8")
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{registry.GROUP}]", *lines, ""]))


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A new interpreter in which a folder's distributions are installed."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


COMPILED = """
import sys, cipherblas as cb
program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)}, algorithm="inner-sums")
assert "skewed" not in program.plan.algorithm
program.save(sys.argv[1])
print(program.id)
"""
LOADED = "import sys, cipherblas as cb; print(cb.Program.load(sys.argv[1]).id)"


def test_plug_ins(tmp_path: Path) -> None:
    """Found without a word, also by the loader of programs; where it is not installed, the program is refused."""
    source = (ROOT / "examples" / "own_product.py").read_text(encoding="utf-8")
    installed(tmp_path, "own_methods", {"inner-sums": "own_methods:InnerSums"}, source)
    made = python(tmp_path, "-c", COMPILED, str(tmp_path / "program"))
    assert (made.returncode, made.stderr) == (0, "")
    loaded = python(tmp_path, "-c", LOADED, str(tmp_path / "program"))
    assert (loaded.returncode, loaded.stdout) == (0, made.stdout)
    (tmp_path / "empty").mkdir()
    refused = python(tmp_path / "empty", "-c", LOADED, str(tmp_path / "program"))
    assert refused.returncode and "FormatError" in refused.stderr and "'inner-sums'" in refused.stderr


def test_broken_plug_ins_are_named_and_left_out(tmp_path: Path) -> None:
    """The good one beside them is entered."""
    shutil.copy(ROOT / "examples" / "own_product.py", tmp_path / "own_product.py")
    points = {
        "absent": "own_methods:Nothing",
        "gone": "no_such_module:Method",
        "inner-sums": "own_product:InnerSums",
        "raises": "own_raises:Method",
        "taken": "own_methods:Taken",
    }
    source = """
from own_product import InnerSums

class Taken(InnerSums):
    name = "skewed"
"""
    installed(tmp_path, "own_methods", points, source)
    (tmp_path / "own_raises.py").write_text("1 / 0\n", encoding="utf-8")
    made = python(tmp_path, "-c", COMPILED, str(tmp_path / "program"))
    assert made.returncode == 0, made.stderr
    for name, error in (
        ("absent", "AttributeError"),
        ("gone", "ModuleNotFoundError"),
        ("raises", "ZeroDivisionError"),
        ("taken", "ParameterError"),
    ):
        assert f"The method {name!r} of own_methods ({points[name]}) is left out: {error}" in made.stderr
    assert "'inner-sums'" not in made.stderr


def test_plug_ins_of_commands(tmp_path: Path) -> None:
    source = (ROOT / "examples" / "own_product.py").read_text(encoding="utf-8")
    installed(tmp_path, "own_methods", {"inner-sums": "own_methods:InnerSums"}, source)
    found = python(tmp_path, "-m", "cipherblas", "plan", "--a", "8x8", "--b", "8x8")
    assert (found.returncode, found.stderr) == (0, "")
    assert "inner-sums" in found.stdout
