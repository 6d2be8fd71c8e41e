"""The machine that a program is planned for, as a value: measured here or on another computer, and kept in a file."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import weakref
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cipherblas._core as _core
from cipherblas.common import schema
from cipherblas.common.errors import (
    CipherblasError,
    DTypeError,
    FormatError,
    ParameterError,
    VersionError,
    without,
)
from cipherblas.common.limits import available_memory
from cipherblas.common.pickles import Rebuilt
from cipherblas.common.progress import Progress
from cipherblas.crypto import files
from cipherblas.engines.registry import CPU, maker_of
from cipherblas.planner.predict import measuring
from cipherblas.planner.predict.caches import Cache, caches_here
from cipherblas.planner.predict.cost import GemmRates, Rates, SwitchRates, ThreadRates

VARIABLE = "CIPHERBLAS_MACHINE"  # of the environment: the file of the machine to plan for
FOLDER = "CIPHERBLAS_CACHE"  # of the environment: where measurements and plans are kept; empty for nowhere
KIND = "machine"  # of a file, for people
MARK = "cipherblas-machine"  # the field of a file that says what it is, and in which version
VERSION = 2  # 1: one number for the threads of each ring degree
MAX_BYTES = 1 << 16  # of a file
MAX_THREADS = 1 << 16
MAX_CACHES = 9
MAX_TEXT_LENGTH = 100
SLOWEST, FASTEST = 1.0, 1e-15  # seconds; what is measured as a difference may be nothing at all


def _text(value: Any, place: str) -> None:
    schema.plain_text(value, place)
    if not 1 <= len(value) <= MAX_TEXT_LENGTH:
        raise FormatError(
            f"The text of {place} is empty or too long.",
            expected=f"1 to {MAX_TEXT_LENGTH} characters",
            got=len(value),
        )


def _degree(value: Any, place: str) -> None:
    schema.integer(1, 1 << 17)(value, place)
    if value & (value - 1):
        raise FormatError(
            f"The value of {place} must be a power of two.", expected="a power of two", got=value
        )


def _rising(value: Any, place: str) -> None:
    schema.listed(_SWITCHING, 1, 16)(value, place)
    degrees = [one["n"] for one in value]
    if degrees != sorted(set(degrees)):
        raise FormatError(
            f"The ring degrees of {place} must stand in rising order.",
            expected="in rising order",
            got=degrees,
        )


_SECONDS, _DIFFERENCE = schema.number(FASTEST, SLOWEST), schema.number(0, SLOWEST)
_KEYED = schema.number(-1e-3, SLOWEST)  # negative where keys are nearer than memory
_THREADS = schema.integer(1, MAX_THREADS)
_GEMM = schema.record({"mac": _DIFFERENCE, "input": _SECONDS, "output": _SECONDS})
_SWITCHING = schema.record({"n": _degree, "ntt": _DIFFERENCE})
_FASTER = schema.number(1, MAX_THREADS)
_TOGETHER = schema.record({"tried": _THREADS, "compute": _FASTER, "stream": _FASTER})
_PLAIN = (
    *("ntt", "encode", "pack", "uniform", "stream_start", "gaussian", "ternary", "pack_key"),
    *("digest", "mac", "stream", "fresh", "call", "book"),
)
_CACHE = schema.record(
    {"level": schema.integer(1, 9), "nbytes": schema.integer(1), "processors": schema.integer(1, MAX_THREADS)}
)
_MACHINE = schema.record(
    {
        "name": _text,
        "processor": _text,
        "isa": _text,
        "threads": _THREADS,
        "memory": schema.either(schema.nothing, schema.integer()),
        "rates": schema.record(
            {
                **dict.fromkeys(_PLAIN, _SECONDS),
                "switching": _rising,
                "threads": _TOGETHER,
                "term": _DIFFERENCE,
                "floats": _GEMM,
                "modular": _GEMM,
            },
            {"keyed": _KEYED, "switched": _DIFFERENCE, "operands": schema.either(schema.nothing, _GEMM)},
        ),
    },
    {"caches": schema.listed(_CACHE, 1, MAX_CACHES)},
)


@dataclass(frozen=True)
class Machine(files.InMemory, Rebuilt):
    """All that planning knows of a machine; `save` and `load` carry it to another one.

    Attributes:
        name: for people; stands in `explain()`.
        processor: for people.
        isa: the instruction set of the kernels that were measured.
        threads: that programs are predicted for unless they say otherwise.
        memory: bytes that were available; None where the system did not say.
        rates: seconds of the elementary operations.
        caches: of one processor, the smallest first; none where the system did not say. `explain()` compares them with
            what a linear transform keeps; no decision depends on them.

    Examples:
        >>> server = Machine.measure("server")
        >>> server.name
        'server'
    """

    name: str
    processor: str
    isa: str
    threads: int
    memory: int | None
    rates: Rates
    caches: tuple[Cache, ...] = ()

    def __repr__(self) -> str:
        return f"<Machine {self.name!r}: {self.isa}, threads: {self.threads}>"

    @classmethod
    def measure(
        cls, name: str | None = None, *, progress: Progress | None = None, engine: str = CPU
    ) -> Machine:
        """This machine, measured now (a second or two); it should have nothing else to do.

        Args:
            name: by default that of the processor.
            progress: called as progress(done, total), counted in rounds of measurements.
            engine: who does the arithmetic: "cpu", or a name of `register_engine`, whose calls are measured then.

        Raises:
            ParameterError: the name is not 1 to 100 printable characters of ASCII, or there is no such engine.
        """
        if name is not None:
            _check(_text, name, "name of a machine")
        rates = measuring.measured(progress=progress, make=maker_of(engine))
        return _of_this_process(rates, name).checked()

    @classmethod
    def here(cls) -> Machine:
        """This machine, with the threads and the memory of now. Its rates are measured once, briefly, and kept for
        later processes (see `keep`)."""
        return _of_this_process(_rates_here(), None)

    def keep(self) -> Path | None:
        """Let later processes of this user plan by these rates: those with this processor, as many threads, and the
        same kernels. `cipherblas machine` does so.

        Returns:
            The file, in the folder that the environment variable CIPHERBLAS_CACHE names, by default
            ~/.cache/cipherblas; None where the variable is empty or the folder cannot be written.
        """
        path = _kept_file()
        if path is None:
            return None
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.save(path)
        except (OSError, CipherblasError):  # the next process measures again
            return None
        return path

    @classmethod
    def usual(cls) -> Machine:
        """The machine that is planned for where none is given: that of the file which the environment variable
        CIPHERBLAS_MACHINE names, else this one.

        Raises:
            ParameterError: there is no such file. Others as `load`.
        """
        path = os.environ.get(VARIABLE)
        if not path:
            return cls.here()
        if not os.path.isfile(path):
            raise ParameterError(
                f"The environment variable {VARIABLE} names no file.",
                expected="the path of a file that `cipherblas machine -o FILE` wrote, or nothing",
                got=path,
                advice=[
                    f"{VARIABLE}=FILE, with the file that cipherblas machine -o FILE wrote",
                    f"unset {VARIABLE}, to plan for this machine",
                ],
            )
        return cls.load(path)

    @classmethod
    def given(cls, machine: Any) -> Machine:
        """A machine, or that of a file.

        Raises:
            DTypeError: neither a machine nor a path. Others as `load` and `checked`.
        """
        if isinstance(machine, (str, os.PathLike)):
            return cls.load(machine)
        if not isinstance(machine, Machine):
            raise DTypeError(
                "The machine must be a Machine, or the path of its file.",
                expected="a Machine, or the path of its file",
                got=type(machine).__name__,
                advice=[
                    "cb.Machine.from_dict(values)"
                    if isinstance(machine, Mapping)
                    else "cb.Machine.load(path)",
                    without("machine"),
                ],
            )
        return machine.checked()

    def checked(self) -> Machine:
        """Return this machine if a file may hold it; raise an error otherwise.

        Raises:
            ParameterError: something has the wrong type, or is out of range.
        """
        if _SOUND.get(id(self)) is not self:  # options are made for every way that is planned
            _check(_MACHINE, self.to_dict(), "machine")
            _SOUND[id(self)] = self
        return self

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; without caches where none are known, and without what takes no time of its own."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        if not self.caches:
            del values["caches"]
        for name in ("keyed", "switched"):
            if not values["rates"][name]:
                del values["rates"][name]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Machine:
        """From `to_dict`, of whatever origin.

        Raises:
            FormatError: a field is missing, unknown, of another type or out of range.
        """
        _MACHINE(values, "machine")
        rates = dict(values["rates"])
        rates["switching"] = tuple(SwitchRates(**one) for one in rates["switching"])
        rates["threads"] = ThreadRates(**rates["threads"])
        gemms = {
            name: GemmRates(**rates[name]) for name in ("floats", "modular", "operands") if rates.get(name)
        }
        rates |= gemms
        caches = tuple(Cache(**one) for one in values.get("caches", ()))
        return cls(**{**values, "rates": Rates(**rates), "caches": caches})

    def save(self, path: files.Target) -> None:
        """Write a JSON file, whole or not at all; it may be edited by hand.

        Raises:
            ParameterError: as `checked`.
            StorageError: the system refuses.
        """
        content = {MARK: VERSION, **self.checked().to_dict()}
        files.save_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())

    @classmethod
    @files.advised(KIND)
    def load(cls, path: files.Source) -> Machine:
        """Read a file that `save` or `cipherblas machine -o` wrote, whoever did it.

        Raises:
            FormatError: no file of a machine, damaged, or out of range.
            VersionError: written by a newer version, or one whose measurements say less.
            StorageError: the system refuses, or it is not a regular file.
        """
        name = files.name_of(path)
        with files.opened(path, files.wanted(KIND)) as stream:
            raw = stream.read(MAX_BYTES + 1)
        with files.standing_at(name):
            return cls._parsed(name, raw)

    @classmethod
    def _parsed(cls, name: str, raw: bytes) -> Machine:
        if len(raw) > MAX_BYTES:
            raise FormatError(f"{name} is no file of a machine.", expected=f"at most {MAX_BYTES} bytes")
        values = files.parse_json(name, raw, "a machine")
        version = values.pop(MARK, None)
        if type(version) is not int or version < 1:
            raise FormatError(f"{name} is no file of a machine.", expected=f"the field {MARK!r}", got=version)
        if version > VERSION:
            raise VersionError(
                f"{name} was written by a newer cipherblas.",
                expected=f"version {VERSION}",
                got=version,
                advice="pip install --upgrade cipherblas",
            )
        if version < VERSION:
            raise VersionError(
                f"{name} was written by an older cipherblas.",
                expected=f"version {VERSION}",
                got=version,
            )
        try:
            return cls.from_dict(values)
        except FormatError as error:
            raise FormatError(
                f"{name} cannot be read: {error.message.removesuffix('.')}.",
                expected=error.expected,
                got=error.got,
            ) from None


_SOUND: weakref.WeakValueDictionary[int, Machine] = (
    weakref.WeakValueDictionary()
)  # that were checked, by identity


def check_machine(values: Any, place: str) -> None:
    """Raise FormatError unless a value of a file has the form of `Machine.to_dict`."""
    _MACHINE(values, place)


def _check(check: schema.Check, value: Any, place: str) -> None:
    """ParameterError where a value of a user's program does not pass."""
    try:
        check(value, place)
    except FormatError as error:
        raise ParameterError(
            error.message,
            expected=error.expected,
            got=error.got,
            advice=[f"{error.expected} in that field", "cb.Machine.measure(), this machine as it is"],
        ) from None


