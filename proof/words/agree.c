/* SPDX-License-Identifier: Apache-2.0 */
/* agree.c - compares outputs element by element: see agree.h.
 *
 * The oracle's bounds do not apply: they are of the correct output, and a wrong one has other
 * magnitudes. An element agrees if it differs by rounding, in relation to the largest number of its
 * row, or by a fiftieth of the error: both may round a wrong sum in their own way. */
#include "agree.h"

#include <math.h>

static const double PART = 0.02; /* of the error */
static const double FAR = 8;     /* roundings */

static double rounding(ts_dtype t)
{
    return t == TS_F64    ? 1e-10
           : t == TS_F32  ? 1e-5
           : t == TS_F16  ? 2e-3
           : t == TS_BF16 ? 1.6e-2
                          : 0;
}

static bool unwritten(ts_dtype t, const unsigned char *p)
{
    return ts_is_poison(t, p, ts_format_of(t)->n_bytes);
}

double ts_noise(ts_dtype t, double largest, double correct)
{
    return FAR * rounding(t) * (largest + fabs(correct));
}

/* Numbers that are not finite agree with their like alone. */
bool ts_same_kind(double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return isinf(a) || isinf(b) ? a == b : true;
}

static double largest(ts_dtype t, const unsigned char *row, int64_t n)
{
    double most = 0;
    for (int64_t c = 0; c < n; c++) {
        const double v = fabs(ts_load(row, t, c));
        if (isfinite(v) && v > most) most = v;
    }
    return most;
}

/* One row. *apart: an element of the mutant is far from the correct one. */
static bool row_agrees(ts_dtype t, int64_t n, const unsigned char *entrant,
                       const unsigned char *mutant, const unsigned char *correct, bool *apart)
{
    const size_t each = ts_format_of(t)->n_bytes;
    const double scale = rounding(t) * largest(t, correct, n);
    for (int64_t c = 0; c < n; c++) {
        const double e = ts_load(entrant, t, c), m = ts_load(mutant, t, c);
        const double right = ts_load(correct, t, c);
        const bool   e_is = !unwritten(t, entrant + (size_t)c * each);
        const bool   m_is = !unwritten(t, mutant + (size_t)c * each);
        const bool   right_is = !unwritten(t, correct + (size_t)c * each);
        if (e_is != m_is || !ts_same_kind(e, m)) return false;
        if (m_is != right_is || !ts_same_kind(m, right)) {
            *apart = true;
            continue;
        }
        if (!isfinite(m)) continue;
        const double noise = scale + rounding(t) * fabs(right);
        const double error = fmin(fabs(e - right), fabs(m - right));
        if (fabs(e - m) > fmax(noise, PART * error)) return false;
        *apart |= error > FAR * noise;
    }
    return true;
}

/* How many columns are compared. What a cache says of its memory, and how often a search calls the
 * model, follows from the implementation, not from its bug. */
static int64_t n_compared(const ts_buf *b)
{
    if (!strcmp(b->name, "calls")) return 0;
    return !strcmp(b->name, "seen") ? 1 : b->n_cols;
}

ts_agreement ts_agree(const ts_arena *m, const unsigned char *entrant, const unsigned char *mutant,
                      const unsigned char *correct)
{
    bool apart = false;
    for (int i = 0; i < m->n; i++) {
        const ts_buf *b = &m->buf[i].b;
        const size_t  row = (size_t)b->n_cols * ts_format_of(b->dtype)->n_bytes;
        if (b->role == TS_IN) continue;
        for (int64_t r = 0; r < b->n_rows; r++, entrant += row, mutant += row, correct += row)
            if (!row_agrees(b->dtype, n_compared(b), entrant, mutant, correct, &apart))
                return TS_DISAGREES;
    }
    return apart ? TS_AGREES : TS_AGREES_WITH_BOTH;
}
