# SPDX-License-Identifier: Apache-2.0
"""Touchstone for JAX: the same functions under jit, grad and vmap, through jax-tvm-ffi. Gradients are of
first order. vmap calls the kernel once per element of the mapped axis."""
from __future__ import annotations

import functools
from typing import Optional

import jax
import jax.numpy as jnp
import jax_tvm_ffi
import numpy as np

from . import _ops
from ._native import function
from ._ops import TernaryWeight, TopK

# numbers of each kernel, in the order of its table
_NUMBERS = {
    "layer_norm": ("eps",),
    "layer_norm_backward": (),
    "rms_norm": ("eps", "weight_offset"),
    "rms_norm_backward": ("weight_offset",),
    "softmax_topk": ("inv_temperature",),
    "flash_attention": ("scale", "causal", "window", "layout"),
    "flash_attention_backward": ("scale", "causal", "window", "layout"),
    "cross_entropy": ("mean", "ignore_index", "scale", "label_smoothing", "z_loss", "softcap"),
    "linear_cross_entropy": ("mean", "ignore_index", "scale", "label_smoothing", "z_loss", "softcap"),
    "ternary_linear": (),
    "ternary_linear_backward": (),
    "ternary_linear_packed": (),
}
_REALS = ("eps", "scale", "inv_temperature", "label_smoothing", "z_loss", "softcap")


@functools.lru_cache(None)
def _register(name):
    """The target of a kernel, on first use, for every platform that can be had."""
    spec = ["args"] + ["attrs." + n for n in _NUMBERS[name]] + ["rets"]
    jax_tvm_ffi.register_ffi_target("touchstone." + name, function(name), spec, platform="cpu")
    if _ops.cuda_unavailable_reason() is None:
        jax_tvm_ffi.register_ffi_target("touchstone." + name, function(name), spec, platform="gpu",
                                        allow_cuda_graph=True)
    return "touchstone." + name


def _none(like):
    """A placeholder for None: a call's inputs and outputs are all arrays."""
    return jnp.zeros((0,), like)


def _call(name, shapes, *arrays, **numbers):
    results = tuple(jax.ShapeDtypeStruct(s, d) for s, d in shapes)
    typed = {k: np.float64(v) if k in _REALS else np.int64(v) for k, v in numbers.items()}
    return jax.ffi.ffi_call(_register(name), results, vmap_method="sequential")(*arrays, **typed)


def _wide(x):
    return jnp.float64 if x.dtype == jnp.float64 else jnp.float32


def _vector(v, fill, x):
    return jnp.full((x.shape[-1],), fill, x.dtype) if v is None else v


# ---- norms ----

@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _layer_norm(x, weight, bias, eps):
    return _layer_norm_forward(x, weight, bias, eps)[0]


def _layer_norm_forward(x, weight, bias, eps):
    rows = x.shape[:-1]
    y, mean, rstd = _call("layer_norm", ((x.shape, x.dtype), (rows, _wide(x)), (rows, _wide(x))), x, weight, bias,
                          eps=eps)
    return y, (x, weight, bias, mean, rstd)


def _layer_norm_backward(eps, kept, dy):
    x, weight, bias, mean, rstd = kept
    dx, dw, db = _call("layer_norm_backward", ((x.shape, x.dtype), (weight.shape, _wide(x)), (bias.shape, _wide(x))),
                       x, dy, weight, mean, rstd)
    return dx, dw.astype(weight.dtype), db.astype(bias.dtype)


_layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)


def layer_norm(x, weight=None, bias=None, *, eps: float = 1e-5):
    """touchstone.layer_norm for JAX."""
    return _layer_norm(x, _vector(weight, 1, x), _vector(bias, 0, x), float(eps))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _rms_norm(x, weight, eps, offset):
    return _rms_norm_forward(x, weight, eps, offset)[0]


def _rms_norm_forward(x, weight, eps, offset):
    y, _, rstd = _call("rms_norm", ((x.shape, x.dtype), ((0,), x.dtype), (x.shape[:-1], _wide(x))), x, _none(x.dtype),
                       weight, eps=eps, weight_offset=offset)
    return y, (x, weight, rstd)


def _rms_norm_backward(eps, offset, kept, dy):
    x, weight, rstd = kept
    dx, dw = _call("rms_norm_backward", ((x.shape, x.dtype), (weight.shape, _wide(x))), x, dy, _none(x.dtype), weight,
                   rstd, weight_offset=offset)
    return dx, dw.astype(weight.dtype)


