# SPDX-License-Identifier: Apache-2.0
"""runner.py - runs a Python entrant inside the cage.

Started as `runner.py CONTROL INPUTS OUTPUTS GO DONE`, all numbers of open descriptors; the entrant's
file is descriptor 6. An entrant defines the challenge's function, for example

    def softmax_topk(logits, k, inv_temperature, out): ...

It receives the arrays and numbers of the API that it names as parameters, and in `out` the output
arrays. It fills them, or returns a dict with some of their names, which is copied into them as part
of the call. bf16 arrays are uint16, that is their bits, whatever is installed. NotImplementedError
means TS_E_UNSUPPORTED. Challenges with a script call several functions, or methods of a class, or
pass one of the judge's models; see runner_script.py.

With `gpu` as a sixth argument, followed by the number of memfd_create and of the architecture, INPUTS
is a socket that receives buffers on a CUDA device. They are torch tensors if the entrant has imported
torch, CuPy arrays if it has imported cupy, else objects with __cuda_array_interface__. bf16 is
torch.bfloat16 in the first case, uint16 in the others."""
import mmap
import os
import struct
import sys
import types

# What C shares with this file. The build fills it in: see cmake/layout.c.
LAYOUT = ""
CRASHED = 255  # no ts_status


class Record:
    """Members of a C struct, read and written together."""

    def __init__(self):
        self.begin, self.end, self.form = None, None, "<"

    def add(self, offset, n_bytes, letter):
        if self.begin is None:
            self.begin = self.end = offset
        each = struct.calcsize("<" + letter)
        self.form += "%dx%d%s" % (offset - self.end, n_bytes // each, letter)
        self.end, self.struct = offset + n_bytes, struct.Struct(self.form)

    def get(self, memory, at=0):
        return self.struct.unpack_from(memory, at + self.begin)

    def put(self, memory, *values, at=0):
        self.struct.pack_into(memory, at + self.begin, *values)


def read_layout(text):
    """The records and the numbers of LAYOUT, by name."""
    all = types.SimpleNamespace()
    for line in text.split("\n")[1:]:
        kind, name, *numbers = line.split()
        numbers = list(map(int, numbers))
        if kind == "number":
            setattr(all, name, numbers[0])
        else:
            all.__dict__.setdefault(name, Record()).add(*numbers[:2], chr(numbers[2]))
    return all


C = read_layout(LAYOUT)


def one_line(text, limit=180):
    return " ".join(str(text).split()).encode("unicode_escape")[:limit]


def text_of(raw):
    return bytes(raw).split(b"\0", 1)[0].decode("ascii")


def shared(fd, prot, address=None, n_bytes=None, offset=0):
    """Maps a file shared with the judge, at the judge's address, so that pointers are valid in both
    processes. mmap.mmap would keep a descriptor, with which the file could be mapped executable."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int64)
    n_bytes = n_bytes or os.fstat(fd).st_size
    fixed = 0x100000 if address else 0  # MAP_FIXED_NOREPLACE
    at = libc.mmap(address, n_bytes, prot, mmap.MAP_SHARED | fixed, fd, offset)
    if at == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    memory = memoryview((ctypes.c_ubyte * n_bytes).from_address(at)).cast("B")
    return memory if prot & mmap.PROT_WRITE else memory.toreadonly()


def forget_code():
    """PR_SET_MDWE: written memory can never become executable, if Linux supports it."""
    import ctypes
    ctypes.CDLL(None).prctl(65, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


class Cage:
    """The judge: a control page, as judge/protocol/call.h has it, two files of buffers, two pipes."""

    def __init__(self, control, inputs, outputs, go, done):
        self.go, self.done = go, done
        self.control = shared(control, mmap.PROT_READ | mmap.PROT_WRITE)
        os.close(control)
        self.inputs, self.outputs = inputs, outputs
        self.n_threads, self.n_slots, self.n_maps = C.counts.get(self.control)
        self.has_script, = C.script.get(self.control)
        self.task, self.folder, file = (text_of(r.get(self.control)[0]) for r in (C.task, C.folder, C.file))
        self.file = os.path.join(self.folder, file)

    def map(self):
        """Maps inputs and outputs, before the entrant is loaded."""
        self.maps = []
        for i in range(self.n_maps):
            address, n_bytes, offset, out = C.map.get(self.control, C.maps + i * C.map_bytes)
            prot = mmap.PROT_READ | mmap.PROT_WRITE if out else mmap.PROT_READ
            shared(self.outputs if out else self.inputs, prot, address, n_bytes, offset)
            self.maps.append((out, offset, offset + n_bytes, address))
        os.close(self.inputs)
        os.close(self.outputs)
        forget_code()

    def memory(self, role, offset, n_bytes):
        """The bytes at an offset of the file of inputs or outputs."""
        import ctypes
        out, begin, _, address = next(m for m in self.maps if m[0] == (role > 0) and m[1] <= offset < m[2])
        memory = memoryview((ctypes.c_ubyte * n_bytes).from_address(address + offset - begin)).cast("B")
        return memory if out else memory.toreadonly()

    def args(self, i):
        """The args struct of a slot's next call."""
        at = C.args + i * C.args_bytes
        return bytes(self.control[at:at + C.args_bytes])

    def slot(self, i):
        """A slot's buffers as (name, role, dtype, rows, cols, stride, offset, n_bytes), and its numbers."""
        at = C.slots + i * C.slot_bytes
        n_bufs, n_scalars, integers = C.slot.get(self.control, at)
        bufs, scalars = [], {}
        for b in range(n_bufs):
            name, *rest = C.buf.get(self.control, at + C.bufs + b * C.buf_bytes)
            bufs.append((text_of(name), *rest))
        for s in range(n_scalars):
            name, value = C.scalar.get(self.control, at + C.scalars + s * C.scalar_bytes)
            scalars[text_of(name)] = int(value) if integers >> s & 1 else value
        return bufs, scalars

    def shape(self, i, b):
        """The shape of buffer b of a slot, as in the API."""
        n_axes, *extents = C.shape.get(self.control, C.shapes + (C.bufs_most * i + b) * C.shape_bytes)
        return tuple(extents[:n_axes])

    def ready(self):
        os.write(self.done, b"r")

    def refuse(self, text):
        """Reports that the entrant cannot be called, and exits."""
        C.text.put(self.control, one_line(text))
        C.reason.put(self.control, C.missing)
        sys.exit(1)

    def wait(self):
        """The verb and the slot of the next call; None at the end."""
        if not os.read(self.go, 1):
            return None
        return self.order()

    def order(self):
        return C.call.get(self.control)

    def answer(self, status):
        C.answer.put(self.control, status, 0, 0)
        os.write(self.done, b"d")


class Driver:
    """The CUDA driver functions that map another process's memory, and wait."""

    def __init__(self):
        import ctypes
        self.c = ctypes
        self.so = ctypes.CDLL(os.environ.get("TOUCHSTONE_LIBCUDA", "libcuda.so.1"))
        context = ctypes.c_void_p()
        self.must("cuInit", 0)
        self.must("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.must("cuCtxSetCurrent", context)

    def must(self, name, *arguments):
        code = getattr(self.so, name)(*arguments)
        if code:
            text = self.c.c_char_p()
            self.so.cuGetErrorString(code, self.c.byref(text))
            raise RuntimeError("%s: %s" % (name, (text.value or b"?").decode()))

    def place(self, fd, n_bytes, writable):
        """Maps n_bytes of it, with 64 MiB of unmapped addresses on both sides, as judge/gpu/driver.c does."""
        c = self.c
        handle, at = c.c_uint64(), c.c_uint64()
        self.must("cuMemImportFromShareableHandle", c.byref(handle), c.c_void_p(fd), 1)
        os.close(fd)
        n, dead = c.c_size_t(n_bytes), 64 << 20
        self.must("cuMemAddressReserve", c.byref(at), c.c_size_t(n_bytes + 2 * dead),
                  c.c_size_t(0), c.c_uint64(0), c.c_uint64(0))
        p = c.c_uint64(at.value + dead)
        self.must("cuMemMap", p, n, c.c_size_t(0), handle, c.c_uint64(0))
        access = (c.c_int * 3)(1, 0, 3 if writable else 1)
        self.must("cuMemSetAccess", p, n, access, c.c_size_t(1))
        return p.value

    def load_nothing(self, ptx):
        """A function that launches the one kernel of a text of judge/gpu/nothing.c."""
        name = ptx.split(b".entry ")[1].split(b"(")[0]
        module, kernel = self.c.c_void_p(), self.c.c_void_p()
        self.must("cuModuleLoadData", self.c.byref(module), ptx)
        self.must("cuModuleGetFunction", self.c.byref(kernel), module, name)
        launch, arguments = self.so.cuLaunchKernel, (kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        return lambda: launch(*arguments)

    def wait(self):
        self.must("cuCtxSynchronize")


def lock_files(folder):
    """Landlock: from here on the process can read only its folder, Python and the system, execute only
    the latter two (for compilers), use devices, and write to the scratch folder. Needs version 2: version
    1 forbids renaming a file into another folder, as Triton does."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(444, None, ctypes.c_size_t(0), 1)
    everything = ctypes.c_uint64((1 << 14 if version == 2 else 1 << 15) - 1)
    execute, write, read = 1, 2, 4 | 8
    if version < 2:
        return False
    rules = libc.syscall(444, ctypes.byref(everything), ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    places = {path: read | execute for path in ("/usr", "/lib", "/lib64", "/bin", "/sbin", sys.prefix,
                                                sys.base_prefix)}
    places[folder] = read
    places.update({path: read | write for path in ("/etc", "/proc", "/sys", "/dev")})
    for path in "/dev/shm", os.environ.get("TMPDIR", "/dev/shm"):
        places[path] = everything.value & ~execute
    for path, allowed in places.items():
        try:
            fd = os.open(path, os.O_PATH)
        except OSError:
            continue
        rule = struct.pack("=Qi", allowed, fd)
        libc.syscall(445, rules, 1, rule, 0)
        os.close(fd)
    held = libc.syscall(446, rules, 0) == 0
    os.close(rules)
    return held


def no_memory_files(call, arch):
    """A system call filter: only the driver may create memory files, which no limit counts."""
    import ctypes
    load, equal, answer, refused = 0x20, 0x15, 0x06, 0x50000 | 1  # EPERM
    code = struct.pack("=" + 6 * "HBBI", load, 0, 0, 4, equal, 0, 2, arch, load, 0, 0, 0, equal, 1, 0, call,
                       answer, 0, 0, 0x7fff0000, answer, 0, 0, refused)
    room = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(room))
    libc = ctypes.CDLL(None)
    return libc.prctl(22, ctypes.c_ulong(2), program, ctypes.c_ulong(0), ctypes.c_ulong(0)) == 0


class DeviceArray:
    def __init__(self, address, dtype, shape, strides):
        kind = {C.f32: "<f4", C.f64: "<f8", C.f16: "<f2", C.bf16: "<u2", C.u8: "|u1", C.i32: "<i4"}[dtype]
        self.__cuda_array_interface__ = {"shape": shape, "strides": strides, "typestr": kind,
                                         "data": (address, False), "version": 3}

    def reshape(self, shape):
        """For dense arrays only, which need no strides."""
        self.__cuda_array_interface__.update(shape=shape, strides=None)
        return self


class GpuCage(Cage):
    """Device buffers, allocated by the judge."""

    def open(self):
        """Loads the driver, then locks files: the driver cannot start under the lock."""
        self.driver = Driver()
        held, = C.held.get(self.control)
        birth, = C.birth.get(self.control)
        if lock_files(self.folder) and no_memory_files(*map(int, sys.argv[7:9])):
            C.held.put(self.control, held | C.landlock)
        elif not birth & C.unsafe:
            self.refuse("it cannot be confined here: no landlock")

    def map(self):
        import array
        import socket
        self.address, left = {}, 1
        with socket.socket(fileno=self.inputs) as giver:
            while left:
                room = socket.CMSG_SPACE(4)
                what, rights, _, _ = giver.recvmsg(C.kept_bytes, room)
                slot, buf, n, offset, writable, left = C.kept.get(what)
                fd = array.array("i", rights[0][2][:4])[0]
                self.address[slot, buf] = self.driver.place(fd, n, writable) + offset
        self.turn = self.driver.load_nothing(C.nothing.get(self.control)[0].split(b"\0", 1)[0])

    SIZE = {C.f32: 4, C.f64: 8, C.f16: 2, C.bf16: 2, C.u8: 1, C.i32: 4}

    def wait(self):
        """At go, makes the device switch to this process while the entrant's code runs."""
        order = super().wait()
        if order and order[0] == C.run:
            self.turn()
        return order

    def array(self, i, b, dtype, rows, cols, stride):
        size = self.SIZE[dtype]
        shape, strides = (rows, cols), (stride * size, size)
        given = DeviceArray(self.address[i, b] if rows and cols else 0, dtype, shape, strides)
        if "torch" in sys.modules:
            import torch
            if not (rows and cols):
                kinds = {C.f32: torch.float32, C.f64: torch.float64, C.f16: torch.float16,
                         C.bf16: torch.bfloat16, C.i32: torch.int32}
                return torch.empty(shape, dtype=kinds[dtype], device="cuda")
            if dtype != C.bf16:
                return torch.as_tensor(given, device="cuda")
            given.__cuda_array_interface__["typestr"] = "<i2"  # older versions lack uint16
            return torch.as_tensor(given, device="cuda").view(torch.bfloat16)
        if "cupy" in sys.modules:
            import cupy
            if not (rows and cols):  # CuPy looks up the owner of a pointer, and NULL has none
                return cupy.empty(shape, dtype=given.__cuda_array_interface__["typestr"])
            return cupy.asarray(given)
        return given

    def answer(self, status):
        try:
            self.driver.wait()
        except RuntimeError as error:  # the device failed, and this process with it
            os.write(2, one_line(error) + b"\n")
            os._exit(139)
        super().answer(status)


def load(cage):
    """The challenge's function in the entrant's file."""
    if not cage.task:  # an empty call measures the judge's overhead
        return lambda: None
    import linecache
    import tempfile
    # PyTorch asks for a temporary folder and for libraries when it is imported. Without a scratch folder
    # tempfile finds none that it can write to, and ctypes.util would try to link with a compiler there.
    tempfile.tempdir = os.environ.get("TMPDIR", "/")
    if "TMPDIR" not in os.environ:
        os.environ["PATH"] = ""  # no program can be started
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.tempdir  # else torch.optim makes a folder when imported
    sys.path.insert(0, cage.folder)
    module = types.ModuleType("entrant")
    module.__file__ = cage.file
    sys.modules["entrant"] = module
    with open(C.object_fd, "rb") as file:
        source = file.read()
    # Triton compiles the source text of a function, so linecache must know it.
    lines = source.decode("utf-8", "replace").splitlines(True)
    linecache.cache[cage.file] = len(source), None, lines, cage.file
    try:
        exec(compile(source, cage.file, "exec"), module.__dict__)
    except BaseException as error:  # including SystemExit
        cage.refuse("import: %s" % last_of(error))
    function = getattr(module, cage.task, None)
    if not callable(function):
        cage.refuse("no function '%s' is defined" % cage.task)
    return function


def asked_for(function, arguments):
    import inspect
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some callables have no signature
        return arguments
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return arguments
    return {p.name: arguments[p.name] for p in parameters if p.name in arguments}


def put(to, value):
    """Rejects other dtypes: NumPy would silently truncate numbers to integers instead of bf16 bits."""
    if str(to.dtype) == "uint16" and getattr(value, "dtype", None) != to.dtype:
        raise TypeError("expected uint16, the bits of bf16; got %s" % getattr(value, "dtype", type(value).__name__))
    to[...] = value


class Call:
    """One slot: the function, with its arguments bound to the shared buffers."""

    def __init__(self, np, kinds, cage, function, i):
        bufs, numbers = cage.slot(i)
        self.function, self.out, self.cage, self.i = function, {}, cage, i
        arguments = dict(numbers, accumulate=0)
        for b, (name, role, dtype, rows, cols, stride, offset, n_bytes) in enumerate(bufs):
            kind = np.dtype(kinds[dtype])
            if isinstance(cage, GpuCage):
                array = cage.array(i, b, dtype, rows, cols, stride)
            elif rows == 0 or cols == 0:
                array = np.empty((rows, cols), kind)
            else:
                flat = np.frombuffer(cage.memory(role, offset, n_bytes), kind)
                array = np.lib.stride_tricks.as_strided(
                    flat, (rows, cols), (stride * kind.itemsize, kind.itemsize))
            shape = cage.shape(i, b)
            if shape != (rows, cols):
                array = array.reshape(shape)
            (self.out if role else arguments)[name] = array
            if role == 2:
                arguments["accumulate"] = 1
        arguments["out"] = self.out
        self.arguments = asked_for(function, arguments)

    def __call__(self):
        for name, value in self.cage.slot(self.i)[1].items():  # numbers may change from call to call
            if name in self.arguments:
                self.arguments[name] = value
        result = self.function(**self.arguments)
        if isinstance(result, dict):
            for name, value in result.items():
                if name in self.out:
                    put(self.out[name], value)


# The build puts runner_script.py here: Script.


def last_of(error):
    """The last line of a traceback, and the innermost location in the entrant's folder."""
    import traceback
    line = traceback.format_exception_only(type(error), error)[-1].strip()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    folder = os.path.dirname(sys.modules["entrant"].__file__) + os.sep
    own = [f for f in frames if f.filename.startswith(folder)] or frames
    at = " at %s:%d" % (os.path.basename(own[-1].filename), own[-1].lineno) if own else ""
    return line[:150 - len(at)] + at


def serve(cage, calls):
    while True:
        order = cage.wait()
        if order is None:
            return
        verb, slot = order
        status = 0
        if verb == C.run:
            try:
                status = calls[slot]() or 0
            except Exception as error:
                status = C.unsupported if isinstance(error, NotImplementedError) else CRASHED
                os.write(2, one_line(last_of(error)) + b"\n")
        cage.answer(status)


def main():
    cage = (GpuCage if sys.argv[6:7] == ["gpu"] else Cage)(*map(int, sys.argv[1:6]))
    for name in "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS":
        os.environ[name] = str(max(1, cage.n_threads))
    import numpy as np
    np.seterr(all="ignore")
    kinds = {C.f32: np.float32, C.f64: np.float64, C.f16: np.float16, C.bf16: np.uint16, C.u8: np.uint8,
             C.i32: np.int32}
    on_device = isinstance(cage, GpuCage)
    cage.open() if on_device else cage.map()
    function = load(cage)
    if on_device:
        cage.map()
    one = Script if cage.has_script else Call
    calls = [one(np, kinds, cage, function, i) for i in range(cage.n_slots)]
    cage.ready()
    serve(cage, calls)


if __name__ == "__main__":
    main()
