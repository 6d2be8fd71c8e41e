"""Marks of layouts are claims about data: only operations that make them true change them, each in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.rooms import PACKAGE, module_name, parsed, python_files, tree

MARKS = {"complex_packing", "imaginary_garbage", "empty_garbage", "zero_padded"}
# `forms` defines layouts, `methods` state what they leave; rows have no slots.
STATING = ("forms.", "methods.", "runtime.row")
# By what changes a mark, or says how ciphertexts lie: the operations that make it true.
OPERATIONS = {
    "real": {"runtime.blocks.in_place"},  # a layout to ask `relaid` for, which takes imaginary parts away
    "with_garbage": {
        "runtime.positions.of_images",  # a layout to ask `relaid` for, and what products leave
        "runtime.features._of_secrets",  # after neighbouring slots were added up
        "runtime.features.taken",  # where the child holds it
    },
    "with_imaginary_garbage": set[str](),
    "once": {
        "runtime.tensors.TensorRun.masked",
        "runtime.tensors.TensorRun.filled",  # a layout to ask `relaid` for
    },
    "with_zero_padding": {
        "runtime.tensors.TensorRun.masked",
        "runtime.tensors.add",  # zero where both terms are
        "runtime.tensors.multiply",  # zero where a factor is, as clear ones are
        "runtime.tensors.stages",  # a layout to ask `relayout` for
    },
    "zero_padded": {
        "runtime.tensors.avg_pool2d"
    },  # sums of neighbours, which slots between entries hold as well
    "laid": {
        "runtime.slots.SlotRun._encrypted",  # as the client packs it
        "runtime.blocks.BlockRun.relaid",  # where `relayout` brought it
        "runtime.blocks.multiply",  # where both factors lie
        "runtime.blocks._product",  # as the algorithm leaves it
        "runtime.arranged.arrange",
        "runtime.features._of_clear",  # where the factor with samples lies
        "runtime.features._of_secrets",
        "runtime.features.taken",
        "runtime.features.unpacked",
        "runtime.conversions._as_blocks",
        "runtime.polynomials.evaluated",
        "runtime.tensors.TensorRun.of",
    },
    "Value": {
        "runtime.slots.SlotRun.laid",
        "runtime.blocks.BlockRun.clear",  # plaintexts, as are the next ones
        "runtime.blocks.polynomial",
    },
    "replace(form=…)": {"runtime.listing.Listing.lies"},  # what is written down of a value
}


def changes(package: Path) -> Iterator[tuple[str, str]]:
    """What changes a mark, or says how ciphertexts lie, and where."""

    def walk(node: ast.AST, place: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            place = f"{place}.{node.name}"
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            named = {keyword.arg for keyword in node.keywords}
            # Elsewhere these are names of what has no layout.
            own = called in OPERATIONS and place.startswith("runtime.")
            for name in ({called} if own else set()) | {name for name in named & MARKS if name}:
                yield name, place
            # In the planner, which holds no values, it is an option.
            if called == "replace" and "form" in named and not place.startswith("planner."):
                yield "replace(form=…)", place
        for child in ast.iter_child_nodes(node):
            yield from walk(child, place)

    for file in python_files(package):
        module = module_name(file, package)
        if not module.startswith(STATING):
            yield from walk(parsed(file.read_text(encoding="utf-8")), module)


def test_marks_change_where_an_operation_makes_them_true() -> None:
    assert set(changes(PACKAGE)) == {(name, place) for name, places in OPERATIONS.items() for place in places}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "def of_blocks(x):\n    return replace(x, form=SlotForm(layout))",
            ("replace(form=…)", "runtime.own.of_blocks"),
        ),
        ("def f(x):\n    return replace(x, imaginary_garbage=False)", ("imaginary_garbage", "runtime.own.f")),
        (
            "class A:\n    def f(self, x):\n        return x.with_zero_padding(True)",
            ("with_zero_padding", "runtime.own.A.f"),
        ),
        ("def f(x):\n    return Value(x.shape, x.form, x.cells, 1.0)", ("Value", "runtime.own.f")),
    ],
)
def test_a_mark_that_is_changed_by_hand_is_found(tmp_path: Path, text: str, found: tuple[str, str]) -> None:
    package = tree(
        tmp_path / "pkg", {"__init__.py": "", "runtime/own.py": text, "methods/a.py": "f(zero_padded=True)"}
    )
    assert list(changes(package)) == [found]
