# SPDX-License-Identifier: Apache-2.0
"""gpu_python.py - an entrant of class python-gpu for the stand-in for a device, whose memory is the host's.

It does what Triton, CuPy and torch.compile do: reads its own text, compiles in the first call, and keeps
files in a folder that was empty before.
"""
import ctypes
import inspect
import os
import subprocess
import tempfile
import time

KERNEL = r"""
#include <math.h>
void rows(const float *x, const float *gamma, const float *beta, double eps, float *y, float *mean,
          float *rstd, long n_rows, long n, long x_stride, long y_stride)
{
    for (long r = 0; r < n_rows; r++, x += x_stride, y += y_stride) {
        double s = 0, q = 0;
        for (long i = 0; i < n; i++) s += x[i];
        const double m = s / n;
        for (long i = 0; i < n; i++) q += (x[i] - m) * (x[i] - m);
        const double root = 1 / sqrt(q / n + eps);
        for (long i = 0; i < n; i++) y[i] = (float)((x[i] - m) * root * gamma[i] + beta[i]);
        mean[r] = (float)m;
        rstd[r] = (float)root;
    }
}
"""

home = os.environ["HOME"]
if os.path.ismount(home) and os.listdir(home):
    raise RuntimeError("the folder is not fresh: %s" % os.listdir(home))


def build():
    assert "assert" in inspect.getsource(build), "it cannot read its own text"
    assert tempfile.gettempdir() == home and home != "/", tempfile.gettempdir()
    for name, text in ("kernel.c", KERNEL), ("kept", ""):
        with open(os.path.join(home, name), "w") as file:
            file.write(text)
    made = os.path.join(tempfile.mkdtemp(), "made.so")
    subprocess.check_call(["cc", "-O2", "-shared", "-fPIC", "-o", made, os.path.join(home, "kernel.c"), "-lm"])
    os.replace(made, os.path.join(home, "kernel.so"))  # from one folder into another, as Triton does
    time.sleep(2)
    return ctypes.CDLL(os.path.join(home, "kernel.so")).rows


rows = None


def layernorm_forward(x, gamma, beta, eps, out):
    global rows
    rows = rows or build()
    arrays = [a.__cuda_array_interface__ for a in (x, gamma, beta, out["y"], out["mean"], out["rstd"])]
    if arrays[0]["typestr"] != "<f4":
        raise NotImplementedError
    address = [ctypes.c_void_p(a["data"][0]) for a in arrays]
    strides = [ctypes.c_long((a["strides"] or (0,))[0] // 4) for a in (arrays[0], arrays[3])]
    rows(*address[:3], ctypes.c_double(eps), *address[3:], *map(ctypes.c_long, arrays[0]["shape"]), *strides)
