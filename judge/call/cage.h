/* SPDX-License-Identifier: Apache-2.0 */
/* cage.h - the judge's side of an entrant's process: start one for a block of cases, fill a case,
 * call, check the outputs, stop.
 *
 * Between calls the process is frozen, so that it cannot read inputs early or change outputs while
 * they are checked. A cage is started before the seeds of its block are drawn, and runs that block
 * only. */
#ifndef TS_CAGE_H
#define TS_CAGE_H

#include "arena.h"
#include "call.h"
#include "task.h"

typedef struct ts_cage_plan {
    ts_class class;
    const char    *object;          /* the shared object, or the Python file */
    bool           unsafe;          /* run even if some confinement is missing */
    bool           idle;            /* on a device: calls are made, but no function is called */
    const char    *folder, *python; /* Python: the folder it may read, and the interpreter */
    const char    *runner;          /* Python: runner.py; TS_GPU_SEALED: the launch plan */
    const ts_task *task;
    int            n_slots;
    const ts_case *slot[TS_MAX_SLOTS]; /* must outlive the cage */
    uint64_t seed[TS_MAX_SLOTS]; /* from which their buffers' places are drawn: of the inputs */
    bool     aligned;            /* buffers aligned as by an allocator: for timing */
    int      n_threads;          /* of the pool, and the most cores */
    size_t   memory_bytes;       /* its own: heap and stacks, or the object's data */
    size_t   workspace_bytes;    /* the most it may request */
    int      limit_ms;           /* of one call */
    int     *n_returned;         /* counts the outputs of ts_cage_call; NULL: not counted */
} ts_cage_plan;

typedef enum ts_end {
    TS_END_NONE, /* still running */
    TS_END_CRASH,
    TS_END_SEAL,   /* a system call or a clock that its class does not have */
    TS_END_EXIT,   /* it exited */
    TS_END_HANG,   /* no reply within the time limit, which is of its own time */
    TS_END_MEMORY, /* memory limit exceeded */
    TS_END_BUSY,   /* the machine's doing, which shows nothing: repeat it in another cage */
} ts_end;

enum { TS_ATTEMPTS = 3 }; /* at what the machine disturbs; then the verdict is ERROR */

typedef struct ts_call {
    double ns;        /* from go to done plus any head start, by the judge's clock; on a device by
                         the device's, until it was free */
    double    own_ns; /* from go to done, without the time in which it got no core */
    ts_status status; /* as the process reports it */
    ts_end    end;
    int       signal, exit_code;
    ts_flaw   flaw;          /* illegal memory access; as the process reports it after a crash */
    bool      late;          /* an output changed after done */
    bool      early;         /* sealed: it computed outside the call */
    bool      disturbed;     /* no evidence of early work: the judge lost its core, or a query */
    bool      fp_changed;    /* as the process reports it */
    bool      broken;        /* a failure of the judge or the device; see text */
    bool      too_large;     /* requested more workspace than allowed */
    double    lead_ns;       /* before go, with most of the inputs visible */
    double    away_ns;       /* part of it in which the machine did not let the judge run */
    int       n_wakes;       /* in that time */
    double    cpu_before_ns; /* between thawing and arming */
    double    after_ns, cpu_after_ns; /* from done until it was frozen */
    double    cpu_outside_ns;         /* beyond what its threads could use from go to done */
    double    free_ns;                /* on a device: from done until it was free */
    size_t    workspace_bytes;
    char      text[256];        /* one line on how it ended */
    char      stderr_tail[256]; /* raw: escape before printing */
} ts_call;

typedef struct ts_cage ts_cage;

/* The process dies with the thread that starts it. On failure NULL, and `why` begins with a reason
 * and a colon: "symbol", "missing", "size", "seal", "crash", "memory", "hang" or "protocol" if the
 * entrant is at fault, "error" if the judge is, "busy" if the machine is: then another attempt may
 * succeed. ts_cage_start_patiently makes up to TS_ATTEMPTS of them; and it blames an entrant of a
 * class that reads files only if a second process fails, too, and an empty one starts. */
