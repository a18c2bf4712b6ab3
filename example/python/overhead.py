# SPDX-License-Identifier: Apache-2.0
"""overhead.py - times a call of a 1 x 4096 layer norm from Python, next to torch: the cost of a
call beyond the kernel.

Time is the calling thread's CPU time, the best of many short rounds in which all calls take turns,
with one thread. On CUDA it is until the launch returns, without waiting for the device."""
import sys
import time

import numpy as np

import touchstone as ts
from touchstone._native import function

ROUNDS, CALLS = (2, 20) if "--quick" in sys.argv else (600, 50)


def numpy_calls():
    x, w, b = np.ones((1, 4096), np.float32), np.ones(4096, np.float32), np.zeros(4096, np.float32)
    y = np.empty_like(x)
    yield "numpy", "touchstone.layer_norm", lambda: ts.layer_norm(x, w, b)
    yield "numpy", "touchstone.layer_norm, out=", lambda: ts.layer_norm(x, w, b, out=y)


def torch_calls(torch, device):
    import touchstone.torch as tt
    theirs = torch.nn.functional.layer_norm
    x, w, b = torch.ones(1, 4096, device=device), torch.ones(4096, device=device), torch.zeros(4096, device=device)
    y, call, recorded = torch.empty_like(x), function("layer_norm"), torch.ones(1, 4096, device=device, requires_grad=True)
    name = "torch, " + device
    yield name, "the C module's function", lambda: call(x, w, b, 1e-5, y, None, None)
    yield name, "touchstone.layer_norm, out=", lambda: ts.layer_norm(x, w, b, out=y)
    yield name, "touchstone.layer_norm", lambda: ts.layer_norm(x, w, b)
    yield name, "touchstone.torch.layer_norm", lambda: tt.layer_norm(x, w, b)
    yield name, "torch.ops.touchstone.layer_norm", lambda: torch.ops.touchstone.layer_norm(x, w, b, 1e-5)
    yield name, "torch.nn.functional.layer_norm", lambda: theirs(x, (4096,), w, b)
    yield name, "touchstone.layer_norm, with gradient", lambda: ts.layer_norm(recorded, w, b)
    yield name, "torch.nn.functional.layer_norm, with gradient", lambda: theirs(recorded, (4096,), w, b)


calls = list(numpy_calls())
try:
    import torch
    torch.set_num_threads(1)
    calls += torch_calls(torch, "cpu")
    if torch.cuda.is_available() and ts.cuda_unavailable_reason() is None:
        calls += torch_calls(torch, "cuda")
except ImportError:
    pass
ts.set_num_threads(1)
best = [float("inf")] * len(calls)
for _ in range(ROUNDS):
    for i, (_, _, f) in enumerate(calls):
        f()
        begin = time.thread_time()
        for _ in range(CALLS):
            f()
        best[i] = min(best[i], (time.thread_time() - begin) / CALLS)
print("| arrays | call | us |\n|-|-|-|")
for (arrays, name, _), seconds in zip(calls, best):
    print("| %s | `%s` | %.1f |" % (arrays, name, 1e6 * seconds))
