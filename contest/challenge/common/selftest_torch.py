# SPDX-License-Identifier: Apache-2.0
"""selftest_device.py - arrays for an entry in Triton: torch tensors on the device, bf16 as
torch.bfloat16."""
import numpy as np

try:
    import torch
except ImportError:
    torch = None


def skip():
    """Why nothing can be tested here; None: it can."""
    if torch is None:
        return "PyTorch is not installed"
    return None if torch.cuda.is_available() else "this machine has no CUDA device"


def to_device(array):
    if not isinstance(array, np.ndarray):
        return array
    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16).copy()).cuda().view(torch.bfloat16)
    return torch.from_numpy(array.copy()).cuda()


def from_device(array, like):
    if torch is None or not isinstance(array, torch.Tensor):
        return array
    array = array.detach()
    if like.dtype == np.uint16 and array.dtype == torch.bfloat16:
        return array.view(torch.int16).cpu().numpy().view(np.uint16)
    return array.cpu().numpy()
