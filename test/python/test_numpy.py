# SPDX-License-Identifier: Apache-2.0
"""test_numpy.py - the functions of the package with NumPy arrays, against definitions in double."""
import numpy as np
import pytest
import reference as ref

import touchstone as ts

rng = np.random.default_rng(5)
TOLERANCE = {"float32": 2e-6, "float16": 2e-3, "float64": 1e-13}


def draw(*shape, dtype="float32"):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(4096,), (3, 5, 129), (0, 8), (7, 1)])
def test_layer_norm(shape, dtype):
    x, w, b = draw(*shape, dtype=dtype), draw(shape[-1], dtype=dtype), draw(shape[-1], dtype=dtype)
    want = ref.layer_norm(x, w, b, 1e-5)
    ref.close(ts.layer_norm(x, w, b), want, 4 * TOLERANCE[dtype])
    out = np.empty_like(x)
    assert ts.layer_norm(x, w, b, out=out) is out
    ref.close(out, want, 4 * TOLERANCE[dtype])
    ref.close(ts.layer_norm(x, eps=1e-2), ref.layer_norm(x, 1, 0, 1e-2), 4 * TOLERANCE[dtype])


def test_inputs_that_are_not_contiguous_or_read_only_are_copied():
    x = draw(6, 8).T
    assert not x.flags.c_contiguous
    ref.close(ts.layer_norm(x), ref.layer_norm(x, 1, 0, 1e-5), 1e-5)
    x = draw(2, 8)
    x.flags.writeable = False
    ref.close(ts.layer_norm(x), ref.layer_norm(x, 1, 0, 1e-5), 1e-5)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("offset", [0, 1])
