"""The command: plan two jobs, run them, compare with NumPy, draw a picture."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cipherblas.cli.demo.data import PIXEL_BOUND, Digits, load_digits
from cipherblas.cli.demo.flow import KEYS, RESULT, Job
from cipherblas.cli.options import Debug, Json, Quiet, Threads, output_option, use_threads, without_none
from cipherblas.common.errors import PrecisionError
from cipherblas.common.process import peak_bytes
from cipherblas.crypto import files
from cipherblas.lang.operands import public, secret
from cipherblas.planner.predict.stages import Stages
from cipherblas.report import Display, duration, machine_line, plan_table, print_json, size
from cipherblas.report.figures import check_drawing
from cipherblas.report.picture import DemoPicture, draw
from cipherblas.report.tables import comparison_table, stdout_console
from cipherblas.roles.program import compile


def demo(
    output: Annotated[Path, output_option("--output", "-o", help="The picture to write.")] = Path(
        "cipherblas-demo.png"
    ),
    queries: Annotated[int, typer.Option(min=10, max=600, help="Images to recognise.")] = 256,
    gallery: Annotated[int, typer.Option(min=10, max=900, help="Known images to compare them with.")] = 512,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Recognise handwritten digits that the server cannot see, and compare with NumPy.

    Encrypted × encrypted: similarities of encrypted images with encrypted known images, queries @ gallery.T; the
    client reads the nearest neighbours. Clear × encrypted: a public classifier on the same images, weights @ pixels.
    The server is a process of its own and gets files without secrets.

    \b
    Examples:
      cipherblas demo -o picture.png
    """
    start = time.perf_counter()
    use_threads(threads)
    display = Display(quiet=quiet)
    files.check_writable(output)
    with display.progress("loading the digits"):
        check_drawing()
        digits = load_digits(queries, gallery)
    jobs = _plan(digits, display, threads)
    console = stdout_console()
    if not json:
        console.print(f"\n[bold]cipherblas demo[/] on {machine_line()}", highlight=False)
        for job in jobs:
            console.print(plan_table(job.program.explain(), f"Plan: {job.title}"))
    with tempfile.TemporaryDirectory(prefix="cipherblas-demo-") as folder:
        for index, job in enumerate(jobs):
            job.run(Path(folder) / f"server{index}", display, threads)
    recognised = _recognised(digits, jobs)
    with display.progress("drawing"):
        draw(output, _picture(digits, jobs, recognised))
    wall = time.perf_counter() - start
    if json:
        print_json(_summary(jobs, recognised, output, wall))
    else:
        console.print(_measured(jobs))
        for line in recognised.values():
            console.print(f"  {line}", markup=False)
        console.print(f"\nPicture: [bold]{output.resolve()}[/]   ({duration(wall)} in all)", soft_wrap=True)
    for job in jobs:
        worst = float(job.errors.max())
        if worst > job.program.plan.error_target:
            raise PrecisionError(
                f"{job.title}: an entry is too far from NumPy's.",
                expected=job.program.plan.error_target,
                got=worst,
            )


def _plan(digits: Digits, display: Display, threads: int | None) -> list[Job]:
    options = without_none(threads=threads)
    count, features = digits.queries.shape
    known = len(digits.gallery)
    limit = float(np.abs(digits.weights).max())
    jobs = []
    with display.telling("planning") as tell:
        start = time.perf_counter()
        similarity: Any = compile(
            lambda queries, gallery: queries @ gallery.T,
            {"queries": secret(count, features), "gallery": secret(known, features)},
            progress=tell,
            **options,
        )
        planned = time.perf_counter()
        scores: Any = compile(
            lambda weights, pixels: weights @ pixels,
            {
                "weights": public(len(digits.weights), features, bound=limit),
                "pixels": secret(features, count, bound=PIXEL_BOUND),
            },
            progress=tell,
            **options,
        )
        ended = time.perf_counter()
    jobs.append(
        Job("encrypted × encrypted", similarity, {"queries": digits.queries, "gallery": digits.gallery})
    )
    jobs.append(Job("clear × encrypted", scores, {"weights": digits.weights, "pixels": digits.pixels}))
    jobs[0].seconds["plan"], jobs[1].seconds["plan"] = planned - start, ended - planned
    return jobs


