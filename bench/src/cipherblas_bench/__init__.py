"""Benchmarks: rows as dictionaries, printed as lines of JSON or as tables.

`run_primitives`, `run_modular_primitives`, `run_ntt`, `run_linear_transform`, `run_bootstrap`, `run_mambo`,
`run_gemm`, `run_transpose`, `run_masks`, `run_cc`, `run_pc`, `run_bae`, `run_fame_baselines`, `run_crossover`,
`run_e2dm_study`, `run_peers`, `run_distributed`, `run_fhe4dmm`, `run_secret_network`, `run_model`, `run_roofline`,
`run_zn`, `run_nn` and `run_networks` yield rows as they are measured, `run_nn_counts` rows of counted operations,
`run_nn_published` those of published patterns; `render` prints tables, `to_json` one line. Peers are measured in the
same run; no figure of theirs is written here. What a paper reports of its own stands in `nn_shapes`, `networks`,
`fame_baselines`, `fhe4dmm`, `bae`, `zn`, `secret_network_model` and `report.e2dm_statements`, as such.
"""

from .bae import run as run_bae
from .bootstrap import run as run_bootstrap
from .cc import run as run_cc
from .crossover import run as run_crossover
from .distributed import run as run_distributed
from .e2dm_study import run as run_e2dm_study
from .fame_baselines import run as run_fame_baselines
from .fhe4dmm import run as run_fhe4dmm
from .gemm import run as run_gemm
from .harness import MeasurementError, Row, render, to_json
from .libraries import run as run_peers
from .linear_transform import run as run_linear_transform
from .mambo import run as run_mambo
from .masks import run as run_masks
from .model import run as run_model
from .networks import run as run_networks
from .nn import run as run_nn
from .nn_counts import run as run_nn_counts
from .nn_published import run as run_nn_published
from .ntt import run as run_ntt
from .pc import run as run_pc
from .peers import PeerError
from .primitives import run as run_primitives
from .primitives import run_modular as run_modular_primitives
from .roofline import run as run_roofline
from .secret_network import run as run_secret_network
from .transpose import run as run_transpose
from .zn import run as run_zn

__all__ = [
    "MeasurementError",
    "PeerError",
    "Row",
    "render",
    "run_bae",
    "run_bootstrap",
    "run_cc",
    "run_crossover",
    "run_distributed",
    "run_e2dm_study",
    "run_fame_baselines",
    "run_fhe4dmm",
    "run_gemm",
    "run_linear_transform",
    "run_mambo",
    "run_masks",
    "run_model",
    "run_modular_primitives",
    "run_networks",
    "run_nn",
    "run_nn_counts",
    "run_nn_published",
    "run_ntt",
    "run_pc",
    "run_peers",
    "run_primitives",
    "run_roofline",
    "run_secret_network",
    "run_transpose",
    "run_zn",
    "to_json",
]
