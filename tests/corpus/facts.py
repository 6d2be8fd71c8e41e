"""What is written down of a program: what was asked, then every decision and prediction of its plan, or its refusal.

Facts alone, in words of this file: no text for people, no name of a class but that of an error, no identity. Whole
numbers stand as they are, others with six digits.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import cipherblas as cb
from cipherblas.crypto.keys import KeyRequest
from cipherblas.planner.predict.machine import Machine

from .case import Case
from .machine import MACHINE

Fact = tuple[str, str]
STAGES = ("encrypt", "upload", "load_keys", "expand", "encode", "evaluate", "download", "decrypt")
MAX_LISTED = 12  # runs of keys that are listed; of more, a digest
# How counts are put in lines; others go into a line of their own.
COUNTS = (
    (
        "switches",
        "rotations hoistings relinearisations moddowns linear_transforms modulus_raises transposes row_switches",
    ),
    ("products", "products plain_products sums scalar_products adds rescales"),
    ("encoded", "encodings operand_encodings mask_encodings weight_encodings weight_limbs stored_bytes"),
    ("limbs", "ntt_limbs encode_ntt_limbs mac_limbs switched_limbs"),
    ("moved", "key_bytes_read plain_bytes_read ciphertext_bytes moved_bytes fresh_bytes"),
    ("gemm", "float_macs float_inputs float_outputs modular_macs modular_inputs modular_outputs"),
)


def facts(
    case: Case,
    machine: Machine = MACHINE,
    also: Callable[[cb.Program], None] | None = None,
    instead: Callable[[cb.CipherblasError], None] | None = None,
) -> list[Fact]:
    """What is written down of one program.

    Args:
        also: done with the program, where there is a plan.
        instead: done with the refusal, where there is none.
    """
    asked = [("program", case.formula), ("of", case.declared)]
    if case.options:
        asked.append(("asked", ", ".join(f"{name}={value}" for name, value in case.options.items())))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of what others left, collected meanwhile
        try:
            program = case.compiled(machine)
        except cb.CipherblasError as error:
            refusal, found = error, refused(error)
        else:
            refusal, found = None, planned(program)
    names = sorted({type(w.message).__name__ for w in warned})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if refusal is None and also is not None:
            also(program)
        elif refusal is not None and instead is not None:
            instead(refusal)
    return [*asked, *(("warns", name) for name in names), *found]


def refused(error: cb.CipherblasError) -> list[Fact]:
    """What an error says."""
    fields = (
        ("says", error.message),
        ("expected", error.expected),
        ("got", error.got),
        *(("write", advice.write) for advice in error.advice),
        ("cause", error.cause),
    )
    return [
        ("refused", type(error).__name__),
        *((name, without_lines(str(value))) for name, value in fields if value is not None),
    ]


def without_lines(text: str) -> str:
    """Without the numbers of lines: programs of the corpus move in their files."""
    return re.sub(r"\([^()]*line \d+\)", "(a line)", " ".join(text.split()))


def planned(program: cb.Program) -> list[Fact]:
    """Every decision and prediction of a plan."""
    return list(_planned(program))


def _planned(program: cb.Program) -> Iterator[Fact]:
    plan, params = program.plan, program.plan.parameters
    yield "form", plan.form
    yield from _decided(plan)
    yield (
        "ring",
        f"N 2^{params.n.bit_length() - 1}, {params.limbs} + {params.special_limbs} limbs, dnum {params.dnum}, "
        f"alpha {params.alpha}, {_plaintexts(params)}, {params.security} bits",
    )
    yield "moduli", f"q {_sizes(params.q)}; p {_sizes(params.p)}; {_digest((*params.q, *params.p))}"
    if plan.moduli:
        yield "residues", f"modulo {', '.join(map(str, plan.moduli))}"
    if program.units:
        yield "units", ", ".join(map(str, program.units))
    if params.operand_moduli is not None:
        yield "operands", f"modulo {' · '.join(map(str, params.operand_moduli))}"
    yield from _keys(plan)
    for name in program.operands:
        for one in program.inputs_of(name):
            yield "sends", _sent(one)
    yield "up", f"{plan.upload_ciphertexts} ciphertexts or rows, {plan.upload_bytes} bytes"
    down = f"{plan.result_ciphertexts} ciphertexts or rows, {plan.result_bytes} bytes"
    if not program.labels:
        yield "down", f"{down}, {_returned(plan, program.outputs[0])}"
    else:
        yield "down", down
        for one, output, worst in zip(plan.results, program.outputs, _worst(program), strict=True):
            yield "result", f"{one.label}: {one.nbytes} bytes, {_returned(plan, output)}"
            yield "error", f"{one.label}: {_error(one, worst)}"
    sizes = {
        "keys": plan.key_bytes,
        "peak": plan.peak_bytes,
        "weights": plan.weight_memory_bytes,
        "held": plan.held_bytes,
        "lent": plan.streamed_bytes,
        "masks": plan.mask_budget,
    }
    yield "memory", _listed(sizes)
    yield from _counted(asdict(plan.counts))
    traffic = {name: value for name, value in asdict(plan.traffic).items() if not name.endswith("_bytes")}
    yield "client", _listed(dict(sorted(traffic.items())))
    if not program.labels:
        yield "error", _error(plan.results[0], _worst(program)[0])
    yield "seconds", _seconds(plan.stages)
    if plan.form == "tensors":
        for node in plan.nodes:
            spent = (node.counts.rotations, node.counts.relinearisations, node.counts.plain_products)
            if node.choice is not None or any(spent):
                yield "layer", _layer(node)
    if plan.key_saving is not None:
        yield "fewer keys", f"than {_options(asdict(plan.key_saving))}"
    for loser in plan.rejected:
        seconds = "" if loser.seconds is None else f" {_number(loser.seconds)} s"
        yield "not taken", f"{loser.algorithm}{seconds}: {loser.reason}"


def _decided(plan: Any) -> Iterator[Fact]:
    if plan.form != "tensors":  # those of a network stand with its layers
        for choice in plan.choices:
            yield "takes", f"{choice.method}: {_options(choice.options) or 'no options'}"
    if plan.blocks:
        yield "blocks", _options(plan.blocks)
    yield (
        "for",
        f"policy {plan.key_policy}, order {plan.order}, precision {_number(plan.precision)}, "
        f"{plan.threads} threads, {plan.minimise} over {_number(plan.link)} bit/s",
    )


def _keys(plan: Any) -> Iterator[Fact]:
    """Each kind of key: how many, for how many limbs, which."""
    keys = plan.keys
    if keys.relinearise is not None:
        yield "key", f"relinearisation at {keys.relinearise} limbs"
    if keys.encapsulation is not None:
        yield "keys", f"{keys.of_sparse_secret} of a sparse secret, to {keys.encapsulation} limbs"
    by_limbs: dict[int, list[int]] = {}
    for element, limbs in keys.galois.items():
        by_limbs.setdefault(limbs, []).append(element)
    for limbs, elements in sorted(by_limbs.items()):
        if plan.form == "rows":
            yield "keys", f"{len(elements)} of Galois elements at {limbs} limbs: {_digest(sorted(elements))}"
        else:
            known = _steps(plan.parameters.n)
            steps = sorted(known[element] for element in elements if element in known)
            if steps:
                yield "keys", f"{len(steps)} of rotations at {limbs} limbs: {_runs(steps)}"
            if len(steps) < len(elements):
                yield "keys", f"{len(elements) - len(steps)} with conjugation at {limbs} limbs"
    shared = KeyRequest({key: limbs for key, limbs in keys.limbs.items() if key.shared})
    for (_, modulus, limbs), number in sorted(shared.sizes.items()):
        if modulus == "own":
            yield "keys", f"as large as {number} at {limbs} limbs, for {keys.shared} with one a part"
    if keys.weights:
        limbs = "limbs " + _runs(sorted(set(keys.weights.values())))
        numbers = sorted(key.number for key in keys.weights)
        yield (
            "keys",
            f"{len(keys.weights)} of fixed weights at {limbs}: {_digest(numbers)}",
        )


def _sent(one: Any) -> str:
    """One use of an operand: what is encrypted, at how many limbs and which scale."""
    name = f"{one.name}.T" if one.transposed else one.name
    by = " by public key" if one.public_key else ""
    moduli = f"{one.basis.primes} limbs" if one.basis.primes else "operand moduli"
    size = f"{moduli}, {_scale(one.scale)}"
    form = one.form
    if form.name == "rows":
        shared = ", shared a parts" if form.secrets else ""
        pieces = ", ".join(f"{start} to {stop}" for start, stop in form.pieces)
        return f"{name}{by}: {one.shape[0]} rows of columns {pieces}, {size}{shared}"
    grid = f"{form.grid[0]}x{form.grid[1]} blocks of {form.layout.ciphertexts}"
    return f"{name}{by}: {grid}, {size}, unit {_number(one.unit)}"


def _scale(scale: Any) -> str:
    if isinstance(scale, tuple):  # of a message modulo t
        return f"factor {scale[0]}"
    return f"scale {'-' if scale < 0 else ''}2^{_number(math.log2(abs(scale)))}"


def _returned(plan: Any, output: Any) -> str:
    how = f"{output.limbs} limbs, {_scale(output.scale)}, {plan.levels} levels spent"
    form = output.form
    if form.name == "rows":
        by = "columns" if form.by_columns else "rows"
        pieces = (f"{form.shape[0]}x{stop - start}" for start, stop in form.pieces)
        return f"{how}, by {by} {', '.join(pieces)}"
    return f"{how}, {output.components} components, {form.grid[0]}x{form.grid[1]} blocks"


def _counted(counts: Mapping[str, int]) -> Iterator[Fact]:
    rest = dict(counts)
    for line, names in COUNTS:
        found = {name: rest.pop(name, 0) for name in names.split()}
        if any(found.values()):
            yield line, _listed(found)
    if any(rest.values()):
        yield "counts", _listed(rest)


def _plaintexts(params: Any) -> str:
    if params.plain_modulus is not None:
        return f"modulo {params.plain_modulus}"
    return f"scale 2^{_number(params.scale_bits)}"


def _worst(program: Any) -> Sequence[float | None]:
    """The largest errors; none are known of what peers encrypt."""
    return program.worst_errors if program.plan.for_peer is None else [None] * len(program.plan.results)


def _error(result: Any, worst: float | None) -> str:
    rounding = f", {_number(result.rounding_error)} of it by rounding" if result.rounding_error else ""
    at_worst = "" if worst is None else f"; at worst {_number(worst)}"
    return f"{_number(result.error)}{rounding}; asked {_number(result.target)}{at_worst}"


def _seconds(stages: Any) -> str:
    """Stage by stage in the order of a run, then the sums that plans are compared by."""
    rest = {name: value for name, value in stages.to_dict().items() if name != "link"}
    found = {name: rest.pop(name) for name in STAGES} | dict(sorted(rest.items()))
    sums = {"first run": stages.first_run, "end to end": stages.end_to_end}
    return "; ".join(
        ", ".join(f"{name} {_number(value)}" for name, value in values.items() if value)
        for values in (found, sums)
    )


def _layer(found: Any) -> str:
    choice = found.choice
    how = "" if choice is None else f": {choice.method} {_options(choice.options)}".rstrip()
    spent = ("rotations", "relinearisations", "plain_products", "stored_bytes")
    counted = _listed({name: getattr(found.counts, name) for name in spent})
    return f"{found.title}{how}" + (f"; {counted}" if counted else "")


# --- numbers and lists ---


def _number(value: float) -> str:
    return f"{value:.6g}"


def _sizes(primes: Sequence[int]) -> str:
    """log2 of primes, and of their product."""
    bits = [math.log2(prime) for prime in primes]
    return f"{_repeated([_number(one) for one in bits])} = {_number(math.fsum(bits))}" if bits else "none"


def _listed(values: Mapping[str, int]) -> str:
    """Those that are not zero."""
    return ", ".join(f"{name} {value}" for name, value in values.items() if value)


def _options(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in sorted(values.items()))


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({_options(value)})"
    return _number(value) if isinstance(value, float) else str(value)


def _repeated(texts: Sequence[str]) -> str:
    """`a a a b` as `3 of a, b`."""
    found: list[list[Any]] = []
    for text in texts:
        if found and found[-1][1] == text:
            found[-1][0] += 1
        else:
            found.append([1, text])
    return ", ".join(text if count == 1 else f"{count} of {text}" for count, text in found)


def _runs(numbers: Sequence[int]) -> str:
    """Increasing numbers as runs `first to last by step`, or their digest where they are many."""
    texts, rest = [], list(numbers)
    while rest:
        step = rest[1] - rest[0] if len(rest) > 1 else 0
        length = 1
        while length < len(rest) and rest[length] - rest[length - 1] == step:
            length += 1
        length = 1 if length < 3 else length
        by = f" by {step}" if step > 1 else ""
        texts.append(str(rest[0]) if length == 1 else f"{rest[0]} to {rest[length - 1]}{by}")
        rest = rest[length:]
    return (
        ", ".join(texts) if len(texts) <= MAX_LISTED else f"{numbers[0]} … {numbers[-1]}, {_digest(numbers)}"
    )


def _digest(numbers: Iterable[int]) -> str:
    return hashlib.sha256(" ".join(map(str, numbers)).encode()).hexdigest()[:12]


@functools.lru_cache(maxsize=8)
def _steps(n: int) -> dict[int, int]:
    """Galois element → rotation, from -N/4 to N/4; conjugations are none of these."""
    slots, element, found = n // 2, 1, {}
    for step in range(slots):
        found[element] = step if step <= slots // 2 else step - slots
        element = element * 5 % (2 * n)
    return found
