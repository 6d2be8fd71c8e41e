"""An encrypted product on a simulated element, as the paper prints it, beside the performance model of that element."""

from __future__ import annotations

from typing import Any

import numpy as np

from cipherblas.common.encoding import encoded
from cipherblas.common.progress import Tell
from cipherblas.crypto.keys import decrypt_coefficients, encrypt, generate_secret, make_evaluation_keys
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.values import Ct
from cipherblas.methods.matmul.baselines.fame_published import FamePublished
from cipherblas_bench.harness import Row
from cipherblas_bench.sets import Shape
from cipherblas_hardware.accelerator.engine import FameEngine, MakeElement
from cipherblas_hardware.model.configuration import WORD_BYTES, Configuration
from cipherblas_hardware.model.operations import AsPrinted, published_program
from cipherblas_hardware.model.performance import Accelerator

MHZ = 300.0  # of what is predicted in seconds; nothing is placed, and so has no clock of its own


class PrintedNative(AsPrinted, Native):
    """Ciphertexts, one transform and one product at a time."""


def toy_parameters(log_n: int) -> Parameters:
    """An INSECURE ring for looking at programs: two limbs of 50 bits and three of 40, two special ones, two digits and
    a rest."""
    sizes = [50.0, 50.0, 40.0, 40.0, 40.0]
    return make_parameters(1 << log_n, sizes, alpha=2, scale_bits=40.0, security=0, insecure=True)


def simulated_product(
    shape: Shape,
    params: Parameters,
    make: MakeElement,
    *,
    lanes: int | None = None,
    relinearise_once: bool = False,
    tell: Tell = lambda what: None,
) -> Row:
    """Encrypt random matrices, multiply them on an element, compare every word with the processor's, decrypt.

    Args:
        shape: m, k, n.
        params: of the ciphertexts.
        make: an element of given lanes and ring degree.
        lanes: dp; by default those of `FameEngine`.
        relinearise_once: the sum of products, in place of each.
        tell: called with a few words on what is done now.

    Returns:
        What the element did, what the model of `fame-model` says of it, and the largest error of an entry.

    Raises:
        ShapeError: the matrices do not fit the slots. MismatchError: a word differs.
        StorageError: Verilator is not installed.
    """
    algorithm, program = (
        FamePublished(*shape, params.n // 2),
        published_program(shape, params, relinearise_once=relinearise_once),
    )
    tell("building the element")
    engine = FameEngine(params, make, lanes=lanes, strict=True)
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-1, 1, sizes) for sizes in (shape[:2], shape[1:]))
    context, scale = params.context(), 2.0**params.scale_bits
    with generate_secret(params) as secret:
        tell("making keys")
        keys = make_evaluation_keys(secret, program.request, lambda done, total: None)
        ev = PrintedNative(params, keys, engine=engine)
        ev.relinearise_once = relinearise_once

        def fresh(vector: Any) -> Ct:
            message = encoded(context, vector, scale)
            return ev.fresh(encrypt(secret, message).expand(), bound=1.0)

        tell("transforms of A")
        lefts = algorithm.prepare_left(ev, [fresh(each) for each in algorithm.left_layout.pack(a)])
        tell("transforms of B")
        rights = algorithm.prepare_right(ev, [fresh(each) for each in algorithm.right_layout.pack(b)])
        tell("products")
        results = algorithm.finish(ev, algorithm.multiply(ev, lefts, rights, None))
        slots = [
            context.decode(decrypt_coefficients(secret, engine.download(ct.data)) / ct.scale)
            for ct in results
        ]
    error = float(np.abs(algorithm.out_layout.unpack(slots) - a @ b).max())
    return _row(shape, params, engine, program, error)


def _row(shape: Shape, params: Parameters, engine: FameEngine, program: Any, error: float) -> Row:
    tally, timing = engine.tally, engine.timing
    machine = Configuration(
        "simulated", 1, timing.lanes, MHZ, hbm_bytes=float("inf"), centred=True, twiddles=True
    )
    published = Configuration("published", 1, timing.lanes, MHZ, hbm_bytes=float("inf"))
    model, plain = (Accelerator(each, params).latency(program) for each in (machine, published))
    return {
        "case": "x".join(map(str, shape)),
        "params": {
            "n": params.n,
            "limbs": len(params.q),
            "special_limbs": len(params.p),
            "lanes": timing.lanes,
        },
        "rows": timing.rows,
        "programs": tally.programs,
        "passes": dict(sorted(tally.kinds.items())),
        "passes_in_all": tally.passes,
        "cycles": tally.cycles,
        "scheduled_cycles": tally.scheduled,
        "waiting_cycles": dict(tally.waits),
        "bytes_in": tally.words_in * WORD_BYTES,
        "bytes_out": tally.words_out * WORD_BYTES,
        "model_cycles": model.cycles,
        "model_published_cycles": plain.cycles,
        "over_model": tally.cycles / model.cycles,
        "model_bytes": model.hbm_bytes,
        "words_equal": True,  # `FameEngine` has compared every result, and would have raised
        "error": error,
    }
