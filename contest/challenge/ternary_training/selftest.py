# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for ternary_training.

A decoder in double, below, reads what was exported: its loss must be that of eval, its differences
are the gradient, and a step is what the formula makes of that gradient."""
from types import SimpleNamespace

from selftest_common import case, np, random, verdict
from ternary_training import ternary_training


class Decoder:
    def __init__(self, d):
        q, kv, w = d.n_head * d.head_dim, d.n_kv_head * d.head_dim, d.width
        layer = [(q, w), (kv, w), (kv, w), (w, q), (d.ffn, w), (d.ffn, w), (w, d.ffn)]
        self.d, self.shapes = d, [(d.n_vocab, w)] + layer * d.n_layer
        self.norms = [w, d.head_dim, d.head_dim, w] * d.n_layer + [w]

    def take(self, code, scale, gain, latent=None):
        """The effective weights, and gains, in one array."""
        parts, group, at = [], 0, 0
        code, scale = np.asarray(code, np.uint8).reshape(-1, 32), np.asarray(scale).reshape(-1)
        for rows, cols in self.shapes:
            groups = -(-cols // 128)
            n = rows * groups
            points = code[group:group + n, :, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
            s = scale[group:group + n].astype(np.float64)
            sign = points.reshape(n, 128).astype(np.float64) - 1
            parts.append((sign * s[:, None]).reshape(rows, -1)[:, :cols].reshape(-1))
            if latent is not None:
                w = latent[at:at + rows * cols].reshape(rows, cols).astype(np.float64)
                want = np.where(2 * np.abs(w) <= np.repeat(s.reshape(rows, groups), 128, 1)[:, :cols], 0, np.sign(w))
                if (sign.reshape(rows, -1)[:, :cols] != want).any():
                    raise ArithmeticError("codes: wrong")
            group, at = group + n, at + rows * cols
        return np.concatenate(parts + [np.asarray(gain, np.float64).reshape(-1)])

    def rms(self, x, gain):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.d.norm_eps) * gain

    def turn(self, x):
        half = self.d.head_dim // 2
        angle = np.arange(x.shape[1])[:, None] * self.d.rope_theta ** (-np.arange(half) / half)
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * c - b * s, b * c + a * s], -1)

    def nll(self, w, tokens):
        d, m, g, at = self.d, [], [], 0
        for rows, cols in self.shapes:
            m.append(w[at:at + rows * cols].reshape(rows, cols))
            at += rows * cols
        for n in self.norms:
            g.append(w[at:at + n])
            at += n
        x, n = m[0][tokens[:, :-1]], tokens.shape[1] - 1
        heads = lambda a: a.reshape(*a.shape[:2], -1, d.head_dim)
        for l in range(d.n_layer):
            wq, wk, wv, wo, gate, up, down = m[1 + 7 * l:8 + 7 * l]
            h = self.rms(x, g[4 * l])
            q = self.turn(self.rms(heads(h @ wq.T), g[4 * l + 1]))
            k, v = self.turn(self.rms(heads(h @ wk.T), g[4 * l + 2])), heads(h @ wv.T)
            k, v = (np.repeat(a, d.n_head // d.n_kv_head, 2) for a in (k, v))
            s = np.where(np.tri(n, dtype=bool), np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(d.head_dim), -np.inf)
            p = np.exp(s - s.max(-1, keepdims=True))
            out = np.einsum("bhij,bjhd->bihd", p / p.sum(-1, keepdims=True), v)
            x = x + out.reshape(*out.shape[:2], -1) @ wo.T
            h = self.rms(x, g[4 * l + 3])
            a = h @ gate.T
            x = x + (a / (1 + np.exp(-a)) * (h @ up.T)) @ down.T
        z = self.rms(x, g[-1]) @ m[0].T
        z = z - z.max(-1, keepdims=True)
        return (np.log(np.exp(z).sum(-1)) - np.take_along_axis(z, tokens[:, 1:, None], -1)[..., 0]).sum()


def near(what, got, want, bound):
    if not (np.abs(np.asarray(got, np.float64) - want) <= bound).all():
        raise ArithmeticError("%s: wrong" % what)


def play(dims, n_batch, n_tok, clip):
    """Loss, gradient and one step, each against the decoder."""
    o = Decoder(dims)
    n_latent, n_norm = sum(r * c for r, c in o.shapes), sum(o.norms)
    latent = random.standard_normal(n_latent).astype(np.float32)
    norm = (1 + 0.2 * random.standard_normal(n_norm)).astype(np.float32)
    tokens = random.integers(dims.n_vocab, size=(n_batch, n_tok)).astype(np.int32)
    t, n, h = ternary_training(dims, latent.copy(), norm.copy()), n_batch * (n_tok - 1), 1e-5
    w = o.take(*t.export(), latent)
    nll, count = t.eval(tokens)
    near("count", count, n, 0)
    near("nll", nll, o.nll(w, tokens), 1e-4 * nll)
    loss, dlatent, dnorm = t.grad(tokens)
    near("loss", loss, nll / n, 1e-5)
    got = np.concatenate([np.reshape(dlatent, -1), np.reshape(dnorm, -1)])
    for i in [*range(0, n_latent, 37), *range(n_latent, n_latent + n_norm)]:
        step = np.zeros_like(w)
        step[i] = h
        near("gradient %d" % i, got[i], (o.nll(w + step, tokens) - o.nll(w - step, tokens)) / (2 * h * n), 1e-5)
    t.step(tokens, lr=1e-2, beta1=0.9, beta2=0.95, eps=1e-3, weight_decay=0.1, clip_norm=clip)
    size = np.sqrt((got.astype(np.float64) ** 2).sum())
    g = got[n_latent:] * (clip / size if clip and size > clip else 1)
    code, scale, gain = t.export()
    near("gain", gain, norm - 1e-2 * g / (np.abs(g) + 1e-3), 1e-5)
    near("nll after a step", t.eval(tokens)[0], o.nll(o.take(code, scale, gain), tokens), 1e-4 * nll)


for i in range(24):
    shape = (13, 12, 2, 4, 2, 6, 18) if i % 2 else (11, 8, 1, 2, 1, 4, 12)
    names = "n_vocab", "width", "n_layer", "n_head", "n_kv_head", "head_dim", "ffn"
    dims = SimpleNamespace(**dict(zip(names, shape)), max_batch=4, max_tokens=9, rope_theta=10000.0, norm_eps=1e-6)
    case("case %d" % i, lambda: play(dims, 1 + i % 3, 2 + i % 7, 0 if i % 3 else 0.05), {}, {}, {})
verdict()
