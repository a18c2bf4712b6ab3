# SPDX-License-Identifier: Apache-2.0
"""block.py - a small model of touchstone.torch, for the tests with PyTorch."""
import torch

import touchstone.torch as tt


class Block(torch.nn.Module):
    """A transformer block with one of everything."""

    def __init__(self, d=32, vocab=50, heads=4):
        super().__init__()
        self.heads = heads
        self.embed = torch.nn.Embedding(vocab, d)
        self.norm, self.rms = tt.LayerNorm(d), tt.RMSNorm(d)
        self.qkv, self.up = torch.nn.Linear(d, 3 * d), tt.TernaryLinear(d, d)
        self.head = tt.LinearCrossEntropy(d, vocab)

    def forward(self, tokens, target):
        h = self.embed(tokens)
        q, k, v = self.qkv(self.norm(h)).view(*h.shape[:2], self.heads, 3, -1).permute(3, 0, 2, 1, 4)
        y = tt.attention(q, k, v, is_causal=True).transpose(1, 2).reshape(h.shape)
        y, h = self.rms(y, h)
        return self.head(h + self.up(y), target)
