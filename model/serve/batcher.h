/* SPDX-License-Identifier: Apache-2.0 */
/* batcher.h - the thread that steps the engine, and the lock that guards all calls. */
#ifndef TS_SERVE_BATCHER_H
#define TS_SERVE_BATCHER_H

#include <pthread.h>

#include "api_call.h"

/* Counts of values up to each bound, and all. */
enum { TS_API_BUCKETS = 12 };
extern const double ts_api_bucket_bounds[TS_API_BUCKETS]; /* seconds */
typedef struct ts_api_histogram {
    int64_t count[TS_API_BUCKETS];
    int64_t n;
    double  sum;
} ts_api_histogram;

typedef struct ts_api_counts {
    int64_t          n_stop, n_length, n_cancelled, n_error; /* ends of choices */
    int64_t          n_rejected;                             /* calls without a place */
    int64_t          n_prompt, n_token;
    ts_api_histogram first_s, total_s;
    ts_engine_stats  engine;
    ts_kv_usage      cache;
} ts_api_counts;

typedef struct ts_batcher ts_batcher;

/* `wake` is called, with the lock, for a call that waits and has something to send. */
bool ts_batcher_start(const ts_serve_options *o, void (*wake)(ts_api_call *c), ts_batcher **w,
                      char why[TS_MODEL_WHY]);
/* Ends all calls that are left and the thread, and frees the batcher. Returns the pages that are
 * still in use. */
int64_t ts_batcher_stop(ts_batcher **w);

/* Hands a call over. False and a fault if there is no place for it; it is then the caller's. */
bool ts_batcher_submit(ts_batcher *w, ts_api_call *c, ts_api_refusal *f);
/* The connection lets its call go: what still runs of it is cancelled. */
void ts_batcher_release(ts_batcher *w, ts_api_call *c);

/* From now on no call is taken. Returns the calls that are under way. */
int64_t ts_batcher_drain(ts_batcher *w);
bool    ts_batcher_draining(ts_batcher *w);
/* Ends all calls as if their time were up. */
void ts_batcher_expire(ts_batcher *w);

void ts_batcher_lock(ts_batcher *w);
void ts_batcher_unlock(ts_batcher *w);
/* With the lock. */
const ts_api_counts *ts_batcher_counts(const ts_batcher *w);

#endif
