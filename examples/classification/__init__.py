"""The parts of `private_classification.py`: images, models, encrypted scores, picture."""
