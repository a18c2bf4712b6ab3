# SPDX-License-Identifier: Apache-2.0
"""test_cuda_judge.py - A Triton kernel in a Python function, judged on the GPU: the correct one
passes, the wrong one is told why."""
import pytest

torch, triton = pytest.importorskip("torch"), pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

import touchstone  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available() or touchstone.cuda_unavailable_reason() is not None,
                                reason="no GPU, or no CUDA module")
BLOCK = 1024
CASE = "layernorm_forward/bf16/rows=8,cols=785,pad=17,eps=-12/tiny@0xa40f0fe2d4f480b3"  # all cases take minutes


@triton.jit(do_not_specialize=["x_stride", "y_stride", "n"],
            do_not_specialize_on_alignment=["x", "gamma", "beta", "y", "mean", "rstd"])
def rows(x, gamma, beta, eps, y, mean, rstd, x_stride, y_stride, n, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_stride
    y += row * y_stride
    lane = tl.arange(0, WIDTH)
    total = tl.zeros([WIDTH], tl.float64)
    for begin in range(0, n, WIDTH):
        i = begin + lane
        total += tl.load(x + i, mask=i < n, other=0).to(tl.float64)
    m = tl.sum(total, 0) / n
    total = tl.zeros([WIDTH], tl.float64)
    for begin in range(0, n, WIDTH):
        i = begin + lane
        d = tl.where(i < n, tl.load(x + i, mask=i < n, other=0).to(tl.float64) - m, 0.0)
        total += d * d
    r = 1 / tl.sqrt(tl.sum(total, 0) / n + tl.load(eps))
    for begin in range(0, n, WIDTH):
        i = begin + lane
        here = i < n
        d = tl.load(x + i, mask=here, other=0).to(tl.float64) - m
        g = tl.load(gamma + i, mask=here, other=0).to(tl.float64)
        b = tl.load(beta + i, mask=here, other=0).to(tl.float64)
        tl.store(y + i, (d * r * g + b).to(tl.float32).to(y.dtype.element_ty), mask=here)
    tl.store(mean + row, m.to(tl.float32))
    tl.store(rstd + row, r.to(tl.float32))


def launch(x, gamma, beta, eps, out):
    if x.dtype == torch.float64:
        raise NotImplementedError
    y = out["y"]
    if x.shape[0]:
        rows[(x.shape[0],)](x, gamma, beta, torch.full((1,), eps, dtype=torch.float64, device=x.device), y, out["mean"],
                            out["rstd"], x.stride(0), y.stride(0), x.shape[1], WIDTH=BLOCK, num_warps=4)


@touchstone.entrant("layernorm_forward")
def correct(x, gamma, beta, eps, out):
    launch(x, gamma, beta, eps, out)


@touchstone.entrant("layernorm_forward")
def wrong(x, gamma, beta, eps, out):
    launch(x, gamma, gamma, eps, out)


@pytest.mark.parametrize("entrant", [correct, wrong], ids=["correct", "wrong"])
def test_a_triton_kernel(entrant):
    try:
        verdict = touchstone.judge(entrant, case=CASE)
    except touchstone.JudgeError as error:
        if "missing" in str(error):
            pytest.skip(str(error))
        raise
    print(verdict)
    assert verdict.passed == (entrant is correct), verdict
    assert [f.split(":")[0] for f in verdict.flaws] == (["value"] if entrant is wrong else []), verdict
