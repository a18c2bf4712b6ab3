# SPDX-License-Identifier: Apache-2.0
"""method.py - how `make bench-peers` times and checks: CUDA events, medians, outputs compared with
float64.

All methods of one row run in one process, in random order per round; L2 is overwritten before each
call; each output is compared before it is timed."""
import random
import time

import torch

_flush = None


class Method:
    """One implementation of a row: call() runs it, read(result) returns its outputs as {name: tensor}."""

    def __init__(self, call, read=None, part=False):
        self.call, self.read, self.part = call, read, part  # part: does less than the row; shown, never compared


class Case:
    """A row that is ready to run. want: {output: (pick, float64 tensor)}, where pick selects the sample from the
    output; limit: the largest relative error (norm of the difference / norm of the reference) that is timed."""

    def __init__(self, work, unit, ceiling, want, limit, cold=True, us=None):
        self.work, self.unit, self.ceiling, self.want, self.limit, self.cold = work, unit, ceiling, want, limit, cold
        self.us = us  # a method -> us that replaces the events, for what the host takes part in
        self.per = 1  # calls of the kernel in one call of a method
        self.methods, self.failed, self.note, self.keep = {}, {}, "", []

    def add(self, name, make, read=None, part=False):
        """make() returns the call. What a peer does not support is recorded, with its own words."""
        try:
            self.methods[name] = Method(make(), read, part)
        except Exception as error:  # a peer may raise anything
            self.failed[name] = words(error)


def words(error):
    return " ".join(str(error).split())[:160] or type(error).__name__


def relative(got, want):
    got, want = got.double(), want.double()
    return float((got - want).norm() / want.norm().clamp_min(1e-300))


def flush():
    """Reads 256 MB, four times the L2 of an H200."""
    global _flush
    if _flush is None:
        _flush = torch.ones(1 << 26, device="cuda")
    _flush.sum()


def check(case):
    """Runs each method once; keeps those whose outputs are within the limit. Returns {name: error}."""
    errors = {}
    for name in list(case.methods):
        m = case.methods[name]
        try:
            result = m.call()
            torch.cuda.synchronize()
            if m.read is None:
                continue
            out = m.read(result)
            # NaN compares false, so an output that was not written fails
            errors[name] = max(relative(pick(out[k]), ref) if k in out else 0.0 for k, (pick, ref) in case.want.items())
            if not errors[name] <= case.limit:
                case.failed[name] = "wrong: relative error %.1e, limit %.1e" % (errors[name], case.limit)
                del case.methods[name]
        except Exception as error:
            case.failed[name] = words(error)
            del case.methods[name]
            torch.cuda.synchronize()  # raises again if the context is lost
    return errors


def measure(case, rounds, seconds):
    """{method: {us, low, high, n}}: median and quartiles."""
    names, times = list(case.methods), {n: [] for n in case.methods}
    if case.us is not None:
        for _ in range(rounds if rounds < 7 else 7):
            for n in random.sample(names, len(names)):
                times[n].append(case.us(case.methods[n].call))
        return {n: spread(t) for n, t in times.items()}
    host = {n: seconds_to_queue(case.methods[n].call) for n in names}
    begun = time.perf_counter()
    for turn in range(rounds):
        pairs = []
        for n in random.sample(names, len(names)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if case.cold:
                flush()
            # The host has queued the whole call before the device begins with it: 0.25 ms, or twice what that takes.
            torch.cuda._sleep(int(2e9 * max(0.25e-3, 2 * host[n])))
            begin.record()
            case.methods[n].call()
            end.record()
            pairs.append((n, begin, end))
            torch.cuda.synchronize()
        for n, begin, end in pairs:
            times[n].append(begin.elapsed_time(end) * 1e3 / case.per)
        if turn >= 4 and time.perf_counter() - begun > seconds:
            break
    return {n: spread(t) for n, t in times.items()}


def seconds_to_queue(call):
    """The host's share of a call, after a first one."""
    call()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    call()
    took = time.perf_counter() - begun
    torch.cuda.synchronize()
    return took


def spread(times):
    s = sorted(times)
    return {"us": round(s[len(s) // 2], 3), "low": round(s[len(s) // 4], 3), "high": round(s[3 * len(s) // 4], 3),
            "n": len(s)}


def ceilings():
    """Rates of this device in this run: copy and read in GB/s, bf16 matmul in TFLOP/s."""
    n, m = 1 << 28, 8192
    a = torch.rand(n, device="cuda")
    b = torch.empty_like(a)
    x, w = (torch.randn(m, m, device="cuda").bfloat16() for _ in range(2))
    c = torch.empty_like(x)
    case = Case(0, "", "", {}, 0)
    case.add("copy", lambda: lambda: b.copy_(a))
    case.add("read", lambda: lambda: a.sum())
    case.add("matmul", lambda: lambda: torch.mm(x, w.t(), out=c))
    t = measure(case, 9, 3)
    return {"copy": round(8 * n / t["copy"]["us"] / 1e3, 1), "read": round(4 * n / t["read"]["us"] / 1e3, 1),
            "matmul": round(2 * m ** 3 / t["matmul"]["us"] / 1e6, 1)}
