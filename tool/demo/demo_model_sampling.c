/* SPDX-License-Identifier: Apache-2.0 */
/* demo_model_sampling.c - `demo sampling`: the distribution that temperature, top-k and top-p make
 * of one row of logits, and samples compared with it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decoder.h"
#include "demo_kv.h"
#include "rng.h"

enum { CONTEXT = 24, DRAWS = 20000, N_HOW = 7, N_PLOTS = 4, N_RANKS = 10 };

static const ts_sampling HOW[N_HOW] = {
    { 1, 0, 1, 0 },   { 0.5, 0, 1, 0 },    { 2, 0, 1, 0 }, { 1, 5, 1, 0 },
    { 1, 0, 0.9, 0 }, { 0.8, 20, 0.9, 0 }, { 0, 0, 1, 0 },
};

/* By rank of the logits. */
typedef struct law {
    double *p, *share; /* [n]: expected and sampled frequencies */
    int64_t n, n_possible;
    double  entropy, chi2, z; /* z: standard deviations of chi2 above its mean */
    int64_t n_bins, n_outside;
} law;

typedef struct ranked {
    double  logit;
    int32_t token;
} ranked;

static int by_logit(const void *x, const void *y)
{
    const ranked *a = x, *b = y;
    if (a->logit != b->logit) return a->logit < b->logit ? 1 : -1;
    return (a->token > b->token) - (a->token < b->token);
}

/* The definition: softmax at the temperature, then the top_k most probable tokens, then the
 * smallest set of these with probability top_p, renormalised. */
static void write_law(const ts_sampling *how, const ranked *r, law *w)
{
    const int64_t k = how->temperature <= 0 ? 1 : how->top_k ? how->top_k : w->n;
    double        total = 0, kept = 0;
    memset(w->p, 0, (size_t)w->n * sizeof *w->p);
    for (int64_t i = 0; i < k; i++)
        total += w->p[i] = k == 1 ? 1 : exp((r[i].logit - r[0].logit) / how->temperature);
    for (w->n_possible = 0; w->n_possible < k && (how->top_p >= 1 || kept < how->top_p * total);
         w->n_possible++)
        kept += w->p[w->n_possible];
    w->entropy = 0;
    for (int64_t i = 0; i < w->n; i++) {
        w->p[i] = i < w->n_possible ? w->p[i] / kept : 0;
        if (w->p[i] > 0) w->entropy -= w->p[i] * log2(w->p[i]);
    }
}

/* Pearson's statistic over bins with at least 5 expected draws: tokens by rank, rare ones merged.
 * Its cube root is nearly normal (Wilson and Hilferty). */
static void test_law(law *w)
{
    double seen = 0, due = 0, rest = 0;
    w->chi2 = w->n_bins = w->n_outside = 0;
    for (int64_t i = 0; i < w->n; i++) rest += DRAWS * w->p[i];
    for (int64_t i = 0; i < w->n; i++) {
        seen += DRAWS * w->share[i];
        due += DRAWS * w->p[i];
        rest -= DRAWS * w->p[i];
        if (w->p[i] <= 0) w->n_outside += llround(DRAWS * w->share[i]);
        if (due < 5 || (rest < 5 && i + 1 < w->n_possible)) continue;
        w->chi2 += (seen - due) * (seen - due) / due;
        w->n_bins++;
        seen = due = 0;
    }
    const double f = (double)w->n_bins - 1;
    w->z = f > 0 ? (cbrt(w->chi2 / f) - (1 - 2 / (9 * f))) / sqrt(2 / (9 * f)) : 0;
}

