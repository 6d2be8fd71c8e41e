"""What a user waits for, stage by stage: encryption, upload, expansion of seeds, evaluation, download, decryption.

Everything follows from counts: those of the symbolic run for the server, those of what travels (`Traffic`) for the
client, the network and the expansion of seeds; and from the rates of this machine, which stands for both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cipherblas.crypto.params import key_words
from cipherblas.crypto.randomness import SEED_BYTES
from cipherblas.evaluators.rows.interface import Rows
from cipherblas.evaluators.slots.values import Ct
from cipherblas.planner.cost import Rates
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import Ring
from cipherblas.runtime.row_execution import RowFeed
from cipherblas.runtime.slot_arithmetic import FeedSpec

Minimise = Literal["end-to-end", "server"]  # of a first run with all around it, or of the evaluation alone
DEFAULT_LINK = 1e9  # bits per second

WORD_BYTES = 8
# Around each ciphertext that is encrypted, or decrypted, Python does what takes as long as so many calls.
ENCRYPT_CALLS, DECRYPT_CALLS = 30, 25
# And around a run, the encryption of all operands, and decryption: arrays checked, available memory asked for, digests.
FIXED_CALLS = 250


@dataclass(frozen=True)
class Traffic:
    """What one run sends, and what that costs beside the network.

    Attributes:
        upload_bytes, result_bytes: of ciphertexts, seeds included.
        messages: vectors of slots that the client packs and encodes; none by rows.
        noise_words: coefficients of errors that it draws.
        encrypted_words: residues that it makes.
        transforms: of limbs that it does for that.
        seeded_words: residues that both sides expand from seeds.
        threaded: the client encrypts in threads, and expanded seeds are written where they stay.
        answers: vectors of slots that the client decodes.
        answer_transforms: of limbs that it does for decryption.
        answer_words: residues that it reads.
    """

    upload_bytes: int
    result_bytes: int
    messages: int
    noise_words: int
    encrypted_words: int
    transforms: int
    seeded_words: int
    threaded: bool
    answers: int
    answer_transforms: int
    answer_words: int


@dataclass(frozen=True)
class Stages:
    """Predicted seconds of one run, the first one on a server.

    Attributes:
        encrypt: on the client, packing and encoding included.
        upload, download: bytes over the link; latency is not counted.
        load_keys: evaluation keys read from files, and their seeds expanded, on the server.
        expand: seeds of ciphertexts on the server.
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
        """What the server's first run takes, keys included, which later runs find in memory."""
        return self.load_keys + self.expand + self.encode + self.evaluate

    @property
    def end_to_end(self) -> float:
        """From the matrices to the result, with a first run on the server; keys were made and sent before."""
        return self.encrypt + self.upload + self.first_run + self.download + self.decrypt

    def minimised(self, minimise: Minimise | None) -> float:
        """The seconds that a plan makes least; end to end where nobody knows."""
        return self.evaluate if minimise == "server" else self.end_to_end

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def slot_traffic(feeds: Iterable[FeedSpec], result: Sequence[Ct], n: int) -> Traffic:
    """The traffic of a program in slots.

    Args:
        feeds: what the client sends.
        result: the ciphertexts of the result.
        n: ring degree.
    """
    uploads = [(feed.ciphertexts, feed.seeds, feed.limbs) for feed in feeds]
    return traffic_of_ciphertexts(uploads, [(ct.components, ct.limbs) for ct in result], n)


def traffic_of_ciphertexts(
    uploads: Sequence[tuple[int, int, int]], results: Sequence[tuple[int, int]], n: int
) -> Traffic:
    """The traffic of (ciphertexts, those with a seed, limbs) up and of (components, limbs) down."""
    messages = sum(count for count, _, _ in uploads)
    seeded = sum(seeds * limbs for _, seeds, limbs in uploads)
    limbs_up = sum((2 * count - seeds) * limbs for count, seeds, limbs in uploads)
    polynomials = sum(2 * count - seeds for count, seeds, _ in uploads)  # of errors
    read = sum(components * limbs for components, limbs in results)
    return Traffic(
        upload_bytes=limbs_up * n * WORD_BYTES + sum(seeds for _, seeds, _ in uploads) * SEED_BYTES,
        result_bytes=sum(components * limbs for components, limbs in results) * n * WORD_BYTES,
        messages=messages,
        noise_words=polynomials * n,
        encrypted_words=limbs_up * n,
        transforms=limbs_up,
        seeded_words=seeded * n,
        threaded=False,
        answers=len(results),
        answer_transforms=sum(limbs for _, limbs in results),
        answer_words=read * n,
    )


