"""Every reason that the corpus stores under `not taken` is one of those that there are, and true."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from cipherblas.crypto.security import max_log_qp
from cipherblas.lang.analysis import trace
from cipherblas.lang.deferred import functions_of
from cipherblas.lang.facts import facts_of, products
from cipherblas.lang.graph import as_matrices
from cipherblas.planner.search.losers import ABOUT
from cipherblas.runtime.executor import METHODS
from cipherblas.runtime.rows import ROWS
from tests.corpus import storage
from tests.corpus.case import Case
from tests.corpus.programs import CASES

NUMBER = r"(\d+(?:\.\d+)?)"
UNITS = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
SIZE = rf"{NUMBER} ({'|'.join(UNITS)})"
STORED = storage.read()


class Loser(NamedTuple):
    """What is stored of a way that was not taken, and of the plan beside it: seconds of what it makes least."""

    case: Case
    name: str
    seconds: float | None
    reason: str
    taken: float

    @property
    def ratio(self) -> float:
        assert self.seconds is not None
        return self.seconds / self.taken

    @property
    def option(self) -> Callable[[str, Any], Any]:
        return self.case.options.get


def losers() -> list[Loser]:
    found = []
    for name, lines in STORED.items():
        facts = [(line[: storage.WIDTH].strip(), line[storage.WIDTH + 1 :]) for line in lines[1:]]
        times = next((text for what, text in facts if what == "seconds"), "")
        what = "evaluate" if CASES[name].options.get("minimise") == "server" else "end to end"
        for text in (text for kind, text in facts if kind == "not taken"):
            match = re.fullmatch(r"(.*?)(?: ([-+.e\d]+) s)?: (.*)", text)
            taken = re.search(rf"{what} ([-+.e\d]+)", times)
            assert match and taken, text
            seconds = None if match[2] is None else float(match[2])
            found.append(Loser(CASES[name], match[1], seconds, match[3], float(taken[1])))
    return found


LOSERS = losers()


# --- what each reason says ---


def rounded(loser: Loser, said: str) -> bool:
    return abs(loser.ratio - float(said)) <= 0.05 + 1e-4 * loser.ratio


def takes(loser: Loser, said: str) -> bool:
    return rounded(loser, said) and loser.ratio >= ABOUT


def seems(loser: Loser, said: str) -> bool:
    return rounded(loser, said) and loser.ratio >= 1


def about(loser: Loser) -> bool:
    return 1 / ABOUT <= loser.ratio <= ABOUT


def slow(loser: Loser, said: str) -> bool:
    return float(said) > 1 and loser.seconds is None


def more_bytes(loser: Loser, *said: str) -> bool:
    needed, unit, allowed, other = said
    return float(needed) * UNITS[unit] > float(allowed) * UNITS[other]


def bound(loser: Loser, least: str, unit: str) -> bool:
    return float(least) * SECONDS[unit] > loser.taken


def modulus(loser: Loser, n: str, needed: str, allowed: str) -> bool:
    return float(needed) > float(allowed) == max_log_qp(int(n), loser.option("security", 128))


def more(loser: Loser, n: str, needed: str, allowed: str) -> bool:
    return float(needed) > float(allowed)


def by_rows(loser: Loser, title: str) -> bool:
    """No method by rows for a node of that title."""
    expression, function = traced(loser.case), title.split(" of degree ")[0]
    if any(one.function == function for one in functions_of(expression)):
        return True  # which has no degree yet
    order = facts_of(expression).order
    return any(node.secret and node.title == title and (ROWS, node.op) not in METHODS for node in order)


def no_product(loser: Loser) -> bool:
    return not products(traced(loser.case))


def other_lengths(loser: Loser, *lengths: str) -> bool:
    return lengths[:2] != lengths[2:]


def traced(case: Case) -> Any:
    expression = trace(case.function, {name: one.made() for name, one in case.operands.items()})
    matrices = as_matrices(expression)
    return expression if matrices is None else matrices


def ungrouped(pattern: str) -> str:
    return re.sub(r"\((?!\?)", "(?:", pattern)


RING = rf"At N = (\d+) the program needs more than {NUMBER} limbs, primes of a modulus; {NUMBER} are allowed"
SCALE = rf"At N = (\d+) the program needs a scale of {NUMBER} bits, with {NUMBER} bits allowed"
REASONS: dict[str, Callable[..., bool]] = {
    rf"takes {NUMBER} times as long": takes,
    rf"seems to take {NUMBER} times as long or more": seems,
    rf"seems to take more than {NUMBER} times as long": slow,
    "takes about as long": about,
    rf"uploads (?:at least )?{SIZE}, upload_budget is {SIZE}": more_bytes,
    rf"needs {SIZE} of keys, key_budget is {SIZE}(?:, a share of .*)?": more_bytes,
    rf"needs {SIZE} of memory, memory_budget is {SIZE}": more_bytes,
    rf"at least {NUMBER} ({'|'.join(SECONDS)}) \(bound\)": bound,
    rf"At N = (\d+) the program needs a modulus of {NUMBER} bits, with {NUMBER} bits allowed\.": modulus,
    rf"{RING}\.": more,
    rf"{SCALE}\.": more,
    "no method by rows for (.*)": by_rows,
    "there is no matrix product": no_product,
    rf"(?:{ungrouped(SCALE)}; a|A) value cannot be re-arranged into blocks of other lengths "
    r"\(expected (\d+)×(\d+), got (\d+)×(\d+)\)\.": other_lengths,
}


def test_there_are_losers_of_many_kinds() -> None:
    assert len(LOSERS) > 500
    used = {pattern for one in LOSERS for pattern in REASONS if re.fullmatch(pattern, one.reason)}
    assert len(used) >= 11


def test_every_reason_is_one_of_those_that_there_are_and_true() -> None:
    wrong = []
    for one in LOSERS:
        matches = [
            (check, found)
            for pattern, check in REASONS.items()
            if (found := re.fullmatch(pattern, one.reason))
        ]
        if len(matches) != 1 or not matches[0][0](one, *matches[0][1].groups()):
            wrong.append(
                f"{one.case.formula} {dict(one.case.options)}: {one.name} ({one.seconds}): {one.reason}"
            )
    assert not wrong, "\n".join(wrong)
