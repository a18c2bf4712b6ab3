/* SPDX-License-Identifier: Apache-2.0 */
/* cage_inside.h - what cage.c, cage_life.c and cage_call.c know of each other. */
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
    bool           fresh; /* filled, and not called since */
    size_t         workspace_bytes;
    unsigned char  args[TS_CALL_ARGS] __attribute__((aligned(16)));
} ts_slot;

struct ts_cage {
    ts_cage_plan   plan;
    pid_t          pid;      /* 0: dead and reaped */
    ts_cage       *next;     /* of those that live, see ts_cage_stop_rivals */
    int            n_others; /* processes of its namespace, when it was last frozen */
    bool           frozen, has_core, shares_core, spin;
    int            wait_status; /* of the dead */
    int            control_fd, in_fd, out_fd, object_fd, runner_fd;
    int            bell_fd, err_fd; /* python: go and done; its standard error */
    ts_control    *control;
    unsigned char *region;
    size_t         region_bytes, used;
    unsigned char *workspace_lo, *workspace_hi;
    uint32_t       bell;
    int            n_cores;            /* that the entrant can use at once */
    cpu_set_t      cores;              /* these */
    int            n_calls, n_strikes; /* that took CPU time outside of the call */
    ts_spread      spread;             /* of its threads over the cores */
    size_t         n_free;  /* of the device, when it was last asked, before its code ran */
    double         n_taken; /* of it by this process, beyond the keeper's */
    unsigned       held;
    size_t         before_bytes; /* see ts_cage_weigh_from_now */
    uint64_t       key, n_drawn; /* of the cage's own chances */
    char           err[256];
    ts_slot        slot[TS_MAX_SLOTS];
    /* On a device. */
    ts_keeper      *keeper;
    double          shown_ns; /* before this call, if another process was on the device meanwhile */
    int             n_before, n_after; /* calls before or after which the device was busy */
    const ts_arena *kept[TS_MAX_SLOTS];
};

/* ---- cage_memory.c: memory that nobody gave ---- */

/* Of the workspace all but what was granted, which begins there, or NULL, has no pages from now on;
 * and whether it, or what lies between far rows, has some after a call. */
void ts_cage_take_workspace(ts_cage *c, unsigned char *granted);
void ts_cage_look_beside(const ts_cage *c, const ts_slot *s, unsigned char *granted, ts_call *r);

/* ---- gpu_call.c: of a call what is done on a device ---- */

/* The args' pointers, as its process has them. */
void ts_gpu_point(const ts_cage *c, int slot, unsigned char *args);
/* Before the first call; false: it holds too much of the device's memory. */
bool ts_gpu_weigh(ts_cage *c, char *why, size_t n);
int  ts_gpu_lay(ts_cage *c, int slot, bool fresh, ts_call *r); /* TS_WORD_* */
void ts_gpu_free(ts_cage *c, double done_ns, ts_call *r);
void ts_gpu_fetch(ts_cage *c, int slot, ts_call *r);

enum { TS_WORD_CAME, TS_WORD_NOT, TS_WORD_DEAD };

int ts_cage_await(ts_cage *c, const uint32_t *word, uint32_t want, double spin_ns, double limit_ns);
int ts_cage_await_byte(ts_cage *c, int limit_ms);
bool     ts_cage_alive(ts_cage *c); /* reaps */
void     ts_cage_end(ts_cage *c, bool hung, ts_call *r);
void     ts_cage_stop_rivals(ts_cage *c);        /* freezes all others, again */
void     ts_cage_stop_again(ts_cage *c);         /* one that is frozen: are all of it? */
uint64_t ts_cage_chance(ts_cage *c, uint64_t n); /* below n */
double   ts_cage_cpu_ns(const ts_cage *c);       /* of all its threads, as far as it is known */
void     ts_cage_listen(ts_cage *c);             /* to its standard error */
void     ts_cage_relax(const ts_cage *c);
void     ts_nap(double ns);
void     ts_cage_calibrate(const ts_honest *h);

extern const size_t ts_lead_bytes[TS_LEADS];

#endif
