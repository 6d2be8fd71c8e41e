"""What all tests share: hypothesis profiles, toy parameters, and a check that nothing is left behind."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
POOL_BYTES = 1 << 29  # of the memory that kernels take, what idles included, that is kept after a test

# Tests run in an empty folder (see `empty_working_folder`); hypothesis keeps its own files at the root.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(ROOT / ".hypothesis"))
# There are as many processes as cores: more threads of NumPy's BLAS in each of them wait for one another, and take a
# core for that. Those of the package's own products are set by the package.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis  # noqa: E402
import pytest  # noqa: E402

if TYPE_CHECKING:
    import cipherblas._core as _core
    from cipherblas.crypto.keys import SecretKey
    from cipherblas.crypto.params import Parameters
    from tests.support.commands import Invoke

# "default" looks for new examples in every run; "ci" repeats the same ones, "few" the first of them, where programs are
# watched and slow; "thorough" is for a long search.
hypothesis.settings.register_profile("default", deadline=None, max_examples=25)
hypothesis.settings.register_profile(
    "ci", deadline=None, max_examples=25, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.register_profile("few", hypothesis.settings.get_profile("ci"), max_examples=6)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def _not_forced(descriptor: object) -> None:
    """Leaves what was written to the system: no file of a test is to outlive a loss of power, and disks take a minute.

    Commands in processes of their own force theirs, which `cli/test_interrupt.py` sees."""


def pytest_configure(config: pytest.Config) -> None:
    """Plans are made for the machine of the corpus, in other processes too, so that no test depends on what this one
    takes just now, and none waits for its measurement; tests of that unset the variable, and measure briefly."""
    from cipherblas.planner.predict import measuring
    from tests.corpus.machine import MACHINE
    from tests.support.plug_ins import show_those_of_the_tree

    folder = tempfile.TemporaryDirectory(prefix="cipherblas-machine-")
    config.add_cleanup(folder.cleanup)
    path = Path(folder.name) / "machine.json"
    MACHINE.save(path)
    os.environ["CIPHERBLAS_MACHINE"], os.environ["CIPHERBLAS_CACHE"] = str(path), folder.name
    os.environ["CIPHERBLAS_PLANS"] = "0"  # tests of the planner plan
    os.environ["CIPHERBLAS_TRACEBACK"] = "full"
    show_those_of_the_tree(Path(folder.name))
    measuring.ROUNDS = measuring.FEW_ROUNDS = 1
    os.fsync = _not_forced


def pytest_collection_finish() -> None:
    """Modules and collected tests stay to the end: Python need not look for circles among them again and again, nor
    among the objects of a plan while it is made, which together has taken a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 4, 2)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """What idles after a large test goes back to the system: each process would keep up to a quarter of its memory."""
    core = sys.modules.get("cipherblas._core")
    if core is not None and core.pool_bytes() > POOL_BYTES:
        core.trim_pool()


@pytest.fixture(autouse=True)
def empty_working_folder() -> Iterator[None]:
    """Run each test in an empty folder and fail it if it leaves a file there.

    A test that wants to write where it stands changes to its own `tmp_path` first.
    """
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="cipherblas-test-") as folder:
        os.chdir(folder)
        try:
            yield
            left = sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))
        finally:
            os.chdir(before)
    assert not left, f"the test left files in the working folder: {left}"


@pytest.fixture(scope="session")
def toy_parameters() -> Parameters:
    """INSECURE: a ring far too small for its modulus, for tests alone. Five limbs, two limbs per digit."""
    from cipherblas.crypto.params import make_parameters

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_parameters(
            n=1 << 10,
            q_bits=[50.0, 40.0, 40.0, 40.0, 40.0],
            special_bits=None,
            special_limbs=None,
            alpha=2,
            scale_bits=40.0,
            security=0,
            insecure=True,
        )


@pytest.fixture(scope="session")
def toy_context(toy_parameters: Parameters) -> _core.Context:
    """The context of the INSECURE toy parameters."""
    return toy_parameters.context()


@pytest.fixture(scope="session")
def toy_secret(toy_parameters: Parameters) -> SecretKey:
    """A secret key for the INSECURE toy parameters."""
    from cipherblas.crypto.keys import generate_secret

    return generate_secret(toy_parameters)


@pytest.fixture
def as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of products are planned as they are written: looking for other associations of them takes most of the time
    of programs by rows, and is tested in `planner/test_association.py` and `program/test_associated.py`."""
    from cipherblas.planner.rewrite import association

    monkeypatch.setattr(association, "reassociation", lambda expression, *_: expression)


@pytest.fixture
def fewest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks run what they measure once or twice: their rows are looked at, not their seconds."""
    from cipherblas_bench import harness

    monkeypatch.setattr(harness, "ROUNDS", 1)
    monkeypatch.setattr(harness, "SLOW", 0.5)
    monkeypatch.setattr(harness, "VERY_SLOW", 0.5)


@pytest.fixture(scope="session")
def invoke() -> Invoke:
    """Runs a command in this process."""
    from tests.support.commands import call

    return call


@pytest.fixture(scope="session")
def crossover_rows() -> str:
    """Rows of a tiny product that `bench crossover` estimates, as lines of JSON."""
    from tests.support.commands import succeed

    options = ("--sizes", "4", "--kind", "cc", "--limit", "0", "--json", "-q")
    return str(succeed("bench", "crossover", *options).stdout)
