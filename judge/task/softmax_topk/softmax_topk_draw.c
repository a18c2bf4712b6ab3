/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_draw.c - logits of the softmax + top-k task, a function for each family.
 *
 * The k largest are placed where a division of the work could lose them; everything else is small
 * noise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "real.h"
#include "rng.h"
#include "softmax_topk_cases.h"

typedef ts_softmax_topk_row row;

static int64_t place(const row *w, int64_t i)
{
    return w->number * w->n_vocab + i;
}

static uint64_t bits(const row *w, int64_t i)
{
    return ts_bits(w->seed + 2, place(w, i));
}

/* ts_normal has 2^18 values, too few for a vocabulary: dithered, so that f32 has next to no ties.
 * At most 3.47. */
static double noise(const row *w, int64_t i)
{
    return ts_normal(w->seed, place(w, i)) + 1.3e-5 * ts_uniform(w->seed + 1, place(w, i));
}

static double normal(const row *w, int64_t i)
{
    return 2 * noise(w, i);
}

/* ---- winners in one place ---- */

static double winner_if(const row *w, int64_t i, bool wins)
{
    return noise(w, i) + (wins ? 10 : 0);
}

static bool congruent(const row *w, int64_t i, int64_t m)
{
    return i % m == w->chosen % m;
}

/* All in what one lane, warp or block of so many takes, if it steps by its number. */
static double mod32(const row *w, int64_t i)
{
    return winner_if(w, i, congruent(w, i, 32));
}

static double mod64(const row *w, int64_t i)
{
    return winner_if(w, i, congruent(w, i, 64));
}

static double mod256(const row *w, int64_t i)
{
    return winner_if(w, i, congruent(w, i, 256));
}

static double mod1024(const row *w, int64_t i)
{
    return winner_if(w, i, congruent(w, i, 1024));
}

/* The same for lanes that load eight neighbours at once. */
static double mod1024x8(const row *w, int64_t i)
{
    return winner_if(w, i, i / 8 % 1024 == w->chosen / 8 % 1024);
}

static int64_t last_start(const row *w) /* of a run of k */
{
    return w->n_vocab > w->k ? w->n_vocab - w->k : 0;
}

static double chunk(const row *w, int64_t i)
{
    const int64_t begin = w->chosen % (last_start(w) + 1);
    return winner_if(w, i, i >= begin && i < begin + w->k);
}

static double back(const row *w, int64_t i)
{
    return winner_if(w, i, i >= last_start(w));
}

/* Each row's winners where the other rows have none: a neighbour's are seen at once. */
static double disjoint(const row *w, int64_t i)
{
    const int64_t begin = w->number * w->k % (last_start(w) + 1);
    return winner_if(w, i, i >= begin && i < begin + w->k);
}

static double spike(const row *w, int64_t i)
{
    return i == w->chosen ? 1000 : noise(w, i);
}

/* One logit is so far above the others that these have 1/700 of the probability together, or 13:
 * what is further below a sum in float may lose. */
static double tail(const row *w, int64_t i)
{
    return 0.3 * noise(w, i) + (i == w->chosen ? fmin(ts_log64((double)w->n_vocab) + 6.5, 13) : 0);
}

/* ---- order ---- */

static double ramp(const row *w, int64_t i)
{
    return 16 * (double)i / (double)w->n_vocab - 8;
}

static double descending(const row *w, int64_t i)
{
    return -ramp(w, i);
}

/* Equal teeth, so that each place is tied with its like in every period. */
static double sawtooth(const row *w, int64_t i)
{
    const int64_t period = (const int64_t[]) { 8192, 1000, 61, 256 }[w->number % 4];
    return 8 * (double)(i % period) / (double)period;
}

static double equal(const row *w, int64_t i)
{
    (void)i;
    return 3 * ts_normal(w->seed + 3, w->number);
}

/* Few levels, so that ties cross the k-th place and every boundary of chunks. */
static double ties(const row *w, int64_t i)
{
    return 0.5 * (double)(bits(w, i) % (w->number % 2 ? 17 : 5)) - 1;
}

/* -0 and +0 are equal, and -0 comes first here; a little below them is the rest. */
static double zeros(const row *w, int64_t i)
{
    return i == 0 ? -0.0 : (const double[]) { -0.0, 0, -1e-3, 0 }[bits(w, i) % 4];
}

static double subnormal(const row *w, int64_t i)
{
    return ts_format_of(w->dtype)->min_normal * 0.25 * noise(w, i);
}

/* Of one 0 and the rest near -200 no probability but the first is left to rank by. Steps as fine as
 * the dtype has there. */
static double underflow(const row *w, int64_t i)
{
    const double  step = w->dtype == TS_F32 ? 0.001 : w->dtype == TS_F16 ? 0.125 : 1;
    const int64_t down = w->number % 2 ? i : w->n_vocab - 1 - i; /* else ties by index would do */
    return i == w->chosen ? 0 : -200 - step * (double)down;
}

/* ---- offsets ---- */

static double offset(const row *w, int64_t i)
{
    return (w->number % 2 ? -1e4 : 1e4) + normal(w, i);
}

