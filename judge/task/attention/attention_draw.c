/* SPDX-License-Identifier: Apache-2.0 */
/* attention_draw.c - how the families of the attention tasks draw their rows.
 *
 * Some families set the scores themselves: the first element of every query is STEER, and that of
 * key j is what makes their product, times the scale, the score that the family wants. The other
 * elements are noise around it. */
#include <math.h>
#include <string.h>

#include "attention_cases.h"
#include "dtype.h"
#include "rng.h"

static const double STEER = 4;

static double noise(const ts_attention_drawn *w, int64_t n_head, int64_t n, int64_t e)
{
    const int64_t row = (w->b * n_head + w->h) * n + w->i; /* whatever the layout */
    return ts_normal(w->seed, row * w->d->head_dim + e);
}

/* centre + spread * noise, throughout. */
static void around(const ts_attention_drawn *w, int64_t n_head, int64_t n, double centre,
                   double spread)
{
    for (int64_t e = 0; e < w->d->head_dim; e++)
        ts_store(w->to, w->d->dtype, w->begin + e, centre + spread * noise(w, n_head, n, e));
}

static void query(const ts_attention_drawn *w)
{
    around(w, w->d->n_q_head, w->d->n_q, 0, 1);
}

static void key(const ts_attention_drawn *w)
{
    around(w, w->d->n_kv_head, w->d->n_k, 0, 1);
}

static void steered_query(const ts_attention_drawn *w)
{
    query(w);
    ts_store(w->to, w->d->dtype, w->begin, STEER);
}

static void steer(const ts_attention_drawn *w, double score)
{
    key(w);
    ts_store(w->to, w->d->dtype, w->begin, score / (STEER * w->d->scale));
}

/* The maximum moves with every tile. */
static void late_key(const ts_attention_drawn *w)
{
    steer(w, 25 * (double)w->i / (double)w->d->n_k);
}

static void falling_key(const ts_attention_drawn *w)
{
    steer(w, -25 * (double)w->i / (double)w->d->n_k);
}

static void sink_key(const ts_attention_drawn *w)
{
    steer(w, w->i == 0 ? 2000 : 0);
}

static void last_key(const ts_attention_drawn *w)
{
    steer(w, w->i == w->d->n_k - 1 ? 2000 : 0);
}

/* One key of each head takes nearly all. */
static void saturated_key(const ts_attention_drawn *w)
{
    const uint64_t any = ts_bits(w->seed + 8, w->b * w->d->n_kv_head + w->h);
    steer(w, w->i == (int64_t)(any % (uint64_t)w->d->n_k) ? 60 : 0);
}

/* Every score of a row is near 3000, or near -3000. */
static void offset_query(const ts_attention_drawn *w)
{
    query(w);
    ts_store(w->to, w->d->dtype, w->begin, w->i % 2 ? -STEER : STEER);
}

static void offset_key(const ts_attention_drawn *w)
{
    steer(w, 3000);
}

/* Scores far apart, all of them decided by the first sixteen keys. */
static void early_key(const ts_attention_drawn *w)
{
    around(w, w->d->n_kv_head, w->d->n_k, 0, w->i < 16 ? 300 : 1);
}

static void hot_query(const ts_attention_drawn *w)
{
    around(w, w->d->n_q_head, w->d->n_q, 0, 1000);
}

/* Weights that are nearly equal, and terms of one sign in every sum, that of dq by keys which go
 * with their values: sums in 16 bits come to a halt. */
static void flat_query(const ts_attention_drawn *w)
{
    around(w, w->d->n_q_head, w->d->n_q, 2, 0.3);
}

static void flat_key(const ts_attention_drawn *w)
{
    around(w, w->d->n_kv_head, w->d->n_k, w->i % 2 ? 0.02 : -0.02, 0.005);
}

static void flat_value(const ts_attention_drawn *w)
{
    around(w, w->d->n_kv_head, w->d->n_k, w->i % 2 ? 2.5 : 0.5, 0.3);
}