def _recognised(digits: Digits, jobs: list[Job]) -> dict[str, str]:
    """Describe the decrypted numbers in words."""
    similarity, scores = jobs
    assert similarity.result is not None and similarity.expected is not None
    assert scores.result is not None and scores.expected is not None

    def share(found: Any) -> str:
        return f"{100 * float(np.mean(found == digits.query_digits)):.1f} %"

    nearest = share(digits.gallery_digits[similarity.result.argmax(axis=1)])
    nearest_clear = share(digits.gallery_digits[similarity.expected.argmax(axis=1)])
    linear, linear_clear = share(scores.result.argmax(axis=0)), share(scores.expected.argmax(axis=0))
    return {
        "neighbour": f"nearest neighbour, both sides encrypted: {nearest} recognised (NumPy: {nearest_clear})",
        "classifier": f"public classifier, encrypted images: {linear} recognised (NumPy: {linear_clear})",
    }


def _measured(jobs: list[Job]) -> Any:
    def shapes(job: Job) -> str:
        return " · ".join(f"{matrix.shape[0]}x{matrix.shape[1]}" for matrix in job.operands.values())

    def operands(job: Job, suffix: str) -> str:
        total = sum(count for name, count in job.files.items() if name.endswith(suffix) and name != RESULT)
        return size(total) if total else "-"

    cells: dict[str, Callable[[Job], str]] = {
        "operands": shapes,
        "algorithm": lambda job: job.program.plan.algorithm,
        "plan": lambda job: duration(job.seconds["plan"]),
        "make keys": lambda job: duration(job.seconds["keys"]),
        "encrypt": lambda job: duration(job.seconds["encrypt"]),
        "server computes": lambda job: duration(job.server["seconds"]),
        "  predicted": lambda job: duration(_first_evaluation(job.program.plan.stages)),
        "server in all (start, files, keys)": lambda job: duration(job.seconds["server"]),
        "decrypt": lambda job: duration(job.seconds["decrypt"]),
        "NumPy, in the clear": lambda job: duration(job.seconds["NumPy"]),
        "to the server: evaluation keys": lambda job: size(job.files[KEYS]),
        "to the server: ciphertexts": lambda job: operands(job, ".ct"),
        "to the server: clear operand": lambda job: operands(job, ".npy"),
        "from the server: ciphertexts": lambda job: size(job.files[RESULT]),
        "server's peak memory": lambda job: size(job.server["peak_bytes"]),
        "largest error": lambda job: f"{job.errors.max():.2g}",
        "  predicted, asked": lambda job: (
            f"{job.program.plan.error:.2g}, {job.program.plan.error_target:.2g}"
        ),
        "  relative to max|A|·max|B|·k": lambda job: f"{job.errors.max() / job.bound:.2g}",
    }
    rows = [[name, *(cell(job) for job in jobs)] for name, cell in cells.items()]
    return comparison_table("Measured", [job.title for job in jobs], rows)


def _first_evaluation(stages: Stages) -> float:
    """Seconds of the server in a first run, masks included."""
    return stages.encode + stages.evaluate


def _summary(jobs: list[Job], recognised: dict[str, str], output: Path, wall: float) -> dict[str, Any]:
    return {
        "machine": machine_line(),
        "seconds": wall,
        "client_peak_bytes": peak_bytes(),
        "picture": str(output.resolve()),
        "recognised": recognised,
        "jobs": [
            {
                "title": job.title,
                "plan": job.program.plan.to_dict(),
                "seconds": job.seconds,
                "files": job.files,
                "server": job.server,
                "error": float(job.errors.max()),
                "error_target": job.program.plan.error_target,
                "relative_error": float(job.errors.max() / job.bound),
            }
            for job in jobs
        ],
    }


def _picture(digits: Digits, jobs: list[Job], recognised: dict[str, str]) -> DemoPicture:
    similarity, scores = jobs
    assert similarity.result is not None and scores.result is not None and similarity.ciphertext is not None
    return DemoPicture(
        queries=digits.queries,
        gallery=digits.gallery,
        query_digits=digits.query_digits,
        gallery_digits=digits.gallery_digits,
        ciphertext=similarity.ciphertext,
        similarity=similarity.result,
        similarity_errors=similarity.errors / similarity.bound,
        weights=digits.weights,
        scores=scores.result,
        scores_errors=scores.errors / scores.bound,
        allowed=similarity.program.plan.precision,
        captions=(recognised["neighbour"], recognised["classifier"]),
    )
