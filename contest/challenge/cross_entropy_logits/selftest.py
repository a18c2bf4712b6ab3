# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for cross_entropy_logits against the definition in double."""
from selftest_common import case, empty, np, random, store, sum_bound, verdict, widen
from cross_entropy_logits import cross_entropy_logits


def expected(x, target, a, u):
    counted, rows, n_vocab = target != a["ignore_index"], np.arange(len(target)), x.shape[1]
    n, s, hit = counted.sum(), a["smoothing"], np.where(counted, target, 0)
    g = a["scale"] / n if a["mean"] and n else a["scale"]
    t = np.tanh(x / a["softcap"]) if a["softcap"] else np.zeros(x.shape)
    z = a["softcap"] * t if a["softcap"] else x
    lse = 40 + np.log(np.exp(z - 40).sum(axis=1))
    loss = lse - (1 - s) * z[rows, hit] - s * z.mean(axis=1) + a["z_loss"] * lse ** 2
    p = (1 + 2 * a["z_loss"] * lse)[:, None] * np.exp(z - lse[:, None])
    off = np.abs(p) * (sum_bound(n_vocab) +  # of p: the sum, and exponents that were rounded
                       (56 + 3 * np.abs(lse)[:, None] + 2 * np.abs(z - lse[:, None])) * 2.0**-24)
    dx = p - s / n_vocab
    dx[rows, hit] -= 1 - s
    dx *= g * (1 - t * t) * counted[:, None]
    lse, loss = np.where(counted, lse, 0), np.where(counted, loss, 0)
    total = np.array([loss.sum() / n if a["mean"] and n else np.nan if a["mean"] else loss.sum()])
    gradient = dx, (u * (np.abs(dx) + 1e-2 * abs(g)) + abs(g) * off) * counted[:, None]
    return {"loss": (loss, 1e-4 * (1 + np.abs(lse))), "lse": (lse, 2e-5 * (1 + np.abs(lse))),
            "total": (total, 1e-4 * (1 + np.abs(total))), "logits": gradient, "dlogits": gradient}


for kind, u in ("f32", 1e-5), ("bf16", 5e-3):
    for n_rows, n_vocab in (0, 4), (1, 1), (3, 2), (5, 7), (17, 33), (2, 1025), (130, 40):
        for options in 0, 1, 2, 3, 4, 8, 16, 29, 30, 32:
            x = store(30 + 3 * random.standard_normal((n_rows, n_vocab)), kind)
            target = ((np.arange(n_rows) * 7 + n_vocab - 1) % n_vocab).astype(np.int32)
            target[1::5] = -100
            a = {"scale": 0.5, "mean": options & 1, "ignore_index": -100, "smoothing": 0.1 * (options >> 2 & 1),
                 "z_loss": 0.01 * (options >> 3 & 1), "softcap": 2.0 * (options >> 4 & 1)}
            out = {"loss": empty((n_rows,), "f32"), "lse": empty((n_rows,), "f32"), "total": empty((1,), "f32")}
            arguments = dict(a, target=target)
            if options & 2:
                out["logits"] = x.copy()
            else:
                arguments["logits"] = x
            if not options & 34:
                out["dlogits"] = empty(x.shape, kind)
            want = {name: value for name, value in expected(widen(x), target, a, u).items() if name in out}
            case("%s rows=%d vocab=%d options=%d" % (kind, n_rows, n_vocab, options), cross_entropy_logits,
                 arguments, out, want)
verdict()
