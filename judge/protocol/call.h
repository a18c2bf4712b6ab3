/* SPDX-License-Identifier: Apache-2.0 */
/* call.h - the control page, which judge and cage share in addition to the buffers: a plan that is
 * read once, and the words of the call protocol.
 *
 * The Python runner reads the page too: the build writes the offsets into it (cmake/layout.c).
 *
 * The entrant can write every byte of it. The judge keeps its own copy of what it wrote, and values
 * that it reads back can only make a verdict worse.
 *
 * File descriptors of the entrant's process:
 *   0, 1  null
 *   2     a pipe, which drops what does not fit
 *   3     this page, ts_control
 *   4, 5  inputs and outputs: files whose offset 0 is `region`, see ts_call_buf.offset. Inputs can
 *         be mapped read-only
 *   6     the object, or the Python file
 *   7, 8  class python, and on a device: the runner reads "go" from 7 and writes "done" to 8
 *   9     runner.py, started with the arguments 3 4 5 7 8; class sealed-gpu: the launch plan
 *   10    on a device, instead of 4 and 5: a socket that receives buffers, ts_kept; in Python, for
 *         a challenge with a script: touchstone-player.so, see python/ask.h
 *
 * The protocol, for call k = 1, 2, ...: while the runner is stopped, the judge writes `call` and
 * signal = 2k - 1 (armed), except in calls that first test whether the process is idle. The runner
 * replies ready = 2k - 1 and watches signal. signal = 2k means "go": the runner makes the call,
 * stores its answer, and sets done = 2k. signal is a shared futex.
 *
 * In class python "go" is one byte on 7 and "done" one byte on 8; before its first read of 7 the
 * runner writes one byte to 8, which means that the entrant is loaded. For an entrant that cannot
 * be loaded the runner sets error.text and error.reason = TS_STOP_MISSING, and calls exit(1).
 *
 * On a device "go" and "done" are bytes too, since a device can read and write memory ahead of the
 * host's code, but no socket; and `call` is written only at go, so that nothing can be enqueued
 * before. Class sealed-gpu sends a double after "done": the time by the device's clock. The runner
 * launches an empty kernel at go, before the call: the device takes some 140 us to switch to this
 * process, and work enqueued in the meantime waits. */
#ifndef TS_CALL_H
#define TS_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "class.h"
#include "touchstone/touchstone.h"

enum {
    TS_MAX_SLOTS = 128,
    TS_CALL_BUFS = 16,
    TS_CALL_SCALARS = 8,
    TS_CALL_DIMS = 8,
    TS_CALL_AXES = 4,
    TS_CALL_NAME = 16,
    TS_CALL_ARGS = 512,
    TS_CALL_MAPS = TS_MAX_SLOTS * TS_CALL_BUFS + 1,
    TS_CALL_HIDDEN = 16384,
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

/* APART: in its own namespaces. UNSAFE: continue even if some confinement is missing. */
enum { TS_BORN_APART = 1, TS_BORN_UNSAFE = 2 };

/* How a fault handler classifies a fault. */
enum { TS_TRAP_OTHER, TS_TRAP_CLOCK, TS_TRAP_MEMORY, TS_TRAP_DEVICE };

/* The confinement that the runner achieved; this machine does not support the rest. */
enum {
    TS_HELD_USER = 1,      /* a different user, without capabilities */
    TS_HELD_NAMESPACE = 2, /* a PID namespace: the judge has no PID there */
    TS_HELD_SECCOMP = 4,
    TS_HELD_TSC = 8,       /* reading the time stamp counter is a fault; no vDSO */
    TS_HELD_LANDLOCK = 16, /* host, python: files */
    TS_HELD_NETWORK = 32,  /* host, python: an empty network */
    /* host, python: no file is writable; python: no file of the entrant's is executable, and none
     * of the project's is there */
    TS_HELD_MOUNTS = 64,
    TS_HELD_THREADS = 128, /* a user namespace, so that its threads are counted apart */
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
    uint64_t offset;                     /* of element [0][0] in its file; not aligned */
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
    ts_call_buf    buf[TS_CALL_BUFS]; /* in the order in which the task allocates them */
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
    uint32_t spin;     /* 1: the runner has its own core, and may spin */
    uint32_t birth;    /* TS_BORN_* */
    uint32_t uid, gid; /* the judge's, which a process in its own user namespace cannot ask for */
    uint64_t region, region_bytes;
    uint64_t memory_bytes; /* in addition to what is mapped here */
    char     symbol[64];   /* "ts_layernorm_forward"; with "_workspace" the query; class python:
                              the entrant's file, in `folder` */
    char         task[64]; /* "layernorm_forward"; both "": no function is called */
    char         dim_name[TS_CALL_DIMS][TS_CALL_NAME];
    char         folder[512], python[512]; /* class python */
    ts_call_slot slot[TS_MAX_SLOTS];
    ts_map       map[TS_CALL_MAPS];
    char buffer[TS_CALL_BUFS][TS_CALL_NAME]; /* every buffer that a case of the task may have */
} ts_call_plan;

/* The keeper's message about a device buffer, sent with a descriptor of it. */
typedef struct ts_kept {
    int32_t  slot, buf;        /* slot -1: the workspace */
    uint64_t n_mapped;         /* bytes to map */
    uint64_t offset;           /* of the buffer's first byte in them */
    uint32_t writable, n_left; /* how many are still to come */
} ts_kept;

enum { TS_WORKSPACE_ALIGN = 256 }; /* on a device; the workspace ends at a page boundary */

typedef struct ts_control {
    _Alignas(64) uint32_t signal; /* judge to runner */
    _Alignas(64) uint32_t ready;  /* runner to judge; UINT32_MAX once set up */
    _Alignas(64) uint32_t done;
    _Alignas(64) struct {
        int32_t  status;  /* ts_status */
        uint32_t fp;      /* 1: rounding, flushing or masks were changed */
        uint64_t n_bytes; /* TS_VERB_WORKSPACE */
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
    /* Device addresses at which the runner has mapped the buffers: the pointers of its calls. */
    uint64_t device[TS_MAX_SLOTS][TS_CALL_BUFS];
    _Alignas(16) unsigned char args[TS_MAX_SLOTS][TS_CALL_ARGS]; /* a C entrant gets a copy */
    ts_call_shape shape[TS_MAX_SLOTS][TS_CALL_BUFS]; /* of the buffers, for the Python runner */
    uint32_t      script;              /* 1: the challenge has one, for the Python runner */
    uint64_t      abi;                 /* ts_abi_hash of the judge: the cage's own must be equal */
    _Alignas(4096) char nothing[4096]; /* PTX, for the Python runner */
    char hidden[TS_CALL_HIDDEN];       /* paths, each ended by 0, the last by two */
} ts_control;

#endif
