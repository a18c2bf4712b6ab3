/* SPDX-License-Identifier: Apache-2.0 */
/* cover.c - cases in which every two classes meet: from a pair that has not yet met, the cheapest
 * case, and then for one parameter after the other the class that makes the most new pairs. */
#include "cover.h"

#include <stdlib.h>
#include <string.h>

#include "rng.h"

enum { SEED = 23, MOST_CLASSES = 48, MOST = TS_MAX_AXES * MOST_CLASSES };

typedef struct row {
    int cls[TS_MAX_AXES];
} row;

typedef struct work {
    const ts_cover *v;
    int             n[TS_MAX_AXES];
    uint64_t        number;          /* of the row */
    bool            met[MOST][MOST]; /* or need not */
} work;

int ts_cover_dtype(const ts_cover *v, int cls)
{
    int t = 0;
    for (;; t++)
        if (v->dtypes >> t & 1u && !cls--) return t;
}

int ts_cover_classes(const ts_cover *v, int axis)
{
    int n = 0;
    if (axis == TS_COVER_DTYPE)
        for (unsigned t = v->dtypes; t; t &= t - 1) n++;
    else if (axis == TS_COVER_FAMILY)
        while (v->family[n].name) n++;
    else n = v->dim[axis - TS_COVER_DIMS].n;
    return n;
}

static int64_t *place(ts_case *c, int axis)
{
    return &c->dim[axis - TS_COVER_DIMS];
}

int ts_cover_class(const ts_cover *v, const ts_case *c, int axis)
{
    const int n = ts_cover_classes(v, axis);
    int       i = 0;
    ts_case   raw = *c;
    if (axis == TS_COVER_DTYPE) {
        while (i < n && ts_cover_dtype(v, i) != (int)c->dtype) i++;
        return i < n ? i : -1;
    }
    if (axis == TS_COVER_FAMILY) {
        while (i < n && strcmp(v->family[i].name, c->family)) i++;
        return i < n ? i : -1;
    }
    if (v->read) v->read(&raw);
    const ts_axis *a = &v->dim[axis - TS_COVER_DIMS];
    const int64_t  value = *place(&raw, axis);
    if (!n || value < a->from[0] || value > a->most) return -1;
    while (i + 1 < n && a->from[i + 1] <= value) i++;
    return a->exact && a->from[i] != value ? -1 : i;
}

static bool empties(const ts_cover *v, int axis, int cls)
{
    const int i = axis - TS_COVER_DIMS;
    return i >= 0 && v->empties >> i & 1u && v->dim[i].from[cls] == 0;
}

/* Not where a third empties it. */
static bool shows(const ts_cover *v, const int *cls, int axis, int other)
{
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++)
        if (ts_cover_classes(v, a) && empties(v, a, cls[a]) && a != axis && a != other)
            return false;
    return true;
}

bool ts_cover_shows(const ts_cover *v, const ts_case *c, int axis, int other)
{
    int cls[TS_MAX_AXES];
    for (int a = 0; a < TS_MAX_AXES; a++) {
        const int k = ts_cover_class(v, c, a);
        cls[a] = k < 0 ? 0 : k;
    }
    return shows(v, cls, axis, other);
}

static row usual(const ts_cover *v)
{
    row r = { { 0 } };
    for (int i = TS_COVER_DIMS; i < TS_MAX_AXES; i++) r.cls[i] = v->dim[i - TS_COVER_DIMS].usual;
    return r;
}

/* With the first value of every class. */
static ts_case least_of(const ts_cover *v, const row *r)
{
    ts_case c = { .use = v->use | TS_USE_COVER,
                  .dtype = (ts_dtype)ts_cover_dtype(v, r->cls[TS_COVER_DTYPE]),
                  .family = v->family[r->cls[TS_COVER_FAMILY]].name };
    for (int i = TS_COVER_DIMS; i < TS_MAX_AXES; i++)
        if (ts_cover_classes(v, i)) *place(&c, i) = v->dim[i - TS_COVER_DIMS].from[r->cls[i]];
    return c;
}

ts_case ts_cover_usual(const ts_cover *v)
{
    const row r = usual(v);
    return least_of(v, &r);
}

