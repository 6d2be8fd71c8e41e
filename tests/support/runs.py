"""Programs carried from `compile` to `decrypt` on real ciphertexts, and what every plan promises of that."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.lang.analysis import trace
from cipherblas.lang.graph import deduplicated
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand
from cipherblas.planner.plan.exact import exact_options
from cipherblas.planner.plan.plan import Plan, PlanOptions
from cipherblas.planner.predict.dry_run import DryRun, counted_evaluators
from cipherblas.planner.predict.feasible import feasible
from cipherblas.planner.rings.row_sizes import RowSize
from cipherblas.planner.search.budgets import budgets_of, secret_entries
from cipherblas.planner.search.rows import RowStrategy
from cipherblas.planner.search.search import Search
from cipherblas.planner.search.strategy import Candidate
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.runtime.inputs import SymbolicInputs
from cipherblas.runtime.listing import Replay

Matrix = NDArray[np.float64]

TOY: dict[str, Any] = {"security": 0, "insecure": True, "ring_degree": 4096}


def program_of(function: Callable[..., Any], **arguments: Any) -> cb.Program:
    """A program whose operands and options are given by keyword, all in one: tests vary both together."""
    operands = {name: value for name, value in arguments.items() if isinstance(value, Operand)}
    options = {name: value for name, value in arguments.items() if name not in operands}
    return cb.compile(function, operands, **options)


def toy(function: Callable[..., Any], **arguments: Any) -> cb.Program:
    """An INSECURE program, on the smallest ring by default."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return program_of(function, **{**TOY, **arguments})


def toy_rows(
    function: Callable[..., Any],
    n: int = 256,
    key_policy: KeyPolicy = "direct",
    fixed: bool = False,
    by_bytes: bool | None = None,
    operand_moduli: bool | None = False,
    **rest: Any,
) -> cb.Program:
    """An INSECURE program by GEMM in a ring below those that `compile` plans for, sized as it would size it.

    Clear factors of two bytes are multiplied byte by byte, as a whole, or as is faster; operands have moduli of their
    own, or not, or as is faster.

    Transposing a matrix in a secure ring takes seconds: N² log N of work, and rows of the ring's length.
    """
    operands = {name: value for name, value in rest.items() if isinstance(value, Operand)}
    options = {name: value for name, value in rest.items() if name not in operands}
    wanted = {"fixed": fixed, "bytes": by_bytes}
    return program_by_rows(function, operands, wanted, n, key_policy, operand_moduli, **options)


def program_by_rows(
    function: Callable[..., Any],
    operands: Mapping[str, Operand],
    wanted: Mapping[str, bool | None],
    n: int = 256,
    key_policy: KeyPolicy = "direct",
    operand_moduli: bool | None = False,
    **given: Any,
) -> cb.Program:
    """The same, whose products take these kinds, or not, or (None) as is faster."""
    expression = deduplicated(trace(function, operands))
    options = PlanOptions(algorithm="gemm", security=0, insecure=True, **given)
    options = exact_options(expression, options, given.get("precision")).relative_to(expression)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = replace(options, key_policy=key_policy)
        plan, run = plan_by_rows(expression, options, n, wanted, operand_moduli)
        return cb.Program(expression, operands, plan, run)


class OneRing(RowStrategy):
    """By rows in rings of one degree, of the candidates with these options, or without them, or (None) of both."""

    n = 256
    wanted: Mapping[str, bool | None] = MappingProxyType({"fixed": False})
    operand_moduli: bool | None = False

    @property
    def degrees(self) -> tuple[int]:
        return (self.n,)

    def sizes(self, candidate: Candidate, run: Any, extra_bits: float) -> Sequence[RowSize]:
        found = super().sizes(candidate, run, extra_bits)
        if self.operand_moduli is None:
            return found
        return [one for one in found if (one.operand_moduli is not None) == self.operand_moduli]

    def _candidates(self, n: int) -> Iterator[Candidate]:
        for one in super()._candidates(n):
            choices = one.decisions.choices.values()
            found = {name: any(choice.options.get(name) for choice in choices) for name in self.wanted}
            if all(value in (None, found[name]) for name, value in self.wanted.items()):
                yield one


