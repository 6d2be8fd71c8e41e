"""What a user waits for, stage by stage: encryption, upload, expansion of seeds, evaluation, download, decryption.

Everything follows from counts: those of the symbolic run for the server, those of what travels (`Traffic`) for the
client, the network and the expansion of seeds; and from the rates of one machine, which stands for both sides.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.digits import digit_ranges
from cipherblas.crypto.params import key_words
from cipherblas.planner.predict.cost import Rates
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import Ring
from cipherblas.rlwe.traffic import Traffic

Minimise = Literal["end-to-end", "server"]  # of a first run with all around it, or of the evaluation alone
DEFAULT_LINK = 1e9  # bits per second

# Around each ciphertext that is encrypted, or decrypted, Python does what takes as long as to keep books of so many
# operations.
ENCRYPT_BOOKS, DECRYPT_BOOKS = 28, 12
# Around each key that is loaded, and around all of them and what else is done once: files opened and checked, graphs
# made, tables of the ring.
KEY_BOOKS, FIRST_BOOKS = 15, 500
# And around a run, the encryption of all operands, and decryption: arrays checked, available memory asked for, digests.
# In a run, the executor does what takes as long as `RUN_BOOKS`.
FIXED_BOOKS, RUN_BOOKS = 60, 10


@dataclass(frozen=True)
class Stages:
    """Predicted seconds of one run, the first one on a server.

    Attributes:
        encrypt: on the client, packing and encoding included.
        upload, download: bytes over the link; latency is not counted.
        load_keys: evaluation keys read from files, and their seeds expanded, on the server, and what else is done once
            before a first run, keys or not.
        expand: seeds of ciphertexts on the server, and what else comes before the evaluation.
        encode: masks, constants and weights, which later runs find encoded.
        evaluate: the evaluation alone.
        decrypt: on the client, decoding included.
        link: bits per second.
    """

    encrypt: float
    upload: float
    load_keys: float
    expand: float
    encode: float
    evaluate: float
    download: float
    decrypt: float
    link: float

    @property
    def first_run(self) -> float:
        """Seconds of the server's first run, including keys, which later runs find in memory."""
        return self.load_keys + self.expand + self.encode + self.evaluate

    @property
    def end_to_end(self) -> float:
        """From the matrices to the result, with a first run on the server; keys were made and sent before."""
        return self.encrypt + self.upload + self.first_run + self.download + self.decrypt

    def minimised(self, minimise: Minimise) -> float:
        """The seconds that a plan makes least."""
        return self.evaluate if minimise == "server" else self.end_to_end

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def predicted(
    rates: Rates, counts: Counts, traffic: Traffic, key_bytes: int, ring: Ring, threads: int, link: float
) -> Stages:
    """The stages of a run.

    Args:
        counts: of the server's run.
        key_bytes: of the evaluation keys in memory.
        link: bits per second.
    """
    n = ring.n
    fixed = FIXED_BOOKS * rates.book
    points = n * (n.bit_length() - 1)
    vector = points * rates.encode + n * rates.pack  # packed and encoded, or decoded and unpacked
    # Of seeds: each side begins streams of its own.
    expansion = traffic.seeded_words * rates.uniform
    begun = traffic.seeded_streams * rates.stream_start
    written = (traffic.seeded_words + traffic.copied_words) * WORD_BYTES
    words = traffic.encrypted_words * (rates.mac + WORD_BYTES * rates.stream)
    drawn = traffic.noise_words * rates.gaussian + traffic.secret_words * rates.ternary
    arithmetic = drawn + words + traffic.transforms * points * rates.ntt
    shared = rates.threads.computing(threads) if traffic.threaded else 1
    encrypt = fixed + traffic.client_streams * rates.stream_start + expansion + arithmetic / shared
    encrypt += traffic.messages * (vector + ENCRYPT_BOOKS * rates.book)
    encrypt += (traffic.encrypted_words + traffic.messages * n) * WORD_BYTES * rates.fresh
    computing = rates.threads.computing(threads)
    encode = (counts.mask_encodings + counts.weight_encodings) * rates.encoding(n, threads)
    encode += counts.weight_limbs * points * rates.ntt / computing
    encode += counts.stored_bytes * (rates.stream + rates.fresh)
    decrypt = (
        traffic.answers * (vector + DECRYPT_BOOKS * rates.book)
        + traffic.answer_transforms * points * rates.ntt
    )
    decrypt += traffic.answer_words * (rates.mac + WORD_BYTES * rates.stream)
    # Half of a key is in the file, residues of eight bytes; the other half comes of a seed; both are packed in memory.
    moduli = (*ring.q, *ring.p)
    residues = key_bytes / (2 * WORD_BYTES) * (n * len(moduli) / key_words(n, moduli))
    load_keys = residues * (rates.uniform + 2 * rates.pack_key + WORD_BYTES * rates.digest)
    load_keys += (2 * WORD_BYTES * residues + key_bytes) * rates.fresh
    keys = key_bytes / key_bytes_at(ring, len(ring.q))
    load_keys += residues / n * rates.stream_start + keys * KEY_BOOKS * rates.book
    return Stages(
        encrypt=encrypt,
        upload=8 * traffic.upload_bytes / link,
        load_keys=FIRST_BOOKS * rates.book + load_keys / computing,
        expand=fixed + begun + expansion + written * rates.fresh,
        encode=encode,
        evaluate=RUN_BOOKS * rates.book + rates.seconds(counts, n, threads),
        download=8 * traffic.result_bytes / link,
        decrypt=fixed + decrypt,
        link=link,
    )


def key_bytes_at(ring: Ring, limbs: int) -> int:
    """Bytes in memory of a key for so many limbs."""
    digits = len(digit_ranges(limbs, ring.alpha, ring.digit_limbs))
    return digits * 2 * key_words(ring.n, (*ring.q[:limbs], *ring.p)) * WORD_BYTES
