"""Rotations and linear transforms over the key policies: hoisting, shared prefixes, baby-step/giant-step.

Functions take the evaluator whose counts and hooks they use; `Evaluator` exposes them as methods.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from cipherblas.common.errors import MismatchError, ParameterError
from cipherblas.evaluators.slots.bookkeeping import Term
from cipherblas.evaluators.slots.products import Products
from cipherblas.evaluators.slots.values import Ct, GiantStep, GroupedSteps, MaskGroup, Plain, Transform
from cipherblas.rlwe.key_policies import Path, Step, expand, rotation_tree, total_step
from cipherblas.rlwe.noise import SlotErrors, worst

MAX_BATCH = 4  # ciphertexts whose baby steps read keys and diagonals at one time


def rotate_many(ev: Products, x: Ct, steps: Sequence[Step]) -> list[Ct]:
    """Return all rotations of x, one for each of `steps`. Equal rotations are one object."""
    if ev.key_policy == "direct":  # each by itself: there are no prefixes to share
        if len(steps) == 1:
            total = total_step(steps[0]) % ev.slots
            return rotate_atoms(ev, x, [total]) if total else [x]
        slots = ev.slots
        totals = [(sum(step) if isinstance(step, tuple) else step) % slots for step in steps]
        different = [total for total in dict.fromkeys(totals) if total]
        single = dict(zip(different, rotate_atoms(ev, x, different), strict=True)) if different else {}
        return [single.get(total, x) for total in totals]
    paths = [expand(step, ev.key_policy, ev.slots) for step in steps]
    rotated = rotate_paths(ev, x, paths)
    return [rotated[path] for path in paths]


def rotate_paths(ev: Products, x: Ct, paths: Sequence[Path]) -> dict[Path, Ct]:
    """x rotated along each path. Prefixes are shared; each point with successors is hoisted once."""
    if not any(paths):
        return {(): x}
    found: dict[Path, Ct] = {}
    pending = [(rotation_tree(paths), x)]
    while pending:
        node, ct = pending.pop()
        if node.wanted or not node.path:
            found[node.path] = ct
        if node.children:
            results = rotate_atoms(ev, ct, list(node.children))
            pending.extend(zip(node.children.values(), results, strict=True))
    return found


def rotate_atoms(ev: Products, x: Ct, steps: list[int]) -> list[Ct]:
    """Single rotations of x, hoisted: one ModUp, one key product and ModDown each."""
    check_switchable(x)
    limbs = x.limbs
    ev.use_rotations(steps, limbs)
    ev.counts.rotations += len(steps)
    ev.costs.linear_transform(ev.counts, limbs, decomposed=1, switched=len(steps), outputs=len(steps))
    ev.ledger.touch(ev.costs.transform_bytes(1, len(steps), limbs))
    place = limbs, x.scale
    errors = ev.policy.key_switched(x.errors.rotated(), place, place)
    data = ev._rotate_data(x.data, steps, limbs)
    return ev.make_all(data, (limbs, x.scale, x.bound, errors, 2))


def transform_plain(x: Plain, transform: Transform) -> Plain:
    """A linear transform of a clear vector."""
    key = ("transform", transform.key, x.key)
    bound = x.bound * transform.row_sum
    return Plain(
        key, lambda: transform.apply(x.values()), bound, keep=True, constant=x.constant, blocks=x.blocks
    )


class _Last(NamedTuple):
    """The last rotation of a path, and those before it."""

    prefix: Path
    step: int


def transform_many(
    ev: Products, x: Ct, transforms: Sequence[Transform], order: str | None, at_once: int | None = None
) -> Iterator[Ct]:
    """Linear transforms of one ciphertext, in groups that fit the working memory, of `at_once` at most.

    Under the policies that walk paths, and of transforms that do, all but the last part of each path is rotated first;
    the last part is done by the executor together with the diagonals.
    """
    check_switchable(x)
    if any(transform.masked for transform in transforms):
        ev.require_levels(x, 1, "a linear transform")
        x = ev.for_masks(x)
    sources, rows = _rotated_first(ev, x, transforms)
    start = 0
    while start < len(transforms):
        stop = _group_end(ev, transforms, start, x.limbs)
        stop = stop if at_once is None else min(stop, start + at_once)
        yield from _transform_group(ev, x, sources, transforms[start:stop], rows[start:stop], order)
        start = stop


def _rotated_first(
    ev: Products, x: Ct, transforms: Sequence[Transform]
) -> tuple[dict[Path, Ct], list[list[_Last]]]:
    """x rotated by all but the last parts of paths, by these, and of each transform where its terms come from."""
    policy = ev.key_policy
    if policy == "direct":
        if not any(transform.walked for transform in transforms):
            return {(): x}, [[_Last((), total_step(step) % ev.slots) for step in t.terms] for t in transforms]
        policy = "composed"
    paths = [[expand(step, policy, ev.slots) for step in t.terms] for t in transforms]
    sources = rotate_paths(ev, x, sorted({path[:-1] for row in paths for path in row}))
    return sources, [[_Last(path[:-1], path[-1] if path else 0) for path in row] for row in paths]


def transform_part(ev: Products, x: Ct, transform: Transform, number: int, count: int) -> Ct | None:
    """See `Evaluator.transform_part`."""
    check_switchable(x)
    ev.require_levels(x, 1, "a linear transform")
    part = transform.part(number, count)
    if part is None:
        return None
    sources, (row,) = _rotated_first(ev, x, [part])
    index: dict[Path, int] = {}
    terms = [
        Term(0, index.setdefault(prefix, len(index)), step, plain)
        for (prefix, step), plain in zip(row, part.terms.values(), strict=True)
    ]
    data = _execute(ev, [sources[prefix] for prefix in index], terms, 0, x.limbs, False, None)[0]
    return ev.undivided(x, data)


def transform_of_parts(ev: Products, x: Ct, transform: Transform, parts: Sequence[Any]) -> Ct:
    """See `Evaluator.transform_of_parts`."""
    ev.counts.linear_transforms += 1
    ev.costs.divide_sums(ev.counts, x.limbs, len(parts))
    data = ev._level_done(ev._divide_sums_data(parts), x.limbs)
    place = x.limbs, x.scale
    errors = ev.policy.key_switched(x.errors.rotated(), place, place) if transform.walked else x.errors
    return _transformed(ev, x, ev.policy.key_switched(worst([x.errors, errors]), place), [transform], [data])[
        0
    ]


def _group_end(ev: Products, transforms: Sequence[Transform], start: int, limbs: int) -> int:
    """The largest group from `start` on whose buffers fit; at least one transform, all masked or none."""
    masked, terms = transforms[start].masked, 0
    stop = start
    while stop < len(transforms) and transforms[stop].masked == masked:
        terms += len(transforms[stop])
        if stop > start and ev.costs.transform_bytes(1, stop + 1 - start, limbs, terms) > ev.working_bytes:
            break
        stop += 1
    return stop


def _transform_group(
    ev: Products,
    x: Ct,
    sources: dict[Path, Ct],
    transforms: Sequence[Transform],
    rows: Sequence[Sequence[_Last]],
    order: str | None,
) -> list[Ct]:
    """One executor call: every output of the group."""
    index: dict[Path, int] = {}
    terms = [
        Term(output, index.setdefault(prefix, len(index)), step, plain)
        for output, (transform, row) in enumerate(zip(transforms, rows, strict=True))
        for (prefix, step), plain in zip(row, transform.terms.values(), strict=True)
    ]
    used = [sources[prefix] for prefix in index]
    masked = transforms[0].masked
    if any(transform.masked != masked for transform in transforms):
        raise MismatchError(
            "The diagonals of a transform must all be given, or all be None.",
            expected="all given or all None",
            got="a mixture",
        )
    data = _execute(ev, used, terms, len(transforms), x.limbs, masked, order)
    switched = ev.policy.key_switched(worst(ct.errors for ct in used), (x.limbs, x.scale))
    return _transformed(ev, x, switched, transforms, data)


def _transformed(
    ev: Products, x: Ct, switched: SlotErrors, transforms: Sequence[Transform], data: Sequence[Any]
) -> list[Ct]:
    """The handles of x transformed.

    Args:
        switched: the errors of a rotation.
    """
    before, masked = (x.limbs, x.scale), transforms[0].masked
    after = (ev.below(x.limbs), ev.policy.masked(x.scale)) if masked else before
    results = []
    for transform, output in zip(transforms, data, strict=True):
        sums = transform.row_sum, transform.row_norm
        if transform.distinct:
            errors = switched.repeated(len(transform))
        else:
            errors = ev.policy.mapped(switched, sums, len(transform), masked)
        if masked:
            errors = errors.with_common(_encoding(ev, x, transform))
        errors = ev.policy.rounded(errors, before, after)
        results.append(ev.make(*after, x.bound * transform.row_sum, errors, 2, output))
    return results


def _execute(
    ev: Products,
    sources: Sequence[Ct],
    terms: Sequence[Term],
    outputs: int,
    limbs: int,
    rescale: bool,
    order: str | None,
) -> list[Any]:
    """Count and run one call of the linear-transform executor; of no output, one sum that is not divided by P."""
    counts, costs = ev.counts, ev.costs
    steps = [term.step for term in terms if term.step]
    ev.use_rotations(set(steps), limbs)
    counts.rotations += len(steps)
    counts.linear_transforms += outputs
    plains = [term.plain for term in terms if term.plain is not None]
    unswitched = len(terms) - len(steps)
    costs.linear_transform(
        *(counts, limbs),
        decomposed=len({term.source for term in terms if term.step}),
        switched=len(steps),
        unswitched=unswitched,
        outputs=outputs,
        rescale=rescale,
        masks=len(plains),
        masks_in_place=unswitched if plains else 0,
    )
    passing = 0  # bytes of encoded diagonals that are not kept
    if plains:
        ev.check_encoded(plains, ev.mask_scale(limbs))
        passing = ev._book_encodings(plains, ev.mask_scale(limbs), 0, ev.limb_bytes())
    ev.ledger.touch(costs.transform_bytes(len(sources), outputs, limbs) + passing)
    datas = [ct.data for ct in sources]
    if not outputs:
        return [ev._undivided_data(datas, terms, limbs)]
    data = ev._transform_data(datas, terms, outputs, limbs, rescale, order)
    return [ev._level_done(one, limbs) for one in data] if rescale else data


def transform_giant_steps(
    ev: Products,
    xs: Sequence[Ct],
    transform: Transform,
    baby_steps: int,
    order: str | None,
    most: float = math.inf,
    double: bool = False,
) -> list[Ct]:
    """Baby-step/giant-step, of every x: Σ_g Rot_g(Σ_b Rot_{-g}(u_{g+b}) ⊙ Rot_b(x)).

    The baby rotations are hoisted and written out, so that every giant step reads them; the giant rotations share one
    ModDown, merged with the rescale.

    Args:
        xs: at the same limbs.
        most: what no slot of the result exceeds, or no coefficient: parts of the sum may wrap around the modulus then.
        double: baby rotations are not written out, nor divided by P: the sum of each giant step is. Diagonals are
            encoded modulo P as well. Where there are fewer giant steps than baby rotations, each by one key. Sums of
            several x are one call of the engine then, which reads keys and diagonals once for as many as fit the
            working memory.

    Raises:
        MismatchError: they differ in limbs.
    """
    limbs = xs[0].limbs
    for x in xs:
        check_switchable(x)
        ev.require_levels(x, 1, "a linear transform")
        if x.limbs != limbs:
            raise MismatchError("Ciphertexts of one transform differ in limbs.", expected=limbs, got=x.limbs)
    xs = [ev.for_masks(x) for x in xs]
    if baby_steps not in transform.grouped:
        transform.grouped[baby_steps] = GroupedSteps.of(_giant_steps(transform, baby_steps))
    groups, babies = transform.grouped[baby_steps]
    if not double or not _worth_merging(ev, groups, babies):
        return [_of_rotations(ev, x, transform, groups, babies, order, most) for x in xs]
    together = max(1, min(MAX_BATCH, ev.working_bytes // ev.costs.giant_bytes(len(groups), limbs)))
    found: list[Ct] = []
    for start in range(0, len(xs), together):
        found += _double_hoisted(ev, xs[start : start + together], transform, groups, babies, most)
    return found


def coefficient_parts(ev: Products, xs: Sequence[Ct], level: int, layers: int, outputs: int) -> list[Ct]:
    """See `Evaluator.coefficient_parts`."""
    for x in xs:
        check_switchable(x)
    limbs, parts = xs[0].limbs, 1 << layers
    steps = [step_of(ev.n, level, number) for number in range(1, parts)]
    ev.use_rotations(steps, limbs)
    for _ in xs:
        ev.counts.rotations += len(steps)
        ev.costs.coefficient_parts(ev.counts, limbs, parts, outputs)
    ev.ledger.touch(len(xs) * (ev.costs.giant_bytes(outputs, limbs) + ev.costs.switch_bytes(limbs)))
    data = iter(ev._coefficient_parts_data([x.data for x in xs], level, steps, outputs, limbs))
    found = []
    for x in xs:
        place = limbs, x.scale
        errors = ev.policy.key_switched(x.errors.rotated().repeated(parts), place, place, len(steps))
        sums = ev.make_all([next(data) for _ in range(outputs)], (limbs, x.scale, x.bound, errors, 2))
        found += [ev.fold_into_scale(ct, 1 / parts) for ct in sums]
    return found


@functools.lru_cache(maxsize=1024)
def step_of(n: int, level: int, number: int = 1) -> int:
    """The rotation that is the product of X → X^(1 + N/2^(level + j)) over the ones of a number, j their place."""
    element = 1
    for j in range(number.bit_length()):
        if number >> j & 1:
            element = element * (1 + (n >> level + j)) % (2 * n)
    first = (n >> level + number.bit_length() - 1) // 4  # 5^s - 1 has two factors of 2 more than s
    return next(step for step in range(first, n // 2, 2 * first) if pow(5, step, 2 * n) == element)


def _worth_merging(ev: Products, groups: Sequence[GiantStep], babies: Sequence[int]) -> bool:
    """Whether there are fewer giant steps than baby rotations, each by one key."""
    keys = [len(expand(baby, ev.key_policy, ev.slots)) for baby in babies]
    giants = (len(expand(group.step, ev.key_policy, ev.slots)) for group in groups)
    return len(groups) < sum(keys) and max(keys) <= 1 and max(giants) <= 1


def raise_and_transform(
    ev: Products, xs: Sequence[Ct], limbs: int, bound: float, transform: Transform
) -> list[Ct]:
    """See `Evaluator.raise_and_transform`: one giant step, by nothing, whose baby steps are of the sparse secret."""
    for x in xs:
        check_switchable(x)
    xs = [ev.drop(x, 1) for x in xs]
    group = _whole_group(transform, ev.slots)
    steps, number = group.babies, len(group.babies)
    counts, costs, scale = ev.counts, ev.raising_costs, ev.mask_scale(limbs)
    extended = limbs + len(ev.params.family.raising.p)
    ev.use_raising_keys(dict.fromkeys(steps), limbs)
    for _ in xs:
        counts.rotations += sum(step != 0 for step in steps)
        counts.linear_transforms += 1
        ev.costs.raised(counts, limbs)
        costs.encode_extended(counts, number, limbs)
        costs.giant_steps(
            *(counts, limbs), babies=(number, number), sums=[(number, 0)], giants=0, repeats=transform.repeats
        )
    ev.check_encoded(group.plains, scale)
    each = costs.extended_factor_bytes(limbs) // transform.repeats
    passing = ev._book_encodings(group.plains, scale, extended, each)
    together = max(1, min(MAX_BATCH, ev.working_bytes // costs.giant_bytes(1, limbs)))
    found: list[Ct] = []
    for start in range(0, len(xs), together):
        some = xs[start : start + together]
        ev.ledger.touch(len(some) * (costs.giant_bytes(1, limbs) + 2 * limbs * ev.limb_bytes()) + passing)
        datas = ev._raised_data([x.data for x in some], bound, steps, group, scale, limbs, transform.repeats)
        for x, data in zip(some, datas, strict=True):
            raised = Ct(limbs, x.scale, bound, ev.policy.raised_anew(x.errors, x.scale), 2, None)
            data = ev._level_done(data, limbs)
            found.append(_of_giant_steps(ev, raised, raised.errors, transform, 0, math.inf, data))
    return found


def _whole_group(transform: Transform, slots: int) -> GiantStep:
    """All diagonals as those of one giant step, by nothing."""
    steps = tuple(total_step(step) % slots for step in transform.terms)

    def plains() -> Sequence[Plain]:
        return [plain for plain in transform.terms.values() if plain is not None]

    return GiantStep(0, steps, MaskGroup((transform.key, "whole"), len(steps), plains))


def _of_rotations(
    ev: Products,
    x: Ct,
    transform: Transform,
    groups: Sequence[GiantStep],
    babies: Sequence[int],
    order: str | None,
    most: float,
) -> Ct:
    """`transform_giant_steps` of one x, whose baby rotations are written out."""
    rotated = dict(zip(babies, rotate_many(ev, x, babies), strict=True))
    sums = ev.baby_sums(rotated, groups, transform, most)
    sources, data = _rotated_sum(ev, sums, [group.step for group in groups], True, order)
    errors = worst(ct.errors for ct in rotated.values())
    return _of_giant_steps(ev, x, errors, transform, len(sources), most, data)


def _double_hoisted(
    ev: Products,
    xs: Sequence[Ct],
    transform: Transform,
    groups: Sequence[GiantStep],
    babies: Sequence[int],
    most: float,
) -> list[Ct]:
    """`transform_giant_steps` by one call of the engine."""
    counts, costs, limbs = ev.counts, ev.costs, xs[0].limbs
    scale, extended = ev.mask_scale(limbs), limbs + ev._special
    giants = [group.step % ev.slots for group in groups if group.step % ev.slots]
    rotated = [baby % ev.slots for baby in babies if baby % ev.slots]
    ev.use_rotations(dict.fromkeys((*rotated, *giants)), limbs)
    sums = tuple((len(group.babies), sum(baby % ev.slots == 0 for baby in group.babies)) for group in groups)
    for _ in xs:
        counts.rotations += len(rotated) + len(giants)
        counts.linear_transforms += 1
        for group in groups:
            costs.encode_extended(counts, len(group.babies), limbs)
        costs.giant_steps(
            *(counts, limbs),
            babies=(len(babies), len(rotated)),
            sums=sums,
            giants=len(giants),
            repeats=transform.repeats,
        )
    for group in groups:
        ev.check_encoded(group.plains, scale)
    # Bytes of encoded diagonals that are not kept.
    each = costs.extended_factor_bytes(limbs) // transform.repeats
    passing = sum(ev._book_encodings(group.plains, scale, extended, each) for group in groups)
    ev.ledger.touch(len(xs) * (costs.giant_bytes(len(groups), limbs) + 2 * limbs * ev.limb_bytes()) + passing)
    datas = ev._giant_steps_data([x.data for x in xs], babies, groups, scale, limbs, transform.repeats)
    datas = [ev._level_done(data, limbs) for data in datas]
    errors = [ev.policy.key_switched(x.errors.rotated(), (limbs, x.scale)) for x in xs]
    return [
        _of_giant_steps(ev, x, own, transform, len(groups), most, data)
        for x, own, data in zip(xs, errors, datas, strict=True)
    ]


def _of_giant_steps(
    ev: Products, x: Ct, errors: SlotErrors, transform: Transform, giants: int, most: float, data: Any
) -> Ct:
    """The handle of x transformed, x being what `for_masks` made of it.

    Args:
        errors: of a baby rotation.
        giants: number of giant steps.
    """
    before = x.limbs, ev.policy.product(x.scale, ev.mask_scale(x.limbs))
    after = ev.below(x.limbs), ev.policy.masked(x.scale)
    rows = transform.row_sum, transform.row_norm
    errors = ev.policy.mapped(errors, rows, len(transform)).with_common(_encoding(ev, x, transform))
    errors = ev.policy.key_switched(errors, before, after, giants)
    return ev.make(*after, min(x.bound * transform.row_sum, most), errors, 2, data)


def _encoding(ev: Products, x: Ct, transform: Transform) -> float:
    """The error that the encoding of the diagonals adds to x transformed."""
    norm, largest = transform.rounding_norm, x.bound * transform.row_sum
    return ev.policy.encoding_error(ev.mask_scale(x.limbs), x.bound, norm, largest)


def _giant_steps(transform: Transform, baby_steps: int) -> tuple[GiantStep, ...]:
    """The diagonals by giant step, rotated back by it."""

    def rolled(giant: int, members: Sequence[tuple[int, Step]]) -> tuple[Plain, ...]:
        plains = (transform.terms[step] for _, step in members)
        return tuple(plain.rolled(-giant) for plain in plains if plain is not None)

    return tuple(
        GiantStep(
            giant,
            tuple(baby for baby, _ in members),
            MaskGroup(
                *((transform.key, baby_steps, giant), len(members)),
                functools.partial(rolled, giant, members),
            ),
        )
        for giant, members in split_steps(list(transform.terms), baby_steps).items()
    )


def rotate_sum(
    ev: Products,
    cts: Sequence[Ct],
    steps: Sequence[int],
    rescale: bool,
    bound: float,
    errors: SlotErrors | None,
) -> Ct:
    """Σ_i Rot_{steps_i}(ct_i), with one ModDown; see `Evaluator.rotate_sum`."""
    for ct in cts:
        check_switchable(ct)
        ev.policy.check_same(ct.scale, cts[0].scale)
    limbs = min(ct.limbs for ct in cts)
    cts = ev._dropped(cts, limbs)
    bound = min(bound, math.fsum(ct.bound for ct in cts))
    if errors is None or not ev.policy.approximate:  # bounds on coefficients know nothing of slots
        errors = functools.reduce(lambda x, y: x.plus_distinct(y), [ct.errors for ct in cts])
    if len(cts) == 1 and steps[0] % ev.slots == 0:
        return ev.rescale(cts[0]) if rescale else cts[0]
    sources, data = _rotated_sum(ev, cts, steps, rescale, None)
    before = after = limbs, cts[0].scale
    if rescale:
        after = ev.below(limbs), ev.policy.divided(before[1], limbs, ev.below(limbs))
    errors = ev.policy.key_switched(errors.rotated(), before, number=len(sources))
    return ev.make(*after, bound, ev.policy.rounded(errors, before, after), 2, data)


def _rotated_sum(
    ev: Products, sums: Sequence[Ct], steps: Sequence[int], rescale: bool, order: str | None
) -> tuple[list[Ct], Any]:
    """The rotations that come last, under the key policy, and the data of the sum."""
    sources: list[Ct] = []
    terms: list[Term] = []
    if ev.key_policy == "direct":
        terms = [Term(0, source, step % ev.slots, None) for source, step in enumerate(steps)]
        return list(sums), _execute(ev, sums, terms, 1, sums[0].limbs, rescale, order)[0]
    for ct, step in zip(sums, steps, strict=True):
        path = expand(step, ev.key_policy, ev.slots)
        terms.append(Term(0, len(sources), path[-1] if path else 0, None))
        sources.append(rotate_paths(ev, ct, [path[:-1]])[path[:-1]] if path[:-1] else ct)
    return sources, _execute(ev, sources, terms, 1, sums[0].limbs, rescale, order)[0]


def split_steps(steps: Sequence[Step], baby_steps: int) -> dict[int, list[tuple[int, Step]]]:
    """Group rotations by giant step: giant → [(baby, step)], giant + baby = step, in units of their divisor."""
    if baby_steps < 1:
        raise ParameterError(
            "The number of baby steps must be at least 1.", expected="at least 1", got=baby_steps
        )
    totals = np.array([step if type(step) is int else total_step(step) for step in steps], np.int64)
    unit = int(np.gcd.reduce(totals)) or 1
    giants = totals // unit // baby_steps * baby_steps * unit
    pairs = list(zip((totals - giants).tolist(), steps, strict=True))
    groups: dict[int, list[tuple[int, Step]]] = {}
    edges = [0, *(np.flatnonzero(giants[1:] != giants[:-1]) + 1).tolist(), len(pairs)]
    for start, stop in itertools.pairwise(edges):  # those of a giant step mostly stand together
        if stop > start:
            groups.setdefault(int(giants[start]), []).extend(pairs[start:stop])
    return groups


def check_switchable(x: Ct) -> None:
    """Raise MismatchError unless x has two components."""
    if x.components != 2:
        raise MismatchError(
            "A rotation needs a relinearised ciphertext.", expected="2 components", got=x.components
        )
