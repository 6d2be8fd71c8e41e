"""What follows from the rows of `bench e2dm-study`: tables of seconds, ratios, fits and their extrapolation."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cipherblas_bench.report import fits

Row = Mapping[str, Any]
FITTED = 19  # the largest d that curves are fitted to, as in the study; larger ones tell how far they hold
FAR = 10_000  # where crossings are looked for
STAGES = {
    "encode_sigma": "encode U_σ",
    "encode_tau": "encode U_τ",
    "encode_v": "encode all V_k",
    "encode_w": "encode all W_k",
    "encode_inputs": "encode A and B",
    "encrypt": "encrypt A and B, a vector each",
    "step_1_1": "step 1.1, U_σ",
    "step_1_2": "step 1.2, U_τ",
    "step_2": "step 2, V_k and W_k",
    "step_3": "step 3, products",
    "decrypt": "decrypt",
    "decode": "decode",
    "encrypt_rows": "beside: encrypt A row by row",
}
MULTIPLIED = ("step_1_1", "step_1_2", "step_2", "step_3")  # of E2DM
BY_DIAGONALS = ("diagonals_rotate", "diagonals_multiply")  # of Halevi and Shoup's product
# The study's eleven figures, each of seconds and of ratios: stages that are added up; none for the total.
FIGURES: dict[str, tuple[str, ...]] = {
    "encode U_σ": ("encode_sigma",),
    "encode U_τ": ("encode_tau",),
    "encode all V_k": ("encode_v",),
    "encode all W_k": ("encode_w",),
    "encode A and B": ("encode_inputs",),
    "encrypt A row by row": ("encrypt_rows",),
    "encrypt A and B, a vector each": ("encrypt",),
    "multiply": MULTIPLIED,
    "decrypt": ("decrypt",),
    "decode": ("decode",),
    "total": (),
}
REFERENCES = ("openfhe", "seal")  # others are set against the first that is there; the study has PALISADE


@dataclass(frozen=True)
class Study:
    """Rows by library and d."""

    rows: dict[str, dict[int, Row]]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Study:
        """In the order of the rows; of two of one library and d the later one."""
        found: dict[str, dict[int, Row]] = {}
        for row in rows:
            found.setdefault(row["algorithm"], {})[row["d"]] = row
        return cls({name: dict(sorted(by_d.items())) for name, by_d in found.items()})

    @property
    def names(self) -> list[str]:
        return list(self.rows)

    @property
    def sizes(self) -> list[int]:
        return sorted(set().union(*self.rows.values()))

    @property
    def ours(self) -> str | None:
        """The best instruction set of ours."""
        return next((name for name in self.names if name.startswith("ours ")), None)

    @property
    def reference(self) -> str | None:
        """The library that the others are compared with."""
        return next((name for name in REFERENCES if name in self.rows), None)

    def seconds(self, name: str, stage: str | None = None) -> dict[int, float]:
        """Medians by d, of a stage or of all."""
        return {
            d: row["seconds"] if stage is None else row["stages"][stage]["seconds"]
            for d, row in self.rows[name].items()
        }

    def together(self, name: str, stages: Sequence[str]) -> dict[int, float]:
        """Medians of these stages, added up, by d, of the rows that have them; of all where there are none."""
        if not stages:
            return self.seconds(name)
        return {
            d: sum(row["stages"][stage]["seconds"] for stage in stages)
            for d, row in self.rows[name].items()
            if row["stages"].keys() >= set(stages)
        }

    def ratios(self, name: str, other: str, stage: str | None = None) -> dict[int, float]:
        """Seconds of `name` over those of `other`, by d."""
        first, second = self.seconds(name, stage), self.seconds(other, stage)
        return {d: first[d] / second[d] for d in first if d in second and second[d] > 0}

    def within(self, values: Mapping[int, float]) -> dict[int, float]:
        """The values of the study's d."""
        return {d: value for d, value in values.items() if d <= FITTED}

    def curves(self) -> dict[str, dict[int, fits.Fit]]:
        """Fits of the totals, by library and degree."""
        return {name: fits.fits(self.within(self.seconds(name))) for name in self.names}


