# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for layernorm_backward against the definition in double."""
from selftest_common import case, empty, np, random, store, verdict, widen
from layernorm_backward import layernorm_backward


def expected(x, dy, gamma, mean, rstd, before, u):
    n, r = x.shape[1], rstd[:, None]
    xhat, g = (x - mean[:, None]) * r, dy * gamma
    dx = r * (g - g.mean(axis=1, keepdims=True) - xhat * (g * xhat).mean(axis=1, keepdims=True))
    size = (np.abs(g) + np.abs(g * xhat)).sum(axis=1, keepdims=True) / n
    columns = 1e-5 * (before + (np.abs(dy) * (1 + np.abs(xhat))).sum(axis=0))
    return {"dx": (dx, u * r * (np.abs(g) + size * (1 + np.abs(xhat)))),
            "dgamma": (before + (dy * xhat).sum(axis=0), columns),
            "dbeta": (before + dy.sum(axis=0), columns)}


for kind, u in ("f32", 1e-5), ("bf16", 4e-3):
    for rows, cols in (0, 16), (1, 1), (3, 2), (5, 7), (17, 33), (2, 1025), (300, 64):
        for accumulate in 0, 1:
            x = store(10 + random.standard_normal((rows, cols)), kind)
            dy = store(random.standard_normal((rows, cols)), kind)
            gamma = store(random.standard_normal(cols), kind)
            mean = widen(x).mean(axis=1).astype(np.float32)
            rstd = (1 / np.sqrt(widen(x).var(axis=1) + 1e-5)).astype(np.float32)
            out = {"dx": empty((rows, cols), kind), "dgamma": empty((cols,), "f32"),
                   "dbeta": empty((cols,), "f32")}
            if accumulate:
                out["dgamma"][...] = out["dbeta"][...] = 2
            case("%s rows=%d cols=%d accumulate=%d" % (kind, rows, cols, accumulate),
                 layernorm_backward, {"x": x, "dy": dy, "gamma": gamma, "mean": mean, "rstd": rstd,
                                      "accumulate": accumulate}, out,
                 expected(widen(x), widen(dy), widen(gamma), widen(mean), widen(rstd),
                          2 * accumulate, u))
verdict()
