# SPDX-License-Identifier: Apache-2.0
"""Arrays of NumPy, PyTorch and CuPy behind one small interface: what the functions need to allocate
outputs like their inputs. JAX's arrays cannot be written to, and go to touchstone.jax."""
import sys

import numpy as np
import tvm_ffi

FLOATS = ("float32", "float64", "float16", "bfloat16")


class _NumPy:
    name, xp = "numpy", np

    def is_dense(self, x):
        return x.flags.c_contiguous and x.flags.writeable

    def dense(self, x):
        """x itself, or a contiguous copy; read-only arrays are copied, as DLPack has no read-only."""
        return x if self.is_dense(x) else self.xp.array(x, order="C", copy=True)

    def dtype(self, x):
        return x.dtype.name

    def device(self, x):
        return "cpu"

    def call(self, function, *arguments):
        """Calls a function of the C module on the caller's stream."""
        return function(*arguments)

    def empty(self, shape, dtype, like):
        return self.xp.empty(shape, dtype)

    def full(self, shape, value, dtype, like):
        return self.xp.full(shape, value, dtype)

    def cast(self, x, dtype):
        return self.dense(x.astype(dtype, copy=False))

    def needs_graph(self, *tensors):
        return False

    def plain(self, *tensors):
        return all(type(t) is np.ndarray for t in tensors)

    def like(self, x):
        return self.xp.empty_like(x)

    def inputs(self, function, names, *tensors):
        """Contiguous arrays of this framework; the names are for errors."""
        for t in tensors:
            if t is not None and not (type(t) is self.xp.ndarray and self.is_dense(t)):
                return same_kind(function, self, **dict(zip(names, tensors)))
        return tensors


class _View:
    """A CuPy array for one call: TVM FFI requests no stream, and CuPy would order the array for the default
    stream, where the call does not run."""

    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def __dlpack__(self, **_):
        return self.x.__dlpack__(stream=-1)


class _CuPy(_NumPy):
    name = "cupy"

    def __init__(self):
        import cupy
        self.xp = cupy

    def is_dense(self, x):
        return x.flags.c_contiguous

    def device(self, x):
        return "cuda:%d" % x.device.id

    def empty(self, shape, dtype, like):
        with like.device:
            return self.xp.empty(shape, dtype)

    def full(self, shape, value, dtype, like):
        with like.device:
            return self.xp.full(shape, value, dtype)

    def like(self, x):
        with x.device:
            return self.xp.empty_like(x)

    def plain(self, *tensors):
        return False

    def call(self, function, *arguments):
        array = self.xp.ndarray
        device = next((a.device.id for a in arguments if isinstance(a, array)), 0)
        stream = self.xp.cuda.get_current_stream(device).ptr
        with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda", device), stream):
            return function(*(_View(a) if isinstance(a, array) else a for a in arguments))


class _Torch:
    name, module = "torch", "touchstone.torch"

    def __init__(self):
        import torch
        self.torch, self.is_compiling = torch, torch.compiler.is_compiling
        self.grad_enabled, self.like = torch.is_grad_enabled, torch.empty_like
        self.names = {getattr(torch, n): n for n in
                      FLOATS + ("int32", "int64", "uint8", "bool", "int8", "int16", "uint16")}
        self.dtypes = {n: d for d, n in self.names.items()}

    def is_dense(self, x):
        return x.is_contiguous()

    def dense(self, x):
        return x if x.is_contiguous() else x.detach().contiguous()

    def device(self, x):
        """Compares equal for equal devices; as a string it names the device."""
        return x.device

    def call(self, function, *arguments):
        try:
            return function(*arguments)
        except RuntimeError:  # torch's own has many lines
            for a in arguments:
                if isinstance(a, self.torch.Tensor) and a.device.type not in ("cpu", "cuda"):
                    raise TypeError("touchstone: got a tensor on %s, expected cpu or cuda" % a.device) from None
            raise

    def plain(self, x, weight, bias):
        """Whether the three can go to C as they are, but for strides, which are looked at there."""
        try:
            return not (self.is_compiling() or (self.grad_enabled() and (
                x.requires_grad or weight.requires_grad or bias.requires_grad)))
        except AttributeError:
            return False

    def inputs(self, function, names, *tensors):
        try:
            for t in tensors:
                if t is not None and not (isinstance(t, self.torch.Tensor) and t.is_contiguous()):
                    return same_kind(function, self, **dict(zip(names, tensors)))
        except RuntimeError:  # is_contiguous of a sparse tensor
            for name, t in zip(names, tensors):
                if isinstance(t, self.torch.Tensor) and t.layout is not self.torch.strided:
                    raise TypeError("%s: %s: got a tensor of layout %s, expected a dense one"
                                    % (function, name, t.layout)) from None
            raise
        return tensors

    def dtype(self, x):
        return self.names.get(x.dtype, str(x.dtype))

    def empty(self, shape, dtype, like):
        return like.new_empty(shape, dtype=self.dtypes[dtype])

    def full(self, shape, value, dtype, like):
        return self.torch.full(shape, value, dtype=self.dtypes[dtype], device=like.device)

    def cast(self, x, dtype):
        return x.to(self.dtypes[dtype]).contiguous()

    def needs_graph(self, *tensors):
        """Whether autograd or a compiler watches: then the call goes through torch's dispatcher."""
        if self.is_compiling():
            return True
        for t in tensors:
            if t is not None and getattr(t, "requires_grad", False):
                return self.torch.is_grad_enabled()
        return False


