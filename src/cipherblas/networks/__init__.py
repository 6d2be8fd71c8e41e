"""Networks from files of other frameworks, as encrypted programs."""

from cipherblas.networks.network import TrainedNetwork
from cipherblas.networks.onnx_file import from_onnx

__all__ = ["TrainedNetwork", "from_onnx"]
