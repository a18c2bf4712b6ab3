# SPDX-License-Identifier: Apache-2.0
"""test_errors.py - wrong calls: each raises one exception that says what was given and what was
expected. None crashes."""
import numpy as np
import pytest

import touchstone as ts

X, W = np.ones((2, 8), np.float32), np.ones(8, np.float32)
Q = np.ones((1, 4, 5, 8), np.float32)
T = np.zeros(2, np.int64)


def cache(**options):
    return ts.KVCache(1, 4, 2, 8, capacity=4, **options)


def appended(shape=(1, 2, 8), dtype=np.float32, layer=0, **options):
    c = cache()
    c.append(layer, c.open(), np.ones(shape, dtype), np.ones(shape, dtype), **options)


def overfull():
    c = cache()
    s = c.open()
    for n in (3, 2):
        c.append(0, s, np.ones((n, 2, 8), np.float32), np.ones((n, 2, 8), np.float32))


CALLS = [
    ("a list", lambda: ts.layer_norm([1.0, 2.0]), TypeError,
     "layer_norm: x: got list, expected an array of NumPy, PyTorch, JAX or CuPy"),
    ("a short weight", lambda: ts.layer_norm(X, W[:5]), ValueError,
     "layer_norm: weight: got float32[5], expected shape [8]"),
    ("a double weight", lambda: ts.layer_norm(X, W.astype(np.float64)), TypeError,
     "layer_norm: weight: got float64[8], expected dtype float32"),
    ("integers", lambda: ts.layer_norm(X.astype(np.int32)), TypeError,
     "layer_norm: x: got int32[2, 8], expected dtype float32, float64, float16 or bfloat16"),
    ("a number", lambda: ts.layer_norm(np.ones((), np.float32)), ValueError,
     "layer_norm: x: got 0 axes, expected at least 1"),
    ("a negative eps", lambda: ts.layer_norm(X, eps=-1.0), ValueError,
     "layer_norm: a required pointer is NULL or a value is invalid; got x float32[2, 8], weight float32[8], "
     "bias float32[8], eps -1"),
    ("a text for eps", lambda: ts.layer_norm(X, eps="small"), TypeError,
     "layer_norm: eps: got a string, expected a number"),
    ("out of another shape", lambda: ts.layer_norm(X, out=np.ones((2, 7), np.float32)), ValueError,
     "layer_norm: out: got float32[2, 7], expected float32[2, 8]"),
    ("out of another dtype", lambda: ts.layer_norm(X, out=np.ones((2, 8))), ValueError,
     "layer_norm: out: got float64[2, 8], expected float32[2, 8]"),
    ("out is x", lambda: ts.layer_norm(X, out=X), ValueError,
     "layer_norm: out: got memory that overlaps x, expected memory of its own"),
    ("out not contiguous", lambda: ts.layer_norm(X, out=np.ones((2, 16), np.float32)[:, ::2]), ValueError,
     "layer_norm: out: got float32[2, 8], expected a contiguous tensor"),
    ("a residual of another shape", lambda: ts.rms_norm(X, W, X[:1]), ValueError,
     "rms_norm: residual: got float32[1, 8], expected shape [2, 8]"),
    ("a negative k", lambda: ts.softmax_topk(X, -1), ValueError, "softmax_topk: k: got -1, expected an integer >= 0"),
    ("temperature 0", lambda: ts.softmax_topk(X, 2, temperature=0), ValueError,
     "softmax_topk: temperature: got 0, expected a number above 0"),
    ("doubles that are not offered", lambda: ts.softmax_topk(X.astype(np.float64), 2), TypeError,
     "softmax_topk: logits: got float64[2, 8], expected dtype float32, float16 or bfloat16"),
    ("q of three axes", lambda: ts.flash_attention(Q[0], Q, Q), ValueError,
     "flash_attention: q: got 3 axes, expected 4: bhnd"),
    ("an unknown layout", lambda: ts.flash_attention(Q, Q, Q, layout="nhd"), ValueError,
     "flash_attention: layout: got 'nhd', expected 'bhnd' or 'bnhd'"),
    ("keys of another width", lambda: ts.flash_attention(Q, Q[..., :4], Q), ValueError,
     "flash_attention: k: got float32[1, 4, 5, 4], expected shape [1, 4, 5, 8]"),
    ("3 KV heads for 4", lambda: ts.flash_attention(Q, Q[:, :3], Q[:, :3]), ValueError,
     "flash_attention: invalid extent or stride; got q float32[1, 4, 5, 8], k float32[1, 3, 5, 8]"),
    ("kv_len of int64", lambda: ts.flash_attention(Q, Q, Q, kv_len=np.array([3])), TypeError,
     "flash_attention: kv_len: got int64[1], expected dtype int32"),
    ("a target outside the vocabulary", lambda: ts.cross_entropy(X, T + 8), ValueError,
     "cross_entropy: a required pointer is NULL or a value is invalid; got logits float32[2, 8], target int32[2]"),
    ("float targets", lambda: ts.cross_entropy(X, T.astype(float)), TypeError,
     "cross_entropy: target: got float64, expected dtype int64 or int32"),
    ("an unknown reduction", lambda: ts.cross_entropy(X, T, reduction="avg"), ValueError,
     "cross_entropy: reduction: got 'avg', expected 'mean', 'sum' or 'none'"),
    ("NaN latents", lambda: ts.ternary_pack(X * np.nan), ValueError, "ternary_pack: value out of range; got weight"),
    ("weights that are not packed", lambda: ts.ternary_unpack(X), TypeError,
     "ternary_unpack: weight: got ndarray, expected a TernaryWeight, which ternary_pack makes"),
    ("heads that do not divide", lambda: ts.KVCache(1, 5, 2, 8, capacity=4), ValueError,
     "KVCache: n_q_head: got 5, expected a multiple of n_kv_head, 2"),
    ("an unknown store", lambda: cache(store="int3"), ValueError, "KVCache: store: got 'int3', expected dtype,"),
    ("too many sequences", lambda: (lambda c: (c.open(), c.open()))(cache()), MemoryError,
     "KVCache.open: got 1 sequences open, expected fewer than max_seqs = 1"),
    ("a sequence that is not open", lambda: cache().fork(7), KeyError,
     "KVCache.fork: got sequence 7, expected one of those open: []"),
    ("too many tokens", overfull, MemoryError,
     "KVCache.append: got [2] more tokens for sequences of length [3], expected at most 4 each"),
    ("more tokens than a call may have", lambda: appended((5, 2, 8)), ValueError,
     "KVCache.append: got 5 tokens in one call, expected at most max_call_tokens = 4"),
    ("k of another width", lambda: appended((1, 2, 9)), ValueError,
     "KVCache.append: k: got float32[1, 2, 9], expected float32[1, 2, 8]"),
    ("a layer too many", lambda: appended(layer=1), ValueError, "KVCache.append: layer: got 1, expected 0 to 0"),
    ("counts that do not add up", lambda: appended(counts=[3]), ValueError,
     "KVCache.append: counts: got [3], expected 1 numbers that sum to 1"),
    ("logits of another shape", lambda: ts.beam_search(lambda s: X, [[1]], n_vocab=9, beam_width=1, max_new_tokens=1),
     ValueError, "beam_search: model: got logits of shape [2, 8], expected [1, 9]"),
    ("an empty prompt", lambda: ts.beam_search(lambda s: X, [[]], n_vocab=9, beam_width=1, max_new_tokens=1),
     ValueError, "beam_search: prompts[0]: got no token, expected at least 1"),
    ("a parent behind its child", lambda: ts.tree_verify(lambda *a: X, [1], [1, 2], [1, -1], n_vocab=8), ValueError,
     "tree_verify: parents[0]: got 1, expected -1 to -1"),
    ("out for another number of prompts", lambda: ts.beam_search(
        lambda s: X, [[1]], n_vocab=8, beam_width=1, max_new_tokens=1, out=ts.BeamArrays.make(2, 1, 1)), ValueError,
     "beam_search: out.tokens: got int32[2, 1, 1], expected a contiguous NumPy array int32[1, 1, 1]"),
    ("too many threads", lambda: ts.set_num_threads(-1), ValueError, "set_threads: expected an integer from 0 to 4096"),
]


@pytest.mark.parametrize("name,call,kind,message", CALLS, ids=[c[0] for c in CALLS])
def test_wrong_call(name, call, kind, message):
    with pytest.raises(kind) as raised:
        call()
    text = raised.value.args[0]
    assert text.startswith(message), text
    assert "\n" not in text


def test_there_are_at_least_twenty():
    assert len(CALLS) >= 20


def test_arrays_of_two_frameworks():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="weight: got an array of torch, expected numpy as the first"):
        ts.layer_norm(X, torch.ones(8))
