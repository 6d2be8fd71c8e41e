"""Refusals of what a user writes, and how their advice is followed: formula → advice → the formula that it makes.

Operands: `x` of 4, `a`, `d` 4×4, `b` 4×6, `c` 3×5, `t` an image 1×6×6, `n` a number, `long` of 100000, `p` clear 4×4;
`batch` and `batch3` of two and three matrices 4×4; `A` a clear array 4×4, `W(…)` clear values of a shape.
"""

from __future__ import annotations

NODE = "an operand or a result of the program; NumPy computes what is clear"
FINITE = "interval=(low, high), promised=True, where the function is finite and no entry is outside"
NUMBER = "a number, as 0.5 or np.float64(0.5)"
CLIENT = "the decrypted result on the client"
PAIR = "1, or (1, 2) for height and width"
CONV = "cb.conv2d(t, W(2, 1, 3, 3))"
ONE_OR_MORE = "a list of one array or more"
LONGER = "1 to 268435456 entries along at most 4 axes"
UNITS = "bound=… of entries in other units: 1 where the client divides them by the largest one"
NORMALISE = "normalise=(mean, deviation), two numbers, or one of each for every channel"
SPREAD = "cb.chebyshev(np.log, x, degree=5, interval=(0.5, 1), promised=True)"
TANH = "cb.chebyshev(np.tanh, x, degree=3)"

