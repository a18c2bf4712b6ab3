/* SPDX-License-Identifier: Apache-2.0 */
/* score.h - the score of an entrant that passed the correctness stage: a weighted geometric mean,
 * so that no factor compensates for a zero and ratios stay ratios. */
#ifndef TS_SCORE_H
#define TS_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ts_workload {
    double floor_ns; /* least time, from this machine's measured peaks */
    double ns, lo_ns,
        hi_ns; /* the time that counts, with its interval; ns <= 0: the workload is missing */
} ts_workload;

typedef struct ts_score_in {
    bool               correct; /* every correctness check passed */
    bool               audit;   /* faster than the floor: no score until explained */
    const ts_workload *workload;
    size_t             n_workloads;
    double  error, error_honest; /* p99.9 of error / bound: the entrant's, correct code's */
    int64_t cells_passed, cells; /* robustness checks; 0: none were run */
    double  workspace_bytes, io_bytes;
} ts_score_in;

typedef struct ts_score {
    double S, S_lo, S_hi; /* speed: the geometric mean over workloads of floor / time, at most 1 */
    double S_min;         /* the worst workload */
    double P, R, M;       /* precision, robustness, memory */
    double score;         /* 0 to 1000; 0 if it did not pass, and under audit */
} ts_score;

/* The score is 1000 times the product of these powers. */
#define TS_WEIGHT_SPEED      0.70
#define TS_WEIGHT_ROBUSTNESS 0.15
#define TS_WEIGHT_PRECISION  0.10
#define TS_WEIGHT_MEMORY     0.05

ts_score ts_score_of(const ts_score_in *in);

typedef struct ts_grade_row {
    double      least;
    const char *grade;
} ts_grade_row;
enum { TS_N_GRADES = 6 };
extern const ts_grade_row ts_grades[TS_N_GRADES]; /* best first */

/* Grades by score: A+ 900, A 800, B 650, C 450, D 250, E below; F did not pass; "-" under audit. */
const char *ts_grade(bool correct, bool audit, double score);

#endif
