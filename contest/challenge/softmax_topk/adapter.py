# SPDX-License-Identifier: Apache-2.0
"""adapter_example.py - how a module with other names and another order of arguments enters. Unused
until entry.json names it:

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
