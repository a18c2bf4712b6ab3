# SPDX-License-Identifier: Apache-2.0
"""flash_attention_backward.py - flash_attention_backward in NumPy: the whole matrix of weights, a
head at a time, in double."""
import numpy as np


def widen(a):
    """As float64, which holds every number of the other types exactly."""
    if a.dtype == np.uint16:  # bf16: the upper half of a float32
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64)


def put(to, value):
    if to.dtype == np.uint16:
        bits = np.asarray(value, np.float32).view(np.uint32)
        value = np.where(np.isnan(value), 0x7fc0, (bits + 0x7fff + (bits >> 16 & 1)) >> 16)
    to[...] = value


def seen(n_q, n_k, length, causal, window):
    """Which keys each query sees."""
    last = np.arange(n_q)[:, None] + n_k - n_q
    j = np.arange(n_k)[None, :]
    mask = np.broadcast_to(j < length, (n_q, n_k))
    if causal:
        mask = mask & (j <= last)
    if window:
        mask = mask & (last - j < window)
    return mask


def flash_attention_backward(q, k, v, o, dout, lse, layout, causal, window, scale, out,
                             kv_len=None):
    dq, dk, dv = out["dq"], out["dk"], out["dv"]
    if layout:  # heads before rows; what is written goes through the views
        q, k, v, o, dout, dq, dk, dv = (a.swapaxes(1, 2) for a in (q, k, v, o, dout, dq, dk, dv))
    share, n_k = q.shape[1] // k.shape[1], k.shape[2]
    for b, g in np.ndindex(k.shape[:2]):
        n = n_k if kv_len is None else int(kv_len[b])
        mask = seen(q.shape[2], n_k, n, causal, window)[:, :n]
        keys, values = widen(k[b, g, :n]), widen(v[b, g, :n])
        sum_k, sum_v = np.zeros((2, n_k, k.shape[3]))
        for h in range(g * share, (g + 1) * share):
            query, cotangent = widen(q[b, h]), widen(dout[b, h])
            s = query @ keys.T * scale
            norm = widen(lse[b, h])[:, None]
            some = mask & (norm > -np.inf)  # a row with lse = -inf has no weights
            p = np.where(some, np.exp(np.where(some, s - norm, 0)), 0)
            delta = (cotangent * widen(o[b, h])).sum(axis=1, keepdims=True)
            ds = p * (cotangent @ values.T - delta) * scale
            put(dq[b, h], ds @ keys)
            sum_k[:n] += ds.T @ query
            sum_v[:n] += p.T @ cotangent
        put(dk[b, g], sum_k)
        put(dv[b, g], sum_v)
