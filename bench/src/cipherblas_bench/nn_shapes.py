"""The kernels of MetaKernel's evaluation, and what the paper reports of them: facts to stand beside our own figures.

Source: P. Yuan, Y. Liu, J. Lai, L. Li, T. Sui, L. Xiao, X. Zhang, et al.: MetaKernel: Enabling Efficient Encrypted
Neural Network Inference through Unified MVM and Convolution, OOPSLA 2025, https://doi.org/10.1145/3763095: Section 3
(worked examples), Table 3 (shapes), Tables 4 to 6 (rotations, slot use, seconds of one thread on a Xeon 8369B).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from cipherblas.lang.windows import Window

SLOTS = 1 << 15  # of all kernels of Table 3


@dataclass(frozen=True)
class Published:
    """The paper's figures of one method.

    Attributes:
        rotations: of one run.
        slot_use: weights / (slots · plaintexts), as the paper counts them, between 0 and 1.
        where: in the paper.
        seconds: of one run; None where it reports none, infinite where the run was given up.
    """

    rotations: int
    slot_use: float
    where: str
    seconds: float | None = None


@dataclass(frozen=True)
class Kernel:
    """A product W·x or a convolution of stride 1.

    Attributes:
        name: as in Table 3.
        input_shape: (k,), or (channels, height, width).
        weight_shape: (n, k), or (outputs, channels, height, width).
        padding: of a convolution, on all sides.
        published: by name of the method (`methods.layers`).
        slots: S.
    """

    name: str
    input_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    padding: int
    published: Mapping[str, Published]
    slots: int = SLOTS

    @property
    def flops(self) -> int:
        """Multiplications and additions in the clear: one of each for each weight and place."""
        places = (
            1 if self.window is None else math.prod(self.input_shape[1:])
        )  # of padded convolutions of stride 1
        return 2 * math.prod(self.weight_shape) * places

    @property
    def window(self) -> Window | None:
        """The convolution; None of a product W·x."""
        if len(self.input_shape) == 1:
            return None
        channels, height, width = self.input_shape
        outputs, _, down, across = self.weight_shape
        return Window(
            *((channels, height, width), outputs, (down, across)), padding=(self.padding, self.padding)
        )


def _published(where: str, **methods: tuple[int, float, float | None]) -> Mapping[str, Published]:
    """Figures of one row of a table: rotations, slot use, seconds by method."""
    names = {name.replace("_", "-"): figures for name, figures in methods.items()}
    return MappingProxyType(
        {name: Published(rotations, use, where, seconds) for name, (rotations, use, seconds) in names.items()}
    )


def _conv(
    name: str,
    channels: int,
    size: int,
    outputs: int,
    table: str,
    ours: tuple[int, float, float],
    theirs: tuple[int, float, float],
) -> Kernel:
    figures = _published(table, metakernel=ours, fhelipe=theirs)
    return Kernel(name, (channels, size, size), (outputs, channels, 3, 3), 1, figures)


KERNELS: tuple[Kernel, ...] = (
    _conv("Conv1", 3, 32, 16, "Table 4", (17, 0.5, 2.26), (40, 1.0, 29.45)),
    _conv("Conv2", 16, 32, 16, "Table 4", (26, 0.5, 4.19), (56, 1.0, 42.25)),
    _conv("Conv3", 32, 16, 32, "Table 4", (28, 0.5, 2.89), (73, 1.0, 43.85)),
    _conv("Conv4", 64, 8, 64, "Table 4", (32, 0.5, 3.12), (90, 1.0, 45.01)),
    _conv("Conv1_Large", 64, 56, 64, "Table 5", (1096, 1.0, 88.50), (3220, 1.0, 12089.0)),
    _conv("Conv2_Large", 128, 28, 128, "Table 5", (1060, 1.0, 89.29), (4142, 1.0, 13686.0)),
    _conv("Conv3_Large", 256, 14, 256, "Table 5", (1042, 1.0, 101.01), (4628, 1.0, 13508.0)),
    _conv("Conv4_Large", 512, 7, 512, "Table 5", (1033, 1.0, 149.87), (5127, 1.0, 13220.0)),
    Kernel(
        *("MVM1", (4096,), (4096, 4096), 0),
        _published(
            "Table 6",
            metakernel=(71, 0.5, 16.13),
            fhelipe=(6658, 1.0, 3019.95),
            helib_bsgs=(193, 0.125, 55.58),
        ),
    ),
    Kernel(
        *("MVM2", (25088,), (4096, 25088), 0),
        _published(
            "Table 6",
            metakernel=(135, 0.7656, 49.03),
            fhelipe=(65535, 0.7656, float("inf")),
            helib_bsgs=(384, 0.7656, 343.71),
        ),
    ),
)

EXAMPLES: tuple[Kernel, ...] = (
    Kernel(
        *("8x4", (4,), (8, 4), 0),
        _published(
            "Section 3, case 1",
            metakernel=(3, 1.0, None),
            fhelipe=(12, 1.0, None),
            fhe_mp_cnn=(10, 0.364, None),
        ),
        slots=8,
    ),
    Kernel(
        *("8x8", (8,), (8, 8), 0),
        _published(
            "Section 3, case 2",
            metakernel=(5, 0.5, None),
            fhelipe=(9, 1.0, None),
            fhe_mp_cnn=(14, 0.133, None),
        ),
        slots=32,
    ),
)


def named(names: Sequence[str], kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels that have these names, in whatever case; all of them if no name is given.

    Raises:
        ValueError: an unknown name.
    """
    known = {kernel.name.lower(): kernel for kernel in kernels}
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        offered = " | ".join(kernel.name for kernel in kernels)
        raise ValueError(f"kernel: expected {offered}, got {', '.join(unknown)}")
    return [known[name.lower()] for name in names] or list(kernels)
