"""`compile` and what it returns: the program that makes its client, its encryptors and its servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from cipherblas.common.checks import check_name
from cipherblas.common.collector import collector_paused
from cipherblas.common.errors import DTypeError, MismatchError, RangeError
from cipherblas.common.log import LOG, refusals_logged
from cipherblas.common.progress import Progress, Tell, shown
from cipherblas.crypto import files
from cipherblas.crypto.keys import EvaluationKeys, PublicKey, SecretKey
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.ranks import Distribution
from cipherblas.engines.registry import CPU
from cipherblas.lang.analysis import trace
from cipherblas.lang.crt import as_exact
from cipherblas.lang.facts import operands_of
from cipherblas.lang.fixed_point import bits_of, in_integers
from cipherblas.lang.joins import without_joins
from cipherblas.lang.modular import check_modular, modulus_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand
from cipherblas.lang.samples import Samples
from cipherblas.planner.asking import planned_as_asked
from cipherblas.planner.plan.by_samples import BySamples
from cipherblas.planner.plan.defaults import warn_of_coarser, warn_of_default
from cipherblas.planner.plan.exact import exact_options, residues_hold
from cipherblas.planner.plan.losses import warn_of_losses
from cipherblas.planner.plan.modular import check_options, needs_exact
from cipherblas.planner.plan.peers import check_peer, with_public_keys
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.roles.calls import operands_in_one_mapping
from cipherblas.roles.client import Client
from cipherblas.roles.client_program import ClientProgram
from cipherblas.roles.encryptor import Encryptor
from cipherblas.roles.kept_plans import KeptPlan
from cipherblas.roles.planned import PlannedProgram, check_expression
from cipherblas.roles.server import Server
from cipherblas.roles.wire.messages import short_id


class Program(PlannedProgram):
    """A planned program, made by `compile`: `explain()`, `client()`, `encryptor(public_key)`, `server(keys)`,
    `save(path)`, `save_client(path)`.

    Attributes:
        expression: the traced graph.
        operands: name → declared operand.
        exact: its results are exact integers, int64.
        plan: what was decided and predicted.
        id: SHA-256 over expression, operands and decisions; keys and ciphertexts carry it.
    """

    def client(self, *, secret: SecretKey | None = None) -> Client:
        """A client with a new secret key.

        Args:
            secret: a key of another library instead, as `cb.interop.seal.secret_key` reads it.

        Raises:
            DTypeError, MismatchError: not a secret key, or one for another program.
        """
        return Client.of(self, secret)

    def save_client(self, path: files.Target, *, progress: Progress | None = None) -> None:
        """Write what clients and encryptors need to a file, without weights: see `ClientProgram`.

        Args:
            path: where to; its directory must exist. Or a stream.
            progress: called as progress(done, total), counted in bytes.

        Raises:
            ParameterError: keys of the program are made from its weights. StorageError: the system refuses.
        """
        ClientProgram.of(self).save(path, progress=progress)

    def encryptor(self, public_key: PublicKey) -> Encryptor:
        """Return an encryptor with the public key of a client. It holds no secret.

        Raises:
            DTypeError: not a public key.
            MismatchError: the key belongs to another program, or no operand is declared with encryption="public-key".
        """
        return Encryptor(self, public_key)

    def server(
        self,
        evaluation_keys: EvaluationKeys,
        *,
        engine: str = CPU,
        weight_budget: int | None = None,
        weight_folder: str | Path | None = None,
        communicator: Communicator | None = None,
        sharing: Distribution = "4d-s",
    ) -> Server:
        """A server with public keys only.

        Encoded masks, constants and weights belong to the program, and its servers with one engine share them (the
        weights where `weight_budget` and `weight_folder` are equal). They are freed with the last of the program and
        its servers.

        Args:
            evaluation_keys: what the client made for it.
            engine: who does the arithmetic: "cpu", or a name of `register_engine`.
            weight_budget: bytes of memory for the encoded weights of a network; by default half of what is available.
            weight_folder: where a temporary file holds those beyond the budget; by default the system's folder.
            communicator: of a program that several ranks run together, each with a server of its own: this rank's end
                of their messages, `MpiCommunicator()` under mpiexec. The result is on rank 0, bit for bit that of one
                process. A server keeps the keys that its rank uses, and no others.
            sharing: how ranks share the block products of a product in slots. "t3d" (a rank for each), "e3d" (a grid of
                ranks) and "tdsc" (diagonals of blocks) move both operands in each of them, "4d-s" each block of a rank
                once, "4d-b" once among the ranks that hold it. In "4d", as published, these ranks share the rotations
                inside each block, of "fhe-mm"; "4d*" is the same on another grid of ranks, on which more hold the same.

        Raises:
            MismatchError: the keys belong to another program.
            MissingKeyError: a key that the plan declares is not among them.
            ParameterError: there is no engine of that name, or no such way to share; blocks that "t3d" or "tdsc" cannot
                share, or a method that "4d" cannot.
        """
        return Server(
            self,
            evaluation_keys,
            engine=engine,
            weight_budget=weight_budget,
            weight_folder=weight_folder,
            communicator=communicator,
            sharing=sharing,
        )


def _declared(value: Any) -> tuple[str, ...]:
    """How an operand is declared that is like a value."""
    shape = tuple(value) if isinstance(value, (tuple, list)) else np.shape(value)
    lengths = ", ".join(map(str, shape)) if all(isinstance(one, int) for one in shape) else "rows, columns"
    return f"cb.secret({lengths})", f"cb.public({lengths})"


def _exactly(
    function: Callable[..., Any], written: Expression, operands: dict[str, Operand]
) -> tuple[Expression, dict[str, Operand]]:
    """A program modulo a t without slots as one of exact integers, whose results are reduced at the end; as it is where
    these would be too large."""
    declared = as_exact(operands)
    found = attempted(lambda: trace(function, declared), only=RangeError)
    if isinstance(found, Infeasible) or not residues_hold(found):
        return written, operands
    return found, declared


@operands_in_one_mapping
def compile(
    function: Callable[..., Any],
    operands: Mapping[str, Operand],
    /,
    *,
    progress: Tell | bool | None = None,
    cache: bool = True,
    **options: Any,
) -> Program:
    """Trace a function of matrices and plan its encrypted execution.

    Args:
        function: called with one node per operand, by name; combines them by `@`, `+`, `-`, `*`, `/`, `.T`. It returns
            one result, or several in a tuple, a list (which gives a tuple) or a dictionary: they are computed in one
            run, with one upload and one set of keys, and come back as they are returned. What they have in common is
            computed once.
        operands: name → `secret(rows, cols)` or `public(rows, cols)` for each parameter of the function.
        progress: called often during planning, with a few words on what the planner tries. True prints them to stderr,
            as it does in `encrypt`, `evaluation_keys`, `run`, `evaluate` and `decrypt`.
        cache: take the plan that an earlier process of this user found for the same program and options, and keep a new
            one, in the folder of the environment variable CIPHERBLAS_CACHE (by default ~/.cache/cipherblas). False
            plans anew.
        **options: those of `PlanOptions` (precision or error, security, algorithm, memory_budget, …).

    Returns:
        The planned program; nothing was executed.

    Raises:
        ShapeError: shapes do not fit together.
        PrecisionError, SecurityError, MemoryBudgetError: no parameters reach what is asked for.
        ParameterError: the name of an operand or of a result is not a Python identifier; there is no result, or more
            than 256.
        DTypeError: the operands are not a mapping, or one is not made by `secret` or `public`; the function returns
            something that is not an encrypted value, or nested results.
        MismatchError: a result does not depend on a secret operand.
        PrecisionWarning: (a warning) neither precision nor error is given, and the default one leaves an error of more
            than ten times the largest encrypted entry, or than some column can add; or what is
            promised of a result is more than half of its largest value.
        ParameterError, RangeError: an operand is exact, and a node is not known to hold whole numbers, may be too large
            to be decoded exactly, or was asked for with an error of one half or more.

    Examples:
        >>> program = compile(lambda a, b: a @ b, {"a": secret(8, 8), "b": secret(8, 8)})
        >>> program.shape
        (8, 8)
        >>> operands = {"x": secret(20, 3), "y": secret(20)}
        >>> program = compile(lambda x, y: {"gram": x.T @ x, "moment": x.T @ y}, operands)
        >>> program.shape
        {'gram': (3, 3), 'moment': (3,)}
    """
    wanted, progress = PlanOptions.given(options), shown(progress, "planning")
    operands = dict(operands)
    for name, operand in operands.items():
        check_name(name)
        if not isinstance(operand, Operand):
            raise DTypeError(
                f"Operand {name!r} must be declared as secret or public.",
                got=type(operand).__name__,
                advice=_declared(operand),
            )
    if not any(operand.secret for operand in operands.values()):
        raise MismatchError(
            "A program needs a secret operand.", advice="cb.secret(…) for what is to be encrypted"
        )
    if wanted.for_peer is not None:
        operands = with_public_keys(operands)
    if progress is not None:
        progress("what the function computes")
    samples = None
    if wanted.by_samples:
        samples = Samples(wanted.samples, operands, float(wanted.slack))
    with contextlib.nullcontext() if samples is None else samples.watching():
        written = trace(function, operands)
    if samples is not None:
        wanted = replace(wanted, promise=BySamples(samples, written, wanted.agreement))
    idle = sorted(set(operands) - operands_of(written))
    if idle:
        raise MismatchError(
            f"The function does not use the operand {', '.join(map(repr, idle))}.",
            advice="operands without it" if len(idle) == 1 else "operands without these",
        )
    check_expression(written)
    if modulus_of(written) is not None:
        check_modular(written)
        if needs_exact(written, wanted):
            written, operands = _exactly(function, written, operands)
    units: tuple[Fraction, ...] = ()
    if bits_of(operands) is not None:
        written, operands, units = in_integers(without_joins(written), operands)
    wanted = exact_options(written, wanted, options.get("precision"))
    check_options(written, wanted, options)
    check_peer(written, operands, wanted)
    kept = KeptPlan.of(written, operands, wanted) if cache else None
    program = None if kept is None else kept.load(Program)
    if program is None:
        with (
            collector_paused(),
            refusals_logged(),
        ):  # a plan makes many objects, most of which live until it is found
            expression, plan, run = planned_as_asked(written, wanted, "precision" in options, progress)
        program = Program(expression, operands, plan, run, units)
        if kept is not None:
            kept.save(program)
    LOG.info("planned %s: %r", short_id(program.id), program.plan)
    program.written = written
    warn_of_coarser(written, program.plan, wanted)
    warn_of_default(operands, program.expression, program.plan, options)
    warn_of_losses(program.executed, program.plan)
    return program
