# SPDX-License-Identifier: Apache-2.0
"""Touchstone for PyTorch: operators under torch.ops.touchstone with fake kernels and gradients, functions
and modules on top of them, and patch(), which puts them into a model.

The operators work with autograd, torch.compile (without graph breaks), CUDA graphs and opcheck. Gradients
of gradients are not offered: who asks for one gets an error."""
from __future__ import annotations

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import _ops
from ._native import function
from ._ops import TernaryWeight, TopK
from ._values import inside

_LIBRARY = torch.library.Library("touchstone", "DEF")


def _same(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _wide(x):
    return torch.float64 if x.dtype == torch.float64 else torch.float32


class _Guard(torch.autograd.Function):
    """Gradients as they are, and an error for who differentiates them. The links are the tensors they come from:
    without a path to these, autograd would leave this node out and miss the second derivative silently."""

    @staticmethod
    def forward(name, n, *grads_and_links):
        return tuple(g.clone() for g in grads_and_links[:n])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.name = inputs[0]

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError("touchstone.%s: second derivatives are not offered" % ctx.name)


def _once(name, backward):
    """A gradient that cannot be differentiated again."""
    def guarded(ctx, *douts):
        if not torch.is_grad_enabled():  # nobody keeps a graph of this pass
            return backward(ctx, *douts)
        with torch.no_grad():
            found = backward(ctx, *douts)
        found = list(found) if isinstance(found, tuple) else [found]
        places = [i for i, g in enumerate(found) if g is not None]
        links = [t for t in (*douts, *ctx.saved_tensors) if t is not None and t.requires_grad]
        for i, g in zip(places, _Guard.apply(name, len(places), *(found[i] for i in places), *links)):
            found[i] = g
        return tuple(found)
    return guarded


class _Operator:
    """An operator, and a shorter way past the dispatcher for plain tensors that nothing watches."""

    def __init__(self, op, run, backward, setup):
        self.op, self.run, self.apply = op, run, None
        if backward is None:
            return

        class Direct(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                output = run(*inputs)
                setup(ctx, inputs, output)
                return output

            @staticmethod
            def backward(ctx, *grads):
                return backward(ctx, *grads)

        self.apply = Direct.apply

    def __call__(self, *args):
        if torch.compiler.is_compiling() or _modes() or _transforms():
            return self.op(*args)
        need = False
        for a in args:
            if isinstance(a, Tensor):
                if type(a) is not Tensor and type(a) is not nn.Parameter:
                    return self.op(*args)
                need = need or a.requires_grad
        if need and torch.is_grad_enabled():
            return self.op(*args) if self.apply is None else self.apply(*args)
        return self.run(*args)


def _unwatched(*tensors):
    """Whether neither autograd nor a compiler nor a mode sees these tensors: statistics are then not kept."""
    if torch.compiler.is_compiling() or _modes() or _transforms():
        return False
    grad = torch.is_grad_enabled()
    for t in tensors:
        if t is not None and (type(t) is not Tensor and type(t) is not nn.Parameter or grad and t.requires_grad):
            return False
    return True


_modes, _transforms = torch._C._len_torch_dispatch_stack, torch._C._are_functorch_transforms_active


def _define(schema, run, fake, backward=None, setup=None):
    """An operator: its kernel for both devices, its fake, and its gradient."""
    name = schema.split("(")[0]
    _LIBRARY.define(schema, tags=torch.Tag.pt2_compliant_tag)
    for key in ("CPU", "CUDA"):
        _LIBRARY.impl(name, run, key)
    torch.library.register_fake("touchstone::" + name, fake, lib=_LIBRARY)
    if backward is not None:
        backward = _once(name, backward)
        torch.library.register_autograd("touchstone::" + name, backward, setup_context=setup, lib=_LIBRARY)
    return _Operator(getattr(torch.ops.touchstone, name).default, run, backward, setup)


def _dense(*tensors):
    for t in tensors:
        if t is not None and not t.is_contiguous():
            return [None if t is None else t.contiguous() for t in tensors]
    return tensors


# ---- layer norm ----

_layer_norm_c, _layer_norm_backward_c = function("layer_norm"), function("layer_norm_backward")


def _layer_norm_fake(x, weight, bias, eps):
    rows = x.shape[:-1]
    return (_same(x), x.new_empty(rows, dtype=_wide(x)),
            x.new_empty(rows, dtype=_wide(x)))


def _layer_norm_run(x, weight, bias, eps):
    x, weight, bias = _dense(x, weight, bias)
    out = _layer_norm_fake(x, weight, bias, eps)
    _layer_norm_c(x, weight, bias, eps, *out)
    return out


def _layer_norm_backward_fake(x, dout, weight, mean, rstd):
    return (_same(x), x.new_empty(weight.shape, dtype=_wide(x)),
            x.new_empty(weight.shape, dtype=_wide(x)))


def _layer_norm_backward_run(x, dout, weight, mean, rstd):
    x, dout, weight, mean, rstd = _dense(x, dout, weight, mean, rstd)
    out = _layer_norm_backward_fake(x, dout, weight, mean, rstd)
    _layer_norm_backward_c(x, dout, weight, mean, rstd, *out)
    return out


_layer_norm_backward = _define("layer_norm_backward(Tensor x, Tensor dout, Tensor weight, Tensor mean, Tensor rstd) "
                               "-> (Tensor, Tensor, Tensor)", _layer_norm_backward_run, _layer_norm_backward_fake)


def _layer_norm_setup(ctx, inputs, output):
    x, weight, bias, eps = inputs
    ctx.mark_non_differentiable(output[1], output[2])
    ctx.save_for_backward(x, weight, output[1], output[2])
    ctx.bias_dtype = bias.dtype


def _layer_norm_grad(ctx, dout, dmean, drstd):
    x, weight, mean, rstd = ctx.saved_tensors
    dx, dweight, dbias = _layer_norm_backward(x, dout, weight, mean, rstd)
    return dx, dweight.to(weight.dtype), dbias.to(ctx.bias_dtype), None


_layer_norm = _define("layer_norm(Tensor x, Tensor weight, Tensor bias, float eps) -> (Tensor, Tensor, Tensor)",
                      _layer_norm_run, _layer_norm_fake, _layer_norm_grad, _layer_norm_setup)


def _gain(v, fill, x):
    if v is None:
        return torch.full((x.shape[-1],), fill, dtype=x.dtype, device=x.device)
    return v if v.dtype == x.dtype else v.to(x.dtype)


def layer_norm(x: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, *,
               eps: float = 1e-5) -> Tensor:
    """touchstone.layer_norm through torch's dispatcher. weight and bias are cast to x's dtype."""
    if _unwatched(x, weight, bias) and (weight is None or weight.dtype == x.dtype):
        return _ops.layer_norm(x, weight, bias, eps=eps)
    return _layer_norm(x, _gain(weight, 1.0, x), _gain(bias, 0.0, x), eps)[0]


# ---- RMS norm ----

_rms_norm_c, _rms_norm_backward_c = function("rms_norm"), function("rms_norm_backward")


def _rms_norm_fake(x, residual, weight, eps, weight_offset):
    total = (0,) if residual is None else x.shape
    return (_same(x), x.new_empty(total, dtype=x.dtype),
            x.new_empty(x.shape[:-1], dtype=_wide(x)))


def _rms_norm_run(x, residual, weight, eps, weight_offset):
    x, residual, weight = _dense(x, residual, weight)
    out = _rms_norm_fake(x, residual, weight, eps, weight_offset)
    _rms_norm_c(x, residual, weight, eps, weight_offset, *out)
    return out


def _rms_norm_backward_fake(total, dout, dtotal, weight, rstd, weight_offset):
    return (_same(total),
            total.new_empty(weight.shape, dtype=_wide(total)))


def _rms_norm_backward_run(total, dout, dtotal, weight, rstd, weight_offset):
    total, dout, dtotal, weight, rstd = _dense(total, dout, dtotal, weight, rstd)
    out = _rms_norm_backward_fake(total, dout, dtotal, weight, rstd, weight_offset)
    _rms_norm_backward_c(total, dout, dtotal, weight, rstd, weight_offset, *out)
    return out


_rms_norm_backward = _define("rms_norm_backward(Tensor total, Tensor dout, Tensor? dtotal, Tensor weight, Tensor rstd, "
                             "int weight_offset) -> (Tensor, Tensor)", _rms_norm_backward_run, _rms_norm_backward_fake)


def _rms_norm_setup(ctx, inputs, output):
    x, residual, weight, eps, ctx.weight_offset = inputs
    ctx.has_residual = residual is not None
    ctx.mark_non_differentiable(*(output[2:] if ctx.has_residual else output[1:]))
    ctx.save_for_backward(output[1] if ctx.has_residual else x, weight, output[2])


def _rms_norm_grad(ctx, dout, dtotal, drstd):
    total, weight, rstd = ctx.saved_tensors
    dx, dweight = _rms_norm_backward(total, dout, dtotal if ctx.has_residual else None, weight, rstd,
                                     ctx.weight_offset)
    return dx, dx.clone() if ctx.has_residual else None, dweight.to(weight.dtype), None, None


_rms_norm = _define("rms_norm(Tensor x, Tensor? residual, Tensor weight, float eps, int weight_offset) "
                    "-> (Tensor, Tensor, Tensor)", _rms_norm_run, _rms_norm_fake, _rms_norm_grad, _rms_norm_setup)


def rms_norm(x: Tensor, weight: Optional[Tensor] = None, residual: Optional[Tensor] = None, *, eps: float = 1e-6,
             weight_offset: int = 0):
    """touchstone.rms_norm through torch's dispatcher: the result, or (result, x + residual). A residual of
    another dtype, as autocast leaves it, is added in the wider one."""
    if residual is not None and residual.dtype != x.dtype:
        dtype = torch.promote_types(residual.dtype, x.dtype)
        x, residual = x.to(dtype), residual.to(dtype)
    if _unwatched(x, weight, residual) and (weight is None or weight.dtype == x.dtype):
        return _ops.rms_norm(x, weight, residual, eps=eps, weight_offset=weight_offset)
    y, total, _ = _rms_norm(x, residual, _gain(weight, 1.0 - weight_offset, x), eps, weight_offset)
    return y if residual is None else (y, total)


# ---- softmax and top-k: no gradients ----

_softmax_topk_c = function("softmax_topk")


def _softmax_topk_fake(logits, k, inv_temperature):
    rows = logits.shape[:-1]
    return (logits.new_empty((*rows, k), dtype=torch.float32),
            logits.new_empty((*rows, k), dtype=torch.int32),
            logits.new_empty(rows, dtype=torch.float32))


def _softmax_topk_run(logits, k, inv_temperature):
    out = _softmax_topk_fake(logits, k, inv_temperature)
    _softmax_topk_c(logits.contiguous(), inv_temperature, *out)
    return out


_softmax_topk = _define("softmax_topk(Tensor logits, int k, float inv_temperature) -> (Tensor, Tensor, Tensor)",
                        _softmax_topk_run, _softmax_topk_fake)


def softmax_topk(logits: Tensor, k: int, *, temperature: float = 1.0) -> TopK:
    """touchstone.softmax_topk through torch's dispatcher. The results have no gradient."""
    return TopK(*_softmax_topk(logits.detach(), k, 1.0 / temperature))


# ---- attention ----

_attention_c, _attention_backward_c = function("flash_attention"), function("flash_attention_backward")


def _attention_fake(q, k, v, kv_len, scale, causal, window, layout):
    heads, n = (q.shape[1], q.shape[2]) if layout == 0 else (q.shape[2], q.shape[1])
    return (_same(q),
            q.new_empty((q.shape[0], heads, n), dtype=_wide(q)))


def _attention_run(q, k, v, kv_len, scale, causal, window, layout):
    q, k, v, kv_len = _dense(q, k, v, kv_len)
    out = _attention_fake(q, k, v, kv_len, scale, causal, window, layout)
    _ops._explained("flash_attention", kv_len, k, layout, _attention_c, q, k, v, kv_len, scale, causal, window, layout,
                    *out)
    return out


def _attention_backward_fake(q, k, v, out, dout, lse, kv_len, scale, causal, window, layout):
    return tuple(_same(t) for t in (q, k, v))


def _attention_backward_run(q, k, v, out, dout, lse, kv_len, scale, causal, window, layout):
    q, k, v, out, dout, lse, kv_len = _dense(q, k, v, out, dout, lse, kv_len)
    grads = _attention_backward_fake(q, k, v, out, dout, lse, kv_len, scale, causal, window, layout)
    _attention_backward_c(q, k, v, out, dout, lse, kv_len, scale, causal, window, layout, *grads)
    return grads


_attention_backward = _define(
    "flash_attention_backward(Tensor q, Tensor k, Tensor v, Tensor out, Tensor dout, Tensor lse, Tensor? kv_len, "
    "float scale, bool causal, int window, int layout) -> (Tensor, Tensor, Tensor)",
    _attention_backward_run, _attention_backward_fake)


def _attention_setup(ctx, inputs, output):
    q, k, v, kv_len, *ctx.settings = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(q, k, v, output[0], output[1], kv_len)


def _attention_grad(ctx, dout, dlse):
    q, k, v, out, lse, kv_len = ctx.saved_tensors
    return (*_attention_backward(q, k, v, out, dout, lse, kv_len, *ctx.settings), None, None, None, None, None)


_attention = _define("flash_attention(Tensor q, Tensor k, Tensor v, Tensor? kv_len, float scale, bool causal, "
                     "int window, int layout) -> (Tensor, Tensor)",
                     _attention_run, _attention_fake, _attention_grad, _attention_setup)


def _autocast(*tensors):
    """As torch casts what goes into a matmul, where autocast is on."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(t.to(dtype) if t is not None and t.is_floating_point() and t.dtype != torch.float64 else t
                 for t in tensors)


def flash_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, window: int = 0,
                    kv_len: Optional[Tensor] = None, scale: Optional[float] = None, layout: str = "bhnd",
                    return_lse: bool = False):
    """touchstone.flash_attention through torch's dispatcher; the log-sum-exp has no gradient."""
    q, k, v = _autocast(q, k, v)
    scale, window, order = _ops._attention_settings("flash_attention", q, k, scale, causal, window, layout)
    out, lse = _attention(q, k, v, kv_len, scale, causal, window, order)
    return (out, lse) if return_lse else out


def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0,
              is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Tensor:
    """A drop-in for torch.nn.functional.scaled_dot_product_attention.

    It takes torch's own function where ours offers less: with a mask or dropout, heads above 256, values of
    another width, and is_causal with fewer keys than queries. torch's is_causal lets query i see keys 0 to i."""
    n_q, n_k, width = query.shape[-2], key.shape[-2], query.shape[-1]
    ours = (attn_mask is None and dropout_p == 0.0 and query.dim() == 4 and 0 < width <= 256
            and value.shape[-1] == width and not (is_causal and n_k < n_q)
            and (enable_gqa or query.shape[1] == key.shape[1]))
    if not ours:
        return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                                              enable_gqa=enable_gqa)
    if is_causal and n_k > n_q:
        key, value = key[..., :n_q, :], value[..., :n_q, :]
    return flash_attention(query, key, value, causal=is_causal, scale=scale)


# ---- cross-entropy: the gradient comes with the loss ----

_cross_entropy_c, _linear_cross_entropy_c = function("cross_entropy"), function("linear_cross_entropy")


def _cross_entropy_fake(logits, target, mean, ignore_index, smoothing, z_loss, softcap, with_grad):
    wide = _wide(logits)
    return (logits.new_empty((), dtype=wide), logits.new_empty(logits.shape[:-1], dtype=wide),
            logits.new_empty(logits.shape if with_grad else (0,), dtype=logits.dtype))


def _cross_entropy_run(logits, target, mean, ignore_index, smoothing, z_loss, softcap, with_grad):
    out = _cross_entropy_fake(logits, target, mean, ignore_index, smoothing, z_loss, softcap, with_grad)
    try:
        _cross_entropy_c(logits.contiguous(), target.to(torch.int32).contiguous(), mean, ignore_index, 1.0, smoothing,
                         z_loss, softcap, out[1], None, out[0], out[2] if with_grad else None)
    except ValueError:
        inside("cross_entropy", "target", target, 0, logits.shape[-1] - 1, ignore_index)
        raise
    return out


def _cross_entropy_setup(ctx, inputs, output):
    ctx.mark_non_differentiable(output[2])
    ctx.mean, ctx.with_grad = inputs[2], inputs[7]
    ctx.ignore_index = inputs[3]
    ctx.save_for_backward(output[2], inputs[1], *output[:2])  # the losses only as links to the logits


def _cross_entropy_grad(ctx, dtotal, dloss, _):
    grad, target = ctx.saved_tensors[:2]
    if not ctx.with_grad:
        raise RuntimeError("cross_entropy: got a backward pass, expected none, as with_grad was False")
    # of the total; and of single losses, which a mean has divided by the rows that count
    rows = dloss
    if ctx.mean:
        rows = dloss * (target != ctx.ignore_index).sum()
    dlogits = grad * (dtotal + rows).unsqueeze(-1).to(grad.dtype)
    return (dlogits,) + (None,) * 7


_cross_entropy = _define("cross_entropy(Tensor logits, Tensor target, bool mean, int ignore_index, float smoothing, "
                         "float z_loss, float softcap, bool with_grad) -> (Tensor, Tensor, Tensor)",
                         _cross_entropy_run, _cross_entropy_fake, _cross_entropy_grad, _cross_entropy_setup)


def _check_target(name, target):
    if target.dtype not in (torch.int32, torch.int64):
        raise TypeError("%s: target: got %s, expected dtype int64 or int32" % (name, target.dtype))
    return target


def cross_entropy(logits: Tensor, target: Tensor, *, reduction: str = "mean", ignore_index: int = -100,
                  label_smoothing: float = 0.0, z_loss: float = 0.0, softcap: float = 0.0) -> Tensor:
    """touchstone.cross_entropy through torch's dispatcher. The gradient is computed with the loss."""
    mean = _ops._reduction("cross_entropy", reduction)
    with_grad = logits.requires_grad and torch.is_grad_enabled()
    total, loss, _ = _cross_entropy(logits, _check_target("cross_entropy", target), mean, ignore_index,
                                    label_smoothing, z_loss, softcap, with_grad)
    return loss if reduction == "none" else total


def _linear_cross_entropy_fake(hidden, weight, bias, target, mean, ignore_index, smoothing, z_loss, softcap, with_grad):
    wide = _wide(hidden)
    return (hidden.new_empty((), dtype=wide), hidden.new_empty(hidden.shape[:-1], dtype=wide),
            hidden.new_empty(hidden.shape if with_grad else (0,), dtype=hidden.dtype),
            hidden.new_empty(weight.shape if with_grad else (0,), dtype=weight.dtype))


def _linear_cross_entropy_run(hidden, weight, bias, target, mean, ignore_index, smoothing, z_loss, softcap, with_grad):
    hidden, weight, bias = _dense(hidden, weight, bias)
    out = _linear_cross_entropy_fake(hidden, weight, bias, target, mean, ignore_index, smoothing, z_loss, softcap,
                                     with_grad)
    try:
        _linear_cross_entropy_c(hidden, weight, bias, target.to(torch.int32).contiguous(), mean, ignore_index, 1.0,
                                smoothing, z_loss, softcap, out[1], None, out[0],
                                *(out[2:] if with_grad else (None, None)))
    except ValueError:
        inside("linear_cross_entropy", "target", target, 0, weight.shape[0] - 1, ignore_index)
        raise
    return out


def _linear_cross_entropy_setup(ctx, inputs, output):
    ctx.mark_non_differentiable(*output[1:])
    ctx.with_grad, ctx.has_bias = inputs[9], inputs[2] is not None
    ctx.save_for_backward(output[2], output[3], output[0])  # the loss only as a link to hidden and weight


def _linear_cross_entropy_grad(ctx, dtotal, dloss, _, __):
    dhidden, dweight = ctx.saved_tensors[:2]
    if not ctx.with_grad:
        raise RuntimeError("linear_cross_entropy: got a backward pass, expected none, as with_grad was False")
    return (dhidden * dtotal.to(dhidden.dtype), dweight * dtotal.to(dweight.dtype)) + (None,) * 8


_linear_cross_entropy = _define(
    "linear_cross_entropy(Tensor hidden, Tensor weight, Tensor? bias, Tensor target, bool mean, int ignore_index, "
    "float smoothing, float z_loss, float softcap, bool with_grad) -> (Tensor, Tensor, Tensor, Tensor)",
    _linear_cross_entropy_run, _linear_cross_entropy_fake, _linear_cross_entropy_grad, _linear_cross_entropy_setup)


def linear_cross_entropy(hidden: Tensor, weight: Tensor, target: Tensor, bias: Optional[Tensor] = None, *,
                         reduction: str = "mean", ignore_index: int = -100, label_smoothing: float = 0.0,
                         z_loss: float = 0.0, softcap: float = 0.0) -> Tensor:
    """Cross-entropy of hidden weight' + bias without storing the logits; gradients come with the loss, for
    reduction "mean" and "sum". A bias that requires a gradient costs a copy of weight."""
    name = "linear_cross_entropy"
    mean = _ops._reduction(name, reduction)
    hidden, weight, bias = _autocast(hidden, weight, bias)
    grad = torch.is_grad_enabled()
    if grad and bias is not None and bias.requires_grad:  # as one more column of weight, of inputs 1
        hidden = torch.cat([hidden, torch.ones_like(hidden[..., :1])], -1)
        weight, bias = torch.cat([weight, bias.unsqueeze(-1)], -1), None
    with_grad = grad and (hidden.requires_grad or weight.requires_grad)
    if with_grad and reduction == "none":
        raise NotImplementedError("%s: reduction: got 'none' where gradients are recorded, expected 'mean' or 'sum'"
                                  % name)
    out = _linear_cross_entropy(hidden, weight, bias, _check_target(name, target), mean, ignore_index, label_smoothing,
                                z_loss, softcap, with_grad)
    return out[1] if reduction == "none" else out[0]


# ---- ternary ----

_ternary_c, _ternary_backward_c = function("ternary_linear"), function("ternary_linear_backward")
_ternary_packed_c = function("ternary_linear_packed")


def _ternary_fake(x, weight):
    return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=x.dtype)


