# SPDX-License-Identifier: Apache-2.0
"""layernorm_backward.py - layernorm_backward in NumPy: dx row by row, the parameters' gradients
summed over blocks of rows."""
import numpy as np

BLOCK = 1 << 18  # elements that stay in the cache together


def widen(a):
    if a.dtype == np.uint16:  # bf16: the upper half of a float32
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64)


def put(to, a):
    """Rounds once, to nearest even."""
    if to.dtype != np.uint16:
        to[...] = a
        return
    f = a.astype(np.float32)
    bits = f.view(np.uint32)
    rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    to[...] = np.where(np.isnan(f), 0x7fc0, rounded).astype(np.uint16)


def layernorm_backward(x, dy, gamma, mean, rstd, accumulate, out):
    gamma = widen(gamma)
    dgamma, dbeta = (widen(out[n]) if accumulate else np.zeros(x.shape[1]) for n in ("dgamma", "dbeta"))
    step = max(1, BLOCK // max(1, x.shape[1]))
    for begin in range(0, x.shape[0], step):
        rows = slice(begin, begin + step)
        r = widen(rstd[rows])[:, None]
        # Halved twice where rstd is small: far values' difference may not be representable.
        quarter = np.where(r < 1, 0.25, 1)
        xhat = (widen(x[rows]) * quarter - widen(mean[rows])[:, None] * quarter) * (r / quarter)
        d = widen(dy[rows])
        g = d * gamma
        put(out["dx"][rows], r * (g - g.mean(axis=1, keepdims=True)
                                  - xhat * (g * xhat).mean(axis=1, keepdims=True)))
        dgamma += (d * xhat).sum(axis=0)
        dbeta += d.sum(axis=0)
    out["dgamma"][...], out["dbeta"][...] = dgamma, dbeta
