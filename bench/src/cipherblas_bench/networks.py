"""Whole encrypted networks from files: what an image takes, layer by layer, and how its scores differ from those of the
network in the clear.

The first image is told apart: in its run weights and masks are encoded, and memory is new. Networks run one after the
other in this process; memory of one is given back before the next.
"""

from __future__ import annotations

import gc
import math
import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import finite_array, shape_text
from cipherblas.common.errors import DTypeError, ParameterError, RangeError, ShapeError
from cipherblas.common.progress import Progress, Tell
from cipherblas.lang.facts import facts_of
from cipherblas.lang.polynomials import Polynomial
from cipherblas.networks.network import INPUT, TrainedNetwork, in_batches
from cipherblas.networks.network_check import NetworkRuns
from cipherblas.planner.plan.plan import Plan
from cipherblas.roles.program import Program
from cipherblas.runtime.listing import NodeSeconds
from cipherblas_bench.harness import Row, Timing, params_fields, peak_memory, row

Array = NDArray[np.float64]
BENCH = "nn --models"
IMAGES = 3  # the first one apart
SCORE_DIGITS = 4  # behind the point
# Operations → what their nodes are counted as; the product of two encrypted values is part of a function.
KINDS = {
    "conv2d": "convolution",
    "matmul": "linear",
    "polynomial": "activation",
    "gated": "activation",
    "refresh": "refresh",
    "refresh_sine": "refresh",
}
ACTIVATION, OTHER = "activation", "other"
KIND_NAMES = (*dict.fromkeys(KINDS.values()), OTHER)


class PublishedSeconds(NamedTuple):
    """Seconds of one image: of convolutions, of products W·x, of the whole network."""

    convolution: float
    linear: float
    total: float


# The networks for CIFAR-10 of MetaKernel's Table 7 (source: `nn_shapes`), by their names.
PUBLISHED_IN = "Table 7"
PUBLISHED_SHAPE, PUBLISHED_CLASSES = (3, 32, 32), 10
PUBLISHED = {
    "resnet20": PublishedSeconds(107.05, 1.23, 1070.37),
    "squeezenet": PublishedSeconds(240.92, 3.17, 1359.2),
    "alexnet": PublishedSeconds(78.38, 55.72, 995.89),
    "vgg11": PublishedSeconds(66.82, 4.91, 757.19),
    "mobilenet": PublishedSeconds(101.52, 10.22, 1662.27),
}
PUBLISHED_NOTE = (
    "published: one thread of another machine with 1 TB of memory, another library, parameters and precision; weights "
    "of its own"
)


@dataclass(frozen=True)
class NetworkInputs:
    """What networks are measured on, as they take it.

    Attributes:
        images: (n, …), to be encrypted one by one, or by batches.
        labels: the right classes (n,), where they are known.
        samples: (m, …), by which the program is planned; None for bounds.
    """

    images: Array
    labels: NDArray[Any] | None = None
    samples: Array | None = None

    def check(self, name: str, network: TrainedNetwork) -> None:
        """Refuse what is not for a network, before anything is planned.

        Raises:
            ShapeError: images or samples of another shape, or none; another number of labels. DTypeError: no real
                numbers, or labels that are not whole. RangeError: numbers that are not finite, or classes that the
                network does not have.
        """
        for what, values in (("images", self.images), ("samples", self.samples)):
            if values is None:
                continue
            given = finite_array(values, f"the {what}", (len(network.shape) + 1,))
            if given.shape[1:] != network.shape:
                raise ShapeError(
                    f"The {what} are no inputs of {name}.",
                    expected=f"any number of {shape_text(network.shape)}",
                    got=shape_text(given.shape),
                )
        if self.labels is not None:
            _check_labels(name, np.asarray(self.labels), len(self.images), math.prod(network.scores))


def _check_labels(name: str, labels: NDArray[Any], count: int, classes: int) -> None:
    if labels.dtype.kind not in "iu":
        raise DTypeError("Labels are whole numbers.", expected="integers", got=f"dtype {labels.dtype}")
    if labels.shape != (count,):
        raise ShapeError("There is one label for each image.", expected=(count,), got=labels.shape)
    if labels.min() < 0 or labels.max() >= classes:
        raise RangeError(
            f"A label is none of the classes of {name}.",
            expected=f"0 to {classes - 1}",
            got=f"{labels.min()} to {labels.max()}",
        )


