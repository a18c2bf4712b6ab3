# SPDX-License-Identifier: Apache-2.0
"""adapter_example.py - how a module with other names and another order of arguments enters. Unused
until entry.json names it:

    "sources": ["theirs.py"], "adapter": "adapter.py"

It defines the challenge's function by calling theirs, say norm_grad(dout, x, w, rstd), which
returns dx, dw.
"""
# import theirs
#
#
# def rms_norm_backward(r, dy, w, rstd, w_offset, accumulate, out, dr=None):
#     dx, dw = theirs.norm_grad(dy, r, w + w_offset, rstd)
#     return {"dx": dx if dr is None else dx + dr, "dw": dw + out["dw"] if accumulate else dw}
