/* SPDX-License-Identifier: Apache-2.0 */
/* unit_cross_entropy.c - the size of the workspace, and identities that hold whatever the numbers.
 * Values against an oracle are `touchstone check`'s. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "isa_impls.h"
#include "rng.h"
#include "touchstone/cross_entropy.h"
#include "unit.h"

enum { ROWS = 37, WORDS = 45 };

static const unsigned masks[] = TS_CPU_MASKS;

static float   h[ROWS * WORDS], unit[WORDS * WORDS], loss[ROWS], lse[ROWS], total[1];
static float   dh[ROWS * WORDS], dw[WORDS * WORDS];
static int32_t target[ROWS];

/* With the unit matrix for w, hidden states are logits. */
static ts_cross_entropy_args sound(void)
{
    for (int i = 0; i < ROWS * WORDS; i++) h[i] = 3 * (float)ts_normal(7, i);
    for (int i = 0; i < WORDS * WORDS; i++) unit[i] = i % (WORDS + 1) == 0;
    for (int i = 0; i < ROWS; i++) target[i] = i % 5 == 2 ? -100 : i * 11 % WORDS;
    return (ts_cross_entropy_args) { .grad_dtype = TS_F32,
                                     .mean = 1,
                                     .ignore_index = -100,
                                     .n_rows = ROWS,
                                     .n_vocab = WORDS,
                                     .n_hidden = WORDS,
                                     .h_stride = WORDS,
                                     .w_stride = WORDS,
                                     .scale = 2,
                                     .smoothing = 0.1,
                                     .z_loss = 0.01,
                                     .softcap = 20,
                                     .h = h,
                                     .w = unit,
                                     .target = target,
                                     .loss = loss,
                                     .lse = lse,
                                     .total = total,
                                     .dh = dh,
                                     .dw = dw };
}

static size_t bytes_of(const ts_cross_entropy_args *a)
{
    const ts_exec x = { .device = TS_CPU, .n_threads = 1 };
    size_t        n = 0;
    assert_int_equal(ts_cross_entropy_workspace(a, &x, &n), TS_OK);
    return n;
}

static void run(const ts_cross_entropy_args *a)
{
    ts_exec x = { .device = TS_CPU, .n_threads = 2, .workspace_bytes = bytes_of(a) };
    x.workspace = malloc(x.workspace_bytes + 1);
    assert_non_null(x.workspace);
    assert_int_equal(ts_cross_entropy(a, &x), TS_OK);
    free(x.workspace);
}

/* The workspace does not grow with the number of logits, and less with a bound than without. */
TEST(logits_are_never_whole)
{
    static int32_t some[4096];
    ts_cpu_set_mask(~0u);
    ts_cross_entropy_args a = sound();
    a.target = some, a.n_rows = 4096, a.n_vocab = 1 << 15;
    const size_t usual = bytes_of(&a);
    assert_true(usual < (size_t)a.n_rows * (size_t)a.n_vocab / 16);
    a.n_vocab *= 4;
    assert_int_equal(bytes_of(&a), usual);
    a.chunk = 1000;
    const size_t bounded = bytes_of(&a);
    a.chunk = 1;
    assert_true(bytes_of(&a) < bounded && bounded < usual);
    a.dh = a.dw = NULL;
    assert_true(bytes_of(&a) < bounded);
}

/* With the unit matrix both functions have the same logits. */
TEST(both_functions_agree)
{
    static float logits[ROWS * WORDS], other_loss[ROWS], other_lse[ROWS], other_total[1];
    for (size_t k = 0; k < sizeof masks / sizeof *masks; k++) {
        const ts_cross_entropy_args  a = sound();
        ts_cross_entropy_logits_args b = { .mean = 1,
                                           .in_place = 1,
                                           .ignore_index = -100,
                                           .n_rows = ROWS,
                                           .n_vocab = WORDS,
                                           .row_stride = WORDS,
                                           .scale = 2,
                                           .smoothing = 0.1,
                                           .z_loss = 0.01,
                                           .softcap = 20,
                                           .logits = logits,
                                           .target = target,
                                           .loss = other_loss,
                                           .lse = other_lse,
                                           .total = other_total };
        ts_exec                      x = { .device = TS_CPU, .n_threads = 2 };
        ts_cpu_set_mask(masks[k]);
        run(&a);
        memcpy(logits, h, sizeof logits);
        assert_int_equal(ts_cross_entropy_logits_workspace(&b, &x, &x.workspace_bytes), TS_OK);
        x.workspace = malloc(x.workspace_bytes + 1);
        assert_int_equal(ts_cross_entropy_logits(&b, &x), TS_OK);
        free(x.workspace);
        assert_true(fabsf(total[0] - other_total[0]) < 1e-5f);
        for (int i = 0; i < ROWS; i++) assert_true(fabsf(loss[i] - other_loss[i]) < 1e-4f);
        for (int i = 0; i < ROWS * WORDS; i++) assert_true(fabsf(dh[i] - logits[i]) < 1e-6f);
    }
    ts_cpu_set_mask(~0u);
}

/* Without z-loss and cap the gradients of a row's logits add up to 0. */
TEST(gradients_add_up_to_0)
{
    for (size_t k = 0; k < sizeof masks / sizeof *masks; k++) {
        ts_cross_entropy_args a = sound();
        a.z_loss = a.softcap = 0;
        ts_cpu_set_mask(masks[k]);
        run(&a);
        for (int i = 0; i < ROWS; i++) {
            double sum = 0, size = 0;
            for (int v = 0; v < WORDS; v++) {
                sum += (double)dh[i * WORDS + v];
                size += fabs((double)dh[i * WORDS + v]);
            }
            assert_true(fabs(sum) < 1e-6);
            assert_true(target[i] < 0 ? size == 0 : size > 1e-3);
        }
    }
    ts_cpu_set_mask(~0u);
}
