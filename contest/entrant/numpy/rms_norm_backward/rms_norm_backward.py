# SPDX-License-Identifier: Apache-2.0
"""rms_norm_backward.py - rms_norm_backward in NumPy: dx row by row, the gradient of w summed over
blocks of rows."""
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


def rms_norm_backward(r, dy, w, rstd, w_offset, accumulate, out, dr=None):
    gain = widen(w) + w_offset
    dw = widen(out["dw"]) if accumulate else np.zeros(r.shape[1])
    step = max(1, BLOCK // max(1, r.shape[1]))
    for begin in range(0, r.shape[0], step):
        rows = slice(begin, begin + step)
        s = widen(rstd[rows])[:, None]
        rhat, d = widen(r[rows]) * s, widen(dy[rows])
        g = d * gain
        dx = s * (g - rhat * (g * rhat).mean(axis=1, keepdims=True))
        put(out["dx"][rows], dx if dr is None else dx + widen(dr[rows]))
        dw += (d * rhat).sum(axis=0)
    out["dw"][...] = dw
