# SPDX-License-Identifier: Apache-2.0
"""softmax_topk.py - your kernel. The prompt is the specification."""
import numpy as np  # noqa: F401


def softmax_topk(logits, k, inv_temperature, out):
    # logits: (n_rows, n_vocab); out["index"], out["prob"]: (n_rows, k); out["lse"]: (n_rows,), or absent
    # Fill the arrays of `out`, or return a dict with the same names. Inputs are read-only.
    # Brain floats come and go as uint16, their bits: the prompt has the lines that convert them.
    raise NotImplementedError("begin here")
