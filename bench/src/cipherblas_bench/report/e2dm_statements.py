"""What the study of E2DM on SEAL and PALISADE states, and whether rows of `bench e2dm-study` bear it out.

Figures in the column "published" are those of the study's text, on its machine; its plots have no figures. What is of
its two operating systems has no counterpart here: rows are of one system.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cipherblas_bench.report import fits
from cipherblas_bench.report.e2dm_study import FAR, FITTED, Row, Study, number, spread, table

# Eq. 19 to 22: seconds of the whole algorithm.
PUBLISHED_CUBICS = {
    "SEAL-Windows": (0.14, -0.209, 2.315, 2.0),
    "SEAL-Linux": (0.403, -4.440, 23.516, -26.728),
    "PALISADE-Windows": (0.807, -14.28, 82.607, -110.15),
    "PALISADE-Linux": (0.147, -0.991, 7.588, -9.826),
}
PUBLISHED_AVERAGES = {"PALISADE-Windows": 1.28, "SEAL-Linux": 1.59, "SEAL-Windows": 1.67}
BAR, BAR_FROM = 10.0, 4  # ours is to be so many times faster than SEAL, from this d on
NEAR = 0.1  # an extrapolation that misses by no more than this part is called good


@dataclass(frozen=True)
class Statement:
    """One statement.

    Attributes:
        place: where it stands in the study.
        said: what it says.
        found: what the rows say.
        holds: whether they bear it out; None where they cannot tell.
    """

    place: str
    said: str
    found: str
    holds: bool | None


def statements(study: Study) -> list[Statement]:
    """All that the rows can tell of."""
    return [*_stages(study), *_fits(study), *_others(study)]


def statements_markdown(rows: Iterable[Row]) -> str:
    """The statements as a table."""
    verdicts = {True: "holds", False: "does not hold", None: "cannot be told"}
    body = ([one.place, one.said, one.found, verdicts[one.holds]] for one in statements(Study.of(rows)))
    return table(["in the study", "published", "here", ""], body)


def _stages(study: Study) -> list[Statement]:
    """SEAL over PALISADE, here over OpenFHE, both on Linux."""
    if not {"seal", "openfhe"} <= set(study.names):
        return []

    def stated(place: str, said: str, stage: str | None, test: Callable[[float], bool]) -> Statement:
        ratios = study.within(study.ratios("seal", "openfhe", stage))
        mean = statistics.fmean(ratios.values()) if ratios else 0.0
        return Statement(place, said, f"SEAL ÷ OpenFHE: {spread(ratios)}", test(mean) if ratios else None)

    slower, faster = (lambda mean: mean > 1.0), (lambda mean: mean < 1.0)
    return [
        stated("5.1, Fig. 1", "SEAL-Linux is the slowest to encode U_σ: above 1", "encode_sigma", slower),
        stated("5.1, Fig. 2", "the same of U_τ: above 1", "encode_tau", slower),
        stated(
            "5.2, Fig. 6", "SEAL-Linux takes 0.934 of the time of PALISADE-Linux to encrypt a matrix: below 1",
            "encrypt_rows", faster,
        ),
        stated("5.2, Fig. 7", "PALISADE-Linux is best at encrypting it as one vector: above 1", "encrypt", slower),
        stated(
            "5.4, Fig. 9", "SEAL-Linux is slowest to decrypt, 2.06 times as slow at 16 × 16: above 1", "decrypt", slower
        ),
        stated(
            "5.5, Fig. 10", "to decode takes others at least 69.6 times as long as PALISADE-Linux", "decode",
            lambda mean: mean >= 69.6,
        ),
        stated("5.6, Fig. 11", "SEAL-Linux takes 1.59 times as long in all: above 1", None, slower),
    ]  # fmt: skip


def _fits(study: Study) -> list[Statement]:
    found = []
    curves = study.curves()
    shared = [curve for curve in curves.values() if len(curve) == 6]
    if shared and len(shared) == len(curves):
        least = fits.smallest_degree(shared)
        r2 = min(curve[1].r2 for curve in shared)
        found.append(
            Statement(
                "6, Fig. 12",
                f"R² ≥ {fits.ENOUGH} for all from degree 3 on, and not before",
                f"from degree {least} on; the least R² of a line is {r2:.4f}",
                least == 3,
            )
        )
    if {"seal", "openfhe"} <= set(curves) and all(3 in curves[name] for name in ("seal", "openfhe")):
        seal, openfhe = curves["seal"][3], curves["openfhe"][3]
        limit = seal.coefficients[3] / openfhe.coefficients[3]
        found.append(
            Statement(
                "6",
                "the limit of SEAL-Linux over PALISADE-Linux is 2.741",
                f"of the cubics: {number(limit)}",
                None,
            )
        )
        crossed = fits.crossings(seal.polynomial, openfhe.polynomial, 2, FAR)
        found.append(
            Statement(
                "6",
                "PALISADE-Linux is best up to 104, SEAL-Windows from 105 on",
                f"the cubics of SEAL and OpenFHE cross at {', '.join(map(str, crossed)) or 'no d'}",
                None,
            )
        )
    beyond = [
        (abs(curve[3](d) / seconds - 1), name, d)
        for name, curve in curves.items()
        if 3 in curve
        for d, seconds in study.seconds(name).items()
        if d > FITTED
    ]
    if beyond:
        worst, name, d = max(beyond)
        found.append(
            Statement(
                "abstract, 8",
                "the cubics extrapolate with high precision to larger matrices",
                f"the worst misses by {100 * worst:.0f} %, of {name} at d = {d}",
                worst <= NEAR,
            )
        )
    return found


def _others(study: Study) -> list[Statement]:
    """The study's own figures against each other, and what is asked of ours."""
    cubics = {name: fits.cubic(coefficients) for name, coefficients in PUBLISHED_CUBICS.items()}
    reference = cubics["PALISADE-Linux"]
    means = {
        name: statistics.fmean(float(cubics[name](d) / reference(d)) for d in range(2, FITTED + 1))
        for name in PUBLISHED_AVERAGES
    }
    agree = all(abs(means[name] / said - 1) <= NEAR for name, said in PUBLISHED_AVERAGES.items())
    averages = ", ".join(f"{name} {said}" for name, said in PUBLISHED_AVERAGES.items())
    found = [
        Statement(
            "abstract, 5.6",
            f"on average {averages} times PALISADE-Linux",
            "means of the study's own cubics: "
            + ", ".join(f"{name} {mean:.2f}" for name, mean in means.items()),
            agree,
        )
    ]
    ours = study.ours
    if ours is not None and "seal" in study.rows:
        ratios = {d: ratio for d, ratio in study.ratios("seal", ours).items() if d >= BAR_FROM}
        if ratios:
            found.append(
                Statement(
                    "(ours)",
                    f"asked for: at least {BAR:g} times as fast as SEAL in all, from d = {BAR_FROM} on",
                    f"SEAL ÷ {ours}: {spread(ratios)}",
                    min(ratios.values()) >= BAR,
                )
            )
    return found
