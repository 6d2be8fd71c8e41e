"""What client, encryptor and server say to write in place of what they refuse is written, and runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytest

import cipherblas as cb

pytestmark = [
    pytest.mark.encrypted,
    pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning"),
]


class Made:
    """A program, two of its clients, and what they encrypt."""

    values: ClassVar[dict[str, Any]] = {"a": np.eye(4), "b": np.full((4, 4), 0.5)}

    @cached_property
    def program(self) -> cb.Program:
        operands = {"a": cb.secret(4, 4), "b": cb.secret(4, 4, encryption="public-key")}
        options: Any = {"security": 0, "insecure": True, "ring_degree": 4096, "precision": 1e-3}
        return cb.compile(lambda a, b: a * b, operands, **options)

    @cached_property
    def client(self) -> cb.Client:
        return self.program.client()

    @cached_property
    def other(self) -> cb.Client:
        return self.program.client()

    @cached_property
    def server(self) -> Any:
        return self.program.server(self.client.evaluation_keys())

    @cached_property
    def encrypted(self) -> Any:
        return self.client.encrypt(self.values)

    @cached_property
    def result(self) -> Any:
        return self.server.run(self.encrypted)


@pytest.fixture(scope="module")
def made() -> Made:
    return Made()


Act = Callable[[Made], Any]
# Name → what is refused, what is advised, and that.
REFUSED: dict[str, tuple[Act, str, Act]] = {
    "an array is decrypted": (
        lambda m: m.client.decrypt(m.values["a"]),
        "client.decrypt(server.run(operands))",
        lambda m: m.client.decrypt(m.server.run(m.encrypted)),
    ),
    "a foreign key": (
        lambda m: m.other.decrypt(m.result),
        "the client that encrypted the operands",
        lambda m: m.client.decrypt(m.result, of=m.encrypted),
    ),
    "an older encryption": (
        lambda m: [m.result, m.client.encrypt(m.values), m.client.decrypt(m.result)],
        "decrypt(result, of=…), or --of FILE, with the operands that it was computed from",
        lambda m: m.client.decrypt(m.result, of=m.encrypted),
    ),
    "what is no dictionary": (
        lambda m: m.client.decrypt(m.result, of=m.encrypted["a"]),
        "of=client.encrypt(operands)",
        lambda m: m.client.decrypt(m.result, of=m.encrypted),
    ),
    "another name": (
        lambda m: m.server.run({"a": m.encrypted["b"], "b": m.encrypted["b"]}),
        "{'b': …}",
        lambda m: m.server.run({**m.encrypted, "b": m.encrypted["b"]}),
    ),
    "an operand that there is not": (
        lambda m: m.client.encrypt({"aa": np.eye(4)}),
        "a",
        lambda m: m.client.encrypt({"a": np.eye(4)}),
    ),
    "a clear operand": (
        lambda m: m.server.run({**m.encrypted, "a": np.eye(4)}),
        "client.encrypt({'a': …})['a'] in place of it",
        lambda m: m.server.run({**m.encrypted, "a": m.client.encrypt({"a": np.eye(4)})["a"]}),
    ),
    "an operand is missing": (
        lambda m: m.server.run({"a": m.encrypted["a"]}),
        "{'a': …, 'b': …}",
        lambda m: m.server.run({"a": m.encrypted["a"], "b": m.encrypted["b"]}),
    ),
    "an operand is missing in the clear": (
        lambda m: m.program.evaluate({"a": np.eye(4)}),
        "{'a': …, 'b': …}",
        lambda m: m.program.evaluate(m.values),
    ),
    "keys of another pair": (
        lambda m: m.program.server(m.other.evaluation_keys()).run(m.encrypted),
        "the evaluation keys of the client that encrypted it",
        lambda m: m.program.server(m.client.evaluation_keys()).run(m.encrypted),
    ),
    "no keys": (
        lambda m: m.program.server(m.client),
        "program.server(client.evaluation_keys())",
        lambda m: m.program.server(m.client.evaluation_keys()),
    ),
    "no public key": (
        lambda m: m.program.encryptor(m.client),
        "program.encryptor(client.public_key())",
        lambda m: m.program.encryptor(m.client.public_key()),
    ),
    "an operand of the secret key": (
        lambda m: m.program.encryptor(m.client.public_key()).encrypt({"a": np.eye(4)}),
        'cb.secret(…, encryption="public-key") where it is declared',
        lambda m: m.program.encryptor(m.client.public_key()).encrypt({"b": np.eye(4)}),
    ),
    "another shape": (
        lambda m: m.client.encrypt({"a": np.eye(4)[:3]}),
        "an array of shape (4, 4)",
        lambda m: m.client.encrypt({"a": np.eye(4)}),
    ),
    "an array of what is encrypted": (
        lambda m: np.asarray(m.result),
        "client.decrypt(result), which gives its values",
        lambda m: m.client.decrypt(m.result, of=m.encrypted),
    ),
    "fractions of entries": (
        lambda m: cb.Sharing(entries=1.5),
        "entries=1, or more",
        lambda m: cb.Sharing(entries=1),
    ),
    "an array is declared": (
        lambda m: cb.compile(lambda a: a * a, {"a": np.ones((4, 3))}),
        "cb.secret(4, 3)",
        lambda m: cb.compile(lambda a: a * a, {"a": cb.secret(4, 3)}),
    ),
    "a shape is declared": (
        lambda m: cb.compile(lambda a: a * a, {"a": (4, 3)}),
        "cb.secret(4, 3)",
        lambda m: cb.compile(lambda a: a * a, {"a": cb.secret(4, 3)}),
    ),
    "operands by keyword": (
        lambda m: m.client.encrypt(a=np.eye(4)),
        'encrypt({"a": …})',
        lambda m: m.client.encrypt({"a": np.eye(4)}),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_advice_is_taken(made: Made, name: str) -> None:
    refused, advice, followed = REFUSED[name]
    with pytest.raises(cb.CipherblasError) as caught:
        refused(made)
    assert caught.value.advice[0].write == advice, str(caught.value)
    followed(made)
