# SPDX-License-Identifier: Apache-2.0
"""softmax_topk.py - softmax_topk by PyTorch's softmax, topk and logsumexp on the CPU."""
import numpy as np
import torch


def tensor(a):
    """The numbers; those of 16 bits as float32."""
    if a.dtype == np.uint16:  # bf16
        return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16).float()
    t = torch.from_numpy(a)
    return t.float() if a.dtype == np.float16 else t


def put(to, value):
    t = torch.from_numpy(to.view(np.int16)).view(torch.bfloat16) if to.dtype == np.uint16 else torch.from_numpy(to)
    t.copy_(value.reshape(t.shape))


def softmax_topk(logits, k, inv_temperature, out):
    rows, vocab = logits.shape
    if rows == 0:
        return
    if vocab == 0:
        for name, value in ("index", -1), ("prob", 0), ("lse", -np.inf):
            if name in out:
                out[name][...] = value
        return
    z = tensor(logits) * inv_temperature
    if "lse" in out:
        put(out["lse"], torch.logsumexp(z, -1))
    if not k:
        return
    n = min(k, vocab)
    prob, index = torch.topk(torch.softmax(z, -1), n)
    put(out["index"][:, :n], index)
    put(out["prob"][:, :n], prob)
    out["index"][:, n:], out["prob"][:, n:] = -1, 0
