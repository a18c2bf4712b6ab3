/* SPDX-License-Identifier: Apache-2.0 */
/* cover.c - cases in which every two classes meet: from a pair that has not yet met, the cheapest
 * case, and then for one parameter after the other the class that makes the most new pairs. */
#include "cover.h"

#include <assert.h>
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
    uint64_t        number;                                        /* of the row */
    bool            met[MOST][MOST];                               /* or need not */
    bool            point[TS_I32 + 1][TS_MAX_AXES][TS_MAX_POINTS]; /* that a case has */
    bool            scalar[TS_I32 + 1][TS_MAX_AXES][TS_MAX_CLASSES];
    bool            tail[TS_I32 + 1][TS_GAPS][TS_TAILS];
    uint64_t        products[TS_MAX_AXES]; /* see ts_cover_products */
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

/* ---- points ---- */

enum {
    SMALL = 16,
    PER_POWER = 10,
    POWERS = 10,
    LARGEST = (SMALL << POWERS) - 1,
    N_POINTS = SMALL + POWERS * PER_POWER,
    MOST_OF_FEW = 8194 /* where few parameters count: else points would be most of the cases */
};
static_assert((int)N_POINTS <= (int)TS_MAX_POINTS, "each has a number");

/* Of the values from a power of two to the next, the number of a point among these; -1: none. */
static int place_in_power(int64_t p, int64_t value)
{
    const int64_t half = p / 2, at[PER_POWER] = {
        p,        p + 1,        p + 2,     p + half / 2, p + half / 2 + 1,
        p + half, p + half + 1, p * 7 / 4, 2 * p - 2,    2 * p - 1
    };
    int i = PER_POWER - 1;
    while (i >= 0 && at[i] != value) i--;
    return i;
}

static int point_of(int64_t value)
{
    int64_t p = SMALL;
    int     first = SMALL;
    if (value < 0 || value > LARGEST) return -1;
    if (value < SMALL) return (int)value;
    for (; 2 * p <= value; p *= 2) first += PER_POWER;
    const int i = place_in_power(p, value);
    return i < 0 ? -1 : first + i;
}

int64_t ts_cover_next_point(int64_t value)
{
    do value++;
    while (point_of(value) < 0 && value <= LARGEST);
    return value <= LARGEST ? value : INT64_MAX;
}

/* Whether so many parameters count that one case has many points. */
static bool counts_much(const ts_cover *v)
{
    int n = 0;
    for (int i = 0; i < TS_MAX_DIMS + TS_MAX_MORE; i++) n += v->dim[i].counts;
    return n > 3;
}

/* Of parameters, before `make`. */
static int raw_point(const ts_cover *v, const ts_case *raw, int axis)
{
    const ts_axis *a = &v->dim[axis - TS_COVER_DIMS];
    const int64_t  value = raw->dim[axis - TS_COVER_DIMS];
    if (!a->counts || value < a->from[0] || value > a->most) return -1;
    if (value > MOST_OF_FEW && !counts_much(v)) return -1;
    if (a->next_to && raw->dim[a->next_to - 1] < 2) return -1;
    for (int i = 0; i < TS_MAX_DIMS + TS_MAX_MORE; i++)
        if (v->empties >> i & 1u && raw->dim[i] == 0 && i != axis - TS_COVER_DIMS) return -1;
    return point_of(value);
}

int ts_cover_point(const ts_cover *v, const ts_case *c, int axis)
{
    ts_case raw = *c;
    if (axis < TS_COVER_DIMS) return -1;
    if (v->read) v->read(&raw);
    return raw_point(v, &raw, axis);
}

/* The cheapest case of the point. */
static bool least_with(const ts_cover *v, int dtype_cls, int axis, int64_t value, ts_case *raw)
{
    *raw = ts_cover_usual(v);
    raw->dtype = (ts_dtype)ts_cover_dtype(v, dtype_cls);
    *place(raw, axis) = value;
    const int other = v->dim[axis - TS_COVER_DIMS].next_to - 1;
    if (other >= 0 && raw->dim[other] < 2) raw->dim[other] = 2;
    return raw_point(v, raw, axis) >= 0 && ts_cover_possible(v, *raw);
}

bool ts_cover_has_point(const ts_cover *v, int dtype_cls, int axis, int64_t value)
{
    ts_case raw;
    return least_with(v, dtype_cls, axis, value, &raw);
}

/* ---- pairs of classes ---- */

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

bool ts_cover_tells(const ts_cover *v, const ts_case *c, int axis)
{
    const int i = axis - TS_COVER_DIMS;
    if (i < 0 || !(v->scalars >> i & 1u)) return true;
    return ts_cover_class(v, c, TS_COVER_FAMILY) == 0 && ts_cover_shows(v, c, axis, axis);
}

