# SPDX-License-Identifier: Apache-2.0
"""selftest.py - public cases for rms_norm_backward against the definition in double."""
from selftest_common import case, empty, np, random, store, verdict, widen
from rms_norm_backward import rms_norm_backward


def expected(r, dy, dr, w, rstd, before, u):
    """w has its offset."""
    s = rstd[:, None]
    rhat, g = r * s, dy * w
    dx = s * (g - rhat * (g * rhat).mean(axis=1, keepdims=True)) + dr
    size = s * (np.abs(g) + np.abs(rhat) * np.abs(g * rhat).mean(axis=1, keepdims=True)) + np.abs(dr)
    return {"dx": (dx, u * np.abs(dx) + 1e-5 * size),
            "dw": (before + (dy * rhat).sum(axis=0), 1e-5 * (before + np.abs(dy * rhat).sum(axis=0)))}


def run(kind, u, rows, cols, flags):
    w_offset, accumulate, has_dr = flags & 1, flags >> 1 & 1, flags >> 2
    r, dy, dr = (store(random.standard_normal((rows, cols)), kind) for _ in range(3))
    w = store(random.standard_normal(cols) * (np.arange(cols) % 3 > 0), kind)
    rstd = (1 / np.sqrt((widen(r) ** 2).mean(axis=1) + 1e-6)).astype(np.float32)
    arguments = {"r": r, "dy": dy, "w": w, "rstd": rstd, "w_offset": w_offset, "accumulate": accumulate}
    if has_dr:
        arguments["dr"] = dr
    out = {"dx": empty((rows, cols), kind), "dw": empty((cols,), "f32")}
    if accumulate:
        out["dw"][...] = 2
    case("%s rows=%d cols=%d w_offset=%d accumulate=%d dr=%d"
         % (kind, rows, cols, w_offset, accumulate, has_dr), rms_norm_backward, arguments, out,
         expected(widen(r), widen(dy), has_dr * widen(dr), widen(w) + w_offset, widen(rstd),
                  2 * accumulate, u))


for kind, u in ("f32", 1e-5), ("bf16", 4e-3):
    for rows, cols in (0, 16), (1, 1), (3, 2), (5, 7), (17, 33), (2, 1025), (300, 64):
        for flags in range(8):
            run(kind, u, rows, cols, flags)
verdict()