def e2dm_markdown(rows: Iterable[Row]) -> str:
    """All tables, with headings."""
    study = Study.of(rows)
    parts = [
        ("Total", totals(study)),
        ("Ratios by stage", degradation(study)),
        ("Halevi and Shoup's product beside it", by_diagonals(study)),
        ("Fits", fitted(study)),
        ("Extrapolation", extrapolated(study)),
        *((f"Seconds: {title}", stage_seconds(study, stage)) for stage, title in STAGES.items()),
    ]
    return "\n".join(f"### {title}\n\n{text}\n" for title, text in parts if text)


def table(header: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def number(value: float, digits: int = 3) -> str:
    """With so many significant digits and no exponent."""
    text = f"{value:.{digits}g}"
    return f"{float(text):.12f}".rstrip("0").rstrip(".") if "e" in text else text


def totals(study: Study) -> str:
    """Milliseconds of the whole algorithm by d: median, mean ± deviation, runs; the peers over ours; the largest
    error."""
    ours = study.ours
    peers = [name for name in study.names if ours and not name.startswith("ours ")]
    header = [
        "d",
        *(f"{name}, ms" for name in study.names),
        *(f"{name} ÷ ours" for name in peers),
        "largest error",
    ]
    body = []
    for d in study.sizes:
        there = [by_d[d] for by_d in study.rows.values() if d in by_d]
        ratios = [study.ratios(name, ours).get(d) if ours else None for name in peers]
        body.append(
            [
                d,
                *(_total(study.rows[name].get(d)) for name in study.names),
                *("" if ratio is None else f"**{number(ratio)}**" for ratio in ratios),
                f"{max(row['error'] for row in there):.1g}",
            ]
        )
    return table(header, body)


def _total(row: Row | None) -> str:
    if row is None:
        return ""
    mean, deviation = 1e3 * row["seconds_mean"], 1e3 * row["seconds_deviation"]
    return f"{number(1e3 * row['seconds'])} ({number(mean)} ± {number(deviation, 2)}; {row['runs']})"


def stage_seconds(study: Study, stage: str) -> str:
    """Milliseconds of one stage by d: median and range."""

    def cell(name: str, d: int) -> str:
        row = study.rows[name].get(d)
        if row is None:
            return ""
        of = row["stages"][stage]
        return f"{number(1e3 * of['seconds'])} ({number(1e3 * of['min'], 2)} … {number(1e3 * of['max'], 2)})"

    body = ([d, *(cell(name, d) for name in study.names)] for d in study.sizes)
    return table(["d", *(f"{name}, ms" for name in study.names)], body)


def stages_at(study: Study, d: int) -> str:
    """Milliseconds of all stages at one d: medians."""
    names = [name for name in study.names if d in study.rows[name]]
    body = (
        [title, *(number(1e3 * study.rows[name][d]["stages"][stage]["seconds"]) for name in names)]
        for stage, title in STAGES.items()
    )
    return table([f"d = {d}", *(f"{name}, ms" for name in names)], body)


def by_diagonals(study: Study) -> str:
    """Halevi and Shoup's product beside E2DM, by d: ciphertexts, rotations, products of ciphertexts, and milliseconds
    of encryption, of the product and of decryption by each library. Empty where no row has it."""

    def cells(name: str, d: int) -> Iterator[str]:
        for ours, theirs in (
            (("encode_inputs", "encrypt"), ("diagonals_encrypt",)),
            (MULTIPLIED, BY_DIAGONALS),
            (("decrypt", "decode"), ("diagonals_decrypt",)),
        ):
            one, other = study.together(name, ours)[d], study.together(name, theirs)[d]
            yield f"{number(1e3 * one)} : {number(1e3 * other)} ({number(other / one, 2)})"

    body = [
        [d, name, f"2 : {2 * d}", f"{row['rotations']} : {d * (d - 1)}", f"{d} : {d * d}", *cells(name, d)]
        for d in study.sizes
        for name in study.names
        if (row := study.rows[name].get(d)) and row["stages"].keys() >= set(BY_DIAGONALS)
    ]
    header = ["d", "", "ciphertexts", "rotations", "products", "encrypt, ms", "multiply, ms", "decrypt, ms"]
    return table(header, body) if body else ""


def degradation(study: Study) -> str:
    """By stage, seconds over those of the reference at the d of the study: mean, least and largest with their d."""
    reference = study.reference
    if reference is None:
        return ""
    names = [name for name in study.names if name != reference]
    body = [
        [title, *(spread(study.within(study.ratios(name, reference, stage))) for name in names)]
        for stage, title in STAGES.items()
    ]
    body.append(["**total**", *(spread(study.within(study.ratios(name, reference))) for name in names)])
    return table([f"times {reference}", *names], body)


def spread(ratios: Mapping[int, float]) -> str:
    """Mean (least at its d … largest at its d)."""
    if not ratios:
        return ""
    least, largest = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    mean = statistics.fmean(ratios.values())
    return f"{number(mean)} ({number(ratios[least])} at {least} … {number(ratios[largest])} at {largest})"


def fitted(study: Study) -> str:
    """R^2 by degree, the cubic, its leading coefficient over that of the reference, and where the two cross."""
    curves = study.curves()
    if not any(curves.values()):
        return ""
    degrees = sorted(set().union(*curves.values()))
    header = [
        "",
        *(f"R², degree {degree}" for degree in degrees),
        "cubic, ms",
        "limit of the ratio",
        "crosses",
    ]
    body = [
        [
            name,
            *(f"{curve[degree].r2:.4f}" if degree in curve else "" for degree in degrees),
            _cubic(curve),
            *_beside_reference(study, curves, name),
        ]
        for name, curve in curves.items()
    ]
    least = fits.smallest_degree(curves.values())
    said = "No degree has" if least is None else f"Degree {least} is the least that has"
    note = f"{said} R² ≥ {fits.ENOUGH} for all. The limit and the crossings of cubics are those with {study.reference}."
    return f"{table(header, body)}\n\n{note}"


def _cubic(curve: Mapping[int, fits.Fit]) -> str:
    if 3 not in curve:
        return ""
    constant, first, second, third = (1e3 * value for value in curve[3].coefficients)
    return f"{number(third)} d³ {_signed(second)} d² {_signed(first)} d {_signed(constant)}"


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {number(abs(value))}"


def _beside_reference(
    study: Study, curves: Mapping[str, Mapping[int, fits.Fit]], name: str
) -> tuple[str, str]:
    reference = study.reference
    if reference is None or name == reference or 3 not in curves[name] or 3 not in curves[reference]:
        return "", ""
    mine, other = curves[name][3], curves[reference][3]
    crossed = fits.crossings(mine.polynomial, other.polynomial, min(study.sizes), FAR)
    limit = mine.coefficients[3] / other.coefficients[3]
    return number(limit), ", ".join(map(str, crossed)) or "nowhere"


def extrapolated(study: Study) -> str:
    """The seconds that lines and cubics fitted to the study's d give for larger ones, beside those measured there."""
    beyond = [d for d in study.sizes if d > FITTED]
    curves = study.curves()
    body = [
        [
            name,
            d,
            number(1e3 * seconds),
            *(_missed(curve, degree, d, seconds) for degree in (3, 1)),
        ]
        for name, curve in curves.items()
        if 3 in curve
        for d, seconds in study.seconds(name).items()
        if d in beyond
    ]
    return table(["", "d", "measured, ms", "the cubic says, ms", "the line says, ms"], body) if body else ""


def _missed(curve: Mapping[int, fits.Fit], degree: int, d: int, seconds: float) -> str:
    said = curve[degree](d)
    return f"{number(1e3 * said)} ({100 * (said / seconds - 1):+.0f} %)"
