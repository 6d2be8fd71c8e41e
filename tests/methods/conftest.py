"""Makes `harness` importable: tests run with importlib's import mode, which adds no folder to the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
