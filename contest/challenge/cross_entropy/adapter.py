# SPDX-License-Identifier: Apache-2.0
"""adapter_example.py - how a module with other names and another order of arguments enters. Unused
until entry.json names it:

    "sources": ["theirs.py"], "adapter": "adapter.py"

It defines the challenge's function by calling theirs, say linear_nll(x, weight, labels), which returns the
losses, their lse, the mean, dx and dweight.
"""
# import theirs
#
#
# def cross_entropy(h, w, target, scale, smoothing, z_loss, softcap, mean, accumulate, out, bias=None):
#     if smoothing or z_loss or softcap or not mean or bias is not None:
#         raise NotImplementedError  # "offers" in entry.json leaves these cases out
#     loss, lse, total, dh, dw = theirs.linear_nll(h, w, target)
#     if accumulate:
#         dh, dw = scale * dh + out.get("dh", 0), scale * dw + out.get("dw", 0)
#     return {"loss": loss, "lse": lse, "total": total, "dh": dh, "dw": dw}
