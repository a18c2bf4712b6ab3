/* SPDX-License-Identifier: Apache-2.0 */
/* call.h - what the judge and the entrant's process share besides the buffers: a plan that is read
 * once, and the words of the call protocol. Plain data at fixed offsets (asserted below), because a
 * Python runner reads it too.
 *
 * Everything here can be written by the entrant. The judge keeps its own copy of what it put here,
 * and whatever it reads back may only make a verdict worse.
 *
 * File descriptors of the entrant's process:
 *   0, 1 null   2 a pipe that loses what does not fit   3 this, ts_control   4 inputs   5 outputs
 *   6 the object, or the Python file   7, 8 the doorbell, class python only: read 7, write 8
 *   9 runner.py, which is started with the numbers 3 4 5 7 8 as its arguments; class sealed-gpu:
 * the launch plan   10 on a device, instead of 4 and 5: a socket through which buffers come,
 * ts_kept; in Python, where a challenge has a script: touchstone-player.so, see python/ask.h
 * 4 and 5 are files whose offset 0 is `region`; of a buffer see ts_call_buf.offset. Inputs
 * can be mapped for reading only.
 *
 * The protocol, for call k = 1, 2, ...: while the runner is stopped the judge writes `call` and,
 * but for calls in which it is first left to rest, bell = 2k - 1 (armed); the runner answers ready
 * = 2k - 1 and watches the bell; bell = 2k is "go"; the runner calls, stores its answer, and then
 * done = 2k. bell is a shared futex.
 * In class python the judge writes one byte to 7 for "go", and the runner one byte to 8 for "done";
 * before its first read of 7 the runner writes one byte to 8 to say that the entrant is loaded. An
 * entrant that cannot be loaded: error.text, error.reason = TS_STOP_MISSING, exit(1).
 * On a device the runner launches an empty kernel at go, before it calls: the device takes some 200
 * us to turn to its process, and what it is given meanwhile waits its turn.
 *
 * For the Python runner, offsets in descriptor 3, little-endian, `u4` an unsigned of 4 bytes:
 *   192 i4 status, to be written before "done"   320 u4 error.reason   328 error.text, 184 bytes
 *   512 u4 verb (0 run)   516 u4 slot   524 i4 n_threads (of ts_exec)
 *   the last 4096 bytes: PTX of ts_nothing, 0-ended
 *   4096 the plan; from there: 4 u4 n_threads, 8 u4 n_slots, 12 u4 n_maps, 48 the entrant's file,
 *   112 task and 304 folder, 0-ended, 1328 slots of 1296 bytes, 42800 maps of 32 bytes: u8 address,
 *   bytes, offset, u4 1 for outputs
 *   in a slot: 0 u4 n_bufs, 4 u4 n_scalars, 8 u4 dtype, 12 u4 bits of scalars that are integers,
 *   16 eight i8 dimensions,
 *   80 buffers of 64 bytes: name 16, u4 role, u4 dtype, i8 n_rows, n_cols, row_stride,
 *   u8 offset, n_bytes; 1104 scalars of 24 bytes: name 16, f8 value, as of the slot's next call
 *   67664 args of 512 bytes, one for each slot, with pointers into those maps
 *   84048 shapes, 16 for each slot in the order of its buffers, of 40 bytes: i8 n_axes, 4 extents
 */
#ifndef TS_CALL_H
#define TS_CALL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "class.h"
#include "touchstone/touchstone.h"

enum {
    TS_MAX_SLOTS = 32,
    TS_CALL_BUFS = 16,
    TS_CALL_SCALARS = 8,
    TS_CALL_DIMS = 8,
    TS_CALL_AXES = 4,
    TS_CALL_NAME = 16,
    TS_CALL_ARGS = 512,
    TS_CALL_MAPS = TS_MAX_SLOTS * TS_CALL_BUFS + 1,
};
enum {
    TS_FD_CONTROL = 3,
    TS_FD_INPUTS,
    TS_FD_OUTPUTS,
    TS_FD_OBJECT,
    TS_FD_GO,
    TS_FD_DONE,
    TS_FD_RUNNER,
    TS_FD_BUFFERS
};
enum { TS_VERB_RUN, TS_VERB_WORKSPACE };