/* In families that the cover lacks, the dtypes are the caller's affair. */
bool ts_cover_possible(const ts_cover *v, ts_case raw)
{
    const int f = ts_cover_class(v, &raw, TS_COVER_FAMILY);
    if (f >= 0 && !(v->family[f].dtypes >> raw.dtype & 1u)) return false;
    if (v->make) v->make(&raw);
    return !v->allows || v->allows(&raw);
}

bool ts_cover_allows(const ts_cover *v, int axis, int cls, int other, int other_cls)
{
    row r = usual(v);
    r.cls[axis] = cls;
    r.cls[other] = other_cls;
    return ts_cover_possible(v, least_of(v, &r));
}

static bool *pair(work *w, int a, int i, int b, int k)
{
    return &w->met[a * MOST_CLASSES + i][b * MOST_CLASSES + k];
}

/* How many new pairs class i of axis a makes with the axes that are settled. */
static int gain(work *w, const row *r, const bool *settled, int a, int i)
{
    int n = 0;
    for (int b = 0; b < TS_MAX_AXES; b++)
        n += settled[b] && b != a && !*pair(w, a, i, b, r->cls[b]);
    return n;
}

/* The class of axis a with the most gain of those that are allowed. */
static void settle(work *w, row *r, bool *settled, int a)
{
    const int was = r->cls[a];
    int       best = was, most = -1;
    for (int k = 0; k < w->n[a]; k++) {
        /* not always the first of equals */
        const int i = (int)((uint64_t)(k + was) + w->number) % w->n[a];
        const int n = gain(w, r, settled, a, i);
        if (n <= most || empties(w->v, a, i)) continue;
        r->cls[a] = i;
        if (ts_cover_possible(w->v, least_of(w->v, r))) best = i, most = n;
    }
    r->cls[a] = best;
    settled[a] = true;
}

/* Any value of the class, where the case may have it. */
static ts_case values(const work *w, const row *r)
{
    ts_case c = least_of(w->v, r);
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        const uint64_t bits = ts_bits(SEED + w->number, a);
        const ts_axis *x = &w->v->dim[a - TS_COVER_DIMS];
        if (!w->n[a] || x->exact || bits % 2 == 0) continue;
        const int64_t least = *place(&c, a);
        const int64_t last = r->cls[a] + 1 < x->n ? x->from[r->cls[a] + 1] - 1 : x->most;
        *place(&c, a) = least + (int64_t)((bits >> 8) % (uint64_t)(last - least + 1));
        if (!ts_cover_possible(w->v, c)) *place(&c, a) = least;
    }
    if (w->v->make) w->v->make(&c);
    return c;
}

static ts_case next_case(work *w, int a, int i, int b, int k)
{
    bool settled[TS_MAX_AXES] = { false };
    row  r = usual(w->v);
    r.cls[a] = i, r.cls[b] = k;
    settled[a] = settled[b] = true;
    const int first = (int)(ts_bits(SEED, (int64_t)w->number) % TS_MAX_AXES);
    for (int x = 0; x < TS_MAX_AXES; x++) {
        const int at = (first + x) % TS_MAX_AXES;
        if (w->n[at] && !settled[at]) settle(w, &r, settled, at);
    }
    for (int x = 0; x < TS_MAX_AXES; x++)
        for (int y = 0; y < TS_MAX_AXES; y++)
            if (w->n[x] && w->n[y] && shows(w->v, r.cls, x, y))
                *pair(w, x, r.cls[x], y, r.cls[y]) = true;
    return values(w, &r);
}

int ts_cover_cases(const ts_cover *v, ts_case *list, int room)
{
    work *w = calloc(1, sizeof *w);
    int   n = 0;
    if (!w) abort();
    w->v = v;
    for (int a = 0; a < TS_MAX_AXES; a++) {
        w->n[a] = ts_cover_classes(v, a);
        if (w->n[a] > MOST_CLASSES) abort();
    }
    for (int a = 0; a < TS_MAX_AXES; a++)
        for (int b = 0; b < a; b++)
            for (int i = 0; i < w->n[a]; i++)
                for (int k = 0; k < w->n[b]; k++) {
                    if (*pair(w, a, i, b, k) || !ts_cover_allows(v, a, i, b, k)) continue;
                    if (n == room) abort();
                    w->number = (uint64_t)n;
                    list[n++] = next_case(w, a, i, b, k);
                }
    free(w);
    return n;
}
