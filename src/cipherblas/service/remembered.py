"""Addresses, tokens and known programs, in files of the user."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cipherblas.common.errors import ServiceError
from cipherblas.crypto import files

FOLDER = "CIPHERBLAS_CONFIG"


def configuration_folder() -> Path:
    """The folder of addresses, tokens and known programs."""
    home = os.environ.get("XDG_CONFIG_HOME", "") or Path.home() / ".config"
    return Path(os.environ.get(FOLDER, "") or Path(home) / "cipherblas")


def remembered(name: str) -> dict[str, Any]:
    """The values of a file of the folder; none where there is no such file."""
    path = configuration_folder() / name
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ServiceError(f"{path} cannot be read.", advice=f"remove {path}") from error
    return found if isinstance(found, dict) else {}


def remember(name: str, values: Mapping[str, Any]) -> None:
    """Add values to a file of the folder, which its owner alone can read."""
    configuration_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    content = json.dumps({**remembered(name), **values}, indent=1).encode()
    files.save_bytes(configuration_folder() / name, content, private=True)
