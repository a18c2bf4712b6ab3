# SPDX-License-Identifier: Apache-2.0
"""runner.py - python/runner.py from outside: a control page as judge/protocol/call.h lays it out, and no cage."""
import importlib.util
import os
import re
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)

RUNNER = os.path.join(os.path.dirname(__file__), "..", "python", "runner.py")
spec = importlib.util.spec_from_file_location("runner", RUNNER)
Cage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(Cage)
Cage, SIZE = Cage.Cage, Cage.GpuCage.SIZE
F32, BF16, I32 = 0, 3, 6
IN, OUT, INOUT = 0, 1, 2
VECTORS = "gamma", "mean", "dgamma", "lse"  # have one axis
REGION = 0x21 << 40  # where nothing else is mapped
failures = 0


def expect(name, got, want):
    global failures
    if got != want:
        failures += 1
        print("FAIL %s: got %r, expected %r" % (name, got, want))


class Entrant:
    """One process with one slot. bufs: (name, role, dtype, rows, cols, stride, offset)."""

    def __init__(self, task, source, bufs, scalars, inputs=b"\0" * 4096, other=None):
        self.folder = tempfile.TemporaryDirectory()
        for name, text in dict(other or {}, **{"main.py": source}).items():
            with open(os.path.join(self.folder.name, name), "w") as file:
                file.write(text)
        control = bytearray(Cage.SCRIPT + 4)
        struct.pack_into("4I", control, Cage.PLAN, 2, 1, 1, 2)
        for out in 0, 1:  # each file on one page
            struct.pack_into("3QI", control, Cage.MAPS + out * Cage.MAP_BYTES, REGION + (out << 20), 4096, 0, out)
        control[Cage.TASK:Cage.TASK + len(task)] = task.encode()
        control[Cage.FILE:Cage.FILE + 7] = b"main.py"
        where = self.folder.name.encode()
        control[Cage.FOLDER:Cage.FOLDER + len(where)] = where
        at = Cage.SLOTS
        integers = sum(isinstance(value, int) << i for i, value in enumerate(scalars.values()))
        struct.pack_into("4I", control, at, len(bufs), len(scalars), 0, integers)
        struct.pack_into("I", control, Cage.CALL + 48, 1)
        for i, (name, *rest) in enumerate(bufs):
            _, dtype, rows, cols, stride, _ = rest
            n_bytes = ((rows - 1) * stride + cols) * SIZE[dtype] if rows and cols else 0
            struct.pack_into("16s2I3q2Q", control, at + 80 + 64 * i, name.encode(), *rest, n_bytes)
            shape = (1, cols) if name in VECTORS else (2, rows, cols)
            struct.pack_into("%dq" % len(shape), control, Cage.SHAPES + i * Cage.SHAPE_BYTES, *shape)
        for i, (name, value) in enumerate(scalars.items()):
            struct.pack_into("16sd", control, at + 80 + 1024 + 24 * i, name.encode(), value)
        self.files = [tempfile.TemporaryFile() for _ in range(3)]
        for file, content in zip(self.files, (control, inputs, b"\xff" * 4096)):
            file.write(content)
            file.flush()
        self.start()

    def start(self):
        go, done = os.pipe(), os.pipe()
        source = os.open(os.path.join(self.folder.name, "main.py"), os.O_RDONLY)
        numbers = [f.fileno() for f in self.files] + [source, go[0], done[1]]

        def place():
            high = [os.dup2(n, 40 + i) for i, n in enumerate(numbers)]
            for i, n in enumerate(high):
                os.dup2(n, 3 + i)

        self.process = subprocess.Popen(
            [sys.executable, "-s", RUNNER, "3", "4", "5", "7", "8"], preexec_fn=place,
            pass_fds=range(3, 9), stderr=subprocess.PIPE, close_fds=True)
        for fd in source, go[0], done[1]:
            os.close(fd)
        self.go, self.done = go[1], done[0]
        self.ready = os.read(self.done, 1)

    def call(self):
        """The status."""
        os.write(self.go, b"g")
        os.read(self.done, 1)
        return struct.unpack_from("i", self.read(0), Cage.ANSWER)[0]

    def read(self, i):
        return os.pread(self.files[i].fileno(), 1 << 17, 0)

    def refused(self):
        reason, = struct.unpack_from("I", self.read(0), Cage.ERROR)
        return reason, self.read(0)[Cage.ERROR + 8:Cage.ERROR + 192].split(b"\0")[0].decode()

    def end(self):
        """Its exit status and standard error."""
        os.close(self.go)
        os.close(self.done)
        _, said = self.process.communicate(timeout=30)
        for file in self.files:
            file.close()
        self.folder.cleanup()
        return self.process.returncode, said.decode()


