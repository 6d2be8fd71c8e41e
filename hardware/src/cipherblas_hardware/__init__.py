"""A performance model of FAME's accelerator: the published product, by an interpreter that writes down operations.

`run_fame_model` yields rows of it, beside those of a CPU where they are given.
"""

from .model.configuration import CONFIGURATIONS, Configuration
from .model.fame_model import run as run_fame_model
from .model.operations import Program, published_program
from .model.performance import Accelerator, Latency

__all__ = [
    "CONFIGURATIONS",
    "Accelerator",
    "Configuration",
    "Latency",
    "Program",
    "published_program",
    "run_fame_model",
]
