"""Commands that run in this process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from typer.testing import CliRunner, Result

Invoke = Callable[..., Any]


def call(*arguments: object) -> Result:
    """Run a command in this process, with its stdout and stderr apart."""
    from cipherblas.cli.app import app

    before_click_82 = "mix_stderr" in inspect.signature(CliRunner).parameters
    runner = CliRunner(**({"mix_stderr": False} if before_click_82 else {}))
    return runner.invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> Result:
    result = call(*arguments)
    assert result.exit_code == 0, result.stderr or repr(result.exception)
    return result
