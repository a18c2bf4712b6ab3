# SPDX-License-Identifier: Apache-2.0
"""layernorm_forward.py - layernorm_forward by PyTorch."""
import torch


def layernorm_forward(x, gamma, beta, eps, out):
    if x.dtype == torch.float64:
        raise NotImplementedError
    y, mean, rstd = torch.native_layer_norm(x, x.shape[-1:], gamma, beta, eps)
    out["y"].copy_(y)
    out["mean"].copy_(mean.view(-1))
    out["rstd"].copy_(rstd.view(-1))
