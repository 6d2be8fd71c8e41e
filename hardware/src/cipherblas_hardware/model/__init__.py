"""A performance model of the accelerator: passes and bytes of the published product, counted without running it."""
