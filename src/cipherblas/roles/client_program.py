"""A program as its clients need it: without constants, so that a service can give it away."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, get_args

from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.errors import CipherblasError, FormatError, ParameterError, brief
from cipherblas.common.progress import Progress, Steps
from cipherblas.crypto import files
from cipherblas.crypto.fields import MAX_PLAIN_MODULUS
from cipherblas.crypto.keys import KeyRequest, PublicKey, SecretKey
from cipherblas.crypto.keys.key_id import KeyId
from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.lang.crt import declared_modulo
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import BOUND_RANGE, MAX_LENGTH, Operand
from cipherblas.lang.results import MAX_RESULTS, Results
from cipherblas.planner.plan.plan import PeerName
from cipherblas.planner.plan.schema import MAX_MODULI, MODULI
from cipherblas.planner.plan.targets import ResultFigures, check_promised, nearest_target
from cipherblas.planner.predict.promises import Promise, check_promise, promise_of
from cipherblas.roles.client import Client
from cipherblas.roles.client_side import ClientSide
from cipherblas.roles.encryptor import Encryptor
from cipherblas.roles.planned import OPERAND, UNITS, PlannedProgram, read_operands, read_units
from cipherblas.roles.wire.messages import short_id
from cipherblas.roles.wire.packings import input_of_json, input_to_json, output_of_json, output_to_json
from cipherblas.runtime.values import Input, Output

KIND = "client-program"
MAX_KEYS, MAX_INPUTS = 1 << 20, 1 << 12
_NUMBER = schema.number(*BOUND_RANGE)
_RESULT = schema.record(
    {
        "shape": schema.listed(schema.integer(1, MAX_LENGTH), 0, 4),
        "bound": _NUMBER,
        "error": schema.number(0.0),
        "target": schema.number(0.0),
        "rounding_error": schema.number(0.0),
        "nbytes": schema.integer(),
        "output": schema.anything,
    }
)
_HEADER = schema.record(
    {
        "id": schema.text,
        "operands": schema.mapping(OPERAND),
        "exact": schema.flag,
        "inputs": schema.listed(schema.anything, 1, MAX_INPUTS),
        "results": schema.listed(_RESULT, 1, MAX_RESULTS),
        "arranged": schema.either(schema.nothing, schema.mapping(schema.anything)),
        "keys": schema.listed(schema.pair(schema.integer(), schema.integer(1)), 0, MAX_KEYS),
        "promise": schema.either(schema.nothing, check_promise),
    },
    {
        "units": UNITS,
        "for_peer": schema.one_of(*get_args(PeerName)),
        MODULI: schema.listed(schema.integer(2, MAX_PLAIN_MODULUS), 1, MAX_MODULI),
        "others": schema.listed(
            schema.record(
                {
                    "inputs": schema.listed(schema.anything, 1, MAX_INPUTS),
                    "outputs": schema.listed(schema.anything, 1, MAX_RESULTS),
                }
            ),
            0,
            MAX_MODULI,
        ),
    },
    others=True,
)


@dataclass(frozen=True)
class KnownPlan:
    """The part of a plan that a client knows.

    Attributes:
        parameters: of all that is encrypted.
        keys: the evaluation keys that a server needs.
        results: what is predicted of each result.
        promise: whom that is for.
        moduli: every t of exact integers that are computed by residues.
        for_peer: the library that encrypts and decrypts, where it is another one.
    """

    parameters: Parameters
    keys: KeyRequest
    results: tuple[ResultFigures, ...]
    promise: Promise
    moduli: tuple[int, ...] = ()
    for_peer: PeerName | None = None

    @property
    def key_bytes(self) -> int:
        """The size of the evaluation keys in memory."""
        return self.keys.nbytes(self.parameters)

    @property
    def error(self) -> float:
        """Predicted largest error of an entry."""
        return nearest_target(self.results).error

    @property
    def error_target(self) -> float:
        """The largest allowed error."""
        return nearest_target(self.results).target


class ClientProgram(files.InMemory, ClientSide):
    """A program without its weights: what `Program.save_client` writes, for those who encrypt and decrypt.

    It has shapes, bounds and encodings of secret operands and of results, parameters, the names of evaluation keys, and
    the promise. It can neither be run nor be evaluated, and nothing in it can be checked against the weights: errors
    and bounds are taken on the word of who made the file. Results that others will see (`Sharing`) need the whole
    program therefore.

    Attributes:
        id: that of the whole program: keys and ciphertexts of both are the same.
        operands: name → declared secret operand.
        plan: parameters, names of keys, errors of results, promise.

    Examples:
        >>> import io, numpy as np, cipherblas as cb
        >>> weights = np.eye(3)
        >>> program = cb.compile(lambda x: weights @ x, {"x": cb.secret(3)}, form="tensors")
        >>> file = io.BytesIO()
        >>> program.save_client(file)
        >>> client = cb.ClientProgram.load(file.getvalue()).client()
        >>> server = program.server(client.evaluation_keys())
        >>> found = client.decrypt(server.run(client.encrypt({"x": [1.0, 0.5, 0.25]})))
        >>> bool(np.abs(found - [1.0, 0.5, 0.25]).max() <= program.plan.error)
        True
    """

    def __init__(
        self,
        program_id: str,
        operands: Mapping[str, Operand],
        expression: Expression,
        exact: bool,
        plan: KnownPlan,
        inputs: tuple[Input, ...],
        outputs: tuple[Output, ...],
        units: tuple[Fraction, ...] = (),
    ) -> None:
        self.id, self.operands, self.expression, self.exact = program_id, dict(operands), expression, exact
        self.plan: KnownPlan = plan
        self._inputs, self._outputs, self.units = inputs, outputs, units
        self._residues: tuple[ClientProgram, ...] = ()

    @classmethod
    def of(cls, program: PlannedProgram) -> ClientProgram:
        """The part of a program that its clients need.

        Raises:
            ParameterError: keys of the program are made from its weights.
        """
        if program.fixed_factors:
            raise ParameterError(
                "The client needs the weights of this program: keys are made from them.",
                advice=(
                    'form="tensors", or form="blocks", in cb.compile',
                    "the whole program for the client: program.save(path)",
                ),
            )
        plan, secret = program.plan, {name: one for name, one in program.operands.items() if one.secret}
        expression = _results(
            [(node.shape, node.bound) for node in program.results],
            program.expression.parameters if program.expression.root else None,
        )
        inputs = tuple(one for name in secret for one in program.inputs_of(name))
        known = KnownPlan(plan.parameters, plan.keys, plan.results, plan.promise, plan.moduli, plan.for_peer)
        found = cls(
            program.id, secret, expression, program.exact, known, inputs, program.outputs, program.units
        )
        if plan.moduli:
            found._residues = tuple(map(cls.of, program.residues))
        return found

    def __repr__(self) -> str:
        return f"<ClientProgram {short_id(self.id)}: {', '.join(self.operands)} to {self.shape}>"

    def client(self, *, secret: SecretKey | None = None) -> Client:
        """A client with a new secret key, or one of another library; errors as `Program.client`."""
        return Client.of(self, secret)

    def encryptor(self, public_key: PublicKey) -> Encryptor:
        """Return an encryptor with the public key of a client; errors as `Program.encryptor`."""
        return Encryptor(self, public_key)

    @property
    def residues(self) -> tuple[ClientProgram, ...]:
        """The same program modulo each t, of exact integers by residues; of any other this one."""
        return self._residues or (self,)

    def inputs_of(self, name: str) -> list[Input]:
        return [one for program in self.residues for one in program._inputs if one.name == name]

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self._outputs

    @property
    def fixed_factors(self) -> tuple[ClearFactor, ...]:
        return ()

    def found_worst_errors(self, progress: Progress | None) -> tuple[float, ...]:
        """Refuse: a file that understates the error would have the client reveal its key.

        Raises:
            ParameterError: always.
        """
        raise ParameterError(
            "Sharing a result needs the whole program, from which its largest error is found.",
            advice="cb.Client.load(path, program), with program = cb.Program.load(file)",
            cause="A file without weights only states errors, and noise that is too small would reveal the key.",
        )

    # ---- files ----

    def save(self, path: files.Target, *, progress: Progress | None = None) -> None:
        """Write it to a file, atomically; arguments and errors as `Program.save_client`."""
        header, tensors = self._content()
        steps = Steps(progress, files.STEPS_PER_BYTE * sum(array.nbytes for array in tensors.values()))
        files.write(path, KIND, header, tensors, parameters=self.plan.parameters, tick=steps.tick)

    def _content(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Header and tensors of a file."""
        tensors: dict[str, NDArray[Any]] = {}
        first, *others = self.residues
        inputs = first._encodings(tensors)
        parts = zip(self.results, self.plan.results, first.outputs, strict=True)
        results = [
            {
                "shape": list(node.shape),
                "bound": node.bound,
                **{name: getattr(figures, name) for name in ("error", "target", "rounding_error", "nbytes")},
                "output": output_to_json(output, tensors, first.plan.parameters),
            }
            for node, figures, output in parts
        ]
        header = {
            "id": self.id,
            "operands": {name: operand.declared for name, operand in self.operands.items()},
            "exact": self.exact,
            "inputs": inputs,
            "results": results,
            "arranged": self.expression.parameters if self.expression.root else None,
            "keys": [[key.number, limbs] for key, limbs in self.plan.keys.limbs.items()],
            "promise": self.plan.promise.to_dict(),
        }
        if self.units:
            header["units"] = list(map(str, self.units))
        if self.plan.for_peer:
            header["for_peer"] = self.plan.for_peer
        if self.plan.moduli:
            header[MODULI] = list(self.plan.moduli)
            header["others"] = [
                {
                    "inputs": one._encodings(tensors),
                    "outputs": [output_to_json(own, tensors, one.plan.parameters) for own in one.outputs],
                }
                for one in others
            ]
        return header, tensors

    def _encodings(self, tensors: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
        """The encodings of all operands, whose layouts go to the tensors."""
        return [input_to_json(one, tensors, self.plan.parameters) for one in self._inputs]

    @classmethod
    @files.advised(KIND)
    def load(
        cls,
        path: files.Source,
        *,
        security: int = 128,
        insecure: bool = False,
        progress: Progress | None = None,
    ) -> ClientProgram:
        """Read what `Program.save_client` wrote.

        Args:
            path: the file, its bytes, or a stream of them.
            security: bits that its parameters must have: 128, 192 or 256.
            insecure: accept less; below 128 bits with a warning.
            progress: called as progress(done, total), counted in bytes.

        Raises:
            FormatError, VersionError, StorageError: the file is not a whole file of ours.
            MismatchError: it is another kind of file, as a whole program.
            SecurityError: its parameters have less security.
        """
        with files.Reader(path, KIND, security=security, insecure=insecure) as reader:
            return cls._read(reader.header, reader.read_all(progress), reader.parameters)

    @classmethod
    def _read(
        cls, header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], parameters: Parameters
    ) -> ClientProgram:
        """The program of a file or a pickle; errors as `load`."""
        _HEADER(header, "a program for clients")
        try:
            return cls._checked(header, tensors, parameters)
        except FormatError:
            raise
        except CipherblasError as error:
            raise FormatError(f"A program for clients cannot be read: {brief(error)}") from error

    @classmethod
    def _checked(
        cls, header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], parameters: Parameters
    ) -> ClientProgram:
        operands = read_operands(header["operands"])
        shapes = {name: one.shape for name, one in operands.items() if one.secret}
        inputs = tuple(input_of_json(one, tensors, parameters, shapes) for one in header["inputs"])
        if set(shapes) != set(operands) or {one.name for one in inputs} != set(shapes):
            raise FormatError(
                "The encodings of a program for clients are not those of its secret operands.",
                expected=", ".join(operands),
                got=", ".join(one.name for one in inputs),
            )
        rows = header["results"]
        expression = _results([(tuple(row["shape"]), row["bound"]) for row in rows], header["arranged"])
        names = ("error", "target", "rounding_error", "nbytes")
        labels = expression.labels if isinstance(expression, Results) else ("",)
        labels = labels or tuple(map(str, range(len(rows))))
        figures = tuple(
            ResultFigures(label, float(row["bound"]), *(row[name] for name in names))
            for label, row in zip(labels, rows, strict=True)
        )
        check_promised(figures)
        outputs = tuple(
            output_of_json(row["output"], tensors, parameters, tuple(row["shape"])) for row in rows
        )
        keys = KeyRequest({KeyId.of_number(number): limbs for number, limbs in header["keys"]})
        keys.check(parameters)
        if keys.weights:
            raise FormatError(
                "A program for clients has keys that are made from weights.", got=len(keys.weights)
            )
        moduli = tuple(header.get(MODULI, ()))
        plan = KnownPlan(
            parameters, keys, figures, promise_of(header["promise"]), moduli, header.get("for_peer")
        )
        units = read_units(header.get("units", ()), expression, operands)
        found = cls(header["id"], operands, expression, header["exact"], plan, inputs, outputs, units)
        if moduli:
            others = header.get("others", [])
            if moduli[0] != parameters.plain_modulus or len(others) != len(moduli) - 1:
                raise FormatError(
                    "A program for clients has not the encodings of each t.",
                    expected=f"{len(moduli)} of them",
                    got=1 + len(others),
                )
            found._residues = tuple(
                found._modulo(modulus, other, tensors)
                for modulus, other in zip(
                    moduli,
                    [{"inputs": header["inputs"], "outputs": [row["output"] for row in rows]}, *others],
                    strict=True,
                )
            )
        return found

    def _modulo(
        self, modulus: int, encodings: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]
    ) -> ClientProgram:
        """The same program of integers modulo one t of several, of a file."""
        parameters = self.plan.parameters.modulo(modulus)
        shapes = {name: one.shape for name, one in self.operands.items()}
        inputs = tuple(input_of_json(one, tensors, parameters, shapes) for one in encodings["inputs"])
        pairs = zip(encodings["outputs"], self.results, strict=True)
        outputs = tuple(output_of_json(one, tensors, parameters, node.shape) for one, node in pairs)
        plan = replace(self.plan, parameters=parameters, moduli=())
        operands = declared_modulo(self.operands, modulus)
        return ClientProgram(self.id, operands, self.expression, False, plan, inputs, outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold what a file holds, and are read as one."""
        header, tensors = self._content()
        return _unpickled, (json.dumps(header), tensors, self.plan.parameters)


def _unpickled(header: str, tensors: Mapping[str, NDArray[Any]], parameters: Parameters) -> ClientProgram:
    return ClientProgram._read(json.loads(header), tensors, parameters)


def _results(each: list[tuple[tuple[int, ...], float]], arranged: Mapping[str, Any] | None) -> Expression:
    """Nodes that stand for results, under the root that arranges them: they have shapes and bounds, and nothing else.

    Raises:
        ParameterError, DTypeError, FormatError: these are no results of a program.
    """
    nodes = [Expression(shape, True, bound) for shape, bound in each]
    if arranged is None:
        if len(nodes) != 1:
            raise FormatError("A program for clients has several results.", expected="one", got=len(nodes))
        return nodes[0]
    schema.record(Results.fields)(arranged, "the results of a program for clients")
    return Results(*nodes, labels=arranged["labels"])
