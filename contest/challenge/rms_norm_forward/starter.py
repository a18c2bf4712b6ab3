# SPDX-License-Identifier: Apache-2.0
"""rms_norm_forward.py - your kernel. The prompt is the specification."""
import numpy as np  # noqa: F401


def rms_norm_forward(w, eps, w_offset, out, x=None, residual=None):
    # x, residual, out["y"], out["r"]: (n_rows, n_cols); w: (n_cols,); out["rstd"]: (n_rows,)
    # Without a residual there is no out["r"]. Without x, out["r"] holds x, to be overwritten.
    # Fill the arrays of `out`, or return a dict with the same names. Inputs are read-only.
    # Brain floats come and go as uint16, their bits: the prompt has the lines that convert them.
    raise NotImplementedError("begin here")
