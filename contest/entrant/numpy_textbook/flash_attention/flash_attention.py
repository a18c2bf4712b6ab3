# SPDX-License-Identifier: Apache-2.0
"""flash_attention.py - flash_attention as in a textbook: one query at a time, in double."""
import numpy as np


def widen(a):
    if a.dtype == np.uint16:  # bf16: the upper half of a float32
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64)


def put(to, a):
    """Rounds once, to nearest even: bf16 by way of a float that is rounded to odd."""
    if to.dtype != np.uint16:
        to[...] = a
        return
    f = np.asarray(a, np.float32)
    bits = f.view(np.uint32).copy()
    inexact = np.isfinite(f) & (f.astype(np.float64) != a)
    bits -= (inexact & (np.abs(f.astype(np.float64)) > np.abs(a))).astype(np.uint32)
    bits |= inexact.astype(np.uint32)
    to[...] = np.where(np.isnan(f), 0x7fc0, (bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def sees(i, n_q, n_k, length, causal, window):
    """Which keys query i sees."""
    j, last = np.arange(n_k), i + n_k - n_q
    mask = j < length
    if causal:
        mask &= j <= last
    if window:
        mask &= last - j < window
    return mask


def flash_attention(q, k, v, layout, causal, window, scale, out, kv_len=None):
    o, lse = out["o"], out.get("lse")
    if layout:  # heads before rows; what is written goes through the views
        q, k, v, o = (a.swapaxes(1, 2) for a in (q, k, v, o))
    share, n_k = q.shape[1] // k.shape[1], k.shape[2]
    for b, h in np.ndindex(q.shape[:2]):
        length = n_k if kv_len is None else int(kv_len[b])
        keys, values = widen(k[b, h // share]), widen(v[b, h // share])
        for i in range(q.shape[2]):
            mask = sees(i, q.shape[2], n_k, length, causal, window)
            s = keys[mask] @ widen(q[b, h, i]) * scale
            top = s.max(initial=-np.inf)
            if top == -np.inf:
                put(o[b, h, i], np.zeros(q.shape[3]))
                total = 0
            else:
                p = np.where(s == -np.inf, 0, np.exp(s - top))
                total = p.sum()
                put(o[b, h, i], p[p > 0] @ values[mask][p > 0] / total if total > 0 else p @ values[mask])
            if lse is not None:
                lse[b, h, i] = top + np.log(total) if total != 0 else -np.inf
