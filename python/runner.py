# SPDX-License-Identifier: Apache-2.0
"""runner.py - runs a Python entrant inside the cage.

Started as `runner.py CONTROL INPUTS OUTPUTS GO DONE`, all numbers of open descriptors; the entrant's
file is descriptor 6. An entrant defines the challenge's function, for example

    def softmax_topk(logits, k, inv_temperature, out): ...

It receives the arrays and numbers of the API that it names as parameters, and in `out` the output
arrays. It fills them, or returns a dict with some of their names, which is copied into them as part
of the call. bf16 arrays are uint16, that is their bits, whatever is installed. NotImplementedError
means TS_E_UNSUPPORTED. Challenges with a script call several functions, or methods of a class, or
pass one of the judge's models; see Script and Model.

With `gpu` as a sixth argument, followed by the number of memfd_create and of the architecture, INPUTS
is a socket that receives buffers on a CUDA device. They are torch tensors if the entrant has imported
torch, CuPy arrays if it has imported cupy, else objects with __cuda_array_interface__. bf16 is
torch.bfloat16 in the first case, uint16 in the others."""
import itertools
import math
import mmap
import os
import struct
import sys
import types

MISSING, CRASHED, UNSUPPORTED = 3, 255, 4  # TS_STOP_MISSING, no ts_status, TS_E_UNSUPPORTED


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
    """The judge: a control page, two files of buffers, two pipes. Offsets are those of
    judge/protocol/call.h."""

    ANSWER, ERROR, CALL, PLAN = 192, 320, 512, 4096
    FILE, TASK, FOLDER, SLOTS, SLOT_BYTES = PLAN + 48, PLAN + 112, PLAN + 304, PLAN + 1328, 1296
    MAPS, MAP_BYTES, ARGS, ARGS_BYTES = PLAN + 42800, 32, 67664, 512
    SHAPES, SHAPE_BYTES, SCRIPT = 84048, 40, 104528

    def __init__(self, control, inputs, outputs, go, done):
        self.go, self.done = go, done
        self.control = shared(control, mmap.PROT_READ | mmap.PROT_WRITE)
        os.close(control)
        self.inputs, self.outputs = inputs, outputs
        _, self.n_threads, self.n_slots, self.n_maps = struct.unpack_from("4I", self.control, self.PLAN)
        self.has_script, = struct.unpack_from("I", self.control, self.SCRIPT)
        self.task = text_of(self.control[self.TASK:self.TASK + 64])
        self.folder = text_of(self.control[self.FOLDER:self.FOLDER + 512])
        self.file = os.path.join(self.folder, text_of(self.control[self.FILE:self.FILE + 64]))

    def map(self):
        """Maps inputs and outputs, before the entrant is loaded."""
        self.maps = []
        for i in range(self.n_maps):
            address, n_bytes, offset, out = struct.unpack_from("3QI", self.control, self.MAPS + i * self.MAP_BYTES)
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
        at = self.ARGS + i * self.ARGS_BYTES
        return bytes(self.control[at:at + self.ARGS_BYTES])

    def slot(self, i):
        """A slot's buffers as (name, role, dtype, rows, cols, stride, offset, n_bytes), and its numbers."""
        at = self.SLOTS + i * self.SLOT_BYTES
        n_bufs, n_scalars, _, integers = struct.unpack_from("4I", self.control, at)
        bufs, scalars = [], {}
        for b in range(n_bufs):
            name, *rest = struct.unpack_from("16s2I3q2Q", self.control, at + 80 + 64 * b)
            bufs.append((text_of(name), *rest))
        for s in range(n_scalars):
            name, value = struct.unpack_from("16sd", self.control, at + 80 + 1024 + 24 * s)
            scalars[text_of(name)] = int(value) if integers >> s & 1 else value
        return bufs, scalars

    def shape(self, i, b):
        """The shape of buffer b of a slot, as in the API."""
        at = self.SHAPES + (16 * i + b) * self.SHAPE_BYTES
        n_axes, *extents = struct.unpack_from("5q", self.control, at)
        return tuple(extents[:n_axes])

    def ready(self):
        os.write(self.done, b"r")

    def refuse(self, text):
        """Reports that the entrant cannot be called, and exits."""
        line = one_line(text)
        self.control[self.ERROR + 8:self.ERROR + 9 + len(line)] = line + b"\0"
        struct.pack_into("I", self.control, self.ERROR, MISSING)
        sys.exit(1)

    def wait(self):
        """The verb and the slot of the next call; None at the end."""
        if not os.read(self.go, 1):
            return None
        return self.order()

    def order(self):
        return struct.unpack_from("2I", self.control, self.CALL)

    def answer(self, status):
        struct.pack_into("iIQ", self.control, self.ANSWER, status, 0, 0)
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
        """Maps n_bytes of it, with as many unmapped bytes on both sides."""
        c = self.c
        handle, at = c.c_uint64(), c.c_uint64()
        self.must("cuMemImportFromShareableHandle", c.byref(handle), c.c_void_p(fd), 1)
        os.close(fd)
        n, dead = c.c_size_t(n_bytes), 2 << 20
        self.must("cuMemAddressReserve", c.byref(at), c.c_size_t(n_bytes + 2 * dead),
                  c.c_size_t(0), c.c_uint64(0), c.c_uint64(0))
        p = c.c_uint64(at.value + dead)
        self.must("cuMemMap", p, n, c.c_size_t(0), handle, c.c_uint64(0))
        access = (c.c_int * 3)(1, 0, 3 if writable else 1)
        self.must("cuMemSetAccess", p, n, access, c.c_size_t(1))
        return p.value

    def load_nothing(self, ptx):
        """A function that launches the empty kernel of judge/gpu/nothing.h."""
        module, kernel = self.c.c_void_p(), self.c.c_void_p()
        self.must("cuModuleLoadData", self.c.byref(module), ptx)
        self.must("cuModuleGetFunction", self.c.byref(kernel), module, b"ts_nothing")
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
        kind = {0: "<f4", 1: "<f8", 2: "<f2", 3: "<u2", 4: "|u1", 6: "<i4"}[dtype]
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
        held, = struct.unpack_from("I", self.control, self.ERROR + 4)
        birth, = struct.unpack_from("I", self.control, self.PLAN + 20)
        if lock_files(self.folder) and no_memory_files(*map(int, sys.argv[7:9])):
            struct.pack_into("I", self.control, self.ERROR + 4, held | 16)  # TS_HELD_LANDLOCK
        elif not birth & 2:  # TS_BORN_UNSAFE
            self.refuse("it cannot be confined here: no landlock")

    def map(self):
        import array
        import socket
        self.address, left = {}, 1
        with socket.socket(fileno=self.inputs) as giver:
            while left:
                room = socket.CMSG_SPACE(4)
                what, rights, _, _ = giver.recvmsg(32, room)
                slot, buf, n, offset, writable, left = struct.unpack("2i2Q2I", what)
                fd = array.array("i", rights[0][2][:4])[0]
                self.address[slot, buf] = self.driver.place(fd, n, writable) + offset
        self.turn = self.driver.load_nothing(bytes(self.control[-4096:]).split(b"\0", 1)[0])

    SIZE = {0: 4, 1: 8, 2: 2, 3: 2, 4: 1, 6: 4}

    def wait(self):
        """At go, makes the device switch to this process while the entrant's code runs."""
        order = super().wait()
        if order and order[0] == 0:
            self.turn()
        return order

    def array(self, i, b, dtype, rows, cols, stride):
        size = self.SIZE[dtype]
        shape, strides = (rows, cols), (stride * size, size)
        given = DeviceArray(self.address[i, b] if rows and cols else 0, dtype, shape, strides)
        if "torch" in sys.modules:
            import torch
            if not (rows and cols):
                kinds = {0: torch.float32, 1: torch.float64, 2: torch.float16, 3: torch.bfloat16,
                         6: torch.int32}
                return torch.empty(shape, dtype=kinds[dtype], device="cuda")
            if dtype != 3:
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
    sys.path.insert(0, cage.folder)
    module = types.ModuleType("entrant")
    module.__file__ = cage.file
    sys.modules["entrant"] = module
    with open(6, "rb") as file:
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