/* Why the runner gave up before the first call. */
enum { TS_STOP_NONE, TS_STOP_SETUP, TS_STOP_SYMBOL, TS_STOP_MISSING, TS_STOP_SIZE };

/* In namespaces of its own; and to go on where something is missing that it needs to be confined.
 */
enum { TS_BORN_APART = 1, TS_BORN_UNSAFE = 2 };

/* What a fault handler thinks of a fault. */
enum { TS_TRAP_OTHER, TS_TRAP_CLOCK, TS_TRAP_MEMORY, TS_TRAP_DEVICE };

/* What the runner could arrange; the rest this machine refuses. */
enum {
    TS_HELD_USER = 1,      /* another user, without capabilities */
    TS_HELD_NAMESPACE = 2, /* processes of its own: the judge cannot even be named */
    TS_HELD_SECCOMP = 4,
    TS_HELD_TSC = 8,       /* reading the time stamp counter is a fault; no vDSO */
    TS_HELD_LANDLOCK = 16, /* host, python: files */
    TS_HELD_NETWORK = 32,  /* host, python: an empty network */
    TS_HELD_MOUNTS = 64,   /* host, python: nothing is writable, and no file of Python's own runs */
};

enum {
    TS_NEEDED_SEALED = TS_HELD_NAMESPACE | TS_HELD_SECCOMP,
    TS_NEEDED_HOST = TS_NEEDED_SEALED | TS_HELD_LANDLOCK | TS_HELD_NETWORK | TS_HELD_MOUNTS,
};

typedef struct ts_map {
    uint64_t address, bytes, offset; /* offset in the file */
    uint32_t outputs;                /* 1: of TS_FD_OUTPUTS, writable; 0: of TS_FD_INPUTS */
    uint32_t populate;               /* 1: touch every page before the first call */
} ts_map;

typedef struct ts_call_buf {
    char     name[TS_CALL_NAME];         /* as in the contract, 0-ended */
    uint32_t role;                       /* 0 in, 1 out, 2 in and out */
    uint32_t dtype;                      /* ts_dtype */
    int64_t  n_rows, n_cols, row_stride; /* in elements */
    uint64_t offset;                     /* of element [0][0] in its file; of no alignment */
    uint64_t n_bytes;                    /* from there to the end of the last row */
} ts_call_buf;

typedef struct ts_call_scalar {
    char   name[TS_CALL_NAME];
    double value;
} ts_call_scalar;

typedef struct ts_call_slot {
    uint32_t       n_bufs, n_scalars;
    uint32_t       dtype;
    uint32_t       integers;          /* bit i: scalar i is one */
    int64_t        dim[TS_CALL_DIMS]; /* named in ts_call_plan.dim_name */
    ts_call_buf    buf[TS_CALL_BUFS]; /* in the order in which the task takes them */
    ts_call_scalar scalar[TS_CALL_SCALARS];
} ts_call_slot;

typedef struct ts_call_shape {
    int64_t n_axes, extent[TS_CALL_AXES];
} ts_call_shape;

typedef struct ts_call_plan {
    uint32_t class; /* ts_class */
    uint32_t n_threads;
    uint32_t n_slots;
    uint32_t n_maps;
    uint32_t spin;  /* 1: the runner has a core of its own, and may spin */
    uint32_t birth; /* TS_BORN_* */
    uint64_t region, region_bytes;
    uint64_t memory_bytes; /* beyond what is mapped here */
    char     symbol[64];   /* "ts_layernorm_forward"; with "_workspace" the query; class python:
                              the entrant's file, in `folder` */
    char         task[64]; /* "layernorm_forward"; both "": nothing is to be called */
    char         dim_name[TS_CALL_DIMS][TS_CALL_NAME];
    char         folder[512], python[512]; /* class python */
    ts_call_slot slot[TS_MAX_SLOTS];
    ts_map       map[TS_CALL_MAPS];
    char         buffer[TS_CALL_BUFS][TS_CALL_NAME]; /* all that a case of the task may have */
} ts_call_plan;

