# SPDX-License-Identifier: Apache-2.0
"""How a module with other names and another order of arguments enters.

Nothing of this file is used until entry.json names it:

    "sources": ["theirs.py"], "adapter": "adapter.py"

It defines the challenge's function by calling theirs, say topk(x, k), which returns
values, indices, log_sum.
"""
# import theirs
#
#
# def softmax_topk(logits, k, inv_temperature):
#     prob, index, lse = theirs.topk(logits * inv_temperature, k)
#     return {"index": index, "prob": prob, "lse": lse}
