"""What a user writes: operands, operations, and the graph that they make."""