/* Whether the case shows any error in any element. */
static bool is_plain(const ts_cover *v, const ts_case *c)
{
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        const ts_axis *x = &v->dim[a - TS_COVER_DIMS];
        const bool     number = x->exact || v->scalars >> (a - TS_COVER_DIMS) & 1u;
        if (number && ts_cover_class(v, c, a) != x->usual) return false;
    }
    return ts_cover_class(v, c, TS_COVER_FAMILY) == 0 &&
           ts_cover_shows(v, c, TS_COVER_DTYPE, TS_COVER_DTYPE);
}

int ts_cover_tail(const ts_cover *v, const ts_case *c, ts_gap gap)
{
    ts_case raw = *c;
    if (!v->row || !is_plain(v, c)) return -1;
    if (v->read) v->read(&raw);
    const int64_t n = *place(&raw, v->row), n_gap = *place(&raw, v->gap);
    const ts_gap  is = !n_gap ? TS_GAP_NONE : (n + n_gap) % TS_TAILS ? TS_GAP_ANY : TS_GAP_ALIGNED;
    return is == gap ? (int)(n % TS_TAILS) : -1;
}

static bool counts(const ts_cover *v, int axis)
{
    return axis >= TS_COVER_DIMS && v->dim[axis - TS_COVER_DIMS].counts;
}

uint64_t ts_cover_blocks(const ts_cover *v, const ts_case *c, int axis)
{
    static const int64_t past[] = { -1, 1, 2 };
    ts_case              raw = *c;
    uint64_t             bits = 0, bit = 1;
    if (!counts(v, axis) || !is_plain(v, c)) return 0;
    if (v->read) v->read(&raw);
    const int     next_to = v->dim[axis - TS_COVER_DIMS].next_to;
    const int64_t n = *place(&raw, axis);
    if (next_to && raw.dim[next_to - 1] < 2) return 0;
    for (int64_t block = SMALL; block <= 1024; block *= 2)
        for (int i = 0; i < 3; i++, bit <<= 1)
            if (n > block && (n - past[i]) % block == 0) bits |= bit;
    return bits;
}

enum { PRODUCTS = 3 };
static const int64_t roots[PRODUCTS] = { 16, 32, 64 }; /* of 256, 1024, 4096 */

static uint64_t product_bit(int a, int b, int k)
{
    return UINT64_C(1) << ((b - a - 1) * PRODUCTS + k);
}

uint64_t ts_cover_products(const ts_cover *v, const ts_case *c, int axis)
{
    ts_case  raw = *c;
    uint64_t bits = 0;
    if (!counts(v, axis) || !is_plain(v, c)) return 0;
    if (v->read) v->read(&raw);
    const int64_t n = *place(&raw, axis);
    for (int b = axis + 1; b < TS_MAX_AXES && n > 1; b++) {
        const int64_t m = counts(v, b) ? *place(&raw, b) : 0;
        for (int k = 0; k < PRODUCTS && m > 1; k++)
            if (n > roots[k] * roots[k] / m) bits |= product_bit(axis, b, k);
    }
    return bits;
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

/* ---- what cases have ---- */

/* Of the tails before a gap that fills no vector in each dtype, else in any. */
static bool *tail_of(work *w, ts_dtype dtype, int gap, int tail)
{
    return &w->tail[gap == TS_GAP_ANY ? dtype : TS_F32][gap][tail];
}

/* Notes what the case has, and returns it after `make`. */
static ts_case made(work *w, ts_case raw)
{
    ts_case c = raw;
    if (w->v->make) w->v->make(&c);
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        const int p = w->n[a] ? raw_point(w->v, &raw, a) : -1;
        const int k = w->n[a] ? ts_cover_class(w->v, &c, a) : -1;
        if (p >= 0) w->point[raw.dtype][a][p] = true;
        if (k >= 0 && ts_cover_tells(w->v, &c, a)) w->scalar[raw.dtype][a][k] = true;
        if (raw.dtype != TS_F64) w->products[a] |= ts_cover_products(w->v, &c, a);
    }
    for (int gap = 0; gap < TS_GAPS; gap++) {
        const int  tail = ts_cover_tail(w->v, &c, (ts_gap)gap);
        const bool in_any = gap != TS_GAP_ANY; /* but f64, which many entrants do not offer */
        if (tail >= 0 && !(in_any && raw.dtype == TS_F64)) *tail_of(w, raw.dtype, gap, tail) = true;
    }
    return c;
}

/* ---- cases of pairs ---- */

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

/* The last value of a class. */
static int64_t last_of(const ts_axis *x, int cls)
{
    return cls + 1 < x->n ? x->from[cls + 1] - 1 : x->most;
}

/* A point of the class that no case of the dtype has, and that this case may have: the first from
 * `begin` on, then those before it. False: there is none. */
