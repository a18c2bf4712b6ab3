# SPDX-License-Identifier: Apache-2.0
"""rms_norm_backward.py - your kernel. The prompt is the specification."""
import numpy as np  # noqa: F401


def rms_norm_backward(r, dy, w, rstd, w_offset, accumulate, out, dr=None):
    # r, dy, dr, out["dx"]: (n_rows, n_cols); w, out["dw"]: (n_cols,); rstd: (n_rows,)
    # Fill the arrays of `out`, or return a dict with the same names. Inputs are read-only.
    # Brain floats come and go as uint16, their bits: the prompt has the lines that convert them.
    raise NotImplementedError("begin here")
