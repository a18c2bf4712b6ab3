# SPDX-License-Identifier: Apache-2.0
"""flash_attention_backward.py - flash_attention_backward by PyTorch's scaled_dot_product_attention.

PyTorch takes no o and lse from outside, so forward runs again."""
import torch
from torch.nn.functional import scaled_dot_product_attention

torch.backends.cuda.matmul.allow_tf32 = False


def flash_attention_backward(q, k, v, dout, layout, causal, window, scale, out, kv_len=None):
    if window or kv_len is not None or q.numel() == 0 or k.numel() == 0:
        raise NotImplementedError
    if layout:
        q, k, v, dout = (a.transpose(1, 2) for a in (q, k, v, dout))
    if causal and q.shape[2] != k.shape[2]:  # it aligns the first query with the first key
        raise NotImplementedError
    q, k, v = (a.detach().requires_grad_() for a in (q, k, v))
    o = scaled_dot_product_attention(q, k, v, is_causal=bool(causal), scale=scale,
                                     enable_gqa=q.shape[1] != k.shape[1])
    for name, grad in zip(("dq", "dk", "dv"), torch.autograd.grad(o, (q, k, v), dout)):
        out[name].copy_(grad.transpose(1, 2) if layout else grad)