_rms_norm.defvjp(_rms_norm_forward, _rms_norm_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _rms_norm_residual(x, residual, weight, eps, offset):
    return _rms_norm_residual_forward(x, residual, weight, eps, offset)[0]


def _rms_norm_residual_forward(x, residual, weight, eps, offset):
    y, total, rstd = _call("rms_norm", ((x.shape, x.dtype), (x.shape, x.dtype), (x.shape[:-1], _wide(x))), x, residual,
                           weight, eps=eps, weight_offset=offset)
    return (y, total), (total, weight, rstd)


def _rms_norm_residual_backward(eps, offset, kept, grads):
    total, weight, rstd = kept
    dx, dw = _call("rms_norm_backward", ((total.shape, total.dtype), (weight.shape, _wide(total))), total, grads[0],
                   grads[1], weight, rstd, weight_offset=offset)
    return dx, dx, dw.astype(weight.dtype)


_rms_norm_residual.defvjp(_rms_norm_residual_forward, _rms_norm_residual_backward)


def rms_norm(x, weight=None, residual=None, *, eps: float = 1e-6, weight_offset: int = 0):
    """touchstone.rms_norm for JAX: the result, or (result, x + residual)."""
    weight = _vector(weight, 1 - weight_offset, x)
    if residual is None:
        return _rms_norm(x, weight, float(eps), int(weight_offset))
    return _rms_norm_residual(x, residual, weight, float(eps), int(weight_offset))


# ---- softmax and top-k ----

def softmax_topk(logits, k: int, *, temperature: float = 1.0) -> TopK:
    """touchstone.softmax_topk for JAX. The results have no gradient."""
    rows = logits.shape[:-1]
    return TopK(*_call("softmax_topk", ((rows + (k,), jnp.float32), (rows + (k,), jnp.int32), (rows, jnp.float32)),
                       jax.lax.stop_gradient(logits), inv_temperature=1.0 / temperature))


# ---- attention ----

@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _attention(q, k, v, kv_len, settings):
    return _attention_forward(q, k, v, kv_len, settings)[0]


def _attention_forward(q, k, v, kv_len, settings):
    scale, causal, window, layout = settings
    heads, n = (q.shape[1], q.shape[2]) if layout == 0 else (q.shape[2], q.shape[1])
    out, lse = _call("flash_attention", ((q.shape, q.dtype), ((q.shape[0], heads, n), _wide(q))), q, k, v, kv_len,
                     scale=scale, causal=causal, window=window, layout=layout)
    return (out, lse), (q, k, v, kv_len, out, lse)


def _attention_backward(settings, kept, grads):
    q, k, v, kv_len, out, lse = kept
    scale, causal, window, layout = settings
    dq, dk, dv = _call("flash_attention_backward", tuple((t.shape, t.dtype) for t in (q, k, v)), q, k, v, out,
                       grads[0], lse, kv_len, scale=scale, causal=causal, window=window, layout=layout)
    return dq, dk, dv, np.zeros(kv_len.shape, jax.dtypes.float0)


_attention.defvjp(_attention_forward, _attention_backward)


def flash_attention(q, k, v, *, causal: bool = False, window: int = 0, kv_len=None, scale: Optional[float] = None,
                    layout: str = "bhnd", return_lse: bool = False):
    """touchstone.flash_attention for JAX; the log-sum-exp has no gradient."""
    scale, window, order = _ops._attention_settings("flash_attention", q, k, scale, causal, window, layout)
    kv_len = _none(jnp.int32) if kv_len is None else jnp.asarray(kv_len, jnp.int32)
    out, lse = _attention(q, k, v, kv_len, (scale, bool(causal), window, order))
    return (out, jax.lax.stop_gradient(lse)) if return_lse else out


# ---- cross-entropy: the gradient comes with the loss, where there is one ----

def _loss(name, with_grad, tensors, grads, target, settings):
    mean, ignore_index, smoothing, z_loss, softcap = settings
    rows, wide = tensors[0].shape[:-1], _wide(tensors[0])
    extra = [(t.shape, t.dtype) if with_grad else ((0,), t.dtype) for t in grads]
    loss, _, total, *found = _call(name, ((rows, wide), ((0,), wide), ((1,), wide), *extra), *tensors, target,
                                   mean=mean, ignore_index=ignore_index, scale=1.0, label_smoothing=smoothing,
                                   z_loss=z_loss, softcap=softcap)
    return total[0], loss, found


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _cross_entropy(logits, target, settings):
    return _loss("cross_entropy", False, (logits,), (logits,), target, settings)[:2]


def _cross_entropy_forward(logits, target, settings):
    total, loss, (grad,) = _loss("cross_entropy", True, (logits,), (logits,), target, settings)
    return (total, loss), (grad, target)


def _cross_entropy_backward(settings, kept, grads):
    grad, target = kept
    rows = grads[1] * (target != settings[1]).sum() if settings[0] else grads[1]
    return (grad * (grads[0] + rows)[..., None]).astype(grad.dtype), np.zeros(target.shape, jax.dtypes.float0)


_cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)


