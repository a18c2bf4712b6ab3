# SPDX-License-Identifier: Apache-2.0
"""flash_attention.py - flash_attention in NumPy: the whole matrix of scores, a head at a time, in
double."""
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


def flash_attention(q, k, v, layout, causal, window, scale, out, kv_len=None):
    o, lse = out["o"], out.get("lse")
    if layout:  # heads before rows; what is written goes through the views
        q, k, v, o = (a.swapaxes(1, 2) for a in (q, k, v, o))
    share, n_k = q.shape[1] // k.shape[1], k.shape[2]
    for b, h in np.ndindex(q.shape[:2]):
        n = n_k if kv_len is None else int(kv_len[b])
        mask = seen(q.shape[2], n_k, n, causal, window)[:, :n]
        keys, values = widen(k[b, h // share, :n]), widen(v[b, h // share, :n])
        s = np.where(mask, widen(q[b, h]) @ keys.T * scale, -np.inf)
        top = s.max(axis=1, keepdims=True, initial=-np.inf)
        p = np.where(s == -np.inf, 0, np.exp(s - top))
        total = p.sum(axis=1, keepdims=True)
        empty = total == 0
        put(o[b, h], np.where(empty, 0, p @ values / np.where(empty, 1, total)))
        if lse is not None:
            lse[b, h] = np.where(empty, -np.inf, top + np.log(total))[:, 0]
