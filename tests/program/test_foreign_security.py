"""Files with less security than asked for are refused, wherever their parameters are read."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas
import cipherblas as cb
from cipherblas.common.errors import InsecureParametersWarning
from cipherblas.crypto.keys import SecretKey
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.distributed.messages import Network
from tests.support.foreign_files import TINY, forge

SHAPES = {"a": cb.secret(2, 2, encryption="public-key"), "b": cb.secret(2, 2)}


def compiled(**options: Any) -> cb.Program:
    return cb.compile(lambda a, b: a @ b, SHAPES, algorithm="skewed", **options)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, cb.Program]:
    """The files of a program with N = 16, as they would come from somebody else; the program is their maker's."""
    folder = tmp_path_factory.mktemp("tiny")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureParametersWarning)
        program = compiled(parameters=TINY, security=0, insecure=True)
    client = program.client()
    sent = client.encrypt({"a": np.eye(2), "b": np.eye(2)})
    keys = client.evaluation_keys()
    program.save(folder / "program")
    client.save(folder / "secret")
    client.public_key().save(folder / "public")
    keys.save(folder / "keys")
    keys.save(folder / "parts", part_bytes=1)
    sent["a"].save(folder / "operand")
    program.server(keys).run(sent).save(folder / "result")
    return folder, program


LOADS: dict[str, Callable[..., Any]] = {
    "program": lambda folder, program, **asked: cb.Program.load(folder / "program", **asked),
    "client": lambda folder, program, **asked: cb.Client.load(folder / "secret", program, **asked),
    "secret key": lambda folder, program, **asked: SecretKey.load(folder / "secret", **asked),
    "public key": lambda folder, program, **asked: cb.PublicKey.load(folder / "public", **asked),
    "evaluation keys": lambda folder, program, **asked: cb.EvaluationKeys.load(folder / "keys", **asked),
    "keys in parts": lambda folder, program, **asked: cb.EvaluationKeys.load(folder / "parts", **asked),
    "operand": lambda folder, program, **asked: cb.EncryptedOperand.load(folder / "operand", **asked),
    "result": lambda folder, program, **asked: cb.EncryptedResult.load(folder / "result", **asked),
}


@pytest.mark.parametrize("kind", LOADS)
def test_insecure_files_are_refused(tiny: tuple[Path, cb.Program], kind: str) -> None:
    for asked in ({}, {"security": 128}, {"security": 256}, {"security": 0}):
        with pytest.raises(cb.SecurityError) as caught:
            LOADS[kind](*tiny, **asked)
        assert caught.value.advice
    with pytest.raises(cb.ParameterError, match="no such level of security"):
        LOADS[kind](*tiny, security=100)
    with pytest.warns(InsecureParametersWarning, match="N = 16"):
        LOADS[kind](*tiny, insecure=True)


@pytest.mark.parametrize("kind", LOADS)
def test_files_with_less_security_than_asked_for(tmp_path: Path, kind: str) -> None:
    """128 bits are refused where 192 are asked for; 192 bits pass where 128 are."""
    for level in (128, 192):
        folder = tmp_path / str(level)
        folder.mkdir()
        program = compiled(security=level)
        assert program.plan.parameters.security == level
        client = program.client()
        sent, keys = client.encrypt({"a": np.eye(2), "b": np.eye(2)}), client.evaluation_keys()
        program.save(folder / "program")
        client.save(folder / "secret")
        client.public_key().save(folder / "public")
        keys.save(folder / "keys")
        keys.save(folder / "parts", part_bytes=1)
        sent["a"].save(folder / "operand")
        program.server(keys).run(sent).save(folder / "result")
        LOADS[kind](folder, program)
        if level == 192:
            LOADS[kind](folder, program, security=192)
        else:
            with pytest.raises(cb.SecurityError, match="expected 192 bits or more, got 128 bits"):
                LOADS[kind](folder, program, security=192)
            LOADS[kind](folder, program, security=192, insecure=True)


def test_a_plan_forged_from_a_good_one(tmp_path: Path) -> None:
    """The parameters are exchanged, checksum and identity made right: the plan is whole, and refused."""
    program = compiled()
    program.save(tmp_path / "good")

    def weaken(header: dict[str, Any]) -> None:
        header["decisions"]["parameters"] = TINY.to_dict()

    forge(tmp_path / "good", tmp_path / "forged", weaken, TINY)
    with pytest.raises(cb.SecurityError, match="less secure"):
        cb.Program.load(tmp_path / "forged")
    with pytest.warns(InsecureParametersWarning):
        assert cb.Program.load(tmp_path / "forged", insecure=True).plan.parameters == TINY

    forge(tmp_path / "good", tmp_path / "hidden", weaken)  # good parameters outside, weak ones inside
    for asked in ({}, {"insecure": True}):
        with pytest.raises(cb.FormatError, match="decisions are for other parameters"):
            cb.Program.load(tmp_path / "hidden", **asked)


