"""Products of matrices, one file per method, each written once against an evaluator."""
