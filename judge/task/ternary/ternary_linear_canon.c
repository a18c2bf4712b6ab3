/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear_canon.c - what the rules of the canon are about: weights, and the outputs that
 * follow from them.
 *
 * tiny, brink   groups of latents whose mean is below the normal numbers of f16 or beyond its
 *               largest, and given scales that are subnormal
 * nonfinite     outputs that are NaN by the canon
 * bad_latent*, past_f16   the group of such a latent
 * bad_code*, bad_scale*   the weight with such a code, the group with such a scale
 *
 * A function that is given such elements may also be rejected, with any status. It may then have
 * written to its outputs, and to no others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "ternary_linear_cases.h"
#include "ternary_reference.h"

const ts_canon *ts_ternary_linear_canon_of(const ts_case *c)
{
    static const ts_canon extreme = { "tiny",
                                      "groups whose scale is at an end of f16 are as others",
                                      true };
    return ts_is(c, "tiny") || ts_is(c, "brink") ? &extreme : NULL;
}

/* ---- elements that a rule names ---- */

static const double LEAST = 0x1p-14, MOST = 65504; /* of f16: normal */

/* By matrix row: groups and weights that a rule names, of latents or of given codes. */
typedef struct named {
    int64_t n_out, n_in, room; /* room: weights of a row's groups */
    bool   *weight;            /* [n_out][room] */
    bool   *row, *column;      /* has one */
    bool    any;
} named;

static bool *get(int64_t n)
{
    bool *p = calloc((size_t)n + 1, sizeof *p);
    if (!p) abort();
    return p;
}

static bool is_odd_mean(const float *w, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += fabs((double)w[j]);
    return sum != 0 && !(sum / (double)n >= LEAST && sum / (double)n <= MOST);
}

static bool is_odd_scale(const ts_case *c, double scale)
{
    if (ts_ternary_linear_is_bad(c)) return !isfinite(scale);
    return scale != 0 && fabs(scale) < LEAST;
}

/* codes: of given codes, else of latents. */
static named find(const ts_case *c, const ts_ternary_play_args *a, bool codes)
{
    const int64_t o = c->dim[OUT], n_in = c->dim[IN], groups = ts_tref_groups(n_in);
    const int64_t room = groups * TS_TREF_GROUP;
    named         n = { o, n_in, room, get(o * room), get(o), get(room), false };
    for (int64_t i = 0; i < o * room; i++) {
        const int64_t row = i / room, j = i % room, g = j / TS_TREF_GROUP;
        const int64_t first = g * TS_TREF_GROUP, left = n_in - first;
        const bool    begins = j == first;
        if (codes)
            n.weight[i] = ts_tref_point(a->code_in + row * groups * TS_TREF_BYTES, j) == 3 ||
                          is_odd_scale(c, ts_widen_f16(a->scale_in[row * groups + g]));
        else
            n.weight[i] = begins ? is_odd_mean(a->w + row * n_in + first,
                                               left < TS_TREF_GROUP ? left : TS_TREF_GROUP)
                                 : n.weight[i - 1];
        if (!n.weight[i]) continue;
        n.row[row] = n.column[j] = n.any = true;
    }
    return n;
}

static void drop(named *n)
{
    free(n->weight), free(n->row), free(n->column);
}

/* ---- and what follows from them ---- */

/* Of an output, the elements that follow from these weights. */
static void excuse_output(int output, ts_buf b, const named *n, ts_want *want)
{
    const int64_t each = output == CODE ? 4 : output == SCALE ? TS_TREF_GROUP : 1;
    for (int64_t i = 0; i < b.n_rows * b.n_cols; i++) {
        const int64_t row = i / b.n_cols, col = i % b.n_cols;
        const bool    is = output == DX                        ? n->column[col]
                           : output == Y || output == Y_PACKED ? n->row[col]
                                                               : n->weight[row * n->room + col * each];
        if (!is) continue;
        ts_excuse(want + i, 1);
        if (isnan(want[i].value)) want[i].value = 0; /* the canon has none: it may not be poison */
    }
}

/* What a call that was rejected has written to its outputs. */
static void lift(ts_buf b, ts_want *want)
{
    for (int64_t i = 0; i < b.n_rows * b.n_cols; i++) want[i].bound = INFINITY;
}

/* Whether the rule of the case is about what the function is given. */
static bool is_about(const ts_case *c, int function, const named *latents, const named *codes)
{
    if (ts_ternary_linear_is_bad(c)) return ts_ternary_linear_must(c, function) != TS_OK;
    if (ts_is(c, "nonfinite")) return function != TS_TL_PACK && function != TS_TL_UNPACK;
    return (function == TS_TL_UNPACK || function == TS_TL_PACKED ? codes : latents)->any;
}

void ts_ternary_linear_excuse(const ts_case *c, const void *args, ts_want *want)
{
    const ts_ternary_play_args *a = args;
    named                       latents = find(c, a, false), codes = find(c, a, true);
    ts_buf                      b[OUTPUTS];
    ts_want *const              seen = want;
    ts_ternary_linear_outputs(c, b);
    for (int i = 0; i < OUTPUTS; want += b[i].n_rows * b[i].n_cols, i++) {
        const int by = ts_ternary_linear_by[i];
        if (by < 0 || !is_about(c, by, &latents, &codes) || a->seen[by] == TS_TL_TOUCHED) continue;
        ts_excuse(seen + by, 1);
        if (a->seen[by] != 0) lift(b[i], want);
        else if (ts_is(c, "nonfinite")) ts_excuse_nan(want, b[i].n_rows * b[i].n_cols);
        else if (i != DW)
            excuse_output(i, b[i], by == TS_TL_UNPACK || by == TS_TL_PACKED ? &codes : &latents,
                          want);
    }
    drop(&latents), drop(&codes);
}
