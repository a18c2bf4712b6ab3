# SPDX-License-Identifier: Apache-2.0
"""flash_attention_backward.py - flash_attention_backward as in a textbook: one query at a time, in double."""
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


def flash_attention_backward(q, k, v, o, dout, lse, layout, causal, window, scale, out, kv_len=None):
    dq, dk, dv = out["dq"], out["dk"], out["dv"]
    if layout:  # heads before rows; what is written goes through the views
        q, k, v, o, dout, dq, dk, dv = (a.swapaxes(1, 2) for a in (q, k, v, o, dout, dq, dk, dv))
    share, n_k = q.shape[1] // k.shape[1], k.shape[2]
    for b, g in np.ndindex(k.shape[:2]):
        length = n_k if kv_len is None else int(kv_len[b])
        keys, values = widen(k[b, g]), widen(v[b, g])
        sum_k, sum_v = np.zeros((2, n_k, k.shape[3]))
        for h in range(g * share, (g + 1) * share):
            for i in range(q.shape[2]):
                mask = sees(i, q.shape[2], n_k, length, causal, window)
                if lse[b, h, i] == -np.inf:  # it has no weights
                    mask = np.zeros_like(mask)
                query, cotangent = widen(q[b, h, i]), widen(dout[b, h, i])
                p = np.exp(keys[mask] @ query * scale - float(lse[b, h, i]))
                ds = p * (values[mask] @ cotangent - cotangent @ widen(o[b, h, i])) * scale
                put(dq[b, h, i], ds @ keys[mask])
                sum_k[mask] += np.outer(ds, query)
                sum_v[mask] += np.outer(p, cotangent)
        put(dk[b, g], sum_k)
        put(dv[b, g], sum_v)
