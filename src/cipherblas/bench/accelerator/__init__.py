"""A performance model of FAME's accelerator: the published product, by an interpreter that writes down operations."""

from .configuration import CONFIGURATIONS, Configuration
from .operations import Program, published_program
from .performance import Accelerator, Latency

__all__ = [
    "CONFIGURATIONS",
    "Accelerator",
    "Configuration",
    "Latency",
    "Program",
    "published_program",
]
