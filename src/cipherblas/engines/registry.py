"""Every engine by its name: that of the processor, those that are registered from outside, and those that other
distributions bring: each entry point of the group `cipherblas.engines` is one, and names what makes it of parameters.
"""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from typing import Any

from cipherblas.common.errors import DTypeError, ParameterError, StorageError
from cipherblas.crypto.params import Parameters
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.protocol import Engine, MakeEngine

CPU = "cpu"
GROUP = "cipherblas.engines"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ENGINES: dict[str, MakeEngine] = {CPU: CpuEngine}


def engine_names() -> list[str]:
    """Of all engines, that of the processor first, those of other distributions last."""
    return list(dict.fromkeys([*_ENGINES, *sorted(entry_points(group=GROUP).names)]))


def maker_of(name: str) -> MakeEngine:
    """Return the function that makes engines of a name.

    Raises:
        ParameterError: there is none of that name.
        StorageError: the distribution that has it cannot be loaded.
    """
    if name in _ENGINES:
        return _ENGINES[name]
    for point in entry_points(group=GROUP, name=name):
        try:
            found: MakeEngine = point.load()
        except Exception as error:  # of any kind: it is code of others
            raise StorageError(
                f"The engine {name!r} cannot be loaded.",
                advice="install its distribution again, of the version of cipherblas",
                cause=f"it raised {type(error).__name__}: {error}.",
            ) from error
        return found
    raise ParameterError("There is no such engine.", expected=" | ".join(engine_names()), got=name)


def engine_of(name: str, params: Parameters) -> Engine:
    """A new engine for parameters.

    Raises:
        ParameterError: there is none of that name.
        StorageError: the distribution that has it cannot be loaded.
    """
    return maker_of(name)(params)


def register_engine(name: str, make: MakeEngine) -> None:
    """Register an engine for `Program.server(keys, engine=name)`; it must offer every call of `protocol.Engine`.

    Args:
        name: lower-case letters, digits, and . _ - inside; what is registered again replaces what was.
        make: called with the parameters of a program for every server.

    Raises:
        ParameterError: the name is not valid, or the built-in engine has it.
        DTypeError: `make` cannot be called.
    """
    given: Any = name
    if not isinstance(given, str) or not _NAME.fullmatch(given) or given == CPU:
        raise ParameterError(
            "An engine cannot have this name.", expected=f"{_NAME.pattern}, not {CPU!r}", got=repr(name)
        )
    if not callable(make):
        raise DTypeError(
            "An engine is registered by its class, or by what makes one.",
            expected="a class, or what makes one of parameters",
            got=repr(make),
        )
    _ENGINES[name] = make


def unregister_engine(name: str) -> None:
    """Take an engine off again.

    Raises:
        ParameterError: none of that name was registered.
    """
    if name == CPU or name not in _ENGINES:
        outside = [other for other in _ENGINES if other != CPU]
        raise ParameterError(
            "No engine of this name was registered.", expected=" | ".join(outside) or "one", got=name
        )
    del _ENGINES[name]
