"""Peers are run in another process; where a peer is installed here, its results are checked."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cipherblas_bench as bench
from cipherblas_bench import bootstrap
from cipherblas_bench.peers import Peer, PeerError
from tests.support.bench_fields import check_fields

PEERS = Path(importlib.util.find_spec("cipherblas_bench.peers").origin).parent  # type: ignore[union-attr, arg-type]
OPENFHE = os.environ.get("CIPHERBLAS_OPENFHE_PYTHON")
needs_seal = pytest.mark.skipif(
    importlib.util.find_spec("seal") is None, reason="seal-python is not installed"
)


def test_an_interpreter_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="nowhere"):
        Peer("seal", {"n": 1024}, python=str(tmp_path / "nowhere"))


@pytest.mark.skipif(importlib.util.find_spec("openfhe") is not None, reason="openfhe is installed")
def test_a_missing_wheel_says_how_to_install_it() -> None:
    with pytest.raises(PeerError, match=r"no openfhe: pip install openfhe in a CPython 3\.10"):
        Peer("openfhe", {"n": 1024}, python=sys.executable)


def test_a_process_that_ends_is_reported_with_its_last_words(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'the end of it' >&2\nexit 3\n")
    fake.chmod(0o755)
    with pytest.raises(PeerError, match=r"status 3: the end of it"):
        Peer("seal", {}, python=str(fake))


def test_workers_need_nothing_of_this_package() -> None:
    for worker in (
        "protocol",
        "seal_worker",
        "seal_bgv_worker",
        "openfhe_worker",
        "openfhe_bgv_worker",
        "openfhe_bootstrap",
        "openfhe_parameters",
        "e2dm_seal",
        "e2dm_stages",
        "library",
        "tasks",
        "seal_library",
        "openfhe_library",
        "openfhe_numpy_worker",
        "tenseal_worker",
        "build",
    ):
        text = (PEERS / f"{worker}.py").read_text(encoding="utf-8")
        assert "import cipherblas" not in text
        assert "from cipherblas" not in text


@needs_seal
def test_seal_primitives_are_right_and_measured() -> None:
    request = {"n": 4096, "q_bits": [36, 30], "special_bits": 36, "hoisted": 2}
    with Peer("seal", request) as peer:
        assert peer.ready["limbs"] == 2
        assert peer.ready["error"] < 1e-2  # a 30-bit scale: noise of about 2^-13
        for case in ("encode", "encrypt", "encrypt_symmetric", "decrypt", "rotate", "multiply", "rescale"):
            seconds = peer.measure(case, 2)
            assert len(seconds) == 2
            assert min(seconds) > 0
        with pytest.raises(PeerError, match="KeyError: 'transpose'"):
            peer.measure("transpose", 1)
        assert peer.measure("rotate_hoisted", 1)  # a refused request leaves the process usable


@needs_seal
@pytest.mark.parametrize(
    ("scheme", "cases"), [("bgv", ["multiply_rescale", "rescale", "decrypt"]), ("bfv", ["multiply_rescale"])]
)
def test_rows_modulo_t_beside_seal(scheme: str, cases: list[str]) -> None:
    """Both sides compute every entry exactly, which the benchmark checks itself."""
    rows = list(bench.run_modular_primitives(peer="seal", peer_scheme=scheme, cases=cases, budget=0.0))
    assert len(rows) == len(cases)
    for row in rows:
        assert row["peer_params"]["scheme"] == scheme
        assert row["error"] == row["peer_params"]["error"] == 0.0
        assert (row["peer_params"]["n"], row["peer_params"]["limbs"]) == (1 << 14, 8)
        assert row["speedup"] == row["peer_seconds"] / row["seconds"] > 0
    check_fields(rows)


def beside(**choice: Any) -> None:
    """A rescale beside a peer: equal parameters, checked by the benchmark itself, and the ratio of its row."""
    (row,) = bench.run_primitives(ring_degrees=[1 << 13], cases=["rescale"], budget=0.0, **choice)
    assert {name: row["peer_params"][name] for name in ("n", "limbs", "dnum")} == {
        "n": 8192,
        "limbs": 4,
        "dnum": 4,
    }
    assert row["speedup"] == row["peer_seconds"] / row["seconds"] > 0


@needs_seal
def test_a_row_beside_seal() -> None:
    beside(peer="seal")
    for row in bench.run_cc([(4, 3, 5)], peer="seal", budget=0.0):
        assert row["peer_params"]["error"] < 1e-4 * 3
        assert row["speedup"] == row["peer_seconds"] / row["seconds"] > 0


needs_openfhe = pytest.mark.skipif(
    OPENFHE is None, reason="CIPHERBLAS_OPENFHE_PYTHON names no interpreter that has openfhe"
)


@needs_openfhe
def test_bootstrapping_by_openfhe() -> None:
    """On a toy ring, INSECURE."""
    toy = {**bootstrap.OPENFHE, "n": 1 << 11, "security": 0}
    found = bootstrap.beside(toy, OPENFHE, 1, 0.0)
    params = found["peer_params"]
    assert (params["n"], params["slots"], params["dnum"]) == (1 << 11, 1 << 10, toy["digits"])
    assert params["levels_left"] >= 1 and params["precision_bits"] > 8 and params["key_bytes"] > 0
    assert found["peer_timing"].seconds > 0 and params["runs"] == found["peer_timing"].runs == 3


@needs_openfhe
def test_a_row_modulo_t_beside_openfhe() -> None:
    """It chooses its ring; five squarings are exact on both sides, which the benchmark checks itself."""
    choice: dict[str, Any] = {"peer": "openfhe", "peer_python": OPENFHE, "cases": ["multiply_rescale"]}
    (row,) = bench.run_modular_primitives(budget=0.0, **choice)
    assert (row["params"]["n"], row["params"]["limbs"]) == (1 << 14, 6)
    assert row["peer_params"]["n"] == 1 << 15 and row["peer_params"]["error"] == row["error"] == 0.0


@needs_openfhe
def test_a_row_beside_openfhe() -> None:
    beside(peer="openfhe", peer_python=OPENFHE)


@needs_seal
@pytest.mark.parametrize(("field", "value"), [("limbs", 5), ("error", 0.5), ("error", float("nan"))])
def test_a_peer_with_other_parameters_or_wrong_results_is_refused(
    monkeypatch: pytest.MonkeyPatch, field: str, value: float
) -> None:
    start = Peer.__init__

    def other(peer: Peer, *arguments: Any, **options: Any) -> None:
        start(peer, *arguments, **options)
        peer.ready[field] = value

    monkeypatch.setattr(Peer, "__init__", other)
    with pytest.raises(PeerError, match="expected"):
        beside(peer="seal")


@needs_seal
@pytest.mark.parametrize("single_rotation", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(4, 4, 4), (3, 5, 2), (1, 8, 7)])
def test_e2dm_on_seal_multiplies(m: int, k: int, n: int, single_rotation: bool) -> None:
    request = {
        "m": m, "k": k, "n": n, "n_ring": 8192, "q_bits": [50, 38, 38, 38], "special_bits": 50, "scale_bits": 38,
        "single_rotation": single_rotation,
    }  # fmt: skip
    with Peer("e2dm-seal", request) as peer:
        # Fresh noise 3.2·sqrt(N/2)/2^38 and three roundings near sqrt(N/18)·sqrt(N/2)/2^38, times 2k terms: < 1e-5.
        assert peer.ready["error"] < 1e-4
        assert peer.measure("multiply", 1)[0] > 0


def test_the_memory_of_a_peer_is_its_own() -> None:
    """Not that of the process which started it, which is what `getrusage` begins with."""
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc")
    held = bytearray(1 << 29)
    held[:: 1 << 12] = bytes(len(range(0, len(held), 1 << 12)))
    program = "from peers.protocol import peak_bytes; print(peak_bytes())"
    done = subprocess.run([sys.executable, "-c", program], cwd=PEERS.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 1 << 20 < int(done.stdout) < 1 << 28 < len(held)
