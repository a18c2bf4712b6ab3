#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cross_entropy.py - times the loss of a language model, forward and backward from hidden states,
next to PyTorch eager, torch.compile and Liger-Kernel (where installed), in one process on one GPU.

    cross_entropy.py [--library build/libtouchstone.so] [--rows 16384] [--hidden 4096] [--words 128256]

Times are medians of CUDA events with the L2 cache flushed, methods interleaved in random order. Memory
is what a method allocates beyond inputs and gradients. Errors are those of sampled rows of dh and
sampled words of dw against float64, as norm of the difference over norm."""
import argparse
import os
import random
import statistics
import sys

import torch
import torch.nn.functional as F

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import ours  # noqa: E402: of bench/peers/


class Ours:
    def __init__(self, h, w, target, grad):
        n = len(h)
        self.out = [torch.empty(n, device="cuda"), torch.empty(n, device="cuda"), torch.empty(1, device="cuda"),
                    torch.empty_like(h, dtype=grad), torch.empty_like(w, dtype=grad)]
        args = ours.CrossEntropy(ours.KINDS[h.dtype], ours.KINDS[grad], 1, 0, -100, n, len(w), h.shape[1], h.shape[1],
                                 w.shape[1], 0, 1.0, 0, 0, 0, *ours.at(h, w, None, target, *self.out))
        self.call = ours.Call("ts_cross_entropy", args, h, w, target)
        self.bytes = self.call.exec.workspace_bytes

    def __call__(self):
        self.call()
        return self.out[2:]


def of_torch(loss_of, h, w, target):
    h, w = h.detach().requires_grad_(), w.detach().requires_grad_()

    def run():
        total = loss_of(h, w, target)
        return total.detach(), *torch.autograd.grad(total, (h, w))
    return run


def in_float(h, w, target):
    return F.cross_entropy(F.linear(h, w).float(), target)


def in_storage(h, w, target):
    return F.cross_entropy(F.linear(h, w), target)


def methods(h, w, target):
    """Name and a function that returns loss, dh and dw. Each is made when its turn to warm up comes."""
    wide = target.long()
    yield "touchstone, float gradients", lambda: Ours(h, w, target, torch.float32)
    yield "touchstone, 16-bit gradients", lambda: Ours(h, w, target, h.dtype)
    yield "PyTorch eager, float logits", lambda: of_torch(in_float, h, w, wide)
    yield "PyTorch eager, 16-bit logits", lambda: of_torch(in_storage, h, w, wide)
    yield "torch.compile, float logits", lambda: of_torch(torch.compile(in_float), h, w, wide)
    try:
        from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction as Liger
    except ImportError as error:
        print("skipped: Liger-Kernel (%s)" % error)
        return
    for name, accum in (("Liger-Kernel, 16-bit sums", None), ("Liger-Kernel, float sums", torch.float32)):
        def loss(h, w, target, accum=accum):
            out = Liger.apply(h, w, target, None, None, -100, 0.0, 0.0, "mean", None, False, accum)
            return out[0] if isinstance(out, tuple) else out
        yield name, lambda loss=loss: of_torch(loss, h, w, wide)


def truth(h, w, target, rows, words):
    """dh of these rows and dw of these words, in float64."""
    lse, n = torch.empty(len(h), dtype=torch.float64, device="cuda"), len(h)
    wide = w.double()
    for i in range(0, n, 512):
        lse[i:i + 512] = (h[i:i + 512].double() @ wide.T).logsumexp(1)
    p = (h[rows].double() @ wide.T - lse[rows, None]).exp()
    p[torch.arange(len(rows)), target[rows].long()] -= 1
    q = (h.double() @ wide[words].T - lse[:, None]).exp() - (target[:, None] == words[None]).double()
    return p @ wide / n, q.T @ h.double() / n


def error(got, want):
    return ((got.double() - want).norm() / want.norm()).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", default="build/libtouchstone.so")
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--words", type=int, default=128256)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="methods whose names have this")
    o = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("skipped: no CUDA device")
    why = ours.load(o.library)
    if why:
        raise SystemExit("skipped: " + why)
    torch.manual_seed(o.seed)
    h = torch.randn(o.rows, o.hidden, device="cuda").bfloat16()
    w = (torch.randn(o.words, o.hidden, device="cuda") * 2 / o.hidden ** 0.5).bfloat16()
    target = torch.randint(o.words, (o.rows,), device="cuda", dtype=torch.int32)
    rows, words = (torch.randperm(n, device="cuda")[:64] for n in (o.rows, o.words))
    want_dh, want_dw = truth(h, w, target, rows, words)
    torch.cuda.empty_cache()
    flush = torch.ones(1 << 27, device="cuda")
    logits, ready = o.rows * o.words * 2, {}
    for name, make in methods(h, w, target):
        if o.only not in name:
            continue
        try:
            run = make()
            for _ in range(2):
                run()
            torch.cuda.synchronize()
            base = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            total, dh, dw = run()
            torch.cuda.synchronize()
            grads = 0 if isinstance(run, Ours) else dh.nbytes + dw.nbytes
            extra = run.bytes if isinstance(run, Ours) else torch.cuda.max_memory_allocated() - base - grads
            ready[name] = run, extra, float(total), error(dh[rows], want_dh), error(dw[words], want_dw), []
            del dh, dw
        except (RuntimeError, TypeError, ValueError) as e:
            print("skipped: %s (%s)" % (name, " ".join(str(e).split())[:160]))
    for _ in range(o.rounds):
        for name in random.Random(o.seed).sample(sorted(ready), len(ready)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.sum()
            begin.record()
            ready[name][0]()
            end.record()
            torch.cuda.synchronize()
            ready[name][-1].append(begin.elapsed_time(end))
    flops = 6 * o.rows * o.words * o.hidden
    print("%d x %d hidden states, %d words, bf16, forward and backward, %s" %
          (o.rows, o.hidden, o.words, torch.cuda.get_device_name()))
    print("%-30s %9s %9s %9s %10s %9s %9s" % ("", "ms", "TFLOP/s", "MiB", "of logits", "dh error", "dw error"))
    for name, (_, extra, total, of_dh, of_dw, times) in sorted(ready.items(), key=lambda r: statistics.median(r[1][-1])):
        ms = statistics.median(times)
        print("%-30s %9.2f %9.0f %9.0f %9.1f%% %9.1e %9.1e" %
              (name, ms, flops / ms / 1e9, extra / 2 ** 20, 100 * extra / logits, of_dh, of_dw))


if __name__ == "__main__":
    main()
