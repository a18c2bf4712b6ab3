# SPDX-License-Identifier: Apache-2.0
"""selftest_common.py - shared by the public self-tests: bf16, comparison, the count. Imported
before the entrant, so that a missing NumPy, torch or GPU is named instead of an import error."""
import inspect
import sys

try:
    import numpy as np
except ImportError:
    sys.exit("selftest: NumPy is needed")

from selftest_device import from_device, skip, to_device

if skip():
    print("SKIPPED: %s; nothing was run" % skip())
    sys.exit(0)
random = np.random.default_rng(0x5eed)
counts = {"cases": 0, "failed": 0}


def sum_bound(n):
    """The error that PROMPT.md allows a sum of n terms, as part of what their magnitudes add up to.
    No bound of a self-test is tighter than what follows from it: else it would reject what the
    judge accepts."""
    return (8 + 2 * np.sqrt(n)) * 2.0**-24


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
    """The output for `like`. Numbers instead of bits are rejected, as by the judge."""
    if like.dtype == np.uint16 and getattr(a, "dtype", None) != np.uint16:
        raise TypeError("expected uint16, the bits of bf16; got %s" % getattr(a, "dtype", type(a).__name__))
    return widen(np.asarray(a))


def empty(shape, kind):
    """All NaN, or an impossible index: what is never written is seen."""
    if kind == "i32":
        return np.full(shape, -0x80000000, np.int32)
    return store(np.full(shape, np.nan, np.float32), kind)


def call(function, arguments, out):
    """Passes the arguments that the function names; what it returns goes into out."""
    given = {name: to_device(value) for name, value in out.items()}
    arguments = dict({n: to_device(v) for n, v in arguments.items()}, out=given)
    names = inspect.signature(function).parameters
    result = function(**{n: v for n, v in arguments.items() if n in names})
    for name, value in given.items():
        if value is not out[name]:
            out[name][...] = from_device(value, out[name])
    for name, value in (result or {}).items():
        if name in out:
            value = from_device(value, out[name])
            returned(value, out[name])
            out[name][...] = value


class Wrong(Exception):
    """Said as it is: the words say what was wrong."""


def is_unwritten(raw):
    """All bits set, or the impossible index, as `empty` left them."""
    if raw.dtype == np.uint16:
        return raw == 0x7fc0
    return np.isnan(raw) if raw.dtype.kind == "f" else raw == -0x80000000


def complain(what, raw, got, value, bound, at):
    where = "%s%s" % (what, list(at))
    bound = float(np.broadcast_to(bound, value.shape)[at])
    if is_unwritten(raw)[at] and not np.isnan(value[at]):
        raise Wrong("%s was not written, or is NaN; expected %.9g" % (where, value[at]))
    if not np.isfinite(value[at]) or np.isnan(got[at]) or bound == 0:
        raise Wrong("%s is %.9g, expected exactly %.9g" % (where, got[at], value[at]))
    raise Wrong("%s is %.9g, expected %.9g: off by %.3g, allowed is %.3g"
                % (where, got[at], value[at], abs(got[at] - value[at]), bound))


def case(name, function, arguments, out, want):
    """want: for each output its values and bounds."""
    counts["cases"] += 1
    try:
        with np.errstate(all="ignore"):
            call(function, arguments, out)
            for what, (value, bound) in want.items():
                got, value = widen(out[what]), np.asarray(value, np.float64)
                right = np.where(np.isfinite(value), np.abs(got - value) <= bound,
                                 (got == value) | (np.isnan(value) & np.isnan(got)))
                if not right.all():
                    at = tuple(int(i) for i in np.argwhere(~right)[0])
                    complain(what, out[what], got, value, bound, at)
    except Exception as error:
        counts["failed"] += 1
        kind = "" if isinstance(error, Wrong) else "raised %s: " % type(error).__name__
        print("FAIL %s: %s%s" % (name, kind, error))


def verdict():
    print("%(cases)d cases, %(failed)d failed" % counts)
    sys.exit(counts["failed"] != 0)
