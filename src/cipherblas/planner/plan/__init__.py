"""What a plan is: options, decisions, figures, what `explain()` says of them."""
