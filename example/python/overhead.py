# SPDX-License-Identifier: Apache-2.0
"""overhead.py - time of a call of a 1 x 4096 layer norm from Python, next to torch: what a call costs beyond
the kernel. On CUDA the time is until the launch returns, without waiting for the device."""
import sys
import time

import numpy as np

import touchstone as ts
from touchstone._native import function

ROUNDS, CALLS = 15, 2000


def best(f):
    """Microseconds per call: the best of several rounds."""
    for _ in range(200):
        f()
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            f()
        found.append((time.perf_counter() - begin) / CALLS)
    return 1e6 * min(found)


def rows():
    x, w, b = np.ones((1, 4096), np.float32), np.ones(4096, np.float32), np.zeros(4096, np.float32)
    y = np.empty_like(x)
    yield "numpy", "touchstone.layer_norm", best(lambda: ts.layer_norm(x, w, b))
    yield "numpy", "touchstone.layer_norm, out=", best(lambda: ts.layer_norm(x, w, b, out=y))
    try:
        import torch
        import touchstone.torch as tt
    except ImportError:
        return
    for device in ["cpu"] + ["cuda"] * (torch.cuda.is_available() and ts.cuda_unavailable_reason() is None):
        x, w, b = torch.ones(1, 4096, device=device), torch.ones(4096, device=device), torch.zeros(4096, device=device)
        y, call = torch.empty_like(x), function("layer_norm")
        yield device, "the module's function", best(lambda: call(x, w, b, 1e-5, y, None, None))
        yield device, "touchstone.layer_norm, out=", best(lambda: ts.layer_norm(x, w, b, out=y))
        yield device, "touchstone.layer_norm", best(lambda: ts.layer_norm(x, w, b))
        yield device, "torch.nn.functional.layer_norm", best(lambda: torch.nn.functional.layer_norm(x, (4096,), w, b))
        with torch.no_grad():
            yield device, "torch.ops.touchstone.layer_norm", best(lambda: tt.layer_norm(x, w, b))
        x.requires_grad_()
        yield device, "touchstone.layer_norm, recorded", best(lambda: ts.layer_norm(x, w, b))
        yield device, "torch's, recorded", best(lambda: torch.nn.functional.layer_norm(x, (4096,), w, b))


if "--quick" in sys.argv:
    ROUNDS, CALLS = 2, 50
ts.set_num_threads(1)
print("| arrays | call | us |\n|-|-|-|")
for arrays, call, us in rows():
    print("| %s | %s | %.1f |" % (arrays, call, us))
