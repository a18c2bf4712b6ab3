# SPDX-License-Identifier: Apache-2.0
"""flash_attention_backward.py - flash_attention_backward by PyTorch's scaled_dot_product_attention on the CPU.

PyTorch takes no o and lse from outside, so forward runs again."""
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
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def flash_attention_backward(q, k, v, dout, layout, causal, window, scale, out, kv_len=None):
    n_k = k.shape[1 if layout else 2]
    q, k, v, dout = (tensor(a) for a in (q, k, v, dout))
    if layout:
        q, k, v, dout = (a.transpose(1, 2) for a in (q, k, v, dout))
    grads = [torch.zeros_like(a) for a in (q, k, v)]
    for b in range(q.shape[0]) if kv_len is not None else [0]:
        n = n_k if kv_len is None else int(kv_len[b])
        if n == 0 or q.numel() == 0:
            continue
        some = slice(None) if kv_len is None else slice(b, b + 1)
        parts = q[some], k[some, :, :n], v[some, :, :n]
        parts = [a.detach().requires_grad_() for a in parts]
        o = attend(*parts, n_k, causal, window, scale)
        for to, grad in zip(grads, torch.autograd.grad(o, parts, dout[some])):
            to[some, :, :grad.shape[2]] = grad
    for name, grad in zip(("dq", "dk", "dv"), grads):
        put(out[name], grad.transpose(1, 2) if layout else grad)