def cross_entropy(logits, target, *, reduction: str = "mean", ignore_index: int = -100, label_smoothing: float = 0.0,
                  z_loss: float = 0.0, softcap: float = 0.0):
    """touchstone.cross_entropy for JAX."""
    settings = (_ops._reduction("cross_entropy", reduction), int(ignore_index), label_smoothing, z_loss, softcap)
    total, loss = _cross_entropy(logits, jnp.asarray(target, jnp.int32), settings)
    return loss if reduction == "none" else total


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _linear_cross_entropy(hidden, weight, bias, target, settings):
    return _loss("linear_cross_entropy", False, (hidden, weight, bias), (hidden, weight), target, settings)[:2]


def _linear_cross_entropy_forward(hidden, weight, bias, target, settings):
    total, loss, grads = _loss("linear_cross_entropy", True, (hidden, weight, bias), (hidden, weight), target, settings)
    return (total, loss), (*grads, bias, target)


def _linear_cross_entropy_backward(settings, kept, grads):
    dh, dw, bias, target = kept
    return ((dh * grads[0]).astype(dh.dtype), (dw * grads[0]).astype(dw.dtype), jnp.zeros_like(bias),
            np.zeros(target.shape, jax.dtypes.float0))


_linear_cross_entropy.defvjp(_linear_cross_entropy_forward, _linear_cross_entropy_backward)


def linear_cross_entropy(hidden, weight, target, bias=None, *, reduction: str = "mean", ignore_index: int = -100,
                         label_smoothing: float = 0.0, z_loss: float = 0.0, softcap: float = 0.0):
    """touchstone.linear_cross_entropy for JAX. Gradients are offered for "mean" and "sum"; a bias costs a
    copy of weight."""
    settings = (_ops._reduction("linear_cross_entropy", reduction), int(ignore_index), label_smoothing, z_loss, softcap)
    if bias is not None:  # as one more column of weight, of inputs 1: so it has a gradient
        hidden = jnp.concatenate([hidden, jnp.ones_like(hidden[..., :1])], -1)
        weight = jnp.concatenate([weight, bias[:, None]], -1)
    total, loss = _linear_cross_entropy(hidden, weight, _none(hidden.dtype), jnp.asarray(target, jnp.int32), settings)
    return jax.lax.stop_gradient(loss) if reduction == "none" else total


# ---- ternary ----

@jax.custom_vjp
def _ternary_linear(x, weight):
    return _ternary_linear_forward(x, weight)[0]


def _ternary_linear_forward(x, weight):
    y, = _call("ternary_linear", ((x.shape[:-1] + (weight.shape[0],), x.dtype),), x, weight)
    return y, (x, weight)


def _ternary_linear_backward(kept, dy):
    x, weight = kept
    return _call("ternary_linear_backward", ((x.shape, x.dtype), (weight.shape, jnp.float32)), x, weight, dy)


_ternary_linear.defvjp(_ternary_linear_forward, _ternary_linear_backward)


def ternary_linear(x, weight):
    """touchstone.ternary_linear for JAX: straight-through gradients of float32 weights, none of packed ones."""
    if isinstance(weight, TernaryWeight):
        codes, scales = jnp.asarray(weight.codes), jnp.asarray(weight.scales)
        return _call("ternary_linear_packed", ((x.shape[:-1] + (codes.shape[0],), x.dtype),),
                     jax.lax.stop_gradient(x), codes, scales)[0]
    return _ternary_linear(x, weight)