class Model:
    """One of the judge's models: strings in, logits of the next token out. judge/script/toy.c computes them, so
    all languages get the same bits."""

    def __init__(self, np, address, fails):
        import ctypes as c
        own, self.n_vocab, following, forward = struct.unpack("PqPP", c.string_at(address, 32))
        at, n, pointers = c.c_void_p, c.c_int64, c.c_void_p
        self._np, self._own, self._failure = np, own, ArithmeticError if fails else ValueError
        self._next = c.CFUNCTYPE(c.c_int, at, n, at, pointers, at)(following)
        self._forward = c.CFUNCTYPE(c.c_int, at, n, at, at, at, n, at, at)(forward)

    def next(self, strings):
        """Logits of the token after each string: float32, (len(strings), n_vocab)."""
        np = self._np
        rows = [np.ascontiguousarray(string, np.int32) for string in strings]
        lengths = np.array([row.size for row in rows], np.int64)
        places = np.array([row.ctypes.data for row in rows], np.uintp)
        out = np.empty((len(rows), self.n_vocab), np.float32)
        if self._next(self._own, len(rows), *(a.ctypes.data for a in (lengths, places, out))):
            raise self._failure("next: the model failed, or got an empty string or a token outside the vocabulary")
        return out

    def forward(self, token, position, visible, want):
        """One pass: row r sees row c if visible[r, c]. Logits of the token after each row of want."""
        np = self._np
        token = np.ascontiguousarray(token, np.int32)
        position = np.ascontiguousarray(position, np.int64)
        visible = np.ascontiguousarray(visible, bool).reshape(token.size, token.size)
        want = np.ascontiguousarray(want, np.int64)
        out = np.empty((want.size, self.n_vocab), np.float32)
        token_at, position_at, visible_at, want_at, out_at = (
            a.ctypes.data for a in (token, position, visible, want, out))
        if position.size != token.size or self._forward(
                self._own, token.size, token_at, position_at, visible_at, want.size, want_at, out_at):
            raise self._failure("forward: the model failed, or got an invalid row or token")
        return out


