# SPDX-License-Identifier: Apache-2.0
"""cross_entropy.py - cross_entropy in NumPy: blocks of counted rows against the whole vocabulary,
in double."""
import numpy as np

BLOCK = 1 << 20  # logits at a time, where the caller sets no bound


def widen(a):
    if a.dtype == np.uint16:  # bf16: the upper half of a float32
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64)


def put(to, a):
    """Rounds once, to nearest even: bf16 by way of a float that is rounded to odd."""
    if to.dtype != np.uint16:
        to[...] = a
        return
    f = a.astype(np.float32)
    bits = f.view(np.uint32).copy()
    inexact = np.isfinite(f) & (f.astype(np.float64) != a)
    bits -= (inexact & (np.abs(f.astype(np.float64)) > np.abs(a))).astype(np.uint32)
    bits |= inexact.astype(np.uint32)
    rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    to[...] = np.where(np.isnan(f), 0x7fc0, rounded).astype(np.uint16)


def block(x, target, g, smoothing, z_loss, softcap):
    """lse, loss and the gradient of rows of logits."""
    rows, n = np.arange(len(target)), x.shape[1]
    t = np.tanh(x / softcap) if softcap else 0
    z = softcap * t if softcap else x
    m = z.max(axis=1, keepdims=True)
    lse = (m + np.log(np.exp(z - m).sum(axis=1, keepdims=True)))[:, 0]
    loss = lse + z_loss * lse * lse
    if smoothing < 1:
        loss = loss - (1 - smoothing) * z[rows, target]
    if smoothing > 0:
        loss = loss - smoothing * z.mean(axis=1)
    dx = (1 + 2 * z_loss * lse)[:, None] * np.exp(z - lse[:, None])
    dx[rows, target] -= 1 - smoothing
    dx = (dx - smoothing / n) * g
    return lse, loss, dx * (1 - t * t) if softcap else dx


def cross_entropy(h, w, target, scale, smoothing, z_loss, softcap, mean, ignore_index, chunk, accumulate, out,
                  bias=None):
    np.seterr(all="ignore")
    n_rows, n_vocab = h.shape[0], w.shape[0]
    counted = np.flatnonzero(target != ignore_index)
    g = scale / len(counted) if mean and len(counted) else scale
    wide, shift = widen(w), 0 if bias is None else widen(bias)
    dh, dw = out.get("dh"), out.get("dw")
    of_h = None if dh is None else np.zeros(h.shape)
    of_w = None if dw is None else np.zeros(w.shape)
    loss, lse = np.zeros(n_rows), np.zeros(n_rows)
    step = max(1, (chunk or BLOCK) // n_vocab)
    for begin in range(0, len(counted), step):
        rows = counted[begin:begin + step]
        x = widen(h[rows])
        lse[rows], loss[rows], dx = block(x @ wide.T + shift, target[rows], g, smoothing, z_loss, softcap)
        if of_h is not None:
            of_h[rows] = dx @ wide
        if of_w is not None:
            of_w += dx.T @ x
    out["loss"][...], out["lse"][...] = loss, lse
    out["total"][...] = loss.sum() / len(counted) if mean and len(counted) else np.nan if mean else loss.sum()
    for to, value in (dh, of_h), (dw, of_w):
        if to is not None:
            put(to, value + widen(to) if accumulate else value)
