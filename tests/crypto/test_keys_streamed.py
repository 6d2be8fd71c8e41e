"""Evaluation keys that do not fit a memory budget."""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from cipherblas.common.errors import MemoryBudgetError, ParameterError, StorageError
from cipherblas.crypto.keys import EvaluationKeys, KeyId, KeyRequest, generate_secret, make_evaluation_keys
from cipherblas.crypto.keys.streaming import KeyStream
from cipherblas.crypto.params import make_parameters

STEPS = range(1, 17)


@pytest.fixture(scope="module")
def made() -> EvaluationKeys:
    """16 keys of 2.6 MB."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = make_parameters(1 << 12, [40.0] * 8, alpha=2, scale_bits=30.0, insecure=True)
    elements = {pow(5, step, 2 << 12): 8 for step in STEPS}
    return make_evaluation_keys(generate_secret(params), KeyRequest.of_galois(elements, relinearise=8))


def words(keys: EvaluationKeys) -> dict[KeyId, np.ndarray]:
    return {key: keys.key(key).data.copy() for key in keys._limbs()}


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("lazy", [False, True])
def test_the_same_keys(made: EvaluationKeys, tmp_path: Path, share: float, lazy: bool) -> None:
    """From files, and of keys that are in memory already; in any order, again and again, and in copies."""
    made.save(tmp_path / "keys")
    memory, expected = int(share * made.nbytes), words(made)
    loaded = EvaluationKeys.load(tmp_path / "keys", memory=memory, folder=tmp_path, lazy=lazy, insecure=True)
    copied = pickle.loads(pickle.dumps(made))
    copied.keep_within(memory, tmp_path)
    names = list(expected)
    order = np.random.default_rng(1).permutation(list(range(len(names))) * 3)
    for keys in (loaded, copied):
        assert keys.nbytes == made.nbytes and keys.memory_bytes == memory
        for name in (names[number] for number in order):
            np.testing.assert_array_equal(keys.key(name).data, expected[name])
    for number, data in words(pickle.loads(pickle.dumps(loaded))).items():
        np.testing.assert_array_equal(data, expected[number])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_is_in_memory_is_what_was_said(made: EvaluationKeys, tmp_path: Path) -> None:
    def mapped() -> int:
        status = Path("/proc/self/status").read_text()
        return 1024 * sum(
            int(line.split()[1]) for line in status.splitlines() if line.startswith(("RssFile", "RssShmem"))
        )

    made.save(tmp_path / "keys")
    before, memory, found = mapped(), int(0.4 * made.nbytes), []
    keys = EvaluationKeys.load(tmp_path / "keys", memory=memory, folder=tmp_path, insecure=True)
    for _ in range(2):
        for number in keys._limbs():
            assert keys.key(number).data.sum() > 0
            found.append(mapped() - before)
    assert max(found) <= 1.15 * keys.memory_bytes
    for start in range(0, len(made), 4):  # as calls do: several are asked for before one is read
        several = [keys.key(number).data for number in list(keys._limbs())[start : start + 4]]
        assert sum(data.sum() > 0 for data in several) == len(several)
    keys.keep_within(0)
    for _ in range(2):
        for start in range(0, len(made), 4):
            several = [keys.key(number).data for number in list(keys._limbs())[start : start + 4]]
            assert sum(data.sum() > 0 for data in several) == len(several)
            assert mapped() - before <= 1.15 * 8 * made.nbytes // len(made)
    assert keys.memory_bytes - made.nbytes // len(made) <= 1.15 * np.median(found)


def test_refused(made: EvaluationKeys, tmp_path: Path) -> None:
    for memory in (-1, 0.5, "1"):
        with pytest.raises(ParameterError, match="number of bytes"):
            made.keep_within(memory)  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="temporary file"):
        KeyStream(0, 1 << 20, tmp_path / "nowhere")


def test_all_keys_need_not_fit_memory(
    made: EvaluationKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(needed: int, what: str) -> None:
        if needed > made.nbytes // 2:
            raise MemoryBudgetError(what)

    monkeypatch.setattr("cipherblas.crypto.keys.evaluation.check_memory", check)
    made.save(tmp_path / "keys")
    with pytest.raises(MemoryBudgetError, match="expanding"):
        EvaluationKeys.load(tmp_path / "keys", insecure=True)
    EvaluationKeys.load(tmp_path / "keys", memory=made.nbytes // 2, insecure=True)
