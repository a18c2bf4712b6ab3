# SPDX-License-Identifier: Apache-2.0
"""layernorm_forward.py - layernorm_forward in NumPy: two passes in double over a block of rows."""
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


def layernorm_forward(x, gamma, beta, eps, out):
    gamma, beta = widen(gamma), widen(beta)
    step = max(1, BLOCK // max(1, x.shape[1]))
    for begin in range(0, x.shape[0], step):
        rows = slice(begin, begin + step)
        a = widen(x[rows])
        # A power of two that keeps the sum and the squares of doubles in range; others have room.
        scale = 1.0
        if x.dtype == np.float64:
            largest = np.abs(a).max(axis=1, keepdims=True)
            exponent = np.frexp(np.where(np.isfinite(largest), largest, 1))[1]
            scale = np.ldexp(1.0, -np.clip(exponent, -1000, 1000))
            a *= scale
        mean = a.mean(axis=1, keepdims=True)
        a -= mean
        rest = a.mean(axis=1, keepdims=True)  # what rounding the mean left behind
        var = np.maximum((a * a).mean(axis=1, keepdims=True) - rest * rest, 0)
        small = np.isinf(eps * scale * scale) | (var == 0)
        root = 1 / np.sqrt(var + eps * scale * scale)
        root = np.where(small, 1 / np.sqrt(eps) / scale, root)
        put(out["y"][rows], a * root * gamma + beta)
        out["mean"][rows] = (mean / scale).ravel()
        out["rstd"][rows] = (root * scale).ravel()
