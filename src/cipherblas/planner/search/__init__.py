"""The search over forms, methods, blocks and ring degrees."""