def row_traffic(feeds: Iterable[RowFeed], result: Sequence[Rows], result_bytes: int, ring: Ring) -> Traffic:
    """The traffic of a program by GEMMs: an a part for each row, or for all rows of a shared batch."""
    n, uploads = ring.n, list(feeds)
    seeded = noise = words = transforms = nbytes = 0
    for feed in uploads:
        rows, cols = feed.shape
        uniform = feed.limbs * len(feed.pieces) * (1 if feed.shared else rows)  # rows of a parts
        segments = rows * sum(-(-(stop - start) // n) for start, stop in feed.pieces)
        noise += rows * (cols + n * len(feed.pieces) * feed.public_key)
        words += feed.limbs * rows * cols + feed.public_key * uniform * n
        # The a part forward (or the ephemeral secret), its product with every secret back.
        transforms += uniform + feed.limbs * segments * (1 + feed.public_key)
        seeded += 0 if feed.public_key else uniform * n
        nbytes += feed.residue_bytes(n) + feed.seeds * SEED_BYTES
    answers = sum(piece.limbs * piece.shape[0] for piece in result)
    return Traffic(
        upload_bytes=nbytes,
        result_bytes=result_bytes,
        messages=0,
        noise_words=noise,
        encrypted_words=words,
        transforms=transforms,
        seeded_words=seeded,
        threaded=True,
        answers=0,
        answer_transforms=2 * answers,
        answer_words=answers * n,
    )


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
    fixed = FIXED_CALLS * rates.call
    points = n * (n.bit_length() - 1)
    vector = points * rates.encode + n * rates.pack  # packed and encoded, or decoded and unpacked
    expansion = traffic.seeded_words * rates.uniform
    seeded_bytes = traffic.seeded_words * WORD_BYTES
    written = seeded_bytes if traffic.threaded else 2 * seeded_bytes  # in slots beside the half that was sent
    words = traffic.encrypted_words * (rates.mac + WORD_BYTES * rates.stream)
    arithmetic = traffic.noise_words * rates.gaussian + words + traffic.transforms * points * rates.ntt
    encrypt = fixed + expansion + arithmetic / (threads if traffic.threaded else 1)
    encrypt += traffic.messages * (vector + ENCRYPT_CALLS * rates.call)
    encrypt += (traffic.encrypted_words + traffic.messages * n) * WORD_BYTES * rates.fresh
    stored = counts.stored_bytes // (WORD_BYTES * n)  # limbs of weights
    encode = (counts.mask_encodings + counts.weight_encodings) * vector
    encode += stored * (points * rates.ntt + n * WORD_BYTES * (rates.stream + rates.fresh))
    decrypt = (
        traffic.answers * (vector + DECRYPT_CALLS * rates.call)
        + traffic.answer_transforms * points * rates.ntt
    )
    decrypt += traffic.answer_words * (rates.mac + WORD_BYTES * rates.stream)
    # Half of a key is in the file, residues of eight bytes; the other half comes of a seed; both are packed in memory.
    residues = key_bytes / (2 * WORD_BYTES) * (n / key_words(n, (*ring.q, *ring.p)))
    load_keys = residues * (rates.uniform + 2 * rates.pack_key + WORD_BYTES * rates.digest)
    load_keys += (2 * WORD_BYTES * residues + key_bytes) * rates.fresh
    return Stages(
        encrypt=encrypt,
        upload=8 * traffic.upload_bytes / link,
        load_keys=load_keys / threads,
        expand=expansion + written * rates.fresh,
        encode=encode / threads,
        evaluate=fixed + rates.seconds(counts, n, threads),
        download=8 * traffic.result_bytes / link,
        decrypt=fixed + decrypt,
        link=link,
    )
