"""What people see: notes and progress on stderr, tables, the picture of the demonstration."""

from cipherblas.planner.explain import duration, size
from cipherblas.report.display import Display, Progress
from cipherblas.report.tables import plan_table, print_json

__all__ = ["Display", "Progress", "duration", "plan_table", "print_json", "size"]
