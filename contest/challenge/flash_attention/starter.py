# SPDX-License-Identifier: Apache-2.0
"""flash_attention.py - your kernel. The prompt is the specification."""
import numpy as np  # noqa: F401


def flash_attention(q, k, v, layout, causal, window, scale, tile_q, tile_k, out, kv_len=None):
    # q: (n_batch, n_q_head, n_q, head_dim), k and v: (n_batch, n_kv_head, n_k, head_dim); layout 1: with
    # the two middle axes exchanged. kv_len: (n_batch,), or absent.
    # out["o"]: as q; out["lse"]: (n_batch, n_q_head, n_q), or absent
    # Fill the arrays of `out`, or return a dict with the same names. Inputs are read-only.
    # Brain floats come and go as uint16, their bits: the prompt has the lines that convert them.
    raise NotImplementedError("begin here")