TOPK = [("logits", IN, F32, 2, 3, 4, 6), ("index", OUT, I32, 2, 1, 1, 0), ("lse", OUT, F32, 1, 2, 2, 64)]
NUMBERS = {"k": 1, "inv_temperature": 0.5}
LOGITS = b"\0" * 6 + np.array([1, 5, 2, 0, 9, 3, 4, 0], np.float32).tobytes() + b"\0" * 99
CHECKED = "    assert logits.shape == (2, 3) and type(k) is int and inv_temperature == 0.5\n"


def answers(name, source, other=None, status=0, want=(1, 0), said=""):
    e = Entrant("softmax_topk", source, TOPK, NUMBERS, LOGITS, other)
    expect(name + ": ready", e.ready, b"r")
    if e.ready == b"r":
        expect(name + ": status", e.call(), status)
        expect(name + ": again", e.call(), status)
        out = e.read(2)
        if status == 0:
            expect(name + ": index", struct.unpack_from("2i", out, 0), want)
            expect(name + ": lse", struct.unpack_from("2f", out, 64), (5, 9))
        else:
            expect(name + ": untouched", out, b"\xff" * 4096)
    code, text = e.end()
    expect(name + ": exit", code, 0)
    expect(name + ": lines", text.count("\n"), 2 if said else 0)
    if said not in text:
        expect(name + ": said", text, said)


def refuses(name, source, part):
    e = Entrant("softmax_topk", source, TOPK, NUMBERS)
    expect(name + ": ready", e.ready, b"")
    reason, text = e.refused()
    expect(name + ": reason", reason, 3)
    if part not in text or "\n" in text or not text.isprintable():
        expect(name + ": text", text, part)
    expect(name + ": exit", e.end()[0], 1)


answers("fills", "def softmax_topk(logits, k, inv_temperature, out):\n" + CHECKED +
        "    out['index'][:, 0] = logits.argmax(axis=1)\n    out['lse'][:] = logits.max(axis=1)\n")
answers("returns", "def softmax_topk(logits, k, inv_temperature):\n" + CHECKED +
        "    return {'index': logits.argmax(axis=1)[:, None], 'lse': logits.max(axis=1), 'more': 1}\n")
answers("takes what comes", "def softmax_topk(**a):\n    x = a['logits']\n"
        "    return {'index': x.argmax(axis=1)[:, None], 'lse': x.max(axis=1)}\n")
answers("adapter", "import theirs\ndef softmax_topk(logits, k):\n"
        "    i, v = theirs.best(logits)\n    return {'index': i[:, None], 'lse': v}\n",
        {"theirs.py": "def best(x):\n    return x.argmax(axis=1), x.max(axis=1)\n"})
answers("its own text", "import inspect\n\ndef best(x):\n    return x.argmax(axis=1)[:, None], x.max(axis=1)\n\n"
        "def softmax_topk(logits):\n    text = inspect.getsource(best)\n"
        "    assert inspect.getsourcefile(best) == __file__ and open(__file__).read().count(text) == 1\n"
        "    scope = {}\n    exec(text, scope)\n"
        "    return dict(zip(('index', 'lse'), scope['best'](logits)))\n")
answers("unsupported", "def softmax_topk():\n    raise NotImplementedError\n", status=4, said="NotImplementedError")
answers("raises", "def softmax_topk():\n    raise ValueError('a\\x1b[2J\\nb')\n", status=255,
        said="ValueError: a\\x1b[2J b (main.py:2)")
