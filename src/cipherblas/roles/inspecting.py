"""The facts of a file of any kind, of its header alone: no array is read, and so no entry and no secret."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cipherblas.common import schema
from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import FormatError, printable
from cipherblas.crypto import files
from cipherblas.crypto.keys.storage import MANIFEST
from cipherblas.planner.plan.explain import size

_SECRET = "secret-key"
_SHAPE = schema.listed(schema.integer(0), 0, 8)
_OPERANDS = schema.mapping(schema.record({"shape": _SHAPE}, others=True))
_PARTS = schema.listed(schema.text)
_OWNED = {"program_id": schema.text, "key_id": schema.text}
# By kind, the fields that are read here; what reads a whole file checks more.
_HEADERS: dict[str, schema.Check] = {
    "program": schema.record({"id": schema.text, "operands": _OPERANDS}, others=True),
    "client-program": schema.record({"id": schema.text, "operands": _OPERANDS}, others=True),
    _SECRET: schema.record(_OWNED, others=True),
    "public-key": schema.record(_OWNED, others=True),
    "evaluation-keys": schema.record(
        _OWNED, {"keys": schema.listed(schema.anything), "parts": _PARTS}, others=True
    ),
    "ciphertext": schema.record(
        {
            "role": schema.one_of("operand", "result"),
            "program": schema.text,
            "key_id": schema.text,
            "shape": schema.either(schema.listed(_SHAPE), _SHAPE),
        },
        {"name": schema.text, "labels": schema.listed(schema.text)},
        others=True,
    ),
    "encrypted-matrix": schema.record({"key_id": schema.text, "shape": _SHAPE}, others=True),
    "key-record": schema.record({"key_id": schema.text}, others=True),
}


@dataclass(frozen=True)
class FileFacts:
    """The facts of a file, of its header; made by `inspect`.

    Attributes:
        kind: "program", "client-program", "secret-key", "public-key", "evaluation-keys", "encrypted-operand",
            "encrypted-result", "encrypted-matrix" or "key-record".
        secret: whether it holds a secret key, which is for its owner alone.
        format: version of the format.
        program_id, key_id: the program and the key pair that it belongs to; "" where it belongs to none.
        shapes: by name, of the operands of a program, of an encrypted operand, or of results; the only result, and a
            matrix, has the name "".
        keys: number of evaluation keys in it, or None where a folder has them in parts.
        security: bits of its parameters; 0: not secure at all.
        ring_degree: N. fingerprint: of its parameters.
        nbytes: of the whole file; of a folder of evaluation keys, that of its parts too.
    """

    kind: str
    secret: bool
    format: int
    program_id: str
    key_id: str
    shapes: Mapping[str, tuple[int, ...]]
    keys: int | None
    security: int
    ring_degree: int
    fingerprint: str
    nbytes: int

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON has them."""
        return {**asdict(self), "shapes": {name: list(shape) for name, shape in self.shapes.items()}}

    def __str__(self) -> str:
        shapes = (f"{name} {shape_text(shape) or 'a number'}".strip() for name, shape in self.shapes.items())
        secret = " (a secret: send it to nobody)" if self.secret else ""
        lines = {
            "kind": f"{self.kind}{secret}",
            "format": self.format,
            "program": self.program_id,
            "key pair": self.key_id,
            "shapes": ", ".join(shapes),
            "keys": "" if self.keys is None else self.keys,
            "security": f"{self.security} bits" if self.security else "none",
            "ring": f"N = {self.ring_degree}, parameters {self.fingerprint[:12]}",
            "size": size(self.nbytes),
        }
        return "\n".join(f"{name:<9} {printable(str(value))}" for name, value in lines.items() if value != "")


def inspect(path: files.Source) -> FileFacts:
    """Tell what a file of cipherblas is, by its header: whose it is, of what shape and security, how large.

    Only the header is read and checked, within milliseconds for files of any size; damage of what follows is found by
    what loads the file. The header says what the sender of the file wrote.

    Args:
        path: the file, its bytes, or a stream of them; or a folder of evaluation keys.

    Raises:
        FormatError: not a file of cipherblas, damaged, or truncated.
        VersionError: of another version of the format.
        StorageError: missing, a folder of something else, no permission.
        DTypeError: neither a path nor bytes.

    Examples:
        >>> import cipherblas as cb
        >>> program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)})
        >>> facts = cb.inspect(program.to_bytes())
        >>> facts.kind, facts.shapes["a"], facts.security
        ('program', (8, 8), 128)
        >>> cb.inspect(program.client().to_bytes()).secret
        True
    """
    folder = None
    if not files.is_read(path) and Path(files.name_of(path)).is_dir():
        folder = Path(files.name_of(path))
        path = folder / MANIFEST
    with files.Reader(path, files.ANY, security=None) as reader:
        _HEADERS[reader.kind](reader.header, f"{reader.path}: its header")
        return _facts(reader, folder)


def _facts(reader: files.Reader, folder: Path | None) -> FileFacts:
    header, parameters = reader.header, reader.parameters
    kind = f"encrypted-{header['role']}" if reader.kind == "ciphertext" else reader.kind
    keys = len(header["keys"]) if "keys" in header and reader.kind == "evaluation-keys" else None
    return FileFacts(
        kind,
        reader.kind == _SECRET,
        header["format_version"],
        next((header[name] for name in ("program_id", "program", "id") if name in header), ""),
        header.get("key_id", ""),
        _shapes(reader),
        keys,
        parameters.security,
        parameters.n,
        header["fingerprint"],
        reader.nbytes + (0 if folder is None else _bytes_of_parts(folder, header.get("parts", ()))),
    )


def _shapes(reader: files.Reader) -> dict[str, tuple[int, ...]]:
    header = reader.header
    if reader.kind in ("program", "client-program"):
        return {name: tuple(operand["shape"]) for name, operand in header["operands"].items()}
    if "shape" not in header:
        return {}
    shape = header["shape"]
    if not any(isinstance(one, list) for one in shape):
        return {header.get("name", ""): tuple(shape)}
    labels = header.get("labels", list(map(str, range(len(shape)))))
    if len(labels) != len(shape):
        raise FormatError(
            f"{reader.path} names another number of results than it has.",
            expected=len(shape),
            got=len(labels),
        )
    return {label: tuple(one) for label, one in zip(labels, shape, strict=True)}


def _bytes_of_parts(folder: Path, names: list[str]) -> int:
    total = 0
    for name in names:
        if os.path.basename(name) != name:
            raise FormatError(f"{folder / MANIFEST} names a part in another folder.", got=name)
        try:
            total += os.stat(folder / name).st_size
        except OSError as error:
            raise files.storage_error("read", folder / name, error) from error
    return total
