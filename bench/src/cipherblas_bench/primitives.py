"""The primitives of the scheme, beside another library's at equal ring degree, limbs and digits.

What each case includes is the same on both sides (see also peers/seal_worker.py, peers/openfhe_worker.py):

==================  ================================================================================================
encode              S real numbers to what encryption takes. Theirs ends in NTT form at all limbs, ours in integer
                    coefficients: our reduction and NTT are part of encryption, and counted there.
encrypt             an encoded plaintext to a public-key ciphertext at all limbs, randomness included.
encrypt_symmetric   the same under the secret key. Ours leaves the uniform half as the seed it was drawn from.
decrypt             a 2-component ciphertext at all limbs to S numbers, decoding included.
rotate              one rotation at all limbs, with a key of its own.
rotate_hoisted      8 rotations of one ciphertext by different steps, the shared decomposition included, per rotation.
multiply            ciphertext times ciphertext at all limbs, relinearised, not rescaled.
rescale             a 2-component ciphertext at all limbs to one limb fewer.
==================  ================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas_bench import modular_primitives, ntt
from cipherblas_bench.harness import (
    Row,
    Timing,
    compare,
    in_turns,
    local,
    measure,
    params_fields,
    peak_memory,
    row,
)
from cipherblas_bench.peers import Peer, PeerError

HOISTED = 8
MULTIPLY_RESCALE = "multiply_rescale"  # beside that of integers modulo t alone
CASES = (
    "encode",
    "encrypt",
    "encrypt_symmetric",
    "decrypt",
    "rotate",
    "rotate_hoisted",
    "multiply",
    "rescale",
)


@dataclass(frozen=True)
class Setting:
    """Ring degree, limbs and digits that both sides share, and each side's sizes of primes.

    Ours are below 2^46, special ones too, where the kernels are fastest. SEAL takes ours;
    OpenFHE is given the sizes it is used with (a long first prime) and chooses its special primes itself.
    """

    n: int
    limbs: int
    digits: int
    bits: float
    openfhe_first_bits: int
    openfhe_scaling_bits: int

    def parameters(self, plain_modulus: int | None = None) -> Parameters:
        """Our parameters: `limbs` primes of `bits`, digits of ceil(limbs / digits) limbs, 128-bit security."""
        alpha, scale_bits = -(-self.limbs // self.digits), min(40.0, self.bits)
        q_bits = [self.bits] * self.limbs
        return make_parameters(
            self.n, q_bits, alpha=alpha, scale_bits=scale_bits, plain_modulus=plain_modulus
        )

    def openfhe(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "limbs": self.limbs,
            "digits": self.digits,
            "first_bits": self.openfhe_first_bits,
            "scaling_bits": self.openfhe_scaling_bits,
            "hoisted": HOISTED,
        }

    def seal(self) -> dict[str, Any]:
        q_bits = [round(self.bits)] * self.limbs
        return {"n": self.n, "q_bits": q_bits, "special_bits": round(self.bits), "hoisted": HOISTED}

    def of_integers(self, peer: str, scheme: str) -> tuple[str, dict[str, Any]]:
        """The peer's process for integers modulo t, and what it is asked for."""
        if peer == "seal":
            return "seal-bgv", {**self.seal(), "plain_bits": modular_primitives.BITS, "scheme": scheme}
        depth = {"depth": self.limbs - 1, "plain_modulus": modular_primitives.MODULUS}
        return "openfhe-bgv", {**depth, "hoisted": HOISTED}


BGV_SETTING = Setting(1 << 14, 8, 8, 43.0, 60, 43)
BGV_OF_DEPTH = Setting(1 << 14, 6, 3, 45.5, 60, 45)  # which carry five squarings modulo a t of 31 bits
SETTINGS = (
    Setting(1 << 13, 4, 4, 40.0, 40, 38),
    Setting(1 << 15, 15, 15, 43.0, 60, 50),
    Setting(1 << 16, 25, 3, 45.6, 60, 50),
)
PEER_ERROR = 2.0**-10  # scales are 2^38 and more: what errs by more computes something else
# SEAL has one special prime, hence one digit per limb, and no ring degree above 2^15 with its default checks.
PEER_SETTINGS = {"seal": SETTINGS[:2], "openfhe": SETTINGS}


