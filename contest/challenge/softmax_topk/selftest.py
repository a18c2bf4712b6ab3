# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for softmax_topk against the definition in double."""
from selftest_common import case, empty, np, random, store, sum_bound, verdict, widen
from softmax_topk import softmax_topk


def logits_of(family, rows, n):
    x = random.standard_normal((rows, n))
    if family == "ties":
        x = np.floor(x)
    if family == "offset":
        x += 1e4
    if family == "masked":
        x[:, 1::3] = -np.inf
    if family == "all masked":
        x[...] = -np.inf
    if family == "nonfinite":
        x[0, n // 2] = np.nan
    return x


def expected(x, k, t):
    rows, n = x.shape
    index, prob = np.full((rows, k), -1.0), np.zeros((rows, k))
    lse, part = np.full(rows, -np.inf), np.zeros((rows, k))
    for r in range(rows):
        if np.isnan(x[r]).any():
            prob[r], lse[r] = np.nan, np.nan
            continue
        order = np.lexsort((np.arange(n), -x[r]))[:k]
        index[r, :len(order)] = order
        if np.isfinite(x[r].max()):
            weight = np.exp((x[r] - x[r].max()) * t)
            distance = np.where(np.isfinite(x[r]), x[r].max() - x[r], 0) * t
            part[r, :len(order)] = sum_bound(n) + (16 + 2 * distance[order]) * 2.0**-24
            lse[r] = x[r].max() * t + np.log(weight.sum())
            prob[r, :len(order)] = weight[order] / weight.sum()
    return {"index": (index, 0), "prob": (prob, part * prob + 1.2e-38),
            "lse": (lse, 1e-5 + 1e-6 * np.abs(lse))}


for kind in "f32", "bf16":
    for rows, n, k in (1, 1, 1), (2, 5, 8), (9, 33, 7), (3, 1025, 50), (2, 4099, 1):
        for family in "normal", "ties", "offset", "masked", "all masked", "nonfinite":
            logits = store(logits_of(family, rows, n), kind)
            out = {"index": empty((rows, k), "i32"), "prob": empty((rows, k), "f32"),
                   "lse": empty((rows,), "f32")}
            case("%s rows=%d vocab=%d k=%d %s" % (kind, rows, n, k, family), softmax_topk,
                 {"logits": logits, "k": k, "inv_temperature": 0.5}, out,
                 expected(widen(logits), k, 0.5))
verdict()
