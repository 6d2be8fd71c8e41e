"""The scripts of scripts/, as modules."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from tests.support import documents


def script(name: str) -> ModuleType:
    """The module that scripts/NAME.py is."""
    path = documents.ROOT / "scripts" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module
