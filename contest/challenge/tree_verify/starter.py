# SPDX-License-Identifier: Apache-2.0
"""tree_verify.py - your verification. The prompt is the specification."""
import numpy as np  # noqa: F401


def tree_verify(model, prompt, token, parent, max_new, temperature, u):
    # prompt, token, parent: int32 arrays. model.forward(token, position, visible, want) is one pass
    # over rows, of which row r sees row c where visible[r, c], and gives float32 logits of the token
    # after each row of want. Return the emitted tokens, the path of accepted nodes, and a status for
    # every node: 0 unreached, 1 accepted, 2 rejected. A visited row without a distribution: raise
    # ArithmeticError.
    raise NotImplementedError("begin here")
