"""What an import of the library brings with it, seen in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

import cipherblas

DRAWING_AND_COMMANDS = ("matplotlib", "rich", "typer", "click")
EVERYTHING_PUBLIC = "import cipherblas; [getattr(cipherblas, name) for name in cipherblas.__all__]"


def modules_after(statement: str) -> set[str]:
    """What is imported once the statement has run."""
    program = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


def test_the_library_needs_nothing_of_commands_and_pictures() -> None:
    found = modules_after(EVERYTHING_PUBLIC)
    assert "cipherblas.planner.search.search" in found
    assert found.isdisjoint(DRAWING_AND_COMMANDS)
    rooms = {name.split(".")[1] for name in found if name.startswith("cipherblas.")}
    assert rooms.isdisjoint({"report", "cli"})


def test_commands_draw_only_where_a_picture_is_asked_for() -> None:
    found = modules_after("import cipherblas.cli.app")
    assert "typer" in found and "matplotlib" not in found


def test_a_list_of_commands_plans_nothing() -> None:
    """Help and the version come without the modules of the commands, where no other distribution brings some."""
    alone = "import contextlib, io, importlib.metadata\nimportlib.metadata.entry_points = lambda **_: []\n"
    for arguments in (["--help"], ["--version"]):
        run = f"app({arguments}, standalone_mode=False)"
        found = modules_after(
            f"{alone}from cipherblas.cli.app import app\n"
            f"with contextlib.redirect_stdout(io.StringIO()): {run}"
        )
        assert {"cipherblas.planner", "cipherblas.roles", "cipherblas.cli.plan"}.isdisjoint(found)
    assert "cipherblas.cli.plan" in modules_after(
        "import typer\nfrom cipherblas.cli.app import app\ntyper.main.get_command(app).commands['plan']"
    )


def test_what_plans_and_runs_is_imported_on_first_use() -> None:
    """The import of the package stays short: it does not plan yet."""
    found = modules_after("import cipherblas as cb; cb.secret(8, 8), cb.CipherblasError, cb.EvaluationKeys")
    assert {"cipherblas.planner", "cipherblas.methods", "cipherblas.runtime"}.isdisjoint(found)


def test_every_public_name_is_there() -> None:
    assert set(cipherblas.__all__) <= set(dir(cipherblas))
    for name in cipherblas.__all__:
        value = getattr(cipherblas, name)
        if isinstance(value, type):
            assert value.__name__ == name and value.__module__.startswith("cipherblas")
    assert not hasattr(cipherblas, "Nothing")
