#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sweep_cpu.py - sweeps one parameter of a CPU kernel at a time and reports the points that are out
of line.

    sweep_cpu.py [--library build/libtouchstone.so] [--kernel NAME] [--line NAME] [--seconds N] [--json FILE]

One thread. A point's cost is the least CPU time of several calls, divided by the work of a call (elements, or
multiplications), so that a line of equal cost is flat. Its curve runs through a point's two neighbours, straight in the
logarithm of the parameter; a point more than 15 % above both that curve and the same point measured again is a cliff,
and the exit status is 1 then. Every line prints its worst and its median cost relative to its best point.
Only NumPy is needed."""
import argparse
import ctypes as C
import json
import math
import statistics
import sys
import time

import numpy as np

I64, PTR = C.c_int64, C.c_void_p
TYPES = {"i": C.c_int, "q": I64, "d": C.c_double, "p": PTR, "z": C.c_size_t}
EXEC = "device:i n_threads:i deterministic:i stream:p workspace:p workspace_bytes:z"
KINDS = {"f32": (0, np.float32), "f16": (2, np.float16), "bf16": (3, np.uint16), "int8": (4, None), "int4": (5, None)}
RANDOM = np.random.default_rng(1)


def structure(fields):
    """A ctypes structure from "name:type ..." in the order of the C struct."""
    members = [(name, TYPES[kind]) for name, kind in (f.split(":") for f in fields.split())]
    return type("Args", (C.Structure,), {"_fields_": members})


def address(v):
    return v.ctypes.data if isinstance(v, np.ndarray) else v


def draw(dtype, *shape, offset=0):
    """Normal numbers in this dtype, `offset` elements after a 64-byte boundary."""
    n, (_, kind) = math.prod(shape), KINDS[dtype]
    room = np.empty(n * np.dtype(kind).itemsize + offset * np.dtype(kind).itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64 + offset * np.dtype(kind).itemsize
    out = room[start:start + n * np.dtype(kind).itemsize].view(kind).reshape(shape)
    x = RANDOM.standard_normal(n, np.float32)
    out[...] = ((x.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bf16" else x.astype(kind)).reshape(shape)
    return out


def check(status):
    if status:
        Call.library.ts_status_text.restype = C.c_char_p
        raise RuntimeError(Call.library.ts_status_text(status).decode())


class Call:
    """ts_NAME with arguments that are kept, and a workspace."""
    library = None

    def __init__(self, name, fields, *values):
        self.keep, size = values, C.c_size_t()
        self.args = structure(fields)(*map(address, values))
        self.exec = structure(EXEC)(0, 1, 0, None, None, 0)
        self.run = getattr(self.library, "ts_" + name)
        check(getattr(self.library, "ts_%s_workspace" % name)(C.byref(self.args), C.byref(self.exec), C.byref(size)))
        self.space = np.empty(size.value + 64, np.uint8)
        self.exec.workspace, self.exec.workspace_bytes = self.space.ctypes.data, size.value

    def __call__(self):
        check(self.run(C.byref(self.args), C.byref(self.exec)))


# ---- kernels: a point (a dict) becomes a call and its work ----

def layernorm(p, backward):
    rows, cols, kind = p["rows"], p["cols"], KINDS[p["dtype"]][0]
    x, y, dy = (draw(p["dtype"], rows, cols, offset=p.get("offset", 0)) for _ in range(3))
    g, b, mean, rstd = draw(p["dtype"], cols), draw(p["dtype"], cols), draw("f32", rows), draw("f32", rows)
    forward = Call("layernorm_forward", "t:i n:q c:q s:q eps:d x:p g:p b:p y:p m:p r:p", kind, rows, cols, cols, 1e-5, x, g, b,
                   y, mean, rstd)
    if not backward:
        return forward, rows * cols
    forward()
    return Call("layernorm_backward", "t:i a:i n:q c:q s:q x:p dy:p g:p m:p r:p dx:p dg:p db:p", kind, 0, rows, cols, cols, x,
                dy, g, mean, rstd, y, draw("f32", cols), draw("f32", cols)), rows * cols


def rms_norm(p, backward):
    rows, cols, kind = p["rows"], p["cols"], KINDS[p["dtype"]][0]
    x, e, r, y, dy, dr = (draw(p["dtype"], rows, cols, offset=p.get("offset", 0)) for _ in range(6))
    w, rstd = draw(p["dtype"], cols), draw("f32", rows)
    forward = Call("rms_norm_forward", "t:i o:i n:q c:q s:q eps:d x:p e:p w:p r:p y:p d:p", kind, 0, rows, cols, cols, 1e-5, x,
                   e, w, r, y, rstd)
    if not backward:
        return forward, rows * cols
    forward()
    return Call("rms_norm_backward", "t:i o:i a:i n:q c:q s:q r:p dy:p dr:p w:p d:p dx:p dw:p", kind, 0, 0, rows, cols, cols, r,
                dy, dr, w, rstd, y, draw("f32", cols)), rows * cols


def softmax_topk(p):
    rows, vocab, k, kind = p["rows"], p["vocab"], p["k"], KINDS[p["dtype"]][0]
    z = draw(p["dtype"], rows, vocab)
    if p.get("layout") == "ascending":
        z.sort(axis=1)  # bf16: by bits, which is ascending up to the sign
    if p.get("layout") == "descending":
        z[...] = np.sort(z, axis=1)[:, ::-1]
    if p.get("layout") == "equal":
        z[...] = 0
    if p.get("layout") == "sparse":
        z[:, np.arange(vocab) % (vocab // 11) != 0] = 0xff80 if p["dtype"] == "bf16" else -np.inf
    return Call("softmax_topk", "t:i n:q v:q s:q k:q i:d z:p x:p p:p l:p", kind, rows, vocab, vocab, k, 1.0, z,
                np.empty((rows, k), np.int32), np.empty((rows, k), np.float32), np.empty(rows, np.float32)), rows * vocab


def attention(p, backward):
    n, heads, kv, dim, kind = p["n"], p["heads"], p.get("kv", p["heads"]), p["dim"], KINDS[p["dtype"]][0]
    q, o, do, dq = (draw(p["dtype"], heads, n, dim) for _ in range(4))
    k, v, dk, dv = (draw(p["dtype"], kv, n, dim) for _ in range(4))
    lse = np.empty((heads, n), np.float32)
    fields = "t:i l:i c:i b:q nq:q nk:q hq:q hk:q d:q w:q tq:q tk:q s:d"
    dims = (kind, 0, 1, 1, n, n, heads, kv, dim, 0, 0, 0, dim ** -0.5)
    forward = Call("flash_attention", fields + " q:p k:p v:p m:p o:p e:p", *dims, q, k, v, None, o, lse)
    if not backward:
        return forward, heads * n * n * dim
    forward()
    return Call("flash_attention_backward", fields + " q:p k:p v:p o:p do:p e:p m:p dq:p dk:p dv:p", *dims, q, k, v, o, do, lse,
                None, dq, dk, dv), heads * n * n * dim


class Decode:
    """One query token per sequence over a cache that is full."""
    fields = ("layer:q seqs:q hq:q hk:q d:q cap:q page:q pages:q window:q sink:q group:q most:q axis:i io:i store:i meta:i "
              "scale:d")

    def __init__(self, p):
        lib, n, tokens, heads, kv, dim = Call.library, p.get("seqs", 1), p["tokens"], p["heads"], p["kv"], p["dim"]
        kind, state, work = KINDS[p["dtype"]][0], C.c_size_t(), C.c_size_t()
        store = KINDS[p.get("store", p["dtype"])][0]
        d = structure(self.fields)(1, n, heads, kv, dim, tokens, 0, 0, 0, 0, dim, tokens, 0, kind, store, 0, dim ** -0.5)
        self.exec = structure(EXEC)(0, 1, 0, None, None, 0)
        check(lib.ts_kv_bytes(C.byref(d), C.byref(self.exec), C.byref(state), C.byref(work)))
        self.memory, self.space, self.cache = np.empty(state.value + 64, np.uint8), np.empty(work.value + 64, np.uint8), PTR()
        self.exec.workspace, self.exec.workspace_bytes = self.space.ctypes.data, work.value
        check(lib.ts_kv_create(C.byref(d), C.byref(self.exec), PTR(self.memory.ctypes.data), state, C.byref(self.cache)))
        self.seq, self.ones, self.n = (C.c_int32 * n)(), (I64 * n)(*[1] * n), n
        k, v = draw(p["dtype"], tokens, kv, dim), draw(p["dtype"], tokens, kv, dim)
        for i in range(n):
            one = C.c_int32()
            check(lib.ts_kv_open(self.cache, C.byref(self.exec), C.byref(one)))
            self.seq[i] = one.value
            check(lib.ts_kv_append(self.cache, C.byref(self.exec), I64(0), I64(1), C.byref(one), (I64 * 1)(tokens),
                                   PTR(k.ctypes.data), PTR(v.ctypes.data)))
        self.q = draw(p["dtype"], n, heads, dim)
        self.out = np.empty_like(self.q)

    def __call__(self):
        check(Call.library.ts_kv_attend(self.cache, C.byref(self.exec), I64(0), I64(self.n), self.seq, self.ones,
                                        PTR(self.q.ctypes.data), PTR(self.out.ctypes.data), None))

    def __del__(self):
        Call.library.ts_kv_destroy(C.byref(self.cache))


def decode(p):
    return Decode(p), p.get("seqs", 1) * p["tokens"] * p["heads"] * p["dim"]


def ternary(p):
    rows, n_out, n_in, kind = p["rows"], p["out"], p["inner"], KINDS[p["dtype"]][0]
    groups, w = -(-n_in // 128), draw("f32", n_out, n_in)
    code, scale = np.empty((n_out, groups * 32), np.uint8), np.empty((n_out, groups), np.uint16)
    dims = "t:i o:q i:q n:q"
    Call("ternary_pack", dims + " w:p c:p s:p", kind, n_out, n_in, 0, w, code, scale)()
    return Call("ternary_linear_packed", dims + " c:p s:p x:p y:p", kind, n_out, n_in, rows, code, scale,
                draw(p["dtype"], rows, n_in), draw(p["dtype"], rows, n_out)), rows * n_out * n_in


# ---- lines: name, parameter, points ----

def powers(low, high):
    """Powers of two and what is between them."""
    n = low
    while n <= high:
        yield n
        if n * 3 // 2 <= high and n > 1:
            yield n * 3 // 2
        n *= 2


def norm_lines():
    for t in "f32", "bf16":
        yield "columns", "cols", [{"dtype": t, "rows": max(1, (1 << 19) // c), "cols": c} for c in powers(64, 65536)]
        yield "rows", "rows", [{"dtype": t, "rows": r, "cols": 1024} for r in powers(1, 4096)]
        yield "odd columns", "cols", [{"dtype": t, "rows": 256, "cols": c} for c in range(1016, 1034)]
        yield "offset", "offset", [{"dtype": t, "rows": 256, "cols": 1024, "offset": o} for o in range(9)]


def topk_lines():
    for t in "f32", "bf16":
        yield "vocabulary", "vocab", [{"dtype": t, "rows": 4, "vocab": v, "k": 50} for v in powers(1024, 131072)]
        yield "k", "k", [{"dtype": t, "rows": 2, "vocab": 32000, "k": k} for k in powers(1, 8192)]
        yield "rows", "rows", [{"dtype": t, "rows": r, "vocab": 8192, "k": 50} for r in powers(1, 256)]
    for layout in "random", "ascending", "descending", "equal", "sparse":
        yield "layout " + layout, None, [{"dtype": "f32", "rows": 2, "vocab": v, "k": 50, "layout": layout} for v in (32000, 128256)]


def attention_lines():
    for t in "f32", "bf16":
        yield "head dim", "dim", [{"dtype": t, "n": 256, "heads": 2, "dim": d} for d in range(16, 257, 16)]
        yield "length", "n", [{"dtype": t, "n": n, "heads": 2, "dim": 64} for n in powers(16, 1024)]
        yield "heads per KV head", "heads", [{"dtype": t, "n": 128, "heads": h, "kv": 1, "dim": 64} for h in powers(1, 64)]


def decode_lines():
    for t in "f32", "bf16":
        yield "length", "tokens", [{"dtype": t, "tokens": n, "heads": 8, "kv": 2, "dim": 128} for n in powers(64, 16384)]
        yield "head dim", "dim", [{"dtype": t, "tokens": 2048, "heads": 8, "kv": 2, "dim": d} for d in range(16, 257, 16)]
        yield "heads per KV head", "heads", [{"dtype": t, "tokens": 2048, "heads": h, "kv": 1, "dim": 128} for h in powers(1, 64)]
    for store in "int8", "int4":
        yield "length, " + store, "tokens", [{"dtype": "bf16", "store": store, "tokens": n, "heads": 8, "kv": 2, "dim": 128}
                                             for n in powers(64, 16384)]


def ternary_lines():
    yield "rows", "rows", [{"dtype": "f32", "rows": r, "out": 1024, "inner": 1024} for r in powers(1, 256)]
    yield "inputs", "inner", [{"dtype": "f32", "rows": 1, "out": 1024, "inner": n} for n in powers(128, 8192)]


KERNELS = {
    "layernorm_forward": (lambda p: layernorm(p, False), norm_lines),
    "layernorm_backward": (lambda p: layernorm(p, True), norm_lines),
    "rms_norm_forward": (lambda p: rms_norm(p, False), norm_lines),
    "rms_norm_backward": (lambda p: rms_norm(p, True), norm_lines),
    "softmax_topk": (softmax_topk, topk_lines),
    "flash_attention": (lambda p: attention(p, False), attention_lines),
    "flash_attention_backward": (lambda p: attention(p, True), attention_lines),
    "kv_cache": (decode, decode_lines),
    "ternary_linear": (ternary, ternary_lines),
}


# ---- timing ----

def cost(call, work, seconds):
    """The least CPU time of a call over its work, in ns; short calls are repeated within a reading of the clock."""
    call()
    begin = time.thread_time()
    call()
    once = max(time.thread_time() - begin, 1e-7)
    repeat = max(1, int(2e-4 / once))
    best, until, n = math.inf, time.thread_time() + seconds, 0
    while n < 3 or (time.thread_time() < until and n < 60):
        begin = time.thread_time()
        for _ in range(repeat):
            call()
        best, n = min(best, (time.thread_time() - begin) / repeat), n + 1
    return 1e9 * best / work


def expected(points, i):
    """What the neighbours of point i predict; at the ends of a line there is nothing to predict from."""
    if not 0 < i < len(points) - 1:
        return math.inf
    (x0, t0), (x, _), (x1, t1) = points[i - 1:i + 2]
    w = (math.log(x + 1) - math.log(x0 + 1)) / (math.log(x1 + 1) - math.log(x0 + 1))
    return math.exp((1 - w) * math.log(t0) + w * math.log(t1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--library", default="build/libtouchstone.so")
    parser.add_argument("--kernel", default="", help="kernels whose names contain this")
    parser.add_argument("--line", default="", help="lines whose names begin with this")
    parser.add_argument("--seconds", type=float, default=0.02, help="per point (default 0.02)")
    parser.add_argument("--above", type=float, default=15.0, help="percent above the curve (default 15)")
    parser.add_argument("--few", action="store_true", help="only the first three points of each line: does it run?")
    parser.add_argument("--json", help="write all points to this file")
    o = parser.parse_args()
    Call.library = C.CDLL(o.library)
    results, cliffs = [], 0
    for name, (make, lines) in KERNELS.items():
        for line, parameter, points in lines() if o.kernel in name else ():
            if not line.startswith(o.line):
                continue
            points = points[:3] if o.few else points
            times = [(p[parameter] if parameter else 1, cost(*make(p), o.seconds)) for p in points]
            found = []
            for i, p in enumerate(points):
                if times[i][1] > expected(times, i) * (1 + o.above / 100):  # once more, with its neighbours: noise goes away
                    for k in (i - 1, i, i + 1):
                        times[k] = times[k][0], min(times[k][1], cost(*make(points[k]), 4 * o.seconds))
                above = times[i][1] / expected(times, i) - 1
                if 100 * above > o.above:
                    found.append("%s=%s %.0f %%" % (parameter, p[parameter], 100 * above))
                results.append({"kernel": name, "line": line, **p, "ns": times[i][1], "above": above if above > -1 else None})
            best = min(t for _, t in times)
            cliffs += len(found)
            print("%-24s %-22s %-4s best %8.4f ns, median %5.2f, worst %6.2f times that%s" % (
                name, line, points[0]["dtype"], best, statistics.median(t for _, t in times) / best,
                max(t for _, t in times) / best, "  CLIFFS: " + ", ".join(found) if found else ""), flush=True)
    print("%d points, %d cliffs" % (len(results), cliffs))
    if o.json:
        with open(o.json, "w") as f:
            json.dump(results, f)
    sys.exit(cliffs > 0)


if __name__ == "__main__":
    main()
