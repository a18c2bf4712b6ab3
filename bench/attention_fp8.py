#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attention_fp8.py - errors of FP8 attention forward against float64, on one GPU. `make bench-peers ROWS='attention fp8'`
has the times.

    attention_fp8.py [--library build/libtouchstone.so]

Numbers are drawn, scaled by the largest of each head and rounded to e4m3; sampled rows of o are
compared with exact attention of the rounded numbers. "of A" is relative to A = sum p |v|, on which the
bound depends; "rounding q, k, v" is what the 8 bits of the inputs cost, which is no error of the kernel."""
import argparse
import math
import os
import sys

import torch

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import ours  # noqa: E402: of bench/peers/


def quantised(x):
    """Codes, the scale of each head, and the numbers that they stand for."""
    scale = x.abs().amax(dim=(2, 3)).float() / 448
    codes = (x / scale[:, :, None, None]).to(torch.float8_e4m3fn)
    return codes, scale, codes.double() * scale.double()[:, :, None, None]


def drawn(kind, n, d):
    shape = (1, 4, n, d)
    q, k, v = (torch.randn(shape, device="cuda") for _ in range(3))
    if kind == "coherent":  # nearly equal weights, values of one sign: roundings do not cancel
        return q, k * 0.02, 1 + 0.1 * v
    if kind == "outliers":
        return tuple(torch.where(torch.rand(shape, device="cuda") < 0.002, 30 * t, t) for t in (q, k, v))
    return (3 * q, 3 * k, v) if kind == "peaked" else (q, k, v)


def exact(q, k, v, rows, causal):
    """o of some rows, and A."""
    s = q[:, :, rows].double() @ k.double().transpose(2, 3) / math.sqrt(q.shape[-1])
    if causal:
        s.masked_fill_(torch.arange(k.shape[2], device="cuda")[None, :] > rows[:, None], -math.inf)
    p = s.softmax(-1)
    return p @ v.double(), p @ v.double().abs()


def errors(n):
    print("| input, %d keys | head_dim | mask | rms of o | error, rms | error, largest | largest of A "
          "| rounding q, k, v, rms |\n|-|-|-|-|-|-|-|-|" % n)
    for d, causal in ((64, 0), (128, 0), (128, 1), (256, 0)):
        for kind in ("random", "peaked", "outliers", "coherent"):
            x = drawn(kind, n, d)
            (q, qs, qd), (k, ks, kd), (v, vs, vd) = (quantised(t) for t in x)
            o = torch.empty(q.shape, device="cuda")
            ours.attention_fp8((q, k, v), (qs, ks, vs), o, None, causal)()
            rows = torch.arange(n // 64, n, n // 64, device="cuda")
            want, size = exact(qd, kd, vd, rows, causal)
            off = (o[:, :, rows].double() - want).abs()
            plain, _ = exact(*x, rows, causal)
            rms = [float(t.square().mean().sqrt()) for t in (want, off, plain - want)]
            print("| %s | %d | %s | %.3g | %.2g | %.2g | %.3f | %.2g |" % (
                kind, d, "causal" if causal else "full", rms[0], rms[1], off.max(), (off / size).max(), rms[2]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default="build/libtouchstone.so")
    why = ours.load(p.parse_args().library)
    if why:
        raise SystemExit("attention_fp8.py: " + why)
    torch.manual_seed(1)
    errors(4096)


main()
