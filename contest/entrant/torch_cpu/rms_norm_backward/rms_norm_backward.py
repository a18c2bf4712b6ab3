# SPDX-License-Identifier: Apache-2.0
"""rms_norm_backward.py - rms_norm_backward by operations of PyTorch on the CPU.

The gradient of PyTorch's rms_norm needs eps, which this challenge does not pass: y = r rstd (w + w_offset) is
differentiated with d rstd / d r = -rstd^3 r / n."""
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


def rms_norm_backward(r, dy, w, rstd, w_offset, accumulate, out, dr=None):
    gain, a, d = tensor(w) + w_offset, tensor(r), tensor(dy)
    dw = torch.zeros_like(gain)
    if r.shape[0]:
        s = tensor(rstd).view(-1, 1)
        g, rhat = d * gain, a * s
        dx = s * (g - rhat * (g * rhat).mean(-1, keepdim=True))
        put(out["dx"], dx if dr is None else dx + tensor(dr))
        dw = (d * rhat).sum(0)
    put(out["dw"], dw + tensor(out["dw"]) if accumulate else dw)
