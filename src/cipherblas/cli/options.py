"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from cipherblas import set_threads
from cipherblas.common.errors import CipherblasError
from cipherblas.lang.normalisation import Normalisation
from cipherblas.lang.operands import Encryption, Operand
from cipherblas.lang.operands import public as make_public
from cipherblas.lang.operands import secret as make_secret

Number = TypeVar("Number", int, float)

MAX_DIGITS, MAX_EXPONENT = 40, 128  # of a modulus, of which programs refuse most
NAMES = ("a", "b", "c", "d")  # operands with options of their own; any other comes by --operand


def parse_output(text: str) -> Path:
    """The name of a file or folder to write; not `-`, which other programs take for the standard output."""
    if text == "-":
        raise typer.BadParameter(
            "'-' names no file: /dev/stdout is the standard output, ./- a file of this name"
        )
    return Path(text)


def output_option(*names: str, metavar: str = "FILE", **options: Any) -> Any:
    """Return an option for the path of the output."""
    return typer.Option(*names, metavar=metavar, parser=parse_output, **options)


Ranks = Annotated[
    int | None,
    typer.Option(min=1, metavar="P", help="Also predict the run on P MPI ranks.", show_default=False),
]
NetworkFile = Annotated[
    Path | None,
    typer.Option(
        "--network",
        metavar="FILE",
        help="Latency and seconds per byte between ranks, of `bench distributed --network-output`.",
        show_default="zero network cost",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress bars on stderr.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1, help="Threads to use; the default is as many as the process may keep busy.", show_default=False
    ),
]
PlanFile = Annotated[
    Path, typer.Argument(metavar="PLAN", help="Program file that `plan` wrote.", show_default=False)
]
Security = Annotated[int, typer.Option(help="Bits of security that every file must have: 128, 192 or 256.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Accept less security, for tests and teaching; prints a warning.")
]
KeyFolder = Annotated[
    Path,
    typer.Argument(
        metavar="KEYS", help="Folder that `keygen` wrote, with the secret key.", show_default=False
    ),
]


class FormName(str, Enum):
    """Forms of values: blocks of matrices in slots; encrypted by rows and multiplied by GEMMs; tensors in slots."""

    blocks = "blocks"
    rows = "rows"
    tensors = "tensors"
    mixed = "mixed"
    features = "features"


Form = Annotated[
    FormName | None,
    typer.Option(
        help="Force how values are encrypted. blocks packs blocks of matrices into slots. tensors packs vectors and "
        "images into slots. rows encrypts each row by itself, so that products are GEMMs. mixed multiplies by rows and "
        "computes elementwise in blocks. features encrypts each row by itself in slots, which are samples: "
        "products with clear matrices need no rotations.",
        show_default="the faster one",
    ),
]


class MinimiseName(str, Enum):
    """The time that a plan minimises: end to end, or of the server's evaluation alone."""

    end_to_end = "end-to-end"
    server = "server"


Minimise = Annotated[
    MinimiseName | None,
    typer.Option(
        help="What the plan makes least: what a user waits for (encryption, upload, a first run, download, "
        "decryption), or the evaluation on the server alone.",
        show_default="end-to-end",
    ),
]

