"""What a user waits for: predicted stage by stage, minimised or not, and the same counts as a real run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto.keys import FreshCiphertext
from cipherblas.planner.plan.explain import bit_rate
from cipherblas.planner.predict.cost import SwitchRates, ThreadRates
from cipherblas.planner.predict.dry_run import RESIDUE_WORDS
from cipherblas.planner.predict.stages import DEFAULT_LINK, Stages, predicted
from cipherblas.rlwe.counts import Counts
from tests.support.runs import toy_rows

S, P = cb.secret, cb.public


def product(a: Any, b: Any) -> Any:
    return a @ b


def compiled(**options: Any) -> cb.Program:
    return cb.compile(product, {"a": S(64, 64), "b": S(64, 64)}, threads=1, **options)


def total(stages: Stages) -> float:
    names = ("encrypt", "upload", "load_keys", "expand", "encode", "evaluate", "download", "decrypt")
    return sum(getattr(stages, name) for name in names)


@pytest.mark.slow
def test_the_link_decides() -> None:
    """Where bytes cost, the plan that sends few wins; on the server alone, and on a fast link, the quickest."""
    default, slow = compiled().plan, compiled(link=1e7).plan
    fast, server = compiled(link=1e12).plan, compiled(minimise="server").plan
    assert (default.minimise, default.stages.link, server.minimise) == ("end-to-end", DEFAULT_LINK, "server")
    assert server.algorithm == "outer-product"
    assert slow.algorithm != "outer-product"
    assert slow.upload_bytes <= default.upload_bytes <= server.upload_bytes
    assert slow.upload_bytes < server.upload_bytes
    assert server.seconds <= min(default.seconds, slow.seconds, fast.seconds) * (1 + 1e-9)
    assert default.minimised == default.stages.end_to_end
    assert server.minimised == server.seconds == server.stages.evaluate


@pytest.mark.parametrize("options", [{}, {"form": "rows"}, {"algorithm": "fame"}])
def test_stages_add_up(options: dict[str, Any]) -> None:
    plan = compiled(link=1e8, **options).plan
    stages = plan.stages
    assert stages.end_to_end == pytest.approx(total(stages))
    assert stages.first_run == stages.load_keys + stages.expand + stages.encode + stages.evaluate
    assert (stages.load_keys > 0) == (plan.key_bytes > 0)
    assert stages.upload == pytest.approx(8 * plan.upload_bytes / 1e8)
    assert stages.download == pytest.approx(8 * plan.result_bytes / 1e8)
    assert min(stages.encrypt, stages.expand, stages.evaluate, stages.decrypt) > 0
    assert (stages.encode > 0) == (plan.algorithm == "fame")  # masks


PROGRAMS = {
    "slots": lambda: compiled(algorithm="skewed"),
    "grid": lambda: compiled(algorithm="outer-product", block=40),
    "chain": lambda: cb.compile(
        lambda a, b: (a @ b) @ a + b, {"a": S(12, 12), "b": S(12, 12)}, form="blocks"
    ),
    "public key": lambda: cb.compile(product, {"a": S(8, 8, encryption="public-key"), "b": S(8, 8)}),
    "rows": lambda: toy_rows(product, a=S(20, 30), b=S(30, 12)),
    "clear": lambda: cb.compile(product, {"a": P(20, 30), "b": S(30, 3000)}, form="rows"),
    "fixed": lambda: cb.compile(lambda b: np.eye(20, 30) @ b, {"b": S(30, 12)}, form="rows"),
    "network": lambda: cb.compile(lambda x: np.ones((4, 40)) @ cb.square(x), {"x": S(40)}),
}


@pytest.mark.encrypted
@pytest.mark.parametrize("name", PROGRAMS)
def test_traffic_is_what_is_sent(name: str) -> None:
    """Bytes, residues, errors and seeds that the prediction counts, against those of real operands and results."""
    program = PROGRAMS[name]()
    plan, run = program.plan, program._run
    client = program.client()
    operands = {key: np.zeros(operand.shape) for key, operand in program.operands.items() if operand.secret}
    clear = {key: np.zeros(item.shape) for key, item in program.operands.items() if not item.secret}
    encrypted = {key: client.encrypt({key: value})[key] for key, value in operands.items()}
    sent = [part for operand in encrypted.values() for feed in operand.feeds for part in feed]
    n = plan.parameters.n
    traffic = run.traffic(plan.parameters)
    if plan.form == "rows":
        moduli = len(plan.parameters.operand_moduli or ())  # two random words for each word of their residues
        assert traffic.seeded_words == sum(rows.a.size for rows in sent) * (2 if moduli else 1)
        each = moduli * RESIDUE_WORDS // sent[0].b.shape[0] if moduli else 1
        assert traffic.encrypted_words == sum(rows.b.size for rows in sent) * each
        assert traffic.noise_words == sum(rows.shape[0] * rows.shape[1] for rows in sent)
    else:
        assert all(isinstance(ct, FreshCiphertext) for ct in sent)
        assert traffic.messages == len(sent)
        public = name == "public key"
        if not public:  # the client encrypts with the secret key, less than what is planned for
            assert traffic.encrypted_words == sum(ct.data.size for ct in sent)
            assert traffic.seeded_words == sum(ct.limbs * n for ct in sent)
            assert traffic.noise_words == len(sent) * n
        else:
            assert traffic.encrypted_words >= sum(ct.data.size for ct in sent)
            assert traffic.seeded_words <= sum(ct.limbs * n for ct in sent)
    assert traffic.upload_bytes == plan.upload_bytes
    result = program.server(client.evaluation_keys()).run({**encrypted, **clear})
    assert traffic.result_bytes == plan.result_bytes == sum(array.nbytes for array in result.ciphertexts)
    if plan.form != "rows":
        assert traffic.answers == len(result.ciphertexts)
        read = sum(ct.shape[0] * ct.shape[1] * n for ct in result.ciphertexts)
        assert traffic.answer_words == read


def test_a_first_run_encodes_masks_and_weights() -> None:
    """Each once, as the server's caches hold them afterwards."""
    program = cb.compile(lambda x: np.ones((4, 40)) @ cb.square(np.ones((40, 30)) @ x), {"x": S(30)})
    client = program.client()
    server = program.server(client.evaluation_keys())
    server.run(client.encrypt({"x": np.zeros(30)}))
    counts = program.plan.counts
    assert server.last.counts == counts
    assert counts.mask_encodings == len(server._equipment.encodings.masks)
    stored = server._equipment.encodings.weights._arrays.values()
    assert counts.weight_encodings == sum(array.shape[2] for array in stored) > 0
    assert counts.stored_bytes == sum(array.nbytes for array in stored)
    assert min(program.plan.parameters.q) < 2**32  # residues take half a word
    assert program.plan.stages.encode > 0


