"""What people see: notes and progress on stderr, tables, the picture of the demonstration."""

from cipherblas.planner.plan.explain import duration, size
from cipherblas.report.accelerator import accelerator_figure, accelerator_tables, draw_accelerator
from cipherblas.report.crossover import draw_crossover
from cipherblas.report.display import Display
from cipherblas.report.e2dm_picture import draw_e2dm_study
from cipherblas.report.e2dm_statements import statements_markdown
from cipherblas.report.e2dm_study import STAGES, e2dm_markdown
from cipherblas.report.figures import check_drawing
from cipherblas.report.markdown import FORM_NAMES, KIND_NAMES, crossover_markdown
from cipherblas.report.peers import draw_peers, peers_markdown
from cipherblas.report.rates import machine_table
from cipherblas.report.tables import plan_table, print_json, print_markdown, stdout_console

__all__ = [
    "FORM_NAMES",
    "KIND_NAMES",
    "STAGES",
    "Display",
    "accelerator_figure",
    "accelerator_tables",
    "check_drawing",
    "crossover_markdown",
    "draw_accelerator",
    "draw_crossover",
    "draw_e2dm_study",
    "draw_peers",
    "duration",
    "e2dm_markdown",
    "machine_table",
    "peers_markdown",
    "plan_table",
    "print_json",
    "print_markdown",
    "size",
    "statements_markdown",
    "stdout_console",
]