def _ternary_run(x, weight):
    x, weight = _dense(x, weight)
    out = _ternary_fake(x, weight)
    _ternary_c(x, weight, out)
    return out


def _ternary_backward_fake(x, weight, dout):
    return _same(x), x.new_empty(weight.shape, dtype=torch.float32)


def _ternary_backward_run(x, weight, dout):
    x, weight, dout = _dense(x, weight, dout)
    out = _ternary_backward_fake(x, weight, dout)
    _ternary_backward_c(x, weight, dout, *out)
    return out


_ternary_backward = _define("ternary_linear_backward(Tensor x, Tensor weight, Tensor dout) -> (Tensor, Tensor)",
                            _ternary_backward_run, _ternary_backward_fake)


def _ternary_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _ternary_grad(ctx, dout):
    return _ternary_backward(*ctx.saved_tensors, dout)


_ternary = _define("ternary_linear(Tensor x, Tensor weight) -> Tensor", _ternary_run, _ternary_fake, _ternary_grad,
                   _ternary_setup)


def _ternary_packed_fake(x, codes, scales):
    return x.new_empty((*x.shape[:-1], codes.shape[0]), dtype=x.dtype)


def _ternary_packed_run(x, codes, scales):
    x, codes, scales = _dense(x, codes, scales)
    out = _ternary_packed_fake(x, codes, scales)
    _ternary_packed_c(x, codes, scales, out)
    return out


_ternary_packed = _define("ternary_linear_packed(Tensor x, Tensor codes, Tensor scales) -> Tensor",
                          _ternary_packed_run, _ternary_packed_fake)


def ternary_linear(x: Tensor, weight) -> Tensor:
    """touchstone.ternary_linear through torch's dispatcher. The gradient of float32 weights goes straight
    through the rounding; packed weights have none."""
    if isinstance(weight, TernaryWeight):
        return _ternary_packed(x.detach(), weight.codes, weight.scales)
    return _ternary(x, weight)


from ._torch_modules import LayerNorm, LinearCrossEntropy, RMSNorm, TernaryLinear, patch  # noqa: E402

__all__ = ["LayerNorm", "LinearCrossEntropy", "RMSNorm", "TernaryLinear", "attention", "cross_entropy",
           "flash_attention", "layer_norm", "linear_cross_entropy", "patch", "rms_norm", "softmax_topk", "ternary_linear"]
