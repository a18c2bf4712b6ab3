# SPDX-License-Identifier: Apache-2.0
"""layernorm_forward.py - your kernel. The prompt is the specification."""
import numpy as np  # noqa: F401


def layernorm_forward(x, gamma, beta, eps, out):
    # x, out["y"]: (n_rows, n_cols); gamma, beta: (n_cols,); out["mean"], out["rstd"]: (n_rows,)
    # Fill the arrays of `out`, or return a dict with the same names. Inputs are read-only.
    # Brain floats come and go as uint16, their bits: the prompt has the lines that convert them.
    raise NotImplementedError("begin here")
