# SPDX-License-Identifier: Apache-2.0
"""rms_norm_forward.py - rms_norm_forward by PyTorch's rms_norm on the CPU; rstd, which that does not return, by
its formula."""
import numpy as np
import torch
from torch.nn.functional import rms_norm


def tensor(a):
    """The numbers; those of 16 bits as float32."""
    if a.dtype == np.uint16:  # bf16
        return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16).float()
    t = torch.from_numpy(a)
    return t.float() if a.dtype == np.float16 else t


def put(to, value):
    t = torch.from_numpy(to.view(np.int16)).view(torch.bfloat16) if to.dtype == np.uint16 else torch.from_numpy(to)
    t.copy_(value.reshape(t.shape))


def rms_norm_forward(w, eps, w_offset, out, x=None, residual=None):
    if x is None:  # in place
        x = out["r"]
    if x.shape[0] == 0:
        return
    r = tensor(x)
    if residual is not None:
        put(out["r"], r + tensor(residual))
        r = tensor(out["r"])
    put(out["y"], rms_norm(r, r.shape[-1:], tensor(w) + w_offset, eps))
    put(out["rstd"], torch.rsqrt(r.pow(2).mean(-1) + eps))
