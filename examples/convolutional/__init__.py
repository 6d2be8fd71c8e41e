"""The parts of `encrypted_cnn.py`: the network, its training, its encrypted runs."""
