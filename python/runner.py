# SPDX-License-Identifier: Apache-2.0
"""Runs a Python entrant inside the cage.

Started as `runner.py CONTROL INPUTS OUTPUTS GO DONE`, all numbers of open files; the entrant's own
file is open as 6. An entrant defines the challenge's function, for example

    def softmax_topk(logits, k, inv_temperature, out): ...

It gets the arrays and numbers of the contract by name, those that it asks for, and in `out` the
arrays to be written. It fills them, or returns a dict with some of the same names, which is then
copied into them: that is part of the call. bf16 arrays are uint16, their bits, whatever is installed.
NotImplementedError is the contract's "unsupported". For kv_cache and the two
ternary challenges it defines a class of that name, whose methods are called as a script says; see Script,
Layers and Training. In beam_search and tree_verify it is given one of the judge's models, see Model, and
returns what it found.

With `gpu` as a sixth argument, and the number of memfd_create and of the architecture after it, INPUTS is a socket through which buffers on a CUDA device come. They
are torch tensors if the entrant has imported torch, CuPy arrays if it has imported cupy, and else
objects with __cuda_array_interface__. bf16 is torch.bfloat16 in the first case, and uint16 in the others.
"""
import mmap
import os
import struct
import sys

MISSING, CRASHED, UNSUPPORTED = 3, 255, 4  # TS_STOP_MISSING, no ts_status, TS_E_UNSUPPORTED
# In the contract these have one axis; all others have two, but for those of attention.
VECTORS = {"gamma", "beta", "mean", "rstd", "dgamma", "dbeta", "lse", "kv_len",
           "target", "bias", "loss", "total"}
INTEGERS = {"k", "layout", "causal", "window", "tile_q", "tile_k", "mean", "ignore_index", "chunk"}  # numbers that are no fractions


def attention_shape(name, dims):
    """Of a tensor in its layout, or of lse; None: as it is. Dimensions as in task/attention_cases.h."""
    n_q, n_k, batch, q_heads, kv_heads, head_dim, _, form = dims
    if name == "kv_len":
        return None
    if name == "lse":
        return batch, q_heads, n_q
    heads, n = (kv_heads, n_k) if name in ("k", "v", "dk", "dv") else (q_heads, n_q)
    return (batch, n, heads, head_dim) if form % 10 & 1 else (batch, heads, n, head_dim)


def one_line(text, limit=180):
    return " ".join(str(text).split()).encode("unicode_escape")[:limit]


def text_of(raw):
    return bytes(raw).split(b"\0", 1)[0].decode("ascii")