/* Past the length, memory has any contents. */
static void padded(const ts_attention_drawn *w)
{
    key(w);
    for (int64_t e = 0; e < w->d->head_dim && w->i >= w->kv_len; e++)
        ts_store(w->to, w->d->dtype, w->begin + e, e % 3 == 1 ? INFINITY : NAN);
}

/* Some scores are so low that float has no number for them, and others are as ever. */
static double depth(ts_dtype t)
{
    return t == TS_F16 ? 200 : 1e20;
}

static void deep_query(const ts_attention_drawn *w)
{
    query(w);
    ts_store(w->to, w->d->dtype, w->begin, depth(w->d->dtype));
}

static void deep_key(const ts_attention_drawn *w)
{
    key(w);
    ts_store(w->to, w->d->dtype, w->begin, w->i % 3 == 1 ? -depth(w->d->dtype) : 0);
}

/* Every fourth query, the first one too, sees keys and yet has no score that float can store: its
 * lse is -inf. To the others the keys' first element is of no consequence. */
static void sunk_query(const ts_attention_drawn *w)
{
    query(w);
    ts_store(w->to, w->d->dtype, w->begin,
             w->i % 4 ? 0 : ts_by_dtype(w->d->dtype, 0x1p120, 0x1p1000, 0, 0x1p120));
}

static void sunk_key(const ts_attention_drawn *w)
{
    key(w);
    ts_store(w->to, w->d->dtype, w->begin, ts_by_dtype(w->d->dtype, -0x1p20, -0x1p100, 0, -0x1p20));
}

/* All scores of a row are numbers, though far below any that stands for a mask. Nothing is rounded
 * in them: of two values, the lower one has no weight. */
static double far_below(ts_dtype t)
{
    return ts_by_dtype(t, 0x1p58, 0x1p480, 0, 0x1p58);
}

static void floor_query(const ts_attention_drawn *w)
{
    for (int64_t e = 0; e < w->d->head_dim; e++)
        ts_store(w->to, w->d->dtype, w->begin + e, e ? 0 : far_below(w->d->dtype));
}

static void floor_key(const ts_attention_drawn *w)
{
    key(w);
    ts_store(w->to, w->d->dtype, w->begin, (w->i % 3 == 1 ? -2 : -1) * far_below(w->d->dtype));
}

static void one_query(const ts_attention_drawn *w)
{
    ts_store(w->to, w->d->dtype, w->begin, 1);
}

/* Of one element: the first keys of some heads, all of others, the last of the rest have a score of
 * -inf. */
static void masked_key(const ts_attention_drawn *w)
{
    const int64_t n = w->d->n_k, kind = (w->b + w->h) % 3;
    key(w);
    if (kind == 1 || (kind == 0 ? w->i < n * 7 / 10 : w->i >= n - n * 7 / 10))
        ts_store(w->to, w->d->dtype, w->begin, -INFINITY);
}

/* Some rows of q are no numbers; the others do not notice. */
static void nonfinite_query(const ts_attention_drawn *w)
{
    const int64_t e = w->d->head_dim - 1 - w->i % w->d->head_dim;
    query(w);
    if (w->i % 4 == 1) ts_store(w->to, w->d->dtype, w->begin + e, NAN);
    if (w->i % 4 == 3) ts_store(w->to, w->d->dtype, w->begin + e, INFINITY);
}

/* In every second KV head one key is none. All queries see it: what causal alone hides is finite.
 */
static bool is_nonfinite(const ts_attention_drawn *w)
{
    const ts_attention_dims *d = w->d;
    const uint64_t           any = ts_bits(w->seed + 8, w->b * d->n_kv_head + w->h);
    const int64_t            n = d->causal ? d->n_k - d->n_q + 1 : d->n_k;
    return (w->b + w->h) % 2 == 0 && w->i == (int64_t)(any % (uint64_t)n);
}