@functools.lru_cache(maxsize=1)
def _rates_here() -> Rates:
    kept = _kept_rates()
    if kept is not None:
        return kept
    rates = measuring.measured(measuring.FEW_ROUNDS)  # a program waits for it
    _of_this_process(rates, None).keep()
    return rates


def cache_folder() -> Path | None:
    """Where processes of this user keep what they found, for later ones; None where they keep nothing."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(caches, "cipherblas")
    return Path(folder) if os.path.isabs(folder) else None


def _kept_file() -> Path | None:
    """Where rates are kept of this processor with its threads, and of the kernels as they were built."""
    folder = cache_folder()
    if folder is None:
        return None
    built = os.stat(_core.__file__)
    known = processor_name(), _core.isa(), _core.threads(), built.st_size, built.st_mtime_ns
    name = hashlib.sha256(repr(known).encode()).hexdigest()[:16]
    return folder / f"machine-{_core.isa()}-{_core.threads()}-{name}.json"


def _kept_rates() -> Rates | None:
    """Rates that an earlier process kept; None where there is no such file, or a damaged one."""
    path = _kept_file()
    if path is None or not path.is_file():
        return None
    try:
        return Machine.load(path).rates
    except CipherblasError:
        return None


def _of_this_process(rates: Rates, name: str | None) -> Machine:
    processor = processor_name()
    return Machine(
        name=processor if name is None else name,
        processor=processor,
        isa=_core.isa(),
        threads=int(_core.threads()),
        memory=available_memory(),
        rates=rates,
        caches=caches_here(),
    )


@functools.lru_cache(maxsize=1)
def processor_name() -> str:
    """The system's name of the processor, in printable ASCII."""
    found = ""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                found = line.partition(":")[2]
                break
    except OSError:
        pass
    found = found or platform.processor() or platform.machine()
    text = " ".join("".join(c for c in found if c.isascii() and (c.isprintable() or c == " ")).split())
    return text[:MAX_TEXT_LENGTH] or "unknown processor"
