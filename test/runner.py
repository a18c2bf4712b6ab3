# SPDX-License-Identifier: Apache-2.0
"""runner.py BUILD - tests BUILD/runner.py from outside: a control page as judge/protocol/call.h has it, no cage."""
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

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
RUNNER = os.path.join(sys.argv[1], "runner.py")
spec = importlib.util.spec_from_file_location("runner", RUNNER)
runner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)
C, SIZE = runner.C, runner.GpuCage.SIZE
F32, BF16, I32 = C.f32, C.bf16, C.i32
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
        control = bytearray(C.control_bytes)
        C.counts.put(control, 1, 1, 2)
        for out in 0, 1:  # each file on one page
            C.map.put(control, REGION + (out << 20), 4096, 0, out, at=C.maps + out * C.map_bytes)
        C.task.put(control, task.encode())
        C.file.put(control, b"main.py")
        C.folder.put(control, self.folder.name.encode())
        at = C.slots
        integers = sum(isinstance(value, int) << i for i, value in enumerate(scalars.values()))
        C.slot.put(control, len(bufs), len(scalars), integers, at=at)
        C.threads.put(control, 1)
        for i, (name, *rest) in enumerate(bufs):
            _, dtype, rows, cols, stride, _ = rest
            n_bytes = ((rows - 1) * stride + cols) * SIZE[dtype] if rows and cols else 0
            C.buf.put(control, name.encode(), *rest, n_bytes, at=at + C.bufs + i * C.buf_bytes)
            shape = (1, cols, 0, 0, 0) if name in VECTORS else (2, rows, cols, 0, 0)
            C.shape.put(control, *shape, at=C.shapes + i * C.shape_bytes)
        for i, (name, value) in enumerate(scalars.items()):
            C.scalar.put(control, name.encode(), value, at=at + C.scalars + i * C.scalar_bytes)
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
        return C.answer.get(self.read(0))[0]

    def read(self, i):
        return os.pread(self.files[i].fileno(), 1 << 17, 0)

    def refused(self):
        page = self.read(0)
        return C.reason.get(page)[0], C.text.get(page)[0].split(b"\0")[0].decode()

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
        said="ValueError: a\\x1b[2J b at main.py:2")
answers("raises in another file", "import theirs\ndef softmax_topk(logits):\n    theirs.best(logits)\n",
        {"theirs.py": "import numpy as np\n\ndef best(x):\n    np.reshape(x, 5)\n"}, status=255, said=" at theirs.py:4")
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


def numbers(path, pattern):
    """The numbers by name that a file has, where the pattern matches."""
    with open(os.path.join(SOURCE, path)) as file:
        found = {}
        for names, values in re.findall(pattern, file.read()):
            found.update(zip(re.findall(r"\w+", names), map(int, re.findall(r"\d+", values))))
    return found


# A record skips what it does not list, and writes no byte before or after itself.
r = runner.Record()
r.add(4, 4, "I")
r.add(16, 12, "i")
page = bytearray(b"\xff" * 32)
r.put(page, 1, 2, 3, -4)
expect("record: bytes", bytes(page), b"\xff" * 4 + struct.pack("<I8x3i", 1, 2, 3, -4) + b"\xff" * 4)
expect("record: values", r.get(page), (1, 2, 3, -4))
try:
    r.add(20, 4, "i")
    expect("record: members that overlap", "taken", "refused")
except struct.error:
    pass

# Exploits and a test have offsets of their own: they cannot include the judge's headers.
words = numbers("proof/exploit/raw.h", r"(\w+) = (\d+)")
want = {"SIGNAL": 0, "READY": C.ready // 4, "DONE": C.done // 4, "ANSWER": C.answer.begin // 4, "ERROR": C.reason.begin // 4,
        "CALL_SLOT": C.call.begin // 4 + 1, "ARGS": C.args // 4, "ARGS_WORDS": C.args_bytes // 4}
for name, value in want.items():
    expect("raw.h: " + name, words.get(name), value)
expect("peek.cu", numbers("proof/exploit/gpu/peek.cu", r"enum \{ (ARGS) = (\d+)"), {"ARGS": C.args})
expect("cage_runner.py", numbers("test/cage_runner.py", r"(?m)^(PLAN, .*?) = ([\d, ]+)$"),
       {"PLAN": C.plan, "SLOT": C.slots - C.plan, "SLOT_BYTES": C.slot_bytes, "BUF": C.bufs})

print("%d failures" % failures)
sys.exit(failures != 0)
