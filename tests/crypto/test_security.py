"""The security table is the published one, and is enforced."""

from __future__ import annotations

import warnings

import pytest

from cipherblas.common.errors import InsecureParametersWarning, ParameterError, SecurityError, SecurityWarning
from cipherblas.crypto import security

# Bossuat et al. 2024, ternary secrets, classical: (security, log2 N, largest log2(QP)).
PUBLISHED = [
    *[(128, 10 + row, bound) for row, bound in enumerate([26, 53, 106, 214, 430, 868, 1747, 3523])],
    *[(192, 10 + row, bound) for row, bound in enumerate([17, 36, 73, 147, 297, 597, 1199, 2411])],
    *[(256, 10 + row, bound) for row, bound in enumerate([13, 27, 56, 114, 230, 462, 929])],
]


@pytest.mark.parametrize(("level", "log_n", "bound"), PUBLISHED)
def test_table(level: int, log_n: int, bound: int) -> None:
    assert security.max_log_qp(1 << log_n, level) == bound
    assert security.check(1 << log_n, bound, level) == level
    with pytest.raises(SecurityError, match=f"{level}-bit") as caught:
        security.check(1 << log_n, bound + 0.01, level)
    assert str(bound) in str(caught.value.expected)
    assert str(bound) in str(caught.value.got)


@pytest.mark.parametrize("log_n", [3, 8, 9])
@pytest.mark.parametrize("level", [128, 192, 256])
def test_small_rings_are_never_secure(log_n: int, level: int) -> None:
    assert security.max_log_qp(1 << log_n, level) == 0
    with pytest.raises(SecurityError):
        security.check(1 << log_n, 10, level)


def test_beyond_the_table_the_bound_of_the_smaller_ring_holds() -> None:
    assert security.max_log_qp(1 << 17, 256) == 929


@pytest.mark.parametrize("level", [0, 1, 80, 127, 129, -128])
def test_unknown_levels(level: int) -> None:
    with pytest.raises(ParameterError):
        security.max_log_qp(1 << 14, level)
    with pytest.raises((ParameterError, SecurityError)):
        security.check(1 << 14, 100, level)


def test_insecure_must_be_asked_for_and_warns() -> None:
    with pytest.raises(SecurityError):
        security.check(1 << 12, 107, 128)
    with pytest.raises(SecurityError):
        security.check(1 << 12, 107, 0)
    with pytest.warns(InsecureParametersWarning, match="nothing encrypted with them is protected"):
        assert security.check(1 << 12, 107, 128, insecure=True) == 0
    with pytest.warns(SecurityWarning):
        assert security.check(1 << 12, 107, 0, insecure=True) == 0


def test_insecure_says_what_is_reached() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # 128 bits are reached: no warning
        assert security.check(1 << 13, 200, 256, insecure=True) == 128
        assert security.check(1 << 13, 140, 256, insecure=True) == 192
        assert security.check(1 << 13, 200, 128, insecure=True) == 128
