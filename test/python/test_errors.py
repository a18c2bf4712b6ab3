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


def attended(n):
    c = cache()
    c.attend(0, c.open(), np.ones((n, 4, 8), np.float32))


def twice():
    c = cache()
    s = c.open()
    c.append(0, [s, s], np.ones((2, 2, 8), np.float32), np.ones((2, 2, 8), np.float32))


def forked():
    c = cache(max_seqs=1)
    c.fork(c.open())


def in_a_tree(parents):
    c = cache()
    s = c.open()
    kv = np.ones((2, 2, 8), np.float32)
    c.append(0, s, kv, kv)
    c.attend_tree(0, s, np.ones((2, 4, 8), np.float32), kv, kv, parents)


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
     "layer_norm: eps: got -1.0, expected a finite number above 0"),
    ("a NaN as eps", lambda: ts.rms_norm(X, eps=float("nan")), ValueError,
     "rms_norm: eps: got nan, expected a finite number above 0"),
    ("a weight offset of 2", lambda: ts.rms_norm(X, weight_offset=2), ValueError,
     "rms_norm: weight_offset: got 2, expected an integer <= 1"),
    ("a masked array", lambda: ts.layer_norm(np.ma.masked_array(X, X > 0)), TypeError,
     "layer_norm: x: got a masked array, whose mask has no meaning here; expected a plain one"),
    ("a masked weight", lambda: ts.layer_norm(X, np.ma.masked_array(W, W > 0), W), TypeError,
     "layer_norm: weight: got a masked array"),
    ("masked logits", lambda: ts.cross_entropy(np.ma.masked_array(X, X > 0), T), TypeError,
     "cross_entropy: logits: got a masked array"),
    ("masked keys", lambda: ts.flash_attention(Q, np.ma.masked_array(Q, Q > 0), Q), TypeError,
     "flash_attention: k: got a masked array"),
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
    ("a huge k", lambda: ts.softmax_topk(X, 10**12), ValueError,
     "softmax_topk: k: got 1000000000000, expected an integer <= 2147483647"),
    ("a bool as k", lambda: ts.softmax_topk(X, True), TypeError, "softmax_topk: k: got True, expected an integer"),
    ("a NumPy bool as k", lambda: ts.softmax_topk(X, np.bool_(1)), TypeError, "softmax_topk: k: got "),
    ("2.0 as k", lambda: ts.softmax_topk(X, 2.0), TypeError, "softmax_topk: k: got 2.0, expected an integer"),
    ("a bool as capacity", lambda: ts.KVCache(1, 4, 2, 8, capacity=True), TypeError,
     "KVCache: capacity: got True, expected an integer"),
    ("a capacity beyond int64", lambda: ts.KVCache(1, 4, 2, 8, capacity=2**70), ValueError,
     "KVCache: capacity: got 1180591620717411303424, expected an integer <= "),
    ("a bool as window", lambda: ts.flash_attention(Q, Q, Q, causal=True, window=True), TypeError,
     "flash_attention: window: got True, expected an integer"),
    ("half a window", lambda: ts.flash_attention(Q, Q, Q, causal=True, window=2.5), TypeError,
     "flash_attention: window: got 2.5, expected an integer"),
    ("a negative window", lambda: ts.flash_attention(Q, Q, Q, causal=True, window=-1), ValueError,
     "flash_attention: window: got -1, expected an integer >= 0"),
    ("a window without causal", lambda: ts.flash_attention(Q, Q, Q, window=3), ValueError,
     "flash_attention: window: got 3 without causal, expected 0, or causal=True"),
    ("kv_len above n_k", lambda: ts.flash_attention(Q, Q, Q, kv_len=np.array([6], np.int32)), ValueError,
     "flash_attention: kv_len: got 6, expected 0 to 5"),
    ("wide heads", lambda: ts.flash_attention(*[np.ones((1, 1, 2, 300), np.float32)] * 3), ValueError,
     "flash_attention: q: got heads of width 300, expected at most 256"),
    ("label smoothing above 1", lambda: ts.cross_entropy(X, T, label_smoothing=1.5), ValueError,
     "cross_entropy: label_smoothing: got 1.5, expected a number from 0 to 1"),
    ("a negative z_loss", lambda: ts.linear_cross_entropy(X, X, T, z_loss=-1), ValueError,
     "linear_cross_entropy: z_loss: got -1, expected a finite number >= 0"),
    ("a target outside weight", lambda: ts.linear_cross_entropy(X, X, T - 1), ValueError,
     "linear_cross_entropy: target: got -1, expected 0 to 1, or ignore_index, -100"),
    ("a prompt that is not nested", lambda: ts.beam_search(lambda s: X, [1, 2, 3], n_vocab=8, beam_width=1,
                                                           max_new_tokens=1), TypeError,
     "beam_search: prompts[0]: got the number 1, expected a list of tokens; one prompt is [[1, 2, 3]]"),
    ("a bool as beam width", lambda: ts.beam_search(lambda s: X, [[1]], n_vocab=8, beam_width=True, max_new_tokens=1),
     TypeError, "beam_search: beam_width: got True, expected an integer"),
    ("temperature 0", lambda: ts.softmax_topk(X, 2, temperature=0), ValueError,
     "softmax_topk: temperature: got 0, expected a finite number above 0"),
    ("doubles that are not offered", lambda: ts.softmax_topk(X.astype(np.float64), 2), TypeError,
     "softmax_topk: logits: got float64[2, 8], expected dtype float32, float16 or bfloat16"),
    ("q of three axes", lambda: ts.flash_attention(Q[0], Q, Q), ValueError,
     "flash_attention: q: got 3 axes, expected 4: bhnd"),
    ("an unknown layout", lambda: ts.flash_attention(Q, Q, Q, layout="nhd"), ValueError,
     "flash_attention: layout: got 'nhd', expected 'bhnd' or 'bnhd'"),
    ("keys of another width", lambda: ts.flash_attention(Q, Q[..., :4], Q), ValueError,
     "flash_attention: k: got float32[1, 4, 5, 4], expected shape [1, 4, 5, 8]"),
    ("3 KV heads for 4", lambda: ts.flash_attention(Q, Q[:, :3], Q[:, :3]), ValueError,
     "flash_attention: q: got 4 heads, expected a multiple of k's, 3"),
    ("kv_len of int64", lambda: ts.flash_attention(Q, Q, Q, kv_len=np.array([3])), TypeError,
     "flash_attention: kv_len: got int64[1], expected dtype int32"),
    ("a target outside the vocabulary", lambda: ts.cross_entropy(X, T + 8), ValueError,
     "cross_entropy: target: got 8, expected 0 to 7, or ignore_index, -100"),
    ("classes in another axis than the last", lambda: ts.cross_entropy(X.reshape(2, 4, 2), T.reshape(2, 1) + 8), ValueError,
     "cross_entropy: target: got int32[2, 1], expected shape [2, 4]"),
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
    ("queries of tokens that are not there", lambda: attended(2), ValueError,
     "KVCache.attend: q: got 2 tokens of sequence 0, expected at most 0, its length in layer 0; append comes first"),
    ("a sequence twice", twice, ValueError, "KVCache.append: seqs: got [0, 0], expected each sequence once"),
    ("a fork too many", forked, MemoryError, "KVCache.fork: got 1 sequences open, expected fewer than max_seqs = 1"),
    ("a parent that comes later", lambda: in_a_tree([-1, 1]), ValueError,
     "KVCache.attend_tree: parents[1]: got 1, expected -1 to 0, an earlier row of the same sequence"),
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
    ("too many threads", lambda: ts.set_num_threads(4097), ValueError,
     "set_num_threads: n: got 4097, expected an integer <= 4096"),
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


