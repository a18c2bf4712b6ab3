# SPDX-License-Identifier: Apache-2.0
"""peers_cpu.py - the peers of peers.py that run on the CPU: NumPy and JAX."""
import os


def must_be_square(q, k, layout, window):
    """The cases that peers' attention supports: with n_q = n_k, both alignments of causal masks agree."""
    if layout or window or q.shape[2] != k.shape[2]:
        raise RuntimeError("supports only [batch][head][row], as many queries as keys, and no window")


class Numpy:
    only = ()  # the tasks of a peer that inherits methods for more

    def __init__(self, device, threads):
        if device != "cpu":
            raise RuntimeError("numpy runs on the CPU only")
        import numpy as np
        np.seterr(all="ignore")  # the bench reports wrong outputs
        self.np = np

    def put(self, name, array):
        return array

    def layernorm_forward(self, x, gamma, beta, eps):
        np = self.np
        mean = x.mean(axis=1, keepdims=True)
        var = x.var(axis=1, keepdims=True)
        rstd = 1 / np.sqrt(var + np.float32(eps))
        return {"y": (x - mean) * rstd * gamma + beta, "mean": mean.ravel(), "rstd": rstd.ravel()}

    def layernorm_backward(self, x, dy, gamma, mean, rstd):
        xhat = (x - mean[:, None]) * rstd[:, None]
        g = dy * gamma
        dx = rstd[:, None] * (g - g.mean(axis=1, keepdims=True)
                              - xhat * (g * xhat).mean(axis=1, keepdims=True))
        return {"dx": dx, "dgamma": (dy * xhat).sum(axis=0), "dbeta": dy.sum(axis=0)}

    def rms_norm_forward(self, x, w, eps, w_offset, residual=None):
        np = self.np
        r = x if residual is None else x + residual
        rstd = 1 / np.sqrt((r * r).mean(axis=1, keepdims=True) + np.float32(eps))
        out = {"y": r * rstd * (w + np.float32(w_offset)), "rstd": rstd.ravel()}
        return out if residual is None else dict(out, r=r)

    def rms_norm_backward(self, r, dy, w, rstd, w_offset, dr=None):
        rhat = r * rstd[:, None]
        g = dy * (w + self.np.float32(w_offset))
        dx = rstd[:, None] * (g - rhat * (g * rhat).mean(axis=1, keepdims=True))
        return {"dx": dx if dr is None else dx + dr, "dw": (dy * rhat).sum(axis=0)}

    def softmax_topk(self, logits, k, inv_temperature):
        np = self.np
        x, k, t = logits, int(k), np.float32(inv_temperature)
        n_rows, n_vocab = x.shape
        n = min(k, n_vocab)
        largest = x.max(axis=1, keepdims=True).astype(np.float32)
        total = np.exp((x - largest) * t).sum(axis=1, keepdims=True)
        # the n largest in any order, sorted by index, then stably by value
        chosen = np.sort(np.argpartition(x, n_vocab - n, axis=1)[:, n_vocab - n:], axis=1)
        order = np.argsort(-np.take_along_axis(x, chosen, axis=1), axis=1, kind="stable")
        index = np.full((n_rows, k), -1, np.int32)
        prob = np.zeros((n_rows, k), np.float32)
        index[:, :n] = np.take_along_axis(chosen, order, axis=1)
        prob[:, :n] = np.exp((np.take_along_axis(x, index[:, :n], axis=1) - largest) * t) / total
        return {"index": index, "prob": prob, "lse": (largest * t + np.log(total)).ravel()}

    def scores(self, q, k, causal, scale):
        """All rows at once."""
        np = self.np
        s = np.matmul(q, np.repeat(k, q.shape[1] // k.shape[1], 1).swapaxes(2, 3)) * np.float32(scale)
        return np.where(np.tril(np.ones(s.shape[2:], bool)), s, np.float32(-np.inf)) if causal else s

    def flash_attention(self, q, k, v, causal, scale, layout, window, **_):
        np = self.np
        must_be_square(q, k, layout, window)
        s = self.scores(q, k, causal, scale)
        largest = s.max(-1, keepdims=True)
        p = np.exp(s - largest)
        total = p.sum(-1, keepdims=True)
        o = np.matmul(p / total, np.repeat(v, q.shape[1] // k.shape[1], 1))
        return {"o": o, "lse": (largest + np.log(total))[..., 0]}

    def flash_attention_backward(self, q, k, v, o, dout, lse, causal, scale, layout, window, **_):
        np = self.np
        must_be_square(q, k, layout, window)
        batch, heads, n, width = q.shape
        group = heads // k.shape[1]
        p = np.exp(self.scores(q, k, causal, scale) - lse[..., None])
        dp = np.matmul(dout, np.repeat(v, group, 1).swapaxes(2, 3))
        ds = p * (dp - (dout * o).sum(-1, keepdims=True)) * np.float32(scale)
        dk, dv = (np.matmul(w.swapaxes(2, 3), x).reshape(batch, -1, group, n, width).sum(2)
                  for w, x in ((ds, q), (p, dout)))
        return {"dq": np.matmul(ds, np.repeat(k, group, 1)), "dk": dk, "dv": dv}

    def loss_of(self, x, target, scale, smoothing, z_loss, softcap, mean, ignore_index):
        """Losses and gradient of all logits at once."""
        np, f = self.np, self.np.float32
        counted = target != ignore_index
        n = counted.sum()
        g = f(scale) / np.maximum(n, 1) if mean else f(scale)
        t = np.tanh(x / f(softcap)) if softcap else f(0)
        z = f(softcap) * t if softcap else x
        largest = z.max(axis=1, keepdims=True)
        e = np.exp(z - largest)
        total = e.sum(axis=1, keepdims=True)
        lse = (largest + np.log(total))[:, 0]
        hit = np.arange(x.shape[1]) == target[:, None]
        loss = lse - f(1 - smoothing) * (z * hit).sum(axis=1) + f(z_loss) * lse * lse
        if smoothing:
            loss = loss - f(smoothing) * z.mean(axis=1)
        dx = e * ((1 + f(2 * z_loss) * lse)[:, None] / total) - hit * f(1 - smoothing) - f(smoothing / x.shape[1])
        dx = dx * (g * counted)[:, None].astype(np.float32)
        loss = np.where(counted, loss, f(0))
        return {"loss": loss, "lse": np.where(counted, lse, f(0)), "total": loss.sum() / n if mean else loss.sum(),
                "dlogits": dx * (1 - t * t) if softcap else dx}

    def cross_entropy(self, h, w, target, chunk, bias=None, **rule):
        r = self.loss_of(h @ w.T if bias is None else h @ w.T + bias, target, **rule)
        return {"loss": r["loss"], "lse": r["lse"], "total": r["total"].reshape(1), "dh": r["dlogits"] @ w,
                "dw": r["dlogits"].T @ h}

    def cross_entropy_logits(self, logits, target, **rule):
        r = self.loss_of(logits, target, **rule)
        return dict(r, total=r["total"].reshape(1))

    def call(self, function, arguments):
        return function(**arguments)

    def get(self, value, kind):
        return value


class Jax(Numpy):
    """The formulas of Numpy, compiled by XLA."""

    def __init__(self, device, threads):
        if device != "cpu":
            raise RuntimeError("jax is timed on the CPU only")
        os.environ["JAX_PLATFORMS"] = "cpu"
        import numpy
        import jax
        self.jax, self.numpy, self.np = jax, numpy, jax.numpy
        self.compiled = {}

    def put(self, name, array):
        return self.jax.device_put(array)

    def softmax_topk(self, logits, k, inv_temperature):
        jnp = self.np
        x, k = logits, int(k)
        n = min(k, x.shape[1])
        top, index = self.jax.lax.top_k(x, n)  # documented: lower index first among equal values
        lse = self.jax.nn.logsumexp(x * inv_temperature, axis=1, keepdims=True)
        prob = jnp.exp(top * inv_temperature - lse)
        past = ((0, 0), (0, k - n))
        return {"index": jnp.pad(index, past, constant_values=-1), "prob": jnp.pad(prob, past),
                "lse": lse.ravel()}

    def call(self, function, arguments):
        # eps, k and the temperature are constants of a model, fixed at compile time
        fixed = {k: v for k, v in arguments.items() if isinstance(v, float)}
        key = (function.__name__, tuple(fixed.items()))
        if key not in self.compiled:
            self.compiled[key] = self.jax.jit(lambda **a: function(**a, **fixed))
        live = {k: v for k, v in arguments.items() if k not in fixed}
        return self.jax.block_until_ready(self.compiled[key](**live))

    def get(self, value, kind):
        return self.numpy.asarray(value)
