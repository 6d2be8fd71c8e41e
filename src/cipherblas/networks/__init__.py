"""Networks from files of other frameworks, as encrypted programs."""

from cipherblas.networks.network import TrainedNetwork
from cipherblas.networks.network_check import NetworkCheck, NetworkRuns
from cipherblas.networks.onnx_file import from_onnx
from cipherblas.networks.torch_module import from_torch

__all__ = ["NetworkCheck", "NetworkRuns", "TrainedNetwork", "from_onnx", "from_torch"]
