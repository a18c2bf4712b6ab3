/* SPDX-License-Identifier: Apache-2.0 */
/* logits.h - where the judge's models write rows of logits, and scratch memory of a search.
 *
 * On a device the models run on the host too, so that their bits are the same, and the rows are
 * copied. So there a search is not timed: the model would be most of its time. */
#ifndef TS_SCRIPT_LOGITS_H
#define TS_SCRIPT_LOGITS_H

#include <stdint.h>
#include <stdlib.h>

#include "band.h"
#include "player.h"
#include "toy.h"

static inline size_t ts_logits_bytes(int64_t n_rows, int64_t n_vocab)
{
    return (size_t)n_rows * (size_t)n_vocab * sizeof(float);
}

/* Memory of the host for rows that `out` gets, itself if m is NULL. NULL: not a number of rows. */
static inline float *ts_logits_begin(const ts_mover *m, int64_t n_rows, int64_t n_vocab, float *out)
{
    if (!m) return out;
    if (n_rows < 0 || n_rows > TS_TOY_MOST_ROWS || !out) return NULL;
    return malloc(ts_logits_bytes(n_rows, n_vocab) + 1);
}

static inline void ts_logits_end(const ts_mover *m, int64_t n_rows, int64_t n_vocab, float *rows,
                                 float *out)
{
    if (!m) return;
    if (n_rows) m->in(out, rows, ts_logits_bytes(n_rows, n_vocab));
    free(rows);
}

/* Scratch memory on the host of a call on a device, between two bands. */
typedef struct ts_scratch {
    unsigned char *p; /* NULL: none */
    size_t         n_bytes;
} ts_scratch;

/* Of the size that the query gives; takes back what it was before. */
static inline void ts_scratch_lay(ts_scratch *s, ts_workspace_fn query, const void *args,
                                  const ts_exec *x, void **host, size_t *n_bytes)
{
    size_t n = 0;
    free(s->p);
    *s = (ts_scratch) { 0 };
    if (!query || query(args, x, &n) || !n) return;
    s->p = malloc(n + 2 * TS_HELD_BAND);
    if (!s->p) return;
    s->n_bytes = n;
    memset(s->p, TS_HELD_BYTE, n + 2 * TS_HELD_BAND);
    *host = s->p + TS_HELD_BAND;
    *n_bytes = n;
}

/* Number of changed bytes around it. */
static inline int64_t ts_scratch_changed(const ts_scratch *s)
{
    if (!s->p) return 0;
    return ts_count_other(s->p, TS_HELD_BAND, TS_HELD_BYTE) +
           ts_count_other(s->p + TS_HELD_BAND + s->n_bytes, TS_HELD_BAND, TS_HELD_BYTE);
}

#endif
