# SPDX-License-Identifier: Apache-2.0
"""others.py - the peers: which are installed, and how each is called. A peer that is missing is named with its reason.

FOUND[name] is what the peer's loader returned; MISSING[name] says why there is none. Packages: flash-attn-4, flash-attn,
quack-kernels, liger-kernel, flashinfer-python; cuDNN, cuBLAS and the compiler come with PyTorch.
"""
import ctypes
import importlib.util
import os
import subprocess

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

FOUND, MISSING = {}, {}
BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FA2 (torch)": SDPBackend.FLASH_ATTENTION,
            "torch efficient": SDPBackend.EFFICIENT_ATTENTION}


def flash_attention_4():
    from flash_attn.cute.interface import flash_attn_func
    return flash_attn_func


def flash_attention_2():
    from flash_attn import flash_attn_func
    return flash_attn_func


def quack():
    from quack.rmsnorm import layernorm_bwd, layernorm_fwd
    return layernorm_fwd, layernorm_bwd


def liger():
    from liger_kernel.ops.layer_norm import layer_norm_backward, layer_norm_forward
    return layer_norm_forward, layer_norm_backward


def topk_library(part):
    """topk_peers.cu with the headers of FlashInfer; BENCH_PEERS_CACHE keeps what was compiled."""
    def load():
        data = os.environ.get("FLASHINFER_DATA")
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
            cccl = [os.path.join(data, "cccl", d) for d in ("cub", "libcudacxx/include", "thrust")]
            spec = importlib.util.find_spec("tvm_ffi")
            more = [os.path.join(os.path.dirname(spec.origin), "include")] if spec else []
            command = ["nvcc", "-std=c++17", "-O3", "-shared", "-Xcompiler=-fPIC", "-arch=native", "-DPEER_" + part,
                       *["-I" + d for d in (*cccl, os.path.join(data, "include"), *more)], source, "-o", out + ".new"]
            if part == "CLUSTERS" and spec:  # it throws TVM FFI's errors
                command += ["-L" + os.path.join(os.path.dirname(spec.origin), "lib"), "-ltvm_ffi"]
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


LOADERS = {"FlashAttention-4": flash_attention_4, "FlashAttention-2": flash_attention_2, "QuACK": quack, "Liger": liger,
           "FlashInfer radix top-k": topk_library("RADIX"), "FlashInfer cluster top-k": topk_library("CLUSTERS"),
           "CUB top-k": topk_library("CUB"), "Triton lse": triton_lse}


def load(names=None):
    for name in names or LOADERS:
        if name in FOUND or name in MISSING:
            continue
        try:
            FOUND[name] = LOADERS[name]()
        except BaseException as error:  # a package that fails to import may raise anything, SystemExit too
            if isinstance(error, KeyboardInterrupt):
                raise
            MISSING[name] = " ".join(repr(error).split())[:200]


def get(name):
    """The peer, or an error that the row records."""
    load([name])
    if name not in FOUND:
        raise RuntimeError("not installed")
    return FOUND[name]


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)


def sdpa(backend, q, k, v, causal=False, mask=None):
    def run():
        with sdpa_kernel(BACKENDS[backend]):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal,
                                                  enable_gqa=q.shape[1] != k.shape[1])
    return run
