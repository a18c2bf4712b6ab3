# SPDX-License-Identifier: Apache-2.0
"""rms_norm_forward.py - rms_norm_forward as in a textbook: one row at a time, in double."""
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


def rms_norm_forward(w, eps, w_offset, out, x=None, residual=None):
    np.seterr(all="ignore")
    if x is None:  # in place
        x = out["r"]
    gain = widen(w) + w_offset
    for i in range(x.shape[0]):
        r = widen(x[i])
        if residual is not None:
            put(out["r"][i], r + widen(residual[i]))
            r = widen(out["r"][i])
        # A power of two that keeps the squares of doubles in range.
        top = max(np.abs(r).max(), np.sqrt(eps))
        scale = 1.0
        if x.dtype == np.float64 and np.isfinite(top):
            scale = np.ldexp(1.0, -int(np.clip(np.frexp(top)[1], -1000, 1000)))
        r = r * scale
        square = (r * r).mean()
        root = 1 / np.sqrt(square + eps * scale * scale) if np.isfinite(square) else np.nan
        put(out["y"][i], r * root * gain)
        out["rstd"][i] = root * scale
