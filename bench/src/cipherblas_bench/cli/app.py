"""The benchmarks as commands: `cipherblas bench …`."""

from __future__ import annotations

import os

from cipherblas.cli.guard import guarded
from cipherblas.roles import kept_plans
from cipherblas_bench.cli import (
    bench,
    bench_distributed,
    bench_nn,
    bench_pc,
    crossover,
    e2dm_study,
    peers,
    zn,
)

os.environ[kept_plans.SWITCH] = "0"  # planning is part of what is measured
app = bench.app
for command in (bench_pc.pc, crossover.crossover, bench_nn.nn, bench_distributed.distributed, zn.zn):
    app.command()(guarded(command))
app.command("e2dm-study")(guarded(e2dm_study.e2dm_study))
app.command()(guarded(peers.peers))
