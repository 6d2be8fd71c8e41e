"""Networks from files of other frameworks, as encrypted programs."""

from cipherblas.networks.network import NetworkCheck, TrainedNetwork
from cipherblas.networks.onnx_file import from_onnx

__all__ = ["NetworkCheck", "TrainedNetwork", "from_onnx"]
