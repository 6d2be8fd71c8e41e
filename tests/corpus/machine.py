"""The machine that the corpus is planned for, on whatever machine it is planned."""

from __future__ import annotations

from cipherblas.planner.predict.cost import GemmRates, Rates, SwitchRates, ThreadRates
from cipherblas.planner.predict.machine import Machine

# Two cores with AVX2, about as they were measured; rounded, so that nobody takes them for a measurement.
MACHINE = Machine(
    name="corpus",
    processor="two cores",
    isa="avx2",
    threads=2,
    memory=16 << 30,
    rates=Rates(
        ntt=4e-10,
        switching=(
            SwitchRates(n=1 << 12, ntt=5e-10),
            SwitchRates(n=1 << 14, ntt=6e-10),
        ),
        threads=ThreadRates(tried=2, compute=1.7, stream=1.3),
        encode=1e-9,
        pack=5e-9,
        uniform=8e-9,
        stream_start=25e-6,
        gaussian=12e-9,
        ternary=4e-9,
        pack_key=6e-10,
        digest=1.2e-9,
        mac=6e-10,
        stream=5e-11,
        fresh=2e-10,
        call=5e-6,
        book=12e-6,
        term=4e-6,
        floats=GemmRates(mac=5e-11, input=3e-9, output=12e-9),
        modular=GemmRates(mac=2.7e-10, input=3e-9, output=5e-9),
        # What those have with AVX-512 IFMA, so that there are plans with moduli of operands.
        operands=GemmRates(mac=4e-12, input=2e-10, output=4e-10),
        keyed=3e-11,
        switched=1e-11,
    ),
)
