/* SPDX-License-Identifier: Apache-2.0 */
/* match.h - matches between two entrants, and the ranking of all. Deterministic: the seed is an
 * argument. */
#ifndef TS_MATCH_H
#define TS_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A larger field has no matches, since pairs grow with its square; tables and pages of it are
 * shorter. */
enum { TS_CROWD = 64 };

/* ---- head to head ---- */

/* A and B on the same instance, adjacent in time. One block is one (run, pair): calls timed
 * together are resampled together. */
typedef struct ts_pair {
    int    workload, block; /* both from 0 */
    double a_ns, b_ns;
} ts_pair;

typedef enum ts_outcome { TS_OUTCOME_A, TS_OUTCOME_B, TS_OUTCOME_TIE, TS_OUTCOME_NOISE } ts_outcome;

typedef struct ts_match {
    double     effect, lo, hi; /* log(t_b / t_a): above 0, A is faster */
    ts_outcome outcome;
} ts_match;

#define TS_TIE_BAND   0.01 /* log ratios within it are a tie */
#define TS_SURE       1.6  /* log of a factor of five: always a win */
#define TS_NOISE_BAND 0.05 /* without a win, a wider interval is noise, not a tie */

/* The mean over workloads of the median log(t_b / t_a), with the 95 % interval of a percentile
 * bootstrap over blocks. False if there is no pair, or out of memory. */
bool        ts_match_pairs(const ts_pair *pair, size_t n, uint64_t seed, ts_match *m);
ts_outcome  ts_match_outcome(double lo, double hi);
const char *ts_outcome_name(ts_outcome o); /* "a" "b" "tie" "noise" */

/* ---- the ranking: Bradley and Terry's model with Davidson's ties ---- */

typedef struct ts_game {
    int        a, b;    /* players, from 0 */
    ts_outcome outcome; /* noise counts as a tie */
} ts_game;

typedef struct ts_rating {
    double rating, lo, hi; /* on the Elo scale: 400 means odds of ten to one, the mean is 1500 */
    int    rank;           /* 1 + number of players whose whole interval is above this one's */
} ts_rating;

/* Ratings with 95 % intervals by a bootstrap over games. False if out of memory. */
bool ts_rank(const ts_game *game, size_t n_games, int n_players, uint64_t seed, ts_rating *r);

#endif