static bool take_point(const work *w, ts_case *c, int a, int64_t first, int64_t last, int64_t begin)
{
    const int64_t was = *place(c, a);
    for (int turn = 0; turn < 2; turn++) {
        const int64_t end = turn ? begin : last + 1;
        for (int64_t i = turn ? first : begin; i < end; i = ts_cover_next_point(i)) {
            *place(c, a) = i;
            const int p = raw_point(w->v, c, a);
            if (p >= 0 && !w->point[c->dtype][a][p] && ts_cover_possible(w->v, *c)) return true;
        }
    }
    *place(c, a) = was;
    return false;
}

/* A point that is new, or any value of the class, where the case may have it. */
static ts_case values(work *w, const row *r)
{
    ts_case c = least_of(w->v, r);
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        const uint64_t bits = ts_bits(SEED + w->number, a);
        const ts_axis *x = &w->v->dim[a - TS_COVER_DIMS];
        if (!w->n[a] || x->exact) continue;
        const int64_t least = *place(&c, a), last = last_of(x, r->cls[a]);
        const int64_t any = least + (int64_t)((bits >> 8) % (uint64_t)(last - least + 1));
        if (x->counts && take_point(w, &c, a, least, last, any)) continue;
        if (bits % 2 == 0) continue;
        *place(&c, a) = any;
        if (!ts_cover_possible(w->v, c)) *place(&c, a) = least;
    }
    return made(w, c);
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

/* ---- further cases ---- */

static ts_case usual_but(const work *w, int dtype_cls, int axis, int64_t value)
{
    ts_case c = ts_cover_usual(w->v);
    c.dtype = (ts_dtype)ts_cover_dtype(w->v, dtype_cls);
    *place(&c, axis) = value;
    return c;
}

static int append(work *w, const ts_case *raw, ts_case *list, int n, int room)
{
    if (n == room) abort();
    list[n] = made(w, *raw);
    return n + 1;
}

/* Points of the axes from `a` on but one, where the case may have them. */
static void take_points(const work *w, ts_case *raw, int a, int but)
{
    for (; a < TS_MAX_AXES; a++) {
        const ts_axis *x = &w->v->dim[a - TS_COVER_DIMS];
        if (x->counts && a != but) take_point(w, raw, a, *place(raw, a), x->most, *place(raw, a));
    }
}

/* No dtype has the point but f64, which many entrants do not offer. Where many parameters count,
 * and one case has many points, one dtype is too few. */
static bool is_missing(const work *w, int a, int point)
{
    int n = 0;
    for (int t = 0; t <= TS_I32 && point >= 0; t++)
        n += w->point[t][a][point] && (t != TS_F64 || w->n[TS_COVER_DTYPE] == 1);
    return point >= 0 && n < (w->n[TS_COVER_DTYPE] > 1 && counts_much(w->v) ? 2 : 1);
}

/* The dtypes in turn, without f64 if there are others. */
static int turn_of(const work *w, int n)
{
    const int n_dtypes = w->n[TS_COVER_DTYPE], cls = n % n_dtypes;
    return ts_cover_dtype(w->v, cls) == TS_F64 ? (cls + 1) % n_dtypes : cls;
}

/* Another class of every scalar: else unusual ones would be rare among all cases. */
static void turn_scalars(const work *w, ts_case *raw, int turn)
{
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        const ts_axis *x = &w->v->dim[a - TS_COVER_DIMS];
        if (w->v->scalars >> (a - TS_COVER_DIMS) & 1u) *place(raw, a) = x->from[turn % x->n];
    }
}

/* Of the points that are still missing, cases with as many of them as each may have; the other
 * parameters are the usual ones. Dtypes take turns, and gaps behind rows. */
static int add_points(work *w, ts_case *list, int n, int room)
{
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        const ts_axis *x = &w->v->dim[a - TS_COVER_DIMS];
        for (int64_t i = x->from[0]; x->counts && i <= x->most; i = ts_cover_next_point(i)) {
            ts_case raw;
            if (!is_missing(w, a, point_of(i)) || !least_with(w->v, turn_of(w, n), a, i, &raw))
                continue;
            const ts_case dense = raw;
            if (w->v->gap) *place(&raw, w->v->gap) = n % 3;
            if (n % 4 == 3) turn_scalars(w, &raw, n / 4);
            if (!ts_cover_possible(w->v, raw)) raw = dense;
            take_points(w, &raw, a + 1, a);
            n = append(w, &raw, list, n, room);
        }
    }
    return n;
}

static bool lacks_scalar(const work *w, ts_dtype dtype, int a, int cls)
{
    return w->v->scalars >> (a - TS_COVER_DIMS) & 1u && !w->scalar[dtype][a][cls];
}

