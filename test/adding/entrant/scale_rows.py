# SPDX-License-Identifier: Apache-2.0
"""scale_rows.py - an entrant of scale_rows that supports all dtypes except bf16."""
import numpy as np


def scale_rows(x, s, out):
    if x.dtype == np.uint16:
        raise NotImplementedError
    assert s.ndim == 1
    out["y"][...] = x * s[:, None]
