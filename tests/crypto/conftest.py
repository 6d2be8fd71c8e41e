"""Makes the samples of this folder importable: with --import-mode=importlib, pytest itself does not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
