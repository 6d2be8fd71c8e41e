"""Bootstrapping at 128 bits of security: seconds of the whole and of its steps, precision, keys, beside OpenFHE.

`precision_bits` is -log2 of the largest error of any slot, of values between -1 and 1, over all runs; what is predicted
stands beside it. `levels_left` are those between one refresh and the next one. Seconds of steps (`STEPS`) are medians
of the same runs; those of ModRaise are with the first factor of coefficients to slots, where these are one.

OpenFHE (`peers/openfhe_bootstrap.py`) has the same ring degree, all slots, at least 128 bits by its own check, and a
sparse secret while the modulus is raised and a dense one everywhere else, as we do. Its setting, `OPENFHE`, is one of
those that were tried (docs/bench.md); it has about our precision. Keys and diagonals of both sides together would not
fit the memory of usual machines: OpenFHE runs first and ends, then we run.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.typing import NDArray

from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.shared import Shared
from cipherblas.evaluators.slots.values import Ct
from cipherblas.lang.approximation import Fit
from cipherblas.lang.elementary import gelu_of_array
from cipherblas.lang.polynomials import largest_value
from cipherblas.lang.refreshing import SINE_PERIODS
from cipherblas.methods.bootstrapping.refresh import Bootstrapping, bootstrapping_of
from cipherblas.methods.polynomial.paterson_stockmeyer import PatersonStockmeyer
from cipherblas.planner.rewrite.activations import fit_of_sine, sine_reach
from cipherblas.planner.rings.modulus_chains import LINES, TWO_ROUNDS, Profile, chain, chains
from cipherblas.planner.rings.sizing import budget_bits
from cipherblas_bench.harness import Row, Timing, params_fields, peak_memory, repeats_for, row
from cipherblas_bench.peers import Peer, PeerError

SETS = {16: (15, 3), 15: (3, 8)}  # log2 of the ring degree → working levels, digits
FINE_SETS = {16: (16, 5), 15: (2, 6)}  # the same for two rounds, which spend one of the levels
RAISED_SETS = {16: (14, 3), 15: (2, 8)}  # where ModRaise is first, which takes a prime more
# Inside of refreshes, of values up to 1; the degree of polynomials, log2 of the scale, levels left for a layer.
FUNCTIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "relu": lambda t: np.maximum(t, 0.0),
    "silu": lambda t: 4 * t / (1 + np.exp(-4 * t)),
    "sigmoid": lambda t: 1 / (1 + np.exp(-4 * t)),
    "tanh": lambda t: np.tanh(4 * t),
    "gelu": lambda t: gelu_of_array(4 * t),
    "clip": lambda t: np.clip(2 * t, -1.0, 1.0),
    "hard_swish": lambda t: 4 * t * np.clip(4 * t / 6 + 0.5, 0.0, 1.0),
    "identity": lambda t: t,
}
FUNCTION_DEGREE, FUNCTION_SCALE, LAYER_LEVELS = 126, 29.0, 1
MIN_RUNS, MAX_RUNS = 3, 20
MASKS = 6 << 30  # bytes of encoded diagonals that may be kept
STEPS = ("slots_to_coefficients", "mod_raise", "coefficients_to_slots", "eval_mod")
CONVERSIONS = ("to_shared", "from_shared")  # of ciphertexts that share their a part
OPENFHE: dict[str, Any] = {
    "n": 1 << 16,
    "security": 128,
    "depth": 7,
    "level_budget": [3, 3],
    "first_bits": 60,
    "scaling_bits": 56,
    "digits": 4,
}
# With as many levels left as we have, in the same ring and at 128 bits: what primes are left is few bits of precision.
OPENFHE_DEEP = OPENFHE | {"depth": 16, "first_bits": 51, "scaling_bits": 41, "digits": 5}
PEER_SETTINGS = {"precise": OPENFHE, "deep": OPENFHE_DEEP}
T = TypeVar("T")
# Of values between -1 and 1: what errs by more refreshes nothing.
PEER_ERRORS = {"precise": 2.0**-8, "deep": 0.5}


class SinePolynomial(NamedTuple):
    """A function of values up to 1, as a polynomial of their sines.

    Attributes:
        period: of the sines, in units of 1.
        fit: on the interval of the sines.
    """

    period: int
    fit: Fit

    @property
    def rate(self) -> float:
        """Of the sines."""
        return 2 * math.pi / self.period

    @property
    def most(self) -> float:
        """The end of the interval of the polynomial."""
        return sine_reach(self.rate)

    @classmethod
    def nearest(cls, function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> SinePolynomial:
        """Of the period whose polynomial is nearest to the function."""

        def of(period: int) -> SinePolynomial:
            rate = 2 * math.pi / period
            most = sine_reach(rate)

            def of_sine(sines: NDArray[np.float64]) -> NDArray[np.float64]:
                return function(np.arcsin(np.clip(sines, -most, most)) / rate)

            return cls(period, fit_of_sine(of_sine, most, FUNCTION_DEGREE, 0.0))

        return min(map(of, SINE_PERIODS), key=lambda found: found.fit.error)


@dataclass(frozen=True)
class Timed(Bootstrapping):
    """The same, with the seconds of the steps that were run: `seconds` by the names of `STEPS` and `CONVERSIONS`."""

    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys((*STEPS, *CONVERSIONS), 0.0), compare=False
    )

    @classmethod
    def of(cls, method: Bootstrapping) -> Timed:
        """The method, timed."""
        return cls(**{each.name: getattr(method, each.name) for each in fields(method)})

    def in_coefficients(self, ev: Evaluator, xs: Sequence[Ct], largest: float | None = None) -> list[Ct]:
        return self._timed(STEPS[0], lambda: super(Timed, self).in_coefficients(ev, xs, largest))

    def lowered(self, ev: Evaluator, xs: Sequence[Ct], largest: float | None = None) -> list[Ct]:
        return self._timed(STEPS[1], lambda: super(Timed, self).lowered(ev, xs, largest))

    def last(self, ev: Evaluator, u: Ct, real: bool, bound: float, factor: float = 1.0) -> Ct:
        return self._timed(STEPS[0], lambda: super(Timed, self).last(ev, u, real, bound, factor))

    def raised(self, ev: Evaluator, x: Ct, scale: float) -> Ct:
        return self._timed(STEPS[1], lambda: super(Timed, self).raised(ev, x, scale))

    def begun(self, ev: Evaluator, xs: Sequence[Ct]) -> list[Ct]:
        return self._timed(STEPS[1], lambda: super(Timed, self).begun(ev, xs))

    def in_slots(self, ev: Evaluator, us: Sequence[Ct], real: bool, done: int = 0) -> list[list[Ct]]:
        return self._timed(STEPS[2], lambda: super(Timed, self).in_slots(ev, us, real, done))

    def reduced(self, ev: Evaluator, part: Ct, scale: float) -> Ct:
        return self._timed(STEPS[3], lambda: super(Timed, self).reduced(ev, part, scale))

    def to_shared(self, shared: Shared, cts: Sequence[Ct]) -> Ct:
        return self._timed(CONVERSIONS[0], lambda: super(Timed, self).to_shared(shared, cts))

    def from_shared(self, shared: Shared, half: Ct, number: int, ev: Evaluator) -> list[Ct]:
        return self._timed(CONVERSIONS[1], lambda: super(Timed, self).from_shared(shared, half, number, ev))

    def _timed(self, step: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = work()
        self.seconds[step] += time.perf_counter() - start
        return result


class Refreshes:
    """Our side: keys, values and an evaluator for one set of parameters."""

    def __init__(
        self,
        params: Parameters,
        real: bool,
        held: int | None = None,
        rounds: int = 1,
        key_memory: int | None = None,
        together: int = 1,
        function: SinePolynomial | None = None,
    ) -> None:
        import cipherblas._core as _core
        from cipherblas.crypto import keys
        from cipherblas.engines.encodings import Encodings
        from cipherblas.evaluators.slots.native import Native
        from cipherblas.evaluators.slots.symbolic import Symbolic

        self.params, self.real, self.rounds, self.function = params, real, rounds, function
        self.held = params.slots if held is None else held
        method = bootstrapping_of(params)
        if function is not None:
            method = method.of_period(function.period)
        self.method = method.packed(self.held).together(together)
        self.limbs = self.method.levels_before + 1  # of what is refreshed
        counted = Symbolic(params)
        self._run(self.method, counted, counted.fresh(None, bound=1.0, limbs=self.limbs))
        self.counts = counted.counts.copy()
        start = time.perf_counter()
        self.secret = keys.generate_secret(params)
        evaluation = keys.make_evaluation_keys(self.secret, counted.request)
        self.keygen_seconds = time.perf_counter() - start
        if key_memory is not None:
            evaluation.keep_within(key_memory)
            _core.trim_pool()
        self.key_bytes, self.key_memory_bytes = evaluation.nbytes, evaluation.memory_bytes
        self.ev = Native(params, evaluation, encodings=Encodings(MASKS))
        self.random = np.random.default_rng(1)

    def _run(self, method: Bootstrapping, ev: Evaluator, ct: Ct) -> Ct:
        if self.rounds > 1:
            return method.refresh_twice(ev, [ct], self.real)[0]
        return self._applied(ev, method.run(ev, ct, self.real))

    def _applied(self, ev: Evaluator, sine: Ct) -> Ct:
        """The function of a refreshed value, by the polynomial of its sine."""
        if self.function is None:
            return sine
        t, coefficients = ev.fold_into_scale(sine, 1 / self.function.most), self.function.fit.coefficients
        part = math.sin(self.function.rate) / self.function.most  # of the interval
        bound = largest_value(coefficients, part)
        return PatersonStockmeyer(coefficients, bound).run(ev, t, rescaled=True, most=part)

    def _expected(self, values: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """The values that are computed of them, without errors."""
        if self.function is None:
            return values
        t = np.sin(self.function.rate * values.real) / self.function.most
        return chebval(t, self.function.fit.coefficients).astype(np.complex128)

    def encrypted(self) -> tuple[NDArray[np.complex128], Ct]:
        """Random values of absolute value 1 at most, and a ciphertext of them that waits to be refreshed."""
        from cipherblas.crypto import keys

        values = self.random.uniform(-1, 1, self.params.slots).astype(np.complex128)
        if not self.real:
            values = values * np.exp(2j * np.pi * self.random.random(self.params.slots))
        values[self.held :] = 0.0
        coefficients = self.params.context().encode(values, 2.0**self.params.scale_bits)
        fresh = keys.encrypt(self.secret, coefficients, self.limbs).expand()
        return values, self.ev.fresh(fresh, bound=1.0, limbs=self.limbs)

    def refreshed(self, ct: Ct) -> tuple[Ct, dict[str, float]]:
        """One bootstrap, and the seconds of all (`whole`), of the processor (`cpu`) and of each step."""
        timed = Timed.of(self.method)
        start, processor = time.perf_counter(), time.process_time()
        result = self._run(timed, self.ev, ct)
        return result, _since(start, processor) | timed.seconds

    def together(
        self, number: int, sharing: SharedRefreshes | None = None
    ) -> tuple[dict[str, float], float, Ct]:
        """Seconds, largest error and one result of a batch of ciphertexts of new values, refreshed two by two.

        Args:
            sharing: with which their pairs share an a part.
        """
        values, cts = zip(*(self.encrypted() for _ in range(number)), strict=True)
        timed = Timed.of(self.method)
        start, processor = time.perf_counter(), time.process_time()
        if sharing is not None:
            results = timed.run_shared(self.ev, sharing.ev, cts)
        elif self.rounds > 1:
            results = timed.refresh_twice(self.ev, cts, self.real)
        elif self.real:
            results = [self._applied(self.ev, ct) for ct in timed.run_all(self.ev, cts)]
        else:
            results = [timed.run(self.ev, ct, False) for ct in cts]
        seconds = _since(start, processor) | timed.seconds
        return seconds, max(map(self.error, results, values)), results[0]

    def error(self, ct: Ct, values: NDArray[np.complex128]) -> float:
        """The largest error of a slot."""
        from cipherblas.crypto import keys

        found = self.params.context().decode(keys.decrypt_coefficients(self.secret, ct.data)) / ct.scale
        errors = (found - self._expected(values))[: self.held]
        return float(np.abs(errors.real if self.real else errors).max())

    def once(self) -> tuple[dict[str, float], float, Ct]:
        """Seconds, error and result of a bootstrap of new values."""
        values, ct = self.encrypted()
        result, seconds = self.refreshed(ct)
        return seconds, self.error(result, values), result

    def in_a_row(self, number: int) -> Row:
        """Bits of the worst slot, found and predicted, after each of so many bootstraps of one ciphertext."""
        values, ct = self.encrypted()
        found, predicted = [], []
        for _ in range(number):
            ct, _ = self.refreshed(ct)
            found.append(bits(self.error(ct, values)))
            predicted.append(bits(ct.error(self.params.slots)))
        return {"bits_in_a_row": found, "predicted_bits_in_a_row": predicted}


def _since(start: float, processor: float) -> dict[str, float]:
    """Seconds since then, and those of the processor, whatever else the machine did."""
    return {"whole": time.perf_counter() - start, "cpu": time.process_time() - processor}


class SharedRefreshes:
    """Keys and evaluator of a batch whose pairs share their a part.

    Args:
        most: pairs that share one; an odd number. More of them are refreshed in groups.

    Raises:
        MemoryBudgetError: the keys, and what a run takes beside them, do not fit this machine.
    """

    def __init__(self, ours: Refreshes, batch: int, most: int | None = None) -> None:
        from cipherblas.common.limits import check_available
        from cipherblas.crypto.keys import make_evaluation_keys
        from cipherblas.evaluators.slots.shared import SharedSymbolic
        from cipherblas.evaluators.slots.shared_native import SharedNative
        from cipherblas.evaluators.slots.symbolic import Symbolic

        params, pairs = ours.params, batch // 2
        self.secrets = min(pairs + (pairs + 1) % 2, most or pairs + 1)
        counted, shared = Symbolic(params), SharedSymbolic(params, self.secrets)
        cts = [counted.fresh(None, bound=1.0, limbs=ours.limbs) for _ in range(batch)]
        ours.method.run_shared(counted, shared, cts)
        self.counts = counted.counts.copy()
        self.counts += shared.counts
        live = counted.ledger.peak + shared.ledger.peak
        check_available(shared.request.nbytes(params) + live, "keys and ciphertexts of a batch")
        start = time.perf_counter()
        keys = make_evaluation_keys(ours.secret, shared.request)
        self.keygen_seconds = time.perf_counter() - start
        released()  # what keys were made of
        self.shared_key_bytes = keys.nbytes
        self.key_bytes = keys.nbytes + counted.request.nbytes(params)
        options: Any = {"engine": ours.ev.engine, "encodings": ours.ev.encodings}
        self.ev = SharedNative(params, keys, self.secrets, **options)


def run(
    *,
    log_n: Sequence[int] = (16,),
    threads: int = 1,
    budget: float = 10.0,
    complex_slots: bool = False,
    slots: int | None = None,
    rounds: int = 1,
    key_memory: int | None = None,
    ciphertexts: int | None = None,
    in_a_row: int = 0,
    batches: Sequence[int] = (),
    shared: bool = False,
    secrets: int | None = None,
    raised_first: bool = False,
    peer: str | None = None,
    peer_python: str | None = None,
    peer_setting: str = "precise",
    function: str | None = None,
) -> Iterator[Row]:
    """Rows of `bench bootstrap`.

    Args:
        log_n: log2 of the ring degrees.
        threads: of the server, and of the peer.
        budget: seconds spent on each side of each case; at least three runs.
        complex_slots: complex numbers instead of real ones, which take a second EvalMod.
        rounds: 1, or 2 for about 30 bits, with larger primes.
        key_memory: bytes of keys in memory at one time; by default all.
        slots: numbers in a ciphertext, a power of two; by default as many as it has slots.
        ciphertexts: so many runs, each of new values, whatever the budget.
        in_a_row: bootstraps of one ciphertext, one after the other, whose precision is followed.
        batches: numbers of ciphertexts that are refreshed together, a row for each after that of a single one, all with
            the keys of the largest batch; the single one is refreshed as is fastest for one, with keys of its own.
        shared: and a row for each with an a part that pairs of them share, which takes keys of its own.
        secrets: at most so many pairs share it, an odd number; by default all of a batch.
        raised_first: ModRaise first, slots to coefficients last: all slots, one round, and no shared a part.
        peer: "openfhe", or None for ours alone.
        peer_python: interpreter with the peer's wheel; by default this one.
        peer_setting: "precise", with our precision, or "deep", with our levels.
        function: one of `FUNCTIONS`, computed of the sine that is found, in a chain of primes for that: real slots, one
            round, and no shared a part. Errors are those of its polynomial; `approximation` is what that is off by.

    Raises:
        ValueError: no set of parameters has such a degree, the peer is unknown or is not run at it, or the number of
            slots is no power of two that they have.
        PeerError: the peer cannot be run, computes something wrong, or has other parameters than it was asked for.
    """
    import cipherblas._core as _core

    unknown = sorted(set(log_n) - set(SETS))
    if unknown:
        raise ValueError(f"log_n: expected some of {sorted(SETS)}, got {unknown}")
    if slots is not None and (slots.bit_count() != 1 or not 1 < slots <= 1 << (min(log_n) - 1)):
        raise ValueError(f"slots: expected a power of two from 2 to {1 << (min(log_n) - 1)}, got {slots}")
    if rounds not in (1, 2):
        raise ValueError(f"rounds: expected 1 or 2, got {rounds}")
    if slots is not None and (peer is not None or rounds > 1):
        raise ValueError(f"slots: expected all of them beside a peer and in two rounds, got {slots}")
    if shared and (complex_slots or slots is not None or rounds > 1 or any(batch % 2 for batch in batches)):
        raise ValueError("shared: expected all slots, real ones, one round, and even numbers of ciphertexts")
    if secrets is not None and (not shared or secrets < 1 or secrets % 2 == 0):
        raise ValueError(f"secrets: expected an odd number beside shared, got {secrets}")
    if raised_first and (shared or slots is not None or rounds > 1):
        raise ValueError("raised_first: expected all slots, one round, and no shared a part")
    if function is not None and function not in FUNCTIONS:
        raise ValueError(f"function: expected {' or '.join(FUNCTIONS)}, got {function}")
    if function is not None and (
        complex_slots or raised_first or shared or rounds > 1 or peer is not None or in_a_row
    ):
        raise ValueError("function: expected real slots, one round, no shared a part, and ours alone")
    if peer_setting not in PEER_SETTINGS:
        raise ValueError(f"peer_setting: expected {' or '.join(PEER_SETTINGS)}, got {peer_setting}")
    if peer not in (None, "openfhe"):
        raise ValueError(f"peer: expected openfhe, got {peer}")
    if peer is not None and {1 << degree for degree in log_n} != {OPENFHE["n"]}:
        raise ValueError(f"log_n: expected {OPENFHE['n'].bit_length() - 1} beside a peer, got {list(log_n)}")
    _core.set_threads(threads)
    for degree in log_n:
        theirs: Row = {}
        if peer is not None:
            setting, most = PEER_SETTINGS[peer_setting], PEER_ERRORS[peer_setting]
            theirs = beside(setting, peer_python, threads, budget, most)
        sets = RAISED_SETS if raised_first else FINE_SETS if rounds > 1 else SETS
        profile = TWO_ROUNDS if rounds > 1 else LINES
        sizes = chain(1 << degree, *sets[degree], profile=profile, raised_first=raised_first)
        polynomial = None
        if function is not None:
            polynomial = SinePolynomial.nearest(FUNCTIONS[function])
            levels = (len(polynomial.fit.coefficients) - 1).bit_length() + LAYER_LEVELS
            profile = Profile.of_sines(FUNCTION_SCALE)
            sizes = chains(1 << degree, levels, budget_bits(1 << degree, 128, False), profile=profile)[-1]
        params = sizes.parameters(128, insecure=False)
        ours = Refreshes(params, not complex_slots, slots, rounds, key_memory, function=polynomial)
        single = measured(ours, threads, budget, ciphertexts, in_a_row, theirs)
        yield single
        for batch in batches if shared else ():
            yield of_a_batch(
                ours, batch, threads, budget, single["seconds"], SharedRefreshes(ours, batch, secrets)
            )
            released()
        if batches:
            del ours
            released()
            ours = Refreshes(params, not complex_slots, slots, rounds, key_memory, max(batches), polynomial)
        for batch in batches:
            yield of_a_batch(ours, batch, threads, budget, single["seconds"])
        del ours
        released()


def released() -> None:
    """Memory of what nothing refers to goes back to the system."""
    import cipherblas._core as _core

    gc.collect()
    _core.trim_pool()


def beside(
    setting: Row, python: str | None, threads: int, budget: float, most: float = PEER_ERRORS["precise"]
) -> Row:
    """Fields of the peer, which is run and ended.

    Args:
        most: error that is allowed.

    Raises:
        PeerError: it cannot be run, computes something wrong, or has other parameters than it was asked for.
    """
    with Peer("openfhe-bootstrap", setting, python=python, threads=threads) as theirs:
        ready = theirs.ready
        asked = {name: setting[name] for name in ("n", "digits")}
        found = {name: ready[name] for name in asked}
        if found != asked:
            raise PeerError(f"parameters of {ready['peer']}: expected {asked}, got {found}")
        if not ready["error"] <= most:
            raise PeerError(
                f"results of {ready['peer']}: expected an error of at most {most:.2g}, got {ready['error']:.2g}"
            )
        runs = theirs.measure("bootstrap", 1)
        runs += theirs.measure("bootstrap", repeats_for(runs[0], budget, MIN_RUNS, MAX_RUNS) - 1)
    described = {name: value for name, value in ready.items() if name not in ("peer", "threads", "digits")}
    return {
        "peer": ready["peer"],
        "peer_params": described
        | {"dnum": ready["digits"], "runs": len(runs), "precision_bits": bits(ready["error"])},
        "peer_timing": Timing.of(runs),
    }


def measured(
    ours: Refreshes,
    threads: int,
    budget: float,
    ciphertexts: int | None = None,
    in_a_row: int = 0,
    theirs: Row | None = None,
) -> Row:
    """The row of ciphertexts that are refreshed one by one; arguments are those of `run`.

    Args:
        theirs: fields of the peer.
    """
    first, worst, _ = ours.once()  # encodes the diagonals
    with peak_memory() as peak:
        seconds, error, result = ours.once()
    runs, errors = [seconds], [worst, error]
    left = repeats_for(seconds["whole"], budget, MIN_RUNS, MAX_RUNS) - 1
    for _ in range(left if ciphertexts is None else ciphertexts - len(errors)):
        seconds, error, _ = ours.once()
        runs.append(seconds)
        errors.append(error)
    return _row(
        ours,
        threads,
        runs,
        errors,
        result,
        1,
        peak_bytes=peak.bytes,
        rotations=ours.counts.rotations,
        products=ours.counts.products,
        ntt_limbs=ours.counts.ntt_limbs,
        mac_limbs=ours.counts.mac_limbs,
        keygen_seconds=ours.keygen_seconds,
        first_seconds=first["whole"],
        **(ours.in_a_row(in_a_row) if in_a_row else {}),
        **(theirs or {}),
    )


def of_a_batch(
    ours: Refreshes,
    batch: int,
    threads: int,
    budget: float,
    single: float,
    sharing: SharedRefreshes | None = None,
) -> Row:
    """The row of so many ciphertexts at a time.

    Args:
        single: seconds of one by itself, by the method that is fastest for one.
        sharing: with which their pairs share an a part.
    """
    with peak_memory() as peak:  # also encodes what is missing, and is the first to take so much memory
        first, worst, result = ours.together(batch, sharing)
    runs, errors = [], [worst]
    for _ in range(repeats_for(first["whole"], budget, 1, MAX_RUNS)):
        seconds, error, _ = ours.together(batch, sharing)
        runs.append(seconds)
        errors.append(error)
    each = statistics.median(one["whole"] for one in runs) / batch
    of_sharing: Row = {}
    if sharing is not None:
        of_sharing = {
            "secrets": sharing.secrets,
            "shared_key_bytes": sharing.shared_key_bytes,
            "keygen_seconds": sharing.keygen_seconds,
            "ntt_limbs": sharing.counts.ntt_limbs,
            "mac_limbs": sharing.counts.mac_limbs,
            **{f"{step}_seconds": statistics.median(one[step] for one in runs) for step in CONVERSIONS},
        }
    return _row(
        ours,
        threads,
        runs,
        errors,
        result,
        batch,
        shares=sharing is not None,
        key_bytes=ours.key_bytes if sharing is None else sharing.key_bytes,
        peak_bytes=peak.bytes,
        seconds_each=each,
        share_of_single=each / single,
        **of_sharing,
    )


def _row(
    ours: Refreshes,
    threads: int,
    runs: Sequence[dict[str, float]],
    errors: Sequence[float],
    result: Ct,
    batch: int,
    *,
    shares: bool = False,
    key_bytes: int | None = None,
    **fields: Any,
) -> Row:
    """The fields that rows of single ciphertexts and of batches share."""
    params, number = ours.params, batch * len(errors)
    log_n = params.n.bit_length() - 1
    return row(
        "bootstrap",
        f"2^{log_n}, {'real' if ours.real else 'complex'} slots"
        + f", {ours.held} held" * (ours.held < params.slots)
        + ", two rounds" * (ours.rounds > 1)
        + f", {batch} together" * (batch > 1)
        + ", shared a" * shares
        + ", a function inside" * (ours.function is not None),
        params=params_fields(params),
        algorithm=f"{'ModRaise' if ours.method.raised_first else 'slots to coefficients'} first",
        threads=threads,
        timing=Timing.of([one["whole"] for one in runs]),
        error=max(errors),
        key_bytes=ours.key_bytes if key_bytes is None else key_bytes,
        key_memory_bytes=ours.key_memory_bytes,
        slots=ours.held,
        batch=batch,
        ciphertexts=number,
        levels_left=result.limbs - ours.limbs,
        **({} if ours.function is None else {"approximation": ours.function.fit.error}),
        precision_bits=bits(max(errors)),
        predicted_bits=bits(result.error(number * params.slots)),
        failure_bits=ours.method.failure_bits - log_n,
        cpu_seconds=statistics.median(one["cpu"] for one in runs),
        **{f"{step}_seconds": statistics.median(one[step] for one in runs) for step in STEPS},
        **fields,
    )


def bits(error: float) -> float:
    return -math.log2(error)