def test_compile_takes_no_insecure_parameters_by_accident() -> None:
    with pytest.raises(cb.SecurityError, match="less secure"):
        compiled(parameters=TINY)
    with pytest.raises(cb.SecurityError, match="insecure=True"):
        compiled(parameters=TINY, security=0)
    with pytest.warns(InsecureParametersWarning):
        assert compiled(parameters=TINY, insecure=True).plan.parameters == TINY
    good = make_parameters(1 << 13, [50.0, 40.0], scale_bits=40.0)
    assert compiled(parameters=good).plan.parameters == good
    with pytest.raises(cb.SecurityError, match="expected 192 bits or more, got 128 bits"):
        compiled(parameters=good, security=192)


def test_insecure_parameters_are_made_on_purpose() -> None:
    values = TINY.to_dict()
    with pytest.raises(cb.SecurityError, match="insecure=True"):
        Parameters(**values)
    with pytest.raises(cb.SecurityError, match="insecure=True"):
        Parameters.from_dict(values, security=0)
    with pytest.raises(cb.SecurityError, match="less secure"):
        Parameters.from_dict(values)
    assert Parameters(**values, insecure=True) == TINY
    good = make_parameters(1 << 13, [50.0, 40.0])
    assert TINY.insecure and not good.insecure
    with pytest.raises(cb.SecurityError, match="insecure=True"):
        dataclasses.replace(good, security=0)
    with pytest.raises(cb.SecurityError, match="claim 128-bit"):
        dataclasses.replace(TINY, security=128)
    assert dataclasses.replace(TINY, alpha=2).security == 0  # of a set that was accepted


@pytest.mark.parametrize("n", [8, 16, 256, 512])
def test_rings_below_the_table_claim_nothing(n: int) -> None:
    small = make_parameters(n, [20.0], special_limbs=0, insecure=True, security=0)
    for level in (128, 192, 256):
        with pytest.raises(cb.SecurityError, match="claim"):
            dataclasses.replace(small, security=level)


def test_special_primes_count() -> None:
    """A claim is for Q and P together: evaluation keys are samples modulo QP."""
    good = make_parameters(1 << 13, [50.0, 50.0], special_bits=50.0, special_limbs=2)  # 200 of 214 bits
    more = make_parameters(1 << 13, [49.0], special_limbs=0).q
    assert good.log_q + sum(map(np.log2, more)) < 214
    with pytest.raises(cb.SecurityError, match="claim 128-bit"):
        dataclasses.replace(good, p=(*good.p, *more))


def test_copies_and_pickles_are_checked() -> None:
    good = make_parameters(1 << 13, [50.0, 40.0])
    for params in (good, TINY):
        params.fingerprint()
        for again in (copy.copy(params), copy.deepcopy(params), pickle.loads(pickle.dumps(params))):
            assert again == params and again.fingerprint() == params.fingerprint()
    text = pickle.dumps(TINY, protocol=0)
    claimed = text.replace(b"I0\n", b"I128\n")
    assert claimed != text
    with pytest.raises(cb.SecurityError, match="claim 128-bit"):
        pickle.loads(claimed)


def loaders() -> list[Any]:
    """Every `load` of the library that takes the path of a file of ours."""
    found = {}
    for module in pkgutil.walk_packages(cipherblas.__path__, "cipherblas."):
        if module.name.startswith(("cipherblas.cli", "cipherblas._core")):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            inner = getattr(value, "load", None) if inspect.isclass(value) else value
            if not inspect.isroutine(inner) or inner.__name__ not in ("load", "read"):
                continue
            if value in (cb.Machine, Network):  # whose files hold no parameters
                continue
            if "path" in inspect.signature(inner).parameters:
                found[f"{inner.__module__}.{inner.__qualname__}"] = inner
    return list(found.values())


def test_every_load_asks_for_security() -> None:
    assert len(loaders()) >= 9
    for load in loaders():
        assert {"security", "insecure"} <= set(inspect.signature(load).parameters), load