_BIT_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def parse_link(text: str) -> float:
    """Bits per second: `1Gbit/s`, `100Mbit/s`, `20M`, `1e9`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmgt]?)(?:bit/s|bps)?\s*", text.lower(), re.ASCII)
    if match is None or len(match[1]) > 20:
        raise typer.BadParameter(f"expected bits per second such as 1Gbit/s or 100Mbit/s, got {text!r}")
    return float(match[1]) * _BIT_UNITS[match[2]]


Link = Annotated[
    float | None,
    typer.Option(
        metavar="RATE",
        parser=parse_link,
        help="Bits per second between client and server, such as 100Mbit/s.",
        show_default="1Gbit/s",
    ),
]


def parse_normalisation(text: str) -> Normalisation:
    """Mean and deviation of inputs: `127.5:63.75`, or `120,115,105:60,58,60` of channels."""
    try:
        mean, deviation = ([float(one) for one in part.split(",")] for part in text.split(":"))
        return Normalisation.given((mean, deviation))
    except (ValueError, CipherblasError) as error:
        raise typer.BadParameter(
            f"expected MEAN:DEVIATION such as 127.5:63.75, or 120,115,105:60,58,60 of channels, got {text!r}"
        ) from error


def parse_named(
    texts: Sequence[str] | None, number: Callable[[str], Number], option: str
) -> dict[str, Number]:
    """Numbers by name, of an option that is given several times: `Relu=254`."""
    found = {}
    for text in texts or ():
        name, _, value = text.rpartition("=")
        try:
            found[name.strip()] = number(value)
        except ValueError as error:
            raise typer.BadParameter(
                f"expected a name and a number, such as Relu=62, got {text!r}", param_hint=option
            ) from error
    return found


_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS[f"{_letter}ib"] = _UNITS[_letter] = 1024**_power
    _UNITS[f"{_letter}b"] = 1000**_power


def parse_bytes(text: str) -> int:
    """An amount of memory: `8GiB`, `512M` (binary), `2GB` (decimal), `1000000`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower(), re.ASCII)
    if match is None or match[2] not in _UNITS or len(match[1]) > 20:
        raise typer.BadParameter(f"expected an amount such as 8GiB or 512MiB, got {text!r}")
    return int(float(match[1]) * _UNITS[match[2]])


def bytes_option(name: str, text: str, default: str | bool = False, panel: str | None = None) -> Any:
    """An option that takes an amount of memory."""
    return typer.Option(
        name, metavar="BYTES", parser=parse_bytes, help=text, show_default=default, rich_help_panel=panel
    )


@dataclass(frozen=True)
class Shape:
    """Rows and columns, or the length of a vector, as given on the command line."""

    lengths: tuple[int, ...]


def parse_shape(text: str) -> Shape:
    """`160x64`: rows, then columns."""
    match = re.fullmatch(r"(\d{1,9})[x×](\d{1,9})", text.strip(), re.ASCII)
    if match is None:
        raise typer.BadParameter(f"expected ROWSxCOLUMNS such as 160x64, got {text!r}")
    return Shape((int(match[1]), int(match[2])))


def parse_operand_shape(text: str) -> Shape:
    """As `parse_shape`, or `784`: the length of a vector."""
    match = re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII)
    return parse_shape(text) if match is None else Shape((int(match[0]),))


def parse_name(text: str) -> str:
    """An operand's name: a Python identifier."""
    if not text.isascii() or not text.isidentifier() or keyword.iskeyword(text):
        raise typer.BadParameter(f"expected a name such as a or weights, got {text!r}")
    return text


def parse_modulus(text: str) -> int:
    """`65537`, or `2^16`."""
    base, power, exponent = text.partition("^")
    if not base.isdecimal() or (power and not exponent.isdecimal()) or len(text) > MAX_DIGITS:
        raise typer.BadParameter(f"expected a whole number such as 65537 or 2^16, got {text!r}")
    return int(base) ** int(exponent) if power and int(exponent) <= MAX_EXPONENT else int(base)


