"""A plan as text for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import printable
from cipherblas.crypto.params import Parameters
from cipherblas.lang.crt import INT64, wanted_modulus
from cipherblas.lang.operands import Operand
from cipherblas.methods.bootstrapping.refresh import bootstrapping_of
from cipherblas.planner.plan.plan import Plan
from cipherblas.planner.plan.targets import ResultFigures
from cipherblas.planner.predict.caches import Cache
from cipherblas.planner.predict.machine import Machine
from cipherblas.rlwe.basis import FirstLimbs
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.fast_memory import FastMemory
from cipherblas.rlwe.noise import FAILURE_BITS, WRONG_BITS
from cipherblas.runtime.blocks import COEFFICIENTS, LAYOUT_PRESERVING
from cipherblas.runtime.conversions import ConversionOptions
from cipherblas.runtime.executor import NodeFigures
from cipherblas.runtime.row_products.table import chosen
from cipherblas.runtime.rows import ROWS
from cipherblas.runtime.tensors import PACKING, TENSORS

MAX_SHOWN_MODULI = 6
ORDERS = {"limb": "limb by limb", "rotation": "rotation by rotation"}  # of the loops of a linear transform


def explain(
    plan: Plan,
    formula: str,
    operands: Mapping[str, Operand],
    results: Sequence[tuple[int, ...]],
    budgets: Sequence[float] = (),
) -> str:
    """Every decision and prediction of `plan`, one per line, then the candidates that lost and why.

    Args:
        results: their shapes.
        budgets: bits of the modulus that the errors of each leave, of integers modulo t.

    No character of it can steer a terminal, whatever the plan holds.
    """
    params, exact = plan.parameters, any(operand.exact for operand in operands.values())
    shapes = ", ".join(
        f"{name} {shape_text(operand.shape)} {_kind(operand)}" for name, operand in operands.items()
    )
    security = f"{params.security} bits" if params.security else "NONE (insecure parameters)"
    shown = (
        [] if plan.form == TENSORS else [named(choice.options) for choice in plan.choices if choice.options]
    )
    options = "; ".join(dict.fromkeys(shown))
    alone = plan.decided.every_form == (ROWS,)
    what = "encrypted rows" if alone else "ciphertexts"
    rows = [
        ("program", formula),
        ("operands", shapes),
        ("algorithm", plan.algorithm + (f" ({options})" if options else "")),
        *(_rows(plan) if alone else _slots(plan)),
        (
            "log2(Q), log2(P)",
            f"{params.log_q:.1f} ({params.limbs} limbs), {params.log_p:.1f} ({params.special_limbs} limbs)",
        ),
        *_operand_moduli(plan),
        ("dnum", f"{params.dnum}"),
        ("security", security),
        *(_residues(plan) or _scale(params, alone)),
        *_budget(budgets),
        *(_refreshes(plan) or [("levels spent", f"{plan.levels}")]),
        (
            what,
            f"{plan.upload_ciphertexts} up ({size(plan.upload_bytes)}), "
            f"{plan.result_ciphertexts} down ({size(plan.result_bytes)})",
        ),
        *_public_key(plan, operands),
        *_work(plan),
        ("evaluation keys", _key_set(plan)),
        *_rotations(plan),
        *_saving(plan),
        *_weights(plan),
        ("peak memory", f"{size(plan.peak_bytes)} on the server, {_included(plan)} included{_held(plan)}"),
        ("of which", _needs(plan)),
        ("machine", _machine(plan.machine)),
        *_fast_memory(plan),
        *_times(plan),
        *_errors(plan, results, exact),
        *_found_on_samples(plan),
        *_exact(plan, exact, wanted_modulus(operands)),
        *_promise(plan),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [printable(f"{name:<{width}}  {value}") for name, value in rows]
    lines += _nodes(plan)
    if plan.rejected:
        lines.append("not taken:")
        what = " end to end" if plan.minimise == "end-to-end" else " on the server"
        for other in plan.rejected:
            time = f" ({duration(other.seconds)}{what})" if other.seconds is not None else ""
            lines.append(printable(f"  {other.algorithm}{time}: {other.reason.removesuffix('.')}"))
    return "\n".join(lines)


def _scale(params: Parameters, alone: bool) -> list[tuple[str, str]]:
    """The scale of slots; of integers modulo t that, and what they are promised."""
    if params.plain_modulus is not None:
        what = f"integers modulo {params.plain_modulus}, exact: wrong with a chance below 2^-{WRONG_BITS}"
        return [("plaintexts", f"{what}, for whatever operands")]
    return [] if alone else [("scale", f"2^{params.scale_bits:.1f}" + _level(params))]


def _residues(plan: Plan) -> list[tuple[str, str]]:
    """Every t of exact integers that are computed by residues, and what that takes beside one."""
    moduli = plan.moduli
    if not moduli:
        return []
    bits = math.log2(math.prod(moduli))
    sizes = sorted({one.bit_length() for one in moduli})
    each = f"{sizes[0]} bits" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} bits"
    shown = ", ".join(map(str, moduli[:MAX_SHOWN_MODULI])) + ", …" * (len(moduli) > MAX_SHOWN_MODULI)
    number = "1 t" if len(moduli) == 1 else f"{len(moduli)} t"
    once = f"; {len(moduli)} times what one takes, keys apart" if len(moduli) > 1 else ""
    chance = f"wrong with a chance below 2^-{WRONG_BITS}, for whatever operands"
    return [
        (
            "plaintexts",
            f"exact integers, by residues modulo {number} of {each} ({shown}): {bits:.1f} bits{once}",
        ),
        ("correctness", chance),
    ]


def _budget(budgets: Sequence[float]) -> list[tuple[str, str]]:
    """Bits of the modulus that errors leave, of results modulo t."""
    return [("noise budget", f"{min(budgets):.1f} bits left at the end")] if budgets else []


def _level(params: Parameters) -> str:
    """How a scale is made of several primes."""
    return (
        f", of {params.level_limbs} primes: a level takes {params.level_limbs} limbs"
        if params.level_limbs
        else ""
    )


def _fast_memory(plan: Plan) -> list[tuple[str, str]]:
    """Memory that linear transforms reuse by FAME's cost model, for both orders of their loops, beside the caches."""
    params, caches = plan.parameters, plan.machine.caches
    if not plan.counts.linear_transforms:
        return []
    model = FastMemory.of(params.n, params.limbs, params.special_limbs, params.dnum)
    kept = ", ".join(
        f"{size(model.needed(order))} {text}" + " (this plan's)" * (order == plan.order)
        for order, text in ORDERS.items()
    )
    transforms = f"a linear transform keeps {kept}"
    if not caches:
        return [("fast memory", f"{transforms}; caches not known")]
    known = ", ".join(
        f"L{cache.level} {size(cache.nbytes)}"
        + f" for {cache.processors} processors" * (cache.processors > 1)
        for cache in caches
        if cache.level > 1
    )
    fits = "; ".join(_fits(model, order, text, caches) for order, text in ORDERS.items())
    return [("fast memory", f"{transforms}; {known}: {fits}")]


