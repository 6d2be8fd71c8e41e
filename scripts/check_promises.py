"""Check promises by samples: random deep programs, run encrypted on fresh inputs of the distribution of their samples.

    python scripts/check_promises.py --programs 300 --runs 4

Prints each program that errs by more than was promised, how many runs kept the promise, and how much larger the promise
is than the largest error that was found, at the median. On toy rings, without security: errors are those of any ring.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import cipherblas as cb

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.deep_programs import DeepProgram, deep_program

PRECISIONS = (1e-4, 1e-3, 1e-2, 1e-1, 0.5)  # the finest that a program is planned for
SAMPLES = (20, 50, 200)


def main() -> int:
    """The command; the exit status is 1 where more than one of 1,000 runs broke its promise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = runs = refused = 0
    ratios: list[float] = []
    for number in range(options.first, options.first + options.programs):
        found = checked(number, options.runs)
        if found is None:
            refused += 1
            continue
        good, ratio, text = found
        kept, runs = kept + good, runs + options.runs
        ratios.append(ratio)
        print(f"{number:4} {text}" + ("" if good == options.runs else "  BROKEN"), flush=True)
    print(
        f"{kept} of {runs} runs kept their promise; it was {np.median(ratios):.1f} times the largest error found, at "
        f"the median of {len(ratios)} programs; {refused} were refused"
    )
    return int(kept < runs - max(runs // 1000, 0))


def planned(program: DeepProgram, samples: Any) -> cb.Program | None:
    """The program at the finest precision that it can be planned for."""
    for precision in PRECISIONS:
        try:
            return cb.compile(
                program.function,
                program.operands,
                samples=samples,
                precision=precision,
                security=0,
                insecure=True,
                ring_degree=4096,
            )
        except cb.PrecisionError as error:
            last = error
    print(program.name, "refused:", str(last)[:200])
    return None


def checked(number: int, runs: int) -> tuple[int, float, str] | None:
    """Runs that kept the promise, the promise beside the largest error, and a line; None where it is refused."""
    program = deep_program(number)
    draws = np.random.default_rng([number, 1])
    plan = planned(program, program.samples(draws, SAMPLES[number % len(SAMPLES)]))
    if plan is None:
        return None
    client = plan.client()
    server = plan.server(client.evaluation_keys())
    good, largest = 0, 0.0
    for _ in range(runs):
        inputs = program.inputs(draws)
        try:
            results = _each(client.decrypt(server.run(client.encrypt(inputs))))
        except cb.RangeError:
            largest = float("inf")
            continue
        exact = _each(program.clear(**inputs))
        errors = [
            float(np.abs(a - b).max()) / one.error
            for a, b, one in zip(results, exact, plan.plan.results, strict=True)
        ]
        good, largest = good + (max(errors) <= 1), max(largest, *errors)
    ratio = 1 / largest if largest else float("inf")
    return good, ratio, f"{program.name}: promised {plan.plan.error:.2g}, {ratio:.1f} times the largest found"


def _each(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else [value]


if __name__ == "__main__":
    sys.exit(main())
