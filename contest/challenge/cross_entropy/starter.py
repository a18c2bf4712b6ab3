# SPDX-License-Identifier: Apache-2.0
"""cross_entropy.py - your kernel. The prompt is the specification."""
import numpy as np  # noqa: F401


def cross_entropy(h, w, target, scale, smoothing, z_loss, softcap, mean, ignore_index, chunk,
                  accumulate, out, bias=None):
    # h, out["dh"]: (n_rows, n_hidden); w, out["dw"]: (n_vocab, n_hidden); bias: (n_vocab,) or None;
    # target, out["loss"], out["lse"]: (n_rows,); out["total"]: (1,). A gradient that is not wanted is not in out.
    # Fill the arrays of `out`, or return a dict with the same names. Inputs are read-only.
    # Brain floats come and go as uint16, their bits: the prompt has the lines that convert them.
    raise NotImplementedError("begin here")
