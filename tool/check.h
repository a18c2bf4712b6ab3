/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - what `touchstone check` and its hunt for mutants share. */
#ifndef TS_CHECK_H
#define TS_CHECK_H

#include "examine.h"
#include "registry.h"
#include "tool.h"

enum { LANE_LIMIT_MS = 120000 };

typedef struct ts_check_options {
    const char *task, *impl, *match, *device, *seed, *json, *dtype, *small, *no_mutants,
        *only_mutants, *some_mutants;
} ts_check_options;

typedef struct ts_counts {
    int64_t cases, passed, failed, skipped, calls;
    double  worst, worst_16; /* of their bounds: of 32 and 64 bits, of 16 */
} ts_counts;

typedef struct ts_check {
    ts_check_options o;
    uint64_t         seeds[2];
    int              n_seeds;
    FILE            *out; /* tables */
    bool             live;
    ts_json         *json, *flaws, *lanes;
    ts_counts        total;
    ts_arena         arena;
    ts_device        hunted;        /* where mutants are hunted */
    char             unhunted[256]; /* why they cannot be */
    int              mutant_part;   /* one of how many is, by chance */
    int              n_mutants, n_rejected, n_unhunted, n_left_out;
    unsigned         sole; /* faults for which a mutant was caught by that check alone */
    const char      *sole_by[TS_N_FAULTS];
} ts_check;

/* On a terminal: how far it is. */
void ts_check_progress(const ts_check *r, const char *task, const char *text, int i, int n);
void ts_check_clear(const ts_check *r);

/* ---- hunt.c ---- */

#define TS_NO_CUDA_MUTANTS "module of CUDA mutants not found" /* as where it is installed */

ts_function ts_check_function_of(const ts_mutant *m);
/* Sets why no CUDA mutant can be hunted, if so. */
void ts_check_probe_cuda(ts_check *r);
/* Another part of them in every run, by its fresh seed: all of them are met sooner or later. */
bool ts_check_in_part(const ts_check *r, const ts_mutant *m);
void ts_check_mutants(ts_check *r, const ts_challenge *ch);
/* The counts of all tasks; how many were not as they must be. */
int ts_check_report_mutants(ts_check *r);

#endif
