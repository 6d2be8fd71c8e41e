"""From one form to another."""
