"""A network whose weights are encrypted, as images are, on ranks: convolution, square, layer, square, layer.

`bench distributed --suite secret-network`. The networks are those of examples/secret_network.py, whose sizes for
digits are deduced from the blocks of FHE4DMM's Section VII-B; weights and pixels are drawn at random, on which no time
depends. Real ranks run the files of one; each computes some blocks of samples, from the images to the scores.
Predictions go on to 64 ranks, beside FHE-MM on blocks by E3D and by 4D (`secret_network_model`).
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.distributed.messages import Network
from cipherblas.lang.functions import assume
from cipherblas.lang.operands import secret
from cipherblas.planner.predict.machine import Machine
from cipherblas.roles.on_ranks import RankPlan, on_ranks
from cipherblas.roles.program import Program, compile
from cipherblas_bench.distributed import (
    BENCH,
    OnRanks,
    check_sent,
    least_of,
    least_run,
    network_here,
    network_row,
    stages,
)
from cipherblas_bench.fhe4dmm import PAPERS, UNLIMITED
from cipherblas_bench.harness import Row, Timing, machine_of_predictions, params_fields, row
from cipherblas_bench.secret_network_model import MODEL_RANKS, model_rows

Array = NDArray[Any]
NAMES = ("x", "filters", "hidden", "last")
BITS = 10  # behind the point
PIXEL, WEIGHT = 0.5, 1.0  # the largest
ERROR, MARGIN = 0.01, 1.5  # of scores in CKKS, of the largest; of bounds, over what values there are
CLASSES = 10
RANKS = (1, 2, 4)
LINK = 100  # Mbit a second, of the client
FAST_LINK = 100_000  # over which weights come one by one
BUDGET = 16 << 30  # bytes of ciphertexts that are sent, and of memory
LAYERS = ("weights", "convolution", "first_square", "hidden", "second_square", "last", "other")
SCHEMES = ("bgv", "ckks")


@dataclass(frozen=True)
class SecretNetwork:
    """Sizes of a network.

    Attributes:
        pixels: of a window of the convolution, in all colours.
        channels: its filters.
        windows: where it meets an image.
        units: of the hidden layer.
        places: of windows in the slots, a power of two; None where each window has a ciphertext of its own.
        sums: bounds on the absolute values in a column of the weights, where there are some.
    """

    name: str
    pixels: int
    channels: int
    windows: int
    units: int
    places: int | None = None
    sums: tuple[float, ...] = ()

    def shapes(self, images: int) -> dict[str, tuple[int, ...]]:
        """Of the operands."""
        if self.places is None:
            x: tuple[int, ...] = (self.windows, images, self.pixels)
            hidden: tuple[int, ...] = (self.windows, self.channels, self.units)
        else:
            x = (images * self.places, self.pixels)
            hidden = (self.channels * self.places, self.units)
        return {
            "x": x,
            "filters": (self.pixels, self.channels),
            "hidden": hidden,
            "last": (self.units, CLASSES),
        }

    def scores(self, x: Any, filters: Any, hidden: Any, last: Any, said: Callable[[Any, int], Any]) -> Any:
        """images × 10, of arrays or of encrypted matrices.

        Args:
            said: of the products, which are numbered, what is known.
        """
        first = said(x @ filters, 0)
        squares = first * first
        if self.places is None:
            then = (squares @ hidden).sum(axis=0)
        else:
            images = squares.reshape(-1, self.places, self.channels).transpose(0, 2, 1)
            then = images.reshape(-1, self.channels * self.places) @ hidden
        then = said(then, 1)
        return said((then * then) @ last, 2)

    def values(self, images: int, exact: bool) -> dict[str, Array]:
        """Of operands: multiples of 2^-10, as whole numbers where they are exact."""
        random, unit = np.random.default_rng(1), 1 << BITS
        sums = dict(zip(NAMES[1:], self.sums, strict=False))
        found: dict[str, Array] = {}
        for name, shape in self.shapes(images).items():
            most = int(PIXEL * unit) if name == "x" else int(WEIGHT * unit)
            if name in sums:
                most = min(most, int(sums[name] * unit) // shape[0])
            found[name] = random.integers(-most, most + 1, shape)
        if self.places is not None:
            padded = found["x"].reshape(images, self.places, self.pixels)
            padded[:, self.windows :] = 0
        return found if exact else {name: value / unit for name, value in found.items()}

    def program(
        self,
        images: int,
        scheme: str,
        link: float = LINK,
        values: Mapping[str, Array] | None = None,
        **options: Any,
    ) -> Program:
        """For so many images at once.

        Args:
            scheme: "bgv", scores as whole numbers, or "ckks".
            link: Mbit a second between client and server.
            values: on which bounds of real numbers are found; few images, where there are none.
            **options: of `compile`.
        """
        options = {
            "form": "features",
            "link": link * 1e6,
            "upload_budget": BUDGET,
            "memory_budget": BUDGET,
            **options,
        }
        unit, shapes = 1 << BITS, self.shapes(images)
        sums = dict(zip(NAMES[1:], self.sums, strict=False))
        if scheme == "bgv":

            def exact(name: str, shape: tuple[int, ...]) -> Any:
                # Rounded to units, every entry may be half of one more.
                total = sums[name] * unit + shape[0] / 2 if name in sums else None
                bound = round((PIXEL if name == "x" else WEIGHT) * unit)
                return secret(*shape, bound=bound, dtype="int64", exact=True, column_sum=total)

            operands = {name: exact(name, shape) for name, shape in shapes.items()}
            return compile(self._function(_nothing), operands, **options)
        largest: dict[int, float] = {}

        def found(value: Array, stage: int) -> Array:
            largest[stage] = float(MARGIN * np.abs(value).max())
            return value

        def assumed(value: Any, stage: int) -> Any:
            return assume(value, largest[stage])

        clear = values or self.values(min(images, 64), exact=False)
        self._function(found)(*(clear[name] for name in NAMES))
        operands = {
            name: secret(*shape, bound=PIXEL if name == "x" else WEIGHT, column_sum=sums.get(name))
            for name, shape in shapes.items()
        }
        options = {"error": ERROR * largest[2], **options}
        return compile(self._function(assumed), operands, **options)

    def _function(self, said: Callable[[Any, int], Any]) -> Callable[..., Any]:
        return lambda x, filters, hidden, last: self.scores(x, filters, hidden, last, said)

    def layer_of(self, op: str, title: str) -> str:
        """To which of `LAYERS` a node belongs, whose title names its factors."""
        inner = self.channels * (self.places or 1)
        widths = {f"{self.pixels}x{self.channels}": "convolution", f"{inner}x{self.units}": "hidden"}
        widths[f"{self.units}x{CLASSES}"] = "last"
        if op == "matmul":
            return widths.get(title.rpartition(" · ")[2], "other")
        if op == "multiply":
            return "second_square" if title.endswith(f"x{self.units}") else "first_square"
        return {"add": "hidden", "operand": "weights", "view": "weights"}.get(op, "other")


NETWORKS = {
    "digits": SecretNetwork("digits", 7 * 7, 4, 4 * 4, 16),
    "photographs": SecretNetwork("photographs", 3 * 5 * 5, 64, 10 * 10, 128, 128, (16.0, 64.0, 16.0)),
}
IMAGES = {"digits": 1 << 14, "photographs": 256}
# For predictions: blocks of samples for 4 to 64 ranks.
MODEL_IMAGES = {
    ("digits", "bgv"): (1 << 16, 1 << 18),
    ("digits", "ckks"): (1 << 16, 1 << 19),
    ("photographs", "bgv"): (1 << 10, 1 << 13),
    ("photographs", "ckks"): (1 << 10, 1 << 12),
}


def _nothing(value: Any, stage: int) -> Any:
    return value


def run(
    networks: Sequence[str] = tuple(NETWORKS),
    ranks: Sequence[int] = RANKS,
    *,
    schemes: Sequence[str] = SCHEMES,
    images: Sequence[int] = (),
    link: float | None = None,
    threads: int = 1,
    rounds: int = 1,
    times: int = 1,
    model: bool = True,
) -> Iterator[Row]:
    """Rows of the networks, real ones and predicted ones.

    Args:
        networks: by name.
        ranks: of real runs.
        schemes: "bgv", exact scores, modulo several t; "ckks".
        images: how many are encrypted together, of real runs and of predictions; by default others for each.
        link: Mbit a second of the client: weights come packed where it is slow. By default 100, and of predictions also
            one over which they come one by one.
        threads: of a rank.
        rounds: processes of each, in turns.
        times: runs of a process, more where they are short; of one alone, the first is what counts.
        model: predictions too.

    Raises:
        MeasurementError: a run failed, sent other than planned messages, or computed something else than one process.
        ValueError: there is no such network or scheme.
    """
    for given, known, what in ((networks, tuple(NETWORKS), "network"), (schemes, SCHEMES, "scheme")):
        for one in given:
            if one not in known:
                raise ValueError(f"{what}: expected {' or '.join(known)}, got {one!r}")
    _core.set_threads(threads)
    here = network_here() if max(ranks, default=1) > 1 else Network(0.0, 0.0)
    if max(ranks, default=1) > 1:
        yield network_row("network of this machine", here)
    for name in networks:
        for scheme in schemes:
            for count in (images or (IMAGES[name],)) if ranks else ():
                slow = LINK if link is None else link
                often = (rounds, times)
                yield from real_rows(NETWORKS[name], scheme, count, ranks, here, slow, threads, often)
    if not model:
        return
    yield network_row("network of the model", PAPERS)
    machine = machine_of_predictions()
    for name in networks:
        ours: list[Row] = []
        for scheme in schemes:
            sizes = images or MODEL_IMAGES[name, scheme]
            links = (LINK, FAST_LINK) if link is None else (link,)
            for found in predicted_rows(NETWORKS[name], scheme, sizes, machine, links, threads):
                ours.append(found)
                yield found
        if "bgv" in schemes:
            beside = [one for one in ours if one["algorithm"] == "features bgv"]
            yield from model_rows(name, NETWORKS[name].pixels, machine, threads, beside)


def real_rows(
    network: SecretNetwork,
    scheme: str,
    images: int,
    ranks: Sequence[int],
    link_of_ranks: Network,
    link: float,
    threads: int,
    often: tuple[int, int],
    **options: Any,
) -> Iterator[Row]:
    """A network on each number of ranks, by the same files."""
    rounds, times = often
    values = network.values(images, scheme == "bgv")
    program = network.program(images, scheme, link, values, threads=threads, **options)
    processors = int(_core.processors())
    with tempfile.TemporaryDirectory(prefix="cipherblas-bench-") as folder:
        case = f"{network.name}, {images} images"
        on = OnRanks(program, Path(folder), threads, times, values=values, case=case)
        del values
        runs: dict[int, list[dict[str, Any]]] = {count: [] for count in ranks}
        for _ in range(rounds):
            for count in ranks:
                runs[count].append(on.run(count))
        error = on.checked()
        base, planned = (
            Timing.of([one["seconds"] for one in runs[ranks[0]]]),
            on.predicted(ranks[0], link_of_ranks),
        )
        for count in ranks:
            timing = Timing.of([one["seconds"] for one in runs[count]])
            predicted = on.predicted(count, link_of_ranks)
            sent = check_sent(case, predicted, runs[count])
            yield on.row(
                timing,
                predicted,
                planned,
                algorithm=f"features {scheme}",
                error=error,
                **_fields(network, program, images, link),
                oversubscribed=count * threads > processors,
                messages=sent.messages,
                message_bytes=sent.nbytes,
                speedup=base.seconds / timing.seconds,
                first_seconds=Timing.of([one["first_seconds"] for one in runs[count]]).seconds,
                peak_bytes=max(one["peak_bytes"] for one in runs[count]),
                **_layers(network, least_run(runs[count])["nodes"]),
                **stages(least_of(runs[count]), least_of(runs[ranks[0]])),
            )


def _fields(network: SecretNetwork, program: Program, images: int, link: float) -> Row:
    """Of a program."""
    plan = program.plan
    samples = plan.parameters.n // (1 if program.exact else 2)
    return {
        "images": images,
        "sample_blocks": -(-images * (network.places or 1) // samples),
        "link": link,
        "weights": "packed" if _packed(program) else "one by one",
        "plain_moduli": len(plan.moduli) or None,
        "predicted_error": plan.error,
        "download_bytes": plan.result_bytes,
        "weight_bytes": sum(_upload(program, name) for name in NAMES[1:]),
    }


def _packed(program: Program) -> bool:
    """Whether weights come as coefficients."""
    return any(choice.options.get("each") for choice in program.plan.decided.choices.values())


def _upload(program: Program, name: str) -> int:
    params = program.plan.parameters
    return sum(
        one.form.upload(one.basis.words(params), params.n, one.public_key).upload_bytes
        for one in program.inputs_of(name)
    )


def _layers(network: SecretNetwork, nodes: Iterable[Mapping[str, Any]]) -> Row:
    """Seconds of rank 0, which has as many blocks as any, by layer."""
    found = dict.fromkeys(LAYERS, 0.0)
    for one in nodes:
        found[network.layer_of(one["op"], one["title"])] += one["seconds"]
    return {f"{name}_seconds": seconds for name, seconds in found.items()}


def predicted_rows(
    network: SecretNetwork,
    scheme: str,
    sizes: Sequence[int],
    machine: Machine,
    links: Sequence[float],
    threads: int,
    ranks: Sequence[int] = MODEL_RANKS,
) -> Iterator[Row]:
    """To 64 ranks, by runs on shapes; for a further link where weights come otherwise."""
    ways = set[tuple[int, str]]()
    for images, link in itertools.product(sizes, links):
        budgets: dict[str, Any] = {"upload_budget": UNLIMITED, "memory_budget": UNLIMITED}
        program = network.program(images, scheme, link, threads=threads, **budgets)
        fields = _fields(network, program, images, link)
        if (images, fields["weights"]) in ways:
            continue
        ways.add((images, fields["weights"]))
        plans: dict[int, RankPlan] = {}
        for count in ranks:
            taking = min(count, fields["sample_blocks"])  # others have nothing to do
            if taking not in plans:
                plans[taking] = on_ranks(program, taking, PAPERS, machine=machine, threads=threads)
            found = plans[taking]
            yield row(
                BENCH,
                f"{network.name} model, {images} images",
                algorithm=f"features {scheme}",
                params=params_fields(program.plan.parameters),
                threads=threads,
                ranks=count,
                ranks_taking_part=taking,
                **fields,
                predicted_seconds=found.total,
                predicted_compute=max(found.seconds),
                predicted_communication=max(found.communication),
                predicted_speedup=found.speedup,
                messages=sum(one.sent.messages for one in found.runs),
                message_bytes=sum(one.sent.nbytes for one in found.runs),
                predicted_peak_bytes=max(found.peak_bytes),
            )
