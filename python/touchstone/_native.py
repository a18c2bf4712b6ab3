# SPDX-License-Identifier: Apache-2.0
"""The C module, loaded once, and compared with the library that it was given."""
import os

import tvm_ffi

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libexec", "touchstone")
_PATH = os.environ.get("TOUCHSTONE_FFI") or os.path.join(FOLDER, "touchstone_ffi.so")
if not os.path.exists(_PATH):
    raise ImportError("touchstone: %s is missing; install the package with pip install ." % _PATH)
_module = tvm_ffi.load_module(_PATH)
abi_version = _module["check_abi"]()  #: TS_ABI_VERSION of the library; the import raises if struct layouts differ


def function(name):
    """A function of the module. `_module.name` would find attributes of Module first."""
    return _module[name]
