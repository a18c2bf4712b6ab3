# SPDX-License-Identifier: Apache-2.0
"""ternary_training.py - a ternary decoder and its training as in a textbook: weights are projected
a group of 128 at a time, attention goes head by head and query by query, in float64."""
import numpy as np

GROUP = 128


def project(w):
    """Codes (rows, groups, 128), 0 behind the row's end, and scales as float16."""
    rows, n = w.shape
    groups = -(-n // GROUP)
    code, scale = np.zeros((rows, groups, GROUP)), np.zeros((rows, groups), np.float16)
    for r in range(rows):
        for g in range(groups):
            part = w[r, g * GROUP:(g + 1) * GROUP].astype(np.float64)
            with np.errstate(all="ignore"):
                scale[r, g] = np.abs(part).mean()
            s = float(scale[r, g])
            if not np.isfinite(s):
                raise ArithmeticError("latents out of range")
            if s > 0:
                code[r, g, :len(part)] = np.where(2 * np.abs(part) <= s, 0, np.sign(part))
    return code, scale


def serve(w):
    code, scale = project(w)
    return (code * scale.astype(np.float64)[..., None]).reshape(len(w), -1)[:, :w.shape[1]]


def pack(code):
    points = (code + 1).astype(np.uint8).reshape(-1, 4)
    return points[:, 0] | points[:, 1] << 2 | points[:, 2] << 4 | points[:, 3] << 6


class ternary_training:
    def __init__(self, dims, latent, norm):
        d = self.d = dims
        q, kv, w = d.n_head * d.head_dim, d.n_kv_head * d.head_dim, d.width
        layer = [(q, w), (kv, w), (kv, w), (w, q), (d.ffn, w), (d.ffn, w), (w, d.ffn)]
        self.shapes = [(d.n_vocab, w)] + layer * d.n_layer
        self.norms = [w, d.head_dim, d.head_dim, w] * d.n_layer + [w]
        self.w = np.concatenate([latent, norm]).astype(np.float32)
        self.n_latent, self.n_step = latent.size, 0
        self.m, self.v = np.zeros_like(self.w), np.zeros_like(self.w)
        self.nbytes = 3 * self.w.nbytes
        if not np.isfinite(norm).all():
            raise ArithmeticError("gains out of range")
        for matrix in self.split(self.w)[0]:
            project(matrix)

    def split(self, flat):
        """Matrices, and gains, as views."""
        matrices, gains, at = [], [], 0
        for rows, cols in self.shapes:
            matrices.append(flat[at:at + rows * cols].reshape(rows, cols))
            at += rows * cols
        for n in self.norms:
            gains.append(flat[at:at + n])
            at += n
        return matrices, gains

    def check(self, tokens):
        if tokens.shape[0] < 1 or tokens.shape[1] < 2:
            raise ValueError("no batch, or nothing to predict")
        if tokens.shape[0] > self.d.max_batch or tokens.shape[1] > self.d.max_tokens:
            raise MemoryError("larger than was agreed")
        if tokens.min() < 0 or tokens.max() >= self.d.n_vocab:
            raise ValueError("a token outside of the vocabulary")

    # ---- pieces: each returns its result, and a function from its gradient to those of its inputs ----

    def rms(self, x, gain):
        s = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + self.d.norm_eps)

        def back(dy):
            dgain = (dy * x * s).reshape(-1, gain.size).sum(0)
            g = dy * gain
            return s * (g - x * s * s * (g * x).mean(-1, keepdims=True)), dgain

        return x * s * gain, back

    def rotate(self, x, sign):
        half = self.d.head_dim // 2
        angle = np.arange(x.shape[1])[:, None] * self.d.rope_theta ** (-np.arange(half) / half)
        c, s = np.cos(angle)[None, :, None], sign * np.sin(angle)[None, :, None]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * c - b * s, b * c + a * s], -1)

    def attend(self, q, k, v):
        """(batch, positions, heads, head_dim)"""
        share, n = self.d.n_head // self.d.n_kv_head, q.shape[1]
        scale = self.d.head_dim ** -0.5
        k, v = np.repeat(k, share, 2), np.repeat(v, share, 2)
        p, out = np.zeros((q.shape[0], q.shape[2], n, n)), np.zeros(q.shape)
        for b, h, i in np.ndindex(p.shape[:3]):
            score = scale * (k[b, :i + 1, h] @ q[b, i, h])
            weight = np.exp(score - score.max())
            p[b, h, i, :i + 1] = weight / weight.sum()
            out[b, i, h] = p[b, h, i, :i + 1] @ v[b, :i + 1, h]

        def back(dout):
            dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
            for b, h, i in np.ndindex(p.shape[:3]):
                row, seen = p[b, h, i, :i + 1], slice(i + 1)
                dp = v[b, seen, h] @ dout[b, i, h]
                ds = scale * row * (dp - dp @ row)
                dq[b, i, h] = ds @ k[b, seen, h]
                dk[b, seen, h] += np.outer(ds, q[b, i, h])
                dv[b, seen, h] += np.outer(row, dout[b, i, h])
            dk, dv = (a.reshape(*a.shape[:2], -1, share, self.d.head_dim).sum(3) for a in (dk, dv))
            return dq, dk, dv

        return out, back

    # ---- the whole ----

    def run(self, tokens, back=True):
        """Sum of nll, its count, and the gradient of the mean."""
        self.check(tokens)
        d = self.d
        latents, gains = self.split(self.w)
        matrices = [serve(m) for m in latents]
        gains = [g.astype(np.float64) for g in gains]
        gradient = np.zeros(self.w.size)
        dm, dg = self.split(gradient)

        def linear(i, x):
            def undo(dy):
                dm[i] += dy.reshape(-1, dy.shape[-1]).T @ x.reshape(-1, x.shape[-1])
                return dy @ matrices[i]

            return x @ matrices[i].T, undo

        def norm(i, x):
            y, undo = self.rms(x, gains[i])

            def undo_norm(dy):
                dx, dgain = undo(dy)
                dg[i] += dgain
                return dx

            return y, undo_norm

        x, layers = matrices[0][tokens[:, :-1]], []
        for l in range(d.n_layer):
            x, undo = self.layer(l, x, linear, norm)
            layers.append(undo)
        h, undo_norm = norm(-1, x)
        z, undo_head = linear(0, h)
        z = z - z.max(-1, keepdims=True)
        total = np.exp(z).sum(-1, keepdims=True)
        target = tokens[:, 1:, None]
        nll = (np.log(total) - np.take_along_axis(z, target, -1)).sum()
        n = tokens.shape[0] * (tokens.shape[1] - 1)
        if not back:
            return nll, n, None
        dz = np.exp(z) / total
        np.put_along_axis(dz, target, np.take_along_axis(dz, target, -1) - 1, -1)
        dx = undo_norm(undo_head(dz / n))
        for undo in reversed(layers):
            dx = undo(dx)
        np.add.at(dm[0], tokens[:, :-1], dx)
        return nll, n, gradient

    def layer(self, l, x, linear, norm):
        d, first = self.d, 1 + 7 * l
        heads = lambda a: a.reshape(*a.shape[:2], -1, d.head_dim)
        flat = lambda a: a.reshape(*a.shape[:2], -1)
        h, undo_1 = norm(4 * l, x)
        (q, undo_q), (k, undo_k), (v, undo_v) = (linear(first + i, h) for i in range(3))
        q, undo_q_norm = norm(4 * l + 1, heads(q))
        k, undo_k_norm = norm(4 * l + 2, heads(k))
        out, undo_attend = self.attend(self.rotate(q, 1), self.rotate(k, 1), heads(v))
        o, undo_o = linear(first + 3, flat(out))
        middle = x + o
        h, undo_2 = norm(4 * l + 3, middle)
        (gate, undo_gate), (up, undo_up) = linear(first + 4, h), linear(first + 5, h)
        s = 1 / (1 + np.exp(-gate))
        down, undo_down = linear(first + 6, gate * s * up)

        def back(dy):
            dact = undo_down(dy)
            dh = undo_gate(dact * up * s * (1 + gate * (1 - s))) + undo_up(dact * gate * s)
            dmiddle = dy + undo_2(dh)
            dq, dk, dv = undo_attend(heads(undo_o(dmiddle)))
            dq, dk = undo_q_norm(self.rotate(dq, -1)), undo_k_norm(self.rotate(dk, -1))
            return dmiddle + undo_1(undo_q(flat(dq)) + undo_k(flat(dk)) + undo_v(flat(dv)))

        return middle + down, back

    def grad(self, tokens):
        nll, n, gradient = self.run(tokens)
        return nll / n, gradient[:self.n_latent], gradient[self.n_latent:]

    def eval(self, tokens):
        return self.run(tokens, back=False)[:2]

    def step(self, tokens, lr, beta1, beta2, eps, weight_decay, clip_norm):
        if not (0 <= beta1 < 1 and 0 <= beta2 < 1 and 0 < eps < np.inf):
            raise ValueError("no such rate")
        if not all(0 <= r < np.inf for r in (lr, weight_decay, clip_norm)):
            raise ValueError("no such rate")
        nll, n, g = self.run(tokens)
        size = np.sqrt((g * g).sum())
        if not np.isfinite(size):
            raise ArithmeticError("a gradient that is not finite")
        if clip_norm > 0 and size > clip_norm:
            g = g * (clip_norm / size)
        self.n_step += 1
        m = beta1 * self.m.astype(np.float64) + (1 - beta1) * g
        v = beta2 * self.v.astype(np.float64) + (1 - beta2) * g * g
        w = self.w.astype(np.float64)
        decay = weight_decay * w
        decay[self.n_latent:] = 0
        root = np.sqrt(v / (1 - beta2 ** self.n_step)) + eps
        self.w[...] = w - lr * (m / (1 - beta1 ** self.n_step) / root + decay)
        self.m[...], self.v[...] = m, v
        return nll / n

    def export(self):
        parts = [project(m) for m in self.split(self.w)[0]]
        code = np.concatenate([pack(c) for c, _ in parts])
        return code, np.concatenate([s.reshape(-1) for _, s in parts]), self.w[self.n_latent:].copy()
