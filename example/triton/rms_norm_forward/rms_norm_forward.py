# SPDX-License-Identifier: Apache-2.0
"""rms_norm_forward.py - rms_norm_forward in Triton: a program per row.

A row that fits into one block is read once and stays in registers. A longer one is read a second
time. Squares and products are doubles, in which no square of a float overflows or underflows."""
import torch
import triton
import triton.language as tl

known = {}  # eps as a double in device memory: Triton passes Python numbers as float32


@triton.jit
def add(x, residual, r, i, n, ADD: tl.constexpr):
    """Elements i of r = x + residual, stored and as doubles."""
    value = tl.load(x + i, mask=i < n, other=0)
    if ADD:  # in float32, from which the sum of two 16-bit numbers rounds to them correctly
        value = value.to(tl.float32) + tl.load(residual + i, mask=i < n, other=0).to(tl.float32)
        value = value.to(r.dtype.element_ty)
        tl.store(r + i, value, mask=i < n)
    return value.to(tl.float64)


@triton.jit
def scale(r, rstd, w, w_offset, y, i, n):
    """Elements i of y, from r as doubles."""
    gain = tl.load(w + i, mask=i < n, other=0).to(tl.float64) + w_offset
    tl.store(y + i, (r * rstd * gain).to(tl.float32).to(y.dtype.element_ty), mask=i < n)


# Compiled once per dtype, block size and kind of call, not for every length and alignment.
@triton.jit(do_not_specialize=["x_stride", "residual_stride", "r_stride", "y_stride", "n", "w_offset"],
            do_not_specialize_on_alignment=["x", "residual", "w", "r", "y", "rstd"])
def one_row(x, residual, w, eps, w_offset, r, y, rstd, x_stride, residual_stride, r_stride, y_stride, n,
            ADD: tl.constexpr, WHOLE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # offsets may pass 2^31
    x += row * x_stride
    residual += row * residual_stride
    r += row * r_stride
    y += row * y_stride
    lane = tl.arange(0, BLOCK)
    if WHOLE:
        sums = add(x, residual, r, lane, n, ADD)
        squares = sums * sums
    else:
        squares = tl.zeros([BLOCK], tl.float64)
        for begin in range(0, n, BLOCK):
            part = add(x, residual, r, begin + lane, n, ADD)
            squares += part * part
    mean = tl.sum(squares, 0) / n
    root = 1 / tl.sqrt(mean + tl.load(eps))
    root = tl.where(mean < float("inf"), root, float("nan"))  # an infinity makes all of the row's y NaN
    if WHOLE:
        scale(sums, root, w, w_offset, y, lane, n)
    else:
        tl.debug_barrier()  # r was written by other threads
        for begin in range(0, n, BLOCK):
            i = begin + lane
            part = tl.load((r if ADD else x) + i, mask=i < n, other=0).to(tl.float64)
            scale(part, root, w, w_offset, y, i, n)
    tl.store(rstd + row, root.to(tl.float32))


def rms_norm_forward(w, eps, w_offset, out, x=None, residual=None):
    if w.dtype == torch.float64:
        raise NotImplementedError  # f64 is optional
    y = out["y"]
    r = out["r"] if residual is not None else y  # without a residual r is not written
    x = r if x is None else x  # in place
    n_rows, n = y.shape
    if n_rows == 0:
        return
    if eps not in known:
        known[eps] = torch.tensor([eps], dtype=torch.float64, device=w.device)
    block = 1024 if n <= 1024 else 8192
    one_row[(n_rows,)](x, x if residual is None else residual, w, known[eps], w_offset, r, y, out["rstd"],
                       x.stride(0), x.stride(0) if residual is None else residual.stride(0), r.stride(0),
                       y.stride(0), n, ADD=residual is not None, WHOLE=n <= block, BLOCK=block,
                       num_warps=4 if block == 1024 else 8)
