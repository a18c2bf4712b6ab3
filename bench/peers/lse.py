# SPDX-License-Identifier: Apache-2.0
"""lse.py - log-sum-exp of each row and the probabilities of its selected logits, in Triton: what a peer that only
selects needs next to it, so that both return the same outputs."""
import torch
import triton
import triton.language as tl


@triton.jit
def partial_sums(x, stride, n, high, total, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    row, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    blocks = tl.cdiv(tl.cdiv(n, BLOCK), SPLITS)
    best = tl.full([BLOCK], -float("inf"), tl.float32)
    added = tl.zeros([BLOCK], tl.float32)
    for i in range(blocks):
        at = (split * blocks + i) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + at, mask=at < n, other=-float("inf")).to(tl.float32)
        new = tl.maximum(best, v)
        base = tl.where(new == -float("inf"), 0.0, new)
        added = added * tl.exp(best - base) + tl.exp(v - base)
        best = new
    top = tl.max(best, 0)
    base = tl.where(top == -float("inf"), 0.0, top)
    tl.store(high + row * SPLITS + split, top)
    tl.store(total + row * SPLITS + split, tl.sum(added * tl.exp(best - base), 0))


@triton.jit
def finish(high, total, value, k, prob, lse, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = row * SPLITS + tl.arange(0, SPLITS)
    h, t = tl.load(high + part), tl.load(total + part)
    top = tl.max(h, 0)
    whole = top + tl.log(tl.sum(t * tl.exp(h - top), 0))
    tl.store(lse + row, whole)
    for i in range(tl.cdiv(k, BLOCK)):
        at = i * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(value + row * k + at, mask=at < k, other=-float("inf")).to(tl.float32)
        tl.store(prob + row * k + at, tl.exp(v - whole), mask=at < k)


class Lse:
    def __init__(self, x, value):
        n, vocab = x.shape
        self.x, self.value, self.splits = x, value, 1
        self.block = 2048 if x.dtype == torch.float32 else 4096
        while n * self.splits < 800 and vocab > 8192 * self.splits and self.splits < 64:
            self.splits *= 2
        self.high, self.total = (torch.empty(n, self.splits, device="cuda") for _ in range(2))
        self.prob, self.lse = torch.empty(value.shape, device="cuda"), torch.empty(n, device="cuda")

    def __call__(self):
        n, vocab = self.x.shape
        partial_sums[(n, self.splits)](self.x, self.x.stride(0), vocab, self.high, self.total, SPLITS=self.splits,
                                       BLOCK=self.block, num_warps=8)
        finish[(n,)](self.high, self.total, self.value, self.value.shape[1], self.prob, self.lse, SPLITS=self.splits,
                     BLOCK=256, num_warps=2)
