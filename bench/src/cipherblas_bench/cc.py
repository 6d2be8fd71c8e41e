"""Encrypted matrix times encrypted matrix through the public interface: plan, keys, encrypt, run, decrypt, compare.

`seconds` is the server's evaluation, as `Server` measures it; planning, key generation, encryption, the
expansion of seeded ciphertexts and decryption stand beside it. Ours and the peer run in turns.

The peer is E2DM on SEAL (peers/e2dm_seal.py) as published, at N = 2^13 up to 64 x 64 x 64 and at 2^15 up to
128 x 128 x 128, with four limbs: with three it misses an error of 1e-4·k. A variant of it with half the
rotations, ours, is timed too (`peer_improved_seconds`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from cipherblas_bench.harness import Row, Side, Timing, in_turns, params_fields, row
from cipherblas_bench.peers import Peer, PeerError
from cipherblas_bench.products import (
    EXACT_DTYPES,
    AlikeSecretCase,
    Case,
    ChainCase,
    ExactSecretCase,
    ModularSecretCase,
    SecretCase,
    exact_fields,
    exact_note,
    gemm_side,
    modular_fields,
)
from cipherblas_bench.sets import FAME_SETS, Shape

PEER_LIMIT = 128  # a padded square in the slots of N = 2^15
# Four limbs, log2(QP) = 214. The scale is that of the limbs which the two masks drop.
_SEAL = {"q_bits": [50, 38, 38, 38], "special_bits": 50, "scale_bits": 38}


def run(
    shapes: Sequence[Shape] = ((64, 64, 64),),
    *,
    suite: str | None = None,
    chain: bool = False,
    peer: str | None = None,
    peer_python: str | None = None,
    algorithm: str | None = None,
    order: str | None = None,
    one_ciphertext: bool | None = None,
    exact: str | None = None,
    modulus: int | None = None,
    threads: int = 1,
    budget: float = 2.0,
    **options: Any,
) -> Iterator[Row]:
    """Rows of `bench cc`, as they are measured.

    Args:
        shapes: (m, k, n) of each product.
        suite: "fame" runs FAME's 12 shapes with its parameter sets and algorithm in both loop orders instead,
            and adds `coarse_over_limb`, the ratio of their times.
        chain: of the suite the three squares alone, two products in a row, (a @ b) @ c, by levels of the same set.
        peer: "seal", or None.
        peer_python: interpreter with the peer's wheel; by default this one.
        algorithm: forces one; by default the planner chooses.
        order: loop order of the linear transforms, "limb" or "rotation".
        one_ciphertext: restrict the plan to one ciphertext per operand. By default a shape is measured as
            planned and, beside a peer (which has one ciphertext per operand), also with one.
        exact: "int8" or "int16": products of exact integers of that type, and in turns with them the float form of the
            same shape; neither a suite, nor a peer, nor one ciphertext.
        modulus: t of products of integers modulo t, and in turns with them floats of the same shape and form;
            neither a suite, nor a peer, nor one ciphertext, nor exact.
        threads: of both sides.
        budget: seconds spent on each side of each shape.
        **options: further options of `compile` (precision, security, memory_budget, …).

    Raises:
        ValueError: unknown suite, peer or order. PeerError: the peer cannot be run, or its result is wrong.
    """
    import cipherblas._core as _core

    for name, value, known in (
        ("suite", suite, ("fame",)),
        ("peer", peer, ("seal",)),
        ("order", order, ("limb", "rotation")),
        ("exact", exact, EXACT_DTYPES),
    ):
        if value is not None and value not in known:
            raise ValueError(f"{name}: expected {' or '.join(known)}, got {value}")
    _core.set_threads(threads)
    if suite is not None and (algorithm is not None or order is not None):
        raise ValueError("suite: expected neither algorithm nor order, which are its own, got one")
    options = {"threads": threads, **options}
    if exact is not None and (suite is not None or peer is not None or one_ciphertext):
        raise ValueError("exact: expected neither suite, nor peer, nor one ciphertext, got one")
    if modulus is not None and (suite or peer or one_ciphertext or exact):
        raise ValueError("modulus: expected neither suite, nor peer, nor one ciphertext, nor exact, got one")
    if chain:
        if suite is None or peer is not None:
            raise ValueError("chain: expected a suite, and no peer")
        yield from _fame_chains(threads, budget, options)
        return
    if suite == "fame":
        yield from _fame(peer, peer_python, threads, budget, options)
        return
    if algorithm is not None:
        options["algorithm"] = algorithm
    if order is not None:
        options["order"] = order
    for shape in shapes:
        if peer is not None and max(shape) > PEER_LIMIT:
            raise PeerError(f"E2DM on SEAL: expected dimensions of at most {PEER_LIMIT}, got {max(shape)}")
    by_rows = options.get("form") == "rows"  # has no ciphertext per operand
    both = one_ciphertext is None and peer is not None and algorithm is None and not by_rows
    for shape in shapes:
        if modulus is not None:
            yield _modular(shape, modulus, threads, budget, options)
            continue
        if exact is not None:
            yield _exact(shape, exact, threads, budget, options)
            continue
        if not one_ciphertext:
            yield from product_rows(shape, peer, peer_python, threads, budget, options)
        if one_ciphertext or both:
            single = one_ciphertext_options(shape, options)
            yield from product_rows(shape, peer, peer_python, threads, budget, single, one_ciphertext=True)


def one_ciphertext_options(shape: Shape, options: dict[str, Any]) -> dict[str, Any]:
    """`options` with what makes the planner send one ciphertext per operand, by the fastest such plan.

    Raises:
        MemoryBudgetError, PrecisionError: no ring degree up to 2^17 has such a plan.
    """
    from cipherblas.common.errors import CipherblasError

    names = [options["algorithm"]] if "algorithm" in options else ["skewed", "bicyclic", "fame", "e2dm"]
    best: tuple[float, dict[str, Any]] | None = None
    failure: CipherblasError | None = None
    for name in names:
        for log_n in range(12, 18):
            # Two ciphertexts of a polynomial per limb, tightest last: a budget for more limbs admits more ciphertexts.
            budgets = [2 * limbs * (8 << log_n) + 64 for limbs in (4, 3, 2)]
            found = None
            for upload_budget in budgets:
                tried = {
                    **options,
                    "algorithm": name,
                    "ring_degree": 1 << log_n,
                    "upload_budget": upload_budget,
                }
                try:
                    plan = SecretCase.compile(shape, tried).plan
                except CipherblasError as error:
                    failure = error
                    continue
                if plan.upload_ciphertexts == 2 and (found is None or plan.seconds < found[0]):
                    found = plan.seconds, tried
            if found is not None:
                best = found if best is None or found[0] < best[0] else best
                break  # a larger ring is slower for the same algorithm
    if best is None:
        assert failure is not None
        raise failure
    return best[1]


def product_rows(
    shape: Shape,
    peer: str | None,
    python: str | None,
    threads: int,
    budget: float,
    options: dict[str, Any],
    orders: Sequence[str | None] = (None,),
    **extra: Any,
) -> Iterator[Row]:
    """A row for each loop order (None: the plan's), and the peer, all measured in turns."""
    case = SecretCase(shape, options)
    checks = [case.check(order) for order in orders]
    if len({error for error, _ in checks}) > 1:
        raise AssertionError("the loop orders gave different results")
    counts = case.server.last.counts
    with ExitStack() as stack:
        peers = [stack.enter_context(found) for found in (_peers(shape, python, threads) if peer else [])]
        sides: list[Side] = [functools.partial(case.side, order=order) for order in orders]
        sides.append(gemm_side(case.left, case.right))
        sides += [functools.partial(found.measure, "multiply") for found in peers]
        timings = [Timing.of(runs) for runs in in_turns(sides, budget=budget)]
        for found in peers:
            _check_peer(found, shape, case.program.plan.precision)
        ours, gemm, theirs = timings[: len(orders)], timings[len(orders)], timings[len(orders) + 1 :]
        if case.server.last.counts != counts:
            raise AssertionError("two runs of one program counted different operations")
        for timing, (error, peak_bytes) in zip(ours, checks, strict=True):
            yield _row(case, error, peak_bytes, threads, gemm, [timing, *theirs], peers, **extra)
    case.drop()


def _exact(shape: Shape, dtype: str, threads: int, budget: float, options: dict[str, Any]) -> Row:
    """A row of exact integers, with the float forms measured in turns."""
    case = type("ExactSecretCase", (ExactSecretCase,), {"dtype": dtype})(shape, options)
    planned = {"dtype": dtype, "error": case.program.plan.error}
    floats, alike = (
        SecretCase(shape, options),
        type("AlikeSecretCase", (AlikeSecretCase,), planned)(shape, options),
    )
    error, peak_bytes = case.check()
    floats.check()
    alike.check()
    sides = [case.side, gemm_side(case.left, case.right), floats.side, alike.side]
    ours, gemm, *theirs = (Timing.of(runs) for runs in in_turns(sides, budget=budget))
    beside = exact_fields([floats, alike], ours, theirs)
    beside["note"] = exact_note(dtype, beside)
    found = _row(case, error, peak_bytes, threads, gemm, [ours], [], dtype=dtype, **beside)
    for each in (case, floats, alike):
        each.drop()
    return found


def _modular(shape: Shape, modulus: int, threads: int, budget: float, options: dict[str, Any]) -> Row:
    """A row of integers modulo t, with floats in the same form measured in turns."""
    case = type("ModularSecretCase", (ModularSecretCase,), {"modulus": modulus})(shape, options)
    floats = SecretCase(shape, {"form": case.program.plan.form, **options})
    error, peak_bytes = case.check()
    floats.check()
    sides = [case.side, gemm_side(case.left, case.right), floats.side]
    ours, gemm, other = (Timing.of(runs) for runs in in_turns(sides, budget=budget))
    beside = modular_fields(modulus, floats.program.plan, ours, other)
    found = _row(case, error, peak_bytes, threads, gemm, [ours], [], **beside)
    for each in (case, floats):
        each.drop()
    return found


def _fame(
    peer: str | None, python: str | None, threads: int, budget: float, options: dict[str, Any]
) -> Iterator[Row]:
    """Every shape in both loop orders, which share program, keys and ciphertexts."""
    orders = ("limb", "rotation")
    for name, member in FAME_SETS.items():
        forced = {"algorithm": "fame", "parameters": member.parameters(), **options}
        for shape in member.shapes:
            beside = peer if max(shape) <= PEER_LIMIT else None
            rows = list(product_rows(shape, beside, python, threads, budget, forced, orders, set=name))
            ratio = rows[1]["seconds"] / rows[0]["seconds"]
            for found, order in zip(rows, orders, strict=True):
                yield {
                    **found,
                    "order": order,
                    "coarse_over_limb": ratio,
                    "note": f"set {name}, {order} outer",
                }


def _fame_chains(threads: int, budget: float, options: dict[str, Any]) -> Iterator[Row]:
    """Two products in a row of each set's square shape."""
    for name, member in FAME_SETS.items():
        shape = member.shapes[-1]
        forced = {"algorithm": "fame", "parameters": member.parameters(), **options}
        case = ChainCase(shape, forced)
        error, peak_bytes = case.check()
        both = gemm_side(case.left, case.right)  # once for each of two products
        ours, gemm = (
            Timing.of(runs) for runs in in_turns([case.side, functools.partial(_twice, both)], budget=budget)
        )
        found = _row(case, error, peak_bytes, threads, gemm, [ours], [], set=name)
        case.drop()
        yield {**found, "case": f"{found['case']}, two in a row"}


def _twice(side: Side, repeats: int) -> list[float]:
    return [2 * seconds for seconds in side(repeats)]


def _row(
    case: Case,
    error: float,
    peak_bytes: int,
    threads: int,
    gemm: Timing,
    timings: list[Timing],
    peers: list[Peer],
    **extra: Any,
) -> Row:
    plan, counts = case.program.plan, case.server.last.counts
    found = row(
        "cc",
        "x".join(map(str, case.shape)),
        params=params_fields(plan.parameters),
        algorithm=plan.algorithm,
        threads=threads,
        timing=timings[0],
        error=error,
        rotations=counts.rotations,
        products=counts.products,
        key_bytes=plan.key_bytes,
        upload_bytes=case.upload_bytes,
        peak_bytes=peak_bytes,
        gemm_seconds=gemm.seconds,
        peer=peers[0].ready["peer"] if peers else None,
        peer_params=_peer_params(peers[0]) if peers else None,
        peer_timing=timings[1] if peers else None,
        ciphertexts=plan.upload_ciphertexts,
        relinearisations=counts.relinearisations,
        predicted_seconds=plan.seconds,
        predicted_error=plan.error,
        predicted_peak_bytes=plan.peak_bytes,
        **case.stages,
        **extra,
    )
    if len(timings) > 2:
        found["peer_improved_seconds"] = timings[2].seconds
        found["speedup_improved"] = timings[2].seconds / timings[0].seconds
        found.setdefault(
            "note", f"{found['speedup_improved']:.1f} over E2DM with one rotation per column shift"
        )
    return found


def _peers(shape: Shape, python: str | None, threads: int) -> Iterator[Peer]:
    m, k, n = shape
    ring = 1 << 13 if max(shape) <= 64 else 1 << 15
    for single_rotation in (False, True):
        request = {"m": m, "k": k, "n": n, "n_ring": ring, "single_rotation": single_rotation, **_SEAL}
        yield Peer("e2dm-seal", request, python=python, threads=threads)


def _check_peer(peer: Peer, shape: Shape, precision: float) -> None:
    """A peer that misses the precision asked of us is no yardstick."""
    bound = precision * shape[1]
    if not peer.ready["error"] <= bound:
        raise PeerError(
            f"{peer.ready['peer']}: expected an error of at most {bound:.2g}, got {peer.ready['error']:.2g}"
        )


def _peer_params(peer: Peer) -> Row:
    names = ("n", "logq", "logp", "limbs", "keys", "key_bytes", "peak_bytes", "error")
    return {name: peer.ready[name] for name in names} | {"dnum": peer.ready["digits"]}
