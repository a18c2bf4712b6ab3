/* SPDX-License-Identifier: Apache-2.0 */
/* unit_ternary_training.c - tests the judge's reference of a ternary model by differences, and what
 * no case can express of the library's.
 *
 * The latter are bytes per weight, and a workspace that is large enough for any smaller batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "ternary_reference.h"
#include "unit.h"

static const ts_ternary_dims small = { 11, 8, 1, 2, 1, 4, 12, 3, 7, 10000, 1e-6 };
static const ts_ternary_dims other = { 9, 12, 2, 4, 2, 6, 10, 3, 7, 500, 1e-5 };

static double *some_weights(const ts_ternary_dims *d, int64_t *n)
{
    *n = ts_tref_latents(d) + ts_tref_norms(d);
    double *w = malloc((size_t)*n * sizeof *w);
    assert_non_null(w);
    for (int64_t i = 0; i < *n; i++)
        w[i] = i < ts_tref_latents(d) ? ts_normal(1, i) / 3 : 1 + ts_normal(2, i) / 5;
    return w;
}

static void fill_tokens(const ts_ternary_dims *d, int32_t *tokens, int64_t n)
{
    for (int64_t i = 0; i < n; i++) tokens[i] = (int32_t)(ts_bits(3, i) % (uint64_t)d->n_vocab);
}

/* Every weight. A central difference of step 1e-5 is off by 1e-10 of the third derivative, and by
 * 1e-16 / 1e-5 of the loss. */
static double worst_gradient(const ts_ternary_dims *d)
{
    const double h = 1e-5;
    int64_t      n;
    double      *w = some_weights(d, &n), *g = malloc((size_t)n * sizeof *g), worst = 0;
    int32_t      tokens[21];
    fill_tokens(d, tokens, 21);
    assert_non_null(g);
    ts_tref_run(d, w, 3, 7, tokens, 0, g);
    for (int64_t i = 0; i < n; i++) {
        const double was = w[i];
        w[i] = was + h;
        const double up = ts_tref_run(d, w, 3, 7, tokens, 0, NULL);
        w[i] = was - h;
        const double down = ts_tref_run(d, w, 3, 7, tokens, 0, NULL);
        w[i] = was;
        worst = fmax(worst, fabs((up - down) / (2 * h * 18) - g[i]));
    }
    free(w);
    free(g);
    return worst;
}

TEST(reference_is_differentiated)
{
    assert_true(worst_gradient(&small) < 1e-7);
    assert_true(worst_gradient(&other) < 1e-7);
}

/* With noise, results move, but only as far as roundings take them. */
TEST(noise_is_small)
{
    int64_t n;
    int32_t tokens[21];
    double *w = some_weights(&small, &n), *g = malloc((size_t)n * sizeof *g);
    double *noisy = malloc((size_t)n * sizeof *noisy), most = 0;
    fill_tokens(&small, tokens, 21);
    const double nll = ts_tref_run(&small, w, 3, 7, tokens, 0, g);
    const double off = fabs(ts_tref_run(&small, w, 3, 7, tokens, 77, noisy) - nll);
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(noisy[i] - g[i]));
    assert_true(off > 0 && off < 1e-3 * nll);
    assert_true(most > 1e-9 && most < 1e-4);
    free(w);
    free(g);
    free(noisy);
}

/* 12 bytes per weight are kept: latent and moments; and the gradient is among the workspace. */
TEST(bytes_a_weight)
{
    const ts_ternary_dims d = { 256, 128, 2, 4, 2, 32, 384, 1, 2, 10000, 1e-6 };
    const ts_exec         x = { .device = TS_CPU, .n_threads = 1 };
    const double          n = (double)(ts_tref_latents(&d) + ts_tref_norms(&d));
    size_t                kept, work;
    assert_int_equal(ts_ternary_bytes(&d, &x, &kept, &work), TS_OK);
    assert_true((double)kept < 12 * n + 1024);
    assert_true((double)work > 4 * n);
    const ts_exec gpu = { .device = TS_CUDA };
    assert_int_not_equal(ts_ternary_bytes(&d, &gpu, &kept, &work), TS_OK);
    assert_int_equal(ts_ternary_bytes(NULL, &x, &kept, &work), TS_E_ARG);
    assert_int_equal(ts_ternary_bytes(&d, &x, NULL, &work), TS_E_ARG);
    assert_int_equal(ts_ternary_destroy(NULL), TS_E_ARG);
}

/* The workspace of kernels does not only grow with the batch: every size up to the maximum must
 * work. */
TEST(workspace_serves_all)
{
    const ts_ternary_dims d = { 40, 32, 1, 4, 2, 8, 48, 40, 70, 10000, 1e-6 };
    const int             threads[] = { 1, 2, 7 };
    int64_t               n;
    double               *w = some_weights(&d, &n), nll;
    float                *latent = malloc((size_t)n * sizeof *latent);
    int32_t               tokens[40 * 70];
    ts_ternary           *m;
    assert_non_null(latent);
    for (int64_t i = 0; i < n; i++) latent[i] = (float)w[i];
    fill_tokens(&d, tokens, 40 * 70);
    for (int t = 0; t < 3; t++) {
        ts_exec x = { .device = TS_CPU, .n_threads = threads[t], .deterministic = 1 };
        size_t  kept, work;
        assert_int_equal(ts_ternary_bytes(&d, &x, &kept, &work), TS_OK);
        void *memory = malloc(kept);
        x.workspace = malloc(work), x.workspace_bytes = work;
        assert_int_equal(
            ts_ternary_create(&d, &x, latent, latent + ts_tref_latents(&d), memory, kept, &m),
            TS_OK);
        for (int64_t b = 1; b <= 40; b += 13)
            for (int64_t k = 2; k <= 70; k += 34)
                assert_int_equal(ts_ternary_step(m, &x, &(ts_adamw) { 1e-4, 0.9, 0.95, 1e-8, 0, 1 },
                                                 b, k, tokens, &nll),
                                 TS_OK);
        free(memory);
        free(x.workspace);
    }
    free(w);
    free(latent);
}
