# SPDX-License-Identifier: Apache-2.0
"""layernorm_backward.py - layernorm_backward by PyTorch, in float32."""
import torch


def layernorm_backward(x, dy, gamma, mean, rstd, accumulate, out):
    if x.dtype == torch.float64:
        raise NotImplementedError
    if x.dtype != torch.float32:  # its sums would be rounded to 16 bits
        x, dy, gamma = x.float(), dy.float(), gamma.float()
    dx, dgamma, dbeta = torch.ops.aten.native_layer_norm_backward(
        dy, x, x.shape[-1:], mean.view(-1, 1), rstd.view(-1, 1), gamma, gamma, [True, True, True])
    out["dx"].copy_(dx)
    for name, value in ("dgamma", dgamma), ("dbeta", dbeta):
        if accumulate:
            out[name].add_(value)
        else:
            out[name].copy_(value)
