"""The numbers by which switching keys are named: Galois elements, and above them the keys between secrets."""

from __future__ import annotations

RELINEARISE = 0  # stands for the relinearisation key where others are named by their Galois element
# Numbers of the keys of sparse-secret encapsulation, and of those between the rings of rows and of slots, above every
# Galois element.
TO_SPARSE, FROM_SPARSE = 1 << 31, (1 << 31) + 1
TO_ROWS, FROM_ROWS = (1 << 31) + 2, (1 << 31) + 3
_SECRETS = {
    TO_SPARSE: "to the sparse secret",
    FROM_SPARSE: "from the sparse secret",
    TO_ROWS: "to the ring of rows",
    FROM_ROWS: "from the ring of rows",
}
# Numbers of keys for the secrets of fixed weights, above these: the factor, then its row.
WEIGHTS = 1 << 32
_ROWS = 1 << 24
# Numbers of the keys of the ring of rows, above these: their own numbers follow.
ROW_KEYS = 1 << 34
# Of ciphertexts that share their a part, so many times how many share it: their own numbers follow, Galois elements and
# the sparse secrets among them, and those to and from the secrets of all places, the place last.
SHARED_KEYS = 1 << 35
TO_SHARED, FROM_SHARED = 1 << 20, (1 << 20) + (1 << 10)
_PLACES = 1 << 10


def weight_key(factor: int, row: int) -> int:
    """The number of the key from row `row` of (integer factor) · (secrets of a shared-a batch) to the secret."""
    return WEIGHTS + factor * _ROWS + row


def weight_row(number: int) -> tuple[int, int]:
    """(factor, row) of a number of `weight_key`."""
    return divmod(number - WEIGHTS, _ROWS)


def is_secrets(number: int) -> bool:
    """Whether a key is one between different secrets of a ring."""
    return number in _SECRETS


def is_of_weights(number: int) -> bool:
    """Whether a key is one of fixed weights."""
    return WEIGHTS <= number < ROW_KEYS


def is_of_rows(number: int) -> bool:
    """Whether a key is one of the ring of rows, whose own number is what it has above `ROW_KEYS`."""
    return ROW_KEYS <= number < SHARED_KEYS


def shared_by(number: int) -> int:
    """How many ciphertexts share their a part that a key is for; 0 for keys of ordinary ones."""
    return number // SHARED_KEYS


def shared_number(number: int) -> int:
    """The own number of a key for ciphertexts that share their a part."""
    return number % SHARED_KEYS


def place_of(number: int, first: int) -> int | None:
    """The place of an own number from `TO_SHARED` or `FROM_SHARED` on; None of others."""
    return number - first if first <= number < first + _PLACES else None


def describe_galois(galois: int, n: int) -> str:
    """A Galois element in words: the rotation step, conjugation, or both."""
    if shared_by(galois):
        own = shared_number(galois)
        for first, words in ((TO_SHARED, "to"), (FROM_SHARED, "from")):
            place = place_of(own, first)
            if place is not None:
                return f"the switch {words} place {place} of a shared a part"
        return f"{describe_galois(own, n)} with a shared a part"
    if is_of_rows(galois):
        own = galois - ROW_KEYS
        return f"{describe_galois(own, n) if own else 'relinearisation'} in the ring of rows"
    if is_of_weights(galois):
        factor, row = weight_row(galois)
        return f"row {row} of fixed factor {factor}"
    if galois in _SECRETS:
        return f"the switch {_SECRETS[galois]}"
    order = 2 * n
    element = 1
    for step in range(n // 2):
        if element == galois:
            step = step if step <= n // 4 else step - n // 2
            return f"rotation by {step} (Galois element {galois})"
        if order - element == galois:
            after = f" after rotation by {step}" if step else ""
            return f"conjugation{after} (Galois element {galois})"
        element = element * 5 % order
    return f"Galois element {galois}"