def shared(fd, prot, offset=0, n_bytes=None):
    """A file that is shared with the judge, in memory, and closed: who had its descriptor could map it again,
    to be executed. mmap.mmap would keep one."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int64)
    n_bytes = n_bytes or os.fstat(fd).st_size
    at = libc.mmap(None, n_bytes, prot, mmap.MAP_SHARED, fd, offset)
    if at == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    memory = memoryview((ctypes.c_ubyte * n_bytes).from_address(at)).cast("B")
    return memory if prot & mmap.PROT_WRITE else memory.toreadonly()


def forget_code():
    """What is written cannot be executed from here on, where Linux knows how: PR_SET_MDWE."""
    import ctypes
    ctypes.CDLL(None).prctl(65, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


class Cage:
    """The other side: a control page, two files of buffers, two pipes. Offsets are those of
    judge/call.h."""

    ANSWER, ERROR, CALL, PLAN = 192, 320, 512, 4096
    FILE, TASK, FOLDER, SLOTS, SLOT_BYTES = PLAN + 48, PLAN + 112, PLAN + 304, PLAN + 1328, 1296

    def __init__(self, control, inputs, outputs, go, done):
        self.go, self.done = go, done
        self.control = shared(control, mmap.PROT_READ | mmap.PROT_WRITE)
        os.close(control)
        self.inputs, self.outputs = inputs, outputs
        _, self.n_threads, self.n_slots = struct.unpack_from("3I", self.control, self.PLAN)
        self.task = text_of(self.control[self.TASK:self.TASK + 64])
        self.folder = text_of(self.control[self.FOLDER:self.FOLDER + 512])
        self.file = os.path.join(self.folder, text_of(self.control[self.FILE:self.FILE + 64]))

    def map(self):
        """One map for all inputs and one for all outputs, before the entrant is loaded."""
        spans = {}
        for i in range(self.n_slots):
            for _, role, _, rows, cols, stride, offset, n_bytes in self.slot(i)[0]:
                begin, end = spans.get(role > 0, (offset, 0))
                spans[role > 0] = min(begin, offset), max(end, offset + n_bytes)
        self.maps = {}
        for out, (begin, end) in spans.items():
            page = begin & ~(mmap.PAGESIZE - 1)
            prot = mmap.PROT_READ | mmap.PROT_WRITE if out else mmap.PROT_READ
            fd = self.outputs if out else self.inputs
            self.maps[out] = shared(fd, prot, page, max(1, end - page)), page
        os.close(self.inputs)
        os.close(self.outputs)
        forget_code()

    def memory(self, role, offset):
        """The map that holds it, and where it begins in there."""
        memory, page = self.maps[role > 0]
        return memory, offset - page

    def slot(self, i):
        """Its buffers as (name, role, dtype, rows, cols, stride, offset, n_bytes), and its numbers."""
        at = self.SLOTS + i * self.SLOT_BYTES
        n_bufs, n_scalars = struct.unpack_from("2I", self.control, at)
        bufs, scalars = [], {}
        for b in range(n_bufs):
            name, *rest = struct.unpack_from("16s2I3q2Q", self.control, at + 80 + 64 * b)
            bufs.append((text_of(name), *rest))
        for s in range(n_scalars):
            name, value = struct.unpack_from("16sd", self.control, at + 80 + 1024 + 24 * s)
            scalars[text_of(name)] = value
        return bufs, scalars

    def case(self, i):
        """Its dtype, and its dimensions."""
        dtype, *dims = struct.unpack_from("I4x8q", self.control, self.SLOTS + i * self.SLOT_BYTES + 8)
        return dtype, dims

    def ready(self):
        os.write(self.done, b"r")

    def refuse(self, text):
        """Not one call was possible."""
        line = one_line(text)
        self.control[self.ERROR + 8:self.ERROR + 9 + len(line)] = line + b"\0"
        struct.pack_into("I", self.control, self.ERROR, MISSING)
        sys.exit(1)

    def wait(self):
        """The verb and the slot of the next call; None: there is none."""
        if not os.read(self.go, 1):
            return None
        return self.order()

    def order(self):
        return struct.unpack_from("2I", self.control, self.CALL)

    def answer(self, status):
        struct.pack_into("iIQ", self.control, self.ANSWER, status, 0, 0)
        os.write(self.done, b"d")


class Driver:
    """What of the CUDA driver is needed to map another process's memory, and to wait."""

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
        """Maps n_bytes of it, with as much that is dead on both sides."""
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
        """The empty kernel of gpu/nothing.h, as something to call."""
        module, kernel = self.c.c_void_p(), self.c.c_void_p()
        self.must("cuModuleLoadData", self.c.byref(module), ptx)
        self.must("cuModuleGetFunction", self.c.byref(kernel), module, b"ts_nothing")
        launch, arguments = self.so.cuLaunchKernel, (kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        return lambda: launch(*arguments)

    def wait(self):
        self.must("cuCtxSynchronize")


def lock_files(folder):
    """Landlock: from here on only this, Python's and the system's own can be read and executed (compilers
    are), devices used, and the scratch folder written to. Its first version cannot let a file be renamed
    from one folder into another, as Triton does."""
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
    """Files in memory, which no limit counts, are the driver's alone: a filter of system calls."""
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
        """What is dense has no need of strides."""
        self.__cuda_array_interface__.update(shape=shape, strides=None)
        return self


class GpuCage(Cage):
    """Buffers on the device, made by the judge."""

    def open(self):
        """The driver, and then the lock on files: under the lock it would not start."""
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
        """At go the device begins to turn to this process, and the entrant's code runs meanwhile."""
        order = super().wait()
        if order and order[0] == 0:
            self.turn()
        return order

    def array(self, i, b, dtype, rows, cols, stride, vector):
        size = self.SIZE[dtype]
        shape, strides = ((cols,), (size,)) if vector else ((rows, cols), (stride * size, size))
        given = DeviceArray(self.address[i, b] if rows and cols else 0, dtype, shape, strides)
        if "torch" in sys.modules:
            import torch
            if not (rows and cols):
                kinds = {0: torch.float32, 1: torch.float64, 2: torch.float16, 3: torch.bfloat16,
                         6: torch.int32}
                return torch.empty(shape, dtype=kinds[dtype], device="cuda")
            if dtype != 3:
                return torch.as_tensor(given, device="cuda")
            given.__cuda_array_interface__["typestr"] = "<i2"  # older ones know no uint16
            return torch.as_tensor(given, device="cuda").view(torch.bfloat16)
        if "cupy" in sys.modules:
            import cupy
            if not (rows and cols):  # it asks whose memory no memory is
                return cupy.empty(shape, dtype=given.__cuda_array_interface__["typestr"])
            return cupy.asarray(given)
        return given

    def answer(self, status):
        try:
            self.driver.wait()
        except RuntimeError as error:  # the device is gone, and with it this process
            os.write(2, one_line(error) + b"\n")
            os._exit(139)
        super().answer(status)


def load(cage):
    """The challenge's function, out of the entrant's file."""
    if not cage.task:  # what the judge's own part of a call takes is measured by calling nothing
        return lambda: None
    import linecache
    import types
    sys.path.insert(0, cage.folder)
    module = types.ModuleType("entrant")
    module.__file__ = cage.file
    sys.modules["entrant"] = module
    with open(6, "rb") as file:
        source = file.read()
    # Triton compiles the text of a function, not the function.
    lines = source.decode("utf-8", "replace").splitlines(True)
    linecache.cache[cage.file] = len(source), None, lines, cage.file
    try:
        exec(compile(source, cage.file, "exec"), module.__dict__)
    except BaseException as error:  # SystemExit too: it is no way to pass
        cage.refuse("import: %s" % last_of(error))
    function = getattr(module, cage.task, None)
    if not callable(function):
        cage.refuse("no function '%s' is defined" % cage.task)
    return function


def asked_for(function, arguments):
    import inspect
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some callables do not say
        return arguments
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return arguments
    return {p.name: arguments[p.name] for p in parameters if p.name in arguments}


def put(to, value):
    """Numbers would be cut to integers where the bits of bf16 are due, without a word."""
    if str(to.dtype) == "uint16" and getattr(value, "dtype", None) != to.dtype:
        raise TypeError("expected uint16, the bits of bf16; got %s" % getattr(value, "dtype", type(value).__name__))
    to[...] = value


class Call:
    """One slot: the function with its arguments bound to the shared buffers."""

    def __init__(self, np, kinds, cage, function, i):
        bufs, numbers = cage.slot(i)
        self.function, self.out, self.cage, self.i = function, {}, cage, i
        arguments = {name: self.number(name, value) for name, value in numbers.items()}
        arguments["accumulate"] = 0
        for b, (name, role, dtype, rows, cols, stride, offset, _) in enumerate(bufs):
            kind = np.dtype(kinds[dtype])
            if isinstance(cage, GpuCage):
                array = cage.array(i, b, dtype, rows, cols, stride, name in VECTORS)
            elif rows == 0 or cols == 0:
                array = np.empty((rows, cols), kind)
            else:
                n = (rows - 1) * stride + cols
                memory, begin = cage.memory(role, offset)
                flat = np.frombuffer(memory, kind, n, begin)
                array = np.lib.stride_tricks.as_strided(
                    flat, (rows, cols), (stride * kind.itemsize, kind.itemsize))
            if name in VECTORS and cage.task != "kv_cache" and not isinstance(cage, GpuCage):
                array = array.reshape(-1)
            if cage.task.startswith("flash_attention"):
                shape = attention_shape(name, cage.case(i)[1])
                array = array.reshape(shape) if shape else array
            (self.out if role else arguments)[name] = array
            if role == 2:
                arguments["accumulate"] = 1
        arguments["out"] = self.out
        self.arguments = asked_for(function, arguments)

    @staticmethod
    def number(name, value):
        return int(value) if name in INTEGERS else value

    def __call__(self):
        for name, value in self.cage.slot(self.i)[1].items():  # numbers may change from call to call
            if name in self.arguments:
                self.arguments[name] = self.number(name, value)
        result = self.function(**self.arguments)
        if isinstance(result, dict):
            for name, value in result.items():
                if name in self.out:
                    put(self.out[name], value)


class Dims:
    """ts_kv_dims of a slot; dtypes by name."""

    def __init__(self, cage, i):
        dtype, dims = cage.case(i)
        _, _, self.n_layer, self.n_q_head, self.n_kv_head, self.head_dim, self.page, store = dims
        for name, value in cage.slot(i)[1].items():
            setattr(self, name, value if name == "scale" else int(value))
        self.io_dtype = self.store_dtype = {0: "f32", 1: "f64", 2: "f16", 3: "bf16"}[dtype]
        self.meta_dtype, self.key_axis = "f32", "token"
        if store in (32, 16, 17):
            self.store_dtype = {32: "f32", 16: "f16", 17: "bf16"}[store]
        elif store:  # as in task/kv_cache_inside.h
            self.store_dtype = "u8" if store % 10 > 7 else "u4"
            self.key_axis = "channel" if store % 10 in (5, 9) else "token"
            self.meta_dtype = "f16" if store > 10 else "f32"


class Script:
    """One slot of kv_cache: plays its script on the entrant's class, as script/kv_cache.c does."""

    SIZE, OPEN, APPEND, ATTEND, READ, TRUNCATE, FORK, FREE, STATUS, DESTROY, WRONG = range(11)
    ARG, WORKSPACE, CAPACITY, STATE, SHORT, MANY, UNSEEN = 1, 5, 6, 7, 2, 4, -77

    def __init__(self, np, kinds, cage, make, i):
        self.np, self.make = np, make
        self.cage, self.i = cage, i
        self.a = Call(np, kinds, cage, lambda **every: None, i).arguments

    def cache(self, which):
        if which not in self.caches:
            dims = Dims(self.cage, self.i)
            if which:
                dims.page = dims.n_page = 0
            self.caches[which], self.number[which] = self.make(dims), {}
        return self.caches[which]

    def lent(self, name, at, n, heads):
        """A copy, which is spoilt after the call."""
        rows = self.a[name][at:at + n]
        return rows.reshape(n, heads, rows.shape[1] // heads).copy()

    def attend(self, cache, layer, seqs, n, at, how):
        rows, first, to = sum(n), self.n_out, self.a["out"]["out"]
        self.n_out += rows
        if how & self.SHORT:  # there is no workspace in Python
            return self.WORKSPACE
        q = self.lent("q", at, rows, self.a["out"]["lse"].shape[1])
        out, lse = cache.attend(layer, seqs, n, q)
        put(to[first:first + rows], self.np.reshape(out, (rows, to.shape[1])))
        self.a["out"]["lse"][first:first + rows] = lse

    def read(self, cache, layer, seqs, n, begin):
        first, rows, to = self.n_read, n[0], self.a["out"]["read"]
        self.n_read += 2 * rows
        for part in cache.read(layer, seqs[0], begin, rows):
            to[first:first + rows] = self.np.reshape(part, (rows, to.shape[1]))
            first += rows

    def perform(self, what, which, layer, items, at, begin, how, seen):
        cache, number = self.cache(which), self.number[which]
        seqs, n = [number.get(slot, -1) for slot, _ in items], [count for _, count in items]
        if what == self.WRONG or how & self.MANY:  # there are no pointers in Python
            self.n_out += sum(n) if what == self.ATTEND else 0
            return self.ARG
        heads = Dims(self.cage, self.i).n_kv_head
        if what == self.SIZE:
            seen[1], seen[2] = cache.nbytes, self.WORKSPACE
        elif what == self.OPEN or what == self.FORK:
            seen[1] = self.UNSEEN
            seen[1] = number[items[-1][0]] = cache.open() if what == self.OPEN else cache.fork(seqs[0])
        elif what == self.APPEND:
            k, v = (self.lent(name, at, sum(n), heads) for name in "kv")
            cache.append(layer, seqs, n, k, v)
            k[...] = v[...] = 0
        elif what == self.ATTEND:
            return self.attend(cache, layer, seqs, n, at, how)
        elif what == self.READ:
            self.read(cache, layer, seqs, n, begin)
        elif what == self.TRUNCATE:
            cache.truncate(seqs[0], n[0])
        elif what == self.FREE:
            cache.free(seqs[0])
        elif what == self.STATUS:
            seen[1] = self.UNSEEN
            seen[1], seen[2], seen[3], seen[5], seen[4] = cache.status(layer, seqs[0])
        else:
            del self.caches[which]

    def __call__(self):
        self.caches, self.number, self.n_out, self.n_read = {}, {}, 0, 0
        words = self.a["script"].reshape(-1).tolist()
        refusals = {ValueError: self.ARG, MemoryError: self.CAPACITY, KeyError: self.STATE}
        at = 0
        for row in self.a["out"]["seen"]:
            what, which, layer, n_items, data, begin, how, _ = words[at:at + 8]
            end = at + 8 + 2 * n_items
            items, at = list(zip(words[at + 8:end:2], words[at + 9:end:2])), end
            seen = [0] * 6
            try:
                seen[0] = self.perform(what, which, layer, items, data, begin, how, seen) or 0
            except tuple(refusals) as error:
                seen[0] = refusals[next(kind for kind in refusals if isinstance(error, kind))]
            row[...] = seen


class Model:
    """One of the judge's models, as an entrant sees it: strings in, logits of the next token out. The
    work is script/toy.c's, so all languages get the same bits."""

    library = None

    def __init__(self, np, word, weight):
        import ctypes
        if not Model.library:
            Model.library = ctypes.CDLL("/proc/self/fd/10")
            Model.library.ts_toy_string.restype = ctypes.c_uint64
            Model.library.ts_toy_digest.restype = ctypes.c_uint32
        self._np, self._c = np, ctypes
        self._toy = (ctypes.c_void_p * 2)(word.ctypes.data, weight.ctypes.data)
        self._failure = ArithmeticError if word.reshape(-1)[7] == 3 else ValueError  # TS_SICK_FAILS
        self._passed, self._digests = None, 0
        self._nexts, self._forwards, self._strings = 0, 0, []
        self.n_vocab = int(word[0, 1])

    def next(self, strings):
        """Logits of the token after each string: float32, (len(strings), n_vocab)."""
        np, c = self._np, self._c
        out, total, failed = np.empty((len(strings), self.n_vocab), np.float32), 0, False
        for row, string in zip(out, strings):
            tokens = np.ascontiguousarray(string, np.int32)
            at, n = c.c_void_p(tokens.ctypes.data), c.c_int64(tokens.size)
            failed |= self.library.ts_toy_next(self._toy, n, at, c.c_void_p(row.ctypes.data)) != 0
            if failed and self._failure is ValueError:
                raise ValueError("next: an empty string, or a token outside of the vocabulary")
            total += self.library.ts_toy_string(n, at)
        self._nexts += 1
        self._strings.append((len(strings), total & 0xffffffff, total >> 32 & 0xffffffff))
        if failed:
            raise self._failure("next: the model fails")
        return out

    def forward(self, token, position, visible, want):
        """One pass: row r sees row c where visible[r, c]. Logits of the token after each row of want."""
        np, c = self._np, self._c
        token = np.ascontiguousarray(token, np.int32)
        position = np.ascontiguousarray(position, np.int64)
        visible = np.ascontiguousarray(visible, bool).reshape(token.size, token.size)
        want = np.ascontiguousarray(want, np.int64)
        self._forwards += 1
        if self._forwards == 1:
            self._passed = token, position, visible, want
        out = np.empty((want.size, self.n_vocab), np.float32)
        arrays = [c.c_void_p(a.ctypes.data) for a in (token, position, visible, want, out)]
        if position.size != token.size or self.library.ts_toy_forward(
                self._toy, c.c_int64(token.size), *arrays[:3], c.c_int64(want.size), *arrays[3:]):
            raise self._failure("forward: a row or a token that cannot be")
        if self._forwards == 1:
            digests = [self.library.ts_toy_digest(self._toy, c.c_void_p(row.ctypes.data)) for row in out]
            self._digests = np.array(digests, np.uint32).view(np.int32)
        return out


MODEL = 10  # TS_E_MODEL


class Beams:
    """One slot of beam_search: plays it as script/beam_search.c does."""

    def __init__(self, np, kinds, cage, function, i):
        self.np, self.cage, self.i, self.function = np, cage, i, function
        self.a = Call(np, kinds, cage, lambda **every: None, i).arguments

    def __call__(self):
        np, a, out = self.np, self.a, self.a["out"]
        n, _, width, steps, _, alpha, eos, _ = self.cage.case(self.i)[1]
        words, prompts = a["prompts"].reshape(-1), []
        for length in words[:n].tolist():
            at = n + sum(map(len, prompts))
            prompts.append(words[at:at + length].tolist())
        model, status = Model(np, a["word"], a["weight"]), 0
        try:
            found = self.function(**asked_for(self.function, dict(
                model=model, prompts=prompts, beam_width=width, max_new_tokens=steps,
                alpha=alpha / 100, eos=eos)))
        except ArithmeticError:
            status = MODEL
        calls = out["calls"]
        calls[...] = 0
        for row, kept in zip(calls[:steps], model._strings):
            row[...] = kept
        calls[steps:, 0] = model._nexts, status
        calls[steps, 1] = model._forwards
        if not status:
            self.tell(found, width, steps, out)

    def tell(self, found, width, steps, out):
        np, n = self.np, len(out["beams"])
        if len(found) != n or any(len(item) > width for item in found):
            raise ValueError("expected the beams of %d items, at most %d each" % (n, width))
        out["tokens"][...], out["beams"][...] = -1, 0
        out["logprob"][...] = out["score"][...] = -np.inf
        for i, item in enumerate(found):
            for k, (tokens, logprob, score, finished) in enumerate(item):
                if len(tokens) > steps:
                    raise ValueError("a beam of %d tokens" % len(tokens))
                out["tokens"][i * width + k, :len(tokens)] = tokens
                out["logprob"][i, k], out["score"][i, k] = logprob, score
                out["beams"][i, k], out["beams"][i, width + k] = len(tokens), bool(finished)
            out["beams"][i, 2 * width] = len(item)


class Trees:
    """One slot of tree_verify: plays its cycles as script/tree_verify.c does."""

    STATUS, N_OUT, N_PATH, NEXTS, FORWARDS, ROWS, WANTS, OVER, SEEN = range(9)

    def __init__(self, np, kinds, cage, function, i):
        self.np, self.cage, self.i, self.function = np, cage, i, function
        self.a = Call(np, kinds, cage, lambda **every: None, i).arguments

    def __call__(self):
        a, script, at = self.a, self.a["script"].reshape(-1), 0
        n_node, _, _, max_new, n_cycle, *_ = self.cage.case(self.i)[1]
        temperature = self.cage.slot(self.i)[1]["temperature"]  # may change from call to call
        for i in range(n_cycle):
            ends = at + 1, at + 1 + int(script[at])
            ends += ends[1] + n_node, ends[1] + 2 * n_node
            prompt, token, parent = (script[b:e].copy() for b, e in zip(ends, ends[1:]))
            self.cycle(i, prompt, token, parent, max_new, temperature, a["u"][i].copy())
            at = ends[3]

    def cycle(self, i, prompt, token, parent, max_new, temperature, u):
        np, out, n_node = self.np, self.a["out"], len(token)
        rows = len(out["passed"]) // len(out["seen"])
        model, status = Model(np, self.a["word"], self.a["weight"]), 0
        try:
            emitted, path, nodes = self.function(**asked_for(self.function, dict(
                model=model, prompt=prompt, token=token, parent=parent, max_new=max_new,
                temperature=temperature, u=u)))
        except ArithmeticError:
            status = MODEL
        seen = out["seen"][i]
        seen[...] = 0
        seen[self.STATUS], seen[self.NEXTS], seen[self.FORWARDS] = status, model._nexts, model._forwards
        self.tell_pass(model, out["passed"][i * rows:(i + 1) * rows], seen)
        if status:
            return
        seen[self.N_OUT], seen[self.N_PATH] = len(emitted), len(path)
        seen[self.SEEN:] = np.asarray(nodes).reshape(n_node)
        for to, values in ((out["out"][i], emitted), (out["path"][i], path)):
            to[...] = -1
            to[:len(values)] = np.asarray(values, np.int32)[:to.size]

    def tell_pass(self, model, to, seen):
        np = self.np
        to[...] = 0
        if model._passed is None:
            return
        token, position, visible, want = model._passed
        seen[self.ROWS], seen[self.WANTS] = token.size, want.size
        if token.size > len(to):
            return
        to[:token.size, 0], to[:token.size, 1] = token, position
        np.add.at(to[:, 2], want, model._digests + np.int32(1))
        bits = np.packbits(visible, axis=1, bitorder="little")
        words = np.zeros((token.size, 4 * (to.shape[1] - 3)), np.uint8)
        words[:, :bits.shape[1]] = bits
        to[:token.size, 3:] = words.view(np.int32)


class Layers:
    """One slot of ternary_linear: plays it as script/ternary_linear.c does."""

    RANGE, FORMAT = 8, 9

    def __init__(self, np, kinds, cage, make, i):
        self.np, self.make = np, make
        self.parts = cage.case(i)[1][3]
        self.a = Call(np, kinds, cage, lambda **every: None, i).arguments

    def __call__(self):
        a, layer = self.a, self.make()
        w, x, packed = a["w"], a["in"], (a["code_in"], a["scale_in"])
        calls = ((lambda: layer.pack(w), ("code", "scale")),
                 (lambda: (layer.unpack(*packed, w.shape[1]),), ("wt",)),
                 (lambda: (layer.linear(w, x),), ("y",)),
                 (lambda: (layer.linear_packed(*packed, x),), ("y_packed",)),
                 (lambda: layer.backward(w, x, a["dy"]), ("dx", "dw")))
        seen = [0] * len(calls)
        for i, (function, names) in enumerate(calls):
            if not self.parts >> i & 1:
                continue
            try:
                for name, value in zip(names, function()):
                    put(a["out"][name], value)
            except ArithmeticError:
                seen[i] = self.RANGE
            except ValueError:
                seen[i] = self.FORMAT
        a["out"]["seen"][...] = seen


class ModelDims:
    """ts_ternary_dims of a slot."""

    def __init__(self, cage, i):
        (self.n_vocab, self.width, self.n_layer, self.n_head, self.n_kv_head, self.head_dim, self.max_batch,
         self.max_tokens) = cage.case(i)[1]
        for name, value in cage.slot(i)[1].items():
            setattr(self, name, int(value) if name == "ffn" else value)


class Training:
    """One slot of ternary_training: plays its script on the entrant's class, as
    script/ternary_training.c does."""

    SIZE, GRAD, STEP, EVAL, EXPORT, DESTROY, WITHOUT = range(7)
    ARG, SHAPE, WORKSPACE, CAPACITY, RANGE, UNSEEN = 1, 2, 5, 6, 8, -77
    SHORT, NO_TOKEN, LOW_TOKEN, ONE_TOKEN, NO_BATCH, MORE_BATCH, MORE_TOKENS, BAD_RATE, BAD_BETA = range(1, 10)
    ONE_LESS, NAN_LATENT, INF_GAIN, PAST_F16 = range(4)
    RATES = "lr", "beta1", "beta2", "eps", "weight_decay", "clip_norm"

    def __init__(self, np, kinds, cage, make, i):
        self.np, self.make, self.dims = np, make, ModelDims(cage, i)
        self.a = Call(np, kinds, cage, lambda **every: None, i).arguments

    def create(self, how=None):
        latent, norm = (self.a[name].reshape(-1).copy() for name in ("latent", "norm"))
        if how == self.NAN_LATENT:
            latent[-1] = self.np.nan
        if how == self.INF_GAIN:
            norm[-1] = self.np.inf
        if how == self.PAST_F16:
            latent[-1] = 65520 * 128
        model = self.make(self.dims, latent, norm)
        latent[...] = norm[...] = self.np.nan
        return model

    def size(self, how, seen):
        seen[1] = self.model.nbytes
        seen[2] = self.WORKSPACE
        if self.ONE_LESS < how <= self.PAST_F16:
            try:
                self.create(how)
                seen[2] = 0
            except ArithmeticError:
                seen[2] = self.RANGE
        self.model = self.create()

    def batch(self, how, n_batch, n_tok, first):
        d, tokens = self.dims, self.a["tokens"].reshape(-1)
        batch = tokens[first:first + n_batch * n_tok].reshape(n_batch, n_tok).copy()
        if how == self.NO_TOKEN:
            batch[-1, -1] = d.n_vocab
        if how == self.LOW_TOKEN:
            batch[0, 0] = -1
        shape = {self.ONE_TOKEN: (n_batch, 1), self.NO_BATCH: (0, n_tok), self.MORE_BATCH: (d.max_batch + 1, n_tok),
                 self.MORE_TOKENS: (n_batch, d.max_tokens + 1)}.get(how)
        return self.np.zeros(shape, self.np.int32) if shape else batch

    def perform(self, what, how, n_batch, n_tok, first, rate, seen):
        out = self.a["out"]
        grad, export = self.n_grad, self.n_export
        self.n_grad += what == self.GRAD
        self.n_export += what == self.EXPORT
        if what == self.SIZE:
            return self.size(how, seen)
        if what == self.EVAL and how:
            seen[2] = self.UNSEEN
        if how == self.SHORT or what == self.WITHOUT:  # there are no workspaces and no pointers in Python
            return self.WORKSPACE if how == self.SHORT else self.ARG
        if what == self.EXPORT:
            for name, value in zip(("code", "scale", "gain"), self.model.export()):
                out[name][export] = self.np.reshape(value, -1)
        elif what == self.DESTROY:
            self.model, seen[1] = None, 0
        else:
            tokens = self.batch(how, n_batch, n_tok, first)
            if what == self.GRAD:
                seen[1], dlatent, dnorm = self.model.grad(tokens)
                out["dlatent"][grad], out["dnorm"][grad] = self.np.reshape(dlatent, -1), self.np.reshape(dnorm, -1)
            elif what == self.EVAL:
                seen[1], seen[2] = self.model.eval(tokens)
            else:
                rates = dict(zip(self.RATES, self.a["rate"][rate].tolist()))
                rates.update({self.BAD_RATE: {"lr": float("nan")}, self.BAD_BETA: {"beta2": 1.0}}.get(how, {}))
                seen[1] = self.model.step(tokens, **rates)

    def __call__(self):
        self.n_grad = self.n_export = 0
        self.model = self.create()
        for row, words in zip(self.a["out"]["seen"], self.a["script"].tolist()):
            what, how, n_batch, n_tok, first, rate, _, _ = words
            seen = [0, self.UNSEEN, 0, 0]
            try:
                seen[0] = self.perform(what, how, n_batch, n_tok, first, rate, seen) or 0
            except MemoryError:
                seen[0] = self.CAPACITY
            except ArithmeticError:
                seen[0] = self.RANGE
            except ValueError:
                seen[0] = self.SHAPE if how in (self.ONE_TOKEN, self.NO_BATCH) else self.ARG
            row[...] = seen


def last_of(error):
    """The last line of its traceback, and where in the entrant's files it was raised."""
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
                calls[slot]()
            except NotImplementedError:
                status = UNSUPPORTED
            except Exception as error:
                status = CRASHED
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
    one = {"kv_cache": Script, "beam_search": Beams, "tree_verify": Trees, "ternary_linear": Layers,
           "ternary_training": Training}.get(cage.task, Call)
    calls = [one(np, kinds, cage, function, i) for i in range(cage.n_slots)]
    cage.ready()
    serve(cage, calls)


if __name__ == "__main__":
    main()
