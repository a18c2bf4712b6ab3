# SPDX-License-Identifier: Apache-2.0
"""flash_attention.py - flash_attention by PyTorch's scaled_dot_product_attention on the CPU; lse, which that does
not return, by logsumexp."""
import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention


def tensor(a):
    """The numbers; those of 16 bits as float32."""
    if a.dtype == np.uint16:  # bf16
        return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16).float()
    t = torch.from_numpy(a)
    return t.float() if a.dtype == np.float16 else t


def put(to, value):
    t = torch.from_numpy(to.view(np.int16)).view(torch.bfloat16) if to.dtype == np.uint16 else torch.from_numpy(to)
    t.copy_(value)


def seen(n_q, n_k, n, causal, window):
    """Which of the first n keys each query sees; None: all."""
    if not causal:
        return None
    last = torch.arange(n_q)[:, None] + n_k - n_q
    j = torch.arange(n)[None, :]
    return (j <= last) & (last - j < window) if window else j <= last


def attend(q, k, v, n_k, causal, window, scale):
    """Heads before rows, of some batches that have as many keys; n_k: the keys of the call."""
    share, mask = q.shape[1] // k.shape[1], seen(q.shape[2], n_k, k.shape[2], causal, window)
    k, v = (a.repeat_interleave(share, 1) for a in (k, v))
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale), k, mask


def flash_attention(q, k, v, layout, causal, window, scale, out, kv_len=None):
    if q.size == 0:
        return
    n_k = k.shape[1 if layout else 2]
    q, k, v = (tensor(a) for a in (q, k, v))
    if layout:
        q, k, v = (a.transpose(1, 2) for a in (q, k, v))
    o, lse = torch.zeros_like(q), torch.full(q.shape[:3], -torch.inf, dtype=q.dtype)
    for b in range(q.shape[0]) if kv_len is not None else [0]:
        n = n_k if kv_len is None else int(kv_len[b])
        if n == 0:
            continue
        some = slice(None) if kv_len is None else slice(b, b + 1)
        o[some], keys, mask = attend(q[some], k[some, :, :n], v[some, :, :n], n_k, causal, window, scale)
        if "lse" in out:
            s = q[some] @ keys.transpose(2, 3) * scale
            lse[some] = torch.logsumexp(s if mask is None else s.masked_fill(~mask, -torch.inf), -1)
    put(out["o"], o.transpose(1, 2) if layout else o)
    if "lse" in out:
        put(out["lse"], lse)
