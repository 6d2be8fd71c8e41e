"""`cipherblas bench nn`: products W·x and convolutions, by our method and by the baselines; and whole networks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cipherblas.cli.options import Debug, Quiet, bytes_option, parse_normalisation, without_none
from cipherblas.lang.normalisation import Normalisation
from cipherblas.networks import TrainedNetwork, from_onnx
from cipherblas.report import Display
from cipherblas_bench.cli.bench import printed
from cipherblas_bench.cli.bench_options import JsonLines, OneThread, Seconds, Security
from cipherblas_bench.cli.images import load_images
from cipherblas_bench.networks import IMAGES, NetworkInputs

SAMPLES = 100


def nn(
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="KERNEL", help="Kernel, e.g. MVM1; repeatable.", show_default="all"),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Baseline on the same engine; repeatable; none for none.",
            show_default="helib-bsgs fhelipe",
        ),
    ] = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Count operations of all methods; nothing is computed.")
    ] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Print the patterns of the paper itself; nothing is computed.")
    ] = False,
    published_ring: Annotated[
        bool,
        typer.Option("--published-ring", help="Run all methods in a ring as near to the paper's as we get."),
    ] = False,
    limit: Annotated[
        float, typer.Option(help="Seconds beyond which a baseline is predicted instead of run.")
    ] = 600.0,
    models: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Run whole encrypted networks instead, a file of ONNX each; repeatable.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --models: images to encrypt, a .npz archive with images, and labels where they are known. "
            "Bytes are pixels (n, height, width, channels); other numbers are as the network takes them.",
            show_default=False,
        ),
    ] = None,
    image_count: Annotated[
        int | None,
        typer.Option(min=1, help="How many of them; the first is timed apart.", show_default=str(IMAGES)),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --models: other images, by which programs are planned, as --images.",
            show_default="none: bounds",
        ),
    ] = None,
    sample_count: Annotated[
        int | None, typer.Option(min=1, help="How many of them.", show_default=str(SAMPLES))
    ] = None,
    normalise: Annotated[
        Normalisation | None,
        typer.Option(
            metavar="MEAN:DEVIATION",
            parser=parse_normalisation,
            help="Taken out of the numbers of both files, as 127.5:63.75; of every channel as 120,115,105:60,58,60.",
            show_default="the network takes images as they are",
        ),
    ] = None,
    error: Annotated[
        float | None, typer.Option(help="With --models: largest error of a score.", show_default=False)
    ] = None,
    agreement: Annotated[
        float | None,
        typer.Option(
            help="Or the share of the samples whose label is that of the clear network.", show_default=False
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --models: images of one run. Seconds are those of one of them.",
            show_default="one by one",
        ),
    ] = None,
    degree: Annotated[
        int | None,
        typer.Option(
            help="With --models: of the polynomials that stand for functions.", show_default="as in import"
        ),
    ] = None,
    weight_budget: Annotated[
        int | None,
        bytes_option(
            "--weight-budget",
            "Memory for encoded weights, the others in a temporary file, from which each run reads them.",
            "half of what is available; kernels that do not fit are predicted",
        ),
    ] = None,
    memory_budget: Annotated[
        int | None,
        bytes_option(
            "--memory-budget",
            "With --models: as in `plan`; memory for weights is apart.",
            "four fifths of what is available",
        ),
    ] = None,
    ring_degree: Annotated[
        int | None, typer.Option(help="Force the ring degree N.", show_default="the fastest")
    ] = None,
    security: Security = None,
    threads: OneThread = 1,
    seconds: Seconds = 2.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure MetaKernel's products W·x and convolutions, by our method and by baselines on the same engine; or, with
    --models, whole networks: an image each time, layer by layer, and its scores beside those in the clear.

    \b
    Examples:
      cipherblas bench nn --case MVM1 --case Conv4
      cipherblas bench nn --counts
      cipherblas bench nn --published
      cipherblas bench nn --published-ring --limit 60
      cipherblas bench nn --published-ring --case MVM1 --baseline helib-bsgs --limit 3600 --weight-budget 6GiB
      cipherblas bench nn --models network.onnx --images test.npz --samples train.npz --error 2 --json
    """
    from cipherblas_bench import run_networks, run_nn, run_nn_counts, run_nn_published

    display = Display(quiet=quiet)
    given = without_none(
        images=images,
        image_count=image_count,
        samples=samples,
        sample_count=sample_count,
        normalise=normalise,
    )
    planned = without_none(
        error=error,
        agreement=agreement,
        batch=batch,
        degree=degree,
        memory_budget=memory_budget,
    )
    stored = without_none(weight_budget=weight_budget)
    if models:
        if case or baseline or counts or published or published_ring:
            raise typer.BadParameter(
                "takes none of --case, --baseline, --counts, --published, --published-ring",
                param_hint="--models",
            )
        networks, inputs = _read(models, display, **given)
        options = planned | stored | without_none(ring_degree=ring_degree, security=security)
        printed(
            lambda tell: run_networks(networks, inputs, threads=threads, progress=tell, **options),
            *(json, display),
        )
        return
    if given or planned:
        name = next(iter(given | planned)).replace("_", "-")
        raise typer.BadParameter("needs --models", param_hint=f"--{name}")
    if counts + published + published_ring > 1:
        raise typer.BadParameter("one of --counts, --published, --published-ring", param_hint="--published")
    if counts or published:
        if baseline or stored:
            raise typer.BadParameter("operations are counted for all of them", param_hint="--baseline")
        counted = run_nn_counts if counts else run_nn_published
        printed(counted(case or ()), json, display)
        return
    if published_ring and (ring_degree or security):
        raise typer.BadParameter("takes neither --ring-degree nor --security", param_hint="--published-ring")
    options = without_none(
        security=security,
        ring_degree=ring_degree,
        baselines=baseline and [name for name in baseline if name != "none"],
        published_ring=published_ring or None,
    )
    rows = run_nn(case or (), threads=threads, budget=seconds, limit=limit, **stored, **options)
    printed(rows, json, display)


def _read(
    models: Sequence[Path],
    display: Display,
    images: Path | None = None,
    image_count: int = IMAGES,
    samples: Path | None = None,
    sample_count: int = SAMPLES,
    normalise: Normalisation | None = None,
) -> tuple[dict[str, TrainedNetwork], NetworkInputs]:
    """The networks of files, by the names of these; and what they are measured on."""
    names = [path.stem for path in models]
    if len(set(names)) < len(names):
        raise typer.BadParameter(
            f"expected files of different names, got {', '.join(names)}", param_hint="--models"
        )
    if images is None:
        raise typer.BadParameter("needs --images", param_hint="--models")
    networks = {path.stem: from_onnx(path, normalise=normalise) for path in models}
    shape = networks[names[0]].shape
    with display.progress("reading the images"):
        found = load_images(images, shape, image_count)
        others = None if samples is None else load_images(samples, shape, sample_count).images
    return networks, NetworkInputs(found.images, found.labels, others)
