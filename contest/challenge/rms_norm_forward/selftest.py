# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for rms_norm_forward against the definition in double."""
from selftest_common import case, empty, np, random, store, verdict, widen
from rms_norm_forward import rms_norm_forward


def input_of(family, rows, cols):
    x = random.standard_normal((rows, cols))
    return {"normal": x, "tiny": 1e-3 * x, "zeros": 0 * x, "huge": 1e30 * x}[family]


def expected(r, w, eps, u):
    """r is rounded already, and w has its offset."""
    rstd = 1 / np.sqrt((r * r).mean(axis=1, keepdims=True) + eps)
    y = r * rstd * w
    return {"y": (y, u * (np.abs(y) + np.abs(r * rstd))), "rstd": (rstd.ravel(), 1e-5 * rstd.ravel())}


def run(kind, u, rows, cols, family, how, w_offset):
    x, residual = (store(input_of(family, rows, cols), kind) for _ in range(2))
    w = store(random.standard_normal(cols), kind)
    arguments = {"w": w, "eps": 1e-6, "w_offset": w_offset}
    out = {"y": empty((rows, cols), kind), "rstd": empty((rows,), "f32")}
    r = widen(x)
    if how != "none":
        arguments["residual"] = residual
        out["r"] = x.copy() if how == "in place" else empty((rows, cols), kind)
        r = widen(store(r + widen(residual), kind))
    if how != "in place":
        arguments["x"] = x
    want = expected(r, widen(w) + w_offset, 1e-6, u)
    if how != "none":
        want["r"] = r, 0 * r
    case("%s rows=%d cols=%d %s residual=%s w_offset=%d" % (kind, rows, cols, family, how, w_offset),
         rms_norm_forward, arguments, out, want)


for kind, u in ("f32", 1e-5), ("bf16", 4e-3):
    for rows, cols in (0, 16), (1, 1), (3, 2), (5, 7), (17, 33), (2, 1025), (3, 4096):
        for family in "normal", "tiny", "zeros", "huge":
            for how in "none", "apart", "in place":
                run(kind, u, rows, cols, family, how, int(how == "apart") ^ int(kind == "bf16"))
verdict()
