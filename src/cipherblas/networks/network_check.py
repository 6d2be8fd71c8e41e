"""The figures of a network and of its program on the same inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cipherblas.networks.layers import Array


@dataclass(frozen=True)
class NetworkRuns:
    """The scores of one way to compute a network, on the same inputs as the others.

    Attributes:
        accuracy: share of the runs with the right label; None without labels.
        agreement: share of the runs with the label of the clear network.
        rms, largest: of the differences from the scores of the clear network.
    """

    accuracy: float | None
    agreement: float
    rms: float
    largest: float

    @classmethod
    def of(cls, scores: Array, exact: Array, labels: Array | None) -> NetworkRuns:
        """Of runs, a row each, with the scores of the clear network on the same inputs."""
        found, off = scores.argmax(axis=1), np.abs(scores - exact)
        return cls(
            None if labels is None else float(np.mean(found == labels)),
            float(np.mean(found == exact.argmax(axis=1))),
            float(np.sqrt(np.mean(off**2))),
            float(off.max()),
        )


@dataclass(frozen=True)
class NetworkCheck:
    """A network and its program on the same inputs, those that stay in the ranges that were planned.

    Attributes:
        count: of the inputs.
        outside: inputs on which a value leaves the range that the program was planned for.
        clear: runs of the network itself; None where all inputs are outside, as the others.
        approximated: with the program's polynomials in place of functions.
        noisy: with errors of encryption as well, as the noise model has them; None where they carry all inputs out.
        carried: inputs that errors of encryption carry out of a range, once or more often; these draws are not among
            `noisy`.
    """

    count: int
    outside: int
    clear: NetworkRuns | None = None
    approximated: NetworkRuns | None = None
    noisy: NetworkRuns | None = None
    carried: int = 0

    def __str__(self) -> str:
        lines = [f"inputs  {self.count}, {self.outside} of them outside the ranges that were planned"]
        if self.carried:
            lines.append(
                f"        {self.carried} of the others carried out of a range by errors of encryption"
            )
        runs = [one for one in (self.clear, self.approximated, self.noisy) if one is not None]
        if runs:
            rows: list[tuple[str, ...]] = [("", *("clear", "approximated", "noisy")[: len(runs)])]
            if runs[0].accuracy is not None:
                rows.append(("right label", *(f"{one.accuracy:.1%}" for one in runs)))
            rows += [
                ("label of the clear network", *(f"{one.agreement:.1%}" for one in runs)),
                ("error of a score, rms", *(f"{one.rms:.2g}" for one in runs)),
                ("error of a score, largest", *(f"{one.largest:.2g}" for one in runs)),
            ]
            lines += [f"{row[0]:<26}" + "".join(f"  {one:>12}" for one in row[1:]) for row in rows]
        return "\n".join(lines)
