#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python_rows.py - times calls of the Python package on a GPU next to the same calls of the C
library, with structs that were filled before, and next to PyTorch, in one process.

    python_rows.py [--repeat 40] [--only topk,norm,attention,decode,launch]

`in a row` is the time per call of 20 without a pause, between two events; `host` is the time until those calls
return, per call; `alone` is one call on an idle device between two events, which contains what the host does until
the launch. All are medians in us, methods in random order. `launch` is the host's time of a 1 x 4096 layer norm,
the best of 200 rounds of 50 calls."""
import argparse
import ctypes
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

import touchstone as ts
import touchstone.torch as tt
from touchstone._native import FOLDER, function

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import ours  # noqa: E402: of bench/peers/

ours.load(os.path.join(FOLDER, "libtouchstone.so"))
LOOP = """#include <time.h>
double loop(int (*f)(const void *, const void *), const void *a, const void *x, int n)
{
    struct timespec b, e;
    clock_gettime(CLOCK_MONOTONIC, &b);
    for (int i = 0; i < n; i++) if (f(a, x)) return -1;
    clock_gettime(CLOCK_MONOTONIC, &e);
    return (e.tv_sec - b.tv_sec) * 1e6 + (e.tv_nsec - b.tv_nsec) * 1e-3;
}
"""


def draw(*shape, dtype):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


# ---- rows: (name, {method: call}) ----

def topk_rows():
    for n, v, dtype in ((1, 128256, torch.float32), (32, 128256, torch.float32), (256, 128256, torch.float32),
                        (4096, 50257, torch.float32), (1024, 151936, torch.float32), (4096, 50257, torch.bfloat16)):
        x = draw(n, v, dtype=dtype)
        out = (torch.empty(n, 50, device="cuda"), torch.empty(n, 50, device="cuda", dtype=torch.int32),
               torch.empty(n, device="cuda"))
        yield "softmax + top-50 %d x %d %s" % (n, v, str(dtype)[6:]), {
            "C": ours.softmax_topk(x, 50, out[1], out[0], out[2]),
            "out=": lambda: ts.softmax_topk(x, 50, out=out),
            "ours": lambda: ts.softmax_topk(x, 50),
            "torch": lambda: torch.topk(torch.softmax(x, -1), 50)}


def norm_rows():
    for n, d, dtype in ((1, 4096, torch.float32), (8192, 4096, torch.bfloat16), (32768, 1024, torch.bfloat16),
                        (16384, 8192, torch.bfloat16), (16384, 8192, torch.float32)):
        x, dy, w, b = (draw(*s, dtype=dtype) for s in ((n, d), (n, d), (d,), (d,)))
        y, dx = torch.empty_like(x), torch.empty_like(x)
        mean, rstd = torch.empty(n, device="cuda"), torch.empty(n, device="cuda")
        dw, db = torch.empty(d, device="cuda"), torch.empty(d, device="cuda")
        shape = "%d x %d %s" % (n, d, str(dtype)[6:])
        yield "layer norm " + shape, {
            "C": ours.layer_norm(x, w, b, y, mean, rstd),
            "out=": lambda: ts.layer_norm(x, w, b, out=y),
            "ours": lambda: ts.layer_norm(x, w, b),
            "torch": lambda: F.layer_norm(x, (d,), w, b)}
        back = function("layer_norm_backward")
        _, m, r = torch.native_layer_norm(x, (d,), w, b, 1e-5)
        yield "backward " + shape, {
            "C": ours.layer_norm_backward(x, dy, w, mean, rstd, dx, dw, db),
            "out=": lambda: back(x, dy, w, mean, rstd, dx, dw, db),
            "ours": lambda: tt._layer_norm_backward(x, dy, w, mean, rstd),
            "torch": lambda: torch.ops.aten.native_layer_norm_backward(dy, x, (d,), m, r, w, b, [True] * 3)}


def attention_rows():
    for b, h, g, n, d, causal in ((16, 32, 32, 1024, 128, 1), (4, 32, 32, 4096, 128, 1), (1, 32, 32, 16384, 128, 1),
                                  (4, 32, 8, 4096, 128, 0), (8, 16, 16, 4096, 64, 1)):
        q, k, v = (draw(b, i, n, d, dtype=torch.bfloat16) for i in (h, g, g))
        dout, out, lse = torch.randn_like(q), torch.empty_like(q), torch.empty(b, h, n, device="cuda")
        shape = "%d, %d, %d, %d, %d %s" % (b, h, g, n, d, "causal" if causal else "full")

        def torch_forward(q=q, k=k, v=v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=h != g)
        yield "attention " + shape, {
            "C": ours.attention(q, k, v, out, lse, causal),
            "out=": lambda: ts.flash_attention(q, k, v, causal=bool(causal), out=out),
            "ours": lambda: ts.flash_attention(q, k, v, causal=bool(causal)),
            "torch": torch_forward}
        grads = [torch.empty_like(t) for t in (q, k, v)]
        back = function("flash_attention_backward")
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        theirs = torch_forward(*leaves)
        yield "backward " + shape, {
            "C": ours.attention_backward(q, k, v, out, dout, lse, *grads, causal),
            "out=": lambda: back(q, k, v, out, dout, lse, None, d ** -0.5, bool(causal), 0, 0, *grads),
            "ours": lambda: tt._attention_backward(q, k, v, out, dout, lse, None, d ** -0.5, bool(causal), 0, 0),
            "torch": lambda: torch.autograd.grad(theirs, leaves, dout, retain_graph=True)}
        del theirs, leaves


def decode_rows():
    for b, n in ((64, 8192), (1, 131072), (256, 2048)):
        cache = ts.KVCache(1, 32, 8, 128, capacity=n, max_seqs=b, page=64, dtype="bfloat16", framework="torch",
                           device="cuda", max_call_tokens=max(b, 16384))
        seqs = [cache.open() for _ in range(b)]
        k = draw(16384, 8, 128, dtype=torch.bfloat16)
        for s in seqs:
            for i in range(0, n, 16384):
                cache.append(0, s, k[:min(n, 16384)], k[:min(n, 16384)])
        q = draw(b, 32, 128, dtype=torch.bfloat16)
        out = torch.empty_like(q)
        ids, ones = (ctypes.c_int32 * b)(*seqs), (ours.L * b)(*[1] * b)
        work = torch.empty(cache._work + 256, dtype=torch.uint8, device="cuda")
        exec_ = ours.execution()
        exec_.workspace, exec_.workspace_bytes = work.data_ptr(), cache._work
        assert len(seqs) == b and cache.length(seqs[0]) == n
        given = (ours.P(cache._handle), ctypes.byref(exec_), ours.L(0), ours.L(b), ids, ones, ours.P(q.data_ptr()),
                 ours.P(out.data_ptr()), None)
        kk, vv = (draw(b, 8, n, 128, dtype=torch.bfloat16) for _ in range(2))
        qq = q.view(b, 32, 1, 128)
        yield "decode %d, 32, 8, %d" % (b, n), {
            "C": lambda: ours.LIB.ts_kv_attend(*given), "out=": lambda: cache.attend(0, seqs, q, out=out),
            "ours": lambda: cache.attend(0, seqs, q),
            "torch": lambda: F.scaled_dot_product_attention(qq, kk, vv, enable_gqa=True)}
        cache.close()


def launch():
    """Host time of a call."""
    x, w, b = draw(1, 4096, dtype=torch.float32), torch.ones(4096, device="cuda"), torch.zeros(4096, device="cuda")
    y, mean, rstd = torch.empty_like(x), torch.empty(1, device="cuda"), torch.empty(1, device="cuda")
    leaf = x.clone().requires_grad_()
    c = ours.layer_norm(x, w, b, y, mean, rstd)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "loop")
        with open(path + ".c", "w") as f:
            f.write(LOOP)
        subprocess.check_call(["cc", "-O2", "-shared", "-fPIC", path + ".c", "-o", path + ".so"])
        loop = ctypes.CDLL(path + ".so").loop
        loop.restype = ours.D
    raw = function("layer_norm")
    calls = {"C": None,
             "the C module's function": lambda: raw(x, w, b, 1e-5, y, mean, rstd),
             "touchstone.layer_norm, out=": lambda: ts.layer_norm(x, w, b, out=y),
             "touchstone.layer_norm": lambda: ts.layer_norm(x, w, b),
             "touchstone.torch.layer_norm": lambda: tt.layer_norm(x, w, b),
             "torch.nn.functional.layer_norm": lambda: F.layer_norm(x, (4096,), w, b),
             "touchstone.layer_norm, with gradient": lambda: ts.layer_norm(leaf, w, b),
             "torch.nn.functional.layer_norm, with gradient": lambda: F.layer_norm(leaf, (4096,), w, b)}
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(200):
        for name, f in calls.items():
            torch.cuda.synchronize()
            if f is None:
                us = loop(c.run, c.a, c.x, 50) / 50
            else:
                begin = time.perf_counter()
                for _ in range(50):
                    f()
                us = (time.perf_counter() - begin) * 1e6 / 50
            best[name] = min(best[name], us)
    print("| call, 1 x 4096 float32 | us until it returns |\n|-|-|")
    for name, us in best.items():
        print("| `%s` | %.1f |" % (name, us), flush=True)


def measure(calls, repeat):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = {k: {n: [] for n in calls} for k in ("row", "host", "alone")}
    for name, f in list(calls.items()):
        try:
            f(), f()
        except RuntimeError as error:
            if name != "torch":
                raise
            print("torch: %s" % str(error).splitlines()[0])
            del calls[name]
    for turn in range(repeat):
        for name, f in random.sample(sorted(calls.items()), len(calls)):
            for n in (20, 1) if turn % 4 == 0 else (1,):
                torch.cuda.synchronize()
                awake = time.perf_counter() + 100e-6
                while time.perf_counter() < awake:  # waiting lets the processor sleep, and it is slow afterwards
                    pass
                begin.record()
                start = time.perf_counter()
                for _ in range(n):
                    f()
                host = time.perf_counter() - start
                end.record()
                torch.cuda.synchronize()
                times["alone" if n == 1 else "row"][name].append(begin.elapsed_time(end) * 1e3 / n)
                if n > 1:
                    times["host"][name].append(host * 1e6 / n)
    return [{n: statistics.median(t[n]) for n in calls} for t in times.values()]


def main():
    parts = {"topk": topk_rows, "norm": norm_rows, "attention": attention_rows, "decode": decode_rows}
    p = argparse.ArgumentParser()
    p.add_argument("--repeat", type=int, default=40)
    p.add_argument("--only", default="launch," + ",".join(parts))
    given = p.parse_args()
    chosen = given.only.split(",")
    torch.backends.cuda.enable_flash_sdp(False)  # PyTorch's attention is cuDNN's, the fastest it has
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)
    if "launch" in chosen:
        launch()
    print("| row | in a row: C | out= | ours | torch | host: C | out= | ours | torch | alone: C | out= | ours | torch |")
    print("|" + "-|" * 13)
    for name in chosen:
        for row, calls in parts[name]() if name != "launch" else ():
            figures = measure(calls, given.repeat)
            print("| %s | %s |" % (row, " | ".join("%.1f" % t.get(n, float("nan")) for t in figures
                                                   for n in ("C", "out=", "ours", "torch"))), flush=True)


if __name__ == "__main__":
    main()
