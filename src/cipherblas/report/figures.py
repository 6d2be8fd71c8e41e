"""Figures by matplotlib, which the extra `plot` brings: imported where a picture is drawn, and nowhere else."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from cipherblas.common.errors import StorageError
from cipherblas.crypto import files


def check_drawing() -> None:
    """Raise StorageError where matplotlib is not installed: called before the work that a picture is of."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise StorageError(
            "The package matplotlib, which draws pictures, is not installed.",
            advice="pip install matplotlib",
            cause=f"{error}.",
        ) from error


def new_figure(width: float, height: float) -> Any:
    """An empty figure of this many inches, laid out so that nothing overlaps; no display is needed.

    Raises:
        StorageError: matplotlib is not installed.
    """
    check_drawing()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_png(path: Path, figure: Any) -> None:
    """Write the figure, whole or not at all; StorageError where the system refuses."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    files.save_bytes(path, buffer.getvalue())
