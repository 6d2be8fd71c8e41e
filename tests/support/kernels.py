"""What the kernels of the core did, counted by a table of kernels that counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import cipherblas._core as _core


@dataclass
class Kernels:
    """What they did on polynomials of N words, in limbs, or as it is named."""

    n: int
    words: dict[str, int] = field(default_factory=dict)

    def limbs(self, *names: str) -> int:
        words = sum(self.words[name] for name in names)
        assert words % self.n == 0
        return words // self.n


@contextmanager
def counted(n: int) -> Iterator[Kernels]:
    kernels = Kernels(n)
    _core.count_kernels(True)
    try:
        yield kernels
    finally:
        kernels.words = dict(_core.kernel_counts())
        _core.count_kernels(False)
