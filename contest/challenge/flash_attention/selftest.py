# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for flash_attention against the definition in double."""
from selftest_common import case, empty, np, random, store, sum_bound, verdict, widen
from flash_attention import flash_attention


def expected(q, k, v, length, causal, window, scale, u):
    n_q, n_k, share = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    o, bound, lse = np.zeros(q.shape), np.zeros(q.shape), np.full(q.shape[:3], -np.inf)
    off = np.zeros(q.shape[:3])  # of a score, and so of its weight as part of itself
    for b, h, i in np.ndindex(q.shape[:3]):
        last = i + n_k - n_q
        end = min(length[b], last + 1) if causal else length[b]
        j = slice(max(0, last - window + 1) if window else 0, max(0, end))
        if j.start >= j.stop:
            continue
        s = k[b, h // share, j] @ q[b, h, i] * scale
        lse[b, h, i] = s.max() + np.log(np.exp(s - s.max()).sum())
        p, values = np.exp(s - lse[b, h, i]), v[b, h // share, j]
        o[b, h, i] = p @ values
        reach = (np.abs(k[b, h // share, j]) @ np.abs(q[b, h, i]) * abs(scale)).max()
        off[b, h, i] = sum_bound(q.shape[3]) * reach
        bound[b, h, i] = (u * (1 + 0.1 * np.abs(s).max()) + 2 * off[b, h, i]) * (p @ np.abs(values))
    return o, bound, lse, 1e-4 + 1e-5 * np.abs(lse) + off


for kind, u in ("f32", 1e-5), ("bf16", 2e-2):
    for n_q, n_k, heads, shared, d in (1, 1, 1, 1, 1), (17, 17, 4, 2, 8), (5, 64, 2, 1, 33), (40, 9, 2, 2, 16):
        for name, causal, window, layout, size in (("full", 0, 0, 0, 1), ("causal", 1, 0, 1, 1),
                                                   ("window", 1, 3, 0, 1), ("hot", 1, 0, 0, 100)):
            q = store(random.standard_normal((2, heads, n_q, d)) * size, kind)
            k, v = (store(random.standard_normal((2, shared, n_k, d)), kind) for _ in "kv")
            length = [n_k, n_k // 2]
            o, bound, lse, lse_bound = expected(widen(q), widen(k), widen(v), length, causal, window, 0.3, u)
            if layout:
                q, k, v, o, bound = (np.ascontiguousarray(a.swapaxes(1, 2)) for a in (q, k, v, o, bound))
            case("%s q=%d k=%d heads=%d/%d head_dim=%d %s" % (kind, n_q, n_k, heads, shared, d, name),
                 flash_attention,
                 {"q": q, "k": k, "v": v, "kv_len": np.array(length, np.int32), "layout": layout,
                  "causal": causal, "window": window, "scale": 0.3, "tile_q": 0, "tile_k": 0},
                 {"o": empty(o.shape, kind), "lse": empty(lse.shape, "f32")},
                 {"o": (o, bound), "lse": (lse, lse_bound)})
verdict()
