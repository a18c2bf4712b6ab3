#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sweep_decode_topk.py - sweeps decode attention and softmax + top-k on a CUDA device, next to
PyTorch in one process.

    sweep_decode_topk.py [--library build/libtouchstone.so] [--before OLD.so] [--only decode|topk]
                         [--seconds 600]

Each output is compared with float64 (decode: two sequences; trees: one, in float32) or a stable
sort (top-k: two rows) before it is timed. Times are medians of CUDA events in microseconds with the
L2 cache flushed; all methods of a point are interleaved. --before times a second build of the
library next to the first. A library loads libtouchstone_cuda.so from its own folder. A point of a
line with a parameter is a cliff if it is more than 15 % above the curve through its neighbours, as
in sweep.py. The exit status is 1 if there is one, or if an output is wrong. Points that would begin
after --seconds are skipped."""
import argparse
import ctypes as C
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from sweep import curve

BEGAN = time.time()
KINDS = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 3, "int8": 4, "int4": 5}  # ts_dtype
I64, PTR = C.c_int64, C.c_void_p
INF = float("inf")


class Exec(C.Structure):
    _fields_ = [("device", C.c_int), ("n_threads", C.c_int), ("deterministic", C.c_int), ("stream", PTR),
                ("workspace", PTR), ("workspace_bytes", C.c_size_t)]


class Dims(C.Structure):
    _fields_ = [(n, I64) for n in ("n_layer n_seq_max n_q_head n_kv_head head_dim capacity page n_page window n_sink "
                                   "key_group max_call_tokens").split()] + \
               [(n, C.c_int) for n in ("key_axis", "io", "store", "meta")] + [("scale", C.c_double)]


class TopK(C.Structure):
    _fields_ = [("dtype", C.c_int), ("n_rows", I64), ("n_vocab", I64), ("row_stride", I64), ("k", I64),
                ("inv_temperature", C.c_double), ("logits", PTR), ("index", PTR), ("prob", PTR), ("lse", PTR)]


def call(function, *args):
    status = function(*args)
    if status:
        raise RuntimeError("status %d" % status)


def new_exec(n_bytes):
    space = torch.empty(max(1, n_bytes), dtype=torch.uint8, device="cuda")
    return Exec(1, 0, 0, torch.cuda.current_stream().cuda_stream, space.data_ptr(), n_bytes), space


def new_cache(lib, kv, heads, page, store):
    """A cache with keys and values kv [2][seqs][tokens][kv heads][dim], its exec and sequences, and what to keep."""
    _, n, tokens, kv_heads, dim = kv.shape
    capacity = tokens if not page else -(-tokens // page) * page
    kind, store, state, work = KINDS[kv.dtype], KINDS[store], C.c_size_t(), C.c_size_t()
    d = Dims(1, n, heads, kv_heads, dim, capacity, page, n * capacity // page if page else 0, 0, 0, dim, tokens, 0,
             kind, store, 2, dim ** -0.5)
    x, _ = new_exec(0)
    call(lib.ts_kv_bytes, C.byref(d), C.byref(x), C.byref(state), C.byref(work))
    memory, cache = torch.empty(state.value, dtype=torch.uint8, device="cuda"), PTR()
    x, space = new_exec(work.value)
    call(lib.ts_kv_create, C.byref(d), C.byref(x), PTR(memory.data_ptr()), state, C.byref(cache))
    seq = (C.c_int32 * n)()
    for i in range(n):
        one = C.c_int32()
        call(lib.ts_kv_open, cache, C.byref(x), C.byref(one))
        seq[i] = one.value
        call(lib.ts_kv_append, cache, C.byref(x), I64(0), I64(1), C.byref(one), (I64 * 1)(tokens),
             PTR(kv[0, i].data_ptr()), PTR(kv[1, i].data_ptr()))
    return cache, x, seq, (memory, space)


def attend(lib, q, kv, heads, page, store):
    """A call that attends over a new cache; its output; and keys and values of up to two sequences as read back."""
    _, n, tokens, kv_heads, dim = kv.shape
    cache, x, seq, keep = new_cache(lib, kv, heads, page, store)
    ones, out = (I64 * n)(*[1] * n), torch.full_like(q, float("nan"))

    def run():
        call(lib.ts_kv_attend, cache, C.byref(x), I64(0), I64(n), seq, ones, PTR(q.data_ptr()), PTR(out.data_ptr()), None)
    run.keep = keep, out, cache
    back = torch.empty(2, min(2, n), tokens, kv_heads, dim, device="cuda")
    for i in range(back.shape[1]):
        call(lib.ts_kv_read, cache, C.byref(x), I64(0), seq[i], I64(0), I64(tokens), PTR(back[0, i].data_ptr()),
             PTR(back[1, i].data_ptr()))
    return run, out, back.transpose(2, 3)


def top_k(lib, z, k):
    n = z.shape[0]
    index = torch.full((n, k), -7, dtype=torch.int32, device="cuda")
    prob, lse = torch.full((n, k), -7.0, device="cuda"), torch.empty(n, device="cuda")
    a = TopK(KINDS[z.dtype], n, z.shape[1], z.stride(0), k, 1.0, z.data_ptr(), index.data_ptr(), prob.data_ptr(),
             lse.data_ptr())
    x, space = new_exec(0)

    def run():
        call(lib.ts_softmax_topk, C.byref(a), C.byref(x))
    run.keep = space, index, prob, lse
    return run, index, prob


def microseconds(calls, rounds, flush):
    times = {name: [] for name in calls}
    for r in range(rounds + 1):
        for name in random.sample(sorted(calls), len(calls)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.sum()
            torch.cuda._sleep(1000000)  # longer than the host takes to launch
            begin.record()
            calls[name]()
            end.record()
            torch.cuda.synchronize()
            if r:
                times[name].append(1e3 * begin.elapsed_time(end))
    return {name: statistics.median(t) for name, t in times.items()}


# ---- points: calls by name, bytes, whether the output is right and its error ----

def decode_point(libs, seqs, tokens, heads, kv_heads, dim, page=16, dtype=torch.bfloat16, peer=True, store=None):
    kv = torch.randn(2, seqs, tokens, kv_heads, dim, device="cuda").to(dtype)
    q = torch.randn(seqs, heads, dim, device="cuda").to(dtype)
    calls, outs, back = {}, {}, None
    for name, lib in libs.items():
        calls[name], outs[name], read = attend(lib, q, kv, heads, page, store or dtype)
        back = read if name == "ours" else back
        calls[name]()
    few = q[:2].double().view(-1, kv_heads, heads // kv_heads, dim)
    keys, values = back[0].double(), back[1].double()
    p = torch.softmax(torch.einsum("bhgd,bhnd->bhgn", few, keys) * dim ** -0.5, -1)
    want = torch.einsum("bhgn,bhnd->bhgd", p, values).reshape(-1, heads, dim)
    error = float((outs["ours"][:2].double() - want).norm() / want.norm())
    same = store or torch.equal(back, kv[:, :2].transpose(2, 3).float())
    other = attend(libs["ours"], q, kv, heads, 0 if page else 16, store or dtype)
    other[0]()
    same = same and torch.equal(other[1], outs["ours"])
    if peer:
        k1, v1, q1 = kv[0].transpose(1, 2).contiguous(), kv[1].transpose(1, 2).contiguous(), q[:, :, None]

        def cudnn():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), torch.no_grad():
                return F.scaled_dot_product_attention(q1, k1, v1, enable_gqa=heads != kv_heads)
        try:
            cudnn()
            calls["cudnn"] = cudnn
        except RuntimeError:
            pass
    n_bytes = kv.nbytes // {None: 1, "int8": 2, "int4": 4}[store]
    return calls, n_bytes, (error < 6e-3 and bool(same), "error %.1e%s" % (error, "" if same else " BITS DIFFER"))


class Tree(C.Structure):
    _fields_ = [("parent", PTR), ("k", PTR), ("v", PTR)]


def tree_point(libs, seqs, tokens, rows, heads=32, kv_heads=8, dim=128):
    """A tree of drafts behind each sequence: four roots, and two children of each row."""
    half, group = torch.bfloat16, heads // kv_heads
    kv, new = (torch.randn(2, seqs, t, kv_heads, dim, device="cuda").to(half) for t in (tokens, rows))
    q = torch.randn(seqs, rows, heads, dim, device="cuda").to(half)
    parent = [-1 if i < 4 else (i - 4) // 2 for i in range(rows)]
    calls, outs = {}, {}
    for name, lib in libs.items():
        cache, x, seq, keep = new_cache(lib, kv, heads, 16, half)
        up, n = (C.c_int32 * (seqs * rows))(*parent * seqs), (I64 * seqs)(*[rows] * seqs)
        tree, out = Tree(C.cast(up, PTR), new[0].data_ptr(), new[1].data_ptr()), torch.full_like(q, float("nan"))

        def run(lib=lib, cache=cache, x=x, seq=seq, n=n, tree=tree, out=out, keep=(keep, up)):
            call(lib.ts_kv_attend_tree, cache, C.byref(x), I64(0), I64(seqs), seq, n, C.byref(tree),
                 PTR(q.data_ptr()), PTR(out.data_ptr()), None)
        calls[name], outs[name] = run, out
        run()
    seen = torch.zeros(rows, tokens + rows, dtype=torch.bool, device="cuda")
    seen[:, :tokens] = True
    for i in range(rows):
        j = i
        while j >= 0:
            seen[i, tokens + j] = True
            j = parent[j]
    k1, v1 = (torch.cat(pair, 1).transpose(1, 2).contiguous() for pair in zip(kv, new))
    q1 = q.transpose(1, 2).contiguous()
    mask = torch.where(seen, 0.0, -INF).to(half)
    room = torch.full((rows, -(-(tokens + rows) // 16) * 16), -INF, device="cuda", dtype=half)
    room[:, :tokens + rows] = mask
    mask = room[:, :tokens + rows].expand(seqs, heads, -1, -1)

    def cudnn():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), torch.no_grad():
            return F.scaled_dot_product_attention(q1, k1, v1, attn_mask=mask, enable_gqa=True)
    try:
        cudnn()
        calls["cudnn"] = cudnn
    except RuntimeError:
        pass
    s = torch.einsum("hgrd,htd->hgrt", q1[0].view(kv_heads, group, rows, dim).float(), k1[0].float()) * dim ** -0.5
    p = torch.softmax(s.masked_fill_(~seen, -INF), -1)
    want = torch.einsum("hgrt,htd->hgrd", p, v1[0].float()).reshape(heads, rows, dim).transpose(0, 1)
    error = float((outs["ours"][0].float() - want).norm() / want.norm())
    return calls, kv.nbytes + new.nbytes, (error < 6e-3, "error %.1e" % error)


def layout_of(name, rows, vocab, dtype):
    if name == "random":
        return torch.randn(rows, vocab, device="cuda").to(dtype)
    if name == "constant":
        return torch.full((rows, vocab), 0.5, device="cuda").to(dtype)
    if name == "sparse":
        z = torch.full((rows, vocab), -INF, device="cuda")
        z[:, ::vocab // 10] = 1.0
        return z.to(dtype)
    z = torch.arange(vocab, device="cuda").float() * 1e-3
    return (z if name == "ascending" else -z).expand(rows, -1).to(dtype).contiguous()


def topk_point(libs, rows, vocab, k, layout="random", dtype=torch.float32, peer=True):
    z = layout_of(layout, rows, vocab, dtype)
    calls = {}
    for name, lib in libs.items():
        calls[name], index, prob = top_k(lib, z, k)
        calls[name]()
        if name == "ours":
            got, p = index[[0, -1]].long(), prob[[0, -1]]
    order = torch.sort(z[[0, -1]], dim=1, descending=True, stable=True)[1][:, :k]
    soft = torch.softmax(z[[0, -1]].double(), -1).gather(1, order)
    wrong, off = int((got != order).sum()), float(((p - soft).abs() / soft.clamp_min(1e-30)).max())
    if peer:
        calls["torch"] = lambda: (torch.topk(z, k), torch.logsumexp(z, -1))
    return calls, z.nbytes, (wrong == 0 and off < 1e-4, "%d wrong, prob %.0e" % (wrong, off))


# ---- lines: name, parameter or None, label, point ----

def decode_lines(libs):
    for g in (1, 2, 4, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64):
        yield "heads per KV head", g, "128x4096 %d/1 D128" % g, \
            lambda g=g: decode_point(libs, 128, 4096, g, 1, 128, peer=g in (1, 8, 16, 32, 64))
    for d in (16, 24, 32, 40, 48, 64, 72, 80, 96, 112, 120, 128, 136, 160, 192, 200, 224, 256):
        yield "head dim", d, "16x4096 32/8 D%d" % d, \
            lambda d=d: decode_point(libs, 16, 4096, 32, 8, d, peer=d in (64, 96, 128, 256))
    for t in (64, 256, 1000, 2048, 4096, 8192, 16384, 32768, 65536, 131072):
        yield "length", t, "1x%d 32/8 D128" % t, lambda t=t: decode_point(libs, 1, t, 32, 8, 128)
    for n in (1, 2, 4, 8, 16, 17, 24, 32, 64):
        yield "sequences", n, "%dx1000 32/8 D128" % n, lambda n=n: decode_point(libs, n, 1000, 32, 8, 128)
    for n, t, h, kv in ((16, 4096, 32, 8), (16, 4096, 64, 8), (64, 8192, 32, 8), (64, 2048, 32, 8), (64, 2048, 32, 1)):
        yield "shapes", None, "%dx%d %d/%d D128" % (n, t, h, kv), \
            lambda n=n, t=t, h=h, kv=kv: decode_point(libs, n, t, h, kv, 128)
    for d in (64, 96, 256):
        yield "MQA", None, "32x4096 32/1 D%d" % d, lambda d=d: decode_point(libs, 32, 4096, 32, 1, d)
    for store in ("int8", "int4"):
        for h, kv in ((32, 8), (32, 1)):
            yield "codes", None, "64x2048 %d/%d D128 %s" % (h, kv, store), \
                lambda h=h, kv=kv, s=store: decode_point(libs, 64, 2048, h, kv, 128, peer=False, store=s)
    for h, d in ((9, 128), (32, 128), (32, 96), (32, 72), (12, 256), (32, 200)):
        yield "part of a tile", None, "16x4099 %d/1 D%d" % (h, d), \
            lambda h=h, d=d: decode_point(libs, 16, 4099, h, 1, d)
    for n, t, r in ((1, 128, 16), (1, 1024, 64), (1, 4096, 256), (8, 4096, 64)):
        yield "tree", None, "%dx(%d+%d) 32/8 D128" % (n, t, r), lambda n=n, t=t, r=r: tree_point(libs, n, t, r)


def topk_lines(libs):
    for rows in (1, 8, 16, 32, 33, 64, 65, 66, 67, 96, 132, 133, 200, 256, 264, 265, 384, 512, 1024, 4096):
        yield "rows", rows, "%dx128256 k50 f32" % rows, lambda r=rows: topk_point(libs, r, 128256, 50)
    for rows in (8, 512):
        for k in (1, 10, 50, 64, 65, 128, 256, 257, 512, 1024, 1025, 2048, 4096, 8192):
            yield "k, %d rows" % rows, k, "%dx128256 k%d f32" % (rows, k), lambda r=rows, k=k: topk_point(libs, r, 128256, k)
    for dtype, label in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        for name in ("random", "ascending", "descending", "constant", "sparse"):
            for rows, vocab in ((256, 128256), (4096, 50257), (8, 128256)):
                yield "layout", None, "%dx%d k50 %s %s" % (rows, vocab, label, name), \
                    lambda r=rows, v=vocab, n=name, t=dtype: topk_point(libs, r, v, 50, n, t, peer=n == "random")
    for name in ("ascending", "constant", "sparse"):
        for k in (200, 1024, 2048):
            yield "layout, larger k", None, "256x128256 k%d f32 %s" % (k, name), \
                lambda k=k, n=name: topk_point(libs, 256, 128256, k, n, peer=False)


def cliffs(times):
    """Points of a line, as (parameter, label, microseconds), that are more than 15 % above the curve."""
    points = [(x, t) for x, _, t in times]
    for i, (_, label, t) in enumerate(times):
        expected = curve(points, i)
        if expected and t > 1.15 * expected:
            yield "%s: %.1f us, %.0f %% above the curve" % (label, t, 100 * t / expected - 100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", default="build/libtouchstone.so")
    parser.add_argument("--before")
    parser.add_argument("--only", default="", help="decode or topk")
    parser.add_argument("--line", default="", help="lines whose names begin with this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=600)
    o = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("skipped: no CUDA device")
    libs = {"ours": C.CDLL(o.library)}
    if o.before:
        libs["before"] = C.CDLL(o.before)
    flush = torch.ones(1 << 26, device="cuda")  # 256 MiB, several times the L2 cache
    big = torch.ones(1 << 29, device="cuda")
    rate = big.nbytes / microseconds({"read": lambda: big.sum()}, 7, flush)["read"] / 1e3
    del big
    print("%s, read %.0f GB/s, cold L2, medians of %d" % (torch.cuda.get_device_name(), rate, o.rounds), flush=True)
    bad = skipped = 0
    by_line = {}
    for task, lines in (("decode", decode_lines), ("topk", topk_lines)):
        for line, x, label, make in lines(libs) if o.only in task else ():
            if not line.startswith(o.line):
                continue
            if time.time() - BEGAN > o.seconds:
                skipped += 1
                continue
            calls, n_bytes, (right, note) = make()
            t = microseconds(calls, o.rounds, flush)
            bad += not right
            print("%-6s %-18s %-32s %s  %4.0f %% of read  %s%s" % (
                task, line, label, " ".join("%s %.1f" % v for v in sorted(t.items(), key=lambda v: v[0] != "ours")),
                100 * n_bytes / t["ours"] / 1e3 / rate, note, "" if right else "  WRONG"), flush=True)
            if x is not None:
                by_line.setdefault((task, line), []).append((x, label, t["ours"]))
            del calls
    found = [cliff for times in by_line.values() for cliff in cliffs(times)]
    for cliff in found:
        print("CLIFF", cliff)
    print("%d wrong, %d cliffs, %d skipped, %.0f s" % (bad, len(found), skipped, time.time() - BEGAN))
    sys.exit(bool(bad or found))


if __name__ == "__main__":
    main()
