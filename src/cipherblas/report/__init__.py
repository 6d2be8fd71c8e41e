"""What people see: notes and progress on stderr, tables, the pictures of a demonstration and of a program."""

from cipherblas.planner.plan.explain import duration, size
from cipherblas.report.display import Display
from cipherblas.report.figures import check_drawing
from cipherblas.report.rates import machine_line, machine_table
from cipherblas.report.tables import plan_table, print_json, print_markdown, stdout_console

__all__ = [
    "Display",
    "check_drawing",
    "duration",
    "machine_line",
    "machine_table",
    "plan_table",
    "print_json",
    "print_markdown",
    "size",
    "stdout_console",
]
