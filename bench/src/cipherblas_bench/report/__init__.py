"""What the benchmarks found: tables in Markdown, statements of papers beside it, pictures."""

from .crossover import draw_crossover
from .e2dm_picture import draw_e2dm_study
from .e2dm_statements import statements_markdown
from .e2dm_study import STAGES, e2dm_markdown
from .markdown import FORM_NAMES, KIND_NAMES, crossover_markdown
from .peers import draw_peers, peers_markdown

__all__ = [
    "FORM_NAMES",
    "KIND_NAMES",
    "STAGES",
    "crossover_markdown",
    "draw_crossover",
    "draw_e2dm_study",
    "draw_peers",
    "e2dm_markdown",
    "peers_markdown",
    "statements_markdown",
]
