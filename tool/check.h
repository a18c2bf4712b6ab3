/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - private to `touchstone check`: check.c and mutants.c, which runs the mutants. */
#ifndef TS_CHECK_H
#define TS_CHECK_H

#include "examine.h"
#include "registry.h"
#include "tool.h"

enum { LANE_LIMIT_MS = 120000 };

typedef struct ts_check_options {
    const char *task, *impl, *match, *json, *svg;
    int         device, dtype; /* below 0: all */
    bool        small, no_mutants, only_mutants;
} ts_check_options;

typedef struct ts_counts {
    int64_t cases, passed, failed, skipped, calls;
    double  worst, worst_16; /* as fractions of their bounds: 32 and 64 bits; 16 bits */
} ts_counts;

/* What --svg draws: largest error over bound of each implementation and dtype. */
typedef struct ts_check_errors {
    char (*label)[64]; /* [n]: task and implementation */
    double *worst;     /* [n][TS_CHECK_DTYPES]; NaN: no case */
    int     n;
} ts_check_errors;

enum { TS_CHECK_DTYPES = TS_E4M3 + 1 };

typedef struct ts_check {
    ts_check_options o;
    ts_check_errors  errors;
    uint64_t         seeds[2];
    int              n_seeds;
    FILE            *out; /* tables */
    bool             live;
    ts_json         *json, *flaws, *lanes;
    ts_counts        total;
    ts_arena         arena;
    ts_device        mutant_device; /* where mutants are run */
    char             skipped[256];  /* why they cannot be run */
    char             said[256];     /* the last reason printed for skipped cases */
    int              mutant_part;   /* run one of this many, at random */
    int              case_part;     /* likewise */
    int              n_mutants, n_rejected, n_skipped, n_left_out;
    unsigned         sole; /* bit mask of checks that were the only ones to catch some mutant */
    const char      *sole_by[TS_N_FAULTS];
} ts_check;

/* The status line on a terminal. */
void ts_check_progress(const ts_check *r, const char *task, const char *text, int i, int n);
void ts_check_clear(const ts_check *r);

/* ---- check_svg.c ---- */

void ts_check_errors_add(ts_check_errors *e, const char *task, const char *impl,
                         const double *worst);
bool ts_check_errors_draw(ts_check_errors *e, const char *path);

/* ---- mutants.c ---- */

#define TS_NO_CUDA_MUTANTS "module of CUDA mutants not found" /* as in an installation */

ts_function ts_check_function_of(const ts_mutant *m);
/* Sets `skipped` if no CUDA mutant can be run. */
void ts_check_probe_cuda(ts_check *r);
/* A different part of the mutants in every run, by its fresh seed, so that all are covered over
 * time. */
bool ts_check_in_part(const ts_check *r, const ts_mutant *m);
void ts_check_mutants(ts_check *r, const ts_challenge *ch);
/* Reports the counts of all tasks; returns the number of failures. */
int ts_check_report_mutants(ts_check *r);

#endif
