"""What ranks send each other, and how long that takes.

Collectives of the α-β model: α seconds for a message, β seconds for a byte. Source: FHE4DMM, Sections V-A and V-C,
after Thakur, Rabenseifner and Gropp (2005).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

from cipherblas.common import schema
from cipherblas.common.errors import ParameterError
from cipherblas.crypto import files
from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.grids import moved_4d

Kind = Literal["broadcast", "all-gather", "all-reduce", "reduce"]

MAX_BYTES = 1 << 12  # of a file
_NETWORK = schema.record({"latency": schema.number(0, 60), "byte_seconds": schema.number(0, 1)})


@dataclass(frozen=True)
class Network:
    """A link between ranks.

    Attributes:
        latency: α, seconds per message.
        byte_seconds: β, seconds per byte.
    """

    latency: float
    byte_seconds: float

    def __post_init__(self) -> None:
        if not (0 <= self.latency < math.inf and 0 <= self.byte_seconds < math.inf):
            raise ParameterError(
                "Latency and seconds per byte must be finite and not negative.",
                expected="numbers from 0 on",
                got=(self.latency, self.byte_seconds),
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Network:
        """From a JSON file {"latency": seconds, "byte_seconds": seconds}, which `cipherblas bench distributed` writes.

        Raises:
            FormatError: it holds something else.
            StorageError: the system refuses.
        """
        name = os.fspath(path)
        with files.opened(path, "a file of a network") as stream:
            values = files.parse_json(name, stream.read(MAX_BYTES), "a network")
        _NETWORK(values, "a network")
        return cls(**values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write that file, whole or not at all.

        Raises:
            StorageError: the system refuses.
        """
        files.save_bytes(path, (json.dumps(asdict(self), indent=2) + "\n").encode())


@dataclass(frozen=True)
class Collective:
    """A collective operation that a rank takes part in.

    Attributes:
        kind: which.
        ranks: that take part.
        nbytes: in all rounds together.
        rounds: in which it is done.
    """

    kind: Kind
    ranks: int
    nbytes: int
    rounds: int = 1

    @property
    def byte_factor(self) -> int:
        """How often each byte passes, for many ranks."""
        return 1 if self.kind == "all-gather" else 2

    def seconds(self, network: Network) -> float:
        """Broadcast: α(log p + p - 1) + 2βw(p - 1)/p; all-gather: α log p + βw(p - 1)/p; reduction: 2α log p +
        2βw(p - 1)/p; α once per round."""
        p, log_p = self.ranks, math.log2(self.ranks)
        messages = {"broadcast": log_p + p - 1, "all-gather": log_p}.get(self.kind, 2 * log_p)
        moved = self.byte_factor * self.nbytes * (p - 1) / p
        return network.latency * messages * self.rounds + network.byte_seconds * moved


def collectives_3d(own: Cuboid, grid: Cuboid, ciphertext_bytes: int) -> tuple[Collective, ...]:
    """Return the collective operations of a rank with these blocks: it receives blocks of A and B, and adds up blocks
    of C.

    Source: FHE4DMM, Section III-A.
    """
    return (
        Collective("broadcast", grid.n, own.m * own.k * ciphertext_bytes),
        Collective("broadcast", grid.m, own.n * own.k * ciphertext_bytes),
        Collective("reduce", grid.k, own.m * own.n * ciphertext_bytes),
    )


def collectives_4d(own: Cuboid, grid: Cuboid, steps: int, ciphertext_bytes: int) -> tuple[Collective, ...]:
    """The same in 4D: besides, all-reduces after RotateAlign, and all-gathers of ShiftByStep.

    Of these there is one for each of R steps and each of the rank's own inner blocks.

    Source: FHE4DMM, Section V-A.
    """
    left, right = own.m * own.k * ciphertext_bytes, own.n * own.k * ciphertext_bytes
    rounds = own.k * steps
    return (
        *collectives_3d(own, grid, ciphertext_bytes),
        Collective("all-reduce", grid.n, left),
        Collective("all-reduce", grid.m, right),
        Collective("all-gather", grid.n, steps * left, rounds),
        Collective("all-gather", grid.m, steps * right, rounds),
    )


def seconds(collectives: Iterable[Collective], network: Network) -> float:
    """Of all of them, one after the other."""
    return math.fsum(one.seconds(network) for one in collectives)


def latency_4d(
    blocks: Cuboid, grid: Cuboid, steps: int, ciphertext_bytes: int, network: Network, *, rounds: int = 1
) -> float:
    """Seconds that communication in 4D takes: α·[2 log(p_m·p_n) + p_m - 1 + p_n - 1 + 2 log p] + 2β·W / p.

    Eq. 7 counts one all-gather of A and one of B, while Section V-A does one for each step and inner block.

    Args:
        rounds: of all-gathers; 1 is Eq. 7 as printed, `gather_rounds` what the text does.

    Source: FHE4DMM, Eq. 7.
    """
    log_shared = math.log2(grid.m * grid.n)
    messages = 2 * log_shared + grid.m - 1 + grid.n - 1 + 2 * math.log2(grid.volume)
    messages += (rounds - 1) * log_shared
    moved = moved_4d(blocks, grid, steps) * ciphertext_bytes
    return network.latency * messages + 2 * network.byte_seconds * moved / grid.volume


def gather_rounds(blocks: Cuboid, grid: Cuboid, steps: int) -> int:
    """All-gathers of a rank's group: R steps for each of its b_k / p_k inner blocks."""
    return blocks.parts(grid).k * steps
