# SPDX-License-Identifier: Apache-2.0
"""adapter_example.py - how a module with other names and another order of arguments enters. Unused
until entry.json names it:

    "sources": ["theirs.py"], "adapter": "adapter.py"

It defines the challenge's function by calling theirs, say norm(x, w, b), which returns
y.
"""
# import theirs
#
#
# def layernorm_forward(x, gamma, beta, eps):
#     if eps != 1e-5:
#         raise NotImplementedError  # "offers" in entry.json leaves these cases out
#     y = theirs.norm(x, gamma, beta)
#     return {"y": y, "mean": x.mean(axis=1), "rstd": 1 / (x.var(axis=1) + eps) ** 0.5}
