# SPDX-License-Identifier: Apache-2.0
"""The functions of the package that are one call of a kernel.

Arrays may be of NumPy, PyTorch, JAX or CuPy. Outputs are allocated like the first input, or are those
given as `out`. Inputs that are not contiguous are copied; outputs must be contiguous. Calls on CUDA run
on the caller's current stream and do not wait. Where PyTorch's autograd or a compiler watches, or the
arrays are JAX's, the call goes to touchstone.torch or touchstone.jax."""
from __future__ import annotations

import importlib
import math
import sys
from typing import Any, NamedTuple, Optional, Tuple, Union

from ._arrays import check_out, kinds, kind_of, like, output, same_kind, wide
from ._native import function
from ._values import epsilon, inside, integer, loss_settings, number

Array = Any
_layer_norm = function("layer_norm")
_rms_norm = function("rms_norm")
_softmax_topk = function("softmax_topk")
_flash_attention = function("flash_attention")
_flash_attention_fp8 = function("flash_attention_fp8")
_cross_entropy = function("cross_entropy")
_linear_cross_entropy = function("linear_cross_entropy")
_ternary_pack = function("ternary_pack")
_ternary_unpack = function("ternary_unpack")
_ternary_linear = function("ternary_linear")
_ternary_linear_packed = function("ternary_linear_packed")

_LAYOUTS = {"bhnd": 0, "bnhd": 1}
_REDUCTIONS = ("mean", "sum", "none")


class TopK(NamedTuple):
    """What softmax_topk returns."""

    values: Array  #: float32 [..., k]: probabilities over the whole row
    indices: Array  #: int32 [..., k]
    lse: Array  #: float32 [...]: log-sum-exp of the row


class TernaryWeight(NamedTuple):
    """A packed ternary matrix: 2.125 bits per weight."""

    codes: Array  #: uint8 [n_out, 32 ceil(n_in / 128)]
    scales: Array  #: float16 [n_out, ceil(n_in / 128)]
    n_in: int


def _traced(kind, name, *tensors):
    """The framework's own version of a function, where it must be used; else None."""
    if not kind.needs_graph(*tensors):
        return None
    there = sys.modules.get(kind.module)
    return getattr(there if there is not None else importlib.import_module(kind.module), name)


def _no_out(name, out):
    if out is not None:
        raise ValueError("%s: out: got an array, expected None where gradients are recorded, in compiled "
                         "code and for JAX" % name)


def _vector(kind, function_name, fill, x):
    _axes(function_name, "x", x, 1)
    return kind.full((x.shape[-1],), fill, kind.dtype(x), x)


def _axes(function_name, name, x, least):
    if len(x.shape) < least:
        raise ValueError("%s: %s: got %d axes, expected at least %d" % (function_name, name, len(x.shape), least))


def layer_norm(x: Array, weight: Optional[Array] = None, bias: Optional[Array] = None, *,
               eps: float = 1e-5, out: Optional[Array] = None) -> Array:
    """Layer normalisation over the last axis: (x - mean) / sqrt(variance + eps) * weight + bias.

    weight and bias have the shape [x.shape[-1]] and x's dtype; None stands for ones and zeros."""
    kind = kinds.get(type(x)) or kind_of("layer_norm", "x", x)
    if weight is not None and bias is not None and (out is None or type(out) is type(x)) and kind.plain(
            x, weight, bias):
        try:  # the usual call, in little time: the kernel looks at the arrays
            result = kind.like(x) if out is None else out
            _layer_norm(x, weight, bias, eps, result, None, None)
            return result
        except (TypeError, ValueError, BufferError, RuntimeError):
            pass  # the rest of this function fixes it, or raises with its reason
    epsilon("layer_norm", eps)
    traced = _traced(kind, "layer_norm", x, weight, bias)
    if traced is not None:
        _no_out("layer_norm", out)
        return traced(x, weight, bias, eps=eps)
    if weight is None:
        weight = _vector(kind, "layer_norm", 1, x)
    if bias is None:
        bias = _vector(kind, "layer_norm", 0, x)
    x, weight, bias = kind.inputs("layer_norm", ("x", "weight", "bias"), x, weight, bias)
    out = like("layer_norm", kind, out, x)
    kind.call(_layer_norm, x, weight, bias, eps, out, None, None)
    return out