def _fits(model: FastMemory, order: str, text: str, caches: Sequence[Cache]) -> str:
    """Where what a transform keeps has room."""
    for cache in caches:
        if model.needed(order) <= cache.nbytes:
            return f"{text} fits L{cache.level}"
    spilled = model.spilled(max(cache.nbytes for cache in caches), order, 1)
    return f"{text} spills, {size(spilled)} per {'transform' if order == 'limb' else 'rotation'}"


def _machine(machine: Machine) -> str:
    """The machine that the times and the default budgets are predicted for."""
    processor = "" if machine.processor == machine.name else f"{machine.processor}, "
    threads = f"{machine.threads} thread{'s' if machine.threads != 1 else ''}"
    memory = "" if machine.memory is None else f", {size(machine.memory)} available"
    return f"{machine.name} ({processor}{machine.isa}, {threads}{memory})"


def _times(plan: Plan) -> list[tuple[str, str]]:
    """Seconds of the evaluation, of a first run, and of all that a user waits for."""
    stages, threads = plan.stages, f"{plan.threads} thread{'s' if plan.threads != 1 else ''}"
    keys = f"{duration(stages.load_keys)} to {'load keys' if plan.key_bytes else 'begin'}, "
    encoding = f", {duration(stages.encode)} to encode" if stages.encode else ""
    return [
        ("expected time", f"{duration(stages.evaluate)} on {threads}"),
        (
            "first run",
            f"{duration(stages.first_run)}: {keys}{duration(stages.expand)} to expand seeds{encoding}, "
            "then the evaluation",
        ),
        (
            "end to end",
            f"{duration(stages.end_to_end)}: "
            f"{duration(stages.encrypt)} to encrypt, {duration(stages.upload)} up at {bit_rate(stages.link)}, "
            f"first run, {duration(stages.download)} down, {duration(stages.decrypt)} to decrypt",
        ),
    ]


