# SPDX-License-Identifier: Apache-2.0
"""layernorm_backward.py - layernorm_backward by PyTorch on the CPU."""
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


def layernorm_backward(x, dy, gamma, mean, rstd, accumulate, out):
    gamma = tensor(gamma)
    dx, dgamma, dbeta = tensor(x), torch.zeros_like(gamma), torch.zeros_like(gamma)
    if x.shape[0]:
        dx, dgamma, dbeta = torch.ops.aten.native_layer_norm_backward(
            tensor(dy), tensor(x), list(x.shape[-1:]), tensor(mean).view(-1, 1), tensor(rstd).view(-1, 1), gamma,
            gamma, [True, True, True])
    put(out["dx"], dx)
    for name, value in ("dgamma", dgamma), ("dbeta", dbeta):
        put(out[name], value + tensor(out[name]) if accumulate else value)