def test_rates_of_the_client() -> None:
    rates = cb.Machine.here().rates
    assert min(rates.pack, rates.uniform, rates.gaussian, rates.pack_key, rates.digest) > 0
    program = compiled(algorithm="skewed")
    run, plan = program._run, program.plan
    traffic = run.traffic(plan.parameters)
    counted = plan.counts, traffic, plan.key_bytes, plan.parameters
    one, two = (predicted(rates, *counted, threads, DEFAULT_LINK) for threads in (1, 2))
    assert two.evaluate <= one.evaluate and two.load_keys < one.load_keys
    assert (two.encrypt, two.upload, two.download) == (one.encrypt, one.upload, one.download)
    assert two.decrypt == one.decrypt


def test_rates_of_key_switches() -> None:
    """Between the degrees that were measured; threads share the arithmetic, never more than they are."""
    low, high = SwitchRates(1 << 12, 2e-9), SwitchRates(1 << 14, 1e-9)
    threads = ThreadRates(2, 1.2, 1.0)
    rates = replace(cb.Machine.here().rates, switching=(low, high), threads=threads)
    counts = Counts(ntt_limbs=1000)

    def seconds(log_n: int, threads: int) -> float:
        return rates.seconds(counts, 1 << log_n, threads) / ((1000 << log_n) * log_n)

    assert [seconds(log_n, 1) for log_n in (11, 12, 13, 14, 15)] == pytest.approx(
        [2e-9, 2e-9, 1.5e-9, 1e-9, 1e-9]
    )
    assert [seconds(12, threads) for threads in (2, 4)] == pytest.approx([2e-9 / 1.2, 2e-9 / 1.6])
    assert ThreadRates(4, 9.0, 9.0).computing(2) == ThreadRates(4, 9.0, 9.0).streaming(2) == 2
    assert ThreadRates(1, 1.0, 1.0).computing(8) == 8  # nothing was tried


