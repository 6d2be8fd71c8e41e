"""A residual network on encrypted images."""
