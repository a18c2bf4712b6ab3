# SPDX-License-Identifier: Apache-2.0
"""rms_norm_backward.py - rms_norm_backward as in a textbook: one row at a time, in double."""
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


def rms_norm_backward(r, dy, w, rstd, w_offset, accumulate, out, dr=None):
    gain = widen(w) + w_offset
    dw = widen(out["dw"]) if accumulate else np.zeros(r.shape[1])
    for i in range(r.shape[0]):
        s, d = float(rstd[i]), widen(dy[i])
        rhat = widen(r[i]) * s
        g = d * gain
        dx = s * (g - rhat * (g * rhat).mean())
        put(out["dx"][i], dx if dr is None else dx + widen(dr[i]))
        dw += d * rhat
    out["dw"][...] = dw
