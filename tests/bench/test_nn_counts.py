"""`bench nn --counts`: every method against the published figures."""

from __future__ import annotations

import pytest

from cipherblas.methods.layers import LAYER_METHODS, METAKERNEL
from cipherblas_bench.nn_counts import run
from cipherblas_bench.nn_shapes import EXAMPLES, KERNELS, SLOTS, Kernel
from tests.support import documents

ALL = KERNELS + EXAMPLES
PAGE = (
    documents.ROOT / "docs" / "algorithms.md"
)  # whose table has rotations, and in brackets the published number
STATED = {row.pop("kernel"): row for row in documents.table(PAGE, "kernel")}
# Ours cuts Fhelipe's image into seven parts; how the published count comes to one rotation less is not said.
DIFFERENCES = {("Conv1_Large", "fhelipe"): 1}


pytestmark = pytest.mark.usefixtures("fewest_runs")


@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.name)
def test_published_figures(kernel: Kernel) -> None:
    rows = {row["algorithm"]: row for row in run([kernel.name])}
    assert set(kernel.published) <= set(rows) <= set(LAYER_METHODS)
    for name, row in rows.items():
        assert ("published_rotations" in row) == (name in kernel.published)
        assert 0 < row["slot_use"] <= row["padded_slot_use"] <= 1
    for name, published in kernel.published.items():
        row = rows[name]
        if name == METAKERNEL:
            # Padded channels count in the paper's slot use of convolutions, padded columns of W do not.
            used = row["padded_slot_use"] if kernel.window else row["slot_use"]
            assert row["rotations"] <= published.rotations
            assert used >= published.slot_use - 1e-3
            assert row["depth"] == 1
        else:
            difference = DIFFERENCES.get((kernel.name, name), 0)
            assert row["rotations"] + row["trivial_rotations"] == published.rotations + difference
            assert row["depth"] <= (4 if kernel.name.endswith("Large") else 2)
    for name in {"fhelipe", "fhe-mp-cnn"} & set(kernel.published):
        used = rows[name]["padded_slot_use"] if kernel.window else rows[name]["slot_use"]
        assert used == pytest.approx(kernel.published[name].slot_use, abs=1e-3)
    cells = {
        name: f"{row['rotations']} ({row['published_rotations']})"
        if "published_rotations" in row
        else f"{row['rotations']}"
        for name, row in rows.items()
    }
    assert STATED[kernel.name] == dict.fromkeys(LAYER_METHODS, "") | cells


def test_every_kernel_is_stated() -> None:
    assert list(STATED) == [kernel.name for kernel in ALL]


def test_kernels() -> None:
    """Shapes of Table 3, each with the figures of ours and of a baseline."""
    assert len(KERNELS) == 10
    assert len({kernel.name for kernel in ALL}) == len(ALL)
    for kernel in ALL:
        assert {METAKERNEL, "fhelipe"} <= set(kernel.published)
        assert kernel.weight_shape[1] == kernel.input_shape[0]
        if kernel.window is not None:
            assert kernel.window.out_shape == (kernel.weight_shape[0], *kernel.input_shape[1:])
    assert {kernel.slots for kernel in KERNELS} == {SLOTS}
    published = (0.88, *(4.72,) * 3, *(230.69,) * 4, 33.55, 205.52)  # of Table 3, in millions
    assert [kernel.flops / 1e6 for kernel in KERNELS] == pytest.approx(published, rel=6e-3)
