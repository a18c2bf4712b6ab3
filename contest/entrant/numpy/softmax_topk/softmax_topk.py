# SPDX-License-Identifier: Apache-2.0
"""softmax_topk.py - softmax_topk in NumPy: a partition finds the k-th largest logit, ties are
settled by index."""
import numpy as np


def widen(a):
    """As float32, which holds every 16-bit number exactly."""
    if a.dtype == np.uint16:  # bf16: the upper half of a float32
        return (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float32)


def weights(x, largest, t):
    """exp(t (x - largest)): in double where the difference would overflow a float."""
    lowest = x.min(where=np.isfinite(x), initial=largest)
    wide = np.float64(largest) - lowest > 1e37 or not 1e-30 < t < 1e30
    kind = np.float64 if wide else np.float32
    return np.exp((x.astype(kind) - kind(largest)) * kind(t))


def first(x, n):
    """Indices of the first n entries: larger first, lower index first among equal ones."""
    kth = np.partition(x, len(x) - n)[len(x) - n]
    above = np.flatnonzero(x > kth)
    equal = np.flatnonzero(x == kth)[:n - len(above)]
    chosen = np.sort(np.concatenate([above, equal]))
    return chosen[np.argsort(-x[chosen], kind="stable")]


def softmax_topk(logits, k, inv_temperature, out):
    index, prob, lse = (out.get(name) for name in ("index", "prob", "lse"))
    t = np.float64(inv_temperature)
    for r in range(logits.shape[0]):
        x = widen(logits[r])
        n = min(k, len(x))
        largest = x.max(initial=-np.inf)
        nonfinite = bool(np.isnan(largest) or largest == np.inf)
        total = 0.0
        if not nonfinite and largest > -np.inf:
            total = weights(x, largest, t).sum(dtype=np.float64)
        if lse is not None:
            lse[r] = np.nan if nonfinite else largest * t + np.log(total) if total else -np.inf
        if not k:
            continue
        index[r], prob[r] = -1, np.nan if nonfinite else 0
        if nonfinite or n == 0:
            continue
        best = first(x, n)
        index[r, :n] = best
        if total:
            prob[r, :n] = np.exp((x[best].astype(np.float64) - largest) * t) / total
