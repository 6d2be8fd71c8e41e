"""The node tests of ONNX: which are computed, maxima among them, in the clear and encrypted; all others are refused."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case import node
from onnx.backend.test.loader import load_model_tests

import cipherblas as cb
from cipherblas.networks import TrainedNetwork
from tests.support.runs import Parties

COMPUTED = [
    "abs",
    "add_bcast",
    "atan",
    "averagepool_2d_default",
    "averagepool_2d_pads_count_include_pad",
    "averagepool_2d_precomputed_pads_count_include_pad",
    "averagepool_2d_precomputed_strides",
    "averagepool_2d_strides",
    "basic_conv_with_padding",
    "basic_conv_without_padding",
    "batchnorm_epsilon",
    "batchnorm_example",
    "clip",
    "clip_default_int8_max",
    "clip_default_int8_min",
    "clip_default_max",
    "clip_default_min",
    "conv_with_autopad_same",
    "conv_with_strides_and_asymmetric_padding",
    "conv_with_strides_no_padding",
    "conv_with_strides_padding",
    "cos",
    "cosh",
    "dropout_default",
    "dropout_default_ratio",
    "elu",
    "elu_default",
    "erf",
    "exp",
    "gelu_default_2",
    "gelu_tanh_2",
    "gemm_alpha",
    "gemm_beta",
    "gemm_default_no_bias",
    "gemm_default_scalar_bias",
    "gemm_default_single_elem_vector_bias",
    "gemm_default_vector_bias",
    "gemm_default_zero_bias",
    "gemm_transposeB",
    "globalaveragepool",
    "globalaveragepool_precomputed",
    "globalmaxpool",
    "globalmaxpool_precomputed",
    "hardsigmoid",
    "hardsigmoid_default",
    "hardswish",
    "hardswish_expanded",
    "leakyrelu",
    "leakyrelu_default",
    "matmul_2d",
    "maxpool_1d_default",
    "maxpool_2d_ceil",
    "maxpool_2d_ceil_output_size_reduce_by_one",
    "maxpool_2d_default",
    "maxpool_2d_precomputed_pads",
    "maxpool_2d_precomputed_same_upper",
    "maxpool_2d_precomputed_strides",
    "maxpool_2d_same_lower",
    "maxpool_2d_same_upper",
    "maxpool_2d_strides",
    "maxpool_2d_uint8",
    "neg",
    "relu",
    "selu",
    "selu_default",
    "sigmoid",
    "sin",
    "sinh",
    "softplus",
    "softsign",
    "sub_bcast",
    "tanh",
    "thresholdedrelu",
    "thresholdedrelu_default",
]
# … and by which module of ONNX they are made.
ENCRYPTED = {
    "averagepool_2d_pads_count_include_pad": "averagepool",
    "basic_conv_with_padding": "conv",
    "batchnorm_example": "batch_normalization",
    "elu": "elu",
    "gemm_alpha": "gemm",
    "conv_with_strides_and_asymmetric_padding": "conv",
    "globalaveragepool": "globalaveragepool",
    "sigmoid": "sigmoid",
}


class Case(NamedTuple):
    """A file whose inputs but the first are constants, with input and result."""

    content: bytes
    given: np.ndarray
    wanted: np.ndarray

    @property
    def network(self) -> TrainedNetwork:
        return cb.networks.from_onnx(self.content, maxpool="exact")


def of_arrays(case: Any) -> Case | None:
    """The case, where inputs and results are arrays."""
    given, wanted = case.data_sets[0]
    arrays = [*given, *wanted]
    if not given or not wanted or not all(isinstance(one, np.ndarray | np.generic) for one in arrays):
        return None
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for info, values in list(zip(model.graph.input, given, strict=False))[1:]:
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(values), info.name))
    return Case(model.SerializeToString(), np.asarray(given[0]), np.asarray(wanted[0]))


def cases(*modules: str) -> dict[str, Case]:
    """By name, without "test_": those of some modules of ONNX, which computes them as it is imported, or all."""
    for name in modules:
        importlib.import_module(f"{node.__name__}.{name}")
    known = node._NodeTestCases if modules else load_model_tests(kind="node")
    found = {case.name.removeprefix("test_"): of_arrays(case) for case in known}
    return {name: case for name, case in found.items() if case is not None}


@pytest.mark.encrypted
@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
@pytest.mark.parametrize("name", ENCRYPTED)
def test_encrypted(name: str) -> None:
    case = cases(ENCRYPTED[name])[name]
    network, given, wanted = case.network, case.given, case.wanted
    program = network.compile(
        given,
        degree=31,
        bound=float(np.abs(given).max()),
        error=0.05,
        security=0,
        insecure=True,
        ring_degree=4096,
    )
    parties = Parties(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs({"x": given[0]})))
    assert np.abs(found - wanted[0].reshape(found.shape)).max() <= program.plan.error <= 0.05


def test_all_are_computed_or_refused() -> None:
    """In one test: ONNX takes seconds to compute the cases. Others than those above are refused with an error of ours,
    or leave the end to the client; no other result differs."""
    computed = set()
    for name, case in cases().items():
        try:
            network = case.network
        except (cb.UnsupportedNodeError, cb.FormatError):
            continue
        if network.left_out:
            continue
        found, wanted = network(case.given), case.wanted
        near = {"rtol": 1e-4, "atol": 1e-5} if name in COMPUTED else {"rtol": 1e-2, "atol": 1e-2}
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, **near, err_msg=name)
        computed.add(name)
    assert set(COMPUTED) <= computed
