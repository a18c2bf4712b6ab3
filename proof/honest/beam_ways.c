/* SPDX-License-Identifier: Apache-2.0 */
/* beam_ways.c - beam_search with the log-softmax by the formulas in use.
 *
 * Ways: two_pass online pairwise log_add
 * Common ways: in_float in_float_online
 *
 * two_pass: the maximum, then the sum. online: a running maximum. pairwise: sums of halves.
 * log_add: each logit joins a running log-sum-exp. in_float: log-softmax, sums and scores in float.
 */
#include <math.h>
#include <stdint.h>

static double log_sum(const float *x, int64_t n);
static double total_of(double before, float x, double row);
static double score_of(double logprob, double penalty);

#define POINT_log_sum ~, LOG_SUM
#define POINT_logprob ~, LOGPROB
#define POINT_score   ~, SCORE
#define LOG_SUM(...)  ((void)(__VA_ARGS__), log_sum(x, n))
#define LOGPROB(...)  total_of(b[j].logprob, x[t], s->log_sum[b[j].row])
#define SCORE(...)    score_of(logprob, penalty)
#include "hooks.h"

#include "beam_search.c"

enum { two_pass, online, pairwise, log_add, in_float, in_float_online };
static const int way = WAY;

static double in(double v)
{
    return way >= in_float ? (double)(float)v : v;
}

static double sum_of(const float *x, int64_t n, double max)
{
    double sum = 0;
    if (way == pairwise && n > 8) return sum_of(x, n / 2, max) + sum_of(x + n / 2, n - n / 2, max);
    for (int64_t t = 0; t < n; t++) sum = in(sum + in(exp(in(x[t] - max))));
    return sum;
}

/* In one pass: the sum follows the maximum. */
static double log_sum_online(const float *x, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t t = 0; t < n; t++) {
        if (x[t] == -INFINITY) continue;
        if (x[t] > max) {
            sum = max == -INFINITY ? 0 : in(sum * in(exp(in(max - x[t]))));
            max = x[t];
        }
        sum = in(sum + in(exp(in(x[t] - max))));
    }
    return in(max + in(log(sum)));
}

static double log_sum(const float *x, int64_t n)
{
    double max = -INFINITY;
    if (way == online || way == in_float_online) return log_sum_online(x, n);
    for (int64_t t = 0; t < n && way == log_add; t++) {
        const double more = fmax(max, x[t]), less = fmin(max, x[t]);
        max = less == -INFINITY ? more : more + log1p(exp(less - more));
    }
    if (way == log_add) return max;
    for (int64_t t = 0; t < n; t++) max = fmax(max, x[t]);
    return in(max + in(log(sum_of(x, n, max))));
}

static double total_of(double before, float x, double row)
{
    return in(before + in(x - row));
}

static double score_of(double logprob, double penalty)
{
    return in(logprob / in(penalty));
}
