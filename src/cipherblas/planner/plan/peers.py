"""What a program asks of its plan whose operands and results other libraries encrypt and decrypt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cipherblas.common.errors import Advice, ParameterError, without
from cipherblas.lang.modular import modulus_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand
from cipherblas.lang.refreshing import is_refreshed
from cipherblas.methods.products import GEMM
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.runtime.blocks import BLOCKS, FEATURES
from cipherblas.runtime.tensors import TENSORS

PEER_FORMS = (BLOCKS, TENSORS, FEATURES)  # in slots alone
PEER_DEGREE = 1 << 15  # the largest one that SEAL has at 128 bits


def with_public_keys(operands: Mapping[str, Operand]) -> dict[str, Operand]:
    """Operands as peers encrypt them: with a public key, whose errors are larger."""
    return {
        name: replace(one, encryption="public-key") if one.secret and not one.public_key else one
        for name, one in operands.items()
    }


def check_peer(expression: Expression, operands: Mapping[str, Operand], options: PlanOptions) -> None:
    """Check that another library can encrypt and decrypt what a program computes with.

    Raises:
        ParameterError: integers, which other encryptions of theirs have; refreshes, whose keys they do not make; a form
            that is not in slots, a ring or parameters that they do not take.
    """
    if options.for_peer is None:
        return
    what = f'for_peer="{options.for_peer}"'
    if modulus_of(expression) is not None or any(one.exact for one in operands.values()):
        raise ParameterError(
            f"Plans {what} are for real numbers in CKKS.",
            got="integers that are computed exactly",
            advice=("cb.secret(…) without exact=, modulus= and fixed_point=", without("for_peer")),
        )
    if is_refreshed(expression):
        raise ParameterError(
            f"Plans {what} have no refreshes, whose keys the peer does not make.",
            got="cb.refresh",
            advice=("the program without cb.refresh", without("for_peer")),
        )
    if options.form not in (None, *PEER_FORMS) or options.algorithm == GEMM:
        form = options.form if options.form not in (None, *PEER_FORMS) else GEMM
        raise ParameterError(
            f"Plans {what} have all values in slots.",
            expected=" | ".join(PEER_FORMS),
            got=form,
            advice=(Advice(f'form="{BLOCKS}"', {"form": BLOCKS}), without("form")),
        )
    if options.ring_degree is not None and options.ring_degree > PEER_DEGREE:
        raise ParameterError(
            f"Plans {what} have a ring that the peer has at 128 bits.",
            expected=f"up to {PEER_DEGREE}",
            got=options.ring_degree,
            advice=Advice(f"ring_degree={PEER_DEGREE}", {"ring_degree": PEER_DEGREE}),
        )
    given = options.parameters
    if given is None and options.for_peer == "openfhe":
        raise ParameterError(
            f"Plans {what} have the primes that OpenFHE chose.",
            expected="parameters=…",
            got="none",
            advice="parameters=cb.interop.openfhe.parameters(context)",
        )
    if given is not None and (given.alpha != 1 or given.special_limbs > 1 or given.digit_limbs is not None):
        raise ParameterError(
            f"Plans {what} have one limb per digit of keys and one special prime.",
            expected="alpha=1, one special prime",
            got=f"alpha={given.alpha}, {given.special_limbs} special primes",
            advice=("make_parameters(…, alpha=1, special_limbs=1)", without("parameters")),
        )