def test_integers_of_numpy():
    i = np.int64
    np.testing.assert_array_equal(ts.softmax_topk(X, i(2)).indices, [[0, 1]] * 2)
    ts.flash_attention(Q, Q, Q, causal=True, window=np.uint8(2))
    ts.KVCache(i(1), i(4), i(2), i(8), capacity=i(4), page=i(2))
    ts.beam_search(lambda s: X[:1], [np.array([1])], n_vocab=i(8), beam_width=i(1), max_new_tokens=i(1), eos=i(0))
    before = ts.set_num_threads(i(1))
    assert ts.set_num_threads(before) == 1


def test_errors_where_gradients_are_recorded():
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 8, requires_grad=True)
    with pytest.raises(ValueError, match="cross_entropy: target: got 8, expected 0 to 7"):
        ts.cross_entropy(x, torch.tensor([0, 8]))
    with pytest.raises(ValueError, match="layer_norm: eps: got 0, expected a finite number above 0"):
        ts.layer_norm(x, eps=0)
    q = torch.ones(1, 4, 5, 8, requires_grad=True)
    with pytest.raises(ValueError, match="kv_len: got 6, expected 0 to 5"):
        ts.flash_attention(q, q, q, kv_len=torch.tensor([6], dtype=torch.int32))
    assert ts.softmax_topk(x, np.int64(2)).values.shape == (2, 2)


def test_arrays_of_two_frameworks():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="weight: got an array of torch, expected numpy as the first"):
        ts.layer_norm(X, torch.ones(8))
