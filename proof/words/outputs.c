/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.c - which outputs of an entrant are wrong, and by what factor: for those with whom no
 * mutant agrees.
 *
 * An output is right if it differs from the correct one by rounding in all cases. It is scaled in a
 * case if one factor, not 1, explains all of its elements; where they are few, that says nothing.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agree.h"

enum { LEAST_ELEMENTS = 4, LEAST_CASES = 2 };
static const double ALIKE = 1e-3; /* factors */

typedef struct output {
    const char *name;
    int         n_wrong, n_scaled, n_few; /* cases; n_few: of wrong ones, with few elements */
    double      factor;
    bool        varies;
} output;

static output outputs[TS_MAX_BUFS];
static int    n_outputs;

static output *named(const char *name)
{
    for (int i = 0; i < n_outputs; i++)
        if (!strcmp(outputs[i].name, name)) return &outputs[i];
    if (n_outputs == TS_MAX_BUFS) return NULL;
    outputs[n_outputs] = (output) { .name = name };
    return &outputs[n_outputs++];
}

/* Sums over an output of one case: the factor of least squares is cross / square. */
typedef struct fit {
    double cross, square, largest;
    int    n;
} fit;

static fit fit_of(ts_dtype t, const unsigned char *entrant, const unsigned char *correct, int64_t n)
{
    fit f = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const double e = ts_load(entrant, t, i), c = ts_load(correct, t, i);
        if (!isfinite(e) || !isfinite(c)) continue;
        f.cross += e * c;
        f.square += c * c;
        f.largest = fmax(f.largest, fabs(c));
        f.n += c != 0;
    }
    return f;
}

/* Whether each element is the correct one times a factor, up to rounding. */
static bool is_times(ts_dtype t, const unsigned char *entrant, const unsigned char *correct,
                     int64_t n, double factor, double largest)
{
    for (int64_t i = 0; i < n; i++) {
        const double e = ts_load(entrant, t, i), c = ts_load(correct, t, i);
        const double noise = ts_noise(t, largest, c) * fmax(1, fabs(factor));
        if (!ts_same_kind(e, c) || (isfinite(c) && !(fabs(e - factor * c) <= noise))) return false;
    }
    return true;
}

static void add(output *o, ts_dtype t, const unsigned char *entrant, const unsigned char *correct,
                int64_t n)
{
    const fit    f = fit_of(t, entrant, correct, n);
    const double factor = f.cross / f.square;
    if (is_times(t, entrant, correct, n, 1, f.largest)) return;
    o->n_wrong++;
    o->n_few += f.n < LEAST_ELEMENTS;
    if (f.n < LEAST_ELEMENTS || !isfinite(factor) || fabs(factor - 1) < ALIKE) return;
    if (!is_times(t, entrant, correct, n, factor, f.largest)) return;
    o->varies |= o->n_scaled++ && fabs(factor - o->factor) > ALIKE * fabs(factor);
    o->factor = factor;
}

void ts_outputs_add(const ts_arena *m, const unsigned char *entrant, const unsigned char *correct)
{
    for (int i = 0; i < m->n; i++) {
        const ts_buf *b = &m->buf[i].b;
        const int64_t n = b->n_rows * b->n_cols;
        const size_t  bytes = (size_t)n * ts_format_of(b->dtype)->n_bytes;
        if (b->role == TS_IN) continue;
        output *o = n && strcmp(b->name, "calls") ? named(b->name) : NULL;
        if (o) add(o, b->dtype, entrant, correct, n);
        entrant += bytes, correct += bytes;
    }
}

/* "dh and dw", of all wrong ones. */
static int list(char *s, size_t n)
{
    int    wrong = 0, at = 0;
    size_t used = 0;
    *s = 0;
    for (int i = 0; i < n_outputs; i++) wrong += outputs[i].n_wrong > 0;
    for (int i = 0; i < n_outputs && used < n; i++) {
        if (!outputs[i].n_wrong) continue;
        const char *join = !at ? "" : at + 1 == wrong ? " and " : ", ";
        used += (size_t)snprintf(s + used, n - used, "%s%s", join, outputs[i].name);
        at++;
    }
    return wrong;
}

bool ts_outputs_say(char *s, size_t n)
{
    char      names[96], how[64] = "";
    const int wrong = list(names, sizeof names);
    bool      enough = false, scaled = true, varies = false;
    double    factor = NAN;
    for (int i = 0; i < n_outputs; i++) {
        const output *o = &outputs[i];
        enough |= o->n_wrong >= LEAST_CASES;
        if (!o->n_wrong) continue;
        if (!strcmp(o->name, "seen")) return false; /* what scripts see has no name for authors */
        scaled &= o->n_scaled && o->n_scaled + o->n_few == o->n_wrong;
        varies |= o->varies || (!isnan(factor) && fabs(factor - o->factor) > ALIKE * fabs(factor));
        factor = o->factor;
    }
    if (!enough) return false;
    if (scaled && varies) snprintf(how, sizeof how, ", all elements of a case by one factor");
    else if (scaled) snprintf(how, sizeof how, ": %.4g times the correct values", factor);
    if (wrong == n_outputs && !scaled) return false;
    snprintf(s, n, "%s%s %s wrong%s", wrong < n_outputs ? "only " : "", names,
             wrong > 1 ? "are" : "is", how);
    return true;
}
