# SPDX-License-Identifier: Apache-2.0
"""cage_runner.py - the smallest runner for class python: computes the probe task, y = 2 x, z = 3 x.

Started as: python3 cage_runner.py CONTROL INPUTS OUTPUTS GO DONE, by judge/protocol/call.h. The file it
runs is descriptor 6: its text says what else to do."""
import mmap
import os
import struct
import sys

control_fd, inputs_fd, outputs_fd, go, done = (int(a) for a in sys.argv[1:6])
control = mmap.mmap(control_fd, 65536)
PLAN, SLOT, SLOT_BYTES, BUF = 4096, 1336, 1296, 80


def buffers(slot):
    base = PLAN + SLOT + slot * SLOT_BYTES
    found = {}
    for i in range(struct.unpack_from("<I", control, base)[0]):
        at = base + BUF + 64 * i
        name = control[at:at + 16].split(b"\0")[0].decode()
        role, _, _, cols, _, offset, n_bytes = struct.unpack_from("<IIqqqQQ", control, at + 16)
        page = offset & ~4095
        m = mmap.mmap(outputs_fd if role else inputs_fd, offset - page + n_bytes, offset=page,
                      access=mmap.ACCESS_WRITE if role else mmap.ACCESS_READ)
        found[name] = (m, offset - page, cols)
    return found


slots = [buffers(i) for i in range(struct.unpack_from("<I", control, PLAN + 8)[0])]
entrant = compile(os.read(6, 1 << 20), "entrant", "exec")
os.write(done, b"r")
while os.read(go, 1):
    slot = struct.unpack_from("<I", control, 516)[0]
    b = slots[slot]
    try:
        exec(entrant)
        status = 0
    except OSError as e:
        sys.stderr.write(f"{e}\n")
        status = 4
    n = b["x"][2]
    x = struct.unpack_from(f"<{n}f", b["x"][0], b["x"][1])
    struct.pack_into(f"<{n}f", b["y"][0], b["y"][1], *(2 * v for v in x))
    struct.pack_into(f"<{n}f", b["z"][0], b["z"][1], *(3 * v for v in x))
    struct.pack_into("<i", control, 192, status)
    os.write(done, b"d")
