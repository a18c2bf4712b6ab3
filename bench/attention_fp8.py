#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attention_fp8.py - FP8 attention forward on one GPU: errors against float64, then times next to
our bf16 forward and, where it runs, PyTorch's cuDNN attention in bf16.

    attention_fp8.py [--library build/libtouchstone.so] [--errors-only] [--quick]

Errors: numbers are drawn, scaled by the largest of each head and rounded to e4m3; sampled rows of o are
compared with exact attention of the rounded numbers. "of A" is relative to A = sum p |v|, on which the
bound depends; "rounding q, k, v" is what the 8 bits of the inputs cost, which is no error of the kernel.
Times are medians of CUDA events, methods interleaved in random order, the L2 cache flushed before each
call. Rates count 4 B H N N D operations, half of that if causal."""
import argparse
import ctypes
import math
import random
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

KINDS = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 3}  # ts_dtype


class Dims(ctypes.Structure):  # ts_attention_dims
    _fields_ = ([(n, ctypes.c_int) for n in ("dtype", "layout", "causal")]
                + [(n, ctypes.c_int64) for n in ("n_batch", "n_q", "n_k", "n_q_head", "n_kv_head", "head_dim", "window",
                                                 "tile_q", "tile_k")] + [("scale", ctypes.c_double)])


class Exec(ctypes.Structure):  # ts_exec
    _fields_ = [("device", ctypes.c_int), ("n_threads", ctypes.c_int), ("deterministic", ctypes.c_int),
                ("stream", ctypes.c_void_p), ("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_size_t)]


def arguments(*pointers):
    class Arguments(ctypes.Structure):  # ts_flash_attention_args, ts_flash_attention_fp8_args
        _fields_ = [("d", Dims)] + [(n, ctypes.c_void_p) for n in pointers]
    return Arguments


Wide = arguments("q", "k", "v", "kv_len", "o", "lse")
Narrow = arguments("q", "k", "v", "q_scale", "k_scale", "v_scale", "kv_len", "o", "lse")


class Ours:
    """One call, ready to be repeated. With scales it is flash_attention_fp8."""

    def __init__(self, library, q, k, v, causal, scales=(), dtype=torch.bfloat16):
        self.lib, self.keep = library, (q, k, v, *scales)
        self.name = "ts_flash_attention_fp8" if scales else "ts_flash_attention"
        b, h, n, d = q.shape
        self.o = torch.empty(q.shape, dtype=dtype, device="cuda")
        dims = Dims(KINDS[dtype], 0, causal, b, n, k.shape[2], h, k.shape[1], d, 0, 0, 0, 1 / math.sqrt(d))
        inputs = [t.data_ptr() for t in self.keep]
        self.args = (Narrow if scales else Wide)(dims, *inputs, None, self.o.data_ptr(), None)
        self.exec = Exec(1, 0, 0, torch.cuda.current_stream().cuda_stream, None, 0)
        size = ctypes.c_size_t()
        self.ask("_workspace", ctypes.byref(size))
        self.workspace = torch.empty(size.value + 1, dtype=torch.uint8, device="cuda")
        self.exec.workspace, self.exec.workspace_bytes = self.workspace.data_ptr(), size.value

    def ask(self, suffix="", *more):
        status = getattr(self.lib, self.name + suffix)(ctypes.byref(self.args), ctypes.byref(self.exec), *more)
        if status:
            self.lib.ts_status_text.restype = ctypes.c_char_p
            raise SystemExit("touchstone: " + self.lib.ts_status_text(status).decode())

    __call__ = ask


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


def errors(library, n):
    print("| input, %d keys | head_dim | mask | rms of o | error, rms | error, largest | largest of A "
          "| rounding q, k, v, rms |\n|-|-|-|-|-|-|-|-|" % n)
    for d, causal in ((64, 0), (128, 0), (128, 1), (256, 0)):
        for kind in ("random", "peaked", "outliers", "coherent"):
            x = drawn(kind, n, d)
            (q, qs, qd), (k, ks, kd), (v, vs, vd) = (quantised(t) for t in x)
            call = Ours(library, q, k, v, causal, (qs, ks, vs), torch.float32)
            call()
            rows = torch.arange(n // 64, n, n // 64, device="cuda")
            want, size = exact(qd, kd, vd, rows, causal)
            off = (call.o[:, :, rows].double() - want).abs()
            plain, _ = exact(*x, rows, causal)
            rms = [float(t.square().mean().sqrt()) for t in (want, off, plain - want)]
            print("| %s | %d | %s | %.3g | %.2g | %.2g | %.3f | %.2g |" % (
                kind, d, "causal" if causal else "full", rms[0], rms[1], off.max(), (off / size).max(), rms[2]))


def times(library, quick):
    flush = torch.empty(64 << 20, device="cuda")
    print("\n| B, Hq, Hkv, N, D | mask | FP8, us | TFLOP/s | our bf16, us | ratio | cuDNN bf16, us |\n|-|-|-|-|-|-|-|")
    shapes = [(8, 16, 16, 2048, 128), (4, 32, 32, 4096, 128), (4, 32, 8, 4096, 128), (1, 32, 32, 16384, 128),
              (8, 16, 16, 4096, 64), (2, 16, 16, 4096, 256)]
    for b, h, g, n, d in shapes[:2] if quick else shapes:
        q, k, v = (torch.randn(b, heads, n, d, device="cuda", dtype=torch.bfloat16) for heads in (h, g, g))
        (q8, qs, _), (k8, ks, _), (v8, vs, _) = (quantised(t) for t in (q, k, v))
        for causal in (1, 0):
            def peer():
                with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                    F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=g != h)
            calls = {"fp8": Ours(library, q8, k8, v8, causal, (qs, ks, vs)), "bf16": Ours(library, q, k, v, causal),
                     "cudnn": peer}
            try:
                peer()
            except RuntimeError:
                del calls["cudnn"]
            took = {name: [] for name in calls}
            for turn in range(8):
                for name in random.sample(list(calls), len(calls)):
                    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    flush.sum()
                    begin.record()
                    calls[name]()
                    end.record()
                    end.synchronize()
                    if turn:
                        took[name].append(begin.elapsed_time(end) * 1000)
            us = {name: statistics.median(t) for name, t in took.items()}
            print("| %d, %d, %d, %d, %d | %s | %.1f | %.0f | %.1f | %.2f | %s |" % (
                b, h, g, n, d, "causal" if causal else "full", us["fp8"],
                4 * b * h * n * n * d / (2 if causal else 1) / us["fp8"] * 1e-6, us["bf16"], us["bf16"] / us["fp8"],
                "%.1f" % us["cudnn"] if "cudnn" in us else "-"), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default="build/libtouchstone.so")
    p.add_argument("--errors-only", action="store_true")
    p.add_argument("--quick", action="store_true", help="two shapes only")
    a = p.parse_args()
    torch.manual_seed(1)
    library = ctypes.CDLL(a.library)
    errors(library, 4096)
    if not a.errors_only:
        times(library, a.quick)


main()
