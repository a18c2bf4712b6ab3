# SPDX-License-Identifier: Apache-2.0
"""rms_norm_forward.py - rms_norm_forward in NumPy: blocks of rows, squares in double."""
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


def rms_norm_forward(w, eps, w_offset, out, x=None, residual=None):
    if x is None:  # in place
        x = out["r"]
    gain = widen(w) + w_offset
    step = max(1, BLOCK // max(1, x.shape[1]))
    for begin in range(0, x.shape[0], step):
        rows = slice(begin, begin + step)
        r = widen(x[rows])
        if residual is not None:
            put(out["r"][rows], r + widen(residual[rows]))
            r = widen(out["r"][rows])
        # A power of two that keeps the squares of doubles in range; others have room.
        scale = 1.0
        if x.dtype == np.float64:
            largest = np.maximum(np.abs(r).max(axis=1, keepdims=True), np.sqrt(eps))
            exponent = np.frexp(np.where(np.isfinite(largest), largest, 1))[1]
            scale = np.ldexp(1.0, -np.clip(exponent, -1000, 1000))
            r *= scale
        square = (r * r).mean(axis=1, keepdims=True)
        root = np.where(np.isfinite(square), 1 / np.sqrt(square + eps * scale * scale), np.nan)
        put(out["y"][rows], r * root * gain)
        out["rstd"][rows] = (root * scale).ravel()
