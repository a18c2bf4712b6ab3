/* SPDX-License-Identifier: Apache-2.0 */
/* tally_script.h - a script of tally: queries the mean, then again after adding each row. */
#ifndef TS_TALLY_SCRIPT_H
#define TS_TALLY_SCRIPT_H

#include "player.h"
#include "touchstone/tally.h"

enum { TS_TALLY_SEEN = 2 }; /* the status of mean, and the mean: 0 where there is none */

typedef struct ts_tally_args {
    int64_t      n_rows, n_cols;
    const float *x;    /* [n_rows][n_cols] */
    double      *seen; /* [n_rows + 1][TS_TALLY_SEEN] */
} ts_tally_args;

typedef struct ts_tally_table {
    ts_status (*add)(ts_tally *, int64_t, const float *);
    ts_status (*mean)(const ts_tally *, double *);
} ts_tally_table;

extern const char *const ts_tally_names[3];
extern const ts_player   ts_player_tally;

#endif
