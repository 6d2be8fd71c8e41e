"""What every room uses and what knows none of them: errors, arrays, memory, budgets of work, the BLAS."""
