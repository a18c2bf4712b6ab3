# SPDX-License-Identifier: Apache-2.0
"""adapter_example.py - how a trainer with other names enters. Unused until entry.json names it:

    "sources": ["theirs.py"], "adapter": "adapter.py"

Say that theirs.py has a class Net(config, weights) with loss_and_gradients(tokens). Then the judge's class
asks it:

    import numpy as np
    from theirs import Net

    class ternary_training:
        def __init__(self, dims, latent, norm):
            if dims.n_head != dims.n_kv_head:  # said, not guessed
                raise NotImplementedError("one KV head for each head only")  # and "offers" in entry.json says so
            self.net = Net(vars(dims), np.concatenate([latent, norm]))
            self.n_latent = latent.size

        def grad(self, tokens):
            loss, gradient = self.net.loss_and_gradients(tokens)
            return loss, gradient[:self.n_latent], gradient[self.n_latent:]
"""
