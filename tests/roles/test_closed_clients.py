"""A closed client: its secret is overwritten, and no use of it goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import toy

pytestmark = [pytest.mark.encrypted, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_a_closed_client_does_nothing_more(tmp_path: Path) -> None:
    program = toy(lambda a, b: a @ b + 1, a=cb.secret(5, 6), b=cb.secret(6, 4, encryption="public-key"))
    values = {"a": np.eye(5, 6), "b": np.ones((6, 4))}
    with program.client() as client:
        keys, operands = client.evaluation_keys(), client.encrypt(values)
        result = program.server(keys).run(operands)
        right = client.decrypt(result)
        content, secret = client.to_bytes(), client._secret
        seen = [secret._seed, secret._coefficients, secret._ntt]
        assert not client.closed and all(array.any() for array in seen)
    assert client.closed and "closed" in repr(client)
    assert not any(array.any() for array in seen)
    for use in (
        client.evaluation_keys,
        client.public_key,
        client.to_bytes,
        lambda: client.write_evaluation_keys(tmp_path / "keys"),
        lambda: client.encrypt(values),
        lambda: client.decrypt(result),
        lambda: client.decrypt(result, share=cb.Sharing(100)),
        lambda: client.save(tmp_path / "key"),
    ):
        with pytest.raises(cb.SecurityError, match="closed"):
            use()
    assert list(tmp_path.iterdir()) == []
    client.close()  # once more does no harm
    # Nothing was spent, and what is public goes on.
    again = cb.Client.from_bytes(content, program, security=0, insecure=True)
    assert np.array_equal(again.decrypt(program.server(keys).run(operands), of=operands), right)