def plan_by_rows(
    expression: Expression,
    options: PlanOptions,
    n: int,
    wanted: Mapping[str, bool | None],
    operand_moduli: bool | None = False,
) -> tuple[Plan, DryRun]:
    """The plan of a program by GEMM in a ring of degree n."""
    budgets = budgets_of(options, secret_entries(expression))
    strategy = OneRing(expression, options, budgets)
    strategy.n, strategy.wanted, strategy.operand_moduli = n, wanted, operand_moduli
    planned = feasible(Search([strategy], options, budgets).run())
    return planned.plan, planned.run


def lasting(program: cb.Program) -> list[str]:
    """The lines of `explain()` that a program keeps when it is saved: all but what says which candidates lost."""
    lines = program.explain().split("\nnot taken:")[0].splitlines()
    return [re.sub(r"  +\(next best: .*\)$", "", line) for line in lines if not line.startswith("fewer keys")]


def comes_back(program: cb.Program) -> None:
    """From a pickle, which holds what a file holds and is read as one, as the same program with the same plan."""
    again = pickle.loads(pickle.dumps(program))
    assert (again.id, again.plan, again.outputs) == (program.id, program.plan, program.outputs)


def is_a_list(program: cb.Program) -> None:
    """Its instructions take what the plan says, in counts, keys, uploads and memory, when they are computed again: once
    for each t of exact integers."""
    plan, listing = program.plan, program.listing
    options: dict[str, Any] = {"policy": plan.key_policy, "mask_budget": plan.mask_budget}
    evaluators, inputs = counted_evaluators(plan.parameters, **options), SymbolicInputs()
    Replay(listing, evaluators, inputs).results()
    times = max(1, len(plan.moduli))
    counts = sum((one.counts for one in listing), Counts())
    assert evaluators.counts == counts and counts * times == plan.counts
    assert evaluators.request == plan.keys
    assert {one.key for one in inputs.wanted.values()} == {
        one.key for name in program.operands for one in program.inputs_of(name)
    }
    assert listing.peak_bytes >= evaluators.ledger.peak


def matrix(operand: Operand, rng: np.random.Generator) -> Matrix:
    """Random entries within the bound, some of them at the bound itself; whole ones where the operand's are."""
    values = rng.uniform(-1, 1, operand.shape)
    extreme = rng.random(values.shape) < 0.2
    values[extreme] = np.sign(values[extreme])
    values *= operand.bound
    return np.trunc(values) if operand.whole else values


def values_of(program: cb.Program, seed: int = 1) -> dict[str, Matrix]:
    """Random values of all operands."""
    rng = np.random.default_rng(seed)
    return {name: matrix(operand, rng) for name, operand in program.operands.items()}


def listed(program: cb.Program, values: Any) -> list[Matrix]:
    """The results of a program one by one, of what is arranged as it returns them."""
    if not program.labels:
        return [values]
    if isinstance(values, np.ndarray):  # of a batch, stacked
        return list(values)
    if isinstance(program.shape, dict):
        assert isinstance(values, dict) and list(values) == list(program.shape) == list(program.labels)
        return list(values.values())
    assert isinstance(values, tuple) and len(values) == len(program.shape)
    return list(values)


