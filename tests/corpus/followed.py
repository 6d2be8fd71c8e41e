"""How advice is followed that says what the program should be: by program of the corpus and what is advised."""

from __future__ import annotations

from typing import Any

from .case import P, S

UNITS = "bound=… of entries in other units: 1 where the client divides them by the largest one"
FRACTIONS = "whole constants and factors, and sums in place of means; divide the decrypted result"
FIXED = "fixed_point=… of the operands: means and fractions are exact"
SUMS = "@, +, -, * of operands, their transposes and slices, and whole numbers"
CLEAR = "a result of secret operands; NumPy computes what is clear"
NEAR, NEAR_X = "cb.assume(a - W(8, 8), 0.001)", "cb.assume(x - W(8, 8), 0.001)"
ROWS = [[((7 * row + 3 * place) % 17 - 8) / 8 for place in range(8)] for row in range(12)]

FOLLOWED: dict[str, dict[str, dict[str, Any]]] = {
    "bounds/beyond floats": {UNITS: {"operands": {"a": S(4, 4, bound=1)}}},
    "bounds/not positive": {UNITS: {"operands": {"a": S(8, 8, bound=1), "b": S(8, 8)}}},
    "clear/int64": {
        "dtype=np.int32, or np.float64 for larger numbers": {
            "operands": {"a": P(4, 10, dtype="int32"), "b": S(10, 3)}
        },
        "dtype='int64', exact=True of a secret operand: exact integers": {
            "operands": {"a": P(4, 10, dtype="int8"), "b": S(10, 3, dtype="int64", exact=True)}
        },
        "dtype='int64', bound=2**52 of a clear one": {
            "operands": {"a": P(4, 10, dtype="int64", bound=2.0**52), "b": S(10, 3)}
        },
    },
    "assumed/of a clear node": {
        "bound=… where the clear operand is declared": {
            "formula": "p @ a",
            "operands": {"a": S(8, 8), "p": P(8, 8, bound=1.0)},
        }
    },
    "modular/half": {FRACTIONS: {"formula": "2 * a"}},
    "modular/function": {
        SUMS: {"formula": "a * a"},
        "operands without modulus=…: real numbers have functions": {"operands": {"a": S(8, 8)}},
    },
    "modular/two moduli": {
        "cb.secret(…, modulus=65537) for 'b'": {
            "operands": {"a": S(8, 8, modulus=65537), "b": S(8, 8, modulus=65537)}
        }
    },
    "modular/slots of small rings alone": {
        "modulus=65537: 40961 has slots up to N = 4096 alone, this one up to N = 16384": {
            "operands": {"a": S(8, 8, modulus=65537)}
        },
        "fewer products one after another": {"formula": "a ** 2"},
    },
    "modular/precision": {"cb.compile(…) without precision=": {"options": {}}},
    "exact/fractions": {
        FRACTIONS: {"formula": "a @ b"},
        FIXED: {"operands": {name: S(16, 16, bound=4, fixed_point=4) for name in "ab"}},
        "operands without exact=True": {
            "operands": {"a": S(16, 16, dtype="int8"), "b": S(16, 16, dtype="int8")}
        },
    },
    "exact/mean": {
        FRACTIONS: {"formula": "cb.sum(a * a, axis=0)"},
        FIXED: {"operands": {"a": S(8, 8, bound=4, fixed_point=4)}},
        "operands without exact=True": {"operands": {"a": S(8, 8, dtype="int8")}},
    },
    "exact/comparison": {
        SUMS: {"formula": "a * a"},
        "operands without exact=True": {"operands": {"a": S(8, 8, dtype="int8")}},
    },
    "exact/refresh of int64": {
        SUMS: {"formula": "a * a * a"},
        "operands without exact=True: real numbers have functions": {"operands": {"a": S(8, 8)}},
    },
    "exact/promise of int64": {
        "a smaller bound=… of the operands": {"operands": {"a": S(8, 8, dtype="int64", exact=True, bound=3)}},
    },
    "exact/modulo 2^64, too large": {
        "modulus=4610278716557623297, a product of primes with slots: modulo such numbers programs wrap around": {
            "operands": {"a": S(8, 8, modulus=4610278716557623297)}
        },
    },
    "modular/mean": {
        "divisor_override=1, for sums over windows; divide the decrypted result": {
            "formula": "cb.avg_pool2d(x, 2, divisor_override=1)"
        },
    },
    "exact/too large": {
        "a smaller bound=… of the operands": {
            "operands": {"a": S(8, 8, dtype="int64", exact=True, bound=100)}
        },
        "modulus=…, modulo which results wrap around": {"operands": {"a": S(8, 8, modulus=65537)}},
    },
    "exact/fixed point beside real numbers": {
        "cb.secret(…, fixed_point=10) for 'y'": {
            "operands": {"x": S(8, fixed_point=10), "y": S(8, fixed_point=10)}
        }
    },
    "refused/inner lengths differ": {
        "a @ b.T": {"formula": "a @ b.T"},
        "a.T @ b": {"formula": "a.T @ b"},
    },
    "refused/shapes of a sum": {"b.T": {"formula": "a + b.T"}},
    "refused/constant that cannot be broadcast": {
        "equal lengths, or 1 where values are repeated": {"formula": "a * W(8, 1)"}
    },
    "refused/empty operand": {"1 or more": {"operands": {"a": S(1, 9), "b": S(9, 8)}}},
    "refused/filters of another depth": {
        "filters of shape (4, 1, 3, 3)": {"formula": "cb.conv2d(x, W(4, 1, 3, 3))"}
    },
    "refused/a vector as filters": {
        "clear values of 4 dimensions: outputs, inputs, height, width": {
            "formula": "cb.conv2d(x, W(4, 1, 3, 3))"
        }
    },
    "refused/polynomial of degree 256": {
        "at most 256 coefficients, and two or more": {"formula": "cb.polynomial(x, [1.0] * 65)"}
    },
    "refused/no secret": {
        "cb.secret(…) for what is to be encrypted": {"operands": {"a": S(8, 8), "b": P(8, 8)}}
    },
    "refused/clear result": {CLEAR: {"formula": "a + p"}},
    "refused/operand without use": {"operands without it": {"operands": {"a": S(8, 8)}}},
    "refused/constant that is not finite": {"a finite number": {"formula": "a * 2.0"}},
    "refused/division by zero": {"a divisor other than 0": {"formula": "a / 2"}},
    "refused/text in a formula": {
        "an operand of the program, a number or an array of NumPy": {"formula": "a @ W(8, 8)"}
    },
    "scale/beyond two primes": {
        "cb.assume(x - c, spread), where entries of x are within a spread of a clear number c": {
            "formula": f"(1 - 0.9 * W(8, 8) ** 2) * {NEAR_X} - 0.9 * W(8, 8) * {NEAR_X} ** 2 - 0.3 * {NEAR_X} ** 3"
        }
    },
    "refresh/too precise": {
        "cb.assume(a - c, spread), where entries of a are within a spread of a clear number c": {
            "formula": f"W(8, 8) * W(8, 8) + cb.refresh({NEAR} * {NEAR} + 2 * W(8, 8) * {NEAR})"
        }
    },
    "vector/two layers of relu, too precise": {
        "samples={name: array, …}, inputs of the kind that comes: errors are then found on them": {
            "options": {"precision": 2e-4, "samples": {"x": ROWS}}
        }
    },
    "several/one clear": {CLEAR: {"formula": "(a @ b,)"}},
}