def run(
    networks: Mapping[str, TrainedNetwork],
    inputs: NetworkInputs,
    *,
    threads: int = 1,
    weight_budget: int | None = None,
    progress: Tell | None = None,
    **options: Any,
) -> Iterator[Row]:
    """Rows of `bench nn --models`, as they are measured: one for each network.

    Args:
        networks: by name.
        threads: of client and server.
        weight_budget: as of `Program.server`.
        progress: told what is done now.
        **options: of `TrainedNetwork.compile`: error or agreement, batch, degree, ring_degree, … Of batches all seconds
            are divided by the number of their images, but those of the first run.

    Raises:
        ParameterError: there is no network, or neither error nor agreement. Others as of `NetworkInputs.check`.
    """
    import cipherblas._core as _core

    if not networks:
        raise ParameterError("There is no network to measure.", expected="a network or more", got="none")
    if (options.get("error") is None) == (options.get("agreement") is None):
        raise ParameterError(
            "A network is planned for the error of its scores or for the agreement of its labels.",
            expected="one of error and agreement",
            got="none" if options.get("error") is None else "both",
        )
    for name, network in networks.items():
        inputs.check(name, network)
    _core.set_threads(threads)
    options = {"threads": threads, **options}
    for name, network in networks.items():
        measured = _Measured(name, network, inputs, weight_budget, progress or (lambda what: None))
        yield measured.row(options)
        gc.collect()
        _core.trim_pool()


@dataclass
class _Runs:
    """Of the images, one after the other, or of batches.

    Attributes:
        seconds: of an image of each run.
        processor: the same of the processor.
        kinds: the same by kind of layer.
    """

    scores: list[Array] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    kinds: list[Mapping[str, float]] = field(default_factory=list)
    encrypting: list[float] = field(default_factory=list)
    decrypting: list[float] = field(default_factory=list)
    encoding_seconds: float = 0.0
    first_run_seconds: float = 0.0
    upload_bytes: int = 0
    download_bytes: int = 0


class _Measured:
    """One network: planned, given keys, and run on every image."""

    def __init__(
        self,
        name: str,
        network: TrainedNetwork,
        inputs: NetworkInputs,
        weight_budget: int | None,
        tell: Tell,
    ) -> None:
        self.name, self.network, self.inputs = name, network, inputs
        self._weight_budget = weight_budget
        self._tell = tell

    def _said(self, what: str) -> None:
        self._tell(f"{self.name}: {what}")

    def _counted(self, what: str) -> Progress:
        """Progress that is told in percent."""
        return lambda done, total: self._said(f"{what}, {100 * done // max(total, 1)} %")

    def row(self, options: Mapping[str, Any]) -> Row:
        """What was measured."""
        start = time.perf_counter()
        with peak_memory() as planning:
            program = self.network.compile(
                self.inputs.samples, progress=lambda what: self._said(f"planning, {what}"), **options
            )
        stages = {"plan_seconds": time.perf_counter() - start}
        batch = options.get("batch")
        inside = self._inside(program, batch)
        with peak_memory() as peak:
            start = time.perf_counter()
            client = program.client()
            keys = client.evaluation_keys(self._counted("making keys"))
            stages["keygen_seconds"] = time.perf_counter() - start
            server = program.server(keys, weight_budget=self._weight_budget)
            runs = self._run(self.inputs.images[inside], batch, client, server)
        plan, later = program.plan, slice(1, None)
        return row(
            BENCH,
            self.name,
            params=params_fields(plan.parameters),
            algorithm=plan.algorithm,
            threads=options["threads"],
            batch=batch,
            **_seconds_of(runs, later),
            **self._compared(inside, runs),
            rotations=plan.counts.rotations,
            products=plan.counts.products,
            plaintexts=plan.counts.plain_products,
            refreshed_ciphertexts=refreshed_ciphertexts(plan),
            key_bytes=plan.key_bytes,
            upload_bytes=runs.upload_bytes,
            download_bytes=runs.download_bytes,
            stored_bytes=plan.counts.stored_bytes,
            peak_bytes=peak.bytes,
            plan_peak_bytes=planning.bytes,
            predicted_seconds=plan.seconds / (batch or 1),
            predicted_error=plan.error,
            predicted_peak_bytes=plan.peak_bytes,
            degree=degree_of(program),
            samples=None if self.inputs.samples is None else len(self.inputs.samples),
            asked_error=options.get("error"),
            asked_agreement=options.get("agreement"),
            **stages,
            encrypt_seconds=statistics.median(runs.encrypting),
            decrypt_seconds=statistics.median(runs.decrypting),
            encode_seconds=runs.encoding_seconds,
            first_run_seconds=runs.first_run_seconds,
            **self._published(runs.seconds[later] or runs.seconds),
        )

    def _inside(self, program: Program, batch: int | None) -> list[int]:
        """The images that stay in the ranges that were planned; of others nothing is promised.

        Raises:
            RangeError: there is none.
        """
        found, count = list[int](), len(self.inputs.images)
        for number, image in enumerate(self.inputs.images):
            self._said(f"looking for images in range, {number + 1} of {count}")
            if all(one.inside for one in program.check({INPUT: in_batches(image[None], batch)[0]})):
                found.append(number)
        if not found:
            raise RangeError(
                f"No image stays in the ranges that {self.name} was planned for.",
                expected="images like the samples",
                got=f"{count} outside of the ranges",
                advice=("--samples of images like these", "a larger --sample-count"),
            )
        return found

    def _run(self, images: Array, batch: int | None, client: Any, server: Any) -> _Runs:
        found, given, each = _Runs(), in_batches(images, batch), batch or 1
        for number, image in enumerate(given):
            what = f"{'batch' if batch else 'image'} {number + 1} of {len(given)}"
            self._said(what)
            start = time.perf_counter()
            encrypted = client.encrypt({INPUT: image})
            found.encrypting.append((time.perf_counter() - start) / each)
            start, processor = time.perf_counter(), time.process_time()
            result = server.run(encrypted, progress=self._counted(what))
            found.processor.append((time.process_time() - processor) / each)
            if not number:
                found.first_run_seconds = time.perf_counter() - start
                found.encoding_seconds = server.last.encoding_seconds
            found.seconds.append(server.last.seconds / each)
            kinds = seconds_by_kind(server.last.node_seconds)
            found.kinds.append({kind: seconds / each for kind, seconds in kinds.items()})
            start = time.perf_counter()
            found.scores += list(client.decrypt(result).reshape(each, -1))
            found.decrypting.append((time.perf_counter() - start) / each)
            found.upload_bytes, found.download_bytes = encrypted[INPUT].nbytes // each, result.nbytes // each
        del found.scores[len(images) :]  # a last batch is filled with others
        return found

    def _compared(self, inside: Sequence[int], runs: _Runs) -> Row:
        """The scores beside those of the network in the clear."""
        labels = None if self.inputs.labels is None else self.inputs.labels[inside]
        exact = self.network(self.inputs.images[inside]).reshape(len(inside), -1)
        ours, clear = (NetworkRuns.of(scores, exact, labels) for scores in (np.stack(runs.scores), exact))
        return {
            "images": len(inside),
            "outside": len(self.inputs.images) - len(inside),
            "error": ours.largest,
            "rms_error": ours.rms,
            "agreement": ours.agreement,
            "accuracy": ours.accuracy,
            "clear_accuracy": clear.accuracy,
            "scores": _rounded(runs.scores),
            "clear_scores": _rounded(exact),
        }

    def _published(self, seconds: Sequence[float]) -> Row:
        figures = published_of(self.name, self.network)
        if figures is None:
            return {}
        return {
            "published_seconds": figures.total,
            "published_convolution_seconds": figures.convolution,
            "published_linear_seconds": figures.linear,
            "published_in": PUBLISHED_IN,
            "times_published": statistics.median(seconds) / figures.total,
            "note": PUBLISHED_NOTE,
        }


