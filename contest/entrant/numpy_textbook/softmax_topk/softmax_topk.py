# SPDX-License-Identifier: Apache-2.0
"""softmax_topk.py - softmax_topk as in a textbook: softmax of a row in double, then a full sort."""
import numpy as np


def widen(a):
    if a.dtype == np.uint16:  # bf16: the upper half of a float32
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64)


def softmax_topk(logits, k, inv_temperature, out):
    np.seterr(all="ignore")
    index, prob, lse = (out.get(name) for name in ("index", "prob", "lse"))
    for r in range(logits.shape[0]):
        x = widen(logits[r])
        largest = x.max(initial=-np.inf)
        nonfinite = bool(np.isnan(largest) or largest == np.inf)
        empty = largest == -np.inf
        weight = np.zeros(len(x)) if empty else np.exp((x - largest) * inv_temperature)
        total = weight.sum()
        if lse is not None:
            lse[r] = np.nan if nonfinite else -np.inf if empty else largest * inv_temperature + np.log(total)
        if not k:
            continue
        index[r], prob[r] = -1, np.nan if nonfinite else 0
        if nonfinite:
            continue
        best = np.argsort(-x, kind="stable")[:k]
        index[r, :len(best)] = best
        if not empty:
            prob[r, :len(best)] = weight[best] / total
