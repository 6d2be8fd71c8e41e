"""An engine that has another one compute, and writes down every call: what it read, what it made, and when that went.

It is what an accelerator, an exporter or a debugger needs of a run:

    recording = Recording()
    cb.register_engine("recorded", recording.engine)
    program.server(keys, engine="recorded").run(operands)
    recording.calls, recording.data
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cipherblas.crypto.params import Parameters
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.operations import OPERATIONS, Shape
from cipherblas.engines.protocol import Engine, MakeEngine
from cipherblas.rlwe.costs import Costs
from cipherblas.rlwe.counts import Counts

WEIGHTS = "Weights"  # arrays of the host that hold weights, which an engine fills and reads


@dataclass
class Datum:
    """Something that calls read or made.

    Attributes:
        number: by which calls name it.
        kind: one of `operations.KINDS`, or WEIGHTS.
        shape: in words of the host.
        n: degree of its ring.
        made: number of the call that made it.
        dropped: number of the calls that were made before it went; None while it is held.
    """

    number: int
    kind: str
    shape: tuple[int, ...]
    n: int
    made: int
    dropped: int | None = None

    @property
    def limbs(self) -> int:
        """Of a ciphertext or a matrix of residues."""
        if self.kind == "Ciphertext":
            return self.shape[-2]
        return self.shape[0]


@dataclass(frozen=True)
class EngineCall:
    """One call of an engine.

    Attributes:
        name: that of the protocol.
        engine: whose call it is, by its place in `Recording.engines`.
        arguments: by name, as they were given, in order; handles and weights are data, engines their places, and other
            arrays are their shapes where a recording keeps no words.
        makes: what it returned.
        counts: what it costs, as the table of operations has it.
    """

    name: str
    engine: int
    arguments: Mapping[str, Any]
    makes: tuple[Datum, ...]
    counts: Counts

    @property
    def reads(self) -> list[Datum]:
        """The data among its arguments, in order."""
        return _data_in(list(self.arguments.values()))


class Recording:
    """The calls of all engines that it makes; of one that runs on several threads in the order in which they end.

    Args:
        inner: makes the engines that compute.
        words: keep the words of what enters (operands, keys, masks, integers), so that the run can be replayed.

    Attributes:
        engines: their parameters.
        calls: in order.
        data: by number.
    """

    def __init__(self, inner: MakeEngine = CpuEngine, *, words: bool = False) -> None:
        self.inner, self.words = inner, words
        self.engines: list[Parameters] = []
        self.calls: list[EngineCall] = []
        self.data: list[Datum] = []
        self._lock = threading.RLock()
        self._hosts: dict[tuple[int, tuple[int, ...]], tuple[Callable[[], Any], Datum]] = {}

    def engine(self, params: Parameters) -> Engine:
        """One for parameters, as `register_engine` takes it."""
        return cast(Engine, _Engine(self, self.inner(params), params))

    def new(self, kind: str, shape: tuple[int, ...], n: int) -> Datum:
        """Another datum."""
        with self._lock:
            found = Datum(len(self.data), kind, shape, n, len(self.calls))
            self.data.append(found)
            return found

    def of_host(self, array: NDArray[Any], kind: str, n: int) -> Datum:
        """Return the record of an array of the host: one record for all calls while the array lives."""
        key = array.__array_interface__["data"][0], array.shape
        with self._lock:
            found = self._hosts.get(key)
            owner = array if array.base is None else array.base
            if found is None or found[0]() is not owner:
                try:
                    alive: Any = weakref.ref(owner)
                except TypeError:  # a mapped file stays while its arrays do
                    alive = lambda: owner  # noqa: E731
                found = self._hosts[key] = alive, self.new(kind, array.shape, n)
            return found[1]

    def drop(self, datum: Datum) -> None:
        """Nobody holds it any more."""
        datum.dropped = len(self.calls)

    def made(self, call: EngineCall) -> None:
        """A call has ended."""
        with self._lock:
            self.calls.append(call)

    def times(self) -> Counter[str]:
        """How often each call was made."""
        return Counter(call.name for call in self.calls)

    def counts(self) -> Counts:
        """Costs of the calls of the first engine, and of engines of equally large rings."""
        found = Counts()
        for call in self.calls:
            found += call.counts
        return found

    def replayed(self, make: MakeEngine = CpuEngine) -> list[NDArray[Any]]:
        """The words that left, computed again by the calls alone; the recording must have kept the words that entered.

        Args:
            make: makes the engines that compute.
        """
        engines: list[Any] = [make(params) for params in self.engines]
        held: dict[int, Any] = {}
        left = []

        def given(value: Any) -> Any:
            if isinstance(value, Datum):
                if value.kind == WEIGHTS and value.number not in held:
                    held[value.number] = np.empty(value.shape, np.uint64)
                return held[value.number]
            return type(value)(map(given, value)) if isinstance(value, (list, tuple)) else value

        for call in self.calls:
            arguments = {
                name: engines[value] if name == "inner" else given(value)
                for name, value in call.arguments.items()
            }
            result = getattr(engines[call.engine], call.name)(**arguments)
            made = result if isinstance(result, (list, tuple)) else [result]
            if call.name.startswith("download"):
                left.append(np.array(result))
            held.update((one.number, value) for one, value in zip(call.makes, made, strict=False))
        return left


class _Handle:
    """A handle of the recording, in place of a handle of the inner engine."""

    __slots__ = ("__weakref__", "_recording", "datum", "inner")

    def __init__(self, recording: Recording, inner: Any, datum: Datum) -> None:
        self._recording, self.inner, self.datum = recording, inner, datum

    @property
    def nbytes(self) -> int:
        return int(self.inner.nbytes)

    @property
    def shape(self) -> Shape:
        return self.datum.shape

    def __del__(self) -> None:
        self._recording.drop(self.datum)


class _Engine:
    """The calls of `Engine`, each entered in a recording."""

    def __init__(self, recording: Recording, inner: Engine, params: Parameters) -> None:
        self.recording, self.inner, self.params, self.n = recording, inner, params, params.n
        self._costs = Costs(params)
        self.number = len(recording.engines)
        recording.engines.append(params)
        self._keys: weakref.WeakValueDictionary[int, _Handle] = weakref.WeakValueDictionary()

    def beside(self, params: Parameters) -> _Engine:
        return _Engine(self.recording, self.inner.beside(params), params)

    def upload_key(self, words: Any) -> _Handle:
        """The same handle as long as somebody holds it: a key is uploaded wherever it is used."""
        datum = self.recording.of_host(words, "Key", self.n)
        handle = self._keys.get(datum.number)
        if handle is None:
            inner = self.inner.upload_key(words)
            shown = {"words": self._array(words)}
            self.recording.made(EngineCall("upload_key", self.number, shown, (datum,), Counts()))
            handle = self._keys[datum.number] = _Handle(self.recording, inner, datum)
        return handle

    def gemm_error(self, k: int, largest: float, modulus: float) -> float:
        return self.inner.gemm_error(k, largest, modulus)

    def weights_shape(self, limbs: int, terms: int, ciphertexts: int) -> tuple[int, ...]:
        return self.inner.weights_shape(limbs, terms, ciphertexts)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = OPERATIONS.get(name)
        if operation is None:
            raise AttributeError(name)
        method = getattr(self.inner, name)

        def recorded(*args: Any, **options: Any) -> Any:
            arguments = operation.arguments(args, options)
            shown, given = {}, {}
            for argument, value in arguments.items():
                shown[argument], given[argument] = self._given(argument, value)
            result = method(**given)
            makes: list[Datum] = []
            if operation.kind is not None:
                shapes = operation.shapes(self.params, arguments)
                result = self._made(result, operation.kind, shapes, makes)
            counts = operation.counts(self._costs, arguments)
            self.recording.made(EngineCall(name, self.number, shown, tuple(makes), counts))
            return result

        setattr(self, name, recorded)
        return recorded

    def _given(self, name: str, value: Any) -> tuple[Any, Any]:
        """Return the record of an argument, and the argument for the inner engine."""
        if isinstance(value, _Handle):
            return value.datum, value.inner
        if isinstance(value, _Engine):
            return value.number, value.inner
        if isinstance(value, np.ndarray):
            if name == "weights":
                return self.recording.of_host(value, WEIGHTS, self.n), value
            return self._array(value), value
        if isinstance(value, (list, tuple)):
            pairs = [self._given(name, one) for one in value]
            return tuple(shown for shown, _ in pairs), type(value)(given for _, given in pairs)
        return value, value

    def _array(self, words: NDArray[Any]) -> Any:
        return words.copy() if self.recording.words else words.shape

    def _made(self, value: Any, kind: str, shape: Any, makes: list[Datum]) -> Any:
        if isinstance(value, (list, tuple)):
            pairs = zip(value, shape, strict=True)
            return type(value)(self._made(one, kind, own, makes) for one, own in pairs)
        datum = self.recording.new(kind, shape, self.n)
        makes.append(datum)
        return _Handle(self.recording, value, datum)


def _data_in(value: Any) -> list[Datum]:
    if isinstance(value, Datum):
        return [value]
    return [one for part in value for one in _data_in(part)] if isinstance(value, (list, tuple)) else []
