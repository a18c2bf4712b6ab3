# SPDX-License-Identifier: Apache-2.0
"""ternary_linear.py - ternary layers as in a textbook: weights are projected a group of 128 at
a time, outputs are computed one by one."""
import numpy as np

GROUP = 128


def widen(a):
    """To float64; bf16 comes as its bits."""
    if a.dtype == np.uint16:
        a = (a.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(a, np.float64)


def narrow(a, like):
    """To the dtype of `like`, rounded once."""
    if like.dtype != np.uint16:
        return a.astype(like.dtype)
    f = a.astype(np.float32)
    bits = f.view(np.uint32)  # rounded to odd, so that the second rounding has nothing to go wrong by
    bits = np.where((np.abs(f) > np.abs(a)) & np.isfinite(f), bits - 1, bits) | (f != a)
    return np.where(np.isnan(a), 0x7fc0, (bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def project(w):
    """Codes (rows, groups, 128), 0 behind the row's end, and scales as float16."""
    rows, n = w.shape
    groups = -(-n // GROUP)
    code, scale = np.zeros((rows, groups, GROUP)), np.zeros((rows, groups), np.float16)
    for r in range(rows):
        for g in range(groups):
            part = w[r, g * GROUP:(g + 1) * GROUP].astype(np.float64)
            with np.errstate(all="ignore"):
                scale[r, g] = np.abs(part).mean()
            s = float(scale[r, g])
            if not np.isfinite(s):
                raise ArithmeticError("latents out of range")
            if s > 0:
                code[r, g, :len(part)] = np.where(2 * np.abs(part) <= s, 0, np.sign(part))
    return code, scale


def join(code, scale, n):
    """The effective weights."""
    rows, groups = scale.shape
    return (code * scale.astype(np.float64)[..., None]).reshape(rows, groups * GROUP)[:, :n]


def pack(code):
    rows, groups, _ = code.shape
    points = (code + 1).astype(np.uint8).reshape(rows, groups * GROUP // 4, 4)
    return points[..., 0] | points[..., 1] << 2 | points[..., 2] << 4 | points[..., 3] << 6


def unpack(code, scale, n):
    points = code[..., None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    if (points == 3).any() or not np.isfinite(scale).all():
        raise ValueError("no such code, or no such scale")
    rows, groups = scale.shape
    return join(points.astype(np.float64).reshape(rows, groups, GROUP) - 1, scale, n)


class ternary_linear:
    def pack(self, w):
        code, scale = project(w)
        return pack(code), scale

    def unpack(self, code, scale, n_in):
        return unpack(code, scale, n_in)

    @staticmethod
    def apply(weight, x):
        y = np.zeros((x.shape[0], weight.shape[0]))
        for i, row in enumerate(widen(x)):
            for o in range(weight.shape[0]):
                y[i, o] = weight[o] @ row
        return narrow(y, x)

    def linear(self, w, x):
        return self.apply(join(*project(w), w.shape[1]), x)

    def linear_packed(self, code, scale, x):
        return self.apply(unpack(code, scale, x.shape[1]), x)

    def backward(self, w, x, dy):
        dy = widen(dy)
        return narrow(dy @ join(*project(w), w.shape[1]), x), dy.T @ widen(x)
