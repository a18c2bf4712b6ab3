# SPDX-License-Identifier: Apache-2.0
"""test_jax.py - the functions under JAX's jit and grad, against differences in double and against
NumPy."""
import numpy as np
import pytest
import reference as ref

jax = pytest.importorskip("jax")
pytest.importorskip("jax_tvm_ffi")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_default_device", jax.devices("cpu")[0])  # float64 is the CPU's; test_cuda_others.py has the GPU
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import touchstone as ts  # noqa: E402

rng = np.random.default_rng(8)


def draw(*shape, dtype="float64"):
    return jnp.asarray(rng.standard_normal(shape).astype(dtype))


def gradients(f, *arrays):
    """jit(f) against differences, in reverse mode."""
    check_grads(jax.jit(f), arrays, order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


def test_forward_is_that_of_numpy():
    x, w, b = draw(3, 5, 33, dtype="float32"), draw(33, dtype="float32"), draw(33, dtype="float32")
    n = [np.asarray(a).copy() for a in (x, w, b)]
    assert np.array_equal(jax.jit(ts.layer_norm)(x, w, b), ts.layer_norm(*n))
    assert np.array_equal(ts.rms_norm(x, w), ts.rms_norm(n[0], n[1]))
    for got, want in zip(jax.jit(ts.rms_norm)(x, w, x), ts.rms_norm(n[0], n[1], n[0])):
        assert np.array_equal(got, want)
    for got, want in zip(jax.jit(lambda x: ts.softmax_topk(x, 4))(x), ts.softmax_topk(n[0], 4)):
        assert np.array_equal(got, want)
    weight = draw(7, 33, dtype="float32")
    packed = ts.ternary_pack(np.asarray(weight).copy())
    assert np.array_equal(ts.ternary_linear(x, packed), ts.ternary_linear(n[0], packed))
    assert np.array_equal(jax.jit(ts.ternary_linear)(x, weight), ts.ternary_linear(n[0], packed))


def test_bfloat16():
    x = draw(4, 64).astype(jnp.bfloat16)
    ref.close(np.asarray(ts.layer_norm(x).astype(jnp.float32)), ref.layer_norm(np.asarray(x, np.float64), 1, 0, 1e-5),
              1e-2)


def test_norms():
    gradients(ts.layer_norm, draw(2, 3, 9), draw(9), draw(9))
    gradients(ts.rms_norm, draw(2, 3, 9), draw(9))
    gradients(lambda x, w, r: ts.rms_norm(x, w, r, weight_offset=1), draw(2, 3, 9), draw(9), draw(2, 3, 9))


@pytest.mark.parametrize("options", [{}, {"causal": True, "window": 3}, {"kv_len": [2, 6]}])
def test_attention(options):
    q, k, v = draw(2, 4, 5, 8), draw(2, 2, 6, 8), draw(2, 2, 6, 8)
    f = lambda q, k, v: ts.flash_attention(q, k, v, **options)  # noqa: E731
    want, lse = ref.attention(*(np.asarray(a) for a in (q, k, v)), **options)
    ref.close(jax.jit(f)(q, k, v), want, 1e-12)
    ref.close(ts.flash_attention(q, k, v, return_lse=True, **options)[1], lse, 1e-12)
    gradients(f, q, k, v)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction):
    target = np.array([0, 4, -100, 2])
    x = draw(4, 5)
    loss, counted = ref.cross_entropy(np.asarray(x), target)
    want = {"mean": loss.sum() / counted.sum(), "sum": loss.sum(), "none": loss}[reduction]
    f = lambda x: ts.cross_entropy(x, target, reduction=reduction, label_smoothing=0.1, softcap=9.0)  # noqa: E731
    ref.close(ts.cross_entropy(x, target, reduction=reduction), np.asarray(want), 1e-12)
    gradients(f, x)
    if reduction != "none":
        gradients(lambda h, w: ts.linear_cross_entropy(h, w, target, reduction=reduction), draw(4, 3), draw(5, 3))
        gradients(lambda h, w, b: ts.linear_cross_entropy(h, w, target, b, reduction=reduction), draw(4, 3), draw(5, 3),
                  draw(5))


def test_ternary_goes_straight_through():
    x, w, dy = draw(4, 7, dtype="float32"), draw(3, 7, dtype="float32"), draw(4, 3, dtype="float32")
    _, back = jax.vjp(ts.ternary_linear, x, w)
    dx, dw = back(dy)
    ref.close(dw, np.asarray(dy.T @ x, np.float64), 1e-5)
    ref.close(dx, np.asarray(dy, np.float64) @ ref.ternary(np.asarray(w)), 1e-5)


def test_a_training_step_and_vmap():
    def loss(p, x, t):
        h = ts.layer_norm(p["e"][x], p["g"])
        h = h + ts.flash_attention(*(h.reshape(2, 6, 2, 8),) * 3, causal=True, layout="bnhd").reshape(h.shape)
        return ts.linear_cross_entropy(ts.rms_norm(h, p["g"]), p["e"], t)
    p = {"e": draw(20, 16, dtype="float32"), "g": jnp.ones(16, jnp.float32)}
    tokens = jnp.asarray(rng.integers(0, 20, (2, 7)))
    step = jax.jit(lambda p: (lambda l, g: (l, jax.tree.map(lambda a, b: a - 0.5 * b, p, g)))(
        *jax.value_and_grad(loss)(p, tokens[:, :-1], tokens[:, 1:])))
    first, p = step(p)
    for _ in range(20):
        last, p = step(p)
    assert last < first / 2
    x = draw(3, 4, 8)
    assert np.allclose(jax.vmap(lambda r: ts.layer_norm(r))(x), ts.layer_norm(x))


def test_errors_reach_python():
    with pytest.raises(Exception, match="weight: got float64\\[7\\], expected shape \\[8\\]"):
        ts.layer_norm(draw(2, 8), draw(7)).block_until_ready()
    with pytest.raises(ValueError, match="out: got an array"):
        ts.layer_norm(draw(2, 8), out=np.empty((2, 8)))
