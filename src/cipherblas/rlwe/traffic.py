"""What a program sends, and what that costs beside the network."""

from __future__ import annotations

import operator
from dataclasses import dataclass


@dataclass(frozen=True)
class Traffic:
    """The data that one run, or a part of it, sends.

    Attributes:
        upload_bytes, result_bytes: of ciphertexts, seeds included.
        messages: vectors of slots that the client packs and encodes; none by rows.
        noise_words: coefficients of errors that it draws.
        secret_words: ternary coefficients that it draws, or derives from its key.
        client_streams: streams of random words that it opens.
        seeded_streams: those of seeds that the server expands.
        encrypted_words: residues that it makes.
        transforms: of limbs that it does for that.
        seeded_words: residues that both sides expand from seeds.
        copied_words: residues that the server writes beside those to make whole ciphertexts.
        threaded: the client encrypts in threads.
        answers: vectors of slots that the client decodes.
        answer_transforms: of limbs that it does for decryption.
        answer_words: residues that it reads.
    """

    upload_bytes: int = 0
    result_bytes: int = 0
    messages: int = 0
    noise_words: int = 0
    secret_words: int = 0
    client_streams: int = 0
    seeded_streams: int = 0
    encrypted_words: int = 0
    transforms: int = 0
    seeded_words: int = 0
    copied_words: int = 0
    threaded: bool = False
    answers: int = 0
    answer_transforms: int = 0
    answer_words: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        total = Traffic.__new__(Traffic)  # planning adds many, and an initialiser sets each field by itself
        mine = vars(self)
        vars(total).update(zip(mine, map(operator.add, mine.values(), vars(other).values()), strict=True))
        vars(total)["threaded"] = self.threaded or other.threaded
        return total