/* Of the classes of scalars that no case of the first family has, cases with as many of them as
 * each may have. */
static int add_scalars(work *w, ts_case *list, int n, int room)
{
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++)
        for (int i = 0; i < w->n[a] * w->n[TS_COVER_DTYPE]; i++) {
            const int k = i % w->n[a];
            ts_case   raw = usual_but(w, i / w->n[a], a, w->v->dim[a - TS_COVER_DIMS].from[k]);
            if (!lacks_scalar(w, raw.dtype, a, k) || !ts_cover_possible(w->v, raw)) continue;
            for (int b = a + 1; b < TS_MAX_AXES; b++)
                for (int m = 0; m < w->n[b]; m++) {
                    const int64_t was = *place(&raw, b);
                    if (!lacks_scalar(w, raw.dtype, b, m)) continue;
                    *place(&raw, b) = w->v->dim[b - TS_COVER_DIMS].from[m];
                    if (ts_cover_possible(w->v, raw)) break;
                    *place(&raw, b) = was;
                }
            take_points(w, &raw, TS_COVER_DIMS, 0);
            n = append(w, &raw, list, n, room);
        }
    return n;
}

/* The tails that are still missing, in short rows. */
static int add_tails(work *w, ts_case *list, int n, int room)
{
    const int n_dtypes = w->v->row ? w->n[TS_COVER_DTYPE] : 0;
    for (int i = 0; i < n_dtypes * TS_GAPS * TS_TAILS; i++) {
        const int gap = i / TS_TAILS % TS_GAPS, tail = i % TS_TAILS, fill = TS_TAILS - tail;
        ts_case   raw = usual_but(w, i / TS_TAILS / TS_GAPS, w->v->row, 3 * TS_TAILS + tail);
        *place(&raw, w->v->gap) = gap == TS_GAP_ALIGNED ? fill : gap * (1 + fill % TS_TAILS);
        if (*tail_of(w, raw.dtype, gap, tail) || !ts_cover_possible(w->v, raw)) continue;
        take_points(w, &raw, TS_COVER_DIMS, w->v->row);
        n = append(w, &raw, list, n, room);
    }
    return n;
}

/* A product just past root^2 that a case may have, of numbers that are alike if possible. */
static bool take_product(const work *w, ts_case *raw, int a, int b, int64_t root)
{
    const ts_axis *x = &w->v->dim[a - TS_COVER_DIMS], *y = &w->v->dim[b - TS_COVER_DIMS];
    for (int64_t by = 1; by < root; by *= 2)
        for (int turn = 0; turn < 2; turn++) {
            const int64_t n = turn ? root * by : root / by, m = root * root / n + 1;
            if (n < x->from[0] || n > x->most || m < y->from[0] || m > y->most) continue;
            *place(raw, a) = n, *place(raw, b) = m;
            if (ts_cover_possible(w->v, *raw)) return true;
        }
    return false;
}

/* The products that are still missing. */
static int add_products(work *w, ts_case *list, int n, int room)
{
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++)
        for (int i = (a + 1) * PRODUCTS; i < TS_MAX_AXES * PRODUCTS; i++) {
            const int b = i / PRODUCTS, k = i % PRODUCTS;
            ts_case   raw = usual_but(w, turn_of(w, n), a, 1);
            if (counts(w->v, a) && counts(w->v, b) && !(w->products[a] & product_bit(a, b, k)) &&
                take_product(w, &raw, a, b, roots[k]))
                n = append(w, &raw, list, n, room);
        }
    return n;
}

static work *begin(const ts_cover *v)
{
    work *w = calloc(1, sizeof *w);
    if (!w) abort();
    w->v = v;
    for (int a = 0; a < TS_MAX_AXES; a++) {
        w->n[a] = ts_cover_classes(v, a);
        if (w->n[a] > MOST_CLASSES) abort();
    }
    return w;
}

int ts_cover_cases(const ts_cover *v, ts_case *list, int room)
{
    work *w = begin(v);
    int   n = 0;
    for (int a = 0; a < TS_MAX_AXES; a++)
        for (int b = 0; b < a; b++)
            for (int i = 0; i < w->n[a]; i++)
                for (int k = 0; k < w->n[b]; k++) {
                    if (*pair(w, a, i, b, k) || !ts_cover_allows(v, a, i, b, k)) continue;
                    if (n == room) abort();
                    w->number = (uint64_t)n;
                    list[n++] = next_case(w, a, i, b, k);
                }
    const int pairs = n;
    n = add_scalars(w, list, n, room);
    n = add_points(w, list, n, room);
    n = add_tails(w, list, n, room);
    n = add_products(w, list, n, room);
    for (int i = pairs; i < n; i++) list[i].use |= TS_USE_WITHIN;
    free(w);
    return n;
}
