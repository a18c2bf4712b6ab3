# SPDX-License-Identifier: Apache-2.0
"""layernorm_backward.py - layernorm_backward as in a textbook: one row at a time, in double."""
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


def layernorm_backward(x, dy, gamma, mean, rstd, accumulate, out):
    gamma = widen(gamma)
    dgamma, dbeta = (widen(out[n]) if accumulate else np.zeros(x.shape[1]) for n in ("dgamma", "dbeta"))
    for i in range(x.shape[0]):
        r, d = float(rstd[i]), widen(dy[i])
        part = 0.25 if r < 1 else 1.0  # the difference of far values may not be representable
        xhat = (widen(x[i]) * part - float(mean[i]) * part) * (r / part)
        g = d * gamma
        put(out["dx"][i], r * (g - g.mean() - xhat * (g * xhat).mean()))
        dgamma += d * xhat
        dbeta += d
    out["dgamma"][...], out["dbeta"][...] = dgamma, dbeta
