"""What the examples that classify images share, and the parts of `private_classification.py`."""
