"""The exceptions and warnings of cipherblas: each names what was expected and what was found, and what to write."""

from __future__ import annotations

import difflib
import math
import os
import pickle
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

_PATH = re.compile(r"""(?<![\w.:/~…-])[~.]{0,2}(?:/[^\s/'"():,;…]+)+/?""")
_MAX_VALUE_LENGTH = 300  # a hostile file must not be able to flood a log through an error message


def printable(text: str) -> str:
    """Return `text` as one line that is safe on a terminal: other characters stand as their Python escapes.

    That is every control character (C0, DEL, C1), line and paragraph separators, overrides of the writing direction,
    and surrogates. What comes from a file or from a user passes through this before it is shown.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def capitalized(what: str) -> str:
    """Return the text with a capital first letter, to begin a sentence."""
    return what[:1].upper() + what[1:]


def brief(error: BaseException) -> str:
    """An error in one line: of ours, what is wrong without what to write."""
    return error.sentence if isinstance(error, CipherblasError) else str(error)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else text[:_MAX_VALUE_LENGTH] + "…"


def _without_folders(text: str, places: Iterable[str]) -> str:
    """The text with the last names of paths alone: of these, and of all that begin with / or ~."""
    for place in sorted({*places, *map(os.path.realpath, places)}, key=len, reverse=True):
        folder, name = os.path.split(place.rstrip("/"))
        if name:
            text = text.replace(place, name)
        if folder.startswith("/") and len(folder) > 1:
            text = text.replace(folder, "…")
    return _PATH.sub(lambda found: os.path.basename(found[0].rstrip("/")), text)


def _says(message: str, value: str) -> bool:
    """Whether `value` stands in `message` as whole words."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", message) is not None


@dataclass(frozen=True)
class Call:
    """A call in the user's function, and keywords that it lacks.

    Attributes:
        function: its name, as in `cb.relu`.
        line: of the file.
        keywords: to write.
    """

    function: str
    line: int
    keywords: Mapping[str, Any]


@dataclass(frozen=True)
class Advice:
    """A line of code, or words, to write in place of a refused one.

    Attributes:
        write: a line of code, or a few words where it is no single line.
        options: of `compile`, with which the same program is planned; one that is None is left out.
        call: that is to be changed in the program.
    """

    write: str
    options: Mapping[str, Any] = field(default_factory=dict)
    call: Call | None = None

    def also(self, other: Advice | None) -> Advice:
        """This one and another one together."""
        if other is None:
            return self
        return Advice(f"{self.write}, and {other.write}", {**self.options, **other.options})


def without(*names: str) -> Advice:
    """Return advice to leave out options of `compile`."""
    return Advice(f"the same without {' and '.join(f'{name}=' for name in names)}", dict.fromkeys(names))


def in_place_of(got: Any, known: Iterable[str], write: str = "{}") -> tuple[str, ...]:
    """Advice to write the known name that is nearest to an unknown one; none where none is near."""
    names, found = list(known), str(got)
    same = [name for name in names if name.lower() == found.lower()]
    return tuple(write.format(name) for name in (same or difflib.get_close_matches(found, names, 1))[:1])


def nearest_choice(option: str, got: Any, known: Iterable[str]) -> tuple[Advice, ...]:
    """Advice to give an option of `compile` that of its values which is nearest; none where none is near."""
    return tuple(Advice(f'{option}="{name}"', {option: name}) for name in in_place_of(got, known))


