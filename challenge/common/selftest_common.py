# SPDX-License-Identifier: Apache-2.0
"""What the public self-tests share: bf16, comparing, the count. Called as the judge calls."""
import inspect
import sys

try:
    import numpy as np
except ImportError:
    sys.exit("selftest: NumPy is needed")

random = np.random.default_rng(0x5eed)
counts = {"cases": 0, "failed": 0}


def store(a, kind):
    """bf16 is passed as its bits, uint16, as the judge does."""
    if kind != "bf16":
        return np.ascontiguousarray(a, np.float32)
    bits = np.asarray(a, np.float32).view(np.uint32)
    return np.where(np.isnan(a), 0x7fc0, (bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widen(a):
    if a.dtype == np.uint16:
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64)


def returned(a, like):
    """What came back, where `like` went in. Numbers instead of bits the judge refuses too."""
    if like.dtype == np.uint16 and getattr(a, "dtype", None) != np.uint16:
        raise TypeError("expected uint16, the bits of bf16; got %s" % getattr(a, "dtype", type(a).__name__))
    return widen(np.asarray(a))


def empty(shape, kind):
    """All NaN, or an impossible index: what is never written is seen."""
    if kind == "i32":
        return np.full(shape, -0x80000000, np.int32)
    return store(np.full(shape, np.nan, np.float32), kind)


def call(function, arguments, out):
    """The arguments that it asks for; what it returns goes into out."""
    arguments = dict(arguments, out=out)
    names = inspect.signature(function).parameters
    result = function(**{n: v for n, v in arguments.items() if n in names})
    for name, value in (result or {}).items():
        if name in out:
            returned(value, out[name])
            out[name][...] = value


def case(name, function, arguments, out, want):
    """want: for each output its values and bounds."""
    counts["cases"] += 1
    try:
        with np.errstate(all="ignore"):
            call(function, arguments, out)
            for what, (value, bound) in want.items():
                got = widen(out[what])
                right = np.where(np.isfinite(value), np.abs(got - value) <= bound,
                                 (got == value) | (np.isnan(value) & np.isnan(got)))
                if not right.all():
                    at = tuple(int(i) for i in np.argwhere(~right)[0])
                    raise ArithmeticError("%s%s is %.9g, expected %.9g"
                                          % (what, list(at), got[at], value[at]))
    except Exception as error:
        counts["failed"] += 1
        print("FAIL %s: %s: %s" % (name, type(error).__name__, error))


def verdict():
    print("%(cases)d cases, %(failed)d failed" % counts)
    sys.exit(counts["failed"] != 0)
