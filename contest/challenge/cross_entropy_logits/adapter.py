# SPDX-License-Identifier: Apache-2.0
"""adapter_example.py - how a module with other names and another order of arguments enters. Unused
until entry.json names it:

    "sources": ["theirs.py"], "adapter": "adapter.py"

It defines the challenge's function by calling theirs, say nll(x, labels), which returns the losses, their lse,
the mean and the gradient.
"""
# import theirs
#
#
# def cross_entropy_logits(target, scale, smoothing, z_loss, softcap, mean, out, logits=None):
#     if smoothing or z_loss or softcap or not mean:
#         raise NotImplementedError  # "offers" in entry.json leaves these cases out
#     loss, lse, total, dx = theirs.nll(out["logits"] if logits is None else logits, target)
#     return {"loss": loss, "lse": lse, "total": total, "dlogits": scale * dx, "logits": scale * dx}