static bool draw(const ts_demo_args *a, const ts_sampling *how, const float *row,
                 const int64_t *rank, law *w)
{
    ts_sampler *s = NULL;
    bool        ok = ts_sampler_create(w->n, &s);
    memset(w->share, 0, (size_t)w->n * sizeof *w->share);
    for (int64_t i = 0; ok && i < DRAWS; i++) {
        ts_sampling mine = *how;
        int32_t     token;
        mine.seed = ts_bits(a->seed, i);
        ok = ts_demo_ok("draw", ts_sampler_draw(s, &mine, 0, row, &token));
        if (ok) w->share[rank[token]] += 1.0 / DRAWS;
    }
    ts_sampler_free(&s);
    return ok;
}

static void show_law(const ts_demo_args *a, const ts_sampling *how, const law *w, ts_json *rows)
{
    ts_json *o = ts_json_object(rows, NULL);
    double   apart = 0;
    for (int64_t i = 0; i < w->n; i++) apart += fabs(w->share[i] - w->p[i]) / 2;
    ts_json_number(o, "temperature", how->temperature);
    ts_json_int(o, "top_k", how->top_k);
    ts_json_number(o, "top_p", how->top_p);
    ts_json_int(o, "possible", w->n_possible);
    ts_json_number(o, "entropy_bits", w->entropy);
    ts_json_number(o, "first_law", w->p[0]);
    ts_json_number(o, "first_drawn", w->share[0]);
    ts_json_number(o, "total_variation", apart);
    ts_json_number(o, "chi2", w->chi2);
    ts_json_int(o, "bins", w->n_bins);
    ts_json_number(o, "z", w->z);
    ts_json_int(o, "outside", w->n_outside);
    if (!a->table) return;
    fprintf(a->table, "%4.1f  %5lld  %5.2f  %8lld  %7.2f", how->temperature, (long long)how->top_k,
            how->top_p, (long long)w->n_possible, w->entropy);
    for (int i = 0; i < 3; i++) fprintf(a->table, "  %.3f %.3f", w->p[i], w->share[i]);
    fprintf(a->table, "  %6.1f / %-3lld  %5.1f  %7lld\n", w->chi2, (long long)w->n_bins - 1, w->z,
            (long long)w->n_outside);
}

/* The ranked logits after a generated text. */
static bool one_row(const ts_demo_args *a, const ts_demo_model *m, float *row, ranked *r,
                    int64_t *rank, int64_t n)
{
    const int64_t    n_new = CONTEXT;
    const ts_kv_dims d = ts_demo_model_dims(m, 1, CONTEXT, CONTEXT);
    int32_t          token[CONTEXT], seq;
    double          *logits = malloc((size_t)n * sizeof *logits);
    ts_demo_kv       k = { 0 };
    bool             ok = logits && ts_demo_model_text(m, a->seed, token, CONTEXT) &&
              ts_demo_model_cache(m, &d, &k) && ts_demo_ok("open", ts_kv_open(k.c, &k.x, &seq));
    const ts_demo_batch b = { 1, &seq, &n_new, token, false };
    ok = ok && ts_demo_model_forward(m, &k, &b, logits);
    for (int64_t i = 0; ok && i < n; i++) {
        row[i] = (float)logits[i];
        r[i] = (ranked) { row[i], (int32_t)i };
    }
    if (ok) qsort(r, (size_t)n, sizeof *r, by_logit);
    for (int64_t i = 0; ok && i < n; i++) rank[r[i].token] = i;
    ts_demo_kv_free(&k);
    free(logits);
    return ok;
}

static bool run_laws(const ts_demo_args *a, const ts_demo_model *m, law w[N_HOW])
{
    const int64_t n = ts_decoder_dims_of(m->m)->n_vocab;
    float        *row = malloc((size_t)n * sizeof *row);
    ranked       *r = malloc((size_t)n * sizeof *r);
    int64_t      *rank = malloc((size_t)n * sizeof *rank);
    ts_json      *rows = ts_json_array(a->json, "rows");
    bool          ok = row && r && rank && one_row(a, m, row, r, rank, n);
    for (int i = 0; ok && i < N_HOW; i++) {
        w[i].n = n;
        w[i].p = malloc((size_t)n * sizeof *w[i].p);
        w[i].share = malloc((size_t)n * sizeof *w[i].share);
        ok = w[i].p && w[i].share;
        if (ok) write_law(&HOW[i], r, &w[i]);
        ok = ok && draw(a, &HOW[i], row, rank, &w[i]);
        if (!ok) break;
        test_law(&w[i]);
        show_law(a, &HOW[i], &w[i], rows);
    }
    free(row);
    free(r);
    free(rank);
    return ok;
}

