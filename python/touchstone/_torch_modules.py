# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch on Touchstone's operators, and patch(), which puts them into a model."""
from __future__ import annotations

import math
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import _ops
from ._ops import TernaryWeight
from .torch import cross_entropy, flash_attention, layer_norm, linear_cross_entropy, rms_norm, ternary_linear


class LayerNorm(nn.LayerNorm):
    """torch.nn.LayerNorm over the last axis, by touchstone.torch.layer_norm."""

    def __init__(self, normalized_shape, *args, **kwargs):
        super().__init__(normalized_shape, *args, **kwargs)
        if len(self.normalized_shape) != 1:
            raise ValueError("LayerNorm: normalized_shape: got %s, expected one extent" % (self.normalized_shape,))

    def forward(self, x):
        return layer_norm(x, self.weight, self.bias, eps=self.eps)


class RMSNorm(nn.Module):
    """RMS normalisation over the last axis. With a residual, forward returns (result, x + residual)."""

    def __init__(self, dim: int, eps: float = 1e-6, *, weight_offset: int = 0, device=None, dtype=None):
        super().__init__()
        self.eps, self.weight_offset = eps, weight_offset
        self.weight = nn.Parameter(torch.full((dim,), 1.0 - weight_offset, device=device, dtype=dtype))

    def forward(self, x, residual: Optional[Tensor] = None):
        return rms_norm(x, self.weight, residual, eps=self.eps, weight_offset=self.weight_offset)

    def extra_repr(self):
        return "%d, eps=%g" % (self.weight.shape[0], self.eps)


class LinearCrossEntropy(nn.Module):
    """The output matrix of a language model together with its loss: forward(hidden, target)."""

    def __init__(self, n_hidden: int, n_vocab: int, *, device=None, dtype=None, **options):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_vocab, n_hidden, device=device, dtype=dtype))
        nn.init.normal_(self.weight, std=1 / math.sqrt(n_hidden))
        self.options = options

    def forward(self, hidden, target):
        return linear_cross_entropy(hidden, self.weight, target, **self.options)


class TernaryLinear(nn.Module):
    """A linear layer whose weights are -s, 0 or +s: trained from float32 latents, packed for inference.

    eval() with pack() keeps 2.125 bits per weight and drops the latents."""

    def __init__(self, in_features: int, out_features: int, *, device=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.register_buffer("codes", None)
        self.register_buffer("scales", None)

    def pack(self) -> "TernaryLinear":
        """Packs the weights and frees the latents; there is no training afterwards."""
        if self.weight is not None:
            self.codes, self.scales, _ = _ops.ternary_pack(self.weight.detach())
            self.weight = None
        return self

    def forward(self, x):
        if self.weight is None:
            return ternary_linear(x, TernaryWeight(self.codes, self.scales, self.in_features))
        return ternary_linear(x, self.weight)

    def extra_repr(self):
        return "in_features=%d, out_features=%d%s" % (self.in_features, self.out_features,
                                                      ", packed" if self.weight is None else "")


# ---- patch ----


class _PatchedRMSNorm(nn.Module):
    """An RMSNorm of a model of Hugging Face's, with its own weight; x is normalised in its dtype."""

    def __init__(self, weight, eps, offset):
        super().__init__()
        self.weight, self.variance_epsilon, self.weight_offset = weight, eps, offset

    def forward(self, hidden_states):
        return rms_norm(hidden_states, self.weight, eps=self.variance_epsilon, weight_offset=self.weight_offset)


def _patched(module):
    """What takes a module's place; None: it stays."""
    kind = type(module).__name__
    if type(module) is nn.LayerNorm and len(module.normalized_shape) == 1:
        new = LayerNorm(module.normalized_shape, eps=module.eps, elementwise_affine=False)
        new.elementwise_affine, new.weight, new.bias = module.elementwise_affine, module.weight, module.bias
        return new
    weight = getattr(module, "weight", None)
    if not kind.endswith("RMSNorm") or weight is None or weight.dim() != 1 or isinstance(module, RMSNorm):
        return None
    eps = getattr(module, "variance_epsilon", None) or getattr(module, "eps", None)
    if eps is None:  # torch's own default
        eps = torch.finfo(weight.dtype).eps
    return _PatchedRMSNorm(weight, float(eps), int(kind.startswith("Gemma")))


def _hugging_attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **options):
    """Attention as Hugging Face's models call it: [batch, heads, n, head_dim] in, [batch, n, heads, head_dim] out."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    n_q, n_k = query.shape[2], key.shape[2]
    window = options.get("sliding_window") or 0
    plain = attention_mask is None and not dropout and (not causal or n_q <= n_k)
    if plain:
        options = {"causal": causal and n_q > 1, "scale": scaling, "window": window if causal and window < n_k else 0}
        if key.transpose(1, 2).is_contiguous():  # as the projections leave it, so nothing is copied
            query, key, value = (t.transpose(1, 2) for t in (query, key, value))
            return flash_attention(query, key, value, layout="bnhd", **options), None
        out = flash_attention(query, key, value, **options)
    else:
        if attention_mask is not None and attention_mask.dim() == 4:
            attention_mask = attention_mask[..., :n_k]
        out = F.scaled_dot_product_attention(query, key, value, attention_mask, dropout,
                                             causal and attention_mask is None, scale=scaling, enable_gqa=True)
    return out.transpose(1, 2).contiguous(), None


def _hugging_loss(logits, labels, vocab_size=None, num_items_in_batch=None, ignore_index=-100, shift_labels=None,
                  **_):
    """The loss as Hugging Face's causal models call it: the target of a token is the next."""
    if shift_labels is None:
        shift_labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    shift_labels = shift_labels.to(logits.device)
    if num_items_in_batch is None:
        return cross_entropy(logits, shift_labels, ignore_index=ignore_index)
    return cross_entropy(logits, shift_labels, ignore_index=ignore_index, reduction="sum") / num_items_in_batch


def patch(model: nn.Module) -> Tuple[str, ...]:
    """Puts Touchstone into a model in place: every LayerNorm and RMSNorm, and, in a Hugging Face model, the
    attention and the loss of causal models. Returns what was replaced, one line each."""
    done = []
    for name, child in list(model.named_modules()):
        new = _patched(child)
        if new is None or not name:
            continue
        parent, _, last = name.rpartition(".")
        new.train(child.training)
        setattr(model.get_submodule(parent), last, new)
        done.append("%s: %s" % (name, type(child).__name__))
    if hasattr(model, "set_attn_implementation"):
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
        ALL_ATTENTION_FUNCTIONS.register("touchstone", _hugging_attention)
        try:  # masks as for torch's own function: None where causal says all
            from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
            ALL_MASK_ATTENTION_FUNCTIONS.register("touchstone", sdpa_mask)
        except ImportError:
            pass
        model.set_attn_implementation("touchstone")
        done.append("attention")
    if type(model).__name__.endswith("ForCausalLM"):
        model.loss_function = _hugging_loss
        done.append("loss")
    return tuple(done)
