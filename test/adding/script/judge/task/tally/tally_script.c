/* SPDX-License-Identifier: Apache-2.0 */
/* tally_script.c - plays a script of tally. */
#include "tally_script.h"

const char *const ts_tally_names[3] = { "ts_tally_add", "ts_tally_mean", NULL };

static ts_status play(const void *table, const ts_mover *m, const void *args, const ts_exec *x)
{
    const ts_tally_table *const t = table;
    const ts_tally_args *const  a = args;
    ts_tally                    tally = { 0, 0 };
    (void)m, (void)x;
    for (int64_t r = 0; r <= a->n_rows; r++) {
        const float *const row = a->x + (r ? r - 1 : 0) * a->n_cols;
        double             mean = 0;
        const ts_status    s = r ? t->add(&tally, a->n_cols, row) : TS_OK;
        if (s) return s;
        a->seen[r * TS_TALLY_SEEN] = t->mean(&tally, &mean);
        a->seen[r * TS_TALLY_SEEN + 1] = mean;
    }
    return TS_OK;
}

static ts_status workspace(const void *table, const void *args, const ts_exec *x, size_t *n_bytes)
{
    (void)table, (void)args, (void)x;
    *n_bytes = 0;
    return TS_OK;
}

const ts_player ts_player_tally = { ts_tally_names, NULL, NULL, play, workspace, false };
