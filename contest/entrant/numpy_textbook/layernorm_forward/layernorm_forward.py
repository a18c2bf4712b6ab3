# SPDX-License-Identifier: Apache-2.0
"""layernorm_forward.py - layernorm_forward as in a textbook: one row at a time, in double."""
import numpy as np


def widen(a):
    if a.dtype == np.uint16:  # bf16: the upper half of a float32
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64)


def put(to, a):
    """Rounds once, to nearest even: bf16 by way of a float that is rounded to odd."""
    if to.dtype != np.uint16:
        to[...] = a
        return
    f = np.asarray(a, np.float32)
    bits = f.view(np.uint32).copy()
    inexact = np.isfinite(f) & (f.astype(np.float64) != a)
    bits -= (inexact & (np.abs(f.astype(np.float64)) > np.abs(a))).astype(np.uint32)
    bits |= inexact.astype(np.uint32)
    to[...] = np.where(np.isnan(f), 0x7fc0, (bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def layernorm_forward(x, gamma, beta, eps, out):
    np.seterr(all="ignore")
    gamma, beta = widen(gamma), widen(beta)
    for r in range(x.shape[0]):
        a = widen(x[r])
        # A power of two that keeps the squares of doubles in range.
        top = np.abs(a).max()
        scale = 1.0
        if x.dtype == np.float64 and np.isfinite(top):
            scale = np.ldexp(1.0, -int(np.clip(np.frexp(top)[1], -1000, 1000)))
        a = a * scale
        mean = a.mean()
        a = a - mean
        var = max((a * a).mean() - a.mean() ** 2, 0) if np.isfinite(mean) else np.nan
        if var == 0 or np.isinf(eps * scale * scale):
            root = 1 / np.sqrt(eps) / scale
        else:
            root = 1 / np.sqrt(var + eps * scale * scale)
        put(out["y"][r], a * root * gamma + beta)
        out["mean"][r], out["rstd"][r] = mean / scale, root * scale
