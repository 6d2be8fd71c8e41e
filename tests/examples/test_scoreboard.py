"""A submission to a public benchmark, by its stages: results as its harness expects them, on fewer records."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import cipherblas as cb
from tests.support import documents

SCOREBOARD = documents.ROOT / "examples" / "scoreboard"
STAGES = SCOREBOARD / "fetch_by_similarity"
RECORDS, DIMENSION, PAYLOAD = 300, 128, 7
# The order of the harness; what it measures between them is not of interest here.
ORDER = (
    *("client_preprocess_dataset", "client_key_generation", "client_encode_encrypt_db"),
    *("server_preprocess_dataset", "client_preprocess_query", "client_encode_encrypt_query"),
    *("server_encrypted_compute", "client_decrypt_decode", "client_postprocess"),
)
INFERENCE = (
    *("client_key_generation", "server_preprocess_model", "client_preprocess_input"),
    *(
        "client_encode_encrypt_input",
        "server_encrypted_compute",
        "client_decrypt_decode",
        "client_postprocess",
    ),
)

PRODUCTS = (
    *("client_key_generation", "client_preprocess_input", "client_encode_encrypt_input"),
    *("server_encrypted_compute", "client_decrypt_decode", "client_postprocess"),
)


def normalised(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def drawn(folder: Path, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A data set as the harness draws it: half of the records near a centre, one of which the query is near."""
    centres = normalised(rng.normal(size=(9, DIMENSION)))
    db = normalised(rng.normal(size=(RECORDS, DIMENSION)))
    half = RECORDS // 2
    db[:half] = normalised(centres[rng.integers(0, 9, half)] + 0.3 * db[:half])
    query = normalised(centres[3] + 0.3 * normalised(rng.normal(size=DIMENSION)))
    payloads = rng.integers(0, 512, (RECORDS, PAYLOAD), dtype=np.int16)
    payloads[0], payloads[1] = 0, 4095
    folder.mkdir(parents=True)
    for name, array in (("db", db), ("query", query), ("payloads", payloads)):
        array.tofile(folder / f"{name}.bin")
    return db, query, payloads


@pytest.mark.parametrize("count_only", [False, True], ids=["payloads", "count"])
def test_matches_are_those_of_numpy(
    count_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(STAGES))
    monkeypatch.chdir(tmp_path)
    import similarity

    monkeypatch.setattr(similarity, "RECORDS", (RECORDS,))
    db, query, payloads = drawn(tmp_path / "datasets" / "toy", np.random.default_rng(4))
    similarities = db @ query
    matches = similarities > similarity.THRESHOLD
    assert matches.sum() > 3
    assert np.abs(similarities - similarity.THRESHOLD).min() > similarity.MARGIN
    (tmp_path / "io" / "toy").mkdir(parents=True)
    arguments = ["0", "--count_only", "--seed", "7"] if count_only else ["0", "--seed", "7"]
    for stage in ORDER:
        monkeypatch.setattr(sys, "argv", [stage, *arguments])
        runpy.run_path(str(STAGES / f"{stage}.py"))
    assert "128 bits" in capsys.readouterr().out
    results = tmp_path / "io" / "toy" / "results.bin"
    if count_only:
        assert np.fromfile(results, dtype=np.int_).tolist() == [matches.sum()]
        return
    expected = payloads[matches]
    found = np.fromfile(results, dtype=np.int16).reshape(-1, PAYLOAD)
    np.testing.assert_array_equal(found, expected[np.lexsort(expected.T[::-1])])


