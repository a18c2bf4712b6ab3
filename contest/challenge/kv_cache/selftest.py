# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for kv_cache against the definition in double. Attention is judged
over what read gives, and what it gives by the error that the contract declares."""
from types import SimpleNamespace

from selftest_common import case, np, random, returned, store, verdict, widen
from kv_cache import kv_cache

TOKENS = 40


class Player:
    """A cache, and every token that was appended to each of its sequences."""

    def __init__(self, dims):
        self.d, self.c, self.tokens = dims, kv_cache(dims), {}

    def open(self):
        seq = self.c.open()
        self.tokens[seq] = np.empty((2, 0, self.d.n_kv_head, self.d.head_dim))
        return seq

    def append(self, seq, n):
        new = [store(random.standard_normal((n, self.d.n_kv_head, self.d.head_dim)).clip(-3, 3),
                     self.d.io_dtype) for _ in "kv"]
        for layer in range(self.d.n_layer):
            self.c.append(layer, [seq], [n], *new)
        self.tokens[seq] = np.concatenate([self.tokens[seq], [widen(x) for x in new]], axis=1)

    def check(self, seq, n):
        """Reads and attends; out and lse of the last layer, and what they should be."""
        d, length = self.d, self.tokens[seq].shape[1]
        bound = {"u8": 6 / 255, "u4": 6 / 15}.get(d.store_dtype, 0) / 2 * 1.01
        q = store(random.standard_normal((n, d.n_q_head, d.head_dim)), d.io_dtype)
        for layer in range(d.n_layer):
            k, v = (np.asarray(x, np.float64) for x in self.c.read(layer, seq, 0, length))
            self.near("read", np.stack([k, v]), self.tokens[seq], bound)
            out, lse = self.c.attend(layer, [seq], [n], q)
            want, want_lse = self.attention(widen(q), k, v)
            self.near("out", returned(out, q), want, 0.03 if d.io_dtype == "bf16" else 1e-4)
            self.near("lse", np.asarray(lse), want_lse, 1e-4)
            self.near("length", np.array(self.c.status(layer, seq)[0]), np.array(length), 0)

    def attention(self, q, k, v):
        d, (n, _, _), length = self.d, q.shape, len(k)
        p, j = np.arange(length - n, length)[:, None], np.arange(length)
        seen = (j <= p) & ((d.window == 0) | (p - j < d.window) | (j < d.n_sink))
        head = np.arange(d.n_q_head) * d.n_kv_head // d.n_q_head
        s = np.where(seen, d.scale * np.einsum("nhd,jhd->hnj", q, k[:, head]), -np.inf)
        w = np.exp(s - s.max(-1, keepdims=True))
        lse = s.max(-1) + np.log(w.sum(-1))
        return np.einsum("hnj,jhd->nhd", w / w.sum(-1, keepdims=True), v[:, head]), lse.T

    @staticmethod
    def near(what, got, want, bound):
        if not (np.abs(got - want) <= bound).all():
            raise ArithmeticError("%s: off by up to %g, expected %g" % (what, np.abs(got - want).max(),
                                                                        bound))

    def refused(self, kind, function, *arguments):
        try:
            function(*arguments)
        except kind:
            return
        raise ArithmeticError("expected %s" % kind.__name__)


def play(dims):
    """Grow, fork, go apart, cut, grow again, free, and fill up."""
    p = Player(dims)
    a, b = p.open(), p.open()
    p.append(a, 7)
    p.append(b, 17)
    p.check(a, 7)
    p.check(b, 3)
    c = p.c.fork(b)
    p.tokens[c] = p.tokens[b]
    p.append(c, 2)
    p.append(b, 5)
    p.check(b, 2)
    p.check(c, 2)
    p.c.truncate(b, 16)
    p.tokens[b] = p.tokens[b][:, :16]
    p.append(b, 3)
    if dims.store_dtype == dims.io_dtype:  # else a key that was cut is coded twice
        p.check(b, 1)
    p.refused(MemoryError, p.append, a, TOKENS)
    p.refused(MemoryError, p.c.open)
    p.c.free(c)
    p.refused(KeyError, p.c.free, c)
    p.check(a, 1)


for io, kind, axis in (("f32", "f32", "token"), ("bf16", "bf16", "token"), ("f32", "u8", "token"),
                       ("f32", "u4", "token"), ("f32", "u8", "channel"), ("f32", "u4", "channel")):
    for page in 0, 16, 7, 1:
        for window in 0, 5:
            group = 11 if axis == "token" else page or 8
            d = SimpleNamespace(n_layer=2, n_seq_max=3, n_q_head=4, n_kv_head=2, head_dim=33,
                                capacity=TOKENS - 1, page=page, window=window, n_sink=1,
                                n_page=6 * (TOKENS // page + 1) if page else 0, key_group=group,
                                max_call_tokens=TOKENS, key_axis=axis, io_dtype=io,
                                store_dtype=kind, meta_dtype="f32", scale=0.17)
            case("io=%s store=%s axis=%s page=%d window=%d" % (io, kind, axis, page, window), play,
                 {"dims": d}, {}, {})
verdict()