ts_cage *ts_cage_start(const ts_cage_plan *p, char *why, size_t n);
ts_cage *ts_cage_start_patiently(const ts_cage_plan *p, char *why, size_t n);
void     ts_cage_stop(ts_cage **c);

/* Draws the inputs of a slot in place and returns its args, for the oracle. */
const void *ts_cage_fill(ts_cage *c, int slot, uint64_t seed);
/* Copies the inputs from another arena instead: of this case, or of one with the same buffers. */
void ts_cage_fill_like(ts_cage *c, int slot, const ts_case *of, const ts_arena *from);
/* One of n slots, by the cage's own random numbers. */
int             ts_cage_draw(ts_cage *c, int n);
const void     *ts_cage_args(const ts_cage *c, int slot);
const ts_arena *ts_cage_arena(const ts_cage *c, int slot);

/* One call, after which the process is frozen or dead. True if it replied and no flaw was found;
 * the caller checks the outputs. Without a fill since the slot's last call the inputs are
 * unchanged. args and x: NULL for the slot's own. */
bool ts_cage_call(ts_cage *c, int slot, ts_call *r);
bool ts_cage_call_with(ts_cage *c, int slot, const void *args, const ts_exec *x, ts_call *r);

/* ts_exec.n_threads of the slot's calls from now on, the workspace query included; 0: the plan's.
 * The pool and the cores stay as planned. */
void ts_cage_threads(ts_cage *c, int slot, int n_threads);

/* Queries how much workspace the slot's calls need; they get that much. */
bool ts_cage_workspace(ts_cage *c, int slot, ts_call *r);
void ts_cage_exec(const ts_cage *c, int slot, ts_exec *x); /* as passed to its calls */

/* The end of what its process wrote to standard error. Raw: escape before printing. */
const char *ts_cage_said(const ts_cage *c);

#define TS_BUSY "busy" /* reason code of what is the machine's doing */
/* The reason code of a failed call, or "". */
const char *ts_call_reason(const ts_call *r);

/* Peak memory of its process since ts_cage_weigh_from_now, without the block and without files; and
 * the part of it in use at that time. */
void   ts_cage_weigh_from_now(ts_cage *c);
size_t ts_cage_peak_bytes(const ts_cage *c);
size_t ts_cage_before_bytes(const ts_cage *c);

bool     ts_cage_freeze(ts_cage *c); /* false: the process is dead */
void     ts_cage_thaw(ts_cage *c);
void     ts_cage_kill(ts_cage *c);
unsigned ts_cage_held(const ts_cage *c);        /* TS_HELD_* when its process started */
bool     ts_cage_shares_core(const ts_cage *c); /* judge and entrant have one core */

/* The path of a program that is built and installed next to this one. */
bool ts_beside(const char *name, char *path, size_t n);

/* ---- what this machine guarantees ---- */

typedef struct ts_guarantee {
    const char *name;
    bool        held;
    bool        needed; /* for the full badge */
    char        text[256];
} ts_guarantee;

enum { TS_LEADS = 4 };

/* What a correct entrant uses outside its call. */
typedef struct ts_honest {
    double outside_ns; /* median of ts_call.cpu_outside_ns */
    /* The allowance for ts_call.lead_ns per wake-up, with one thread and with many. */
    double lead_ns[TS_LEADS], many_ns[TS_LEADS];
    int    many;
    /* Measures outside_ns again, now: a machine may get busier. */
    double (*outside_now)(void);
} ts_honest;

typedef struct ts_guarantees {
    int          n;
    ts_guarantee g[64];
    double       start_ms;               /* median of a few */
    double       empty_ns, empty_p95_ns; /* of an empty call */
    double       freeze_ns;
    ts_honest    honest;
    unsigned     sealed_lacks, host_lacks; /* TS_HELD_* that this machine does not have */
    const char  *badge;    /* "full", "reduced", or "none": nothing can be judged here */
    char         why[256]; /* with "none": what is missing */
} ts_guarantees;

#endif
