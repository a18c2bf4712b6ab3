# SPDX-License-Identifier: Apache-2.0
"""An entrant of scale_rows that supports all but bf16."""
import numpy as np


def scale_rows(x, s, out):
    if x.dtype == np.uint16:
        raise NotImplementedError
    assert s.ndim == 1
    out["y"][...] = x * s[:, None]
