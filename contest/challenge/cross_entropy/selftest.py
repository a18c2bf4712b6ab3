# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for cross_entropy against the definition in double."""
from selftest_common import case, empty, np, random, store, sum_bound, verdict, widen
from cross_entropy import cross_entropy


def expected(h, w, bias, target, a, before, u):
    """Values and bounds; before: what dh and dw held."""
    counted, rows, n_vocab = target != a["ignore_index"], np.arange(len(target)), w.shape[0]
    n, s, hit = counted.sum(), a["smoothing"], np.where(counted, target, 0)
    g = a["scale"] / n if a["mean"] and n else a["scale"]
    x = h @ w.T + bias
    t = np.tanh(x / a["softcap"]) if a["softcap"] else np.zeros(x.shape)
    z = a["softcap"] * t if a["softcap"] else x
    lse = np.log(np.exp(z).sum(axis=1))
    loss = lse - (1 - s) * z[rows, hit] - s * z.mean(axis=1) + a["z_loss"] * lse ** 2
    p = (1 + 2 * a["z_loss"] * lse)[:, None] * np.exp(z - lse[:, None])
    dx, size = p - s / n_vocab, np.abs(p) + s / n_vocab  # size: what magnitudes add up to
    dx[rows, hit] -= 1 - s
    size[rows, hit] += 1 - s
    dx *= g * (1 - t * t) * counted[:, None]
    size *= abs(g) * (1 - t * t) * counted[:, None]
    lse, loss = np.where(counted, lse, 0), np.where(counted, loss, 0)
    total = np.array([loss.sum() / n if a["mean"] and n else np.nan if a["mean"] else loss.sum()])
    size += 1e-2 * abs(g) / n_vocab
    u += sum_bound(n_vocab)
    return {"loss": (loss, 5e-5 * (1 + np.abs(lse))), "lse": (lse, 2e-5 * (1 + np.abs(lse))),
            "total": (total, 1e-4 * (1 + np.abs(total))),
            "dh": (before + dx @ w, u * (before + 2 * size @ np.abs(w))),
            "dw": (before + dx.T @ h, u * (before + 2 * size.T @ np.abs(h)))}


for kind, u in ("f32", 1e-5), ("bf16", 2e-2):
    for shape in (0, 4, 3), (1, 1, 1), (3, 2, 5), (5, 7, 3), (17, 33, 9), (2, 1025, 4), (130, 40, 8):
        for options in 0, 1, 3, 7, 15, 31, 63:
            n_rows, n_vocab, n_hidden = shape
            h = store(random.standard_normal((n_rows, n_hidden)), kind)
            w = store(random.standard_normal((n_vocab, n_hidden)) / np.sqrt(n_hidden), kind)
            bias = store(random.standard_normal(n_vocab), kind)
            target = ((np.arange(n_rows) * 7 + n_vocab - 1) % n_vocab).astype(np.int32)
            target[1::5] = -100
            a = {"scale": 0.5, "mean": options & 1, "accumulate": options >> 2 & 1, "ignore_index": -100,
                 "smoothing": 0.1 * (options >> 3 & 1), "z_loss": 0.01 * (options >> 4 & 1),
                 "softcap": 2.0 * (options >> 5 & 1), "chunk": 0}
            out = {"loss": empty((n_rows,), "f32"), "lse": empty((n_rows,), "f32"), "total": empty((1,), "f32"),
                   "dh": empty(h.shape, kind), "dw": empty(w.shape, kind)}
            if a["accumulate"]:
                out["dh"][...], out["dw"][...] = (store(np.full(m.shape, 2.0), kind) for m in (h, w))
            arguments = dict(a, h=h, w=w, target=target)
            if options & 2:
                arguments["bias"] = bias
            case("%s rows=%d vocab=%d hidden=%d options=%d" % ((kind,) + shape + (options,)), cross_entropy,
                 arguments, out, expected(widen(h), widen(w), widen(bias) if options & 2 else 0, target, a,
                                          2 * a["accumulate"], u))
verdict()
