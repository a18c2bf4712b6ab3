# SPDX-License-Identifier: Apache-2.0
"""flash_attention.py - flash_attention by PyTorch's scaled_dot_product_attention, which gives no
lse."""
import torch
from torch.nn.functional import scaled_dot_product_attention

torch.backends.cuda.matmul.allow_tf32 = False


def flash_attention(q, k, v, layout, causal, window, scale, out, kv_len=None):
    if "lse" in out or window or kv_len is not None or q.numel() == 0 or k.numel() == 0:
        raise NotImplementedError
    o = out["o"]
    if layout:
        q, k, v, o = (a.transpose(1, 2) for a in (q, k, v, o))
    if causal and q.shape[2] != k.shape[2]:  # it aligns the first query with the first key
        raise NotImplementedError
    o.copy_(scaled_dot_product_attention(q, k, v, is_causal=bool(causal), scale=scale,
                                         enable_gqa=q.shape[1] != k.shape[1]))