/* Filled markers are samples, hollow ones the distribution. */
static bool plot_laws(const char *path, const law w[N_HOW])
{
    static const int which[N_PLOTS] = { 0, 1, 2, 4 };
    char             name[2 * N_PLOTS][32];
    double           x[N_RANKS], y[2 * N_PLOTS][N_RANKS];
    ts_series        s[2 * N_PLOTS];
    for (int j = 0; j < N_RANKS; j++) { /* 1, 2, 3, 5, 8 ... : evenly spaced on a log axis */
        const int64_t rank = llround(pow(64, (double)j / (N_RANKS - 1)));
        x[j] = (double)rank;
        for (int i = 0; i < N_PLOTS; i++) {
            const law *l = &w[which[i]];
            y[i][j] = l->share[rank - 1] > 0 ? l->share[rank - 1] : NAN;
            y[N_PLOTS + i][j] = l->p[rank - 1] > 1e-5 ? l->p[rank - 1] : NAN;
        }
    }
    for (int i = 0; i < 2 * N_PLOTS; i++) {
        const ts_sampling *h = &HOW[which[i % N_PLOTS]];
        snprintf(name[i], sizeof name[i], "%s, %s %g", i < N_PLOTS ? "drawn" : "exact",
                 h->top_p < 1 ? "top-p" : "T =", h->top_p < 1 ? h->top_p : h->temperature);
        s[i] = (ts_series) { name[i], y[i] };
    }
    return ts_svg_write(path,
                        &(ts_plot) { "Samples from one row of logits, and their distribution",
                                     "rank of the token", "probability", x, N_RANKS, s,
                                     2 * N_PLOTS },
                        1);
}

int ts_demo_sampling(const ts_demo_args *a)
{
    const double most =
        5; /* standard deviations: a correct sampler fails once in three million runs */
    law           w[N_HOW] = { 0 };
    ts_demo_model m;
    bool          right = true, ok = ts_demo_model_open(a, TS_F32, &m);
    if (ok)
        ts_print(a->table,
                 "%d draws, each with its own seed, from the logits after %d tokens generated by "
                 "the model.\n",
                 DRAWS, CONTEXT);
    if (ok) ts_demo_model_about(a, &m);
    if (ok)
        ts_print(a->table, "\n%4s  %5s  %5s  %8s  %7s  %-11s  %-11s  %-11s  %12s  %5s  %7s\n", "T",
                 "top-k", "top-p", "possible", "entropy", "1st   drawn", "2nd   drawn",
                 "3rd   drawn", "chi2 / free", "z", "outside");
    ok = ok && run_laws(a, &m, w);
    for (int i = 0; ok && i < N_HOW; i++) right = right && w[i].z < most && !w[i].n_outside;
    if (ok)
        ts_print(a->table,
                 "\nThe expected distribution is computed from its definition, in double; entropy "
                 "in bits. z: standard\ndeviations of Pearson's statistic above its mean. Outside: "
                 "draws of probability 0. %s\n",
                 right ? "Draws follow the distribution."
                       : "FAILED: draws do not follow the distribution.");
    ts_json_int(a->json, "draws", DRAWS);
    const bool drawn = !ok || !a->svg || plot_laws(a->svg, w);
    for (int i = 0; i < N_HOW; i++) {
        free(w[i].p);
        free(w[i].share);
    }
    ts_demo_model_close(&m);
    return ok ? ts_demo_end(a, right, drawn) : TS_EXIT_BROKEN;
}