class ShownNode(NamedTuple):
    """A node of a program, or a conversion of its value, for people.

    Attributes:
        number: of the node in the order of the graph.
        form: the name of a form, or of a conversion.
        how: the method with its options.
        limbs: how many, or that it is modulo the moduli of operands.
    """

    number: int
    title: str
    form: str
    how: str
    limbs: str
    time: str


def shown_nodes(plan: Plan) -> list[ShownNode]:
    """All nodes that are computed, and all conversions, in their order."""
    return [_shown(plan, one) for one in plan.nodes]


def _shown(plan: Plan, one: NodeFigures) -> ShownNode:
    seconds = duration(plan.seconds_of(one.counts))
    return ShownNode(one.number, one.title, one.form, _how(plan, one), _limbs(one), seconds)


def _limbs(one: NodeFigures) -> str:
    """Limbs for people."""
    return str(FirstLimbs(one.limbs)) if one.limbs else "operand modulus"


def _nodes(plan: Plan) -> list[str]:
    """How each node is computed, or an operand packed, what that takes, at which level, and what was nearly taken."""
    mixed = len(plan.decided.every_form) > 1
    shown = [one for one in plan.nodes if one.choice or _spent(one) or _nearly(plan, one)]
    if len(shown) < 2:
        return []
    rows = []
    for one in shown:
        text, nearly = _shown(plan, one), _nearly(plan, one)
        cells = (text.title, *([text.form] if mixed else []), text.how, _spent(one))
        rows.append((*cells, text.limbs, text.time, f"(next best: {nearly})" if nearly else ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    heading = "nodes:" if mixed else f"nodes, all {plan.form}:"
    return [heading, *(printable(f"  {line}".rstrip()) for line in lines)]


def _nearly(plan: Plan, one: NodeFigures) -> str | None:
    """The runner-up for a node, or for the conversion of its value."""
    others = plan.runners_up if one.form in plan.decided.every_form else plan.other_conversions
    return others.get(one.number)


def _how(plan: Plan, one: NodeFigures) -> str:
    """A decision on a node, or on the conversion of its value."""
    choice = one.choice
    if one.form not in plan.decided.every_form:
        stages = plan.decided.conversions.get(one.number, {}).get("stages", ConversionOptions.stages)
        return f"{stages} stage{'s' if stages != 1 else ''}"
    if choice is None:
        return "on ciphertexts"
    if choice.method == LAYOUT_PRESERVING:
        return "where its factors lie"
    if choice.method == COEFFICIENTS:
        return f"{choice.options['each']} in a ciphertext, taken apart by the server"
    options = {name: value for name, value in choice.options.items() if name not in ("layout", "mask")}
    before = ["packed again"] * ("layout" in choice.options) + ["masked"] * ("mask" in choice.options)
    if choice.method == PACKING:
        return "packed in order" if not options else f"packed with {named(options)}"
    texts = [f"{choice.method} {named(options)}".rstrip(), *(f"input {word} before" for word in before)]
    return ", ".join(texts)


def named(options: Mapping[str, Any]) -> str:
    """Options of a method for people."""
    return ", ".join(f"{name}={value}" for name, value in sorted(options.items()))


def beside(other: str, seconds: float, taken: float) -> str:
    """The runner-up for a node, with its time relative to the chosen method.

    Where it takes less, what is taken saves more in other nodes: by its level, or by the layout that it leaves.
    """
    if seconds < taken:
        return f"{other}, faster here, slower in all"
    return f"{other}, {seconds / max(taken, 1e-12):.1f} times"


def _spent(found: NodeFigures) -> str:
    counts = found.counts
    counted = (
        (counts.rotations, "rotation"),
        (counts.plain_products, "plaintext"),
        (counts.relinearisations, "relinearisation"),
        (counts.transposes, "transpose"),
    )
    texts = [f"{number} {word}{'s' if number != 1 else ''}" for number, word in counted if number]
    return ", ".join(texts + [size(counts.stored_bytes)] * bool(counts.stored_bytes))


def _weights(plan: Plan) -> list[tuple[str, str]]:
    """The encoded weights that a server keeps, and where; how much of a disk is free is known where it runs."""
    stored, held = plan.counts.stored_bytes, plan.weight_memory_bytes
    if not stored:
        return []
    where = "in memory"
    if held < stored:
        where = f"{size(held)} in memory, {size(stored - held)} in a file as far as half of the free disk holds it"
        where += ", the rest encoded anew in each run"
    return [("encoded weights", f"{size(stored)}, {where}")]


def _held(plan: Plan) -> str:
    """The part of the memory that may be files, where products expand the ciphertexts of large operands one by one."""
    return (
        f", {size(plan.held_bytes)} of it ciphertexts that may stay in files" if plan.streamed_bytes else ""
    )


def _included(plan: Plan) -> str:
    return "keys and weights" if plan.weight_memory_bytes else "keys"


def _needs(plan: Plan) -> str:
    """The parts of the memory of a run."""
    return ", ".join(f"{name} {size(nbytes)}" for name, nbytes in plan.needs().to_dict().items() if nbytes)


def _kind(operand: Operand) -> str:
    kind = "secret" if operand.secret else "public"
    kind += " (by public key)" * operand.public_key
    kind += f", {operand.known}" if operand.known else ""
    kind += f", {operand.normalise}" if operand.normalise is not None else ""
    kind += f", modulo {operand.modulus}" if operand.modulus is not None else ""
    if operand.fixed_point is not None:
        real = operand.bound / 2.0**operand.fixed_point
        return f"{kind}, in fixed point: multiples of 2^-{operand.fixed_point} up to {real:.10g}"
    return f"{kind}, whole numbers up to {operand.bound:.10g}" if operand.exact else kind


def _public_key(plan: Plan, operands: Mapping[str, Operand]) -> list[tuple[str, str]]:
    """The public key, where operands are planned for it."""
    names = [name for name, operand in operands.items() if operand.public_key]
    if not names:
        return []
    half = plan.parameters.ciphertext_bytes(plan.parameters.limbs, 1)
    return [("public key", f"{size(half)}, encrypts {', '.join(names)}: both halves travel, larger error")]


def _slots(plan: Plan) -> list[tuple[str, str]]:
    params = plan.parameters
    lengths = {} if plan.decided.forms else plan.blocks
    blocks = ", ".join(f"{axis} {size}" for axis, size in lengths.items())
    return [
        *([("blocks", blocks)] if blocks else []),
        (
            "ring degree N",
            f"2^{params.n.bit_length() - 1} = {params.n} "
            f"({params.slots} slots{' of two integers each' if plan.decided.halves else ''})",
        ),
        *_ring_of_rows(params),
    ]


def _ring_of_rows(params: Parameters) -> list[tuple[str, str]]:
    """The ring of its own for matrices by rows."""
    if params.row_degree is None:
        return []
    own = params.family.rows
    text = f"2^{own.n.bit_length() - 1} = {own.n}, log2(QP) {own.log_qp:.1f} ({own.limbs} limbs)"
    return [("ring of rows", text)]


def _operand_moduli(plan: Plan) -> list[tuple[str, str]]:
    """The modulus of operands of products, if it is not Q."""
    moduli = plan.parameters.operand_moduli
    if moduli is None:
        return []
    bits, last = math.log2(math.prod(moduli)), f" … {moduli[-1]}" if len(moduli) > 1 else ""
    factors = f"{len(moduli)} of a byte ({moduli[0]}{last}), {bits:.1f} bits"
    return [("operand modulus", f"{factors}, of which products are switched to Q")]


def _rows(plan: Plan) -> list[tuple[str, str]]:
    n = plan.parameters.n
    found = [("ring degree N", f"2^{n.bit_length() - 1} = {n} (rows and columns in coefficients)")]
    taken = frozenset().union(*(choice.flags for choice in plan.choices))
    found += [kind.explained for kind in chosen(taken) if kind.explained is not None]
    if plan.rounding_error:
        bits = plan.choices[0].options["weight_bits"]
        found.append(
            ("clear factors", f"rounded to {bits} bits: {plan.rounding_error:.2g} of the error at most")
        )
    return found


def _work(plan: Plan) -> list[tuple[str, str]]:
    counts = plan.counts
    gemms, slots = ROWS in plan.decided.every_form, plan.decided.every_form != (ROWS,)
    return [*(_work_of_rows(counts) if gemms else []), *(_work_of_slots(counts) if slots else [])]


def _work_of_rows(counts: Counts) -> list[tuple[str, str]]:
    exact, short = counts.modular_macs, counts.operand_macs
    return [
        (
            "products",
            f"{counts.float_macs:.3g} float64 and {exact:.3g} exact multiply-adds in GEMMs"
            + f", {short:.3g} of bytes" * (short > 0),
        ),
        (
            "key switches",
            f"{counts.row_switches} of rows ({counts.transposes} transposes, "
            f"{counts.relinearisations} relinearisations)",
        ),
    ]


def _work_of_slots(counts: Counts) -> list[tuple[str, str]]:
    return [
        ("products", f"{counts.products} ciphertext, {counts.plain_products} plaintext"),
        (
            "key switches",
            f"{counts.rotations} rotations, {counts.relinearisations} relinearisations "
            f"({counts.hoistings} hoistings)",
        ),
    ]


def _key_set(plan: Plan) -> str:
    number = len(plan.keys.galois)
    if plan.decided.unrelinearised:
        return "none: products are not relinearised, results keep three components"
    if plan.decided.every_form == (ROWS,):
        weights = [f"{len(plan.keys.weights)} keys of fixed weights"] if plan.keys.weights else []
        listed = f"{number} keys of transposition + relinearisation (policy {plan.key_policy})"
        return f"{' + '.join([listed] * bool(number) + weights) or 'none'}: {size(plan.key_bytes)}"
    text = f"{number} rotation keys" if number != 1 else "1 rotation key"
    if plan.keys.relinearise:
        text += " + relinearisation"
    if plan.keys.encapsulation is not None:
        text += f" + {plan.keys.of_sparse_secret} for a sparse secret"
    if plan.keys.shared:
        shared = sum(1 for key in plan.keys.limbs if key.shared)
        text += f" + {shared} for {plan.keys.shared} with one a part"
    if plan.keys.switches_rings:
        inner = sum(1 for key in plan.keys.limbs if key.ring == "rows")
        text += f" + 2 between the rings and {inner} of that of rows"
    return f"{text} (policy {plan.key_policy}): {size(plan.key_bytes)}"


def _refreshes(plan: Plan) -> list[tuple[str, str]]:
    """How often the modulus is raised, each time for the real and the imaginary parts of a ciphertext, and what they
    come back with."""
    number = plan.counts.modulus_raises
    if not number:
        return []
    method, params = bootstrapping_of(plan.parameters), plan.parameters
    limbs = method.limbs(params.limbs)
    bits = method.failure_bits - math.log2(number * params.n)
    return [
        (
            "refreshes",
            f"{number}, of one or two ciphertexts{_sharing(plan)}, "
            f"{'ModRaise' if method.raised_first else 'slots to coefficients'} first, each back at {limbs} limbs; "
            f"one is lost with probability below 2^-{bits:.0f}",
        )
    ]


def _sharing(plan: Plan) -> str:
    """How many refreshes share an a part."""
    return f", up to {plan.decided.sharing} with one a part" if plan.decided.sharing else ""


def _rotations(plan: Plan) -> list[tuple[str, str]]:
    """The steps that have a key of their own."""
    steps = plan.rotation_steps
    return [("keys rotate by", progressions(steps))] if steps else []


def progressions(numbers: Sequence[int], width: int = 96) -> str:
    """Increasing integers as arithmetic progressions: "1 to 8, 16 to 64 by 16"; cut off beyond a width."""
    texts, rest = [], list(numbers)
    while rest:
        run = rest[:1]
        step = rest[1] - rest[0] if len(rest) > 1 else 0
        while len(run) < len(rest) and rest[len(run)] - run[-1] == step:
            run.append(rest[len(run)])
        if len(run) < 3:
            run = run[:1]
        texts.append(f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}" + (step > 1) * f" by {step}")
        rest = rest[len(run) :]
    while len(", ".join(texts)) > width:
        texts = [*texts[: -2 if texts[-1] == "…" else -1], "…"]
    return ", ".join(texts)


def _saving(plan: Plan) -> list[tuple[str, str]]:
    """The cost of fewer keys, if a budget leaves the plan fewer than the fastest one has."""
    other = plan.key_saving
    if other is None:
        return []
    rotations = plan.counts.rotations - other.rotations
    seconds = plan.seconds - other.seconds
    cost = f"{abs(rotations)} rotations {'more' if rotations >= 0 else 'fewer'}"
    cost += (
        f", {duration(seconds)} more ({plan.seconds / other.seconds:.1f} times)"
        if seconds > 0
        else ", no time"
    )
    plan_of = f"{other.algorithm}, policy {other.key_policy}"
    than = f"{other.rotation_keys} rotation keys, {size(other.key_bytes)} ({plan_of})"
    return [("fewer keys", f"than {than}; cost: {cost}")]


def _promise(plan: Plan) -> list[tuple[str, str]]:
    """Whom the errors of a program with errors are for."""
    return [] if plan.parameters.plain_modulus is not None else [("promise", plan.promise.text())]


def _errors(plan: Plan, results: Sequence[tuple[int, ...]], exact: bool) -> list[tuple[str, str]]:
    """The predicted errors of all results; integers modulo t have none."""
    if plan.parameters.plain_modulus is not None:
        return []
    return [
        (plan.promise.figure, _error(plan, one, shape, exact))
        for one, shape in zip(plan.results, results, strict=True)
    ]


def _exact(plan: Plan, exact: bool, modulus: int | None) -> list[tuple[str, str]]:
    """The promise of a program of exact integers.

    Args:
        modulus: by which the client reduces what was computed without wrapping around.
    """
    if plan.moduli and modulus is not None:
        kind = "int64" if modulus <= INT64 else "uint64"
        return [("results", f"modulo {modulus}, {kind}, by whoever decrypts them")]
    if plan.moduli:
        largest = max(one.bound for one in plan.results)
        kind = "int64" if largest < INT64 else "Python's integers"
        return [("results", f"exact integers up to {largest:.4g}, {kind}")]
    text = f"exact integers, int64: error below 1/2 before they are rounded, but for a chance below 2^-{FAILURE_BITS}"
    return [("results", text)] if exact else []


def _error(plan: Plan, result: ResultFigures, shape: tuple[int, ...], exact: bool) -> str:
    """The predicted error of a result beside the requested one."""
    missed = "" if result.error <= result.target else ", NOT reached by these parameters"
    how = f"precision={plan.precision:.2g}" if plan.asked_error is None else f"error={result.target:.2g}"
    how = f"exact integers, {how}" if exact else how
    text = f"at most {result.error:.2g} {plan.promise.of} (asked: {result.target:.2g} by {how}{missed})"
    if not result.label:
        return text
    return f"{result.label} {shape_text(shape)} up to {result.bound:.3g}, {size(result.nbytes)} down: {text}"


def _found_on_samples(plan: Plan) -> list[tuple[str, str]]:
    """The parts of the errors of all results that were found on samples."""
    return [
        (
            "on the samples",
            f"{result.label}: "
            * bool(result.label)
            + f"noise at most {found.noise:.2g} (rms {found.noise_rms:.2g}), approximation at most "
            f"{found.approximation:.2g} (rms {found.approximation_rms:.2g}), {found.agreement:.1%} agree on the "
            "largest entry",
        )
        for result, found in zip(plan.results, plan.promise.figures, strict=bool(plan.promise.figures))
    ]


def size(amount: float) -> str:
    """Return a number of bytes as text with a unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("unreachable")


def bit_rate(link: float) -> str:
    """Bits per second for people."""
    for unit in ("bit/s", "kbit/s", "Mbit/s"):
        if link < 1000:
            return f"{link:.3g} {unit}"
        link /= 1000
    return f"{link:.4g} Gbit/s"


def duration(seconds: float) -> str:
    """Return seconds as text with a unit."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 60 else f"{seconds / 60:.1f} min"
