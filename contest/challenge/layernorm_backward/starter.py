# SPDX-License-Identifier: Apache-2.0
"""layernorm_backward.py - your kernel. The prompt is the specification."""
import numpy as np  # noqa: F401


def layernorm_backward(x, dy, gamma, mean, rstd, accumulate, out):
    # x, dy, out["dx"]: (n_rows, n_cols); gamma, out["dgamma"], out["dbeta"]: (n_cols,); mean, rstd: (n_rows,)
    # Fill the arrays of `out`, or return a dict with the same names. Inputs are read-only.
    # Brain floats come and go as uint16, their bits: the prompt has the lines that convert them.
    raise NotImplementedError("begin here")
