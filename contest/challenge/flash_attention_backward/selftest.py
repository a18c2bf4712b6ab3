# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for flash_attention_backward against the definition in double."""
from selftest_common import case, empty, np, random, store, sum_bound, verdict, widen
from flash_attention_backward import flash_attention_backward


def weights(q, k, length, causal, window, scale):
    """P of one head, and lse."""
    n_q, n_k = len(q), len(k)
    last, j = np.arange(n_q)[:, None] + n_k - n_q, np.arange(n_k)[None, :]
    mask = (j < length) & ((j <= last) | (not causal)) & ((last - j < window) | (not window))
    s = np.where(mask, q @ k.T * scale, -np.inf)
    top = np.where(mask.any(axis=1), s.max(axis=1), 0)
    total = np.where(mask, np.exp(s - top[:, None]), 0).sum(axis=1)
    lse = np.where(total > 0, top + np.log(np.where(total > 0, total, 1)), -np.inf)
    return np.where(mask, np.exp(s - np.where(total > 0, lse, 0)[:, None]), 0), lse


def expected(a, p, lse, share, scale, u):
    """Gradients and their bounds, from o as it is given."""
    q, k, v, o, dout = (widen(a[name]) for name in ("q", "k", "v", "o", "dout"))
    want = {name: [np.zeros(like.shape), np.zeros(like.shape)]
            for name, like in (("dq", q), ("dk", k), ("dv", v))}
    for b, h in np.ndindex(q.shape[:2]):
        g = h // share
        dp, delta = dout[b, h] @ v[b, g].T, (dout[b, h] * o[b, h]).sum(axis=1, keepdims=True)
        ds = p[b, h] * (dp - delta) * scale
        part = (u + sum_bound(q.shape[3]) * abs(scale) * (np.abs(q[b, h]) @ np.abs(k[b, g]).T) +
                2 * np.where(np.isfinite(lse[b, h]), np.abs(lse[b, h]), 0)[:, None] * 2.0**-24)
        weight = part * p[b, h]  # what P may be off by: a score's error is a part of it
        size = weight * abs(scale) * (np.abs(dout[b, h]) @ np.abs(v[b, g]).T +
                                      np.abs(dout[b, h] * o[b, h]).sum(axis=1, keepdims=True))
        for name, at, m, bound, x in (("dq", (b, h), ds, size, k[b, g]),
                                      ("dk", (b, g), ds.T, size.T, q[b, h]),
                                      ("dv", (b, g), p[b, h].T, weight.T, dout[b, h])):
            want[name][0][at] += m @ x
            want[name][1][at] += bound @ np.abs(x) + 1e-30
    return want


for kind, u in ("f32", 2e-5), ("bf16", 3e-2):
    for n_q, n_k, heads, shared, d in (1, 1, 1, 1, 1), (17, 17, 4, 2, 8), (5, 64, 2, 1, 33), (40, 9, 2, 2, 16):
        for name, causal, window, layout in (("full", 0, 0, 0), ("causal", 1, 0, 1), ("window", 1, 3, 0)):
            a = {name: store(random.standard_normal((2, heads, n_q, d)), kind) for name in ("q", "dout")}
            a.update({name: store(random.standard_normal((2, shared, n_k, d)), kind) for name in "kv"})
            length, share = [n_k, n_k // 2], heads // shared
            p, o = np.zeros((2, heads, n_q, n_k)), np.zeros((2, heads, n_q, d))
            lse = np.zeros((2, heads, n_q), np.float32)
            for b, h in np.ndindex(2, heads):
                p[b, h], lse[b, h] = weights(widen(a["q"][b, h]), widen(a["k"][b, h // share]),
                                             length[b], causal, window, 0.3)
                o[b, h] = p[b, h] @ widen(a["v"][b, h // share])
            a["o"] = store(o, kind)
            want = expected(a, p, lse, share, 0.3, u)
            if layout:
                a = {name: np.ascontiguousarray(x.swapaxes(1, 2)) for name, x in a.items()}
                want = {name: [x.swapaxes(1, 2) for x in both] for name, both in want.items()}
            out = {name: empty(both[0].shape, kind) for name, both in want.items()}
            a.update(lse=lse, kv_len=np.array(length, np.int32), layout=layout, causal=causal,
                     window=window, scale=0.3, tile_q=0, tile_k=0)
            case("%s q=%d k=%d heads=%d/%d head_dim=%d %s" % (kind, n_q, n_k, heads, shared, d, name),
                 flash_attention_backward, a, out, want)
verdict()
