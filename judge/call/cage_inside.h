/* SPDX-License-Identifier: Apache-2.0 */
/* cage_inside.h - private to the judge's side of a cage: cage.c, cage_life.c, cage_call.c,
 * cage_memory.c, cage_watch.c, cage_again.c, gpu_call.c. */
#ifndef TS_CAGE_INSIDE_H
#define TS_CAGE_INSIDE_H

#include <sys/types.h>

#include "apart.h"
#include "awake.h"
#include "cage.h"
#include "clock.h"
#include "keeper.h"

typedef struct ts_slot {
    const ts_case *c;
    ts_arena       arena;
    bool           fresh;     /* filled since the last call */
    int            n_threads; /* see ts_cage_threads */
    size_t         workspace_bytes;
    unsigned char  args[TS_CALL_ARGS] __attribute__((aligned(16)));
} ts_slot;

/* What the judge does to a process is never held against the entrant. */
typedef enum ts_killed {
    TS_KILLED_NOT,   /* it ended by itself */
    TS_KILLED_END,   /* no longer needed */
    TS_KILLED_HANG,  /* its own time exceeded the limit */
    TS_KILLED_LOOSE, /* it kept running, or could not be stopped, by its own doing */
    TS_KILLED_BUSY   /* the machine did not let it run, or stop */
} ts_killed;

struct ts_cage {
    ts_cage_plan   plan;
    pid_t          pid;      /* 0: dead and reaped */
    ts_cage       *next;     /* in the list of live cages, see ts_cage_stop_rivals */
    int            n_others; /* processes of its namespace, when it was last frozen */
    bool           frozen, has_core, shares_core, spin;
    bool           holds;       /* every call: see HELD_ONE_IN in cage_call.c */
    int            wait_status; /* of the dead */
    ts_killed      killed;      /* why the judge killed it; set before the signal is sent */
    int            control_fd, in_fd, out_fd, object_fd, runner_fd;
    int            signal_fd, err_fd; /* python: go and done; its standard error */
    ts_control    *control;
    unsigned char *region;
    size_t         region_bytes, used;
    unsigned char *workspace_lo, *workspace_hi;
    uint32_t       signal;
    int            n_cores; /* that the entrant can use */
    cpu_set_t      cores;   /* these */
    int            n_calls, n_disturbed;
    int            n_strikes; /* undisturbed calls that used CPU time outside the call */
    int            n_doubts;  /* of early work that another process did not repeat */
    ts_spread      spread;    /* of its threads over the cores */
    size_t         n_free;    /* free bytes of the device when last queried, before its code ran */
    double         n_taken;   /* bytes of it that this process took, without the keeper's */
    unsigned       held;
    size_t         before_bytes; /* see ts_cage_weigh_from_now */
    uint64_t       key, n_drawn; /* of the cage's own random numbers */
    char           err[256];
    ts_slot        slot[TS_MAX_SLOTS];
    /* On a device. */
    ts_keeper *keeper;
    /* Another process used the device while inputs were laid out: at the first attempt, the last.
     */
    bool            was_busy, is_busy, is_unsure;
    double          device_ns;         /* class sealed-gpu: of this call, by the device's events */
    int             n_before, n_after; /* calls before or after which the device was busy */
    const ts_arena *kept[TS_MAX_SLOTS];
};

/* ---- cage_memory.c: memory that the judge did not grant ---- */

/* Frees the pages of the workspace except the granted part, which begins there (NULL: none); and
 * tells after a call whether the rest, or a gap between distant rows, has pages. */
void ts_cage_take_workspace(ts_cage *c, unsigned char *granted);
/* Where its pages begin if that part is granted: a band of at least a page before it. */
unsigned char *ts_cage_workspace_from(const ts_cage *c, unsigned char *granted);
void ts_cage_look_beside(const ts_cage *c, const ts_slot *s, unsigned char *granted, ts_call *r);

/* ---- gpu_call.c: the device's part of a call ---- */

/* Replaces the args' pointers by those of its process. */
void ts_gpu_point(const ts_cage *c, int slot, unsigned char *args);
/* Before the first call; false: it uses too much device memory. */
bool ts_gpu_weigh(ts_cage *c, char *why, size_t n);
int  ts_gpu_lay(ts_cage *c, int slot, bool fresh, ts_call *r); /* TS_WORD_* */
void ts_gpu_go(ts_cage *c);                                    /* at go */
void ts_gpu_done(ts_cage *c, ts_call *r);                      /* at done; waits for the device */
void ts_gpu_fetch(ts_cage *c, int slot, ts_call *r);

/* ---- cage_watch.c: the entrant's own part of a wait ---- */

/* The judge looks every few milliseconds. If more time than this has passed since it last did, it
 * was stopped, or without a core, and does not know what the entrant did meanwhile. */
#define TS_ABSENT_NS 500e6

/* Threads in these states wait for the machine: "R", and "D" while files are read. */
typedef struct ts_watch {
    const char *states;
    double      begin, cpu, last, last_cpu;
    double      waited; /* of all threads together */
} ts_watch;

/* From this moment, at which the process had used that much CPU time. */
ts_watch ts_watch_from(double ns, double cpu_ns, const char *states);
double   ts_watch_own_ns(const ts_cage *c, ts_watch *w); /* until now */
int      ts_cage_threads_in(const ts_cage *c, const char *states);
char     ts_task_state(int process, const char *task); /* 0: it has ended */

/* ---- cage_again.c: a suspicion that another process must confirm ---- */

/* Whether a new process of the same entrant works outside its calls too. */
bool ts_cage_early_again(const ts_cage *c);
/* Whether a process of this plan starts without the entrant; otherwise why. */
bool ts_cage_starts_nothing(const ts_cage_plan *p, char *why, size_t n);

/* BUSY: the machine gave it so little time that the limit shows nothing. */
enum { TS_WORD_CAME, TS_WORD_NOT, TS_WORD_DEAD, TS_WORD_BUSY };

/* Limits are of the entrant's own time. */
int  ts_cage_await(ts_cage *c, const uint32_t *word, uint32_t want, double spin_ns, double limit_ns,
                   ts_watch *w);
int  ts_cage_await_byte(ts_cage *c, double spin_ns, int limit_ms, ts_watch *w);
void ts_cage_kill_as(ts_cage *c, ts_killed why);
bool ts_cage_alive(ts_cage *c); /* reaps */
void ts_cage_end(ts_cage *c, int came, ts_call *r);
void ts_cage_stop_rivals(ts_cage *c); /* freezes all other cages again */
void ts_cage_stop_again(ts_cage *c);  /* of a frozen cage: freezes processes that escaped */
uint64_t ts_cage_chance(ts_cage *c, uint64_t n); /* below n */
double   ts_cage_cpu_ns(const ts_cage *c); /* of all its threads, as far as the kernel reports it */
void     ts_cage_listen(ts_cage *c);       /* reads its standard error */
void     ts_cage_relax(const ts_cage *c);
void     ts_nap(double ns);
void     ts_cage_calibrate(const ts_honest *h);

extern const size_t ts_lead_bytes[TS_LEADS];

#endif
