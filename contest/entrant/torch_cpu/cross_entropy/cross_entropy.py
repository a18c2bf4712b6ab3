# SPDX-License-Identifier: Apache-2.0
"""cross_entropy.py - cross_entropy by PyTorch's linear, cross_entropy, logsumexp and autograd on the CPU."""
import numpy as np
import torch
from torch.nn.functional import cross_entropy as cross_entropy_of, linear


def tensor(a):
    """The numbers; those of 16 bits as float32."""
    if a.dtype == np.uint16:  # bf16
        return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16).float()
    t = torch.from_numpy(a)
    return t.float() if a.dtype == np.float16 else t


def put(to, value):
    t = torch.from_numpy(to.view(np.int16)).view(torch.bfloat16) if to.dtype == np.uint16 else torch.from_numpy(to)
    t.copy_(value.reshape(t.shape))


def losses(x, target, smoothing, z_loss, softcap, ignore_index):
    """Those of all rows, 0 of ignored ones, and their lse."""
    z = softcap * torch.tanh(x / softcap) if softcap else x
    counted = target != ignore_index
    lse = torch.where(counted, torch.logsumexp(z, -1), 0)
    loss = cross_entropy_of(z, target, ignore_index=ignore_index, reduction="none", label_smoothing=smoothing)
    return loss + z_loss * lse * lse, lse


def put_losses(loss, lse, mean, n, out):
    total = loss.sum()
    put(out["loss"], loss), put(out["lse"], lse)
    put(out["total"], total / n if mean and n else total * torch.nan if mean else total)


def cross_entropy(h, w, target, scale, smoothing, z_loss, softcap, mean, ignore_index, chunk, accumulate, out,
                  bias=None):
    a, b = tensor(h).clone().requires_grad_(), tensor(w).clone().requires_grad_()
    target = torch.from_numpy(target).long()
    n = int((target != ignore_index).sum())
    x = linear(a, b, None if bias is None else tensor(bias))
    loss, lse = losses(x, target, smoothing, z_loss, softcap, ignore_index)
    if ("dh" in out or "dw" in out) and len(a):
        (loss.sum() * (scale / n if mean and n else scale)).backward()
    for name, source in ("dh", a), ("dw", b):
        if name in out:
            value = torch.zeros_like(source) if source.grad is None else source.grad
            put(out[name], value + tensor(out[name]) if accumulate else value)
    put_losses(loss.detach(), lse.detach(), mean, n, out)