class Primitives:
    """Our side: keys and ciphertexts of one parameter set, and a function of no arguments per case."""

    def __init__(self, params: Parameters) -> None:
        from cipherblas.crypto import keys

        self.params = params
        context = params.context()
        limbs, slots = params.limbs, params.slots
        steps = list(range(1, HOISTED + 1))
        elements = [context.galois_element(step) for step in steps]
        secret = keys.generate_secret(params)
        public = keys.generate_public_key(secret)
        request = keys.KeyRequest.of_galois(dict.fromkeys(elements, limbs), relinearise=limbs)
        evaluation = keys.make_evaluation_keys(secret, request)
        rotation_keys = [evaluation.get(keys.Galois(element), limbs) for element in elements]
        relinearisation = evaluation.relinearisation(limbs)

        values = np.random.default_rng(1).uniform(-1, 1, slots)
        scale = 2.0**params.scale_bits
        coefficients = context.encode(values.astype(np.complex128), scale)
        x = keys.encrypt(public, coefficients, limbs).expand()
        y = keys.encrypt(public, coefficients, limbs).expand()

        def rotate(count: int) -> list[Any]:
            terms = [(i, 0, elements[i], i, -1) for i in range(count)]
            outputs: list[Any] = context.linear_transform([x], terms, rotation_keys, [], count, False, "limb")
            return outputs

        def decrypt(ciphertext: Any, at: float = scale) -> Any:
            return context.decode(keys.decrypt_coefficients(secret, ciphertext, within=2 * at)).real / at

        def multiply() -> Any:
            return context.multiply_relinearise(x, y, relinearisation)

        def multiply_rescale() -> Any:
            return context.multiply_rescale(x, y, relinearisation, 1, None, 0, 0)

        self.cases: dict[str, Callable[[], Any]] = {
            "encode": lambda: context.encode(values.astype(np.complex128), scale),
            "encrypt": lambda: keys.encrypt(public, coefficients, limbs),
            "encrypt_symmetric": lambda: keys.encrypt(secret, coefficients, limbs),
            "decrypt": lambda: decrypt(x),
            "rotate": lambda: rotate(1),
            "rotate_hoisted": lambda: rotate(HOISTED),
            "multiply": multiply,
            "rescale": lambda: context.rescale(x, 1),
            MULTIPLY_RESCALE: multiply_rescale,
        }

        def worst(found: Any, expected: Any) -> float:
            return float(np.abs(found - expected).max())

        rotated = [np.roll(values, -step) for step in steps]
        self.errors = {
            "encode": worst(context.decode(coefficients.astype(np.float64)).real / scale, values),
            "encrypt": worst(decrypt(x), values),
            "encrypt_symmetric": worst(decrypt(keys.encrypt(secret, coefficients, limbs).expand()), values),
            "decrypt": worst(decrypt(y), values),
            "rotate": worst(decrypt(rotate(1)[0]), rotated[0]),
            "rotate_hoisted": max(
                worst(decrypt(ct), expected) for ct, expected in zip(rotate(HOISTED), rotated, strict=True)
            ),
            "multiply": worst(decrypt(multiply(), scale * scale), values * values),
            "rescale": worst(
                decrypt(context.rescale(multiply(), 1), scale * scale / params.q[-1]), values * values
            ),
            MULTIPLY_RESCALE: worst(
                decrypt(multiply_rescale(), scale * scale / params.q[-1]), values * values
            ),
        }

        self._fresh_bytes = {case: self.cases[case]().nbytes for case in ("encrypt", "encrypt_symmetric")}

    def fields(self, case: str) -> Row:
        """The figures of one operation: its counts, its key, the ciphertext that a client would send."""
        switches = case in ("rotate", "rotate_hoisted", "multiply")
        return {
            "params": params_fields(self.params),
            "algorithm": "hybrid key switching" if switches else None,
            "error": self.errors[case],
            "rotations": int(case in ("rotate", "rotate_hoisted")),
            "products": int(case == "multiply"),
            "key_bytes": self.params.key_bytes(self.params.limbs) if switches else 0,
            "upload_bytes": self._fresh_bytes.get(case, 0),
        }


