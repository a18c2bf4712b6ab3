# SPDX-License-Identifier: Apache-2.0
"""ternary_linear.py - your layers. The prompt is the specification."""
import numpy as np  # noqa: F401


class ternary_linear:
    # Brain floats come and go as uint16, their bits: the prompt has the lines that convert them.
    def pack(self, w):
        """Returns codes (n_out, 32 groups), uint8, and scales (n_out, groups), float16."""
        raise NotImplementedError("begin here")

    def unpack(self, code, scale, n_in):
        """Returns the effective weights, (n_out, n_in)."""
        raise NotImplementedError

    def linear(self, w, x):
        """Returns y (n_rows, n_out), of x's dtype."""
        raise NotImplementedError

    def linear_packed(self, code, scale, x):
        """The same from codes, bit for bit."""
        raise NotImplementedError

    def backward(self, w, x, dy):
        """Returns dx (n_rows, n_in), of x's dtype, and dw (n_out, n_in), float."""
        raise NotImplementedError
