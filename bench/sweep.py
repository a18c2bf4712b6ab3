#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sweep.py - sweeps one parameter of a CUDA kernel at a time and reports cliffs: points that are
out of line.

    sweep.py [--library build/libtouchstone.so] [--kernel layernorm] [--line columns] [--peers torch]

A line is a list of points along one parameter; the line "shapes" has single shapes instead. The
curve of a line runs through a point's two neighbours, straight in the logarithms of parameter and
time. A point more than 15 % above it is reported as a cliff, and the exit status is 1 then. Times
are medians of CUDA events with a cold L2 cache; all methods of a point are interleaved. The event
pair itself takes about 3 us. With --graph they are the time of a call among 20 captured in a CUDA
graph, caches warm. "of copy" is the rate of the bytes that must move, relative to a large device
copy in the same run. To add a kernel, write a function that returns the calls of a point and its
bytes, and an entry of KERNELS."""
import argparse
import json
import math
import os
import random
import statistics
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
try:
    import torch

    import ours  # of bench/peers/
    KINDS = {"f32": (0, torch.float32), "f16": (2, torch.float16), "bf16": (3, torch.bfloat16)}  # ts_dtype
except ImportError:
    torch = None
EPS = 1e-5


# ---- kernels: functions of a point (a dict) that return calls by name, and bytes ----

def matrix(p, scale=1.0):
    """Rows of p["cols"] elements, p["stride"] apart, p["offset"] elements after a 256-byte boundary."""
    rows, cols, stride, offset = p["rows"], p["cols"], p.get("stride", p["cols"]), p.get("offset", 0)
    flat = torch.randn(rows * stride + offset + 16, device="cuda", dtype=KINDS[p["dtype"]][1]).mul_(scale)
    return flat[offset:].as_strided((rows, cols), (stride, 1))


def call(name, structure, *values):
    return ours.Call("ts_" + name, structure(*(v.data_ptr() if torch.is_tensor(v) else v for v in values)), *values)


def layernorm(p, backward):
    kind, dtype = KINDS[p["dtype"]]
    rows, cols, size = p["rows"], p["cols"], 4 if kind == 0 else 2
    x, y = matrix(p), matrix(p)
    gamma, beta = (torch.randn(cols, device="cuda", dtype=dtype) for _ in range(2))
    mean, rstd = (torch.empty(rows, device="cuda") for _ in range(2))
    head = kind, rows, cols, x.stride(0) if rows > 1 else p.get("stride", cols)
    forward = call("layernorm_forward", ours.Norm, *head, EPS, x, gamma, beta, y, mean, rstd)
    if not backward:
        run = lambda x, g, b: torch.native_layer_norm(x, (cols,), g, b, EPS)
        return forward, (run, (x, gamma, beta)), size * (2 * rows * cols + 2 * cols) + 8 * rows
    forward()
    dy, dgamma, dbeta = matrix(p), torch.empty(cols, device="cuda"), torch.empty(cols, device="cuda")
    back = call("layernorm_backward", ours.NormBack, kind, 0, *head[1:], x, dy, gamma, mean, rstd, y, dgamma, dbeta)
    run = lambda dy, x, m, r, g, b: torch.ops.aten.native_layer_norm_backward(dy, x, (cols,), m, r, g, b, [True] * 3)
    return (back, (run, (dy, x, mean[:, None], rstd[:, None], gamma, beta)),
            size * (3 * rows * cols + cols) + 8 * rows + 8 * cols)


def rms_norm(p, backward):
    kind, dtype = KINDS[p["dtype"]]
    rows, cols, size = p["rows"], p["cols"], 4 if kind == 0 else 2
    x, residual, r, y = (matrix(p) for _ in range(4))
    w, rstd = torch.randn(cols, device="cuda", dtype=dtype), torch.empty(rows, device="cuda")
    stride = x.stride(0) if rows > 1 else p.get("stride", cols)
    forward = call("rms_norm_forward", ours.RmsNorm, kind, 0, rows, cols, stride, EPS, x, residual, w, r, y, rstd)

    def norm(x, residual, w):
        r = x + residual
        return r, torch.nn.functional.rms_norm(r, (cols,), w, EPS)
    if not backward:
        return forward, (norm, (x, residual, w)), size * (4 * rows * cols + cols) + 4 * rows
    forward()
    dy, dr, dx, dw = matrix(p), matrix(p), matrix(p), torch.empty(cols, device="cuda")
    back = call("rms_norm_backward", ours.RmsNormBack, kind, 0, 0, rows, cols, stride, r, dy, dr, w, rstd, dx, dw)
    leaf, gain = x.detach().requires_grad_(), w.detach().requires_grad_()
    outputs = norm(leaf, residual, gain)
    run = lambda dr, dy: torch.autograd.grad(outputs, (leaf, gain), (dr, dy), retain_graph=True)
    return back, (run, (dr, dy)), size * (4 * rows * cols + cols) + 4 * rows + 4 * cols


# ---- lines: name, parameter, points ----

WIDTHS = (64, 96, 128, 192, 256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192,
          10240, 12288, 14336, 16384, 20480, 24576, 32768, 40960, 49152, 65536)

SHAPES = ((1, 4096), (300, 16384), (2000, 12288), (4096, 5120), (8192, 768), (8192, 4096), (32768, 1024), (65536, 768),
          (16384, 8192))


def norm_lines():
    for dtype in ("bf16", "f32"):
        yield "columns", "cols", [{"dtype": dtype, "rows": (1 << 25) // c, "cols": c} for c in WIDTHS]
        yield "rows", "rows", [{"dtype": dtype, "rows": 1 << k, "cols": 4096} for k in range(17)]
        yield "wide rows", "rows", [{"dtype": dtype, "rows": 1 << k, "cols": 16384} for k in range(14)]
        yield "odd columns", "cols", [{"dtype": dtype, "rows": 8192, "cols": c} for c in range(4088, 4105)]
        yield "shapes", None, [{"dtype": dtype, "rows": r, "cols": c} for r, c in SHAPES]
        yield "offset", "offset", [{"dtype": dtype, "rows": 8192, "cols": 4096, "offset": o} for o in range(9)]


KERNELS = {
    "layernorm_forward": (lambda p: layernorm(p, False), norm_lines),
    "layernorm_backward": (lambda p: layernorm(p, True), norm_lines),
    "rms_norm_forward": (lambda p: rms_norm(p, False), norm_lines),
    "rms_norm_backward": (lambda p: rms_norm(p, True), norm_lines),
}


# ---- timing ----

def microseconds(calls, rounds, flush):
    """Medians by name. A short sleep on the device hides the time that the host takes to launch."""
    times = {name: [] for name in calls}
    for k in range(rounds + 1):
        for name in random.sample(sorted(calls), len(calls)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.sum()
            torch.cuda._sleep(60000)
            begin.record()
            calls[name]()
            end.record()
            if k:  # the first is to warm up
                times[name].append((begin, end))
    torch.cuda.synchronize()
    return {name: statistics.median(1e3 * b.elapsed_time(e) for b, e in pairs) for name, pairs in times.items()}


def microseconds_in_graph(calls, rounds, n=20):
    """As microseconds(), of a call among n that follow each other in a CUDA graph, caches warm."""
    stream, times = torch.cuda.current_stream(), {}
    for name, call in calls.items():
        for _ in range(3):
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(n):
                call()
        pairs = []
        for _ in range(rounds + 1):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            pairs.append((begin, end))
        stream.synchronize()
        times[name] = statistics.median(1e3 * b.elapsed_time(e) / n for b, e in pairs[1:])
    return times


def curve(points, i):
    """What the neighbours of point i predict; None at the ends of a line."""
    if not 0 < i < len(points) - 1:
        return None
    (x0, t0), (x, _), (x1, t1) = points[i - 1:i + 2]
    w = (math.log(x + 1) - math.log(x0 + 1)) / (math.log(x1 + 1) - math.log(x0 + 1))
    return math.exp((1 - w) * math.log(t0) + w * math.log(t1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default="build/libtouchstone.so", help="(default build/libtouchstone.so)")
    parser.add_argument("--kernel", default="", help="only kernels whose names contain this: " + ", ".join(KERNELS))
    parser.add_argument("--line", default="", help="only lines whose names begin with this: " + ", ".join(
        dict.fromkeys(line for line, _, _ in norm_lines())))
    parser.add_argument("--peers", default="", help="also time torch, torch.compile, or both with a comma")
    parser.add_argument("--graph", action="store_true", help="time calls inside a CUDA graph, caches warm")
    parser.add_argument("--rounds", type=int, default=9, help="times of which the median is taken (default 9)")
    parser.add_argument("--above", type=float, default=15.0, help="percent above the curve (default 15)")
    parser.add_argument("--json", help="write all points to this file")
    o = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        raise SystemExit("sweep.py: skipped: no %s" % ("CUDA device" if torch else "PyTorch"))
    why = ours.load(o.library)
    if why:
        raise SystemExit("sweep.py: skipped: " + why)
    flush = torch.ones(1 << 26, device="cuda")  # 256 MiB, several times the L2 cache
    source, target = torch.ones(1 << 28, device="cuda"), torch.empty(1 << 28, device="cuda")
    copy = microseconds({"copy": lambda: target.copy_(source)}, 9, flush)["copy"]
    rate = 2 * source.nbytes / copy / 1e3
    del source, target
    print("%s, copy %.0f GB/s, %s, medians of %d" % (
        torch.cuda.get_device_name(), rate, "in a graph, warm" if o.graph else "cold L2", o.rounds))
    if o.graph:
        torch.cuda.set_stream(torch.cuda.Stream())  # the default stream cannot be captured
    results, cliffs = [], 0
    for name, (make, lines) in KERNELS.items():
        for line, parameter, points in lines() if o.kernel in name else ():
            if not line.startswith(o.line):
                continue
            measured = []
            for p in points:
                mine, (peer, inputs), n_bytes = make(p)
                calls = {"ours": mine}
                if "torch" in o.peers.split(","):
                    calls["torch"] = lambda: peer(*inputs)
                if "torch.compile" in o.peers.split(","):
                    torch._dynamo.reset()
                    compiled = torch.compile(peer, dynamic=False)
                    calls["torch.compile"] = lambda: compiled(*inputs)
                measured.append((p, n_bytes, microseconds_in_graph(calls, o.rounds) if o.graph
                                 else microseconds(calls, o.rounds, flush)))
            times = [(p[parameter], t["ours"]) for p, _, t in measured] if parameter else []
            print("\n%s, %s" % (name, line))
            for i, (p, n_bytes, t) in enumerate(measured):
                fraction, expected = 100 * n_bytes / t["ours"] / 1e3 / rate, curve(times, i)
                above = 100 * (t["ours"] / expected - 1) if expected else 0
                cliffs += above > o.above
                print("  %-44s %s  %5.1f %% of copy%s" % (
                    " ".join("%s=%s" % v for v in p.items()), " ".join("%s %8.1f us" % v for v in t.items()), fraction,
                    "  CLIFF: %.0f %% above the curve" % above if above > o.above else ""), flush=True)
                results.append({"kernel": name, "line": line, **p, "us": t, "of_copy": fraction, "above": above})
            rates = sorted(r["of_copy"] for r in results[-len(measured):])
            print("  worst %.1f %%, median %.1f %% of copy" % (rates[0], statistics.median(rates)))
    print("\n%d points, %d cliffs" % (len(results), cliffs))
    if o.json:
        with open(o.json, "w") as f:
            json.dump(results, f)
    sys.exit(cliffs > 0)


if __name__ == "__main__":
    main()