answers("writes inputs", "def softmax_topk(logits):\n    logits[0, 0] = 1\n", status=255, said="read-only")
answers("wrong shape", "def softmax_topk():\n    return {'index': [1, 2, 3]}\n", status=255, said="ValueError")
refuses("no function", "x = 1\n", "no function 'softmax_topk' is defined")
refuses("no callable", "softmax_topk = 1\n", "no function 'softmax_topk' is defined")
refuses("syntax", "def softmax_topk(:\n", "import: SyntaxError")
refuses("leaves", "import sys\nsys.exit(0)\n", "import: SystemExit")
refuses("no module", "import no_such_module_anywhere\n", "import: ModuleNotFoundError")
refuses("escapes", "raise ValueError('\\x1b[2J\\n')\n", "import: ValueError: \\x1b[2J")

# bf16 as bits, one row that stays a matrix, vectors that are vectors, sums that are added to.
bits = np.array([0x3f80, 0x4000], np.uint16).tobytes()
e = Entrant("layernorm_backward", "import numpy as np\n"
            "def layernorm_backward(x, gamma, mean, accumulate, out):\n"
            "    assert x.shape == (1, 2) and gamma.shape == (2,) and mean.shape == (1,), x.shape\n"
            "    assert out['dx'].shape == (1, 2) and x.dtype == np.uint16 and accumulate == 1\n"
            "    out['dx'][...] = x\n    out['dgamma'] += 1\n",
            [("x", IN, BF16, 1, 2, 2, 0), ("gamma", IN, BF16, 1, 2, 2, 0), ("mean", IN, F32, 1, 1, 1, 8),
             ("dx", OUT, BF16, 1, 2, 2, 0), ("dgamma", INOUT, F32, 1, 2, 2, 64)], {}, bits + b"\0" * 64)
os.pwrite(e.files[2].fileno(), struct.pack("2f", 1, 2), 64)
expect("bf16: status", e.call(), 0)
expect("bf16: dx", e.read(2)[:4], bits)
expect("bf16: dgamma", struct.unpack_from("2f", e.read(2), 64), (2, 3))
expect("bf16: said", e.end()[1], "")
# Numbers where bits are due are an error, not integers.
e = Entrant("layernorm_forward", "import numpy as np\ndef layernorm_forward(x):\n"
            "    return {'y': (x.astype(np.uint32) << 16).view(np.float32)}\n",
            [("x", IN, BF16, 1, 2, 2, 0), ("y", OUT, BF16, 1, 2, 2, 0)], {}, bits + b"\0" * 64)
expect("bf16 as numbers: status", e.call(), 255)
said = e.end()[1]
expect("bf16 as numbers: said", said, "TypeError: expected uint16, the bits of bf16; got float32\n")
# Nothing at all is a shape too.
e = Entrant("layernorm_forward", "def layernorm_forward(x, out):\n"
            "    assert x.shape == (0, 4) and out['mean'].shape == (0,)\n",
            [("x", IN, F32, 0, 4, 4, 0), ("mean", OUT, F32, 1, 0, 0, 0)], {})
expect("no rows: status", e.call(), 0)
expect("no rows: said", e.end()[1], "")

# The offsets are those that judge/protocol/call.h asserts.
header = os.path.join(os.path.dirname(__file__), "..", "judge", "call.h")
if os.path.exists(header):
    with open(header) as file:
        asserted = dict(re.findall(r"offsetof\(ts_\w+, ([\w.]+)\) == (\d+)", file.read()))
    for name, got in (("answer", Cage.ANSWER), ("error", Cage.ERROR), ("call", Cage.CALL),
                      ("plan", Cage.PLAN), ("args", Cage.ARGS), ("shape", Cage.SHAPES),
                      ("script", Cage.SCRIPT), ("map", Cage.MAPS - Cage.PLAN),
                      ("task", Cage.TASK - Cage.PLAN),
                      ("symbol", Cage.FILE - Cage.PLAN), ("folder", Cage.FOLDER - Cage.PLAN), ("slot", Cage.SLOTS - Cage.PLAN)):
        expect("call.h: " + name, got, int(asserted.get(name, -1)))

print("%d failures" % failures)
sys.exit(failures != 0)
