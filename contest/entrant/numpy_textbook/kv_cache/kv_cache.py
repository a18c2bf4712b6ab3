# SPDX-License-Identifier: Apache-2.0
"""kv_cache.py - kv_cache as in a textbook: tokens are stored one by one, attention goes query
by query and head by head, in double."""
import numpy as np

KINDS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": np.uint16}


def narrow(x, kind):
    """As it is stored; bf16 as bits."""
    if kind != "bf16":
        return np.asarray(x).astype(KINDS[kind])
    f = np.asarray(x, np.float32)
    # Toward zero and then odd, where float is not exact: so that it is rounded only once.
    bits = f.view(np.uint32) - (np.abs(f) > np.abs(x)) | (f != x)
    return np.where(np.isnan(f), 0x7fc0, (bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widen(a, kind):
    if kind == "bf16":
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(a, np.float64)


def pack(q, kind):
    """Codes to bytes: two to one, the even element low."""
    if kind == "u8":
        return q
    if q.shape[-1] % 2:
        q = np.concatenate([q, np.zeros_like(q[..., :1])], axis=-1)
    return q[..., 0::2] | q[..., 1::2] << 4


def unpack(a, kind, n):
    if kind == "u8":
        return a
    return np.stack([a & 15, a >> 4], axis=-1).reshape(*a.shape[:-1], 2 * a.shape[-1])[..., :n]


class kv_cache:
    def __init__(self, dims):
        d = self.d = dims
        H, D, g = d.n_kv_head, d.head_dim, d.key_group
        self.codes = d.store_dtype in ("u8", "u4")
        self.channel = self.codes and d.key_axis == "channel"
        self.own = -(-d.capacity // g) * g if self.channel else d.capacity
        n = d.n_page * d.page if d.page else d.n_seq_max * d.n_layer * self.own
        row = (D + 1) // 2 if d.store_dtype == "u4" else D
        kind = np.uint8 if self.codes else KINDS[d.store_dtype]
        self.k, self.v = np.zeros((n, H, row), kind), np.zeros((n, H, row), kind)
        self.held = [self.k, self.v]
        if self.codes:
            meta = KINDS[d.meta_dtype]
            groups = (n // g, H, D, 2) if self.channel else (n, H, -(-D // g), 2)
            self.k_meta, self.v_meta = np.zeros(groups, meta), np.zeros((n, H, 1, 2), meta)
            self.held += [self.k_meta, self.v_meta]
        if self.channel:
            self.tail = np.zeros((d.n_seq_max, d.n_layer, g, H, D), KINDS[d.io_dtype])
            self.held.append(self.tail)
        self.nbytes = sum(a.nbytes for a in self.held)
        self.len, self.pages = {}, {}  # of an open sequence, by layer
        self.refs = [0] * d.n_page

    # ---- places ----

    def known(self, seq):
        if seq not in self.len:
            raise KeyError(seq)

    def cells(self, seq, layer, begin, end):
        p = np.arange(begin, end)
        if not self.d.page:
            return (seq * self.d.n_layer + layer) * self.own + p
        pages = np.array(self.pages[seq][layer], np.int64)
        return pages[p // self.d.page] * self.d.page + p % self.d.page

    def copy_cells(self, source, target):
        for a in self.held[:4]:
            if self.channel and a is self.k_meta:
                g = self.d.key_group
                a[np.unique(target // g)] = a[np.unique(source // g)]
            else:
                a[target] = a[source]

    def take_page(self):
        page = self.refs.index(0)
        self.refs[page] = 1
        return page

    def n_free(self):
        return self.refs.count(0)

    # ---- sequences ----

    def open(self):
        if len(self.len) == self.d.n_seq_max:
            raise MemoryError("no sequence left")
        seq = next(i for i in range(self.d.n_seq_max) if i not in self.len)
        self.len[seq] = [0] * self.d.n_layer
        self.pages[seq] = [[] for _ in range(self.d.n_layer)]
        return seq

    def fork(self, seq):
        self.known(seq)
        new = self.open()
        self.len[new] = list(self.len[seq])
        self.pages[new] = [list(p) for p in self.pages[seq]]
        for layer, n in enumerate(self.len[new]):
            for page in self.pages[new][layer]:
                self.refs[page] += 1
            if not self.d.page and n:
                self.copy_cells(self.cells(seq, layer, 0, n), self.cells(new, layer, 0, n))
        if self.channel:
            self.tail[new] = self.tail[seq]
        return new

    def shrink(self, seq, layer, n):
        pages = self.pages[seq][layer]
        keep = -(-n // self.d.page) if self.d.page else 0
        for page in pages[keep:]:
            self.refs[page] -= 1
        del pages[keep:]
        self.len[seq][layer] = n

    def truncate(self, seq, n):
        self.known(seq)
        if n < 0 or n > min(self.len[seq]):
            raise ValueError("longer than it is")
        g = self.d.key_group
        for layer, old in enumerate(self.len[seq]):
            first = n // g * g
            if self.channel and first < n < old // g * g:  # back to the tail, as it is read
                self.tail[seq, layer, :n - first] = narrow(self.keys(seq, layer, first, n),
                                                           self.d.io_dtype)
            self.shrink(seq, layer, n)

    def free(self, seq):
        self.known(seq)
        for layer in range(self.d.n_layer):
            self.shrink(seq, layer, 0)
        del self.len[seq], self.pages[seq]

    # ---- tokens ----

    def listed(self, seqs):
        for seq in seqs:
            self.known(seq)
        if len(set(seqs)) < len(seqs):
            raise ValueError("a sequence twice")

    def encode(self, x):
        """Groups along the last axis: codes, and pairs of step and lowest."""
        most = 255 if self.d.store_dtype == "u8" else 15
        low, high = x.min(-1), x.max(-1)
        meta = np.stack([(high - low) / most, low], -1).astype(KINDS[self.d.meta_dtype])
        step, low = (np.asarray(meta[..., i, None], np.float64) for i in (0, 1))
        q = np.divide(x - low, step, out=np.zeros_like(x), where=step > 0)
        return np.clip(np.rint(q), 0, most).astype(np.uint8), meta

    @staticmethod
    def grouped(x, n):
        """The last axis in groups of n; a last one that is shorter goes on with its last element."""
        n_group = -(-x.shape[-1] // n)
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n_group * n - x.shape[-1])], mode="edge")
        return x.reshape(*x.shape[:-1], n_group, n)

    def rows(self, x):
        """And back."""
        return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])[..., :self.d.head_dim]

    def decode(self, a, meta, n):
        d = self.d
        q = self.grouped(unpack(a, d.store_dtype, d.head_dim), n)
        step, low = (np.asarray(meta[..., i, None], np.float64) for i in (0, 1))
        return self.rows(low + q * step)

    def save(self, cells, x, rows, meta, n):
        d = self.d
        if not self.codes:
            rows[cells] = narrow(x, d.store_dtype)
            return
        q, meta[cells] = self.encode(self.grouped(x, n))
        rows[cells] = pack(np.ascontiguousarray(self.rows(q)), d.store_dtype)

    def save_keys(self, seq, layer, begin, raw):
        """By channel: into the tail, which becomes codes when it is full."""
        d, g = self.d, self.d.key_group
        for i, row in enumerate(raw):
            self.tail[seq, layer, (begin + i) % g] = row
            if (begin + i + 1) % g:
                continue
            cells = self.cells(seq, layer, begin + i + 1 - g, begin + i + 1)
            x = np.moveaxis(widen(self.tail[seq, layer], d.io_dtype), 0, -1)
            q, self.k_meta[cells[0] // g] = self.encode(x)
            self.k[cells] = pack(np.ascontiguousarray(np.moveaxis(q, -1, 0)), d.store_dtype)

    def need(self, seq, layer, n):
        d, old = self.d, self.len[seq][layer]
        if old + n > d.capacity:
            raise MemoryError("capacity")
        if not d.page:
            return 0
        shared = n and old % d.page and self.refs[self.pages[seq][layer][old // d.page]] > 1
        return -(-(old + n) // d.page) - -(-old // d.page) + bool(shared)

    def grow(self, seq, layer, n):
        d, old, pages = self.d, self.len[seq][layer], self.pages[seq][layer]
        if d.page and n:
            last = old // d.page
            if old % d.page and self.refs[pages[last]] > 1:
                cells, shared = np.arange(d.page), pages[last]
                pages[last] = self.take_page()
                self.copy_cells(shared * d.page + cells, pages[last] * d.page + cells)
                self.refs[shared] -= 1
            while len(pages) * d.page < old + n:
                pages.append(self.take_page())
        self.len[seq][layer] += n

    def append(self, layer, seqs, n_new, k, v):
        self.listed(seqs)
        if sum(self.need(s, layer, n) for s, n in zip(seqs, n_new)) > self.n_free():
            raise MemoryError("no page left")
        d, at = self.d, 0
        for seq, n in zip(seqs, n_new):
            old = self.len[seq][layer]
            self.grow(seq, layer, n)
            for i in range(n):
                cells = self.cells(seq, layer, old + i, old + i + 1)
                value, key = (widen(a[at + i:at + i + 1], d.io_dtype) for a in (v, k))
                self.save(cells, value, self.v, self.codes and self.v_meta, d.head_dim)
                if not self.channel:
                    self.save(cells, key, self.k, self.codes and self.k_meta, d.key_group)
            if self.channel:
                self.save_keys(seq, layer, old, k[at:at + n])
            at += n

    def values(self, seq, layer, begin, end):
        cells = self.cells(seq, layer, begin, end)
        if self.codes:
            return self.decode(self.v[cells], self.v_meta[cells], self.d.head_dim)
        return widen(self.v[cells], self.d.store_dtype)

    def keys(self, seq, layer, begin, end):
        d, g = self.d, self.d.key_group
        cells = self.cells(seq, layer, begin, end)
        if not self.codes:
            return widen(self.k[cells], d.store_dtype)
        if not self.channel:
            return self.decode(self.k[cells], self.k_meta[cells], g)
        x = self.decode(self.k[cells], self.k_meta[cells // g], 1)
        tail = max(begin, self.len[seq][layer] // g * g)
        if tail < end:
            rows = np.arange(tail, end) % g
            x[tail - begin:] = widen(self.tail[seq, layer, rows], d.io_dtype)
        return x

    def attend(self, layer, seqs, n_q, q):
        self.listed(seqs)
        if any(n > self.len[seq][layer] for seq, n in zip(seqs, n_q)):
            raise ValueError("more queries than tokens")
        d, at = self.d, 0
        q, out = widen(q, d.io_dtype), np.empty(q.shape)
        lse = np.empty(q.shape[:2])
        share = d.n_q_head // d.n_kv_head
        for seq, n in zip(seqs, n_q):
            end = self.len[seq][layer]
            k, v = self.keys(seq, layer, 0, end), self.values(seq, layer, 0, end)
            for i in range(n):
                p, j = end - n + i, np.arange(end)
                seen = j <= p
                if d.window:
                    seen &= (p - j < d.window) | (j < d.n_sink)
                for h in range(d.n_q_head):
                    s = d.scale * (k[seen, h // share] @ q[at + i, h])
                    w = np.exp(s - s.max())
                    out[at + i, h] = (w / w.sum()) @ v[seen, h // share]
                    lse[at + i, h] = s.max() + np.log(w.sum())
            at += n
        return narrow(out, d.io_dtype), lse

    def read(self, layer, seq, begin, n):
        self.known(seq)
        if begin + n > self.len[seq][layer]:
            raise ValueError("past its length")
        return self.keys(seq, layer, begin, begin + n), self.values(seq, layer, begin, begin + n)

    def status(self, layer, seq):
        self.known(seq)
        a_token = sum(a[0].nbytes for a in self.held[:2])
        if self.codes:
            a_token += self.v_meta[0].nbytes + (0 if self.channel else self.k_meta[0].nbytes)
        live = a_token * sum(map(sum, self.len.values()))
        return self.len[seq][layer], self.d.n_page, self.n_free(), self.nbytes, live