def test_rms_norm(dtype, offset):
    x, r, w = draw(3, 4, 65, dtype=dtype), draw(3, 4, 65, dtype=dtype), draw(65, dtype=dtype)
    gain = w.astype(np.float64) + offset
    ref.close(ts.rms_norm(x, w, weight_offset=offset), ref.rms_norm(x, gain, 1e-6), 4 * TOLERANCE[dtype])
    y, total = ts.rms_norm(x, w, r, weight_offset=offset)
    assert (total == x + r).all()
    ref.close(y, ref.rms_norm(x + r, gain, 1e-6), 4 * TOLERANCE[dtype])
    ref.close(ts.rms_norm(x, weight_offset=offset), ref.rms_norm(x, 1, 1e-6), 4 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("k", [0, 1, 7, 300])
def test_softmax_topk(dtype, k):
    x = (3 * draw(2, 3, 257, dtype=dtype)).astype(dtype)
    x[0, 0, ::2] = -np.inf
    values, indices, lse = ts.softmax_topk(x, k, temperature=0.7)
    z = x.astype(np.float64) / 0.7
    ref.close(lse, ref.lse(z), 1e-5)
    order = np.argsort(-x.astype(np.float64), -1, kind="stable")[..., :k]
    n = order.shape[-1]
    assert (indices[..., :n] == order).all() and (indices[..., n:] == -1).all()
    ref.close(values[..., :n], np.exp(np.take_along_axis(z, order, -1) - ref.lse(z)[..., None]), 1e-5)
    out = np.empty((2, 3, k), "float32"), np.empty((2, 3, k), "int32"), np.empty((2, 3), "float32")
    assert ts.softmax_topk(x, k, temperature=0.7, out=out).values is out[0]
    assert (out[1] == indices).all()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("options", [
    {}, {"causal": True}, {"causal": True, "window": 5}, {"kv_len": [0, 9]}, {"scale": 0.3, "causal": True}])
def test_flash_attention(dtype, options):
    q, k, v = draw(2, 6, 13, 32, dtype=dtype), draw(2, 3, 17, 32, dtype=dtype), draw(2, 3, 17, 32, dtype=dtype)
    want, lse = ref.attention(q, k, v, **options)
    if "kv_len" in options:
        options = dict(options, kv_len=np.array(options["kv_len"], "int32"))
    out, got = ts.flash_attention(q, k, v, return_lse=True, **options)
    ref.close(out, want, 4 * TOLERANCE[dtype])
    ref.close(got, lse, 4 * TOLERANCE["float64" if dtype == "float64" else "float32"])
    swapped = [np.ascontiguousarray(a.swapaxes(1, 2)) for a in (q, k, v)]
    out = np.empty_like(swapped[0])
    assert ts.flash_attention(*swapped, layout="bnhd", out=out, **options) is out
    ref.close(out.swapaxes(1, 2), want, 4 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_flash_attention_fp8(dtype):
    def codes(*shape):
        c = rng.integers(0, 0x58, shape, "uint8") | rng.integers(0, 2, shape, "uint8") << 7  # up to 16
        exponent, mantissa = (c >> 3 & 15).astype(int), (c & 7).astype(float)
        size = np.where(exponent > 0, np.ldexp(8 + mantissa, exponent - 10), np.ldexp(mantissa, -9))
        scale = rng.uniform(0.2, 0.4, shape[:2]).astype("float32")
        return c, scale, (np.where(c >> 7, -size, size) * scale[:, :, None, None]).astype("float32")

    (q, q_scale, wide_q), (k, k_scale, wide_k), (v, v_scale, wide_v) = (
        codes(2, 6, 13, 32), codes(2, 3, 17, 32), codes(2, 3, 17, 32))
    want, lse = ref.attention(wide_q, wide_k, wide_v, causal=True)
    out, got = ts.flash_attention_fp8(q, k, v, q_scale, k_scale, v_scale, causal=True, dtype=dtype, return_lse=True)
    assert out.dtype == dtype
    ref.close(out, want, 4 * TOLERANCE[dtype])
    ref.close(got, lse, 4 * TOLERANCE["float32"])
    for bad, text in (((wide_q, k, v, q_scale, k_scale, v_scale), "q: got float32, expected float8_e4m3fn or uint8"),
                      ((q, k, v, q_scale[:1], k_scale, v_scale), "q_scale: got float32\\[1, 6\\], expected shape")):
        with pytest.raises((TypeError, ValueError), match=text):
            ts.flash_attention_fp8(*bad)


@pytest.mark.parametrize("options", [{}, {"smoothing": 0.1}, {"z_loss": 1e-2}, {"softcap": 5.0}])
def test_cross_entropy(options):
    x, target = draw(4, 5, 77), rng.integers(0, 77, (4, 5))
    target[1, 2] = -100
    loss, counted = ref.cross_entropy(x, target, **options)
    given = {{"smoothing": "label_smoothing"}.get(k, k): v for k, v in options.items()}
    ref.close(ts.cross_entropy(x, target, reduction="none", **given), loss, 1e-5)
    ref.close(ts.cross_entropy(x, target, reduction="sum", **given), loss.sum(), 1e-5)
    mean, grad = ts.cross_entropy(x, target, return_grad=True, **given)
    ref.close(mean, loss.sum() / counted.sum(), 1e-5)
    step, way = 1e-6, draw(*x.shape, dtype="float64")
    a, b = (ref.cross_entropy(x + s * way, target, **options)[0].sum() for s in (step, -step))
    ref.close((grad * way).sum(), np.float64((a - b) / (2 * step) / counted.sum()), 1e-5)


def test_linear_cross_entropy():
    h, w, bias, target = draw(9, 24), draw(51, 24), draw(51), rng.integers(0, 51, 9)
    x = h.astype(np.float64) @ w.T.astype(np.float64) + bias
    loss, _ = ref.cross_entropy(x, target)
    ref.close(ts.linear_cross_entropy(h, w, target, bias, reduction="none"), loss, 1e-5)
    mean, dh, dw = ts.linear_cross_entropy(h, w, target, bias, return_grad=True)
    ref.close(mean, loss.mean(), 1e-5)
    p = np.exp(x - ref.lse(x)[:, None])
    p[np.arange(9), target] -= 1
    ref.close(dh, p @ w / 9, 1e-5)
    ref.close(dw, p.T @ h / 9, 1e-5)


def test_ternary():
    w, x = draw(5, 300), draw(2, 3, 300)
    packed = ts.ternary_pack(w)
    want = ref.ternary(w)
    assert (ts.ternary_unpack(packed) == want).all()
    y = ts.ternary_linear(x, packed)
    ref.close(y, x @ want.T, 1e-4)
    assert (ts.ternary_linear(x, w) == y).all()
    assert packed.codes.nbytes + packed.scales.nbytes < w.nbytes / 10


def bigram(table):
    return lambda strings: table[[int(s[-1]) for s in strings]]


@pytest.mark.parametrize("archive", [False, True])
def test_beam_search_with_every_beam_is_exhaustive(archive):
    table = draw(5, 5)
    logp = table - ref.lse(table)[:, None]
    beams = ts.beam_search(bigram(table), [[1, 2], [3]], n_vocab=5, beam_width=125, max_new_tokens=3, archive=archive)
    for prompt, found in zip((2, 3), beams):
        want = sorted(((logp[prompt, a] + logp[a, b] + logp[b, c], [a, b, c])
                       for a in range(5) for b in range(5) for c in range(5)), reverse=True)
        assert [b.tokens for b in found[:5]] == [t for _, t in want[:5]]
        ref.close(found[0].logprob, np.float64(want[0][0]), 1e-6)


def test_beam_search_raises_what_the_model_raised():
    def broken(strings):
        raise ArithmeticError("no logits today")
    with pytest.raises(ArithmeticError, match="no logits today"):
        ts.beam_search(broken, [[1]], n_vocab=5, beam_width=2, max_new_tokens=3)


def test_beam_search_over_a_model_that_calls_kernels():
    table = draw(64, 64)

    def model(strings):  # its workspace is another one than the search's
        return ts.layer_norm(bigram(table)(strings)) + 0 * ts.softmax_topk(table, 60).lse[0]
    plain = ts.beam_search(lambda s: ts.layer_norm(table)[[int(t[-1]) for t in s]], [[1]], n_vocab=64, beam_width=4,
                           max_new_tokens=6)
    assert [b.tokens for b in ts.beam_search(model, [[1]], n_vocab=64, beam_width=4, max_new_tokens=6)[0]] == \
        [b.tokens for b in plain[0]]


def test_tree_verify_gives_what_plain_decoding_gives():
    table = draw(9, 9)
    greedy, t = [], 4
    for _ in range(3):
        t = int(table[t].argmax())
        greedy.append(t)
    seen = []

    def model(tokens, positions, visible, want):
        seen.append((tokens, positions, visible, want))
        return table[tokens[want]]
    other = (greedy[0] + 1) % 9
    r = ts.tree_verify(model, [0, 4], [other, greedy[0], greedy[1], other], [-1, -1, 1, 0], n_vocab=9)
    assert r.tokens == greedy and r.path == [1, 2]
    assert r.status.tolist() == [ts.REJECTED, ts.ACCEPTED, ts.ACCEPTED, ts.UNREACHED]
    visible, position = ts.tree_mask([-1, -1, 1, 0], 2)
    assert (seen[0][2] == visible).all() and (seen[0][1] == position).all() and len(seen) == 1


@pytest.mark.parametrize("archive", [False, True])
def test_searches_write_into_out(archive):
    table = draw(5, 5)
    options = dict(n_vocab=5, beam_width=3, max_new_tokens=4, eos=2, archive=archive)
    beams = ts.beam_search(bigram(table), [[1, 2], [3]], **options)
    out = ts.BeamArrays.make(2, 3, 4)
    got = ts.beam_search(bigram(table), [[1, 2], [3]], out=out, **options)
    assert all(a is b for a, b in zip(got, out))
    for i, found in enumerate(beams):
        assert out.found[i] == len(found)
        for j, b in enumerate(found):
            assert out.tokens[i, j].tolist() == b.tokens + [-1] * (4 - len(b.tokens)) and out.length[i, j] == len(b.tokens)
            assert (out.logprob[i, j], out.score[i, j], out.finished[i, j]) == b[1:]

    def model(tokens, positions, visible, want):
        return table[tokens[want]]
    tree = [1, 2], [4, 3, 0], [-1, 0, 0]
    plain, out = ts.tree_verify(model, *tree, n_vocab=5), ts.TreeArrays.make(3, 4)
    assert ts.tree_verify(model, *tree, n_vocab=5, out=out).tokens is out.tokens
    n, depth = out.counts
    assert out.tokens[:n].tolist() == plain.tokens and (out.tokens[n:] == -1).all()
    assert out.path[:depth].tolist() == plain.path and (out.status == plain.status).all()


STORES = {"float32": 1e-5, "float16": 5e-3, "int8": 0.05, "int4": 0.6}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("page", [0, 16])
@pytest.mark.parametrize("key_axis", ["token", "channel"])
def test_kv_cache(store, page, key_axis):
    group = 16 if key_axis == "channel" else 32
    cache = ts.KVCache(2, 8, 4, 32, capacity=64, max_seqs=3, page=page, store=store, key_axis=key_axis, key_group=group)
    a, b = cache.open(), cache.open()
    k, v = draw(50, 4, 32), draw(50, 4, 32)
    cache.append(1, [a, b], k, v, counts=[20, 30])
    assert cache.length(a, 1) == 20 and cache.length(b, 1) == 30 and cache.length(a) == 0
    q = draw(5, 8, 32)
    out, lse = cache.attend(1, [a, b], q, counts=[2, 3], return_lse=True)
    for seq, n, part, qs in ((a, 20, slice(0, 20), slice(0, 2)), (b, 30, slice(20, 50), slice(2, 5))):
        kk, vv = cache.read(1, seq)
        assert np.abs(kk - k[part]).max() <= STORES[store] and np.abs(vv - v[part]).max() <= STORES[store]
        want, l = ref.attention(*(x.swapaxes(0, 1)[None] for x in (q[qs], kk, vv)), causal=True)
        ref.close(out[qs].swapaxes(0, 1)[None], want, 1e-5)
        ref.close(lse[qs].T[None], l, 1e-5)
    cache.append(0, [a, b], k, v, counts=[20, 30])
    c = cache.fork(a)
    before = cache.usage()
    cache.truncate(a, 7)
    assert cache.length(a, 1) == 7 and cache.length(c, 1) == 20
    assert before.bytes_reserved == cache.usage().bytes_reserved
    cache.free(a)
    cache.append(1, c, *(draw(1, 4, 32) for _ in range(2)))
    assert cache.length(c, 1) == 21
    cache.close()
    with pytest.raises(ValueError, match="closed"):
        cache.open()


def test_kv_cache_attend_tree_is_attend_of_each_path():
    cache = ts.KVCache(1, 4, 2, 16, capacity=32, max_seqs=2, page=8)
    s = cache.open()
    cache.append(0, s, draw(10, 2, 16), draw(10, 2, 16))
    q, k, v = draw(3, 4, 16), draw(3, 2, 16), draw(3, 2, 16)
    out = cache.attend_tree(0, s, q, k, v, [-1, 0, 0])
    for leaf in (1, 2):
        f = cache.fork(s)
        rows = [0, leaf]
        cache.append(0, f, k[rows], v[rows])
        ref.close(out[rows], cache.attend(0, f, q[rows]).astype(np.float64), 1e-5)
        cache.free(f)


def test_settings():
    assert ts.set_num_threads(1) == 0 and ts.set_num_threads(0) == 1
    assert ts.set_deterministic(True) is False and ts.set_deterministic(False) is True
    assert ts.abi_version == 1
    why = ts.cuda_unavailable_reason()
    assert why is None or "CUDA" in why
