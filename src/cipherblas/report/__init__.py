"""What people see: notes and progress on stderr, tables, the picture of the demonstration."""

from cipherblas.planner.explain import duration, size
from cipherblas.report.accelerator import accelerator_figure, accelerator_tables, draw_accelerator
from cipherblas.report.crossover import draw_crossover
from cipherblas.report.display import Display
from cipherblas.report.figures import check_drawing
from cipherblas.report.markdown import FORM_NAMES, KIND_NAMES, crossover_markdown
from cipherblas.report.rates import machine_table
from cipherblas.report.tables import plan_table, print_json, stdout_console

__all__ = [
    "FORM_NAMES",
    "KIND_NAMES",
    "Display",
    "accelerator_figure",
    "accelerator_tables",
    "check_drawing",
    "crossover_markdown",
    "draw_accelerator",
    "draw_crossover",
    "duration",
    "machine_table",
    "plan_table",
    "print_json",
    "size",
    "stdout_console",
]
