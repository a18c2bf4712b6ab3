# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for layernorm_forward against the definition in double."""
from selftest_common import case, empty, np, random, store, verdict, widen
from layernorm_forward import layernorm_forward


def input_of(family, rows, cols):
    x = random.standard_normal((rows, cols))
    return {"normal": x, "offset": 1000 + x, "constant": 0 * x + 3, "huge": 1e30 * x}[family]


def expected(x, gamma, beta, eps, u):
    mean = x.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(axis=1, keepdims=True) + eps)
    largest = np.abs(x).max(axis=1, keepdims=True, initial=0)
    off, xhat = 1e-6 * largest * rstd, (x - mean) * rstd
    bound = np.abs(gamma) * (off + (u + 1e-5) * (1 + np.abs(xhat))) + u * np.abs(beta)
    return {"y": (gamma * xhat + beta, bound), "mean": (mean.ravel(), 1e-6 * largest.ravel()),
            "rstd": (rstd.ravel(), (rstd * (1e-5 + off * off)).ravel())}


for kind, u in ("f32", 1e-6), ("bf16", 4e-3):
    for rows, cols in (0, 16), (1, 1), (3, 2), (5, 7), (17, 33), (2, 1025), (3, 4096):
        for family in "normal", "offset", "constant", "huge":
            x = store(input_of(family, rows, cols), kind)
            gamma, beta = (store(random.standard_normal(cols), kind) for _ in range(2))
            eps = 1e-2 if family == "constant" else 1e-5
            out = {"y": empty((rows, cols), kind), "mean": empty((rows,), "f32"),
                   "rstd": empty((rows,), "f32")}
            case("%s rows=%d cols=%d %s" % (kind, rows, cols, family), layernorm_forward,
                 {"x": x, "gamma": gamma, "beta": beta, "eps": eps}, out,
                 expected(widen(x), widen(gamma), widen(beta), eps, u))
verdict()
