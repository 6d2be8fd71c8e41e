"""Whether all ranks hold the same plan, keys and operands: by their digests, before anything is computed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from cipherblas.common.errors import MismatchError
from cipherblas.distributed.communicator import Communicator, Words


def check_agreement(communicator: Communicator, digests: Mapping[str, str]) -> None:
    """Compare with all other ranks.

    Args:
        digests: what is compared, by what it is called in the error → anything that differs where it differs.

    Raises:
        MismatchError: a rank holds another one than rank 0; it is raised on every rank.
    """
    mine = np.stack([_words(text) for text in digests.values()])
    found = [np.asarray(words) for (words,) in communicator.all_gather("digest", [mine])]
    for rank, words in enumerate(found):
        for number, what in enumerate(digests):
            if words.shape != mine.shape or (words[number] != found[0][number]).any():
                raise MismatchError(
                    f"Rank {rank} holds another {what} than rank 0.",
                    expected=f"one {what} for all ranks",
                    got=f"{_text(words[number])} beside {_text(found[0][number])}",
                )


def _words(text: str) -> Words:
    return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=16).digest(), np.uint64)


def _text(words: Words) -> str:
    return words.tobytes().hex()[:12]
