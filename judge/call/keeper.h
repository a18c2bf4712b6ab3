/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.h - the keeper: a process of the judge that owns the device memory of a block of cases.
 *
 * An entrant's process maps buffers that the keeper allocated, and the judge never relies on that
 * process for their contents: the keeper writes inputs and poison before a call, flushes the
 * caches, times the call by the device's clock, reads the outputs after it, and compares the bands
 * around the buffers. As a fork of the judge it has the host's image of every slot. */
#ifndef TS_KEEPER_H
#define TS_KEEPER_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include "arena.h"
#include "call.h"

typedef struct ts_keeper ts_keeper;

/* Allocates slots[0..n) and n_workspace bytes, and sends the buffers through `give`, a socket. It
 * runs on `cores`, if there are any. NULL, and one line in why, if there is no device. */
ts_keeper *ts_keeper_start(const ts_arena *const *slots, int n, size_t n_workspace, int give,
                           const cpu_set_t *cores);
/* Waits until everything is sent; false, and one line in why, if allocation failed. *n_free: the
 * device's free bytes at that time. */
bool ts_keeper_ready(ts_keeper *k, size_t *n_free, char *why, size_t n);
void ts_keeper_stop(ts_keeper **k);

typedef struct ts_kept_word {
    bool    ok;       /* false: the device failed; one line in text */
    bool    busy;     /* another process used the device meanwhile */
    bool    unsure;   /* or may have: the judge was late, or had no core */
    ts_flaw flaw;     /* a band or an input was touched */
    double  shown_ns; /* how long the inputs had been visible at go */
    double
        span_ns; /* by the device's clock: until it was free, after go and the wait for launches */
    double free_ns; /* from done until it was free */
    size_t n_free;  /* free bytes of the device */
    char   text[160];
} ts_kept_word;

/* FRESH: the host's image has changed since the last call. TIMED: the device is brought up to speed
 * first. AHEAD: the end of the call is enqueued during it, see keep_gate.c. ANYWAY: even if another
 * process uses the device; else the layout ends with `busy`, and there is no call. */
enum { TS_LAY_FRESH = 1, TS_LAY_TIMED = 2, TS_LAY_AHEAD = 4, TS_LAY_ANYWAY = 8 };

/* Writes a slot's image and n_workspace poisoned bytes between bands, flushes the caches, and keeps
 * the device busy until after ts_keeper_go. ts_keeper_done waits for the device, and for span_ns
 * and free_ns.
 */
void ts_keeper_lay(ts_keeper *k, int slot, unsigned how, size_t n_workspace, ts_kept_word *w);
void ts_keeper_go(ts_keeper *k);
void ts_keeper_done(ts_keeper *k, ts_kept_word *w);
/* Whether an empty kernel of this duration had to wait for another process. */
static inline bool ts_keeper_sees(double ns, double usual_ns)
{
    return ns > 4 * usual_ns + 60e3;
}

/* Only reads the free memory. */
void ts_keeper_weigh(ts_keeper *k, ts_kept_word *w);
/* Copies the outputs to the host's image. */
void ts_keeper_fetch(ts_keeper *k, int slot, size_t n_workspace, ts_kept_word *w);

/* Properties of the device, queried in a separate process: the judge never loads the driver. */
typedef struct ts_survey {
    bool   there;
    char   text[256]; /* "NVIDIA H200, sm_90, ...", or why there is none */
    char   arch[16];  /* "sm_90" */
    double copy_gbs;  /* the driver's device-to-device copy */
    double gflops;    /* float32; 0: unknown */
    double matrix;    /* multiple of that for bfloat16 on tensor cores, at most */
    double probe_ns;  /* an empty kernel, from launch to its end */
    double n_bytes;   /* of memory */
} ts_survey;

void ts_keeper_survey(ts_survey *s);

#endif