/* Neighbouring levels are further apart than any exponential reaches. */
static double offset30(const row *w, int64_t i)
{
    const double level = w->dtype == TS_BF16 ? 0x1p-6 : 0x1p-20;
    return (w->number % 2 ? -1e30 : 1e30) * (1 + level * (double)(bits(w, i) % 3));
}

/* Over half the range of the dtype: differences are still numbers of it. */
static double wide(const row *w, int64_t i)
{
    const double share = (double)(bits(w, i) >> 11) * 0x1p-53; /* from 0 to 1 */
    return ts_format_of(w->dtype)->max * 0.98 * (share - 0.5);
}

/* Every probability is near 1/V, which an absolute tolerance does not see. */
static double flat(const row *w, int64_t i)
{
    return 0.5 + 1e-5 * noise(w, i);
}

/* ---- minus infinity, and what stands in for it ---- */

/* True for about n entries of the row. */
static bool one_of(const row *w, int64_t i, int64_t n)
{
    return (int64_t)(bits(w, i) % (uint64_t)w->n_vocab) < n;
}

/* Rows that begin with -inf are those of other families: whether one does must not be chance. */
static double masked(const row *w, int64_t i)
{
    const int64_t n_left = (const int64_t[]) { w->k / 2, 2 * w->k, w->n_vocab / 4 }[w->number % 3];
    return !i || one_of(w, i, n_left) ? normal(w, i) : -INFINITY;
}

static double half_masked(const row *w, int64_t i)
{
    return i < w->n_vocab / 2 ? -INFINITY : normal(w, i);
}

/* Whole pieces of 32 to 1024: what one warp, one vector or one tile sees is nothing. */
static double holes(const row *w, int64_t i)
{
    const int64_t size = (int64_t)32 << w->number % 6;
    return i < size || ts_bits(w->seed + 4, place(w, 0) + i / size) & 1 ? -INFINITY : normal(w, i);
}

static double all_masked(const row *w, int64_t i)
{
    return w->number % 16 == (w->n_rows > 1) ? -INFINITY : normal(w, i);
}

/* The lowest finite numbers: among a few others; above -inf; and among their like. */
static double lowest(const row *w, int64_t i)
{
    const double low = -ts_format_of(w->dtype)->max;
    if (w->number % 3 == 0) return one_of(w, i, 3) ? normal(w, i) : low;
    if (w->number % 3 == 1) return one_of(w, i, w->k / 2 + 1) ? low : -INFINITY;
    return low * (1 - (double)(bits(w, i) % 4) / 64);
}

/* ---- rows with a NaN or inf among finite ones ---- */

static double nonfinite(const row *w, int64_t i)
{
    const int64_t last = w->n_vocab - 1;
    switch (w->number % 8) {
    case 1:
        return i == 0 ? NAN : normal(w, i);
    case 2:
        return i == last ? INFINITY : normal(w, i);
    case 3:
        return i == last / 2 ? NAN : normal(w, i);
    case 4:
        return i == w->chosen ? -NAN : normal(w, i);
    case 5:
        return i == last ? NAN : normal(w, i);
    case 6:
        return i == w->chosen ? INFINITY : -INFINITY;
    case 7:
        return i == w->chosen ? NAN : -INFINITY;
    default:
        return normal(w, i);
    }
}

/* As nonfinite, for a row that is alone. */
static double nonfinite_one(const row *w, int64_t i)
{
    return i == w->chosen ? NAN : normal(w, i);
}

static double nonfinite_inf(const row *w, int64_t i)
{
    return i == w->chosen ? INFINITY : normal(w, i);
}

ts_softmax_topk_draw ts_softmax_topk_draw_of(const char *family)
{
    static const struct {
        const char          *name;
        ts_softmax_topk_draw draw;
    } families[] = {
        { "normal", normal },
        { "hot", normal },
        { "cold", normal },
        { "wide", wide },
        { "far", normal },
        { "farther", normal },
        { "tall", normal },
        { "taller", normal },
        { "mod32", mod32 },
        { "mod64", mod64 },
        { "mod256", mod256 },
        { "mod1024", mod1024 },
        { "mod1024x8", mod1024x8 },
        { "chunk", chunk },
        { "back", back },
        { "disjoint", disjoint },
        { "spike", spike },
        { "tail", tail },
        { "ramp", ramp },
        { "descending", descending },
        { "sawtooth", sawtooth },
        { "equal", equal },
        { "ties", ties },
        { "zeros", zeros },
        { "subnormal", subnormal },
        { "underflow", underflow },
        { "offset", offset },
        { "offset30", offset30 },
        { "flat", flat },
        { "masked", masked },
        { "half_masked", half_masked },
        { "holes", holes },
        { "all_masked", all_masked },
        { "floor", lowest },
        { "nonfinite", nonfinite },
        { "nonfinite_one", nonfinite_one },
        { "nonfinite_inf", nonfinite_inf },
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i].name, family)) return families[i].draw;
    abort(); /* a case of an unknown family */
}
