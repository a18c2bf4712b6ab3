# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for ternary_linear against the definition in double."""
from selftest_common import case, np, random, returned, store, verdict, widen
from ternary_linear import ternary_linear


def near(what, got, want, bound):
    if not (np.abs(np.asarray(got, np.float64) - want) <= bound).all():
        raise ArithmeticError("%s: wrong" % what)


def play(kind, n_out, n_in, n_rows, way):
    w = random.standard_normal((n_out, n_in)).astype(np.float32)
    if way == "zeros":
        w[::2] = 0
    if way == "spike":
        w[:, ::50] *= 40
    x = store(random.standard_normal((n_rows, n_in)), kind)
    dy = store(random.standard_normal((n_rows, n_out)), kind)
    layer, bound = ternary_linear(), 0.02 if kind == "bf16" else 1e-5
    code, scale = layer.pack(w)
    want = np.zeros((n_out, n_in))
    for g in range(0, n_in, 128):
        part = w[:, g:g + 128].astype(np.float64)
        s = (np.abs(part).sum(1) / part.shape[1]).astype(np.float16)
        near("scale", scale[:, g // 128], s.astype(np.float64), 0)
        s = s.astype(np.float64)[:, None]
        want[:, g:g + 128] = np.where(2 * np.abs(part) <= s, 0, np.sign(part)) * s
    points = np.asarray(code, np.uint8)[..., None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    points = points.reshape(n_out, -1).astype(int)
    near("code", points[:, :n_in] - 1, np.sign(want), 0)
    near("padding", points[:, n_in:], 1, 0)
    near("wt", layer.unpack(code, scale, n_in), want, 0)
    y = layer.linear(w, x)
    near("y", returned(y, x), widen(x) @ want.T, bound * (np.abs(widen(x)) @ np.abs(want).T))
    near("y_packed", returned(layer.linear_packed(code, scale, x), x), widen(y), 0)
    dx, dw = layer.backward(w, x, dy)
    near("dx", returned(dx, x), widen(dy) @ want, bound * (np.abs(widen(dy)) @ np.abs(want)))
    near("dw", dw, widen(dy).T @ widen(x), 1e-5 * (np.abs(widen(dy)).T @ np.abs(widen(x))))


for shape in (1, 1, 1), (3, 127, 3), (3, 128, 2), (5, 129, 3), (7, 200, 17), (4, 1376, 3):
    for way in "normal", "zeros", "spike":
        case("f32 %s %s" % (shape, way), lambda: play("f32", *shape, way), {}, {}, {})
    case("bf16 %s" % (shape,), lambda: play("bf16", *shape, "normal"), {}, {}, {})
verdict()
