# SPDX-License-Identifier: Apache-2.0
"""Touchstone: language-model kernels for NumPy, PyTorch, JAX and CuPy, and a judge of implementations of
the same kernels. touchstone.torch and touchstone.jax have what only those frameworks need."""
from ._judge import Entrant, JudgeError, Verdict, Verdicts, entrant, judge
from ._kv_cache import KVCache, Usage
from ._native import abi_version
from ._ops import (TernaryWeight, TopK, cross_entropy, cuda_unavailable_reason, flash_attention,
                   flash_attention_fp8, layer_norm, linear_cross_entropy, rms_norm, set_deterministic,
                   set_num_threads, softmax_topk, ternary_linear, ternary_pack, ternary_unpack)
from ._search import (ACCEPTED, REJECTED, UNREACHED, Beam, BeamArrays, TreeArrays, Verified, beam_search, tree_mask,
                      tree_verify)
from ._version import __version__

__all__ = ["ACCEPTED", "Beam", "BeamArrays", "Entrant", "JudgeError", "KVCache", "REJECTED", "TernaryWeight", "TopK", "TreeArrays",
           "UNREACHED", "Usage", "Verdict",
           "Verdicts", "Verified",
           "abi_version", "beam_search", "cross_entropy", "cuda_unavailable_reason", "entrant",
           "flash_attention", "flash_attention_fp8", "judge", "layer_norm", "linear_cross_entropy", "rms_norm",
           "set_deterministic", "set_num_threads", "softmax_topk", "ternary_linear", "ternary_pack",
           "ternary_unpack", "tree_mask", "tree_verify"]