/* Of +inf scores are infinite, of either sign: a row that has +inf is NaN, others do without it. */
static void nonfinite_key(const ts_attention_drawn *w)
{
    key(w);
    if (is_nonfinite(w))
        ts_store(w->to, w->d->dtype, w->begin + w->d->head_dim / 2,
                 (w->b + w->h) % 4 ? (double)INFINITY : (double)NAN);
}

static void nonfinite_value(const ts_attention_drawn *w)
{
    key(w);
    if (is_nonfinite(w)) ts_store(w->to, w->d->dtype, w->begin + w->d->head_dim / 2, NAN);
}

/* Gradients of another size than what they are gradients of. Of f16 dout . v is often past the
 * range of the dtype where the outputs are within it. */
static void loud_dout(const ts_attention_drawn *w)
{
    const double size = w->d->dtype == TS_F16 ? 4e4 / sqrt((double)w->d->head_dim) : 1000;
    around(w, w->d->n_q_head, w->d->n_q, 0, size);
}

static void faint_dout(const ts_attention_drawn *w)
{
    around(w, w->d->n_q_head, w->d->n_q, 0, 1e-9);
}

static const ts_attention_family families[] = {
    { "late", steered_query, late_key, key, query },
    { "falling", steered_query, falling_key, key, query },
    { "sink", steered_query, sink_key, key, query },
    { "last", steered_query, last_key, key, query },
    { "saturated", steered_query, saturated_key, key, query },
    { "offset", offset_query, offset_key, key, query },
    { "early", query, early_key, key, query },
    { "hot", hot_query, key, key, query },
    { "flat", flat_query, flat_key, flat_value, flat_query },
    { "deep", deep_query, deep_key, key, query },
    { "sunk", sunk_query, sunk_key, key, query },
    { "floor", floor_query, floor_key, key, query },
    { "padding", query, padded, padded, query },
    { "masked", one_query, masked_key, key, query },
    { "nonfinite", nonfinite_query, key, key, query },
    { "nonfinite_key", query, nonfinite_key, key, query },
    { "nonfinite_value", query, key, nonfinite_value, query },
    { "loud", query, key, key, loud_dout },
    { "faint", query, key, key, faint_dout },
    { "normal", query, key, key, query }, /* and all that are not named */
};

const ts_attention_family *ts_attention_family_of(const ts_case *c)
{
    const size_t last = sizeof families / sizeof *families - 1;
    size_t       i = 0;
    while (i < last && strcmp(c->family, families[i].name)) i++;
    return &families[i];
}

ts_attention_dims ts_attention_dims_of(const ts_case *c)
{
    const int64_t *m = c->dim, tile = m[7] / 10;
    const bool     usual = !(c->use & TS_USE_CHECK); /* what is timed has the scale of the field */
    const double   share = usual ? 1 : ts_is(c, "negative") ? -0.8 : 1.25;
    const double   root = sqrt((double)m[5]);
    const double   scale[] = { share / root, 0, 1e-3 / root, 20 / root, -1.25 / root, 1, 150 };
    return (ts_attention_dims) {
        .dtype = c->dtype,
        .layout = m[7] % 10 & TS_FORM_BNHD ? TS_BNHD : TS_BHND,
        .causal = m[6] > 0,
        .n_batch = m[2],
        .n_q = m[0],
        .n_k = m[1],
        .n_q_head = m[3],
        .n_kv_head = m[4],
        .head_dim = m[5],
        .window = m[6] > 1 ? m[6] - 1 : 0,
        .tile_q = (tile + 1) / 2, /* not equal, but for tiles of one */
        .tile_k = tile,
        .scale = scale[m[TS_SCALE]],
    };
}

bool ts_attention_has_lengths(const ts_case *c)
{
    return ts_is(c, "ragged") || ts_is(c, "padding") || ts_is(c, "empty");
}

/* `empty`: every second batch sees nothing at all. */
int32_t ts_attention_length(const ts_case *c, uint64_t seed, int64_t b)
{
    if (ts_is(c, "empty") && b % 2 == 0) return 0;
    return (int32_t)(ts_bits(seed, b) % (uint64_t)(c->dim[1] + 1));
}
