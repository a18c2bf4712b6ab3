# SPDX-License-Identifier: Apache-2.0
"""decode.py - a decode loop over a paged int8 cache: two sequences share a prompt's pages until they differ."""
import numpy as np

import touchstone as ts

LAYERS, HEADS, KV_HEADS, DIM, VOCAB, WIDTH = 2, 4, 2, 32, 100, 128
rng = np.random.default_rng(1)


def matrix(*shape):
    return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


embed, head = matrix(VOCAB, WIDTH), matrix(WIDTH, VOCAB)
layers = [{"q": matrix(WIDTH, HEADS * DIM), "k": matrix(WIDTH, KV_HEADS * DIM), "v": matrix(WIDTH, KV_HEADS * DIM),
           "o": matrix(HEADS * DIM, WIDTH)} for _ in range(LAYERS)]


def logits(cache, seqs, tokens, counts):
    """One pass over new tokens of several sequences, packed one behind the other."""
    h = embed[tokens]
    for i, w in enumerate(layers):
        x = ts.rms_norm(h)
        n = len(tokens)
        cache.append(i, seqs, (x @ w["k"]).reshape(n, KV_HEADS, DIM), (x @ w["v"]).reshape(n, KV_HEADS, DIM), counts=counts)
        a = cache.attend(i, seqs, (x @ w["q"]).reshape(n, HEADS, DIM), counts=counts)
        h = h + a.reshape(n, -1) @ w["o"]
    return ts.rms_norm(h) @ head


def decode(store):
    with ts.KVCache(LAYERS, HEADS, KV_HEADS, DIM, capacity=256, max_seqs=4, page=16, store=store) as cache:
        prompt = np.arange(40) * 7 % VOCAB
        first = cache.open()
        last = logits(cache, first, prompt, None)[-1]
        pages = cache.usage().n_free
        second = cache.fork(first)  # takes no page
        assert cache.usage().n_free == pages
        best = ts.softmax_topk(last[None], 2)
        strings = [[int(best.indices[0, 0])], [int(best.indices[0, 1])]]
        draw = np.random.default_rng(2)
        for _ in range(12):
            tokens = np.array([s[-1] for s in strings])
            top = ts.softmax_topk(logits(cache, [first, second], tokens, [1, 1]), 20, temperature=0.5)
            for s, p, i, u in zip(strings, top.values, top.indices, draw.random(2)):
                s.append(int(i[np.searchsorted(p.cumsum() / p.sum(), u)]))
        return strings, cache.usage()


exact, usage = decode("float32")
print("float32:", exact[0], usage.bytes_live, "bytes")
coded, usage = decode("int8")
print("int8:   ", coded[0], usage.bytes_live, "bytes")
print("same tokens:", sum(a == b for a, b in zip(exact[0] + exact[1], coded[0] + coded[1])), "of", 2 * len(exact[0]))