def _rounded(scores: Sequence[Array] | Array) -> list[list[float]]:
    """Scores of images for rows that people read."""
    return [[round(float(score), SCORE_DIGITS) for score in image] for image in scores]


def seconds_by_kind(nodes: Sequence[NodeSeconds]) -> dict[str, float]:
    """Seconds of each of `KIND_NAMES`, which together are those of all nodes."""
    found = dict.fromkeys(KIND_NAMES, 0.0)
    for node in nodes:
        product = node.op == "multiply" and node.secret == 2
        found[ACTIVATION if product else KINDS.get(node.op, OTHER)] += node.seconds
    return found


def _seconds_of(runs: _Runs, later: slice) -> Row:
    """Of the first image, and medians of the later ones."""
    kinds = runs.kinds[later] or runs.kinds
    return {
        "timing": Timing.of(runs.seconds[later]) if runs.seconds[later] else None,
        "cpu_seconds": statistics.median(runs.processor[later]) if runs.seconds[later] else None,
        "first_seconds": runs.seconds[0],
        **{f"{kind}_seconds": statistics.median(one[kind] for one in kinds) for kind in KIND_NAMES},
    }


def refreshed_ciphertexts(plan: Plan) -> int:
    """How many ciphertexts a run refreshes."""
    return sum(node.ciphertexts for node in plan.nodes if node.counts.modulus_raises)


def degree_of(program: Program) -> int | None:
    """The largest degree of the polynomials that stand for functions; None without any."""
    written = program.expression if program.written is None else program.written
    polynomials = (node for node in facts_of(written).order if isinstance(node, Polynomial))
    return max((node.degree for node in polynomials), default=None)


def published_of(name: str, network: TrainedNetwork) -> PublishedSeconds | None:
    """The published figures of a network that has the name, the input and the classes of one in the table."""
    if network.shape != PUBLISHED_SHAPE or math.prod(network.scores) != PUBLISHED_CLASSES:
        return None
    found = [one for one in PUBLISHED if _named(one).search(name.lower())]
    return PUBLISHED[found[0]] if len(found) == 1 else None


def _named(network: str) -> re.Pattern[str]:
    """Of names of files: resnet20, ResNet-20, ace_resnet20_cifar10, but neither wide_resnet200 nor a kin of it."""
    return re.compile(r"(?<![a-z])" + re.sub(r"(\d+)", r"[-_]?\1", network) + r"(?!\d)")
