"""The architecture: no room uses one that it may not use, every wall bites, and nothing imports in a circle."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.support.rooms import (
    CPP,
    DOCUMENT,
    PACKAGE,
    PACKAGES,
    House,
    broken_distributions,
    broken_folders,
    broken_walls,
    circles,
    folder,
    house,
    imports,
    module_name,
    python_files,
    tree,
)

HOUSE = house(DOCUMENT.read_text(encoding="utf-8"))
WALLS = [
    (room, other)
    for room, other in itertools.permutations(HOUSE.rooms, 2)
    if other not in HOUSE.rooms[room] and room != "_core"
]


def test_the_table_is_of_the_package() -> None:
    rooms = {module_name(file, PACKAGE).split(".")[0] or PACKAGE.name for file in python_files(PACKAGE)}
    assert rooms | {"_core"} == set(HOUSE.rooms)
    assert set().union(*HOUSE.rooms.values()) <= set(HOUSE.rooms)
    modules = {module_name(file, PACKAGE) for file in python_files(PACKAGE)}
    assert set(HOUSE.doors).union(*HOUSE.doors.values()) <= modules
    loose = sorted(path.name for path in PACKAGE.glob("*.py"))
    assert loose == ["__init__.py", "__main__.py"]
    for room, folders in HOUSE.inside.items():
        assert {folder(module, PACKAGE) for module in modules if module.startswith(f"{room}.")} == set(
            folders
        )
    assert {path.name for path in CPP.iterdir() if path.is_dir()} - {"tests"} == set(HOUSE.folders)


def test_rooms() -> None:
    assert broken_walls(PACKAGE, HOUSE) == []


def test_no_wall_is_open_without_use() -> None:
    """What the table allows is used: it says what is, not what might be."""
    used = {
        (module.split(".")[0] or "cipherblas", target.split(".")[0] or "cipherblas")
        for file in python_files(PACKAGE)
        for module in [module_name(file, PACKAGE)]
        for target in imports(file, PACKAGE)
    }
    allowed = {(room, other) for room, others in HOUSE.rooms.items() for other in others}
    assert sorted(allowed - used) == []


def test_distributions() -> None:
    assert [package.name for package in PACKAGES] == list(HOUSE.distributions)
    assert broken_distributions(PACKAGES, HOUSE) == []


def test_no_circles() -> None:
    for package in PACKAGES:
        assert circles(package) == []


def test_folders_of_the_core() -> None:
    assert broken_folders(CPP, HOUSE.folders) == []


# --- each wall bites ---


def test_every_wall(tmp_path: Path) -> None:
    found = []
    for room, other in WALLS:
        package = tmp_path / f"{room}-{other}" / "cipherblas"
        inside = "__init__.py" if room == "cipherblas" else f"{room}/module.py"
        target = "cipherblas" if other == "cipherblas" else f"cipherblas.{other}.module"
        tree(
            package, {"__init__.py": "", f"{other}/module.py": "", inside: f"def f():\n    import {target}\n"}
        )
        if any(f"{room} may not use {other}" in message for message in broken_walls(package, HOUSE)):
            found.append((room, other))
    assert found == WALLS


@pytest.mark.parametrize("place", HOUSE.doors)
def test_every_door(tmp_path: Path, place: str) -> None:
    package = tmp_path / "cipherblas"
    file = f"{place.replace('.', '/')}.py" if "." in place else f"{place}/inner.py"
    target = place if "." in place else f"{place}.inner"
    user = sorted(HOUSE.doors[place])[0]
    tree(package, {file: "", f"{user.replace('.', '/')}.py": f"import cipherblas.{target}\n"})
    assert broken_walls(package, HOUSE) == []
    tree(package, {f"{user.split('.')[0]}/other.py": f"import cipherblas.{target}\n"})
    (message,) = broken_walls(package, HOUSE)
    assert f"imports {target}, which is for" in message


PLAN = House(
    {
        "low": frozenset(),
        "beside": frozenset({"low"}),
        "middle": frozenset({"low"}),
        "high": frozenset({"low", "middle"}),
        "pkg": frozenset({"high"}),
    },
    {"middle.deep": frozenset({"high.inner", "middle"})},
    {"high": ("cellar", "*", "attic")},
    ("arith", "ring", "rlwe", "ckks", "core"),
    {"pkg": frozenset(), "beside_pkg": frozenset({"pkg"})},
    {"pkg": (), "beside_pkg": ("low", "*", "high")},
)
GOOD = {
    "__init__.py": "from pkg.high import f",
    "low.py": "import numpy",
    "middle/__init__.py": "from pkg.middle.deep import g",
    "middle/deep.py": "from pkg import low",
    "beside.py": "from . import low",
    "high/__init__.py": "from pkg.middle import g\nfrom .inner import h",
    "high/inner.py": "from ..middle import deep",
    "high/cellar/a.py": "from . import b",
    "high/cellar/b.py": "",
    "high/attic/c.py": "from pkg.high import inner\nfrom pkg.high.cellar import a",
}


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("low.py", "from pkg.high import f", "low may not use high"),
        ("low.py", "def f():\n    from pkg import high", "low may not use high"),
        ("low.py", "import pkg.high.inner as x", "low may not use high"),
        ("low.py", "import pkg", "low may not use pkg"),
        ("low.py", "from .high import f", "low may not use high"),
        (
            "low.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pkg.high",
            "low may not use high",
        ),
        ("beside.py", "from pkg import middle", "beside may not use middle"),
        ("middle/deep.py", "from ..high import inner", "middle may not use high"),
        ("middle/__init__.py", "from .. import high", "middle may not use high"),
        ("stray.py", "", "stray is in no room"),
        ("low.py", "from pkg.gone import f", "low imports gone, which is in no room"),
        ("high/other.py", "from pkg.middle import deep", "which is for high.inner, middle only"),
        ("high/other.py", "from pkg.high.attic import c", "imports high.attic.c from above"),
        ("high/cellar/b.py", "from .. import inner", "imports high.inner from above"),
        ("high/shed/d.py", "from ..cellar import a", "not both are in a folder of the table"),
    ],
)
def test_violations_are_found(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    assert broken_walls(tree(tmp_path / "good" / "pkg", GOOD), PLAN) == []
    (message,) = broken_walls(tree(tmp_path / "bad" / "pkg", {**GOOD, name: text}), PLAN)
    assert complaint in message


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("pkg/low.py", "def f():\n    import beside_pkg.low", "pkg may not use beside_pkg: low.py"),
        ("pkg/low.py", "from beside_pkg import low", "pkg may not use beside_pkg: low.py"),
        ("beside_pkg/own.py", "from .high import a", "own imports high.a from above"),
        ("beside_pkg/low/b.py", "from beside_pkg import own", "low.b imports own from above"),
    ],
)
def test_what_uses_a_distribution_above_is_found(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    good = {
        "pkg/low.py": "import numpy",
        "beside_pkg/own.py": "from pkg import low\nfrom .low import b",
        "beside_pkg/low/b.py": "",
        "beside_pkg/high/a.py": "import beside_pkg.own\nimport pkg.low",
    }
    for files, found in ((good, []), ({**good, name: text}, [complaint])):
        root = tree(tmp_path / f"{len(found)}", files)
        assert broken_distributions([root / "pkg", root / "beside_pkg"], PLAN) == found


def test_circles_are_found(tmp_path: Path) -> None:
    package = tree(tmp_path / "pkg", GOOD)
    assert circles(package) == []
    tree(package, {"low.py": "def f():\n    from pkg import beside", "own.py": "import pkg.own"})
    assert circles(package) == [["beside", "low"], ["own"]]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("arith/a.h", '#include "ring/ntt.h"', 'arith includes "ring/ntt.h" from above'),
        ("ring/kernels/k.cpp", '#include <vector>\n  # include "rlwe/x.h"', 'includes "rlwe/x.h" from above'),
        ("rlwe/a.cpp", '#include "neighbour.h"', '"neighbour.h" does not name a folder'),
        ("extras/a.cpp", "", "extras has no place in the table"),
    ],
)
def test_includes_from_above_are_found(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    good = {"arith/m.h": "#include <cstdint>", "core/module.cpp": '#include "ckks/e.h"\n#include "core/c.h"'}
    assert broken_folders(tree(tmp_path / "good", good), PLAN.folders) == []
    (message,) = broken_folders(tree(tmp_path / "cpp", {**good, name: text}), PLAN.folders)
    assert complaint in message
