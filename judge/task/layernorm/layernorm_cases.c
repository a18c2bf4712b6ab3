/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_cases.c - the cases of the layer norm tasks, and their inputs. */
#include "layernorm_cases.h"

#include <math.h>
#include <string.h>

#include "norm_cases.h"
#include "rng.h"

/* Also timed by the judge. */
static const ts_norm_shape judged_shapes[] = { { 2048, 1024 }, { 1024, 768 }, { 0, 0 } };

static const ts_norm_family families[] = {
    { "offset", ALL, { { 5, 5 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "offset8", F32 | F64, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "tiny", ALL, { { 5, 7 }, { 17, 128 }, { 9, 1025 }, { 3, 4096 } } },
    { "constant", ALL, { { 5, 7 }, { 17, 128 }, { 9, 1025 }, { 3, 4096 } } },
    { "spike", ALL, { { 5, 7 }, { 17, 129 }, { 9, 1024 }, { 3, 4096 } } },
    { "ramp", ALL, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "ties", ALL, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "denormal", ALL, { { 5, 7 }, { 17, 128 }, { 9, 1025 }, { 3, 4096 } } },
    { "small", F32 | F64 | BF16, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "huge", ALL, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "flat_huge", ALL, { { 4, 8 }, { 17, 128 }, { 9, 1024 }, { 3, 4096 } } },
    { "peak", ALL, { { 5, 7 }, { 17, 300 }, { 9, 1025 }, { 3, 4096 } } },
    { "extreme", ALL, { { 17, 128 }, { 17, 129 }, { 9, 1025 }, { 3, 4096 } } },
    { "loud", WIDE, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "faint", WIDE, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "nonfinite", ALL, { { 9, 7 }, { 17, 128 }, { 9, 1025 }, { 6, 4096 } } },
    { "offsets", ALL, { { 70, 17 }, { 35, 130 }, { 14, 1025 }, { 7, 4096 } } },
    { "overflow", F16, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
};

/* Backward alone: where x is NaN dy may be 0. */
static const ts_norm_family nonfinite_zero = {
    "nonfinite_zero", ALL, { { 9, 7 }, { 17, 128 }, { 9, 1025 }, { 12, 4096 } }
};

#define FAMILIES                                                                                   \
    { "normal", ALL }, { "offset", ALL }, { "offset8", F32 | F64 }, { "tiny", ALL },               \
        { "constant", ALL }, { "spike", ALL }, { "ramp", ALL }, { "ties", ALL },                   \
        { "denormal", ALL }, { "small", F32 | F64 | BF16 }, { "huge", ALL }, { "flat_huge", ALL }, \
        { "peak", ALL }, { "extreme", ALL },                                                       \
    {                                                                                              \
        "nonfinite", ALL                                                                           \
    }

#define RANGES TS_NORM_ROW_RANGE, TS_NORM_COL_RANGE, TS_NORM_PAD_RANGE

/* rows, cols, pad; eps */
const ts_cover ts_layernorm_forward_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { FAMILIES },
    .empties = 1u << TS_NORM_ROWS,
    TS_NORM_TAILS,
    .dim = { RANGES, { 0 }, { 0 }, { 0 }, { 0 }, { 0 }, TS_NORM_EPS_POWER },
    .allows = ts_norm_affordable,
};

/* rows, cols, pad, acc; eps */
const ts_cover ts_layernorm_backward_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { FAMILIES, { "nonfinite_zero", ALL } },
    .empties = 1u << TS_NORM_ROWS,
    TS_NORM_TAILS,
    .dim = { RANGES, TS_RANGE(0, 1, 0, 1), { 0 }, { 0 }, { 0 }, { 0 }, TS_NORM_EPS_POWER },
    .allows = ts_norm_affordable,
};

/* Flags: even, odd, or both. */
enum { BOTH = -1, OVERWRITE };

/* How backward treats dgamma and dbeta must not depend on anything else of the case. */
static void add_one(ts_norm_list *l, ts_case c, int flags)
{
    if (flags == BOTH || flags % 2 == 0 || !l->all.backward) ts_list_append(&l->all, &c, 1);
    c.dim[TS_NORM_PAD + 1] = 1;
    if (flags % 2 != 0 && l->all.backward) ts_list_append(&l->all, &c, 1);
}

static void add_shape(ts_norm_list *l, unsigned dtypes, ts_norm_shape s, int64_t pad, int i)
{
    (void)i;
    ts_norm_add(l, TS_USE_CHECK, dtypes, s, pad, BOTH, "normal");
}

static const ts_case *build(ts_norm_list *l, const ts_cover *cover)
{
    if (l->all.n) return l->all.c;
    ts_norm_add_shapes(l);
    for (int i = 0; i < (int)COUNT(families); i++) ts_norm_add_family(l, &families[i], i, 1);
    if (l->all.backward) ts_norm_add_family(l, &nonfinite_zero, 0, 1);
    ts_norm_add_ends(l, 0, 1);
    ts_norm_add_blocks(l, 0, 1);
    ts_norm_add_far(l, OVERWRITE);
    /* A pair may meet where there is nothing to see: rows whose variance is less than any eps. */
    int first = l->all.n;
    ts_norm_add(l, TS_USE_CHECK, F32 | F64, (ts_norm_shape) { 5, 7 }, 2, OVERWRITE, "constant");
    ts_norm_set_eps(l, first, -12);
    /* An eps that float does not have, and a row that is exactly flat. */
    first = l->all.n;
    ts_norm_add(l, TS_USE_CHECK, WIDE, (ts_norm_shape) { 1, 9 }, 2, OVERWRITE, "constant");
    ts_norm_set_eps(l, first, -60);
    /* An eps that is 0 in f16, above the variance. */
    first = l->all.n;
    if (!l->all.backward)
        ts_norm_add(l, TS_USE_CHECK, F16, (ts_norm_shape) { 9, 33 }, 2, OVERWRITE, "denormal");
    ts_norm_set_eps(l, first, -8);
    ts_list_cover(&l->all, cover);
    ts_norm_add_large(l, OVERWRITE, judged_shapes);
    return l->all.c;
}

const ts_case *ts_layernorm_forward_cases(void)
{
    static ts_norm_list l = { .one = add_one, .shape = add_shape };
    return build(&l, &ts_layernorm_forward_cover);
}

const ts_case *ts_layernorm_backward_cases(void)
{
    static ts_norm_list l = { .one = add_one, .shape = add_shape, .all.backward = true };
    return build(&l, &ts_layernorm_backward_cover);
}

double ts_layernorm_draw(const char *f, ts_dtype t, uint64_t seed, int64_t r, int64_t i,
                         int64_t n_cols)
{
    const double z = ts_normal(seed, r * n_cols + i);
    const double row = ts_normal(seed + 7, r);
    const bool   chosen = i == ts_norm_chosen(seed, r, n_cols);
    /* From one where squares and their mean are as good as distances to those where they are not.
     */
    static const double offsets[] = { 3, -9.5, 15, -29, 95, -290, 900 };
    if (!strcmp(f, "offset")) return ts_by_dtype(t, 1e6, 1e9, 1000, 256) + z;
    if (!strcmp(f, "offset8")) return ts_by_dtype(t, 1e8, 1e14, 0, 0) + 1000 * z;
    if (!strcmp(f, "offsets")) return offsets[r % 7] + z;
    if (!strcmp(f, "tiny")) return 1 + ts_by_dtype(t, 1e-3, 1e-7, 2e-3, 1e-2) * z;
    if (!strcmp(f, "constant")) return r ? 3 * row : 0;
    if (!strcmp(f, "ramp")) return ((double)i - (double)n_cols / 2) * 0.01;
    if (!strcmp(f, "ties")) return (double)(ts_bits(seed, r * n_cols + i) % 3) - 1;
    if (!strcmp(f, "flat_huge")) return ts_by_dtype(t, 0x1p100, 0x1p900, 0x1p15, 0x1p100);
    if (!strncmp(f, "nonfinite", 9) && chosen && r % 4)
        return (const double[]) { 0, NAN, INFINITY, -INFINITY }[r % 4];
    return ts_norm_draw(f, t, z, chosen) * ts_norm_end(f, i, n_cols, 1000);
}
