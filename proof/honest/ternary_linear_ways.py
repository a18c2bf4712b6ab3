# SPDX-License-Identifier: Apache-2.0
"""ternary_linear_ways.py - ternary layers in float32, or of float64 in float64, by textbook formulas.

Weights unpacked and multiplied, with the scale in the weight or after the sum of a group; sums of the inputs with code
+1 minus those with -1; tables of the sums of four inputs; one loop over inputs; einsum. The mean of a group in double,
or in float as PyTorch has it; codes by a comparison, or by rounding w / s or w (1 / s).

Common ways: matmul scale_last plus_minus tables loop einsum float_mean rounded inverse
"""
import numpy as np

GROUP = 128


def widen(a):
    """To float32, or float64 as it is; bf16 comes as its bits."""
    if a.dtype == np.uint16:
        return (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float64 if a.dtype == np.float64 else np.float32)


def narrow(a, like):
    if like.dtype != np.uint16:
        return a.astype(like.dtype)
    bits = a.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(a), 0x7fc0, (bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def project(w):
    """Codes (rows, groups, 128), 0 behind the row's end, and scales as float16."""
    rows, n = w.shape
    groups = -(-n // GROUP)
    f = np.float32 if WAY in ("float_mean", "inverse", "loop") else np.float64
    padded = np.zeros((rows, groups * GROUP), f)
    padded[:, :n] = w
    padded = padded.reshape(rows, groups, GROUP)
    sizes = np.minimum(GROUP, n - GROUP * np.arange(groups)).astype(f)
    with np.errstate(all="ignore"):
        if WAY == "loop" and n:
            total = np.cumsum(np.abs(padded), axis=-1, dtype=f)[..., -1]
        else:
            total = np.abs(padded).sum(-1, dtype=f)
        scale = (total / sizes).astype(np.float16)
    if not np.isfinite(scale).all():
        raise ArithmeticError("latents out of range")
    s = scale.astype(f)[..., None]
    with np.errstate(all="ignore"):
        if WAY == "rounded":
            code = np.clip(np.rint(padded / s), -1, 1)
        elif WAY == "inverse":
            code = np.clip(np.rint(padded * (1 / s)), -1, 1)
        else:
            code = np.where(2 * np.abs(padded) <= s, 0, np.sign(padded))
    return np.where(s == 0, 0, code), scale


def unpack(code, scale):
    points = code[..., None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    if (points == 3).any() or not np.isfinite(scale).all():
        raise ValueError("no such code, or no such scale")
    return points.astype(np.float64).reshape(*scale.shape, GROUP) - 1


def grouped(x, groups):
    """Inputs (rows, groups, 128), 0 behind the row's end."""
    padded = np.zeros((len(x), groups * GROUP), x.dtype)
    padded[:, :x.shape[1]] = x
    return padded.reshape(len(x), groups, GROUP)


def weights(code, scale, n, f):
    rows, groups = scale.shape
    return (code * scale.astype(np.float64)[..., None]).reshape(rows, groups * GROUP)[:, :n].astype(f)


def tables(x, code):
    """Sums of a group by looking up those of four inputs: 3^4 entries for each four."""
    four = x.reshape(*x.shape[:2], GROUP // 4, 4)
    digits = np.array(np.meshgrid(*[[-1, 0, 1]] * 4, indexing="ij")).reshape(4, 81).astype(x.dtype)
    table = four @ digits
    at = (code.reshape(*code.shape[:2], GROUP // 4, 4) + 1) @ np.array([27, 9, 3, 1])
    out = np.zeros((len(x), len(code), x.shape[1]), x.dtype)
    for o in range(len(code)):
        out[:, o] = np.take_along_axis(table, at[o].astype(int)[None, ..., None], 3)[..., 0].sum(-1)
    return out


def forward(x, code, scale):
    like, x = x, widen(x)
    n, f = x.shape[1], x.dtype
    if WAY in ("scale_last", "plus_minus", "tables") and code.size and x.size:
        parts, code = grouped(x, scale.shape[1]), code.astype(f)
        if WAY == "tables":
            sums = tables(parts, code)
        elif WAY == "plus_minus":
            sums = (np.einsum("rgi,ogi->rog", parts, (code > 0).astype(f))
                    - np.einsum("rgi,ogi->rog", parts, (code < 0).astype(f)))
        else:
            sums = np.einsum("rgi,ogi->rog", parts, code)
        return narrow((sums * scale.astype(f)).sum(-1, dtype=f), like)
    return narrow(product(x, weights(code, scale, n, f).T), like)


def product(a, b):
    if WAY == "einsum":
        return np.einsum("ik,kj->ij", a, b)
    if WAY != "loop":
        return a @ b
    c = np.zeros((len(a), b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        c += a[:, k:k + 1] * b[k]
    return c


class ternary_linear:
    def pack(self, w):
        code, scale = project(w)
        points = (code + 1).astype(np.uint8).reshape(len(w), code.shape[1] * GROUP // 4, 4)
        return points[..., 0] | points[..., 1] << 2 | points[..., 2] << 4 | points[..., 3] << 6, scale

    def unpack(self, code, scale, n_in):
        return weights(unpack(code, scale), scale, n_in, np.float64)

    def linear(self, w, x):
        return forward(x, *project(w))

    def linear_packed(self, code, scale, x):
        return forward(x, unpack(code, scale), scale)

    def backward(self, w, x, dy):
        d, own = widen(dy), weights(*project(w), w.shape[1], widen(x).dtype)
        return narrow(product(d, own), x), product(d.T, widen(x))
