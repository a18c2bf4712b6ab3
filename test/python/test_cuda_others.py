# SPDX-License-Identifier: Apache-2.0
"""test_cuda_others.py - the package on CUDA arrays of CuPy and JAX."""
import numpy as np
import pytest
import reference as ref

import touchstone as ts

gpu = pytest.mark.skipif(ts.cuda_unavailable_reason() is not None, reason="no GPU, or no CUDA module")
rng = np.random.default_rng(11)


def draw(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@gpu
def test_cupy_functions(cupy):
    x, w, b, target = draw(6, 64), draw(64), draw(64), rng.integers(0, 64, 6)
    X, W, B, T = (cupy.asarray(a) for a in (x, w, b, target))
    ref.close(ts.layer_norm(X, W, B).get(), ref.layer_norm(x, w, b, 1e-5), 1e-5)
    out = cupy.empty_like(X)
    assert ts.layer_norm(X, W, B, out=out) is out
    ref.close(ts.layer_norm(X.T).get(), ref.layer_norm(x.T, 1, 0, 1e-5), 1e-5)
    y, total = ts.rms_norm(X, W, X)
    ref.close(y.get(), ref.rms_norm(2 * x, w, 1e-6), 1e-5)
    top = ts.softmax_topk(X, 3)
    assert (top.indices.get() == np.argsort(-x, -1, kind="stable")[:, :3]).all()
    loss, _ = ref.cross_entropy(x, target)
    ref.close(ts.cross_entropy(X, T).get(), loss.mean(), 1e-5)
    q = draw(1, 2, 9, 32)
    ref.close(ts.flash_attention(*(cupy.asarray(q),) * 3, causal=True).get(), ref.attention(q, q, q, causal=True)[0], 1e-4)
    weight = draw(5, 64)
    packed = ts.ternary_pack(cupy.asarray(weight))
    ref.close(ts.ternary_linear(X, packed).get(), x @ ref.ternary(weight).T, 1e-4)


@gpu
def test_cupy_runs_on_the_current_stream_and_waits_for_nothing(cupy):
    x = cupy.asarray(draw(64, 128))
    want = ts.layer_norm(x).get()
    stream, late = cupy.cuda.Stream(non_blocking=True), cupy.zeros_like(x)
    busy = cupy.RawKernel("""extern "C" __global__ void busy(long long n) {
        for (long long begin = clock64(); clock64() - begin < n;); }""", "busy")
    with stream:
        ts.layer_norm(x)
        busy((1,), (1,), (np.int64(1),))
        stream.synchronize()
        busy((1,), (1,), (np.int64(200_000_000),))
        cupy.copyto(late, x)
        got = ts.layer_norm(late)
        assert not stream.done, "the call waited for the device"
    stream.synchronize()
    assert (got.get() == want).all()


@gpu
def test_cupy_graph(cupy):
    x = cupy.asarray(draw(16, 128))
    fresh = draw(16, 128)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        w, b, y = cupy.ones(128, "float32"), cupy.zeros(128, "float32"), cupy.empty_like(x)
        ts.layer_norm(x, w, b, out=y)
        stream.synchronize()
        stream.begin_capture()
        ts.layer_norm(x, w, b, out=y)
        graph = stream.end_capture()
        x.set(fresh)
        graph.launch(stream)
    stream.synchronize()
    ref.close(y.get(), ref.layer_norm(fresh, 1, 0, 1e-5), 1e-5)


@gpu
def test_cupy_kv_cache(cupy):
    k, v, q = draw(9, 2, 16), draw(9, 2, 16), draw(1, 4, 16)
    results = []
    for framework, put in (("cupy", cupy.asarray), ("numpy", np.array)):
        with ts.KVCache(1, 4, 2, 16, capacity=20, page=4, store="int8", framework=framework) as cache:
            s = cache.open()
            cache.append(0, s, put(k), put(v))
            results.append([cache.attend(0, s, put(q)), *cache.read(0, s)])
    for got, want in zip(*results):
        ref.close(got.get(), want.astype(np.float64), 1e-4)


@gpu
def test_jax_on_the_gpu():
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax_tvm_ffi")
    import jax.numpy as jnp
    devices = [d for d in jax.devices() if d.platform == "gpu"]
    if not devices:
        pytest.skip("this JAX has no GPU")
    q, w, table, tokens = draw(2, 4, 40, 64), draw(64), draw(96, 64), rng.integers(0, 96, (2, 41))

    def loss(table, w, q, tokens):
        h = ts.layer_norm(table[tokens[:, :-1]], w)
        h = h + ts.flash_attention(q, q, q, causal=True).sum(1) * 0.1
        h = h + ts.ternary_linear(h, table[:64])
        return ts.linear_cross_entropy(ts.rms_norm(h, w), table, tokens[:, 1:])

    results = []
    for device in (devices[0], jax.devices("cpu")[0]):
        with jax.default_device(device):
            inputs = [jax.device_put(jnp.asarray(a, a.dtype if a.dtype.kind == "f" else "int32"), device)
                      for a in (table, w, q, tokens)]
            value, grads = jax.jit(jax.value_and_grad(loss, (0, 1, 2)))(*inputs)
            top = jax.jit(lambda x: ts.softmax_topk(x, 5))(inputs[0])
            results.append([np.asarray(a, np.float64) for a in (value, *grads, *top)])
    for got, want in zip(*results):
        ref.close(got, want, 2e-3)


@gpu
def test_jax_errors_reach_python():
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax_tvm_ffi")
    import jax.numpy as jnp
    with pytest.raises(Exception, match="weight: got float32\\[7\\], expected shape \\[8\\]"):
        ts.layer_norm(jnp.ones((2, 8), "float32"), jnp.ones(7, "float32"), jnp.ones(8, "float32")).block_until_ready()
