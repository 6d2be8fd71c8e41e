"""The files of cipherblas: safetensors with a checked header, typed errors, and atomic writes.

Every file carries in its safetensors metadata the format version, its kind, the parameters with their
fingerprint and security, the caller's header as JSON, one BLAKE2b digest per tensor, and a BLAKE2b checksum
of the header itself (its length included, the checksum's own digits taken as zeros). So any change of any
byte is noticed, and one tensor can be read and checked without the others. The checksums find damage, not
forgery: a file from someone else is as trustworthy as its sender, and its content is checked where it is
used.

Tensors are read with pread, not mapped: a mapped file that shrinks kills the process (SIGBUS), while a short
read is an error like any other; and the bytes land in aligned memory, which is what the arithmetic wants.
"""

from cipherblas.crypto.files.foreign import advised, standing_at, wanted
from cipherblas.crypto.files.format import ANY, FORMAT_VERSION, KINDS, PathLike, Source, Target, storage_error
from cipherblas.crypto.files.in_memory import InMemory, check_bytes
from cipherblas.crypto.files.reading import Reader, TensorInfo, opened, parse_json, read
from cipherblas.crypto.files.streams import check_path, is_read, is_written, name_of
from cipherblas.crypto.files.targets import check_writable, replacing, save_bytes
from cipherblas.crypto.files.writing import STEPS_PER_BYTE, part_digests, write

__all__ = [
    "ANY",
    "FORMAT_VERSION",
    "KINDS",
    "STEPS_PER_BYTE",
    "InMemory",
    "PathLike",
    "Reader",
    "Source",
    "Target",
    "TensorInfo",
    "advised",
    "check_bytes",
    "check_path",
    "check_writable",
    "is_read",
    "is_written",
    "name_of",
    "opened",
    "parse_json",
    "part_digests",
    "read",
    "replacing",
    "save_bytes",
    "standing_at",
    "storage_error",
    "wanted",
    "write",
]