@dataclass(frozen=True)
class Run:
    """One encrypted run of a program; several results are arranged as it returns them."""

    program: cb.Program
    expected: Any
    decrypted: Any
    counts: Counts
    sent: Mapping[str, Any]  # the server's inputs: encrypted operands, and clear ones as they are

    @property
    def errors(self) -> list[float]:
        pairs = zip(listed(self.program, self.decrypted), listed(self.program, self.expected), strict=True)
        return [float(np.abs(found - wanted).max()) for found, wanted in pairs]

    @property
    def error(self) -> float:
        return max(self.errors)

    def within(self) -> Run:
        """Every entry is as near as the plan predicts, whatever was asked for."""
        for values in (self.decrypted, self.expected):
            shapes = [one.shape for one in listed(self.program, values)]
            assert shapes == [node.shape for node in self.program.results]
        for values, error, figures in zip(
            listed(self.program, self.decrypted), self.errors, self.program.plan.results, strict=True
        ):
            assert np.isfinite(values).all()
            assert error <= figures.error, (figures.label, error, figures.error)
        return self

    def check(self) -> Run:
        """The promises of every plan: right result, right counts, bytes as planned, precision as asked for."""
        plan = self.within().program.plan
        assert all(one.error <= one.target for one in plan.results)
        assert self.counts == plan.counts
        secrets = [value for value in self.sent.values() if isinstance(value, cb.EncryptedOperand)]
        assert sum(value.nbytes for value in secrets) == plan.upload_bytes
        return self


def encrypted(function: Callable[..., Any], *, seed: int = 1, **arguments: Any) -> Run:
    """Compile, make keys, encrypt, run, decrypt; random operands."""
    program = program_of(function, **arguments)
    return run(program, values_of(program, seed))


class Parties:
    """A client of a program and its server, for several runs with the same keys."""

    def __init__(self, program: cb.Program) -> None:
        self.program = program
        self.client = program.client()
        self.server = program.server(self.client.evaluation_keys())

    def inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The server's inputs: secret operands encrypted with the key that they are planned for."""
        inputs = dict(values)
        for name, operand in self.program.operands.items():
            if operand.secret:
                public_key = operand.public_key
                encrypts = self.program.encryptor(self.client.public_key()) if public_key else self.client
                inputs[name] = encrypts.encrypt({name: values[name]})[name]
                assert inputs[name].encryption == operand.encryption
        return inputs

    def run(self, values: Mapping[str, Any]) -> Run:
        """Encryption, evaluation and decryption of given operands."""
        inputs = self.inputs(values)
        decrypted = self.client.decrypt(self.server.run(inputs))
        return Run(self.program, self.program.evaluate(values), decrypted, self.server.last.counts, inputs)


def run(program: cb.Program, values: Mapping[str, Any]) -> Run:
    """Keys, encryption, evaluation and decryption of a program on given operands."""
    return Parties(program).run(values)


def run_by_files(program: cb.Program, values: Mapping[str, Any], folder: Path) -> Run:
    """As `run`, by parties who share the files of a folder alone; the owner of the key starts anew to decrypt."""
    low: dict[str, Any] = {"insecure": True} if program.plan.parameters.security < 128 else {}
    program.save(folder / "program")
    client = program.client()
    client.save(folder / "secret-key")
    client.write_evaluation_keys(folder / "keys")
    if any(operand.public_key for operand in program.operands.values()):
        client.public_key().save(folder / "public-key")

    def loaded() -> cb.Program:
        found = cb.Program.load(folder / "program", **low)
        assert (found.id, found.plan, found.operands) == (program.id, program.plan, program.operands)
        return found

    here, inputs = loaded(), dict(values)
    for name, operand in here.operands.items():
        if operand.secret:
            client = cb.Client.load(folder / "secret-key", here, **low)
            if operand.public_key:
                encrypts = here.encryptor(cb.PublicKey.load(folder / "public-key", **low))
            else:
                encrypts = client
            encrypts.encrypt({name: values[name]})[name].save(folder / f"{name}.ct")
            inputs[name] = cb.EncryptedOperand.load(folder / f"{name}.ct", **low)

    there = loaded()
    server = there.server(cb.EvaluationKeys.load(folder / "keys", **low))
    server.run(inputs).save(folder / "result")

    again = loaded()
    result = cb.EncryptedResult.load(folder / "result", **low)
    decrypted = cb.Client.load(folder / "secret-key", again, **low).decrypt(result)
    return Run(program, program.evaluate(values), decrypted, server.last.counts, inputs)