class Script:
    """One slot of a challenge with a script: C code plays it (python/ask.h), and requests the next call of
    one of the entrant's functions."""

    INTEGER, REAL, TEXT, VIEW, LENT, LIST, LISTS, RECORD, MODEL = range(9)
    HEAD, VALUE, GIVEN = struct.Struct("16s10i"), struct.Struct("16s2i5qd2P"), 24
    REFUSALS = ValueError, MemoryError, KeyError, ArithmeticError

    def __init__(self, np, kinds, cage, function, i):
        import ctypes
        self.np, self.c, self.cage, self.i, self.function = np, ctypes, cage, i, function
        self.library = ctypes.CDLL("/proc/self/fd/10")
        size = self.HEAD.size + (self.GIVEN + 8) * self.VALUE.size
        self.asked = memoryview((ctypes.c_ubyte * size).in_dll(self.library, "ts_player_asked")).cast("B")

    def __call__(self):
        self.objects, answer = {}, 0
        self.library.ts_player_start(self.cage.task.encode(), self.cage.args(self.i))
        while True:
            status = self.library.ts_player_next(answer)
            if status >= 0:
                return status
            answer = self.answer()

    def answer(self):
        """Makes the requested call; returns its status."""
        name, which, drop, ragged, *refusals, n_given, n_back, _ = self.HEAD.unpack_from(self.asked)
        if drop:
            del self.objects[which]
            return 0
        back, lent = self.values(self.GIVEN, n_back), []
        try:
            places, names = self.arguments(iter(self.values(0, n_given)), lent)
            result = self.call(which, text_of(name), places, names)
            if ragged:
                self.put_beams(result, *(self.array(v[2], v[4:4 + v[3]], v[9]) for v in back))
            else:
                self.put_all(back, result)
        except self.REFUSALS as error:
            for kind, status in zip(self.REFUSALS, refusals):
                if status and isinstance(error, kind):
                    return status
            raise
        for array in lent:
            array.reshape(-1).view(self.np.uint8)[...] = 255
        return 0

    def values(self, first, n):
        at = self.HEAD.size + first * self.VALUE.size
        return list(self.VALUE.iter_unpack(self.asked[at:at + n * self.VALUE.size]))

    def call(self, which, name, places, names):
        if which < 0:
            return self.function(**asked_for(self.function, names))
        if not name:
            self.objects[which] = self.function(*places)
            return None
        member = getattr(self.objects[which], name)
        return member(*places, **names) if callable(member) else member

    def arguments(self, values, lent):
        """Positional and keyword arguments."""
        places, names = [], {}
        for value in values:
            argument, name = self.argument(value, values, lent), text_of(value[0])
            if name:
                names[name] = argument
            else:
                places.append(argument)
        return places, names

    def argument(self, value, behind, lent):
        _, kind, letter, n_axes, *extents, integer, real, data, more = value
        if kind == self.INTEGER:
            return integer
        if kind == self.REAL:
            return real
        if kind == self.TEXT:
            return self.c.string_at(data).decode()
        if kind == self.MODEL:
            return Model(self.np, data, integer)
        if kind == self.RECORD:
            return types.SimpleNamespace(**self.arguments(itertools.islice(behind, integer), lent)[1])
        if kind == self.LISTS:
            ends = self.np.cumsum(self.array(ord("q"), extents[:1], more)).tolist()
            tokens = self.array(ord("i"), ends[-1:] or [0], data).tolist()
            return [tokens[begin:end] for begin, end in zip([0] + ends, ends)]
        array = self.array(letter, extents[:n_axes], data)
        if kind == self.LIST:
            return array.tolist()
        if kind == self.LENT:
            lent.append(array.copy())
            return lent[-1]
        array.flags.writeable = False
        return array

    def array(self, letter, shape, data):
        """An array over the player's memory; zeros if there is none."""
        kind = self.np.dtype(chr(letter))
        n_bytes = kind.itemsize * math.prod(shape)
        if not n_bytes or not data:
            return self.np.zeros(shape, kind)
        return self.np.frombuffer((self.c.c_ubyte * n_bytes).from_address(data), kind).reshape(shape)

    def put_all(self, back, result):
        results = (result,) if len(back) == 1 else tuple(result) if back else ()
        if len(results) != len(back):
            raise ValueError("got %d results, expected %d" % (len(results), len(back)))
        for (_, kind, letter, n_axes, *extents, _, _, data, more), value in zip(back, results):
            if kind == self.INTEGER:
                self.c.c_int64.from_address(data).value = int(value)
            elif kind == self.REAL:
                self.c.c_double.from_address(data).value = float(value)
            elif kind == self.LIST:
                to = self.array(ord("i"), extents[:1], data)
                to[...] = -1
                to[:len(value)] = self.np.asarray(value, self.np.int32)[:to.size]
                self.c.c_int64.from_address(more).value = len(value)
            elif data:
                to = self.array(letter, extents[:n_axes], data)
                put(to, self.np.reshape(value, to.shape))

    def put_beams(self, found, n_found, length, tokens, logprob, score, finished):
        n, width, steps = tokens.shape
        if len(found) != n or any(len(item) > width for item in found):
            raise ValueError("expected the beams of %d items, at most %d each" % (n, width))
        tokens[...], length[...], finished[...] = -1, 0, 0
        logprob[...] = score[...] = -self.np.inf
        for i, item in enumerate(found):
            n_found[i] = len(item)
            for k, (beam, logprob[i, k], score[i, k], ends) in enumerate(item):
                if len(beam) > steps:
                    raise ValueError("got a beam of %d tokens, expected at most %d" % (len(beam), steps))
                tokens[i, k, :len(beam)] = beam
                length[i, k], finished[i, k] = len(beam), bool(ends)


def last_of(error):
    """The last line of a traceback, and the location in the entrant's files."""
    import traceback
    line = traceback.format_exception_only(type(error), error)[-1].strip()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    own = [f for f in frames if f.filename == sys.modules["entrant"].__file__] or frames
    at = " (%s:%d)" % (os.path.basename(own[-1].filename), own[-1].lineno) if own else ""
    return line[:150 - len(at)] + at


def serve(cage, calls):
    while True:
        order = cage.wait()
        if order is None:
            return
        verb, slot = order
        status = 0
        if verb == 0:
            try:
                status = calls[slot]() or 0
            except Exception as error:
                status = UNSUPPORTED if isinstance(error, NotImplementedError) else CRASHED
                os.write(2, one_line(last_of(error)) + b"\n")
        cage.answer(status)


def main():
    cage = (GpuCage if sys.argv[6:7] == ["gpu"] else Cage)(*map(int, sys.argv[1:6]))
    for name in "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS":
        os.environ[name] = str(max(1, cage.n_threads))
    import numpy as np
    np.seterr(all="ignore")
    kinds = {0: np.float32, 1: np.float64, 2: np.float16, 3: np.uint16, 4: np.uint8, 6: np.int32}
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