WRITTEN: dict[str, dict[str, str]] = {
    # functions
    "cb.tanh(A)": {NODE: "x * np.tanh(A[0])"},
    "cb.tanh(cb.secret(4))": {
        "the parameter of the function that is compiled, in place of the operand declared for it": "cb.tanh(x)"
    },
    "cb.tanh('x')": {"an operand or a result of the program": "cb.tanh(x)"},
    "cb.sign(A, margin=0.5)": {NODE: "x * np.sign(A[0])"},
    "cb.chebyshev(np.log, x, degree=5)": {FINITE: SPREAD},
    "cb.chebyshev(math.log, x, degree=5)": {FINITE: SPREAD.replace("np", "math")},
    "cb.chebyshev(lambda t: 10**400 if t else 0, x, degree=5)": {FINITE: SPREAD},
    "cb.chebyshev(lambda t: {0: 1}[t], x, degree=5)": {
        "a function of one number, or of an array of numbers: np.tanh, or lambda t: t / (1 + t * t)": (
            "cb.chebyshev(lambda t: t / (1 + t * t), x, degree=5)"
        )
    },
    "cb.chebyshev(lambda t: 'no' + str(t), x, degree=5)": {
        "a function that returns one number for each, as np.tanh does": TANH
    },
    "cb.chebyshev(lambda t: 1e308 * t, x, degree=3)": {
        "a function of smaller values, multiplied by a number afterwards": (
            "1e150 * cb.chebyshev(lambda t: t, x, degree=3)"
        )
    },
    "cb.chebyshev(np.abs, x, precision=1e-9)": {
        "precision=0.0033 of the function": "cb.chebyshev(np.abs, x, precision=0.0033)"
    },
    "cb.chebyshev(np.tanh, x, interval=(-400, 400), precision=1e-9)": {
        "precision=0.43 of the function": "cb.chebyshev(np.tanh, x, interval=(-400, 400), precision=0.43)"
    },
    "cb.chebyshev(np.tanh, 40 * x, precision=1e-9)": {
        "precision=6.1e-05 of the function": "cb.chebyshev(np.tanh, 40 * x, precision=6.1e-5)",
        "cb.assume(x, bound), a smaller interval of its argument": (
            "cb.chebyshev(np.tanh, cb.assume(40 * x, 10), precision=1e-9)"
        ),
    },
    "cb.relu(x, precision=1e-6)": {"a coarser precision=…": "cb.relu(x, precision=1e-2)"},
    "cb.sign(x, margin=1e-8, precision=1e-6)": {
        "a larger margin=…": "cb.sign(x, margin=1e-3, precision=1e-6)",
        "cb.assume(x, bound), where its entries stay below": "cb.sign(cb.assume(x, 1e-6), margin=1e-8, precision=1e-6)",
    },
    "cb.chebyshev(np.tanh, x, interval=3)": {
        "interval=(low, high)": "cb.chebyshev(np.tanh, x, interval=(-3, 3))"
    },
    "cb.chebyshev(np.tanh, x, interval=(2, -2))": {
        "interval=(-2, 2)": "cb.chebyshev(np.tanh, x, interval=(-2, 2))"
    },
    "cb.chebyshev(np.tanh, x, interval=(2, 2))": {
        "interval=(low, high), low below high": "cb.chebyshev(np.tanh, x, interval=(-2, 2))"
    },
    "cb.chebyshev(np.tanh, x, interval=(0, 2))": {
        "promised=True, where no entry is outside of the interval": (
            "cb.chebyshev(np.tanh, x, interval=(0, 2), promised=True)"
        ),
        "cb.assume(x, bound), where its entries stay below": (
            "cb.chebyshev(np.tanh, cb.assume(x + 1, 1) - 0.0, interval=(-1, 2))"
        ),
    },
    "cb.chebyshev(np.tanh, x, interval=(None, 2))": {NUMBER: "cb.chebyshev(np.tanh, x, interval=(-2.0, 2))"},
    "cb.chebyshev(np.tanh, x, interval=(-np.inf, 2))": {
        "a finite number": "cb.chebyshev(np.tanh, x, interval=(-2, 2))"
    },
    "cb.chebyshev(np.tanh, x, degree='3')": {"an integer, as 1": "cb.chebyshev(np.tanh, x, degree=1)"},
    "cb.chebyshev(np.tanh, x, degree=3.0)": {"3": TANH},
    "cb.chebyshev(np.tanh, x, degree=300)": {
        "a degree from 1 to 255": "cb.chebyshev(np.tanh, x, degree=255)"
    },
    "cb.chebyshev(np.tanh, x, degree=3, precision=0.1)": {
        "degree=… alone, and the error is what it achieves": TANH,
        "precision=… alone": "cb.chebyshev(np.tanh, x, precision=0.1)",
    },
    "cb.tanh(x, precision=0)": {"a number above 0 and at most 1": "cb.tanh(x, precision=1.0)"},
    "cb.exp(1000 * x)": {
        "cb.exp(cb.assume(x, bound)), with a bound of at most 400 that its entries keep": (
            "cb.exp(cb.assume(1000 * x, 4))"
        )
    },
    "cb.inverse(x, lower=0)": {
        "lower=… above 0 and below 1, the bound of the argument": "cb.inverse(x, lower=0.1)"
    },
    "cb.sign(x, margin=1.5)": {"a margin below 1": "cb.sign(x, margin=0.1)"},
    "cb.sign(x, margin=0)": {"a number above 0": "cb.sign(x, margin=0.1)"},
    "cb.polynomial(x, 3)": {"a list [c0, c1, c2, …] for c0 + c1·x + c2·x² + …": "cb.polynomial(x, [0, 3])"},
    "cb.polynomial(x, ['a'])": {NUMBER: "cb.polynomial(x, [0.5, 0.5])"},
    "cb.polynomial(x, [1.0, np.nan])": {"a finite number": "cb.polynomial(x, [1.0, 1.0])"},
    "cb.polynomial(x, [1.0])": {"at most 256 coefficients, and two or more": "cb.polynomial(x, [1.0, 1.0])"},
    "cb.polynomial(1e8 * x, [1.0] * 65)": {
        "a polynomial of x / s, and coefficients times powers of s, with s the bound of x": (
            "cb.polynomial(1e8 * x / 1e8, [1e8**k for k in range(17)])"
        )
    },
    "cb.assume(x, '1')": {NUMBER: "cb.assume(x, 0.5)"},
    "cb.assume(x, 0)": {UNITS: "cb.assume(x, 1)"},
    "cb.assume(p, 1)": {"bound=… where the clear operand is declared": "a @ p"},
    "cb.refresh(p @ p)": {"the node itself, without cb.refresh": "a @ (p @ p)"},
    "cb.refresh(a)": {"the operand itself, without cb.refresh": "a @ a"},
    "cb.refresh(a @ a, rounds=3)": {
        "rounds=1": "cb.refresh(a @ a, rounds=1)",
        "rounds=2": "cb.refresh(a @ a, rounds=2)",
    },
    # images
    "cb.conv2d(t, W(2, 1, 3, 3), padding=9)": {"padding=6 at most": "cb.conv2d(t, W(2, 1, 3, 3), padding=6)"},
    "cb.conv2d(t, W(2, 1, 3, 3), padding='full')": {
        '"same", "valid", a number or two numbers': "cb.conv2d(t, W(2, 1, 3, 3), padding='same')"
    },
    "cb.conv2d(t, W(2, 1, 3, 3), padding='same', stride=2)": {
        "padding=(1, 1)": "cb.conv2d(t, W(2, 1, 3, 3), padding=(1, 1), stride=2)"
    },
    "cb.conv2d(t, W(2, 1, 3, 3), stride='1')": {PAIR: "cb.conv2d(t, W(2, 1, 3, 3), stride=1)"},
    "cb.conv2d(t, W(2, 1, 3, 3), stride=(1, 2, 3))": {PAIR: "cb.conv2d(t, W(2, 1, 3, 3), stride=(1, 2))"},
    "cb.conv2d(t, W(2, 1, 3, 3), stride=1.5)": {"an integer, as 1": CONV},
    "cb.conv2d(t, W(2, 1, 3, 3), stride=1 << 30)": {
        "an integer of at most 16777216 in absolute value": "cb.conv2d(t, W(2, 1, 3, 3), stride=1 << 24)"
    },
    "cb.conv2d(t, W(2, 1, 3, 3), stride=0)": {"stride=1, padding=0, and a filter of one entry or more": CONV},
    "cb.conv2d(t, W(2, 1, 3, 3), groups=2)": {
        "a divisor of 1 input and 2 output channels, or groups=1": "cb.conv2d(t, W(2, 1, 3, 3), groups=1)"
    },
    "cb.conv2d(t, W(2, 1, 9, 9))": {"padding=(2, 2)": "cb.conv2d(t, W(2, 1, 9, 9), padding=(2, 2))"},
    "cb.conv2d(t, W(2, 1, 90, 9))": {"a filter of at most 6x6": "cb.conv2d(t, W(2, 1, 6, 6))"},
    "cb.conv2d(t, W(2, 1, 3, 3), bias=np.ones(3))": {
        "an array of shape (2,)": "cb.conv2d(t, W(2, 1, 3, 3), bias=np.ones(2))"
    },
    "cb.conv2d(t, W(2, 1, 3, 3), bias=x[:2])": {
        "cb.conv2d(x, weights) + bias.reshape(-1, 1, 1)": CONV + " + x[:2].reshape(-1, 1, 1)"
    },
    "cb.conv2d(t, W(2, 2, 3, 3))": {"filters of shape (2, 1, 3, 3)": CONV},
    "cb.conv2d(t, W(3, 3))": {"an array of one entry or more and 4 dimensions": CONV},
    "cb.conv2d(t, p)": {"clear values of 4 dimensions: outputs, inputs, height, width": CONV},
    "cb.conv2d(a, W(2, 1, 3, 3))": {
        "x.reshape(1, 4, 4) for an image of one channel": "cb.conv2d(a.reshape(1, 4, 4), W(2, 1, 3, 3))"
    },
    "cb.conv2d(x, W(2, 1, 3, 3))": {"values of 3 dimensions: channels, height, width": CONV},
    "cb.matvec(A, a)": {"a vector": "cb.matvec(A, x)"},
    "cb.matvec(x, x)": {"a matrix": "cb.matvec(A, x)"},
    "cb.conv2d(t, t.reshape(1, 1, 6, 6))": {
        "an array of NumPy, or cb.public(outputs, inputs, height, width)": "cb.conv2d(t, W(1, 1, 6, 6))"
    },
    "cb.avg_pool2d(t, 3, divisor_override=0)": {
        "divisor_override=1, for sums": "cb.avg_pool2d(t, 3, divisor_override=1)"
    },
    "cb.avg_pool2d(t, 3, padding=2)": {"padding=(1, 1) at most": "cb.avg_pool2d(t, 3, padding=(1, 1))"},
    "cb.avg_pool2d(t, 13, padding=20)": {
        "padding=6 at most, the size of the image": "cb.avg_pool2d(t, 13, padding=6)"
    },
    # arrays
    "x.sum(axis=1.0)": {"1": "a.sum(axis=1)"},
    "x.sum(axis=True)": {"an integer, as 1": "a.sum(axis=1)"},
    "x.sum(axis=1)": {"an axis from -1 to 0": "x.sum(axis=0)"},
    "n.sum(axis=0)": {"the value itself: a number has no axes": "n * n"},
    "a.sum(axis=(0, 0))": {"axis=(0,)": "a.sum(axis=(0,))"},
    "a.reshape(3, 3)": {"lengths with the product 16, one of which may be -1": "a.reshape(2, -1)"},
    "a.reshape('a')": {"an integer, as 1": "a.reshape(-1)"},
    "a.reshape(2.0, 8)": {"2": "a.reshape(2, 8)"},
    "t.transpose(0, 1)": {"all 3 axes, or none to reverse them": "t.transpose(0, 2, 1)"},
    "t.T": {"x.transpose() for all axes in reversed order": "t.transpose()"},
    "a.squeeze(0)": {"x.squeeze() for all axes of length one, or x.sum(axis=…)": "a.squeeze()"},
    "a[9]": {"an index that NumPy takes of an array of shape (4, 4)": "a[3]"},
    "a[0:0]": {"an index that leaves an entry of an array of shape (4, 4)": "a[0:1]"},
    "a[x]": {
        "one_hot @ A, with an encrypted vector one_hot that is 1 at that place and 0 elsewhere": "x @ a"
    },
    "long[np.zeros(70000, int)]": {"slices, which have no limit, or at most 65536 entries": "long[:70000]"},
    "functools.reduce(lambda y, _: y[1:], range(65), long)": {
        "at most 64 slices and indices one after another; one index x[rows] stands for many": "long[65:]"
    },
    "x.diagonal()": {"cb.diag(x) for the matrix of a vector": "cb.diag(x)"},
    "t.diagonal()": {"a matrix of rows and columns": "a.diagonal()"},
    "a.diagonal(9)": {LONGER: "a.diagonal(3)"},
    "a.var(ddof=20)": {"ddof=0 or ddof=1": "a.var(ddof=1)"},
    "n.var(ddof=1)": {"ddof=0": "n.var(ddof=0)"},
    "t.cumsum(1)": {"x.reshape(rows, columns).cumsum(axis)": "t.reshape(6, 6).cumsum(1)"},
    "cb.matrix_power(b, 2)": {"x ** exponent for the power of every entry": "b**2"},
    "x**-1": {
        "cb.sqrt(x, lower=…), cb.inverse(x, lower=…), or cb.chebyshev(f, x) of another power f": (
            "cb.inverse(x, lower=0.1)"
        )
    },
    "cb.concatenate([])": {ONE_OR_MORE: "cb.concatenate([a])"},
    "cb.concatenate([a, c])": {"arrays of one width": "cb.concatenate([a, c[:, :4]])"},
    "cb.concatenate([a, c], axis=1)": {"arrays of one height": "cb.concatenate([a[:3], c], axis=1)"},
    "cb.concatenate([b, b.T])": {
        "the transpose x.T of those that lie the other way": "cb.concatenate([b, b.T.T])"
    },
    "cb.concatenate([a, x])": {
        "arrays of as many dimensions, x.reshape(…) for those of fewer, and of equal lengths along other axes": (
            "cb.concatenate([a, x.reshape(1, 4)])"
        )
    },
    "cb.stack([a, b])": {
        "cb.concatenate(parts, axis) of arrays of other lengths": "cb.concatenate([a, b], 1)"
    },
    "cb.stack([])": {ONE_OR_MORE: "cb.stack([a])"},
    "cb.where(x, 1.0, 2.0)": {
        "mask * x + (1 - mask) * y, with an encrypted mask of zeros and ones": "x * 1.0 + (1 - x) * 2.0"
    },
    "cb.where(A > 0, 1.0, 2.0)": {
        "np.where(mask, x, y), which NumPy computes: nothing of it is encrypted": "a * np.where(A > 0, 1.0, 2.0)"
    },
    "cb.where(A > 0, x[:3], 2.0)": {
        "equal shapes, or lengths of 1 where values are repeated": "cb.where(A > 0, x[:1], 2.0)"
    },
    "cb.broadcast_to(x, (3, 3))": {
        "a shape that ends with the lengths of the array; those of 1 may be others": "cb.broadcast_to(x, (3, 4))"
    },
    "cb.broadcast_to(n, (1 << 20, 1 << 20))": {LONGER: "cb.broadcast_to(n, (4, 4))"},
    "cb.joined([])": {"a list of 1 to 1024 matrices": "cb.joined([a @ d])"},
    "cb.joined([a @ b, b @ b.T])": {"matrices of one width": "cb.joined([a @ b, d @ b])"},
    "cb.joined([a, d])": {"cb.concatenate(parts, axis=0)": "cb.concatenate([a, d], axis=0)"},
    "cb.split(x, 2)": {"x.reshape(rows, columns)": "cb.split(x.reshape(2, 2), 2)"},
    "cb.split(a, 3)": {
        "a divisor of 4": "cb.split(a, 2)",
        "a list of the indices at which parts begin": "cb.split(a, [1, 2])",
    },
    "cb.split(a, 'ab')": {"an integer, or a list of integers": "cb.split(a, 2)"},
    "cb.split(a, [3, 1])": {"increasing indices from 1 to 3": "cb.split(a, [1, 3])"},
    # what Python and NumPy compute
    "len(n)": {"x itself: it is not indexed, and nothing is iterated": "n * n"},
    "n @ a": {"x * y for the product by a number": "n * a"},
    "a @ b @ a": {"the transpose of the left factor": "(a @ b).T @ a"},
    "a + b": {"equal lengths, or 1 where values are repeated": "a + b[:, :4]"},
    "a + W(3)": {"equal lengths, or 1 where values are repeated": "a + W(4)"},
    "a + 'x'": {"an operand of the program, a number or an array of NumPy": "a + x"},
    "a + 1j": {"an operand of the program, a number or an array of NumPy": "a + 1"},
    "a + A * 1j": {"its real and imaginary parts, one by one: z.real and z.imag": "a + (A * 1j).imag"},
    "a + A.astype(str)": {
        "an array of float64, as its method astype(np.float64) makes of numbers": (
            "a + A.astype(str).astype(np.float64)"
        )
    },
    "a @ [[1, 2], [3]]": {
        "rows of equal lengths, those that are shorter with zeros at their ends": "b[:, :2] @ [[1, 2], [3, 0]]"
    },
    "a @ np.full((4, 4), np.nan)": {
        "np.nan_to_num of the array, where zeros may stand for NaN": "a @ np.nan_to_num(np.full((4, 4), np.nan)) + a"
    },
    "a + np.ma.masked_less(A, 0)": {
        "its method filled(0.0), or another value in place of masked entries": "a + np.ma.masked_less(A, 0).filled(0.0)"
    },
    "a * 10**400": {"a number below 1.8e308": "a * 10.0**100"},
    "a * np.inf": {"a finite number": "a * 1.0"},
    "a / 0": {"a divisor other than 0": "a / 2"},
    "a / (A + 0.5)": {"a divisor other than 0": "a / (A + 1)"},
    "a / np.full((4, 4), np.inf)": {
        "np.nan_to_num of the array, where zeros may stand for NaN": "a / np.full((4, 4), 2.0)"
    },
    "a / 'x'": {"an operand of the program, a number or an array of NumPy": "a / 2"},
    "a / p": {"y * p for y / p, with the inverses of its entries as the values of p": "a * p"},
    "a / x": {
        "y * cb.inverse(x, lower=…) for y / x, no entry of x being below lower": "a * cb.inverse(x, lower=0.5)"
    },
    "x > 0": {
        "cb.greater(x, threshold, margin=…), which is 1 where x is greater and else 0, encrypted": (
            "cb.greater(x, 0, margin=0.1)"
        )
    },
    "x if x else 1": {
        "m * x + (1 - m) * y in place of branches, with m = cb.greater(x, threshold, margin=…)": (
            "(lambda m: m * x + (1 - m) * 1)(cb.greater(x, 0, margin=0.1))"
        )
    },
    "float(n)": {CLIENT: "n * n"},
    "x % 2": {CLIENT: "x * x"},
    "round(batch // 2)": {CLIENT: "batch"},
    "cb.matrix_power(a, 0)": {"np.eye(4)": "a @ np.eye(4)"},
    "cb.matrix_power(a, -1)": {"the decrypted matrix on the client": "a @ a"},
    "x**0": {"1.0, which that power is everywhere": "x * 1.0"},
    "x & x": {"x * y, x + y - x * y or 1 - x for and, or and not of zeros and ones": "x * x + 1 - x"},
    "~x": {"x * y, x + y - x * y or 1 - x for and, or and not of zeros and ones": "1 - x"},
    "x.__setitem__(0, 1.0)": {
        "cb.where(mask, y, x), with a clear mask that is True where y replaces x": (
            "cb.where(np.arange(4) == 0, 1.0, x)"
        )
    },
    "np.linalg.inv(a)": {"the decrypted matrix on the client": "a @ a"},
    "a.astype(np.float32)": {"x itself: all values are computed in float64": "a * (a.ndim * a.size)"},
    "2**x": {"cb.exp(x * np.log(base)) for base ** x": "cb.exp(x * np.log(2))"},
    "2**batch": {"cb.exp(x * np.log(base)) for base ** x": "cb.exp(batch * np.log(2))"},
    "np.asarray(x)": {
        "@, +, -, * with arrays of NumPy; cb.matmul(S, x) for S @ x of a sparse matrix or a table S": (
            "cb.matmul(A, x) + np.asarray(A[0])"
        )
    },
    "np.log(x)": {
        "cb.chebyshev(np.log, x, interval=(low, high), promised=True)": (
            "cb.chebyshev(np.log, x, interval=(0.5, 1), promised=True)"
        )
    },
    "np.std(batch)": {"cb.sqrt(x.var(), lower=…)": "cb.sqrt(batch.var(), lower=0.1)"},
    "np.fft.fft(x)": {"@, +, -, * and sums of x, or the decrypted result on the client": "A @ x"},
    "np.sum(a, out=A)": {
        "np.sum(a, axis, keepdims)": "np.sum(a, axis=0, keepdims=True)",
        "x.sum(axis)": "a.sum(axis=0)",
    },
    "np.atleast_1d(x, a)": {"np.atleast_1d(a)": "np.atleast_1d(x)"},
    "np.moveaxis(a, [0, 1], [1])": {
        "x.transpose(order), with all axes in their order": "a.transpose((1, 0))"
    },
    "np.expand_dims(x, (0, 0))": {"one place for each new axis": "np.expand_dims(x, (0, 1))"},
    "np.repeat(x, -1)": {
        "counts that are whole numbers, from 0 on, one or as many as entries along the axis": "np.repeat(x, 2)"
    },
    "np.roll(a, (1, 2, 3), (0, 1))": {"as many shifts as axes": "np.roll(a, (1, 2), (0, 1))"},
    "np.average(a, axis=0, weights=[1.0, 2.0])": {
        "weights of the shape of the array, or one for each entry along axis=…": (
            "np.average(a, axis=0, weights=[1.0, 2.0, 3.0, 4.0])"
        )
    },
    "np.dot(a, np.stack([d, d]))": {
        "x @ y for the products one by one": "a @ np.stack([d, d])",
        "np.tensordot(x, y, axes=(-1, -2)) for those of all pairs": "np.tensordot(a, np.stack([d, d]), (-1, -2))",
    },
    "np.where(x == 0.5, x, 0.0)": {
        "an array of NumPy of type bool": "np.where(np.arange(4) == 2, x, 0.0)",
        "cb.greater(a, b, margin=…), and products with it": "cb.greater(x, 0.5, margin=0.1) * x",
    },
    "np.tensordot(a, b, axes=([0], [1]))": {
        "axes=(axes of the first, axes of the second), in one order": "np.tensordot(a, b, axes=([0], [0]))"
    },
    "np.argmax(x)": {
        CLIENT: "x",
        "y + cb.relu(x - y) for the larger of two, and y - cb.relu(y - x) for the smaller": (
            "x[:2] + cb.relu(x[2:] - x[:2], precision=0.01)"
        ),
    },
    "x.mT": {"x.T": "x.T"},
    "x.softmax()": {
        "e = cb.exp(x), then e * cb.inverse(e.sum(), lower=…)": (
            "(lambda e: e * cb.inverse(e.sum(), lower=1.0))(cb.exp(x))"
        )
    },
    "batch @ batch3": {"2 matrices, or one for all": "batch @ batch"},
    "cb.stack([a, d]) @ cb.stack([a, d, a])": {
        "2 matrices, or one for all": "cb.stack([a, d]) @ cb.stack([a, d])"
    },
    "batch + W(3, 4, 4)": {"2 matrices, or one for all": "batch + W(2, 4, 4)"},
    "batch + W(1, 1, 4, 4)": {
        "an array of 3 dimensions: one matrix for each of the batch": "batch + W(2, 4, 4)"
    },
    "Batch([a, b])": {"a tuple of results for those of other shapes": "(a, b)"},
    # results
    "None": {"return …, or a tuple or dictionary of results": "(a, b)"},
    "a == d": {"cb.greater(a, b, margin=…), or a - b": "a - d"},
    "[a, [d]]": {"one tuple or one dictionary of all results": "[a, d]"},
    "(a, 3)": {"results of the operands alone; what is clear is known without a program": "(a,)"},
    "[]": {"from 1 to 256 results; cb.stack(results) makes one of those of one shape": "cb.stack([a, d])"},
    "{'two words': a}": {"two_words": "{'two_words': a}"},
}
# Of operands, without a program.
DECLARED: dict[str, dict[str, str]] = {
    "cb.secret(A)": {"the shape of the array, array.shape": "cb.secret(A.shape)"},
    "cb.secret.like(A[0], columns=True)": {"the same without columns=True": "cb.secret.like(A[0])"},
    "cb.secret((3, 4), 5)": {"an integer, as 4": "cb.secret((3, 4))"},
    "cb.secret(3.0)": {"3": "cb.secret(3)"},
    "cb.secret(3.5)": {"an integer, as 4": "cb.secret(4)"},
    "cb.secret(0)": {"1 or more": "cb.secret(1)"},
    "cb.secret(1 << 30)": {"16777216 or less": "cb.secret(16777216)"},
    "Operand(4, True, 1.0)": {"a tuple of integers, as (4, 4)": "Operand((4, 4), True, 1.0)"},
    "cb.secret(1, 2, 3, 4, 5)": {
        "cb.secret(images, channels, height, width) at most": "cb.secret(1, 2, 3, 4)"
    },
    "cb.public(1, 2, 3, 4, 5)": {
        "cb.public(outputs, inputs, height, width) at most": "cb.public(1, 2, 3, 4)"
    },
    "cb.secret(3, bound='1')": {
        "a number, as bound=1.0": "cb.secret(3, bound=1.0)",
        "bound=cb.columns([…]) for a bound of each column": "cb.secret(3, 2, bound=cb.columns([1, 2]))",
    },
    "cb.secret(3, bound=0)": {UNITS: "cb.secret(3, bound=1)"},
    "cb.secret(3, encryption='public')": {
        'encryption="secret-key"': "cb.secret(3, encryption='secret-key')",
        'encryption="public-key"': "cb.secret(3, encryption='public-key')",
    },
    "cb.secret(3, exact=True)": {
        "cb.secret(…, dtype=np.int32, exact=True), with a bound=… of 1 or more if there is one": (
            "cb.secret(3, dtype=np.int32, exact=True)"
        )
    },
    "cb.secret(3, exact=1)": {"exact=True": "cb.secret(3, dtype=np.int8, exact=True)"},
    "cb.secret(3, row_sum=1)": {"a matrix, or bound=… alone": "cb.secret(3, 3, row_sum=1)"},
    "cb.secret(norm=1)": {"a matrix or a vector, or bound=… alone": "cb.secret(bound=1)"},
    "cb.secret(3, 3, row_sum='1')": {"a number, as row_sum=1.0": "cb.secret(3, 3, row_sum=1.0)"},
    "cb.secret(3, 3, bound=cb.columns([1, 2]))": {
        "cb.columns([…]) of 3 numbers": "cb.secret(3, 3, bound=cb.columns([1, 2, 3]))"
    },
    "cb.columns('abc')": {
        "cb.columns([1.0, 0.5]), a number for each column": "cb.secret(3, 2, bound=cb.columns([1.0, 0.5]))"
    },
    "cb.secret(3, dtype='int7')": {
        "dtype=np.float64, or np.int8, np.int16, np.int32 for whole numbers": "cb.secret(3, dtype=np.int8)"
    },
    "cb.Encoding(0, 40.0)": {
        "cb.Encoding(limbs=2, scale_bits=40.0, error=1e-6)": "cb.Encoding(limbs=2, scale_bits=40.0, error=1e-6)"
    },
    "Operand((3,), False, 1.0, encoding=cb.Encoding(1, 1.0))": {
        "cb.secret(…) of real numbers for it": "Operand((3,), True, 1.0, encoding=cb.Encoding(1, 1.0))"
    },
    "cb.secret(3, modulus=1)": {"cb.secret(…, modulus=65537)": "cb.secret(3, modulus=65537)"},
    "cb.secret(3, modulus=257, bound=2)": {
        "cb.secret(…, modulus=257) without bound=…": "cb.secret(3, modulus=257)"
    },
    "Operand((3,), True, 1.0, modulus=257)": {
        "cb.secret(…, modulus=257) without dtype=…": "cb.secret(3, modulus=257)"
    },
    "cb.secret(3, normalise=0.5)": {NORMALISE: "cb.secret(3, normalise=(0.5, 0.25))"},
    "cb.secret(3, normalise=(0.5, 'a'))": {NORMALISE: "cb.secret(3, normalise=([0.5], 0.25))"},
    "cb.secret(3, normalise=(0.5, 0.0))": {NORMALISE: "cb.secret(3, normalise=(0.5, 1e-3))"},
    "cb.secret(3, 8, 8, normalise=([0.5, 0.4], 1.0))": {
        NORMALISE: "cb.secret(3, 8, 8, normalise=([0.5, 0.4, 0.3], 1.0))"
    },
    "cb.secret(3, dtype=np.uint8, normalise=(0.5, 1.0))": {
        "cb.secret(…, normalise=…) without dtype=…, which takes arrays of any real type": (
            "cb.secret(3, normalise=(0.5, 1.0))"
        )
    },
    "Samples({'x': 9 * A}, {'x': cb.secret(4, bound=2, normalise=(1.0, 0.5))}, 1.0)": {
        "bound=… where the operand is declared, the largest absolute value that an entry may have": (
            "Samples({'x': 9 * A}, {'x': cb.secret(4, bound=20, normalise=(1.0, 0.5))}, 1.0)"
        ),
        "np.clip(x, 0, 2) in place of x, as it is before": (
            "Samples({'x': np.clip(9 * A, 0, 2)}, {'x': cb.secret(4, bound=2, normalise=(1.0, 0.5))}, 1.0)"
        ),
    },
    "cb.secret(3, dtype=np.int64)": {
        "dtype='int64', exact=True of a secret operand: exact integers": (
            "cb.secret(3, dtype='int64', exact=True)"
        ),
        "dtype='int64', bound=2**52 of a clear one": "cb.public(3, dtype='int64', bound=2**52)",
        "dtype=np.int32, or np.float64 for larger numbers": "cb.secret(3, dtype=np.int32)",
    },
    "cb.secret(3, fixed_point=0)": {"fixed_point=10": "cb.secret(3, fixed_point=10)"},
    "cb.secret(3, fixed_point=8, norm=1.0)": {
        "cb.secret(…, bound=1.0, fixed_point=8) without norm=…": "cb.secret(3, bound=1.0, fixed_point=8)"
    },
    "cb.secret(3, dtype=np.int8, bound=300)": {
        "bound=128, or less": "cb.secret(3, dtype=np.int8, bound=128)",
        "a wider dtype=…": "cb.secret(3, dtype=np.int16, bound=300)",
    },
    "cb.secret(3, 3, row_sum=1).check('a', A)": {
        "a larger row_sum=… where the operand is declared": "cb.secret(4, 4, row_sum=9).check('a', A)"
    },
    "cb.secret(4, 4, bound=cb.columns([1, 0.1, 1, 1])).check('a', A)": {
        "a larger bound=cb.columns(…) where the operand is declared": (
            "cb.secret(4, 4, bound=cb.columns([1] * 4)).check('a', A)"
        )
    },
    "Samples(3, OPERANDS, 1.0)": {"samples={'a': …, 'x': …}": "Samples({'a': A, 'x': A[0]}, OPERANDS, 1.0)"},
    "Samples({'a': A}, OPERANDS, 1.0)": {
        "samples={'a': …, 'x': …}": "Samples({'a': A, 'x': A[0]}, OPERANDS, 1.0)"
    },
    "Samples({'a': [A, A, A], 'x': A[:2]}, OPERANDS, 1.0)": {
        "3 of 'x', or one for all": "Samples({'a': [A, A, A], 'x': A[:3]}, OPERANDS, 1.0)"
    },
    "Samples({'a': A, 'x': W(3)}, OPERANDS, 1.0)": {
        "an array of shape (number of samples, 4)": "Samples({'a': A, 'x': W(7, 4)}, OPERANDS, 1.0)"
    },
    "flattened(run(lambda a: (a, 2 * a), {'a': cb.secret(4)}), 3, 'An error for each.')": {
        "a tuple, (…, …), a value for each result": (
            "flattened(run(lambda a: (a, 2 * a), {'a': cb.secret(4)}), (3, 4), '')"
        )
    },
    "flattened(run(lambda a: {'y': a, 'z': 2 * a}, {'a': cb.secret(4)}), 3, 'An error for each.')": {
        "a dictionary, {'y': …, 'z': …}": (
            "flattened(run(lambda a: {'y': a, 'z': 2 * a}, {'a': cb.secret(4)}), {'y': 3, 'z': 4}, '')"
        )
    },
    "run(3, {'a': cb.secret(4)})": {"lambda a: …": "run(lambda a: a * a, {'a': cb.secret(4)})"},
    "run(lambda x: x, {'a': cb.secret(4)})": {
        "operands by the names of the parameters: {'x': …}": "run(lambda x: x, {'x': cb.secret(4)})"
    },
    "run(lambda x, /: x, {'a': cb.secret(4)})": {
        "lambda a: f(a) for the function f": "run(lambda a: (lambda x, /: x)(a), {'a': cb.secret(4)})"
    },
}
