# SPDX-License-Identifier: Apache-2.0
"""ternary_training.py - your trainer. The prompt is the specification."""
import numpy as np  # noqa: F401


class ternary_training:
    # nbytes: the bytes that it holds.
    def __init__(self, dims, latent, norm):
        """dims has the attributes that the prompt names; latent and norm are flat, and lent for the call only."""
        raise NotImplementedError("begin here")

    def grad(self, tokens):
        """tokens (n_batch, n_tok). Returns the mean loss, and the gradients of latents and gains, flat."""

    def step(self, tokens, lr, beta1, beta2, eps, weight_decay, clip_norm):
        """One step of AdamW. Returns the mean loss before it."""

    def eval(self, tokens):
        """Returns the sum of the losses, and their count."""

    def export(self):
        """Returns codes (uint8), scales (float16) and gains (float32), flat."""
