/* SPDX-License-Identifier: Apache-2.0 */
/* score.h - the score of an entrant that passed the correctness stage: the place of its times among
 * those of a textbook version, the best known one and the floor, times three factors. */
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

/* Times of two versions of the entrant's kind on a workload, measured in the same run. */
typedef struct ts_anchors {
    double text_ns; /* the textbook's; <= 0: there is none */
    double best_ns; /* the best known version's; <= 0: the workload has no place on the scale */
} ts_anchors;

typedef struct ts_score_in {
    bool               correct; /* every correctness check passed */
    bool               audit;   /* faster than the floor: no score until explained */
    const ts_workload *workload;
    const ts_anchors  *anchor; /* of each workload; NULL: none has any */
    size_t             n_workloads;
    double  error, error_honest; /* p99.9 of error / bound: the entrant's, the best known one's */
    int64_t cells_passed, cells; /* robustness checks; 0: none were run */
    double  workspace_bytes, io_bytes;
    double memory_honest; /* the best known version's workspace, as a multiple of the bytes moved */
} ts_score_in;

typedef struct ts_score {
    double S, S_lo, S_hi; /* speed: the geometric mean over workloads of floor / time, at most 1 */
    double S_min;         /* the worst workload */
    double P, R, M;       /* precision, robustness, memory: 1 for up to twice the best known
                             version's error and memory */
    double speed;   /* 1 to 1000: the geometric mean over workloads of ts_place; NaN: no anchors */
    double of_best; /* best known time / time, the geometric mean over workloads; NaN: no anchors */
    double score;   /* 1 to 1000; 0 if it did not pass, and under audit; NaN if speed is */
} ts_score;

/* Places on the scale of a time that equals the textbook's, the best known one, the floor. */
enum { TS_PLACE_TEXT = 250, TS_PLACE_BEST = 800, TS_PLACE_FLOOR = 1000 };

/* The place of a time, 1 to 1000. Slower than the textbook it is inversely proportional to the
 * time, in between logarithmic. Two anchors within 10 % of each other count as one:
 *  - textbook and best, or without a textbook: 800 best / time for slower ones;
 *  - best and floor: from 1000 at the floor the place drops by 200 per 10 %, so that a best version
 *    at the floor has 1000. Both 800 at 10 % and 1000 at 0 % are continuous.
 * A textbook faster than the best known version is the best known version. */
double ts_place(double ns, double floor_ns, ts_anchors a);

/* The score is `speed` times the product of these powers. */
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

/* Grades by score: A+ 900, A 800 (as fast as the best known version), B 650, C 450, D 250 (as fast
 * as the textbook), E below; F did not pass; "-" under audit, and without a score (NaN). */
const char *ts_grade(bool correct, bool audit, double score);

#endif
