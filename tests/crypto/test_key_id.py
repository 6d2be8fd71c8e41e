"""The names of keys: their numbers in files, their words, which exist; and one more kind, entered from outside."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from cipherblas.common.errors import FormatError, MissingKeyError, ParameterError
from cipherblas.crypto import files, keys
from cipherblas.crypto.keys import EvaluationKeys, KeyRequest, SecretKey, generation, key_id
from cipherblas.crypto.keys.key_id import (
    RELINEARISATION,
    FixedWeights,
    FromPlace,
    FromRows,
    FromSparse,
    Galois,
    KeyId,
    Raising,
    ToPlace,
    ToRows,
    ToSparse,
)
from cipherblas.crypto.params import Parameters, make_parameters
from tests.support.key_samples import automorphism, encapsulation, key_errors, negacyclic

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")

# What stands in files since there are such keys: number, name, words.
STORED: list[tuple[KeyId, int, str, str]] = [
    (RELINEARISATION, 0, "relinearisation", "relinearisation"),
    (Galois(5), 5, "galois-5", "rotation by 1 (Galois element 5)"),
    (Galois(131071), 131071, "galois-131071", "Galois element 131071"),
    (ToSparse(), 1 << 31, "to-sparse", "the switch to the sparse secret"),
    (FromSparse(), (1 << 31) + 1, "from-sparse", "the switch from the sparse secret"),
    (Raising(5), (1 << 30) + 5, "raising-5", "the switch from the sparse secret with Galois element 5"),
    (ToRows(), (1 << 31) + 2, "to-rows", "the switch to the ring of rows"),
    (FromRows(), (1 << 31) + 3, "from-rows", "the switch from the ring of rows"),
    (FixedWeights(0, 0), 1 << 32, "weights-0-0", "row 0 of fixed factor 0"),
    (FixedWeights(2, 7), (1 << 32) + (2 << 24) + 7, "weights-2-7", "row 7 of fixed factor 2"),
    (RELINEARISATION.in_rows(), 1 << 34, "rows-relinearisation", "relinearisation in the ring of rows"),
    (
        Galois(3).in_rows(),
        (1 << 34) + 3,
        "rows-galois-3",
        "conjugation after rotation by 3 (Galois element 3) in the ring of rows",
    ),
    (
        *(Galois(25, shared=3), (3 << 35) + 25, "shared-3-galois-25"),
        "rotation by 2 (Galois element 25) with a shared a part",
    ),
    (
        *(ToSparse(shared=5), (5 << 35) + (1 << 31), "shared-5-to-sparse"),
        "the switch to the sparse secret with a shared a part",
    ),
    (
        *(ToPlace(2, shared=3), (3 << 35) + (1 << 20) + 2, "shared-3-to-place-2"),
        "the switch to place 2 of a shared a part",
    ),
    (
        *(FromPlace(126, shared=127), (127 << 35) + (1 << 20) + (1 << 10) + 126, "shared-127-from-place-126"),
        "the switch from place 126 of a shared a part",
    ),
]


@pytest.mark.parametrize(("key", "number", "name", "words"), STORED, ids=[row[2] for row in STORED])
def test_names_of_files(key: KeyId, number: int, name: str, words: str) -> None:
    assert key.number == number and str(key) == name
    assert KeyId.of_number(number) == key and hash(KeyId.of_number(number)) == hash(key)
    assert key.describe(64) == words
    for again in (copy.copy(key), copy.deepcopy(key), pickle.loads(pickle.dumps(key))):
        assert again == key and hash(again) == hash(key) and again.number == number


def test_order_is_that_of_the_numbers() -> None:
    every = [row[0] for row in STORED]
    assert [key.number for key in sorted(every)] == sorted(row[1] for row in STORED)
    assert len(set(every)) == len(every)
    assert Galois(5) != Galois(5, shared=3) != Galois(5).in_rows() and Galois(5) != 5
    with pytest.raises(AttributeError):
        Galois(5).element = 3  # type: ignore[misc]


def test_every_number_is_of_one_key() -> None:
    """At the ends of the ranges, and in the gaps between them."""
    edges = {edge for kind in key_id.KINDS for edge in (kind.numbers.start, kind.numbers.stop)}
    for own in sorted({near for edge in edges for near in (edge - 1, edge, edge + 1) if near >= 0}):
        for above in (0, 1 << 34, 1 << 35, 127 << 35):
            if any(own in kind.numbers for kind in key_id.KINDS):
                assert KeyId.of_number(above + own).number == above + own
            else:
                with pytest.raises(ParameterError, match="No key has this number"):
                    KeyId.of_number(above + own)


def with_rows() -> Parameters:
    return make_parameters(
        1 << 10, [50.0, *[40.0] * 4], alpha=2, scale_bits=40.0, insecure=True, row_degree=1 << 8
    )


def test_a_request_has_the_order_in_which_keys_are_made() -> None:
    """That of key files: ordinary keys by kind, then those of the ring of rows, then those with a shared a part."""
    made = [
        *(RELINEARISATION, Galois(3), Galois(25), FixedWeights(0, 1), FixedWeights(1, 0)),
        *(ToSparse(), FromSparse(), Raising(1), Raising(5), ToRows(), FromRows()),
        *(RELINEARISATION.in_rows(), Galois(3).in_rows()),
        *(Galois(5, shared=3), ToSparse(shared=3), FromSparse(shared=3)),
        *(ToPlace(place, shared=3) for place in range(3)),
        *(FromPlace(place, shared=3) for place in range(3)),
    ]
    limbs = {key: key.fixed_limbs or 2 for key in made}
    request = KeyRequest(dict(reversed(limbs.items())))
    assert list(request.in_order()) == made and request == KeyRequest(limbs)
    request.check(with_rows())
    assert (request.relinearise, request.galois, request.encapsulation) == (2, {25: 2, 3: 2}, 2)
    assert request.switches_rings and request.shared == 3 and set(request.weights) == {made[3], made[4]}


REFUSED: list[tuple[dict[KeyId, int], str]] = [
    ({Galois(4): 1}, "no such Galois element"),
    ({Galois(2049): 1}, "no such Galois element"),
    ({Galois(511).in_rows(): 1, Galois(513).in_rows(): 1}, "no such Galois element"),
    ({FixedWeights(256, 0): 1}, "out of its range"),
    ({FixedWeights(0, 1 << 24): 1}, "out of its range"),
    ({Raising(1): 2}, "are missing"),
    ({Raising(4): 2, ToSparse(): 1}, "no such Galois element"),
    ({Raising(2049): 2, ToSparse(): 1}, "no such Galois element"),
    ({Raising(5, shared=3): 2}, "There is no such key"),
    ({FromSparse(): 2}, "are missing"),
    ({ToSparse(): 2, FromSparse(): 2}, "no keys for so many limbs|another number of limbs"),
    ({ToRows(): 3}, "are missing"),
    ({ToRows(): 2, FromRows(): 3}, "another number of limbs"),
    ({RELINEARISATION: 6}, "no keys for so many limbs"),
    ({RELINEARISATION.in_rows(): 4}, "no keys for so many limbs"),
    ({replace(RELINEARISATION, shared=3): 1}, "There is no such key .expected one for ordinary"),
    ({FixedWeights(0, 0, shared=3): 1}, "There is no such key"),
    ({ToPlace(0): 1}, "There is no such key .expected one for ciphertexts that share"),
    ({Galois(5, shared=3, ring="rows"): 1}, "There is no such key"),
    ({Galois(5, shared=4): 1}, "An odd number of ciphertexts"),
]


@pytest.mark.parametrize(("limbs", "complaint"), REFUSED, ids=[str(next(iter(row[0]))) for row in REFUSED])
def test_keys_that_there_are_not(limbs: dict[KeyId, int], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        KeyRequest(limbs).check(with_rows())


def test_a_ring_of_rows_has_keys_where_there_is_one(toy_parameters: Parameters) -> None:
    for key in (Galois(5).in_rows(), ToRows()):
        with pytest.raises(ParameterError, match="no ring of rows"):
            KeyRequest({key: 3}).check(toy_parameters)


@pytest.mark.parametrize("number", [(1 << 31) + 4, 1 << 33, (1 << 20) + 3, 4 << 35 | 5, (1 << 60) + 5])
def test_files_with_numbers_of_no_key(
    toy_secret: SecretKey, toy_parameters: Parameters, tmp_path: Path, number: int
) -> None:
    keys.make_evaluation_keys(toy_secret, KeyRequest.of_galois({5: 1})).save(tmp_path / "keys")
    header, tensors = files.read(tmp_path / "keys", "evaluation-keys", insecure=True)
    header = {name: header[name] for name in ("program_id", "key_id", "set", "part", "keys")}
    header["keys"] = [[number, 1]]
    files.write(tmp_path / "lie", "evaluation-keys", header, tensors, parameters=toy_parameters)
    with pytest.raises(FormatError, match="wrong list of keys"):
        EvaluationKeys.load(tmp_path / "lie", insecure=True)


# ------------------------------------------------------------------------------------------- one more kind


@dataclass(frozen=True, slots=True, eq=False)
class Product(KeyId):
    """From s · s(X^element): what relinearises a product with a rotated factor."""

    numbers = range(1 << 33, (1 << 33) + (1 << 20))
    name = "product"
    for_shared = (False, True)

    element: int

    def _own(self) -> tuple[int, ...]:
        return (self.element,)

    @classmethod
    def _at(cls, offset: int) -> Product:
        return cls(offset)

    def _words(self, n: int) -> str:
        return f"the product with Galois element {self.element}"


def product(key: Product, making: generation.Making) -> np.ndarray:
    own, context = making.own(), making.params.context()
    return np.asarray(context.multiply(own, context.automorphism(own, key.element)))


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(generation.SWITCHES, Product, generation.Switch(product))
    before = list(key_id.KINDS)
    key_id.register(Product)
    yield
    key_id.KINDS[:] = before


@pytest.mark.usefixtures("entered")
@pytest.mark.parametrize("part_bytes", [1, 1 << 30])
def test_one_more_kind_of_keys(toy_secret: SecretKey, tmp_path: Path, part_bytes: int) -> None:
    """It is requested, made, saved, loaded, carried and looked up, and no room between was told of it."""
    kind, shared = Product(25), Product(5, shared=3)
    request = KeyRequest({kind: 3, shared: 2, RELINEARISATION: 2}).joined(KeyRequest(encapsulation(4)))
    assert list(request.in_order()) == [RELINEARISATION, ToSparse(), FromSparse(), kind, shared]
    made = keys.make_evaluation_keys(toy_secret, request)
    assert (
        made.nbytes
        == request.nbytes(toy_secret.params)
        == sum(made.key(key).data.nbytes for key in request.limbs)
    )
    made.save(tmp_path / "keys", part_bytes=part_bytes)
    found = EvaluationKeys.load(tmp_path / "keys", lazy=True, insecure=True)
    for one in (found, pickle.loads(pickle.dumps(made)), made.only(KeyRequest({kind: 3, shared: 1}))):
        for key in (kind, shared):
            np.testing.assert_array_equal(one.get(key, 2), made.get(key, 2))
    s = toy_secret.coefficients()
    errors = key_errors(toy_secret, kind, 3, found.get(kind, 3), source=negacyclic(s, automorphism(s, 25)))
    assert abs(errors).max() <= 32
    with pytest.raises(MissingKeyError, match="the product with Galois element 25 was made for fewer limbs"):
        found.get(kind, 4)
    with pytest.raises(MissingKeyError, match="no evaluation key for the product with Galois element 3"):
        found.get(Product(3), 1)


@pytest.mark.usefixtures("entered")
def test_numbers_are_of_one_kind() -> None:
    with pytest.raises(ParameterError, match="The numbers of Product are not free"):
        key_id.register(Product)


def test_keys_of_a_kind_that_is_not_entered(toy_secret: SecretKey, tmp_path: Path, entered: None) -> None:
    keys.make_evaluation_keys(toy_secret, KeyRequest({Product(5): 1})).save(tmp_path / "keys")
    key_id.KINDS.remove(Product)
    with pytest.raises(FormatError, match="No key has this number"):
        EvaluationKeys.load(tmp_path / "keys", insecure=True)
