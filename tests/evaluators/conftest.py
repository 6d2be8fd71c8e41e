"""Parameters and keys for tests of real encryption."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cipherblas.crypto.keys import SecretKey, decrypt_coefficients, encrypt, generate_secret
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.values import Ct


class Client:
    """A secret key with what tests need of it."""

    def __init__(self, params: Parameters) -> None:
        self.params = params
        self.secret: SecretKey = generate_secret(params)

    def encrypt(
        self, ev: Native, values: NDArray[Any], *, limbs: int | None = None, scale: float | None = None
    ) -> Ct:
        """A fresh ciphertext of S slots."""
        data = self.words(values, limbs=limbs, scale=scale)
        return ev.fresh(data, bound=float(np.abs(values).max()), limbs=limbs, scale=scale)

    def words(
        self, values: NDArray[Any], *, limbs: int | None = None, scale: float | None = None
    ) -> NDArray[np.uint64]:
        """What an evaluator is given of it."""
        scale = 2.0**self.params.scale_bits if scale is None else scale
        coefficients = self.params.context().encode(np.asarray(values, dtype=np.complex128), scale)
        return encrypt(self.secret, coefficients, limbs).expand()

    def decrypt(self, ct: Ct) -> NDArray[np.complex128]:
        """The slots; `ct` is of the processor's engine."""
        coefficients = decrypt_coefficients(self.secret, np.ascontiguousarray(ct.data))
        return self.params.context().decode(coefficients / ct.scale)


@pytest.fixture(scope="session")
def make_client() -> Callable[..., Client]:
    """INSECURE toy clients, one per parameter set."""
    known: dict[tuple[Any, ...], Client] = {}

    def make(n: int = 1 << 10, limbs: int = 5, alpha: int = 2, scale_bits: float = 40.0) -> Client:
        key = (n, limbs, alpha, scale_bits)
        if key not in known:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sizes = [50.0, 50.0] + [scale_bits] * (limbs - 2)
                params = make_parameters(
                    n, sizes, alpha=alpha, scale_bits=scale_bits, security=128, insecure=True
                )
            known[key] = Client(params)
        return known[key]

    return make