def test_memory_is_a_ceiling() -> None:
    """What is streamed takes its time however many threads compute; more threads than were tried stream no faster."""
    rates = replace(
        cb.Machine.here().rates, stream=1e-10, mac=1e-10, keyed=0.0, threads=ThreadRates(4, 4.0, 2.0)
    )

    def seconds(threads: int, **counts: int) -> float:
        return rates.seconds(Counts(**counts), 1000, threads)

    words = {"mac_limbs": 10, "key_bytes_read": 2000, "plain_bytes_read": 1000, "ciphertext_bytes": 2000}
    assert seconds(1, **words) == pytest.approx(1e-6 + 0.5e-6)  # arithmetic: twice as long as the bytes
    assert seconds(2, **words) == pytest.approx(0.5e-6 + 0.5e-6 / (4 / 3))
    assert seconds(4, **words) == pytest.approx(0.25e-6 + 0.25e-6)
    assert seconds(64, **words) == pytest.approx(1e-6 / 64 + 0.25e-6)  # the ceiling
    moved = [seconds(threads, moved_bytes=1000) for threads in (1, 2, 4, 8)]
    assert moved == pytest.approx([1e-7, 1e-7 / (4 / 3), 5e-8, 5e-8])
    rates = replace(rates, keyed=2e-10)  # arithmetic on bytes of keys
    keys = [seconds(threads, key_bytes_read=1000) for threads in (1, 4, 8)]
    assert keys == pytest.approx([3e-7, 1e-7, 0.75e-7])
    rates = replace(rates, keyed=-0.5e-10)  # keys that are nearer than memory
    keys = [seconds(threads, key_bytes_read=1000) for threads in (1, 4, 8)]
    assert keys == pytest.approx([0.5e-7, 0.25e-7, 0.25e-7])
    rates = replace(rates, keyed=-2e-10)
    assert seconds(1, key_bytes_read=1000) == 0


def test_bookkeeping_is_priced() -> None:
    """A sum is a call, and every product in it has its share."""
    rates = cb.Machine.here().rates
    many, few = (rates.seconds(Counts(sums=sums, products=960), 4096) for sums in (960, 40))
    assert many - few == pytest.approx(920 * (rates.call + rates.book))
    assert few > 960 * rates.term > 0


def test_explain_says_what_is_minimised(tmp_path: Path) -> None:
    """A program that is loaded says the same, but for the candidates that lost."""
    for minimise, what in (("end-to-end", "end to end"), ("server", "on the server")):
        program = compiled(minimise=minimise, link=2.5e7)
        rows, losers = program.explain().split("\nnot taken:")
        found = {line.split("  ")[0]: line for line in rows.splitlines()}
        assert "up at 25 Mbit/s" in found["end to end"]
        assert "expand seeds" in found["first run"]
        assert f" {what}): takes" in losers or f" {what}): seems to take" in losers
        program.save(tmp_path / minimise)
        again = cb.Program.load(tmp_path / minimise)
        assert (again.id, again.plan.minimise, again.plan.link) == (program.id, minimise, 2.5e7)
        assert again.plan == program.plan
        assert again.explain() == rows


@pytest.mark.parametrize(
    ("link", "text"), [(1e9, "1 Gbit/s"), (2.5e7, "25 Mbit/s"), (64e3, "64 kbit/s"), (300, "300 bit/s")]
)
def test_links_for_people(link: float, text: str) -> None:
    assert bit_rate(link) == text


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"minimise": "cost"}, cb.ParameterError, r"to minimise .expected end-to-end \| server, got cost"),
        ({"minimise": None}, cb.ParameterError, "minimise"),
        ({"link": 0}, cb.ParameterError, "link must be a positive number of bits per second .got 0"),
        ({"link": float("inf")}, cb.ParameterError, "link"),
        ({"link": float("nan")}, cb.ParameterError, "link"),
        ({"link": "1Gbit/s"}, cb.DTypeError, "link must be a number of bits per second .got str"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        compiled(**options)


def test_operands_may_bear_the_names_of_options() -> None:
    program = cb.compile(lambda link, minimise: link @ minimise, {"link": S(4, 4), "minimise": S(4, 4)})
    assert set(program.operands) == {"link", "minimise"}
