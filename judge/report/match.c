/* SPDX-License-Identifier: Apache-2.0 */
/* match.c - decides which of two entrants is faster, from calls timed in turn. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "match.h"
#include "quantile.h"
#include "rng.h"

enum { DRAWS = 2000 };

const char *ts_outcome_name(ts_outcome o)
{
    static const char *const names[] = { "a", "b", "tie", "noise" };
    return names[o];
}

/* With the tie band alone, the near end of a wide interval exceeds it by chance once in 150 matches
 * of equals. So the near end must also be half a width from zero, and a whole width if the interval
 * is too wide to show any but large differences. A factor of five is never noise, however wide the
 * interval. */
ts_outcome ts_match_outcome(double lo, double hi)
{
    const double width = hi - lo;
    const bool   noisy = !(width <= TS_NOISE_BAND);
    const double beyond = fmin(fmax(TS_TIE_BAND, noisy ? width : width / 2), TS_SURE);
    if (lo > beyond) return TS_OUTCOME_A;
    if (hi < -beyond) return TS_OUTCOME_B;
    return noisy ? TS_OUTCOME_NOISE : TS_OUTCOME_TIE;
}

typedef struct ratio {
    int    workload, block;
    double log;
} ratio;

static int by_workload(const void *a, const void *b)
{
    const ratio *x = a, *y = b;
    if (x->workload != y->workload) return x->workload < y->workload ? -1 : 1;
    return (x->log > y->log) - (x->log < y->log);
}

/* The mean over workloads of the weighted median, where the weight of a ratio is how often its
 * block was drawn. Ratios are sorted, so one pass finds the median. A workload that was not drawn
 * counts with weight 1 for every ratio. */
static double combined(const ratio *r, size_t n, const unsigned *times)
{
    double sum = 0;
    int    workloads = 0;
    for (size_t i = 0, end; i < n; i = end, workloads++) {
        unsigned long all = 0, below = 0;
        for (end = i; end < n && r[end].workload == r[i].workload; end++)
            all += times[r[end].block];
        const bool none = !all;
        if (none) all = end - i;
        double low = (double)NAN, mid = (double)NAN;
        for (size_t k = i; k < end && isnan(mid); k++) {
            below += none ? 1 : times[r[k].block];
            if (isnan(low) && 2 * below >= all) low = r[k].log;
            if (2 * below > all) mid = (low + r[k].log) / 2;
        }
        sum += mid;
    }
    return sum / workloads;
}

/* Percentiles rather than BCa: the jackknife of a median has only two values, so its acceleration
 * estimates nothing. */
static void bootstrap(const ratio *r, size_t n, int blocks, uint64_t seed, unsigned *times,
                      double *draw, ts_match *m)
{
    for (int b = 0; b < blocks; b++) times[b] = 1;
    m->effect = combined(r, n, times);
    for (int64_t d = 0; d < DRAWS; d++) {
        memset(times, 0, (size_t)blocks * sizeof *times);
        for (int64_t b = 0; b < blocks; b++)
            times[ts_bits(seed, d * blocks + b) % (uint64_t)blocks]++;
        draw[d] = combined(r, n, times);
    }
    m->lo = ts_quantile(draw, DRAWS, 0.025);
    m->hi = ts_quantile(draw, DRAWS, 0.975);
    m->outcome = ts_match_outcome(m->lo, m->hi);
}

bool ts_match_pairs(const ts_pair *pair, size_t n, uint64_t seed, ts_match *m)
{
    int     blocks = 0;
    ratio  *r = malloc((n + 1) * sizeof *r);
    double *draw = malloc(DRAWS * sizeof *draw);
    for (size_t i = 0; r && i < n; i++) {
        r[i] = (ratio) { pair[i].workload, pair[i].block, log(pair[i].b_ns / pair[i].a_ns) };
        if (pair[i].block >= blocks) blocks = pair[i].block + 1;
    }
    unsigned  *times = calloc((size_t)blocks + 1, sizeof *times);
    const bool ok = r && draw && times && n;
    if (ok) {
        qsort(r, n, sizeof *r, by_workload);
        bootstrap(r, n, blocks, seed, times, draw, m);
    }
    free(r);
    free(draw);
    free(times);
    return ok;
}
