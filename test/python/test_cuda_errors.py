# SPDX-License-Identifier: Apache-2.0
"""test_cuda_errors.py - wrong calls with CUDA tensors: each raises one exception, and the device
can be used afterwards."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import touchstone as ts  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available() or ts.cuda_unavailable_reason() is not None,
                                reason="no GPU, or no CUDA module")


def x(*shape, **options):
    return torch.ones(*(shape or (2, 8)), **{"device": "cuda", **options})


def w(**options):
    return x(8, **options)


def q(d=8, heads=4):
    return x(1, heads, 5, d)


def freed():
    t = x()
    t.untyped_storage().resize_(0)
    return t


def cache(**options):
    return ts.KVCache(1, 4, 2, 8, capacity=4, framework="torch", device="cuda", **options)


def appended(k, v=None):
    c = cache()
    c.append(0, c.open(), k, k if v is None else v)


def attended(out=None, **options):
    c = cache()
    s = c.open()
    c.append(0, s, x(1, 2, 8), x(1, 2, 8))
    c.attend(0, s, x(1, 4, 8), out=out)


def drafted(parents):
    c = cache()
    c.attend_tree(0, c.open(), x(1, 4, 8), x(1, 2, 8), x(1, 2, 8), parents)


def overfull():
    c = cache()
    c.append(0, c.open(), *(x(4, 2, 8),) * 2)
    c.append(0, 0, *(x(1, 2, 8),) * 2)


def closed():
    c = cache()
    c.close()
    c.open()


CPU, CUDA = "got a tensor on cpu, expected cuda:0, as the first", "got a tensor on cuda:0, expected cpu, as the first"
# name, call, exception, the beginning of its text
CALLS = [
    ("weight on the CPU", lambda: ts.layer_norm(x(), w(device="cpu"), w()), ValueError, "layer_norm: weight: " + CPU),
    ("x on the CPU", lambda: ts.layer_norm(x(device="cpu"), w(), w()), ValueError, "layer_norm: weight: " + CUDA),
    ("out on the CPU", lambda: ts.layer_norm(x(), w(), w(), out=x(device="cpu")), ValueError, "layer_norm: out: " + CPU),
    ("weight of another dtype", lambda: ts.layer_norm(x(), w(dtype=torch.bfloat16), w()), TypeError,
     "layer_norm: weight: got bfloat16[8], expected dtype float32"),
    ("doubles", lambda: ts.layer_norm(x(dtype=torch.float64)), TypeError,
     "layer_norm: dtype not supported; got x float64[2, 8]"),
    ("integers", lambda: ts.rms_norm(x(dtype=torch.int32)), TypeError,
     "rms_norm: x: got int32[2, 8], expected dtype float32, float64, float16 or bfloat16"),
    ("out not contiguous", lambda: ts.layer_norm(x(), w(), w(), out=x(8, 2).T), ValueError,
     "layer_norm: out: got float32[2, 8], expected a contiguous tensor"),
    ("out is x", lambda: (lambda t: ts.layer_norm(t, w(), w(), out=t))(x()), ValueError,
     "layer_norm: out: got memory that overlaps x, expected memory of its own"),
    ("out of another shape", lambda: ts.rms_norm(x(), w(), out=x(2, 7)), ValueError,
     "rms_norm: out: got float32[2, 7], expected float32[2, 8]"),
    ("freed memory", lambda: ts.rms_norm(freed(), w()), ValueError,
     "rms_norm: x: got float32[2, 8], expected a tensor that has memory; this one's was freed"),
    ("a freed weight", lambda: ts.rms_norm(x(1, 16), freed().view(16)), ValueError,
     "rms_norm: weight: got float32[16], expected a tensor that has memory; this one's was freed"),
    ("a weight of NumPy", lambda: ts.layer_norm(x(), np.ones(8, "float32"), w()), TypeError,
     "layer_norm: weight: got an array of numpy, expected torch as the first"),
    ("a sparse tensor", lambda: ts.rms_norm(x().to_sparse(), w()), TypeError,
     "rms_norm: x: got a tensor of layout torch.sparse_coo, expected a dense one"),
    ("a meta tensor", lambda: ts.rms_norm(x(device="meta"), w(device="meta")), TypeError,
     "touchstone: got a tensor on meta, expected cpu or cuda"),
    ("k below 0", lambda: ts.softmax_topk(x(), -1), ValueError, "softmax_topk: k: got -1, expected an integer >= 0"),
    ("top-k's out on the CPU", lambda: ts.softmax_topk(x(), 2, out=(x(2, 2), x(2, 2, dtype=torch.int32), x(2, device="cpu"))),
     ValueError, "softmax_topk: lse: " + CPU),
    ("kv_len on the CPU", lambda: ts.flash_attention(q(), q(), q(), kv_len=torch.ones(1, dtype=torch.int32)), ValueError,
     "flash_attention: kv_len: " + CPU),
    ("kv_len of int64", lambda: ts.flash_attention(q(), q(), q(), kv_len=x(1, dtype=torch.int64)), TypeError,
     "flash_attention: kv_len: got int64[1], expected dtype int32"),
    ("keys of another width", lambda: ts.flash_attention(q(), q(4), q()), ValueError,
     "flash_attention: k: got float32[1, 4, 5, 4], expected shape [1, 4, 5, 8]"),
    ("heads above 256", lambda: ts.flash_attention(q(264), q(264), q(264)), ValueError,
     "flash_attention: q: got heads of width 264, expected at most 256"),
    ("3 KV heads for 4", lambda: ts.flash_attention(q(), q(8, 3), q(8, 3)), ValueError,
     "flash_attention: q: got 4 heads, expected a multiple of k's, 3"),
    ("targets on the CPU", lambda: ts.cross_entropy(x(), torch.zeros(2, dtype=torch.int64)), ValueError,
     "cross_entropy: target: " + CPU),
    ("float targets", lambda: ts.cross_entropy(x(), x(2)), TypeError,
     "cross_entropy: target: got float32, expected dtype int64 or int32"),
    ("a weight of another width", lambda: ts.linear_cross_entropy(x(), x(20, 9), x(2, dtype=torch.int64)), ValueError,
     "linear_cross_entropy: weight: got float32[20, 9], expected shape [20, 8]"),
    ("packed weights on the CPU", lambda: ts.ternary_linear(x(), ts.ternary_pack(x(3, 8, device="cpu"))), ValueError,
     "ternary_linear_packed: codes: " + CPU),
    ("out where gradients are recorded", lambda: ts.layer_norm(x().requires_grad_(), out=x()), ValueError,
     "layer_norm: out: got an array, expected None where gradients are recorded"),
    ("keys for the cache on the CPU", lambda: appended(x(1, 2, 8, device="cpu")), ValueError,
     "KVCache.append: k: got an array on cpu, expected cuda:0, as the cache"),
    ("values for the cache of another dtype", lambda: appended(x(1, 2, 8), x(1, 2, 8, dtype=torch.float16)), ValueError,
     "KVCache.append: v: got float16[1, 2, 8], expected float32[1, 2, 8]"),
    ("the cache's out on the CPU", lambda: attended(out=x(1, 4, 8, device="cpu")), ValueError,
     "KVCache.attend: out: got an array on cpu, expected cuda:0, as the cache"),
    ("the cache's out not contiguous", lambda: attended(out=x(1, 8, 4).transpose(1, 2)), ValueError,
     "KVCache.attend: out: got an array that is not contiguous, expected a contiguous one"),
    ("parents on the device", lambda: drafted(x(1, dtype=torch.int32)), TypeError,
     "KVCache.attend_tree: parents: got an array on a device, expected a list or an array on the host"),
    ("more tokens than the cache holds", overfull, MemoryError,
     "KVCache.append: got [1] more tokens for sequences of length [4], expected at most 4 each"),
    ("a closed cache", closed, ValueError, "KVCache.open: the cache is closed"),
    ("a cache of doubles", lambda: cache(dtype="float64"), (TypeError, ValueError, NotImplementedError),
     "KVCache: dtype not supported"),
    ("a cache on no device", lambda: ts.KVCache(1, 4, 2, 8, capacity=4, framework="torch", device="meta"), ValueError,
     "KVCache: device: got meta, expected cpu or cuda"),
]


@pytest.mark.parametrize("name,call,kind,message", CALLS, ids=[c[0] for c in CALLS])
def test_wrong_call(name, call, kind, message):
    with pytest.raises(kind) as raised:
        call()
    text = str(raised.value.args[0])
    print("%s: %s: %s" % (name, type(raised.value).__name__, text.splitlines()[0]))
    assert text.startswith(message), text
    assert "\n" not in text
    torch.cuda.synchronize()  # raises if the device was harmed
    assert torch.allclose(ts.rms_norm(x(), w()), x(), atol=1e-5)