def run(
    *,
    peer: str | None = None,
    peer_python: str | None = None,
    threads: int = 1,
    ring_degrees: Sequence[int] = (),
    cases: Sequence[str] | None = None,
    budget: float = 1.0,
) -> Iterator[Row]:
    """Rows of `bench primitives`: one per setting and case, then those of the NTT, as they are measured.

    Args:
        peer: "seal", "openfhe", or None for ours alone.
        peer_python: interpreter with the peer's wheel; by default this one.
        threads: of both sides.
        ring_degrees: restrict to these N.
        cases: restrict to these cases, without the NTT.
        budget: seconds spent on each side of each case, half of it on an NTT.

    Raises:
        ValueError: unknown peer or case, or a ring degree at which nothing is measured.
        PeerError: the peer cannot be run, computes something wrong, or has other parameters than it was asked for.
    """
    import cipherblas._core as _core

    if peer is not None and peer not in PEER_SETTINGS:
        raise ValueError(f"peer: expected one of {', '.join(PEER_SETTINGS)}, got {peer}")
    with_ntt = cases is None
    cases = CASES if cases is None else cases
    unknown = sorted(set(cases) - set(CASES))
    if unknown:
        raise ValueError(f"cases: expected some of {', '.join(CASES)}, got {', '.join(unknown)}")
    settings = PEER_SETTINGS.get(peer or "", SETTINGS)
    offered = {setting.n for setting in settings}
    if with_ntt and peer is None:
        offered |= set(ntt.RING_DEGREES)
    ntt.check_ring_degrees(ring_degrees, sorted(offered))
    _core.set_threads(threads)
    for setting in settings:
        if ring_degrees and setting.n not in ring_degrees:
            continue
        ours = Primitives(setting.parameters())
        if peer is None:
            yield from _rows(ours, None, threads, cases, budget)
        else:
            request = setting.seal() if peer == "seal" else setting.openfhe()
            with Peer(peer, request, python=peer_python, threads=threads) as theirs:
                check_equal(setting, theirs)
                yield from _rows(ours, theirs, threads, cases, budget)
        del ours
        _core.trim_pool()
    if with_ntt:
        yield from ntt.run(ring_degrees=ring_degrees or ntt.RING_DEGREES, budget=budget / 2)