class _Jax:
    name, module = "jax", "touchstone.jax"

    def plain(self, *tensors):
        return False

    def needs_graph(self, *tensors):
        return True


kinds = {np.ndarray: _NumPy()}
_made = {"numpy": kinds[np.ndarray]}


def _make(name):
    if name not in _made:
        _made[name] = {"cupy": _CuPy, "torch": _Torch, "jax": _Jax}[name]()
    return _made[name]


def _learn(function, argument, x):
    for name, attribute in (("torch", "Tensor"), ("jax", "Array"), ("cupy", "ndarray"),
                            ("numpy", "ndarray")):
        module = sys.modules.get(name)
        if module is not None and isinstance(x, getattr(module, attribute, ())):
            if name == "numpy" and isinstance(x, np.ma.MaskedArray):
                raise TypeError("%s: %s: got a masked array, whose mask has no meaning here; expected a plain one, "
                                "as %s.filled(value) is" % (function, argument, argument))
            kind = _make(name)
            if not (name == "jax" and "Tracer" in type(x).__name__):
                kinds[type(x)] = kind
            return kind
    raise TypeError("%s: %s: got %s, expected an array of NumPy, PyTorch, JAX or CuPy"
                    % (function, argument, type(x).__name__))


def kind_of(function, argument, x):
    """How to make arrays like x. The two names are for the error."""
    return kinds.get(type(x)) or _learn(function, argument, x)


def named(name):
    if name not in ("numpy", "torch", "cupy"):
        raise ValueError("framework: got %r, expected 'numpy', 'torch' or 'cupy'" % (name,))
    return _make(name)


def on_host(function, name, numbers):
    """int32 on the host, from a list or an array; one on a device would have to be waited for."""
    if hasattr(numbers, "__dlpack_device__") and numbers.__dlpack_device__()[0] not in (1, 3):
        raise TypeError("%s: %s: got an array on a device, expected a list or an array on the host"
                        % (function, name))
    return np.ascontiguousarray(numbers, np.int32)


def wide(dtype):
    """The dtype of sums and statistics."""
    return "float64" if dtype == "float64" else "float32"


def same_kind(function, kind, **tensors):
    """Contiguous inputs of one framework."""
    for name, t in tensors.items():
        if t is not None and kinds.get(type(t)) is not kind and kind_of(function, name, t) is not kind:
            raise TypeError("%s: %s: got an array of %s, expected %s as the first"
                            % (function, name, kind_of(function, name, t).name, kind.name))
    return [None if t is None else kind.dense(t) for t in tensors.values()]


def check_out(function, name, kind, out, shape, dtype):
    """`out` as it is, if it can be written to; else an error that says what it should be."""
    if kind_of(function, name, out) is not kind:
        raise TypeError("%s: %s: got an array of %s, expected %s as the first"
                        % (function, name, kind_of(function, name, out).name, kind.name))
    if tuple(out.shape) != tuple(shape) or kind.dtype(out) != dtype:
        raise ValueError("%s: %s: got %s%s, expected %s%s" % (
            function, name, kind.dtype(out), list(out.shape), dtype, list(shape)))
    return out


def like(function, kind, out, x):
    """An array of x's shape and dtype: `out`, or a new one."""
    if out is None:
        return kind.like(x)
    if type(out) is type(x) and out.shape == x.shape and out.dtype == x.dtype:
        return out
    return check_out(function, "out", kind, out, x.shape, kind.dtype(x))


def output(function, name, kind, out, shape, dtype, like):
    if out is None:
        return kind.empty(shape, dtype, like)
    return check_out(function, name, kind, out, shape, dtype)
