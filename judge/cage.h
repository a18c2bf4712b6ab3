/* SPDX-License-Identifier: Apache-2.0 */
/* cage.h - the judge's side of an entrant's process: start one for a block of cases, fill a case,
 * call, look at the outputs, stop.
 *
 * Between calls the process is frozen: what it could do with inputs that it must not yet see, or
 * with outputs that are being read, it cannot do. A cage is started before the seeds of its block
 * are drawn, and serves that block only. */
#ifndef TS_CAGE_H
#define TS_CAGE_H

#include "arena.h"
#include "call.h"
#include "task.h"

typedef struct ts_cage_plan {
    ts_class class;
    const char    *object;          /* the shared object, or the Python file */
    bool           unsafe;          /* run it even where something to confine it is missing */
    bool           idle;            /* on a device: calls are made, and nothing is called */
    const char    *folder, *python; /* in Python: what it may read, and the interpreter */
    const char    *runner;          /* in Python: runner.py; TS_GPU_SEALED: the launch plan */
    const ts_task *task;
    int            n_slots;
    const ts_case *slot[TS_MAX_SLOTS]; /* live as long as the cage */
    bool           aligned;            /* buffers as an allocator would give them: for timing */
    int            n_threads;
    size_t         memory_bytes;    /* of its own: heap and stacks, or the object's data */
    size_t         workspace_bytes; /* the most it may ask for */
    int            limit_ms;        /* of one call */
} ts_cage_plan;

typedef enum ts_end {
    TS_END_NONE, /* it lives */
    TS_END_CRASH,
    TS_END_SEAL,   /* a system call or a clock that its class does not have */
    TS_END_EXIT,   /* it left */
    TS_END_HANG,   /* no answer in time */
    TS_END_MEMORY, /* more than it may have */
} ts_end;

typedef struct ts_call {
    double    ns;     /* from go to done, and any head start, by the judge's clock */
    ts_status status; /* what it says that it returned */
    ts_end    end;
    int       signal, exit_code;
    ts_flaw   flaw;          /* of memory touched that must not be; by its own word after a crash */
    bool      late;          /* an output changed after done */
    bool      early;         /* sealed: it worked while it had nothing to do */
    bool      fp_changed;    /* by its own word */
    bool      broken;        /* by the judge's own doing, or the device's; text says how */
    bool      too_large;     /* asked for more workspace than it may have */
    double    lead_ns;       /* before go, when most of the inputs could be seen */
    int       n_wakes;       /* in that time */
    double    cpu_before_ns; /* after it was thawed and before it was armed */
    double    after_ns, cpu_after_ns; /* from done until it was frozen */
    double    cpu_outside_ns;         /* beyond what its threads could take from go to done */
    double    free_ns;                /* on a device: from done until it does the judge's bidding */
    size_t    workspace_bytes;
    char      text[256];        /* one line about the end */
    char      stderr_tail[256]; /* as it was written: escape it before showing it */
} ts_call;

typedef struct ts_cage ts_cage;

/* The process dies with the thread that starts it. NULL when there is no cage; `why` then begins
 * with the reason and a colon: "symbol", "missing", "size", "seal", "crash", "memory", "hang",
 * "protocol" are the entrant's, "error" is ours. */
ts_cage *ts_cage_start(const ts_cage_plan *p, char *why, size_t n);
void     ts_cage_stop(ts_cage **c);

/* Draws the inputs of a slot in place and gives its args, for the oracle. */
const void *ts_cage_fill(ts_cage *c, int slot, uint64_t seed);
/* The same by copying, from elsewhere: of this case, or of another that has the same buffers. */
void            ts_cage_fill_like(ts_cage *c, int slot, const ts_case *of, const ts_arena *from);
const void     *ts_cage_args(const ts_cage *c, int slot);
const ts_arena *ts_cage_arena(const ts_cage *c, int slot);

/* One call, after which the process is frozen or dead. True when it answered and nothing is amiss;
 * the outputs are still to be checked. Without a fill since the last call of the slot the inputs
 * are the same again. args and x: NULL for the slot's own. */
bool ts_cage_call(ts_cage *c, int slot, ts_call *r);
bool ts_cage_call_with(ts_cage *c, int slot, const void *args, const ts_exec *x, ts_call *r);

/* Asks how much workspace the slot's calls need; they get it. */
bool ts_cage_workspace(ts_cage *c, int slot, ts_call *r);
void ts_cage_exec(const ts_cage *c, int slot, ts_exec *x); /* what its calls are given */

/* "" or the reason code of a call that failed. */
const char *ts_call_reason(const ts_call *r);

/* The most memory that its process has had, beside the block's and beside files, since it was to be
 * weighed; and what of that it had then. */
void   ts_cage_weigh_from_now(ts_cage *c);
size_t ts_cage_peak_bytes(const ts_cage *c);
size_t ts_cage_before_bytes(const ts_cage *c);

bool     ts_cage_freeze(ts_cage *c); /* false: it is dead */
void     ts_cage_thaw(ts_cage *c);
void     ts_cage_kill(ts_cage *c);
unsigned ts_cage_held(const ts_cage *c);        /* TS_HELD_* as its process set out */
bool     ts_cage_shares_core(const ts_cage *c); /* judge and entrant on one */

/* The path of a program that is built and installed beside this one. */
bool ts_beside(const char *name, char *path, size_t n);

/* ---- what this machine guarantees ---- */

typedef struct ts_guarantee {
    const char *name;
    bool        held;
    bool        needed; /* for the full badge */
    char        text[256];
} ts_guarantee;

enum { TS_LEADS = 4 };

/* What an honest entrant takes besides its call. */
typedef struct ts_honest {
    double outside_ns; /* median of ts_call.cpu_outside_ns */
    /* What is granted of ts_call.lead_ns, per wake: of one thread, and of so many. */
    double lead_ns[TS_LEADS], many_ns[TS_LEADS];
    int    many;
} ts_honest;

typedef struct ts_guarantees {
    int          n;
    ts_guarantee g[64];
    double       start_ms;             /* median of a few */
    double       bell_ns, bell_p95_ns; /* of a call that does nothing */
    double       freeze_ns;
    ts_honest    honest;
    unsigned     sealed_lacks, host_lacks; /* TS_HELD_* that this machine does not have */
    const char  *badge;    /* "full", "reduced", or "none": nothing can be judged here */
    char         why[256]; /* with "none": what is missing */
} ts_guarantees;

#endif