def run_modular(
    *,
    peer: str | None = None,
    peer_scheme: str = "bgv",
    peer_python: str | None = None,
    threads: int = 1,
    ring_degrees: Sequence[int] = (),
    cases: Sequence[str] | None = None,
    budget: float = 1.0,
) -> Iterator[Row]:
    """Rows of `bench primitives --scheme bgv`: one per case of `modular_primitives`, at N = 2^14 with 8 limbs, or,
    beside OpenFHE, with the 6 of five products one after the other.

    Args:
        peer_scheme: "bgv", or "bfv" of SEAL.

    Others and Raises: as `run`.
    """
    import cipherblas._core as _core

    if peer not in (None, "seal", "openfhe"):
        raise ValueError(f"peer: of BGV seal or openfhe, got {peer}")
    if peer_scheme == "bfv" and peer != "seal":
        raise ValueError("peer_scheme: bfv of seal alone")
    setting = BGV_OF_DEPTH if peer == "openfhe" else BGV_SETTING
    cases = modular_primitives.CASES if cases is None else cases
    unknown = sorted(set(cases) - set(modular_primitives.CASES))
    if unknown:
        raise ValueError(
            f"cases: expected some of {', '.join(modular_primitives.CASES)}, got {', '.join(unknown)}"
        )
    ntt.check_ring_degrees(ring_degrees, [setting.n])
    _core.set_threads(threads)
    params, depth = setting.parameters(modular_primitives.MODULUS), 1
    if setting is BGV_OF_DEPTH:
        depth = setting.limbs - 1
    ours = modular_primitives.ModularPrimitives(params, HOISTED, depth)
    wrong = [case for case, share in ours.errors.items() if share]
    if wrong:
        raise PeerError(f"our results modulo t: all entries equal, got other ones of {', '.join(wrong)}")
    if peer is None:
        yield from _rows(ours, None, threads, cases, budget, Primitives(setting.parameters()))
    else:
        worker, request = setting.of_integers(peer, peer_scheme)
        with Peer(worker, request, python=peer_python, threads=threads) as theirs:
            check_equal(setting, theirs, 0.0)
            yield from _rows(ours, theirs, threads, cases, budget)
    _core.trim_pool()


def check_equal(setting: Setting, theirs: Peer, most: float = PEER_ERROR) -> None:
    """Ring degree, limbs and digits that the peer has, or how deep it computes where it chose these, and what it
    computes with them.

    Raises:
        PeerError: it has others than it was asked for, or misses a result by more than `most`.
    """
    asked = {"n": setting.n, "limbs": setting.limbs, "digits": setting.digits}
    if "depth" in theirs.ready:
        asked = {"depth": setting.limbs - 1}
    found = {name: theirs.ready[name] for name in asked}
    if found != asked:
        raise PeerError(f"parameters of {theirs.ready['peer']}: expected {asked}, got {found}")
    if not theirs.ready["error"] <= most:
        raise PeerError(
            f"results of {theirs.ready['peer']}: expected an error of at most {most:.2g}, "
            f"got {theirs.ready['error']:.2g}"
        )


def _rows(
    ours: Primitives | modular_primitives.ModularPrimitives,
    theirs: Peer | None,
    threads: int,
    cases: Sequence[str],
    budget: float,
    floats: Primitives | None = None,
) -> Iterator[Row]:
    """Rows of one side, alone, beside a peer or, of integers modulo t, beside `floats` in turns."""
    for case in cases:
        operations = HOISTED if case == "rotate_hoisted" else 1
        peer_timing: Timing | None = None
        beside: Row = {}
        with peak_memory() as peak:
            if floats is not None:
                sides = [local(one.cases[case]) for one in (ours, floats)]
                timing, other = (Timing.of(runs, operations) for runs in in_turns(sides, budget=budget))
                ratio = timing.seconds / other.seconds
                beside = {"float_seconds": other.seconds, "modular_over_float": ratio}
            elif theirs is None:
                timing = measure(ours.cases[case], budget=budget, operations=operations)
            else:
                timing, peer_timing = compare(
                    ours.cases[case],
                    theirs,
                    case,
                    budget=budget,
                    operations=operations,
                    peer_operations=operations,
                )
        yield row(
            "primitives",
            case,
            **ours.fields(case),
            **beside,
            threads=threads,
            timing=timing,
            peak_bytes=peak.bytes,
            peer=theirs.ready["peer"] if theirs else None,
            peer_params=_peer_params(theirs) if theirs else None,
            peer_timing=peer_timing,
        )


def _peer_params(theirs: Peer) -> Row:
    names = {"n": "n", "logq": "logq", "logp": "logp", "limbs": "limbs", "digits": "dnum", "error": "error"}
    scheme = {name: theirs.ready[name] for name in ("scheme",) if name in theirs.ready}
    return scheme | {ours: theirs.ready[name] for name, ours in names.items()}