class CipherblasError(Exception):
    """Base class of all errors that cipherblas raises on purpose.

    A refusal has up to three parts, each on a line of its own: what is wrong, what to write, and the cause.

    The first is a sentence, with the fields in parentheses before its full stop: "Operand 'a' has the wrong shape
    (expected 4x3, got 1x2)." What the sentence says already is left out: "The stride must be an integer (got 2.5)."

    Attributes:
        message: a short sentence that says what is wrong, with a capital and a full stop.
        expected: what would have been accepted, or None.
        got: what was found, or None.
        advice: what to write instead, the best first; each does by itself.
        cause: why it is so, in a sentence, where the first part does not say it.
        sentence: the first part with its fields, in one line.
        code: the name of its kind in `cipherblas`, which does not change; see docs/errors.md.
        shortfall: log2 of how many times what was allowed would have been needed, of a plan; infinite where that is not
            known. Of several alternatives, the one with the least came nearest.

    The attributes may hold strings of a file as they are; `sentence` and `str` give them as `printable` does.
    """

    shortfall: float = math.inf
    code: ClassVar[str] = "CipherblasError"
    _places: tuple[str, ...] = ()

    def __init_subclass__(cls, code: str | None = None, **options: Any) -> None:
        """`code`: that of a public class, for a kind that callers do not tell from it."""
        super().__init_subclass__(**options)
        cls.code = code or cls.__name__

    def __init__(
        self,
        message: str,
        *,
        expected: Any = None,
        got: Any = None,
        advice: Sequence[Advice | str] | Advice | str = (),
        cause: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected
        self.got = got
        self.cause = cause
        given = (advice,) if isinstance(advice, (str, Advice)) else advice
        self.advice = tuple(one if isinstance(one, Advice) else Advice(one) for one in given)

    def at(self, place: object) -> CipherblasError:
        """Return the same error with a file or another place at the beginning of its sentence."""
        self.message = f"{place}: {self.message}"
        self.args = (self.message,)
        return self

    @property
    def sentence(self) -> str:
        fields = [("expected", self.expected), ("got", self.got)]
        shown = [(name, _shown(value)) for name, value in fields if value is not None]
        while shown and _says(self.message, shown[0][1]):  # so `got` is left out only where `expected` is
            shown.pop(0)
        if not shown:
            return printable(self.message)
        details = ", ".join(f"{name} {value}" for name, value in shown)
        return printable(f"{self.message.removesuffix('.')} ({details}).")

    def standing_at(self, place: str) -> None:
        """Its texts may name this path of the machine, which `to_dict` then leaves out."""
        self._places = (*self._places, place)

    def to_dict(self) -> dict[str, Any]:
        """The error as JSON has it, for strangers: `code`, `message`, `expected`, `got`, `advice` and `cause`.

        All but the advice are texts, or None; an advice is what to write and its options. Of paths of this machine
        it holds the last name alone.

        Examples:
            >>> import cipherblas as cb
            >>> cb.ShapeError("Operand 'a' has the wrong shape.", expected="4x3", got="1x2").to_dict()["code"]
            'ShapeError'
        """

        def text(value: Any) -> str | None:
            return None if value is None else printable(_without_folders(_shown(value), self._places))

        advice = [
            {"write": text(one.write), "options": {name: text(value) for name, value in one.options.items()}}
            for one in self.advice
        ]
        parts = {name: text(getattr(self, name)) for name in ("message", "expected", "got")}
        return {"code": self.code, **parts, "advice": advice, "cause": text(self.cause)}

    # KeyError prints the repr of its argument and OSError its errno: one readable form for all.
    def __str__(self) -> str:
        return "\n  ".join(self.lines())

    def lines(self, written: Callable[[Advice], str] = lambda advice: advice.write) -> list[str]:
        """The lines of the message. `written` turns advice into text."""
        found = [self.sentence]
        found += [f"{'Or' if number else 'Write'}: {written(one)}" for number, one in enumerate(self.advice)]
        found += [] if self.cause is None else [f"Cause: {_shown(self.cause)}"]
        return [printable(line) for line in found]


class ShapeError(CipherblasError, ValueError):
    """An array or matrix has the wrong shape."""


class FitError(ShapeError, code="ShapeError"):
    """A block, a layer or a row exceeds the capacity of a method, a ciphertext or a ring; another one may hold it."""


class RangeError(CipherblasError, ValueError):
    """A value is NaN, infinite, or beyond its planned range."""


class DTypeError(CipherblasError, TypeError):
    """An array or argument has the wrong type."""


class UnknownNameError(CipherblasError, AttributeError):
    """There is no function or method of that name; says what to write instead."""


class SecurityError(CipherblasError):
    """An operation would be less secure than requested, or would let a secret leave its place."""


class SecretCopyError(SecurityError, pickle.PicklingError, TypeError):
    """An attempt to copy or pickle an object with a secret key."""


class ParameterError(CipherblasError):
    """A parameter is invalid, or no parameters satisfy the request."""


class UnsuitedError(ParameterError, code="ParameterError"):
    """A method does not support its options or its kind of ring; another method may."""


class PrecisionError(CipherblasError):
    """The error target cannot be met."""


class ApproximationError(PrecisionError, code="PrecisionError"):
    """Polynomials are too far from the functions that they stand for, whatever the parameters; finer ones may do."""


class UnsupportedNodeError(CipherblasError):
    """A network or a model has parts that cannot be computed encrypted."""


class LevelError(CipherblasError):
    """A ciphertext has too few limbs left, or operands stand at different levels."""


class MissingKeyError(CipherblasError, KeyError):
    """An operation needs an evaluation key that is not there."""


class MismatchError(CipherblasError):
    """Two objects do not belong together: their programs, parameters or keys differ."""


class UnmatchedError(MismatchError, code="MismatchError"):
    """Scales cannot be made equal with the limbs of a ring: those of another one may do."""


class MemoryBudgetError(CipherblasError, MemoryError):
    """An operation needs more memory than is available or allowed."""


class WorkBudgetError(CipherblasError):
    """A plan would take more work to be counted than any plan may: see `cipherblas.common.work`."""


class CancelledError(CipherblasError):
    """A run was ended by `cancel`; nothing of it is kept."""


class FormatError(CipherblasError):
    """A file is damaged, truncated, or not a cipherblas file."""


class VersionError(FormatError):
    """A file was written by a newer version of the format."""


class StorageError(CipherblasError, OSError):
    """The operating system refused a file operation: missing file, vanished file, full disk, permission.

    `errno` is that of the system's error where there was one.
    """

    def __init__(self, message: str, *, errno: int | None = None, **parts: Any) -> None:
        super().__init__(message, **parts)
        self.errno = errno


class ServiceError(CipherblasError):
    """A service refused a request, or cannot be reached.

    `status` is that of HTTP, or None where nothing answered; `retry_after`: seconds after which to ask again, or None.
    """

    def __init__(
        self, message: str, *, status: int | None = None, retry_after: float | None = None, **parts: Any
    ) -> None:
        super().__init__(message, **parts)
        self.status, self.retry_after = status, retry_after


class PrecisionWarning(UserWarning):
    """A plan promises less of a result than one would take for granted; the warning says why, and what to write."""


class SecurityWarning(UserWarning):
    """Something is allowed on request, but weaker than it should be."""


class InsecureParametersWarning(SecurityWarning):
    """Parameters below 128 bits of security are in use: for tests and teaching, never for data."""