def test_labels_of_images_are_those_of_the_clear_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx")
    from tests.support.onnx_models import Model

    install = runpy.run_path(str(SCOREBOARD / "install.py"))["main"]
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "run_submission.py").touch()
    (tmp_path / "submissions").mkdir()
    assert install(["ml-inference", str(tmp_path), "--model", "tiny"]) == 0
    stages = tmp_path / "submissions" / "tiny"
    model = Model((3, 8, 8), 1)
    squares = model.node("Pow", model.conv("x", 3, 4), model.constant(2.0))
    content = model.file(model.dense(model.node("Flatten", squares), 256, 5))
    network = cb.networks.from_onnx(content, normalise=([0.5, 0.4, 0.6], [0.25, 0.2, 0.3]))
    random = np.random.default_rng(1)
    program = network.compile(random.uniform(0, 1, (30, 3, 8, 8)), error=0.2)
    program.save(stages / "program.cb")
    program.save_client(stages / "client.cb")
    pixels = random.uniform(0, 1, (3, 3, 8, 8))
    data = tmp_path / "datasets" / "small" / "intermediate"
    data.mkdir(parents=True)
    np.savetxt(data / "test_pixels.txt", pixels.reshape(3, -1), fmt="%.6f")
    monkeypatch.syspath_prepend(str(stages))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "io" / "small").mkdir(parents=True)
    for _ in range(2):  # the harness may run all stages but the keys again
        for stage in INFERENCE:
            monkeypatch.setattr(sys, "argv", [stage, "1"] if stage != "server_preprocess_model" else [stage])
            runpy.run_path(str(stages / f"{stage}.py"))
    labels = np.loadtxt(tmp_path / "io" / "small" / "encrypted_model_predictions.txt", dtype=int)
    scores = np.load(tmp_path / "io" / "small" / "client" / "scores.npy")
    np.testing.assert_allclose(scores, network(pixels), atol=0.2)
    np.testing.assert_array_equal(labels, scores.argmax(axis=1))
    assert "128 bits" in capsys.readouterr().out


@pytest.mark.parametrize("pairs", [1, 5000])
def test_products_of_64_bits_are_those_of_numpy(
    pairs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install = runpy.run_path(str(SCOREBOARD / "install.py"))["main"]
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "run_submission.py").touch()
    assert install(["zn-multiplication", str(tmp_path)]) == 0
    assert all(os.access(tmp_path / "scripts" / name, os.X_OK) for name in ("build_task.sh",))
    stages = tmp_path / "submission" / "target" / "release"
    assert {path.name for path in stages.iterdir()} == {*PRODUCTS, "multiplication.py"}
    assert all(os.access(stages / stage, os.X_OK) for stage in PRODUCTS)
    data, rng = tmp_path / "datasets" / "small", np.random.default_rng(5)
    data.mkdir(parents=True)
    sides = rng.integers(0, 2**64, (2, pairs), dtype=np.uint64)
    sides[:, 0] = 2**64 - 1
    for name, numbers in zip(("lhs", "rhs"), sides, strict=True):
        np.savetxt(data / f"{name}.txt", numbers, fmt="%u")
    monkeypatch.syspath_prepend(str(stages))
    monkeypatch.chdir(tmp_path)
    for stage in PRODUCTS:
        monkeypatch.setattr(sys, "argv", [stage, "small", str(pairs)])
        runpy.run_path(str(stages / stage))
    sys.modules.pop("multiplication")
    found = (tmp_path / "io" / "small" / "cleartext_output" / "out.txt").read_text().split()
    assert found == list(map(str, (sides[0] * sides[1]).tolist()))
    keys = tmp_path / "io" / "small" / "public_keys"
    assert sum(path.stat().st_size for path in keys.iterdir()) < 2048
    told = capsys.readouterr().out
    assert "128 bits" in told and "none: products are not relinearised" in told


def test_stages_are_laid_into_a_harness(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install = runpy.run_path(str(SCOREBOARD / "install.py"))["main"]
    assert install(["fetch-by-similarity", str(tmp_path)]) == 1
    assert "no harness/run_submission.py" in capsys.readouterr().err
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "run_submission.py").touch()
    assert install(["fetch-by-similarity", str(tmp_path)]) == 0
    laid = {path.stem for path in (tmp_path / "submission").glob("*.py")}
    assert laid == {*ORDER, "similarity"}
