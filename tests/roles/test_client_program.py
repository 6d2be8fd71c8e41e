"""Programs without weights: clients with them work as clients with the whole program, and servers refuse them."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto.params import make_parameters
from cipherblas.roles.server import Server
from tests.support.runs import program_of, toy_rows

RANDOM = np.random.default_rng(11)
MATRIX, FILTERS, WEIGHTS = (RANDOM.normal(0, 0.3, shape) for shape in ((8, 8), (4, 1, 3, 3), (5, 64)))
WHOLE = RANDOM.integers(-20, 20, (6, 40))
TOY: dict[str, Any] = {"security": 0, "insecure": True}
pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")


def network(x: Any) -> Any:
    return WEIGHTS @ cb.flatten(cb.square(cb.conv2d(x, FILTERS, stride=2, padding=1)))


PROGRAMS: dict[str, Callable[[], cb.Program]] = {
    "network": lambda: cb.compile(network, {"x": cb.secret(1, 8, 8)}, error=0.5, ring_degree=4096, **TOY),
    "blocks": lambda: cb.compile(
        lambda a, b: a @ b - MATRIX,
        {"a": cb.secret(8, 8), "b": cb.secret(8, 8)},
        **{"form": "blocks", "precision": 0.01, "ring_degree": 4096, **TOY},
    ),
    "rows": lambda: program_of(
        lambda w, x: w @ x + np.ones((2, 2)),
        **{"w": cb.public(2, 3), "x": cb.secret(3, 2), "algorithm": "gemm", "ring_degree": 4096, **TOY},
    ),
    "results": lambda: cb.compile(
        lambda a, b: {"part": a[1:4, ::2].T @ b, "sum": (a.T + 1.0)[:2]},
        {"a": cb.secret(8, 6), "b": cb.secret(3, 5)},
        **{"precision": 0.01, **TOY},
    ),
    "exact": lambda: cb.compile(
        lambda w, x: w @ x,
        {"w": cb.public(6, 40, bound=20, dtype=np.int16), "x": cb.secret(40, 3, dtype=np.int16, exact=True)},
        **TOY,
    ),
    "bytes": lambda: toy_rows(
        lambda a, b: a @ b,
        by_bytes=True,
        **{name: cb.secret(6, 6, dtype=np.int16, exact=True) for name in "ab"},
    ),
    "public key": lambda: cb.compile(
        lambda x: cb.square(MATRIX @ x),
        {"x": cb.secret(8, encryption="public-key")},
        **{"precision": 0.01, "ring_degree": 4096, **TOY},
    ),
}


def values(program: cb.Program) -> dict[str, Any]:
    random, found = np.random.default_rng(3), {}
    for name, operand in program.operands.items():
        size = min(operand.bound, 20)
        given = random.uniform(-size, size, operand.shape)
        found[name] = np.rint(given) if operand.whole else given
    return found


def written(program: cb.Program) -> bytes:
    stream = io.BytesIO()
    program.save_client(stream)
    return stream.getvalue()


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> cb.Program:
    return PROGRAMS[request.param]()


def test_a_client_without_weights(program: cb.Program, tmp_path: Path) -> None:
    """Makes keys, encrypts and decrypts for a server with the whole program; its key file serves both."""
    known = cb.ClientProgram.load(written(program), **TOY)
    client, given = known.client(), values(program)
    server = program.server(client.evaluation_keys())
    if any(operand.public_key for operand in known.operands.values()):
        encrypted = known.encryptor(client.public_key()).encrypt(given)
    else:
        encrypted = client.encrypt({name: given[name] for name in known.operands})
    result = server.run({**given, **encrypted})
    client.save(tmp_path / "key")
    for reads in (client, *(cb.Client.load(tmp_path / "key", one, **TOY) for one in (known, program))):
        found, wanted = reads.decrypt(result), program.evaluate(given)
        pairs = (
            [(found[name], wanted[name]) for name in wanted]
            if isinstance(wanted, dict)
            else [(found, wanted)]
        )
        for (one, exact), figures in zip(pairs, program.plan.results, strict=True):
            assert one.dtype == exact.dtype and np.abs(one - exact).max() <= figures.error
    assert known.plan.error == program.plan.error and known.plan.error_target == program.plan.error_target
    assert (known.id, known.shape, known.exact) == (program.id, program.shape, program.exact)
    assert known.plan.keys == program.plan.keys and known.plan.promise == program.plan.promise


def test_copies_are_read_alike(program: cb.Program) -> None:
    content = written(program)
    known = cb.ClientProgram.load(content, **TOY)
    for copy in (known, pickle.loads(pickle.dumps(known))):
        stream = io.BytesIO()
        copy.save(stream)
        assert stream.getvalue() == content
    assert "ClientProgram" in repr(known) and all(name in repr(known) for name in known.operands)


@pytest.mark.encrypted
def test_two_programs_of_one_shape_lie_as_each_says() -> None:
    """Layouts of files have no names of their own: of one process, each is what its file has."""
    options = {"parameters": make_parameters(64, [45.0] * 3, scale_bits=30.0, **TOY), **TOY}
    programs = [
        cb.compile(lambda x: x * x, {"x": cb.secret(4, 4)}, **options),
        cb.compile(lambda x: x @ x, {"x": cb.secret(4, 4)}, algorithm="skewed", **options),
    ]
    x = np.arange(16.0).reshape(4, 4) / 16
    for program in programs:
        file = io.BytesIO()
        program.save_client(file)
        client = cb.ClientProgram.load(file.getvalue(), insecure=True).client()
        found = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt({"x": x})))
        np.testing.assert_allclose(found, program.evaluate({"x": x}), rtol=0, atol=program.plan.error)


def test_no_weight_is_in_the_file() -> None:
    """Nor any row of one, in any type, nor a digest of them."""
    program = PROGRAMS["network"]()
    content, whole = written(program), io.BytesIO()
    program.save(whole)
    assert len(content) < 20_000 < len(whole.getvalue()) + 20_000
    for weights in (FILTERS, WEIGHTS):
        for number in weights.ravel()[:50]:
            assert number.tobytes() not in content and np.float32(number).tobytes() not in content
            assert repr(float(number)).encode() not in content
        assert weights.ravel()[0].tobytes() in whole.getvalue()
    for constant in program._identity()["constants"].values():
        assert constant.encode() not in content


def test_servers_refuse_it(tmp_path: Path) -> None:
    program = PROGRAMS["network"]()
    program.save_client(tmp_path / "client")
    with pytest.raises(cb.MismatchError, match="another kind of file") as caught:
        cb.Program.load(tmp_path / "client", **TOY)
    assert "program.save(FILE)" in str(caught.value)
    known = cb.ClientProgram.load(tmp_path / "client", **TOY)
    with pytest.raises(cb.DTypeError, match="runs a whole program"):
        Server(known, known.client().evaluation_keys())  # type: ignore[arg-type]
    program.save(tmp_path / "program")
    with pytest.raises(cb.MismatchError, match="another kind of file"):
        cb.ClientProgram.load(tmp_path / "program", **TOY)


def test_sharing_needs_the_whole_program() -> None:
    """Errors of a file are not taken on its word where too little noise would reveal the key."""
    program = PROGRAMS["network"]()
    client = cb.ClientProgram.load(written(program), **TOY).client()
    given = {"x": np.zeros((1, 8, 8))}
    result = program.server(client.evaluation_keys()).run(client.encrypt(given))
    with pytest.raises(cb.ParameterError, match="needs the whole program"):
        client.decrypt(result, share=cb.Sharing(entries=10))


def test_keys_that_are_made_from_weights() -> None:
    program = toy_rows(lambda b: WHOLE @ b, n=64, fixed=True, b=cb.secret(40, 3, dtype=np.int8, exact=True))
    assert program.fixed_factors
    with pytest.raises(cb.ParameterError, match="keys are made from them"):
        program.save_client(io.BytesIO())


def test_security_is_checked() -> None:
    content = written(PROGRAMS["network"]())
    with pytest.raises(cb.SecurityError):
        cb.ClientProgram.load(content)