def rms_norm(x: Array, weight: Optional[Array] = None, residual: Optional[Array] = None, *,
             eps: float = 1e-6, weight_offset: int = 0, out: Optional[Array] = None,
             residual_out: Optional[Array] = None) -> Union[Array, Tuple[Array, Array]]:
    """RMS normalisation over the last axis: r / sqrt(mean(r^2) + eps) * (weight + weight_offset).

    Without a residual r is x, and the result is returned. With one, r = x + residual, and (result, r)
    is returned: r is what the next layer adds to. weight_offset 1 is Gemma's convention."""
    kind = kinds.get(type(x)) or kind_of("rms_norm", "x", x)
    epsilon("rms_norm", eps)
    weight_offset = integer("rms_norm", "weight_offset", weight_offset, 0, 1)
    traced = _traced(kind, "rms_norm", x, weight, residual)
    if traced is not None:
        _no_out("rms_norm", out)
        _no_out("rms_norm", residual_out)
        return traced(x, weight, residual, eps=eps, weight_offset=weight_offset)
    if weight is None:
        weight = _vector(kind, "rms_norm", 1 - weight_offset, x)
    x, weight, residual = kind.inputs("rms_norm", ("x", "weight", "residual"), x, weight, residual)
    out = like("rms_norm", kind, out, x)
    if residual is None:
        if residual_out is not None:
            raise ValueError("rms_norm: residual_out: got an array, expected None without a residual")
        kind.call(_rms_norm, x, None, weight, eps, weight_offset, out, None, None)
        return out
    total = output("rms_norm", "residual_out", kind, residual_out, x.shape, kind.dtype(x), x)
    kind.call(_rms_norm, x, residual, weight, eps, weight_offset, out, total, None)
    return out, total


def softmax_topk(logits: Array, k: int, *, temperature: float = 1.0,
                 out: Optional[Tuple[Array, Array, Array]] = None) -> TopK:
    """The k most probable entries of each row of logits: probabilities of softmax(logits / temperature)
    over the whole row, indices, and the row's log-sum-exp. Larger logits come first, of equal ones the
    lower index. Rows may hold -inf."""
    kind = kinds.get(type(logits)) or kind_of("softmax_topk", "logits", logits)
    k = integer("softmax_topk", "k", k)
    number("softmax_topk", "temperature", temperature, 0, open_left=True)
    traced = _traced(kind, "softmax_topk", logits)
    if traced is not None:
        _no_out("softmax_topk", out)
        return traced(logits, k, temperature=temperature)
    _axes("softmax_topk", "logits", logits, 1)
    logits, = kind.inputs("softmax_topk", ("logits",), logits)
    rows = tuple(logits.shape[:-1])
    if out is None:
        try:
            values = kind.empty(rows + (k,), "float32", logits)
            indices = kind.empty(rows + (k,), "int32", logits)
        except (MemoryError, ValueError):
            raise MemoryError("softmax_topk: k: got %d, for which there is not enough memory" % k) from None
        lse = kind.empty(rows, "float32", logits)
    else:
        values, indices, lse = out
        if values.shape[-1:] != (k,) or not type(values) is type(indices) is type(lse) is type(logits):
            check_out("softmax_topk", "out[0]", kind, values, rows + (k,), "float32")  # the rest is checked in C
            check_out("softmax_topk", "out[1]", kind, indices, rows + (k,), "int32")
            check_out("softmax_topk", "out[2]", kind, lse, rows, "float32")
    kind.call(_softmax_topk, logits, 1.0 / temperature, values, indices, lse)
    return TopK(values, indices, lse)


def _attention_settings(name, q, k, scale, causal, window, layout):
    if layout not in _LAYOUTS:
        raise ValueError("%s: layout: got %r, expected 'bhnd' or 'bnhd'" % (name, layout))
    if len(q.shape) != 4:
        raise ValueError("%s: q: got %d axes, expected 4: %s" % (name, len(q.shape), layout))
    if q.shape[3] > 256:
        raise ValueError("%s: q: got heads of width %d, expected at most 256" % (name, q.shape[3]))
    axis = 1 if layout == "bhnd" else 2
    if len(k.shape) == 4 and k.shape[axis] > 0 and q.shape[axis] % k.shape[axis]:
        raise ValueError("%s: q: got %d heads, expected a multiple of k's, %d" % (name, q.shape[axis], k.shape[axis]))
    window = 0 if window is None else integer(name, "window", window)
    if window and not causal:
        raise ValueError("%s: window: got %d without causal, expected 0, or causal=True" % (name, window))
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[3]) if q.shape[3] else 1.0
    return float(scale), window, _LAYOUTS[layout]