def parse_operand(text: str, modulus: int | None = None, all_exact: bool = False) -> tuple[str, Operand]:
    """`weights=10x64:public:dtype=int8`, `x=64x20:public-key`, `x=64x64:dtype=int8:exact` or `x=64`, a vector.

    Secret, by the secret key, floating point and bound 1 when not said otherwise.

    Args:
        modulus: of secret operands.
        all_exact: secret operands are exact without saying so.
    """
    name, equals, rest = text.partition("=")
    if not equals:
        raise typer.BadParameter(
            "expected NAME=ROWSxCOLUMNS[:public | :public-key][:dtype=T[:exact]][:bound=X][:fixed_point=N]"
            f"[:row_sum=X][:column_sum=X][:norm=X] or NAME=LENGTH…, got {text!r}"
        )
    shape, *marks = rest.split(":")
    lengths = parse_operand_shape(shape).lengths
    kinds = [mark for mark in marks if mark in ("secret", "public", "public-key")]
    numbers, found = ("bound", "row_sum", "column_sum", "norm"), dict[str, list[str]]()
    for word in (*numbers, "dtype", "fixed_point"):
        found[word] = [mark.removeprefix(f"{word}=") for mark in marks if mark.startswith(f"{word}=")]
    exact, types = [mark for mark in marks if mark == "exact"], found["dtype"]
    counts = [len(one) for one in (kinds, exact, *found.values())]
    if max(counts) > 1 or sum(counts) != len(marks):
        raise typer.BadParameter(
            "expected secret, public-key or public, bound=X, dtype=T, row_sum=X, column_sum=X, norm=X, "
            f"fixed_point=N and exact, each once, got {':'.join(marks)!r}"
        )
    known: dict[str, Any] = {}
    for word in numbers:
        try:
            known[word] = float(found[word][0]) if found[word] else None
        except ValueError:
            raise typer.BadParameter(f"expected a number after {word}=, got {found[word][0]!r}") from None
    if found["fixed_point"]:
        if not found["fixed_point"][0].isdecimal() or len(found["fixed_point"][0]) > MAX_DIGITS:
            raise typer.BadParameter(f"expected bits after fixed_point=, got {found['fixed_point'][0]!r}")
        known["fixed_point"] = int(found["fixed_point"][0])
    kind = types[0] if types else None
    if kinds == ["public"]:
        if exact:
            raise typer.BadParameter("exact is for secret operands; clear ones need dtype= alone")
        return parse_name(name), make_public(*lengths, dtype=_clear_type(kind, modulus), **known)
    encryption: Encryption = "public-key" if kinds == ["public-key"] else "secret-key"
    made = make_secret(
        *lengths, encryption=encryption, dtype=kind, exact=bool(exact) or all_exact, modulus=modulus, **known
    )
    return parse_name(name), made


def _clear_type(dtype: str | None, modulus: int | None) -> str | None:
    """Of clear operands, which are whole numbers beside integers modulo t."""
    return "int32" if dtype is None and modulus is not None else dtype


def declared_operands(
    shapes: Mapping[str, Shape | None],
    public: Mapping[str, bool],
    public_key: Mapping[str, bool],
    bounds: Mapping[str, float | None],
    more: list[str],
    *,
    dtype: str | None = None,
    exact: bool = False,
    modulus: int | None = None,
) -> dict[str, Operand]:
    """All operands of a `plan`, those of --a to --d first.

    Args:
        dtype: of the entries of --a to --d; by default real numbers, or int8 where they are exact.
        exact: all secret operands are.
        modulus: of all secret operands, if they are integers modulo t.
    """
    if exact and modulus is not None:
        raise typer.BadParameter("integers modulo t are exact: --modulus alone", param_hint="--exact")
    kind = "int8" if exact and dtype is None else dtype
    operands: dict[str, Operand] = {}
    for name, shape in shapes.items():
        if shape is not None:
            if public[name] and public_key[name]:
                raise typer.BadParameter(
                    f"a clear operand is not encrypted: --{name}-public or --{name}-public-key",
                    param_hint=f"--{name}-public-key",
                )
            options: dict[str, Any] = {"bound": bounds[name]}
            encryption: Encryption = "public-key" if public_key[name] else "secret-key"
            operands[name] = (
                make_public(*shape.lengths, **options, dtype=_clear_type(kind, modulus))
                if public[name]
                else make_secret(
                    *shape.lengths,
                    **options,
                    dtype=kind,
                    encryption=encryption,
                    exact=exact,
                    modulus=modulus,
                )
            )
        elif public[name] or public_key[name] or bounds[name] is not None:
            raise typer.BadParameter(f"--{name} ROWSxCOLUMNS is missing", param_hint=f"--{name}")
    for text in more:
        name, operand = parse_operand(text, modulus, exact)
        if name in operands:
            raise typer.BadParameter(f"operand {name!r} is declared twice", param_hint="--operand")
        operands[name] = operand
    return operands


def named_files(paths: Mapping[str, Path | None], more: list[str]) -> dict[str, Path]:
    """All operand files of a `run`, those of --a to --d first."""
    found = {name: path for name, path in paths.items() if path is not None}
    for text in more:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise typer.BadParameter(f"expected NAME=FILE, got {text!r}", param_hint="--operand")
        if name in found:
            raise typer.BadParameter(f"operand {name!r} is given twice", param_hint="--operand")
        found[name] = Path(path)
    return found


def without_none(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def use_threads(threads: int | None) -> None:
    """Set the number of threads of the arithmetic where one was asked for."""
    if threads is not None:
        set_threads(threads)
