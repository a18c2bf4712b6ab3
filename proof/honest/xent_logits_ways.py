# SPDX-License-Identifier: Apache-2.0
"""xent_logits_ways.py - cross_entropy_logits in float32, or of float64 in float64.

Textbook formulas: the logarithm of a sum, log-softmax and its mean, p as a quotient, a maximum that is
updated in blocks, sums in one loop, by einsum, or in double, and there also a running logarithm of the sum.

Common ways: lse log_softmax quotient online loop einsum wide running
"""
import numpy as np


def widen(a):
    """The numbers as float32, or float64 as they are."""
    wide = a.dtype == np.float64 or WAY in ("wide", "running")
    if a.dtype == np.uint16:  # bf16: the upper half of a float32
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64 if wide else np.float32)


def put(to, a):
    """Rounds a float to the storage."""
    if to.dtype != np.uint16:
        to[...] = a
        return
    bits = a.astype(np.float32).view(np.uint32)
    to[...] = np.where(np.isnan(a), 0x7fc0, (bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def total_of(a):
    """Sums over the last axis, in the order of this way."""
    if a.shape[-1] == 0:
        return np.zeros(a.shape[:-1], a.dtype)
    if WAY in ("loop", "online"):
        return np.cumsum(a, axis=-1, dtype=a.dtype)[..., -1]
    if WAY == "einsum":
        return np.einsum("...i->...", a)
    return a.sum(axis=-1, dtype=a.dtype)


def log_sum(z):
    """The largest, and the sum of exponentials relative to it; or the whole logarithm, and 1."""
    if WAY == "running":
        return np.logaddexp.reduce(z, axis=1), np.ones(len(z), z.dtype)
    if WAY != "online":
        m = z.max(axis=1)
        return m, total_of(np.exp(z - m[:, None]))
    m, s = np.full(len(z), -np.inf, z.dtype), np.zeros(len(z), z.dtype)
    for begin in range(0, z.shape[1], 32):
        part = z[:, begin:begin + 32]
        new = np.maximum(m, part.max(axis=1))
        s = s * np.exp(m - new) + total_of(np.exp(part - new[:, None]))
        m = new
    return m, s


def block(x, target, g, smoothing, z_loss, softcap):
    """lse, loss and the gradient of rows of logits."""
    f = x.dtype.type
    rows, n, g, a, b = np.arange(len(target)), x.shape[1], f(g), f(1 - smoothing), f(smoothing)
    t = np.tanh(x / f(softcap)) if softcap else x
    if softcap and WAY == "quotient":  # tanh by an exponential
        e = np.exp(-2 * np.abs(x / f(softcap)))
        t = np.sign(x) * (1 - e) / (1 + e)
    z = f(softcap) * t if softcap else x
    m, s = log_sum(z)
    lse = m + np.log(s)
    square = f(z_loss) * lse * lse
    if WAY in ("log_softmax", "loop"):
        logp = z - m[:, None] - np.log(s)[:, None] if WAY == "loop" else z - lse[:, None]
        loss, p = -a * logp[rows, target] + square, np.exp(logp)
        if smoothing > 0:
            loss = loss - b / f(n) * total_of(logp)
    else:
        p = np.exp(z - m[:, None]) / s[:, None] if WAY == "quotient" else np.exp(z - lse[:, None])
        loss = lse + square - (a * z[rows, target] if smoothing < 1 else f(0))
        if smoothing > 0:
            loss = loss - b * total_of(z) / f(n)
    dx = (1 + f(2 * z_loss) * lse)[:, None] * p
    dx[rows, target] -= a
    dx = (dx - b / f(n)) * g
    return lse, loss, dx * (1 - t * t) if softcap else dx


def mean_of(loss, mean, n, to):
    """The reduction of the losses."""
    total = total_of(loss) if len(loss) else loss.dtype.type(0)
    to[...] = total / loss.dtype.type(n) if mean and n else np.nan if mean else total


def cross_entropy_logits(target, scale, smoothing, z_loss, softcap, mean, ignore_index, out, logits=None):
    np.seterr(all="ignore")
    to = out.get("logits", out.get("dlogits"))
    x = widen(out["logits"] if logits is None else logits)  # None: in place
    some = np.flatnonzero(target != ignore_index)
    loss, lse = np.zeros(len(x), x.dtype), np.zeros(len(x), x.dtype)
    gradient = np.zeros(x.shape, x.dtype)
    if len(some):
        g = scale / len(some) if mean else scale
        lse[some], loss[some], gradient[some] = block(x[some], target[some], g, smoothing, z_loss, softcap)
    if to is not None:
        put(to, gradient)
    out["loss"][...], out["lse"][...] = loss, lse
    mean_of(loss, mean, len(some), out["total"])
