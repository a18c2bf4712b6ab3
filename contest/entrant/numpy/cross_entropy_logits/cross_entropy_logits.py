# SPDX-License-Identifier: Apache-2.0
"""cross_entropy_logits.py - cross_entropy_logits in NumPy: blocks of rows, in double; the gradient
apart or in place of the logits."""
import numpy as np

BLOCK = 1 << 20  # logits at a time


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


def cross_entropy_logits(target, scale, smoothing, z_loss, softcap, mean, ignore_index, out, logits=None):
    np.seterr(all="ignore")
    to = out.get("logits", out.get("dlogits"))
    if logits is None:
        logits = out["logits"]  # in place
    n_rows, n_vocab = logits.shape
    counted = target != ignore_index
    n = counted.sum()
    g = scale / n if mean and n else scale
    loss, lse = np.zeros(n_rows), np.zeros(n_rows)
    step = max(1, BLOCK // n_vocab)
    for begin in range(0, n_rows, step):
        rows = np.arange(begin, min(begin + step, n_rows))
        some = rows[counted[rows]]
        lse[some], loss[some], dx = block(widen(logits[some]), target[some], g, smoothing, z_loss, softcap)
        if to is not None:
            gradient = np.zeros((len(rows), n_vocab))
            gradient[counted[rows]] = dx
            put(to[begin:begin + len(rows)], gradient)
    out["loss"][...], out["lse"][...] = loss, lse
    out["total"][...] = loss.sum() / n if mean and n else np.nan if mean else loss.sum()
