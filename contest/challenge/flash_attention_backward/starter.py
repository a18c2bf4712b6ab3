# SPDX-License-Identifier: Apache-2.0
"""flash_attention_backward.py - your kernel. The prompt is the specification."""
import numpy as np  # noqa: F401


def flash_attention_backward(q, k, v, o, dout, lse, layout, causal, window, scale, tile_q, tile_k,
                             out, kv_len=None):
    # q, o, dout: (n_batch, n_q_head, n_q, head_dim), k and v: (n_batch, n_kv_head, n_k, head_dim); layout 1:
    # with the two middle axes exchanged. lse: (n_batch, n_q_head, n_q). kv_len: (n_batch,), or absent.
    # out["dq"]: as q; out["dk"], out["dv"]: as k
    # Fill the arrays of `out`, or return a dict with the same names. Inputs are read-only.
    # Brain floats come and go as uint16, their bits: the prompt has the lines that convert them.
    raise NotImplementedError("begin here")
