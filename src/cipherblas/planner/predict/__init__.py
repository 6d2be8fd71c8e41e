"""What a machine takes for a program: rates, counts, seconds, errors."""
