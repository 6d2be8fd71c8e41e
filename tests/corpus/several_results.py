"""Programs with several results: in all forms, of one shape and of others, at one depth and at others."""

from __future__ import annotations

from .case import P, S, case

HIDDEN = "cb.square(W(20, 30) @ x)"

case("several/least squares", "{'gram': x.T @ x, 'moment': x.T @ y}", x=S(200, 8), y=S(200))
case("several/least squares by rows", "(x.T @ x, x.T @ y)", x=S(200, 8), y=S(200), form="rows")
case("several/a product and its product", "(a @ b, (a @ b) @ c)", a=S(32, 32), b=S(32, 32), c=S(32, 32))
case("several/the same by rows", "(a @ b, (a @ b) @ c)", a=S(32, 32), b=S(32, 32), c=S(32, 32), form="rows")
case("several/shared right factor", "(a @ b, c @ b, b.T)", a=S(20, 30), b=S(30, 10), c=S(5, 30))
case("several/clear weights by rows", "(w @ x, x @ v)", w=P(10, 40), x=S(40, 30), v=P(30, 5), form="rows")
case("several/entrywise", "{'sum': a + b, 'product': a * b, 'difference': a - b}", a=S(30, 40), b=S(30, 40))
case("several/other depths", "(a, a @ a, (a @ a) * a, ((a @ a) * a) @ a)", a=S(16, 16))
case("several/other bounds", "(a @ a, b @ b)", a=S(16, 16, bound=1000), b=S(16, 16, bound=0.001))
case(
    "several/absolute errors",
    "{'big': a @ a, 'small': b @ b}",
    a=S(16, 16, bound=10),
    b=S(16, 16),
    error={"small": 1e-6, "big": 0.5},
)
case("several/one in a tuple", "(a @ b,)", a=S(64, 64), b=S(64, 64))
case("several/the same twice", "(a @ b, (b.T @ a.T).T)", a=S(24, 24), b=S(24, 24))
case("several/numbers and vectors", "{'xy': x @ y, 'xx': x @ x, 'x': x + y}", x=S(100), y=S(100))
case("several/two heads", f"{{'a': W(10, 20, seed=1) @ {HIDDEN}, 'b': W(3, 20, seed=2) @ {HIDDEN}}}", x=S(30))
case(
    "several/features and classes of an image",
    "(cb.avg_pool2d(cb.square(cb.conv2d(x, W(4, 1, 3, 3))), 2), "
    "W(10, 576) @ cb.flatten(cb.square(cb.conv2d(x, W(4, 1, 3, 3)))))",
    x=S(1, 14, 14),
)
case("several/one clear", "(a @ b, 0 * a)", a=S(4, 4), b=S(4, 4))