def _explained(name, kv_len, k, order, call, *arguments):
    """A call of attention; a length that it rejects is named. Lengths are not read before: this costs nothing."""
    try:
        call(*arguments)
    except ValueError:
        inside(name, "kv_len", kv_len, 0, k.shape[2 if order == 0 else 1])
        raise


def flash_attention(q: Array, k: Array, v: Array, *, causal: bool = False, window: int = 0,
                    kv_len: Optional[Array] = None, scale: Optional[float] = None,
                    layout: str = "bhnd", return_lse: bool = False,
                    out: Optional[Array] = None) -> Union[Array, Tuple[Array, Array]]:
    """Exact attention in memory that grows with the length: softmax(scale q k') v.

    layout "bhnd" (default): q is [batch, heads, n_q, head_dim], k and v [batch, kv_heads, n_k, head_dim],
    all of one dtype, where heads is a multiple of kv_heads and head_dim is 1 to 256; "bnhd" exchanges the
    two middle axes. The result has q's shape and dtype. causal (False): the last query meets the last key.
    window (0: no limit), only with causal: a query sees that many keys. kv_len (None: all): int32 [batch],
    0 to n_k; keys at or past it are not seen. scale (None): 1 / sqrt(head_dim). return_lse (False): also the
    log-sum-exp of each query's scores, float32 (float64 for doubles) [batch, heads, n_q]."""
    kind = kinds.get(type(q)) or kind_of("flash_attention", "q", q)
    kind_of("flash_attention", "k", k)
    scale, window, order = _attention_settings("flash_attention", q, k, scale, causal, window, layout)
    traced = _traced(kind, "flash_attention", q, k, v)
    if traced is not None:
        _no_out("flash_attention", out)
        return traced(q, k, v, causal=causal, window=window, kv_len=kv_len, scale=scale, layout=layout,
                      return_lse=return_lse)
    q, k, v, kv_len = kind.inputs("flash_attention", ("q", "k", "v", "kv_len"), q, k, v, kv_len)
    out = like("flash_attention", kind, out, q)
    lse = None
    if return_lse:
        heads, n_q = (q.shape[1], q.shape[2]) if order == 0 else (q.shape[2], q.shape[1])
        lse = kind.empty((q.shape[0], heads, n_q), wide(kind.dtype(q)), q)
    _explained("flash_attention", kv_len, k, order, kind.call, _flash_attention, q, k, v, kv_len, scale, bool(causal),
               window, order, out, lse)
    return (out, lse) if return_lse else out


def _codes(name, x):
    """Arrays of float8_e4m3fn as their bytes."""
    dtype = str(getattr(x, "dtype", None))
    if dtype not in ("float8_e4m3fn", "torch.float8_e4m3fn", "uint8", "torch.uint8"):
        raise TypeError("flash_attention_fp8: %s: got %s, expected float8_e4m3fn or uint8" % (name, dtype))
    return x.view(sys.modules["torch"].uint8 if dtype.startswith("torch.") else "uint8")


def flash_attention_fp8(q: Array, k: Array, v: Array, q_scale: Array, k_scale: Array, v_scale: Array, *,
                        causal: bool = False, window: int = 0, kv_len: Optional[Array] = None,
                        scale: Optional[float] = None, layout: str = "bhnd", return_lse: bool = False,
                        dtype: str = "float32", out: Optional[Array] = None) -> Union[Array, Tuple[Array, Array]]:
    """flash_attention of q, k and v in 8 bits: float8_e4m3fn, or uint8 with their codes.

    A code stands for its value times the float32 scale of its batch and head: q_scale [batch, heads],
    k_scale and v_scale [batch, kv_heads]. The result has `dtype`: float32, float16 or bfloat16. No
    gradient, and no version for JAX or for compiled functions."""
    q, k, v = _codes("q", q), _codes("k", k), _codes("v", v)
    kind = kinds.get(type(q)) or kind_of("flash_attention_fp8", "q", q)
    if kind.needs_graph(q, k, v):
        raise TypeError("flash_attention_fp8: got arrays that are traced, expected NumPy, PyTorch or CuPy arrays")
    scale, window, order = _attention_settings("flash_attention_fp8", q, k, scale, causal, window, layout)
    names = ("q", "k", "v", "q_scale", "k_scale", "v_scale", "kv_len")
    q, k, v, q_scale, k_scale, v_scale, kv_len = kind.inputs("flash_attention_fp8", names, q, k, v, q_scale, k_scale,
                                                             v_scale, kv_len)
    out = kind.empty(q.shape, dtype, q) if out is None else out
    lse = None
    if return_lse:
        heads, n_q = (q.shape[1], q.shape[2]) if order == 0 else (q.shape[2], q.shape[1])
        lse = kind.empty((q.shape[0], heads, n_q), "float32", q)
    _explained("flash_attention_fp8", kv_len, k, order, kind.call, _flash_attention_fp8, q, k, v, q_scale, k_scale,
               v_scale, kv_len, scale, bool(causal), window, order, out, lse)
    return (out, lse) if return_lse else out


