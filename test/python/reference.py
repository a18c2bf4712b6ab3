# SPDX-License-Identifier: Apache-2.0
"""reference.py - the kernels' definitions in double, for the tests of the Python package."""
import numpy as np


def layer_norm(x, w, b, eps):
    x = x.astype(np.float64)
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps) * w + b


def rms_norm(x, w, eps):
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def lse(x, axis=-1):
    m = x.max(axis, keepdims=True)
    m = np.where(np.isfinite(m), m, 0)
    with np.errstate(divide="ignore"):
        return (np.log(np.exp(x - m).sum(axis, keepdims=True)) + m).squeeze(axis)


def attention(q, k, v, causal=False, window=0, kv_len=None, scale=None, see=None):
    """[batch, heads, n, head_dim]; see: [batch, n_q, n_k] instead of the other rules."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    b, h, n, d = q.shape
    m = k.shape[2]
    k, v = (np.repeat(a, h // a.shape[1], axis=1) for a in (k, v))
    s = q @ k.swapaxes(2, 3) * (d ** -0.5 if scale is None else scale)
    i, j = np.arange(n)[:, None] + m - n, np.arange(m)[None, :]
    if see is None:
        see = np.ones((b, n, m), bool)
        if causal:
            see &= j <= i
        if window:
            see &= i - j < window
        if kv_len is not None:
            see &= j[None] < np.asarray(kv_len)[:, None, None]
    s = np.where(see[:, None], s, -np.inf)
    l = lse(s)
    p = np.exp(s - np.where(np.isfinite(l), l, 0)[..., None])
    return p @ v, l


def cross_entropy(x, target, smoothing=0.0, z_loss=0.0, softcap=0.0, ignore_index=-100):
    x = x.astype(np.float64)
    z = softcap * np.tanh(x / softcap) if softcap else x
    l = lse(z)
    counted = target != ignore_index
    t = np.where(counted, target, 0)
    zt = np.take_along_axis(z, t[..., None], -1)[..., 0]
    loss = l - (1 - smoothing) * zt - smoothing * z.mean(-1) + z_loss * l * l
    return np.where(counted, loss, 0), counted


def ternary(w):
    """The weights -s, 0, +s, in groups of 128 inputs."""
    out = np.zeros_like(w, dtype=np.float64)
    for g in range(0, w.shape[1], 128):
        part = w[:, g:g + 128].astype(np.float64)
        s = np.abs(part).mean(1, keepdims=True).astype(np.float16).astype(np.float64)
        out[:, g:g + 128] = np.where(2 * np.abs(part) <= s, 0, np.sign(part)) * s
    return out


def close(got, want, tolerance):
    got = np.asarray(got, np.float64)
    assert got.shape == want.shape, (got.shape, want.shape)
    same = (got == want) | (np.isnan(got) & np.isnan(want))  # infinities
    error = np.where(same, 0, np.abs(got - np.where(np.isfinite(want), want, 0)))
    assert (error <= tolerance * (1 + np.abs(np.where(np.isfinite(want), want, 0)))).all(), error.max()
