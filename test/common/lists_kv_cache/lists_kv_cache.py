# SPDX-License-Identifier: Apache-2.0
"""lists_kv_cache.py - a KV cache as most often published: a class with two lists per sequence and
layer, to which the keys and values of every token are appended.

No pages, no window, one dtype; and memory is what the lists take, of which nothing is reserved."""
import numpy as np


class kv_cache:
    def __init__(self, dims):
        self.d, self.sequences, self.count = dims, {}, 0
        self.nbytes = 0

    def open(self):
        if len(self.sequences) == self.d.n_seq_max:
            raise MemoryError("no sequence left")
        self.count += 1
        self.sequences[self.count] = [([], []) for _ in range(self.d.n_layer)]
        return self.count

    def fork(self, seq):
        layers = self.sequences[seq]
        new = self.open()
        self.sequences[new] = [(list(k), list(v)) for k, v in layers]
        return new

    def truncate(self, seq, n):
        layers = self.sequences[seq]
        if n < 0 or any(n > len(k) for k, _ in layers):
            raise ValueError("longer than it is")
        self.sequences[seq] = [(k[:n], v[:n]) for k, v in layers]

    def free(self, seq):
        del self.sequences[seq]

    def lists(self, layer, seqs):
        if len(set(seqs)) < len(seqs):
            raise ValueError("a sequence twice")
        return [self.sequences[seq][layer] for seq in seqs]

    def append(self, layer, seqs, n_new, k, v):
        lists = self.lists(layer, seqs)
        if any(len(keys) + n > self.d.capacity for (keys, _), n in zip(lists, n_new)):
            raise MemoryError("capacity")
        at = 0
        for (keys, values), n in zip(lists, n_new):
            keys.extend(row.copy() for row in k[at:at + n])
            values.extend(row.copy() for row in v[at:at + n])
            at += n

    def attend(self, layer, seqs, n_q, q):
        lists = self.lists(layer, seqs)
        if any(n > len(keys) for (keys, _), n in zip(lists, n_q)):
            raise ValueError("more queries than tokens")
        share, at = self.d.n_q_head // self.d.n_kv_head, 0
        out, lse = np.empty(q.shape), np.empty(q.shape[:2])
        for (keys, values), n in zip(lists, n_q):
            for i in range(n):
                end = len(keys) - n + i + 1
                k = np.array(keys[:end], np.float64).repeat(share, axis=1)
                v = np.array(values[:end], np.float64).repeat(share, axis=1)
                s = self.d.scale * np.einsum("hd,khd->hk", q[at].astype(np.float64), k)
                most = s.max(axis=1, keepdims=True)
                w = np.exp(s - most)
                total = w.sum(axis=1, keepdims=True)
                out[at] = np.einsum("hk,khd->hd", w / total, v)
                lse[at] = (most + np.log(total))[:, 0]
                at += 1
        return out, lse

    def read(self, layer, seq, begin, n):
        keys, values = self.sequences[seq][layer]
        if begin + n > len(keys):
            raise ValueError("past its length")
        return np.array(keys[begin:begin + n]), np.array(values[begin:begin + n])

    def status(self, layer, seq):
        keys, _ = self.sequences[seq][layer]
        held = sum(2 * row.nbytes for layers in self.sequences.values() for k, _ in layers for row in k)
        return len(keys), 0, 0, held, held
