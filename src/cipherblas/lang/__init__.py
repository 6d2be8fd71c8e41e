"""What a user writes: operands, operations, and the graph that they make."""

from cipherblas.lang import (  # whoever imports a part of this room finds all operations entered
    layers,
    operations,
)

__all__ = ["layers", "operations"]
