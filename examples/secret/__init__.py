"""The parts of `secret_network.py`: the network, its training, its encrypted runs."""
