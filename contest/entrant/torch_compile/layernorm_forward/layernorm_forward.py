# SPDX-License-Identifier: Apache-2.0
"""layernorm_forward.py - layernorm_forward as torch.compile makes it from two passes in double."""
import torch


@torch.compile(dynamic=True)
def rows(x, gamma, beta, eps, y, mean, rstd):
    a = x.double()
    m = a.mean(1, keepdim=True)
    d = a - m
    r = 1 / torch.sqrt((d * d).mean(1, keepdim=True) + eps)
    y.copy_(d * r * gamma.double() + beta.double())
    mean.copy_(m[:, 0])
    rstd.copy_(r[:, 0])


def layernorm_forward(x, gamma, beta, eps, out):
    if x.dtype == torch.float64:
        raise NotImplementedError
    if len(x):
        rows(x, gamma, beta, eps, out["y"], out["mean"], out["rstd"])
