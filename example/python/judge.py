# SPDX-License-Identifier: Apache-2.0
"""judge.py - judges two NumPy functions from Python: one whose variance cancels, and the repaired one.

The judge runs each in a sandboxed process, on cases and bounds of its own. `timing=False` leaves out the timing."""
import numpy as np

import touchstone as ts


def widen(a):
    """Computes in double. bfloat16 comes as uint16, its bits."""
    if a.dtype == np.float64:
        raise NotImplementedError("f64 is optional")
    if a.dtype == np.uint16:
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64)


def store(to, a):
    """Rounds once, to nearest even."""
    if to.dtype == np.uint16:
        bits = a.astype(np.float32).view(np.uint32)
        a = np.where(np.isnan(a), 0x7fc0, (bits + 0x7fff + (bits >> 16 & 1)) >> 16)
    to[...] = a


@ts.entrant("layernorm_forward")
def naive(x, gamma, beta, eps, out):
    x = widen(x).astype(np.float32)
    mean = x.mean(axis=1, keepdims=True)
    var = (x * x).mean(axis=1, keepdims=True) - mean * mean  # cancels where the mean is large
    rstd = 1 / np.sqrt(np.maximum(var, 0) + eps)
    store(out["y"], (x - mean) * rstd * widen(gamma) + widen(beta))
    out["mean"][...], out["rstd"][...] = mean[:, 0], rstd[:, 0]


@ts.entrant("layernorm_forward")
def repaired(x, gamma, beta, eps, out):
    x = widen(x)
    mean = x.mean(axis=1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt(var + eps)
    store(out["y"], (x - mean) * rstd * widen(gamma) + widen(beta))
    out["mean"][...], out["rstd"][...] = mean[:, 0], rstd[:, 0]


passed = []
for entrant in naive, repaired:
    verdict = entrant.judge(timing=False, depth="quick")
    passed.append(verdict.passed)
    print("%s: %s" % (verdict.entrant, verdict.verdict))
    if not verdict:
        print("  %s" % verdict.flaws[0])  # the element, its value, the expected one and the case
        again = entrant.judge(case=verdict.replay)  # the case that failed, alone
        print("  its case alone: %s" % again.verdict)
assert passed == [False, True], "the judge found otherwise"
