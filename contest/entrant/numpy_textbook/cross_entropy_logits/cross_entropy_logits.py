# SPDX-License-Identifier: Apache-2.0
"""cross_entropy_logits.py - cross_entropy_logits as in a textbook: one row at a time, in double."""
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


def row(x, target, g, smoothing, z_loss, softcap):
    """lse, loss and the gradient of one row of logits."""
    t = np.tanh(x / softcap) if softcap else 0
    z = softcap * t if softcap else x
    lse = z.max() + np.log(np.exp(z - z.max()).sum())
    loss = lse + z_loss * lse * lse
    if smoothing < 1:
        loss -= (1 - smoothing) * z[target]
    if smoothing > 0:
        loss -= smoothing * z.mean()
    dx = (1 + 2 * z_loss * lse) * np.exp(z - lse)
    dx[target] -= 1 - smoothing
    dx = (dx - smoothing / len(x)) * g
    return lse, loss, dx * (1 - t * t) if softcap else dx


def cross_entropy_logits(target, scale, smoothing, z_loss, softcap, mean, ignore_index, out, logits=None):
    np.seterr(all="ignore")
    to = out.get("logits", out.get("dlogits"))
    if logits is None:
        logits = out["logits"]  # in place
    n = int((target != ignore_index).sum())
    g = scale / n if mean and n else scale
    loss, lse = np.zeros(logits.shape[0]), np.zeros(logits.shape[0])
    for i in range(logits.shape[0]):
        dx = np.zeros(logits.shape[1])
        if target[i] != ignore_index:
            lse[i], loss[i], dx = row(widen(logits[i]), target[i], g, smoothing, z_loss, softcap)
        if to is not None:
            put(to[i], dx)
    out["loss"][...], out["lse"][...] = loss, lse
    out["total"][...] = loss.sum() / n if mean and n else np.nan if mean else loss.sum()
