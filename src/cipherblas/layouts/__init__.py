"""How matrices lie in slots."""

from cipherblas.layouts.base import Layout, SlotIndex
from cipherblas.layouts.blocks import grid_shape, join, split

__all__ = ["Layout", "SlotIndex", "grid_shape", "join", "split"]
