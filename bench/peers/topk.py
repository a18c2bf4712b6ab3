# SPDX-License-Identifier: Apache-2.0
"""topk.py - peers that only select the k largest logits: FlashInfer (flashinfer-python) and CUB, compiled by nvcc; and the
Triton kernel that adds probabilities and lse. Adds them to the packages of python/peers.py."""
import ctypes
import importlib.util
import os
import subprocess

import peers


def topk_library(part):
    """topk_peers.cu with the headers of FlashInfer; BENCH_PEERS_CACHE keeps what was compiled."""
    def load():
        data, ffi = os.environ.get("FLASHINFER_DATA"), importlib.util.find_spec("tvm_ffi")
        if not data:
            spec = importlib.util.find_spec("flashinfer")
            if spec is None:
                raise RuntimeError("flashinfer is not installed")
            data = os.path.join(os.path.dirname(spec.origin), "data")
        here = os.path.dirname(os.path.abspath(__file__))
        cache = os.environ.get("BENCH_PEERS_CACHE", os.path.join(here, "..", "..", "build", "bench-peers"))
        os.makedirs(cache, exist_ok=True)
        out = os.path.join(cache, "topk_%s.so" % part.lower())
        source = os.path.join(here, "topk_peers.cu")
        if not os.path.exists(out) or os.path.getmtime(out) < os.path.getmtime(source):
            folders = [os.path.join(data, "cccl", d) for d in ("cub", "libcudacxx/include", "thrust")]
            folders += [os.path.join(data, "include")] + [os.path.join(os.path.dirname(s.origin), "include") for s in [ffi] if s]
            command = ["nvcc", "-std=c++17", "-O3", "-shared", "-Xcompiler=-fPIC", "-arch=native", "-DPEER_" + part,
                       *["-I" + d for d in folders], source, "-o", out + ".new"]
            if part == "CLUSTERS" and ffi:  # it throws TVM FFI's errors
                command += ["-L" + os.path.join(os.path.dirname(ffi.origin), "lib"), "-ltvm_ffi"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError("nvcc: " + (done.stderr.strip().splitlines() or ["failed"])[0])
            os.rename(out + ".new", out)
        if part == "CLUSTERS":
            import tvm_ffi  # noqa: F401: loads the library that this one needs
        return ctypes.CDLL(out)
    return load


def triton_lse():
    from lse import Lse
    return Lse


peers.PACKAGES.update({"FlashInfer radix top-k": topk_library("RADIX"), "FlashInfer cluster top-k": topk_library("CLUSTERS"),
                       "CUB top-k": topk_library("CUB"), "Triton lse": triton_lse})
