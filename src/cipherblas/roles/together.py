"""Several programs that one key pair serves: one parameter set, and the union of their evaluation keys."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from cipherblas.common.checks import check_name
from cipherblas.common.errors import (
    CipherblasError,
    DTypeError,
    MismatchError,
    ParameterError,
    PrecisionWarning,
)
from cipherblas.common.pickles import NeverCopied
from cipherblas.common.progress import Progress, Tell, shown
from cipherblas.crypto import files
from cipherblas.crypto.keys import EvaluationKeys, KeyRequest, generate_secret
from cipherblas.crypto.params import Parameters
from cipherblas.lang.operands import Operand
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.roles.client import Client
from cipherblas.roles.client_side import ClientSide
from cipherblas.roles.program import Program, compile

Kind = TypeVar("Kind", bound=ClientSide)
Written = tuple[Callable[..., Any], Mapping[str, Operand]]  # a function and its operands
EMPTY = 'cb.compile_together({"name": (function, operands)})'
ALONE = "compile(function, operands), each by itself and with keys of its own"


class Programs(Mapping[str, Kind], Generic[Kind]):
    """Programs with one parameter set, which one client and one set of evaluation keys serve: made by
    `compile_together`, or of such programs from files, whole or without weights.

    Raises:
        DTypeError: not a dictionary of programs.
        ParameterError: there are none, a name is no Python identifier, or keys are made from the weights of one.
        MismatchError: they have different parameters.
    """

    def __init__(self, programs: Mapping[str, Kind]) -> None:
        given: Any = programs
        if not isinstance(given, Mapping) or not all(isinstance(one, ClientSide) for one in given.values()):
            raise DTypeError(
                "Programs that one key serves are given in a dictionary, by names.",
                got=type(given).__name__,
                advice='cb.Programs({"first": program, "second": another})',
            )
        for name, program in programs.items():
            check_name(name)
            if program.plan.keys.weights:
                raise ParameterError(
                    f"Keys of the program {name!r} are made from its weights, and serve no other one.",
                    got=f"{len(program.plan.keys.weights)} keys of fixed weights",
                    advice='form="blocks", whose keys serve all weights',
                )
        if not programs:
            raise ParameterError("There is no program.", advice=EMPTY)
        fingerprints = {name: one.plan.parameters.fingerprint()[:12] for name, one in programs.items()}
        if len(set(fingerprints.values())) > 1:
            raise MismatchError(
                "The programs have different parameters: no key serves all of them.",
                expected="one parameter set",
                got=", ".join(f"{name}: {one}" for name, one in fingerprints.items()),
                advice="cb.compile_together({name: (function, operands), …}), which plans them for one",
            )
        self._programs = dict(programs)

    def __getitem__(self, name: str) -> Kind:
        return self._programs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._programs)

    def __len__(self) -> int:
        return len(self._programs)

    def __repr__(self) -> str:
        return f"<Programs {', '.join(self)}: {len(self.keys_needed)} keys, {self.key_bytes} bytes in memory>"

    @property
    def parameters(self) -> Parameters:
        """The parameters of all of them."""
        return next(iter(self.values())).plan.parameters

    @property
    def keys_needed(self) -> KeyRequest:
        """The evaluation keys of all of them together, each for the most limbs that one asks for."""
        return functools.reduce(KeyRequest.joined, (one.plan.keys for one in self.values()))

    @property
    def key_bytes(self) -> int:
        """Bytes of these keys in the memory of a server."""
        return self.keys_needed.nbytes(self.parameters)

    def client(self) -> JointClient:
        """A client of all programs, with a new secret key."""
        self.keys_needed.check(self.parameters)
        secret = Client(next(iter(self.values())), generate_secret(self.parameters))
        return JointClient(self, secret)

    def load_client(self, path: str | Path, *, security: int = 128, insecure: bool = False) -> JointClient:
        """The client whose secret key `JointClient.save` wrote.

        Args:
            path, security, insecure: as those of `Client.load`.

        Raises:
            FormatError, VersionError, StorageError, SecurityError: as `Client.load`.
            MismatchError: the key is for other parameters, or of one program alone.
        """
        first = Client.load(path, next(iter(self.values())), security=security, insecure=insecure)
        return JointClient(self, first)


class JointClient(Mapping[str, Client], NeverCopied):
    """A client of several programs, by whose names it has the client of each: `client["name"].encrypt(operands)`. All
    have one secret key and one record of what was encrypted and shared under it.

    An encryption serves every program that asks for the operand alike: by the same name, of the same shape and bound,
    in the same form, with the same limbs and scale. Others refuse it, with a MismatchError.
    """

    refusal = "A client holds the secret key and can be neither pickled nor copied."
    instead = "client.save(path), a file of its owner, and programs.load_client(path)"

    def __init__(self, programs: Programs[Any], first: Client) -> None:
        secret, record = first._secret, first._record
        if secret.program_id:
            raise MismatchError(
                "The secret key belongs to one program.",
                got=secret.program_id[:16],
                advice="programs.client(), for a key that serves several, or cb.Client.load(path, program)",
            )
        keys = programs.keys_needed
        self._clients = {
            name: Client(program, secret, record=record, keys=keys) for name, program in programs.items()
        }
        self._first = next(iter(self._clients.values()))

    def __getitem__(self, name: str) -> Client:
        return self._clients[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    def __repr__(self) -> str:
        return f"<JointClient of {', '.join(self)}{', closed' if self.closed else ''}>"

    @property
    def closed(self) -> bool:
        """Whether `close` has overwritten the secret key."""
        return self._first.closed

    def close(self) -> None:
        """Overwrite the secret key of all of them; as `Client.close`."""
        self._first.close()

    def __enter__(self) -> JointClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def evaluation_keys(self, progress: Progress | bool | None = None) -> EvaluationKeys:
        """The public keys that servers of all programs need, once for all.

        Args:
            progress: called as progress(done, total), counted in keys.
        """
        return self._first.evaluation_keys(progress)

    def write_evaluation_keys(self, path: files.Target, progress: Progress | bool | None = None) -> None:
        """Make these keys straight into a file or folder; arguments as `Client.write_evaluation_keys`."""
        self._first.write_evaluation_keys(path, progress)

    def save(self, path: str | Path) -> None:
        """Write the secret key file; as `Client.save`, and read by `Programs.load_client`."""
        self._first.save(path)


def compile_together(
    programs: Mapping[str, Written], /, *, progress: Tell | bool | None = None, **options: Any
) -> Programs[Program]:
    """Plan several programs for one parameter set, so that one client with one set of evaluation keys serves them all.

    Each is planned by itself first. The smallest of their parameter sets with which all of them reach what is asked
    for is taken; where there is none, that of all of them as one program.

    Args:
        programs: name → (function, operands), both as those of `compile`.
        progress: as that of `compile`.
        **options: those of `compile`, for all of them.

    Returns:
        The programs by name, with `client()`, whose keys are the union of theirs.

    Raises:
        DTypeError: not a dictionary of functions and operands.
        ParameterError: no parameter set serves all of them; keys of one are made from its weights.
        Others: as `compile`.

    Examples:
        >>> import numpy as np, cipherblas as cb
        >>> first, second = np.eye(4), np.eye(4)[::-1]
        >>> x = {"x": cb.secret(4, 4)}
        >>> both = cb.compile_together({"a": (lambda x: first @ x, x), "b": (lambda x: second @ x, x)})
        >>> client = both.client()
        >>> keys = client.evaluation_keys()
        >>> sent = client["a"].encrypt({"x": np.eye(4)})  # for both, which ask for it alike
        >>> results = {name: program.server(keys).run(sent) for name, program in both.items()}
        >>> bool(np.abs(client["b"].decrypt(results["b"]) - second).max() < 1e-2)
        True
    """
    given: Any = programs
    good = isinstance(given, Mapping) and all(
        isinstance(one, tuple) and len(one) == 2 for one in given.values()
    )
    if not good:
        raise DTypeError(
            "Programs are given in a dictionary: by name a function and its operands.",
            got=type(given).__name__,
            advice='cb.compile_together({"first": (function, {"x": cb.secret(8, 8)})})',
        )
    if not programs:
        raise ParameterError("There is no program to compile.", advice=EMPTY)
    for name in programs:
        check_name(name)
    tell = shown(progress, "planning")
    alone = {name: compile(*one, progress=tell, **options) for name, one in programs.items()}
    sizes = {one.plan.parameters.fingerprint(): one.plan.parameters for one in alone.values()}
    reasons: dict[str, str] = {}
    for parameters in sorted(sizes.values(), key=lambda one: (one.n, one.log_qp)):
        found = _on_one(programs, alone, parameters, options, tell, reasons)
        if found is not None:
            return Programs(found)
    joint = attempted(lambda: _as_one(programs, options, tell), only=CipherblasError)
    if not isinstance(joint, Infeasible):
        found = _on_one(programs, alone, joint, options, tell, reasons)
        if found is not None:
            return Programs(found)
    raise ParameterError(
        "No parameter set serves all of the programs.",
        got="; ".join(f"{name}: {reason}" for name, reason in reasons.items()),
        advice=(ALONE, "parameters=…, a set that is large enough for all of them"),
    )


def _on_one(
    programs: Mapping[str, Written],
    alone: Mapping[str, Program],
    parameters: Parameters,
    options: Mapping[str, Any],
    tell: Tell | None,
    reasons: dict[str, str],
) -> dict[str, Program] | None:
    """All programs on one parameter set; None where one does not reach there what was asked for, and the reason."""
    found: dict[str, Program] = {}
    for name, one in programs.items():
        program = alone[name]
        if program.plan.parameters != parameters:
            outcome = attempted(lambda one=one: _forced(one, parameters, options, tell), only=CipherblasError)  # type: ignore[misc]
            if isinstance(outcome, Infeasible):
                reasons[name] = str(outcome.error).splitlines()[0]
                return None
            program = outcome
        if program.plan.keys.weights:
            reasons[name] = "its keys are made from its weights"
            return None
        found[name] = program
    return found


def _forced(one: Written, parameters: Parameters, options: Mapping[str, Any], tell: Tell | None) -> Program:
    """A program on this parameter set, which must reach the precision that was asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)  # told when it was planned alone
        program = compile(*one, progress=tell, **{**options, "parameters": parameters})
    plan = program.plan
    if plan.parameters != parameters or any(result.error > result.target for result in plan.results):
        raise ParameterError("The parameters do not reach the precision.", got=f"{plan.error:.2g}")
    return program


def _as_one(programs: Mapping[str, Written], options: Mapping[str, Any], tell: Tell | None) -> Parameters:
    """The parameters of one program that computes all of them."""
    operands = {f"{name}_{key}": one for name, (_, each) in programs.items() for key, one in each.items()}

    def every(**values: Any) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for name, (function, each) in programs.items():
            value = function(**{key: values[f"{name}_{key}"] for key in each})
            parts = (
                value
                if isinstance(value, Mapping)
                else dict(enumerate(value if isinstance(value, (tuple, list)) else [value]))
            )
            results |= {f"{name}_{key}": part for key, part in parts.items()}
        return results

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        return compile(every, operands, progress=tell, **options).plan.parameters
