/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.h - the device's memory during a block of cases, kept by a process of the judge's own.
 *
 * An entrant's process maps buffers that the keeper made, and is never asked what is in them: the
 * keeper lays inputs and poison out before a call, empties the caches, and reads the outputs after
 * it. It has the host's image of every slot from the judge, of which it is a fork, and runs no
 * kernel but an empty one: how long that takes tells whether somebody else is on the device. */
#ifndef TS_KEEPER_H
#define TS_KEEPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "arena.h"
#include "call.h"

typedef struct ts_keeper ts_keeper;

/* Keeps slots[0..n) and n_workspace bytes; sends the buffers through `give`, a socket. NULL, and
 * one line in why, where there is no device.
 */
ts_keeper *ts_keeper_start(const ts_arena *const *slots, int n, size_t n_workspace, int give);
/* Waits until all is sent; false, and one line in why, if it could not be made. */
bool ts_keeper_ready(ts_keeper *k, char *why, size_t n);
void ts_keeper_stop(ts_keeper **k);

typedef struct ts_kept_word {
    bool    ok;       /* false: the device is gone; one line in text */
    bool    busy;     /* another process was on the device meanwhile */
    ts_flaw flaw;     /* a band or an input was touched */
    double  shown_ns; /* how long the inputs had been there */
    char    text[160];
} ts_kept_word;

/* A slot's image in place, n_workspace poisoned bytes, and cold caches. fresh: its image on the
 * host is another than at the last call. */
void ts_keeper_lay(ts_keeper *k, int slot, bool fresh, size_t n_workspace, ts_kept_word *w);
/* Whether an empty kernel that took so long had to wait for another process's. */
static inline bool ts_keeper_sees(double ns, double usual_ns)
{
    return ns > 4 * usual_ns + 60e3;
}

/* An empty kernel, from beginning to end. */
void ts_keeper_probe(ts_keeper *k, ts_kept_word *w);
/* Outputs into the host's image. */
void ts_keeper_fetch(ts_keeper *k, int slot, size_t n_workspace, ts_kept_word *w);

/* What the device is, asked in a process of its own: this one stays without a driver. */
typedef struct ts_survey {
    bool   there;
    char   text[256]; /* "NVIDIA H200, sm_90, ...", or why there is none */
    char   arch[16];  /* "sm_90" */
    double copy_gbs;  /* the driver's own copy within the device */
    double gflops;    /* float32; 0: not found out */
    double matrix;    /* times that, at most, by the tensor cores in bfloat16 */
    double probe_ns;  /* an empty kernel, from launch to its end */
    double n_bytes;   /* of memory */
} ts_survey;

void ts_keeper_survey(ts_survey *s);

#endif
