# SPDX-License-Identifier: Apache-2.0
"""topk_argsort.py - softmax_topk of all rows at once by a stable argsort."""
import numpy as np


def softmax_topk(logits, k, inv_temperature, out):
    np.seterr(all="ignore")
    k = int(k)
    x = logits
    if x.dtype == np.uint16:  # bf16: the upper half of a float32
        x = (x.astype(np.uint32) << 16).view(np.float32)
    x = x.astype(np.float64)
    nonfinite = (np.isnan(x) | (x == np.inf)).any(axis=1)
    top = x.max(axis=1, initial=-np.inf)
    dead = ~(top > -np.inf) | nonfinite
    p = np.exp((x - np.where(dead, 0, top)[:, None]) * inv_temperature)
    total = np.where(dead, 0, p.sum(axis=1))
    if "lse" in out:
        lse = np.where(total > 0, top * inv_temperature + np.log(total), -np.inf)
        out["lse"][:] = np.where(nonfinite, np.nan, lse)
    if not k:
        return
    n = min(k, x.shape[1])
    order = np.argsort(-x, axis=1, kind="stable")[:, :n]
    out["index"][...], out["prob"][...] = -1, np.where(nonfinite, np.nan, 0)[:, None]
    out["index"][:, :n] = np.where(nonfinite[:, None], -1, order)
    chosen = np.take_along_axis(p, order, axis=1) / total[:, None]
    bad = np.where(nonfinite, np.nan, 0)[:, None]
    out["prob"][:, :n] = np.where(dead[:, None], bad, chosen)
