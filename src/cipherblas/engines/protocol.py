"""What an engine must offer: the coarse calls of homomorphic arithmetic, on data that only it can read.

Above an engine everything is decided (limbs, scales, keys, order); an engine computes. Its data are handles that
nobody else looks into: what enters is uploaded, what leaves is downloaded, and in between data can lie wherever and
however the engine likes. Handles are never written to but for accumulators, may share memory, and serve all engines of
one name and equal parameters.

All is arithmetic modulo primes, and so exact: two engines give the same words, bit for bit. A division by D, the
product of primes d_i, is that of the whole number x - [x]_D, [x]_D being the centred remainder, |[x]_D| < D/2; digits
are centred in the same way. With x = Σ_i y_i·D/d_i modulo D, 0 <= y_i < d_i, it is Σ_i y_i·D/d_i - v·D with
v = floor(1/2 + Σ_i y_i/d_i), which is found in float64, added up in the order of the primes (the last limb before the
special ones); a division finds it for -x; one prime alone is centred exactly. How v is found matters only where [x]_D
is within some 2^-45·D of ±D/2, which residues that look uniform, as those of ciphertexts do, never are. The one call
that is not exact says so.

Shapes: N is the ring degree; ciphertexts are (components, limbs, N) in NTT form, in bit-reversed order; matrices of
residues are (limbs, rows, columns) in the coefficient domain; all residues are in [0, q), the limbs those of q_0,
q_1, …. What they decrypt to is in `docs/architecture.md`, "Data layout".

Calls may come from several threads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from cipherblas.crypto.params import Parameters
from cipherblas.engines.ciphertexts import OnCiphertexts
from cipherblas.engines.handles import Ciphertext
from cipherblas.engines.matrices import OnMatrices
from cipherblas.engines.operations import Shape, operation
from cipherblas.rlwe.rings import Ring


def _first(parts: Sequence[Any]) -> Any:
    return next(part for part in parts if part is not None)


def _joined(ring: Ring, parts: Any, inner: Any) -> Shape:
    return (2, _first(parts).shape[1], ring.n)


class Engine(OnCiphertexts, OnMatrices, Protocol):
    """The arithmetic of one parameter set."""

    # ---- between rings ----

    @operation()
    def beside(self, params: Parameters) -> Engine:
        """An engine of the same kind for other parameters; each takes ciphertexts of the other as far as their rings
        and primes agree."""
        ...

    @operation(
        made=_joined,
        cost=lambda costs, counts, parts, inner: costs.joined(counts, _first(parts).shape[1]),
    )
    def joined(self, parts: Sequence[Ciphertext | None], inner: Engine) -> Ciphertext:
        """Σ_u parts[u](X^k)·X^u, of both components: k ciphertexts of `inner`, an engine beside this one whose ring
        degree is N/k, and whose first primes are ours; None stands for 0."""
        ...

    @operation(
        made=lambda ring, x, inner: [(*x.shape[:2], inner.n)] * (ring.n // inner.n),
        cost=lambda costs, counts, x, inner: costs.parted(counts, x.shape[1]),
    )
    def parted(self, x: Ciphertext, inner: Engine) -> list[Ciphertext]:
        """The inverse of `joined`: k ciphertexts of `inner`."""
        ...


MakeEngine: TypeAlias = Callable[[Parameters], Engine]