/* What the judge's keeper says of a buffer on the device, together with a descriptor of it. */
typedef struct ts_kept {
    int32_t  slot, buf;        /* slot -1: the workspace */
    uint64_t n_mapped;         /* bytes to map */
    uint64_t offset;           /* of the buffer's first byte in them */
    uint32_t writable, n_left; /* how many are still to come */
} ts_kept;

enum { TS_WORKSPACE_ALIGN = 256 }; /* on a device; the workspace ends where its pages do */

typedef struct ts_control {
    _Alignas(64) uint32_t bell;  /* judge to runner */
    _Alignas(64) uint32_t ready; /* runner to judge; UINT32_MAX once set up */
    _Alignas(64) uint32_t done;
    _Alignas(64) struct {
        int32_t  status;    /* ts_status */
        uint32_t fp;        /* 1: rounding, flushing or masks were changed */
        uint64_t n_bytes;   /* TS_VERB_WORKSPACE */
        double   device_ns; /* class sealed-gpu: by the device's own clock */
    } answer;
    _Alignas(64) struct {
        uint32_t signal, kind; /* TS_TRAP_* */
        uint64_t address;
        uint32_t write;
    } fault;
    _Alignas(64) struct {
        uint32_t reason; /* TS_STOP_* */
        uint32_t held;   /* TS_HELD_* */
        char     text[184];
    } error;
    _Alignas(64) struct {
        uint32_t verb, slot;
        ts_exec  exec; /* a C entrant gets a copy */
    } call;
    _Alignas(4096) ts_call_plan plan; /* written before the runner starts */
    /* Where the runner has mapped the buffers, on a device: what its calls get as pointers. */
    uint64_t device[TS_MAX_SLOTS][TS_CALL_BUFS];
    _Alignas(16) unsigned char args[TS_MAX_SLOTS][TS_CALL_ARGS]; /* a C entrant gets a copy */
    ts_call_shape shape[TS_MAX_SLOTS][TS_CALL_BUFS]; /* of the buffers, for the Python runner */
    uint32_t      script;              /* 1: the challenge has one, for the Python runner */
    uint64_t      abi;                 /* ts_abi_hash of the judge: the cage's own must be equal */
    _Alignas(4096) char nothing[4096]; /* PTX, for the Python runner */
} ts_control;

static_assert(offsetof(ts_control, ready) == 64 && offsetof(ts_control, done) == 128, "words");
static_assert(offsetof(ts_control, answer) == 192 && offsetof(ts_control, fault) == 256, "answers");
static_assert(offsetof(ts_control, error) == 320 && offsetof(ts_control, call) == 512, "call");
static_assert(offsetof(ts_control, plan) == 4096, "the plan begins a page");
static_assert(offsetof(ts_control, args) == 67664,
              "exploit/raw.h and exploit/gpu/peek.cu look there");
static_assert(offsetof(ts_control, shape) == 84048 && sizeof(ts_call_shape) == 40, "shapes");
static_assert(offsetof(ts_control, script) == 104528, "script");
static_assert(sizeof(ts_call_buf) == 64 && sizeof(ts_call_scalar) == 24, "buf, scalar");
static_assert(sizeof(ts_call_slot) == 80 + 16 * 64 + 8 * 24, "slot: 1296 bytes");
static_assert(offsetof(ts_call_plan, symbol) == 48 && offsetof(ts_call_plan, task) == 112, "plan");
static_assert(offsetof(ts_call_plan, dim_name) == 176 && offsetof(ts_call_plan, folder) == 304, "");
static_assert(offsetof(ts_call_plan, slot) == 1328, "slots, from the plan's beginning");
static_assert(offsetof(ts_call_plan, map) == 42800 && sizeof(ts_map) == 32, "maps, likewise");

#endif
