# SPDX-License-Identifier: Apache-2.0
"""attention_backward_einsum.py - flash_attention_backward by einsum over all heads of a batch.

Ways: rows output again

rows: delta is the row sum of P dP, output: dout . o; again: rows, with a softmax of its own."""
import numpy as np


def widen(a):
    """In the dtype of arithmetic: float32, or float64."""
    if a.dtype == np.uint16:  # bf16: the upper half of a float32
        return (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64 if a.dtype == np.float64 else np.float32)


def put(to, value):
    if to.dtype == np.uint16:
        bits = np.asarray(value, np.float32).view(np.uint32)
        value = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    to[...] = value


def seen(n_q, n_k, length, causal, window):
    """Which keys each query sees."""
    last = np.arange(n_q)[:, None] + n_k - n_q
    j = np.arange(n_k)[None, :]
    mask = np.broadcast_to(j < length, (n_q, n_k))
    if causal:
        mask = mask & (j <= last)
    return mask & (last - j < window) if window else mask


def weights(s, lse, mask):
    if WAY != "again":
        return np.where(mask, np.exp(np.where(mask, s - lse[..., None], 0)), 0)
    top = np.max(np.where(mask, s, -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    e = np.where(mask, np.exp(np.where(mask, s - np.where(np.isfinite(top), top, 0), 0)), 0)
    return e / np.maximum(e.sum(-1, keepdims=True), np.finfo(e.dtype).tiny)


def flash_attention_backward(q, k, v, o, dout, lse, layout, causal, window, scale, out,
                             kv_len=None):
    dq, dk, dv = out["dq"], out["dk"], out["dv"]
    if layout:
        q, k, v, o, dout, dq, dk, dv = (a.swapaxes(1, 2) for a in (q, k, v, o, dout, dq, dk, dv))
    share, n_k = q.shape[1] // k.shape[1], k.shape[2]
    for b in range(k.shape[0]):
        n = n_k if kv_len is None else int(kv_len[b])
        mask = seen(q.shape[2], n_k, n, causal, window)[:, :n]
        heads = [widen(x[b]).reshape(k.shape[1], share, *x.shape[2:]) for x in (q, o, dout, lse)]
        queries, outputs, grads, norm = heads  # [kv_head][share][row]...
        keys, values = widen(k[b, :, :n]), widen(v[b, :, :n])
        s = np.einsum("gsid,gjd->gsij", queries, keys) * keys.dtype.type(scale)
        p = weights(s, norm, mask & np.isfinite(norm)[..., None])  # no weights if lse is -inf
        dp = np.einsum("gsid,gjd->gsij", grads, values)
        if WAY == "output":
            delta = np.einsum("gsid,gsid->gsi", grads, outputs)
        else:
            delta = np.einsum("gsij,gsij->gsi", p, dp)
        ds = p * (dp - delta[..., None]) * keys.dtype.type(scale)
        put(dq[b], np.einsum("gsij,gjd->gsid", ds, keys).reshape(dq[b].shape))
        for to, left, right in ((dk, ds, queries), (dv, p, grads)):
            whole = np.zeros(to[b].shape, keys.dtype)
            whole[:, :n] = np.einsum("gsij,gsid->gjd", left, right)
            put(to[b], whole)
