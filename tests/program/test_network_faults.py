"""What networks refuse: typed errors that name expected and got, before anything is planned."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import TOY, toy

IMAGE, VECTOR = cb.secret(2, 6, 6), cb.secret(6)
FILTERS = np.ones((4, 2, 3, 3))
TALL = np.ones((1, 2, 7, 1))
MATRIX = np.ones((3, 6))


def on_filters(**options: Any) -> Callable[[Any], Any]:
    return lambda x: cb.conv2d(x, FILTERS, **options)


BAD_LAYERS: list[tuple[type[cb.CipherblasError], str, Any, Callable[[Any], Any]]] = [
    # weights
    (cb.ShapeError, r"4 dimensions.* got 3 \(shape \(2, 3, 3\)\)", IMAGE, lambda x: cb.conv2d(x, FILTERS[0])),
    (cb.ShapeError, "none of them 0", IMAGE, lambda x: cb.conv2d(x, FILTERS[:0])),
    (cb.ShapeError, r"(?s)got 4x1x3x3.*filters of shape \(4, 2, 3, 3\)", IMAGE, lambda x: cb.conv2d(x, FILTERS[:, :1])),
    (cb.RangeError, r"Filters.* finite.*got NaN at \[0, 0, 0, 0\]", IMAGE, lambda x: cb.conv2d(x, FILTERS * np.nan)),
    (cb.RangeError, r"got an infinity at \[0, 0\]", VECTOR, lambda x: cb.matvec(MATRIX * np.inf, x)),
    (cb.DTypeError, "real numbers .got dtype complex128", IMAGE, lambda x: cb.conv2d(x, FILTERS * 1j)),
    (cb.DTypeError, "real numbers .got dtype object", IMAGE, lambda x: cb.conv2d(x, None)),
    (cb.ShapeError, "3x5 and 6.\n.*a right factor of 5 rows", VECTOR, lambda x: cb.matvec(MATRIX[:, :5], x)),
    (cb.ShapeError, "2 dimensions", VECTOR, lambda x: cb.matvec(MATRIX[0], x)),
    # groups
    (cb.ShapeError, "(?s)got 3.*divisor of 2 input and 4 output channels", IMAGE, on_filters(groups=3)),
    (cb.ShapeError, "(?s)got 0.*divisor of 2 input and 4 output channels", IMAGE, on_filters(groups=0)),
    (cb.ShapeError, r"(?s)2 groups .got 4x2x3x3.*filters of shape \(4, 1, 3, 3\)", IMAGE, on_filters(groups=2)),
    (cb.DTypeError, "groups must be an integer .got 2.0", IMAGE, on_filters(groups=2.0)),
    # bias
    (cb.ShapeError, r"(?s)bias needs .*got 3.*of shape \(4,\)", IMAGE, on_filters(bias=np.ones(3))),
    (cb.RangeError, r"bias.*got NaN at \[1\]", IMAGE, on_filters(bias=[0, np.nan, 0, 0])),
    # stride and padding
    (cb.DTypeError, "stride must be an integer .got 1.5", IMAGE, on_filters(stride=1.5)),
    (cb.DTypeError, "stride must be an integer .got True", IMAGE, on_filters(stride=True)),
    (cb.DTypeError, "stride must be an integer .got None", IMAGE, on_filters(stride=None)),
    (cb.DTypeError, "stride must be one or two integers .got '11'", IMAGE, on_filters(stride="11")),
    (cb.ShapeError, r"stride must be one or two integers .got \(1, 1, 1\)", IMAGE, on_filters(stride=(1, 1, 1))),
    (cb.ShapeError, r"positive filter and stride.* stride \(0, 0\)", IMAGE, on_filters(stride=0)),
    (cb.ShapeError, "(?s)stride is too large.*at most 16777216", IMAGE, on_filters(stride=10**30)),
    (cb.ShapeError, "(?s)padding is too large.*at most 16777216", IMAGE, on_filters(padding=10**30)),
    (cb.ShapeError, "(?s)padding is larger than the image .got 7.*padding=6", IMAGE, on_filters(padding=7)),
    (cb.ShapeError, "no negative padding.*got .*-1", IMAGE, on_filters(padding=(0, -1))),
    (cb.ParameterError, '(?s)got \'full\'.*"same", "valid"', IMAGE, on_filters(padding="full")),
    (cb.ShapeError, r'"same" needs stride 1.*got stride \(2, 2\)', IMAGE, on_filters(padding="same", stride=2)),
    (cb.ShapeError, "odd size.*got .*filter 2x3", IMAGE, lambda x: cb.conv2d(x, FILTERS[:, :, :2], padding="same")),
    (cb.ShapeError, r"(?s)7x1, is larger than .*padding=\(1, 0\)", IMAGE, lambda x: cb.conv2d(x, TALL)),
    # pooling and flattening
    (cb.ShapeError, r"at most half of it.*got \(2, 2\)", IMAGE, lambda x: cb.avg_pool2d(x, 2, padding=2)),
    (cb.ShapeError, "7x7, is larger than the padded image", IMAGE, lambda x: cb.avg_pool2d(x, 7)),
    (cb.ShapeError, r"got filter \(0, 0\)", IMAGE, lambda x: cb.avg_pool2d(x, 0)),
    (cb.DTypeError, "window of a pooling layer must be an integer .got 2.5", IMAGE, lambda x: cb.avg_pool2d(x, 2.5)),
    (cb.ShapeError, "(?s)pooling layer .*got 6.*of 3 dimensions", VECTOR, lambda x: cb.avg_pool2d(x, 2)),
    (cb.ShapeError, "(?s)convolution .*got 6.*of 3 dimensions", VECTOR, lambda x: cb.conv2d(x, FILTERS)),
    (cb.ShapeError, r"(?s)flatten .*got 2x3.*reshape\(1, 2, 3\)", cb.secret(2, 3), lambda x: cb.flatten(x)),
    (cb.DTypeError, "a node of the program.*got list", VECTOR, lambda x: x + cb.flatten([[1.0]])),
    (cb.ShapeError, "(?s)got 2x6x6.*a vector", IMAGE, lambda x: cb.matvec(np.ones((3, 72)), x)),
    (cb.ShapeError, "a matrix or a vector.*got 2x6x6", IMAGE, lambda x: x.T),
    # polynomials
    (cb.ParameterError, "(?s)got 0.*256 coefficients", VECTOR, lambda x: cb.polynomial(x, [1.0])),
    (cb.ParameterError, "(?s)got 0.*256 coefficients", VECTOR, lambda x: cb.polynomial(x, [1.0, 0.0])),
    (cb.ParameterError, "(?s)got 0.*256 coefficients", VECTOR, lambda x: cb.polynomial(x, [])),
    (cb.ParameterError, "(?s)got 256.*256 coefficients", VECTOR, lambda x: cb.polynomial(x, [1.0] * 257)),
    (cb.RangeError, "must be finite .got inf", VECTOR, lambda x: cb.polynomial(x, [1.0, np.inf])),
    (cb.RangeError, "a double.*got more than", VECTOR, lambda x: cb.polynomial(x, [1, 10**400])),
    (cb.DTypeError, "a number.*got str", VECTOR, lambda x: cb.polynomial(x, [1.0, "a"])),
    (cb.DTypeError, "numbers in order.*got int", VECTOR, lambda x: cb.polynomial(x, 3)),
    (cb.RangeError, "bound", cb.secret(6, bound=1e100), lambda x: cb.polynomial(x, [0.0] * 64 + [1.0])),
    (cb.DTypeError, "a node of the program.*got ndarray", VECTOR, lambda x: x + cb.square(np.ones(6))),
    (cb.DTypeError, "a node of the program.*got ndarray", VECTOR, lambda x: x + cb.polynomial(np.ones(6), [0, 1])),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "operand", "function"), BAD_LAYERS)
def test_layers(kind: Any, text: str, operand: Any, function: Any) -> None:
    with pytest.raises(kind, match=text):
        cb.compile(function, {"x": operand})


def test_operands_that_are_secret_or_clear_in_the_wrong_place() -> None:
    with pytest.raises(cb.ShapeError, match=r"(?s)got 5.*cb.secret\(images, channels, height, width\)"):
        cb.secret(4, 2, 3, 3, 3)
    with pytest.raises(cb.DTypeError, match=r"(?s)bias .*must be an array.*reshape\(-1, 1, 1\)"):
        cb.compile(lambda x, b: cb.conv2d(x, FILTERS, b), {"x": IMAGE, "b": cb.public(4)})
    with pytest.raises(cb.ShapeError, match=r"(?s)filters of a convolution .*got 4x2.*of 4 dimensions"):
        cb.compile(lambda x, w: cb.conv2d(x, w), {"x": IMAGE, "w": cb.public(4, 2)})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"form": "rows"}, "no method by rows for square 6x1"),
        ({"algorithm": "gemm"}, "no method by rows for square 6x1"),
        ({"algorithm": "fame"}, "expected metakernel .* got fame"),
        ({"block": 4}, "does not take block="),
        ({"options": {"ends": "both"}}, "does not take options="),
    ],
)
def test_options(options: Any, text: str) -> None:
    with pytest.raises(cb.ParameterError, match=text):
        cb.compile(lambda x: cb.square(x), {"x": VECTOR}, **options)


def test_the_form_of_layers_is_not_for_matrices() -> None:
    with pytest.raises(cb.ParameterError, match="clear weights and an encrypted factor on their right"):
        cb.compile(lambda x: x @ np.eye(6), {"x": cb.secret(6, 6)}, form="tensors")


def test_images_that_do_not_fit() -> None:
    wide = np.ones((1, 1, 3, 3))
    with pytest.raises(cb.ShapeError, match=r"one ciphertext .expected at most 2048 slots.*got 5000"):
        cb.compile(lambda x: cb.conv2d(x, wide, padding=1), {"x": cb.secret(1, 3, 5000)}, **TOY)
    with pytest.raises(cb.ShapeError, match=r"at most 65536 slots.*got 131072"):
        cb.compile(lambda x: cb.conv2d(x, wide, padding=1), {"x": cb.secret(1, 2, 1 << 17)})


@functools.cache
def made() -> tuple[cb.Program, cb.Client]:
    program = toy(lambda x, w: cb.conv2d(x, w), x=IMAGE, w=cb.public(4, 2, 3, 3))
    return program, program.client()


@pytest.mark.parametrize(
    ("name", "value", "kind", "text"),
    [
        ("w", np.ones((4, 2, 3)), cb.ShapeError, "an array of 4 dimensions"),
        ("w", np.ones((4, 2, 3, 2)), cb.ShapeError, "4x2x3x3|4, 2, 3, 3"),
        ("w", np.full((4, 2, 3, 3), np.nan), cb.RangeError, "finite"),
        ("w", np.full((4, 2, 3, 3), 1.5), cb.RangeError, "1"),
        ("x", np.ones((2, 6, 5)), cb.ShapeError, "6"),
        ("x", np.ones((2, 36)), cb.ShapeError, "dimensions"),
        ("x", np.full((2, 6, 6), 2.0), cb.RangeError, "1"),
    ],
)
def test_values_that_are_not_as_declared(name: str, value: Any, kind: Any, text: str) -> None:
    program, client = made()
    server = program.server(client.evaluation_keys())
    x = client.encrypt({"x": np.ones((2, 6, 6))})["x"]
    with pytest.raises(kind, match=text):
        client.encrypt({"x": value})["x"] if name == "x" else server.run({"x": x, "w": value})