def _reduction(name, reduction):
    if reduction not in _REDUCTIONS:
        raise ValueError("%s: reduction: got %r, expected 'mean', 'sum' or 'none'" % (name, reduction))
    return reduction == "mean"


def _indices(kind, name, target):
    if kind_of(name, "target", target) is not kind:
        same_kind(name, kind, target=target)
    if kind.dtype(target) not in ("int32", "int64"):
        raise TypeError("%s: target: got %s, expected dtype int64 or int32" % (name, kind.dtype(target)))
    return kind.cast(target, "int32")


def cross_entropy(logits: Array, target: Array, *, reduction: str = "mean", ignore_index: int = -100,
                  label_smoothing: float = 0.0, z_loss: float = 0.0, softcap: float = 0.0,
                  return_grad: bool = False, out: Optional[Array] = None) -> Union[Array, Tuple[Array, Array]]:
    """Cross-entropy of logits [..., vocab] and targets [...] (int64 or int32).

    Rows whose target is ignore_index count for nothing. reduction: "mean" over counted rows, "sum", or
    "none" for a loss per row. softcap > 0: logits become softcap tanh(logits / softcap). z_loss adds
    z_loss lse^2. return_grad: also the gradient of the mean or sum with respect to the logits."""
    kind = kind_of("cross_entropy", "logits", logits)
    mean = _reduction("cross_entropy", reduction)
    ignore_index = integer("cross_entropy", "ignore_index", ignore_index, -2**31)
    loss_settings("cross_entropy", label_smoothing, z_loss, softcap)
    traced = _traced(kind, "cross_entropy", logits)
    if traced is not None:
        _no_out("cross_entropy", out)
        return traced(logits, target, reduction=reduction, ignore_index=ignore_index,
                      label_smoothing=label_smoothing, z_loss=z_loss, softcap=softcap)
    _axes("cross_entropy", "logits", logits, 1)
    logits, = same_kind("cross_entropy", kind, logits=logits)
    target = _indices(kind, "cross_entropy", target)
    dtype = wide(kind.dtype(logits))
    per_row = reduction == "none"
    out = output("cross_entropy", "out", kind, out, tuple(logits.shape[:-1]) if per_row else (), dtype, logits)
    grad = kind.empty(logits.shape, kind.dtype(logits), logits) if return_grad else None
    try:
        kind.call(_cross_entropy, logits, target, mean, ignore_index, 1.0, label_smoothing, z_loss, softcap,
                  out if per_row else None, None, None if per_row else out, grad)
    except ValueError:
        if tuple(target.shape) == tuple(logits.shape[:-1]):
            inside("cross_entropy", "target", target, 0, logits.shape[-1] - 1, ignore_index)
        raise
    return (out, grad) if return_grad else out


def linear_cross_entropy(hidden: Array, weight: Array, target: Array, bias: Optional[Array] = None, *,
                         reduction: str = "mean", ignore_index: int = -100, label_smoothing: float = 0.0,
                         z_loss: float = 0.0, softcap: float = 0.0, return_grad: bool = False,
                         out: Optional[Array] = None) -> Union[Array, Tuple[Array, Array, Array]]:
    """Cross-entropy of the logits hidden weight' + bias, which are never stored whole.

    hidden is [..., n_hidden], weight [vocab, n_hidden]. return_grad: also the gradients of the mean or
    sum with respect to hidden and weight. The rest is as for cross_entropy."""
    name = "linear_cross_entropy"
    kind = kind_of(name, "hidden", hidden)
    mean = _reduction(name, reduction)
    ignore_index = integer(name, "ignore_index", ignore_index, -2**31)
    loss_settings(name, label_smoothing, z_loss, softcap)
    traced = _traced(kind, name, hidden, weight, bias)
    if traced is not None:
        _no_out(name, out)
        return traced(hidden, weight, target, bias, reduction=reduction, ignore_index=ignore_index,
                      label_smoothing=label_smoothing, z_loss=z_loss, softcap=softcap)
    _axes(name, "hidden", hidden, 1)
    hidden, weight, bias = same_kind(name, kind, hidden=hidden, weight=weight, bias=bias)
    target = _indices(kind, name, target)
    dtype = wide(kind.dtype(hidden))
    per_row = reduction == "none"
    out = output(name, "out", kind, out, tuple(hidden.shape[:-1]) if per_row else (), dtype, hidden)
    dh = kind.empty(hidden.shape, kind.dtype(hidden), hidden) if return_grad else None
    dw = kind.empty(weight.shape, kind.dtype(weight), weight) if return_grad else None
    try:
        kind.call(_linear_cross_entropy, hidden, weight, bias, target, mean, ignore_index, 1.0, label_smoothing,
                  z_loss, softcap, out if per_row else None, None, None if per_row else out, dh, dw)
    except ValueError:
        if tuple(target.shape) == tuple(hidden.shape[:-1]):
            inside(name, "target", target, 0, weight.shape[0] - 1, ignore_index)
        raise
    return (out, dh, dw) if return_grad else out


