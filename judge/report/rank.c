/* SPDX-License-Identifier: Apache-2.0 */
/* rank.c - fits Davidson's model: with strengths e^s, A beats B with weight e^sa, B beats A with
 * e^sb, and they tie with weight e^(t + (sa + sb) / 2).
 *
 * The log-likelihood is concave in (s, t). One coordinate at a time takes a Newton step of at most
 * 1, so that no matrix is inverted and a flat place moves nothing far. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "match.h"
#include "quantile.h"
#include "rng.h"

enum { SWEEPS = 3000, RESAMPLES = 300 };

/* One tie against a phantom of mean strength, so that an entrant that won every game has a finite
 * rating. */
#define PRIOR 1.0

typedef struct counts {
    int     n;
    double *win; /* [n][n]: row beat column */
    double *tie; /* [n][n], symmetric */
    double  ties, games;
} counts;

typedef struct chances {
    double a, tie;
} chances;

static chances chance(double sa, double sb, double t)
{
    const double d = (sa - sb) / 2, top = fmax(fabs(d), t);
    const double a = exp(d - top), b = exp(-d - top), e = exp(t - top);
    return (chances) { a / (a + b + e), e / (a + b + e) };
}

/* The variance of a game's result: 1 if A wins, a half for a tie. */
static double variance(chances p)
{
    const double mean = p.a + p.tie / 2;
    return p.a + p.tie / 4 - mean * mean;
}

static double newton(double slope, double curvature)
{
    return fmax(-1, fmin(slope / fmax(curvature, 1e-9), 1));
}

static double games_of(const counts *c, int i, int j)
{
    return c->win[i * c->n + j] + c->win[j * c->n + i] + c->tie[i * c->n + j];
}

static double step_strength(const counts *c, double *s, double t, int i)
{
    const chances p = chance(s[i], 0, t);
    double        slope = PRIOR * (0.5 - p.a - p.tie / 2), curvature = PRIOR * variance(p);
    for (int j = 0; j < c->n; j++) {
        const double n = games_of(c, i, j);
        if (n == 0) continue;
        const chances q = chance(s[i], s[j], t);
        slope += c->win[i * c->n + j] + c->tie[i * c->n + j] / 2 - n * (q.a + q.tie / 2);
        curvature += n * variance(q);
    }
    const double step = newton(slope, curvature);
    s[i] += step;
    return fabs(step);
}

/* The prior is half a tie and one game without: no observed ties does not mean that they are
 * impossible. */
static double step_ties(const counts *c, const double *s, double *t)
{
    const double none = chance(0, 0, *t).tie;
    double       slope = c->ties + 0.5 - 1.5 * none, curvature = 1.5 * none * (1 - none);
    for (int i = 0; i < c->n; i++)
        for (int j = 0; j < i; j++) {
            const double n = games_of(c, i, j);
            if (n == 0) continue;
            const double tie = chance(s[i], s[j], *t).tie;
            slope -= n * tie;
            curvature += n * tie * (1 - tie);
        }
    const double step = newton(slope, curvature);
    *t += step;
    return fabs(step);
}

/* All strengths together, which the prior alone holds back: one by one they would follow slowly. */
static double step_all(const counts *c, double *s, double t)
{
    double slope = 0, curvature = 0;
    for (int i = 0; i < c->n; i++) {
        const chances p = chance(s[i], 0, t);
        slope += 0.5 - p.a - p.tie / 2;
        curvature += variance(p);
    }
    const double step = newton(slope, curvature);
    for (int i = 0; i < c->n; i++) s[i] += step;
    return fabs(step);
}

static double sweep(const counts *c, double *s, double *t)
{
    double largest = fmax(step_ties(c, s, t), step_all(c, s, *t));
    for (int i = 0; i < c->n; i++) largest = fmax(largest, step_strength(c, s, *t, i));
    return largest;
}

static void fit(const counts *c, double *s)
{
    double t = 0, mean = 0;
    memset(s, 0, (size_t)c->n * sizeof *s);
    for (int k = 0; k < SWEEPS && sweep(c, s, &t) > 1e-7; k++) {}
    for (int i = 0; i < c->n; i++) mean += s[i] / c->n;
    for (int i = 0; i < c->n; i++) s[i] -= mean;
}

static void tally(counts *c, const ts_game *g)
{
    const bool tie = g->outcome == TS_OUTCOME_TIE || g->outcome == TS_OUTCOME_NOISE;
    const int  ab = g->a * c->n + g->b, ba = g->b * c->n + g->a;
    c->games++;
    c->ties += tie;
    if (tie) c->tie[ab]++, c->tie[ba]++;
    else c->win[g->outcome == TS_OUTCOME_A ? ab : ba]++;
}

static void forget(counts *c)
{
    memset(c->win, 0, (size_t)c->n * (size_t)c->n * sizeof *c->win);
    memset(c->tie, 0, (size_t)c->n * (size_t)c->n * sizeof *c->tie);
    c->ties = c->games = 0;
}

static void intervals(counts *c, const ts_game *game, size_t n_games, uint64_t seed, double *draw,
                      double *s, ts_rating *r)
{
    const double scale = 400 / log(10);
    for (int k = 0; k < RESAMPLES; k++) {
        forget(c);
        for (size_t g = 0; g < n_games; g++)
            tally(c, &game[ts_bits(seed, k * (int64_t)n_games + (int64_t)g) % n_games]);
        fit(c, s);
        for (int i = 0; i < c->n; i++) draw[i * RESAMPLES + k] = s[i];
    }
    for (int i = 0; i < c->n; i++) {
        double *x = draw + i * RESAMPLES;
        r[i].lo = fmin(r[i].rating, 1500 + scale * ts_quantile(x, RESAMPLES, 0.025));
        r[i].hi = fmax(r[i].rating, 1500 + scale * ts_quantile(x, RESAMPLES, 0.975));
    }
    for (int i = 0; i < c->n; i++) {
        r[i].rank = 1;
        for (int j = 0; j < c->n; j++) r[i].rank += r[j].lo > r[i].hi;
    }
}

bool ts_rank(const ts_game *game, size_t n_games, int n_players, uint64_t seed, ts_rating *r)
{
    const size_t n = n_players > 0 ? (size_t)n_players : 0;
    counts       c = { .n = n_players };
    double      *s = calloc(n + 1, sizeof *s), *draw = calloc(n * RESAMPLES + 1, sizeof *draw);
    c.win = calloc(n * n + 1, sizeof *c.win);
    c.tie = calloc(n * n + 1, sizeof *c.tie);
    const bool ok = s && draw && c.win && c.tie;
    if (ok) {
        for (size_t g = 0; g < n_games; g++) tally(&c, &game[g]);
        fit(&c, s);
        for (size_t i = 0; i < n; i++) r[i].rating = 1500 + 400 / log(10) * s[i];
        intervals(&c, game, n_games, seed, draw, s, r);
    }
    free(s);
    free(draw);
    free(c.win);
    free(c.tie);
    return ok;
}