def ternary_pack(weight: Array, *, out: Optional[Tuple[Array, Array]] = None) -> TernaryWeight:
    """Packs float32 weights [n_out, n_in] into codes -1, 0, +1 with a scale per 128 inputs."""
    kind = kind_of("ternary_pack", "weight", weight)
    weight, = same_kind("ternary_pack", kind, weight=weight)
    if len(weight.shape) != 2:
        raise ValueError("ternary_pack: weight: got %d axes, expected 2" % len(weight.shape))
    n_out, n_in = weight.shape
    groups = (n_in + 127) // 128
    codes, scales = out if out is not None else (None, None)
    codes = output("ternary_pack", "out[0]", kind, codes, (n_out, 32 * groups), "uint8", weight)
    scales = output("ternary_pack", "out[1]", kind, scales, (n_out, groups), "float16", weight)
    kind.call(_ternary_pack, weight, codes, scales)
    return TernaryWeight(codes, scales, int(n_in))


def _packed(name, weight):
    if not isinstance(weight, TernaryWeight):
        raise TypeError("%s: weight: got %s, expected a TernaryWeight, which ternary_pack makes"
                        % (name, type(weight).__name__))
    return weight


def ternary_unpack(weight: TernaryWeight, *, out: Optional[Array] = None) -> Array:
    """The float32 weights -s, 0, +s that packed ones stand for."""
    codes, scales, n_in = _packed("ternary_unpack", weight)
    kind = kind_of("ternary_unpack", "weight", codes)
    codes, scales = same_kind("ternary_unpack", kind, codes=codes, scales=scales)
    out = output("ternary_unpack", "out", kind, out, (codes.shape[0], n_in), "float32", codes)
    kind.call(_ternary_unpack, codes, scales, out)
    return out


def ternary_linear(x: Array, weight: Union[Array, TernaryWeight], *, out: Optional[Array] = None) -> Array:
    """x [..., n_in] times the transpose of a ternary matrix [n_out, n_in]: from a TernaryWeight, or from
    float32 weights that are made ternary on the way. Both give the same bits."""
    kind = kind_of("ternary_linear", "x", x)
    packed = isinstance(weight, TernaryWeight)
    traced = _traced(kind, "ternary_linear", x, *(() if packed else (weight,)))
    if traced is not None:
        _no_out("ternary_linear", out)
        return traced(x, weight)
    _axes("ternary_linear", "x", x, 1)
    if packed:
        x, codes, scales = same_kind("ternary_linear", kind, x=x, codes=weight.codes, scales=weight.scales)
        n_out = codes.shape[0]
    else:
        x, weight = same_kind("ternary_linear", kind, x=x, weight=weight)
        n_out = weight.shape[0] if len(weight.shape) else 0
    out = output("ternary_linear", "out", kind, out, tuple(x.shape[:-1]) + (n_out,), kind.dtype(x), x)
    if packed:
        kind.call(_ternary_linear_packed, x, codes, scales, out)
    else:
        kind.call(_ternary_linear, x, weight, out)
    return out


def set_num_threads(n: int) -> int:
    """Threads of CPU calls; 0: as many as OpenMP would take. Returns the setting before."""
    return function("set_threads")(integer("set_num_threads", "n", n, 0, 4096))


def set_deterministic(on: bool) -> bool:
    """True: equal inputs give bitwise identical outputs for any number of threads. Returns the old setting."""
    return bool(function("set_deterministic")(on))


def cuda_unavailable_reason() -> Optional[str]:
    """None where calls on CUDA arrays can run, else why they cannot."""
    why = function("cuda_unavailable")()
    return None if why is None else str(why)
