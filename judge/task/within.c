/* SPDX-License-Identifier: Apache-2.0 */
/* within.c - cases within a part of a task: see within.h. */
#include "within.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

enum {
    SEED = 41,
    ROUNDS = 3,
    MOST_CLASSES = 48,
    MOST = TS_MAX_AXES * MOST_CLASSES,
    MOST_LISTED = 256,
    MOST_CHOICES = 1024,
    MOST_COSTS = 60,  /* computed to adapt a case */
    TRIES = 8,        /* of a change that one parameter makes alone */
    FREE = -1,        /* a parameter may take any value; a class: any of it */
    PINNED = -2,      /* none but its own */
    ALL_VALUES = 16,  /* of a class with no more than these */
    RANDOM_VALUES = 6 /* of a larger one */
};

/* The values that parameters may take, and the condition. Cases are raw: before `make`. */
typedef struct space {
    const ts_task   *t;
    const ts_cover  *v;
    const ts_within *w;
    bool             own; /* the cover has the family: its classes count, else listed values only */
    /* Of dimensions: values in the task's list, and the range. */
    int64_t  listed[TS_MAX_AXES][MOST_LISTED], low[TS_MAX_AXES], high[TS_MAX_AXES];
    int      n_listed[TS_MAX_AXES];
    bool     narrow;                 /* every value between low and high is of use */
    double   most_bytes, most_flops; /* instead of what the cover allows; 0: that */
    int      costs;                  /* computed so far */
    uint64_t drawn;                  /* random numbers so far */
} space;

static uint64_t draw(space *s)
{
    return ts_bits(SEED, (int64_t)s->drawn++) >> 8;
}

static int64_t *place(ts_case *c, int axis)
{
    return &c->dim[axis - TS_COVER_DIMS];
}

static const ts_axis *axis_of(const space *s, int axis)
{
    return &s->v->dim[axis - TS_COVER_DIMS];
}

static ts_case made_of(const ts_cover *v, const ts_case *raw)
{
    ts_case c = *raw;
    if (v->make) v->make(&c);
    return c;
}

static ts_case raw_of(const ts_cover *v, const ts_case *c)
{
    ts_case raw = *c;
    if (v->read) v->read(&raw);
    return raw;
}

/* How many clauses are broken; that there is no such case, or that it is too large, is one more. */
static int broken(space *s, const ts_case *raw)
{
    const ts_case c = made_of(s->v, raw);
    const int     n = s->w->breaks(s->w->of, &c);
    if (!s->most_bytes) return n + !ts_cover_possible(s->v, *raw);
    if (n) return n + 1;
    if (s->costs++ > MOST_COSTS) return 1; /* each takes long for a large case */
    const ts_cost cost = s->t->cost(&c);
    return cost.bytes > s->most_bytes || cost.flops > s->most_flops;
}

static int class_of(const space *s, const ts_case *raw, int axis)
{
    const ts_case c = made_of(s->v, raw);
    return ts_cover_class(s->v, &c, axis);
}

/* ---- the values of a parameter ---- */

typedef struct choice {
    int     n;
    int64_t low, high, value[MOST_CHOICES];
} choice;

static void offer(choice *c, int64_t value)
{
    if (value >= c->low && value <= c->high && c->n < MOST_CHOICES) c->value[c->n++] = value;
}

/* Of a class: all, or its ends, what powers of two divide, and random ones. */
static void offer_range(space *s, choice *c, int64_t first, int64_t last)
{
    if (last - first < ALL_VALUES) {
        for (int64_t i = first; i <= last; i++) offer(c, i);
        return;
    }
    offer(c, first);
    offer(c, last);
    for (int64_t step = 2; step <= 4096 && step <= last; step *= 2) {
        const int64_t i = (first + step - 1) / step * step;
        if (i <= last) offer(c, i);
    }
    for (int i = 0; i < RANDOM_VALUES; i++)
        offer(c, first + (int64_t)(draw(s) % (uint64_t)(last - first + 1)));
}

static int64_t last_of(const ts_axis *x, int cls)
{
    return cls + 1 < x->n ? x->from[cls + 1] - 1 : x->most;
}

/* Numbers of the condition, and of the other parameters, with which this one may have to agree. */
static void offer_related(const space *s, choice *c, const ts_case *raw)
{
    const ts_case made = made_of(s->v, raw);
    int64_t       hint[TS_MOST_HINTS];
    const int     n = s->w->hints(s->w->of, &made, hint);
    for (int i = 0; i < n; i++) offer(c, hint[i]);
    for (int i = 0; i < TS_MAX_DIMS + TS_MAX_MORE; i++) offer(c, made.dim[i]);
}

static bool empties(const space *s, int axis)
{
    return axis >= TS_COVER_DIMS && s->v->empties >> (axis - TS_COVER_DIMS) & 1u;
}

/* Values of a dimension: 0 comes last if it makes the others irrelevant. */
static void offer_dimension(space *s, choice *c, const ts_case *raw, int axis, int cls)
{
    const ts_axis *x = axis_of(s, axis);
    const bool     late = empties(s, axis) && s->low[axis] == 0 && cls == FREE;
    c->low = cls >= 0 ? x->from[cls] : s->low[axis] + late;
    c->high = cls >= 0 ? x->exact ? x->from[cls] : last_of(x, cls) : s->high[axis];
    if (!x->exact) offer_related(s, c, raw);
    if (s->narrow && !x->exact) offer_range(s, c, c->low, c->high);
    for (int i = 0; s->own && !x->exact && i < x->n; i++)
        if (cls == FREE || cls == i) offer_range(s, c, x->from[i], last_of(x, i));
    /* 1 of a timed case comes last: in pieces of one it would take long. */
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < s->n_listed[axis]; i++)
            if ((s->most_bytes && s->listed[axis][i] == 1) == last) offer(c, s->listed[axis][i]);
    if (late) c->value[c->n < MOST_CHOICES ? c->n++ : c->n - 1] = 0;
}

static void offer_all(space *s, choice *c, const ts_case *raw, int axis, int cls)
{
    const int n = ts_cover_classes(s->v, axis);
    c->n = 0;
    if (axis >= TS_COVER_DIMS) {
        offer_dimension(s, c, raw, axis, cls);
        return;
    }
    c->low = 0, c->high = INT64_MAX;
    for (int i = 0; i < n; i++) {
        if (cls != FREE && cls != i) continue;
        offer(c, axis == TS_COVER_DTYPE ? ts_cover_dtype(s->v, i) : i);
    }
}

static void set(const space *s, ts_case *raw, int axis, int64_t value)
{
    if (axis == TS_COVER_DTYPE) raw->dtype = (ts_dtype)value;
    else if (axis == TS_COVER_FAMILY) raw->family = s->v->family[value].name;
    else *place(raw, axis) = value;
}

/* ---- from a case that breaks clauses to one that does not ---- */

/* The first value of the parameter with which fewer are broken. */
static int improve(space *s, ts_case *raw, int axis, int fix, int now)
{
    static choice c;
    if (fix == PINNED || !ts_cover_classes(s->v, axis)) return now;
    offer_all(s, &c, raw, axis, fix);
    for (int i = 0; i < c.n; i++) {
        ts_case other = *raw;
        set(s, &other, axis, c.value[i]);
        const int n = broken(s, &other);
        if (n >= now) continue;
        *raw = other;
        return n;
    }
    return now;
}

/* Another value of a parameter with which no more are broken, from where it may go on. */
static bool shake(space *s, ts_case *raw, const int *fix, int now)
{
    static choice c;
    for (int i = 0; i < TRIES; i++) {
        const int axis = (int)(draw(s) % TS_MAX_AXES);
        ts_case   other = *raw;
        if (fix[axis] == PINNED || !ts_cover_classes(s->v, axis)) continue;
        offer_all(s, &c, raw, axis, fix[axis]);
        if (!c.n) continue;
        set(s, &other, axis, c.value[draw(s) % (uint64_t)c.n]);
        if (broken(s, &other) > now) continue;
        *raw = other;
        return true;
    }
    return false;
}

static bool repair(space *s, ts_case *raw, const int *fix)
{
    int now = broken(s, raw);
    for (int round = 0; now && round < ROUNDS; round++) {
        const int before = now, first = (int)(draw(s) % TS_MAX_AXES);
        for (int x = 0; x < TS_MAX_AXES && now; x++) {
            const int axis = (first + x) % TS_MAX_AXES;
            now = improve(s, raw, axis, fix[axis], now);
        }
        if (now == before && !shake(s, raw, fix, now)) return false;
    }
    return !now;
}

/* ---- the space ---- */

static void fill(int *fix, int with)
{
    for (int a = 0; a < TS_MAX_AXES; a++) fix[a] = with;
}

static void list_value(space *s, int axis, int64_t value)
{
    int i = 0;
    while (i < s->n_listed[axis] && s->listed[axis][i] != value) i++;
    if (i < s->n_listed[axis] || i == MOST_LISTED) return;
    s->listed[axis][s->n_listed[axis]++] = value;
}

/* family NULL: any. */
static void list_values(space *s, const char *family)
{
    for (const ts_case *c = s->t->cases(); c->use; c++) {
        if (c->use & TS_USE_COVER || (family && !ts_is(c, family))) continue;
        ts_case raw = raw_of(s->v, c);
        for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
            const int64_t value = *place(&raw, a);
            if (!ts_cover_classes(s->v, a)) continue;
            if (!s->own || axis_of(s, a)->exact || s->most_bytes) list_value(s, a, value);
            if (s->own && !s->most_bytes) continue;
            if (value < s->low[a]) s->low[a] = value;
            if (value > s->high[a]) s->high[a] = value;
        }
    }
}

/* Parameters have the range of the cover; in a family that it lacks, that of the listed cases. */
static void open_space(space *s, const ts_task *t, const ts_cover *v, const ts_within *w,
                       const char *family)
{
    *s = (space) {
        .t = t, .v = v, .w = w, .most_bytes = s->most_bytes, .most_flops = s->most_flops
    };
    s->own = !family || ts_cover_class(v, &(ts_case) { .family = family }, TS_COVER_FAMILY) >= 0;
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        const ts_axis *x = axis_of(s, a);
        if (!x->n) continue;
        s->low[a] = s->own ? x->exact ? INT64_MIN : x->from[0] : INT64_MAX;
        s->high[a] = s->own ? x->exact ? INT64_MAX : x->most : INT64_MIN;
        for (int i = 0; s->own && x->exact && i < x->n; i++) list_value(s, a, x->from[i]);
    }
    list_values(s, s->own ? NULL : family);
}

/* ---- covering cases ---- */

typedef struct work {
    space    s;
    bool     met[MOST][MOST];                 /* or cannot */
    bool     seen[TS_MAX_AXES][MOST_CLASSES]; /* in a case */
    bool     never[TS_MAX_AXES][MOST_CLASSES];
    ts_case *list;
    int      n, room;
} work;

static bool *pair(work *w, int a, int i, int b, int k)
{
    return &w->met[a * MOST_CLASSES + i][b * MOST_CLASSES + k];
}

static void classes_of(const space *s, const ts_case *made, int cls[TS_MAX_AXES])
{
    for (int a = 0; a < TS_MAX_AXES; a++) cls[a] = ts_cover_class(s->v, made, a);
}

static int gain(work *w, const int *cls, const bool *settled, int a, int i)
{
    int n = 0;
    for (int b = 0; b < TS_MAX_AXES; b++)
        n += settled[b] && b != a && cls[b] >= 0 && !*pair(w, a, i, b, cls[b]);
    return n;
}

/* Gives the parameter a value of the class, if it can alone. */
static bool take_class(space *s, ts_case *raw, int axis, int cls)
{
    static choice c;
    offer_all(s, &c, raw, axis, cls);
    for (int i = 0; i < c.n && i < TRIES; i++) {
        ts_case other = *raw;
        set(s, &other, axis, c.value[i ? draw(s) % (uint64_t)c.n : 0]);
        if (broken(s, &other) || class_of(s, &other, axis) != cls) continue;
        *raw = other;
        return true;
    }
    return false;
}

/* For each parameter that is not settled, the class that makes the most new pairs and that it can
 * take; 0 of a dimension that empties the case is left to the pairs that ask for it. */
static void vary(work *w, ts_case *raw, bool *settled)
{
    const int first = (int)(draw(&w->s) % TS_MAX_AXES);
    for (int x = 0; x < TS_MAX_AXES; x++) {
        const int a = (first + x) % TS_MAX_AXES, n = ts_cover_classes(w->s.v, a);
        int       cls[TS_MAX_AXES];
        bool      tried[MOST_CLASSES] = { false };
        if (!n || settled[a]) continue;
        const ts_case made = made_of(w->s.v, raw);
        classes_of(&w->s, &made, cls);
        for (int turn = 0; turn < TRIES; turn++) {
            const int from = (int)(draw(&w->s) % (uint64_t)n);
            int       best = -1, most = -1;
            for (int k = 0; k < n; k++) {
                const int i = (from + k) % n;
                if (tried[i] || w->never[a][i]) continue;
                if (empties(&w->s, a) && axis_of(&w->s, a)->from[i] == 0) continue;
                const int g = gain(w, cls, settled, a, i);
                if (g > most) best = i, most = g;
            }
            if (best < 0 || take_class(&w->s, raw, a, best)) break;
            tried[best] = true;
        }
        settled[a] = true;
    }
}

/* Half of the parameters take any value of their class, and those that are equal to one stay so. */
static void scatter(space *s, ts_case *raw)
{
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        const ts_axis *x = axis_of(s, a);
        const int      cls = x->n && !x->exact && draw(s) % 2 ? class_of(s, raw, a) : -1;
        if (cls < 0) continue;
        const int64_t was = *place(raw, a), first = x->from[cls];
        const int64_t value = first + (int64_t)(draw(s) % (uint64_t)(last_of(x, cls) - first + 1));
        ts_case       one = *raw, all = *raw;
        *place(&one, a) = value;
        for (int b = TS_COVER_DIMS; b < TS_MAX_AXES; b++)
            if (axis_of(s, b)->n && !axis_of(s, b)->exact && *place(raw, b) == was &&
                value >= s->low[b] && value <= s->high[b])
                *place(&all, b) = value;
        if (!broken(s, &one)) *raw = one;
        else if (!broken(s, &all)) *raw = all;
    }
}

static void keep(work *w, const ts_case *raw)
{
    const ts_case c = made_of(w->s.v, raw);
    int           cls[TS_MAX_AXES];
    classes_of(&w->s, &c, cls);
    for (int x = 0; x < TS_MAX_AXES; x++) {
        if (cls[x] < 0) continue;
        w->seen[x][cls[x]] = true;
        for (int y = 0; y < TS_MAX_AXES; y++)
            if (cls[y] >= 0 && ts_cover_shows(w->s.v, &c, x, y))
                *pair(w, x, cls[x], y, cls[y]) = true;
    }
    if (w->n < w->room) w->list[w->n++] = c;
}

/* A case in which the two classes meet; b < 0: one with the first. */
static bool find(space *s, ts_case *raw, int a, int i, int b, int k)
{
    static choice c;
    int           fix[TS_MAX_AXES];
    *raw = ts_cover_usual(s->v);
    fill(fix, FREE);
    fix[a] = i;
    offer_all(s, &c, raw, a, i);
    if (!c.n) return false;
    if (a < TS_COVER_DIMS) set(s, raw, a, c.value[0]);
    else *place(raw, a) = axis_of(s, a)->from[i];
    if (b >= 0) {
        fix[b] = k;
        offer_all(s, &c, raw, b, k);
        if (!c.n) return false;
        if (b < TS_COVER_DIMS) set(s, raw, b, c.value[0]);
        else *place(raw, b) = axis_of(s, b)->from[k];
    }
    return repair(s, raw, fix);
}

static void cover_pair(work *w, int a, int i, int b, int k)
{
    ts_case raw;
    bool    settled[TS_MAX_AXES] = { false };
    if (*pair(w, a, i, b, k) || w->never[a][i] || w->never[b][k]) return;
    if (!find(&w->s, &raw, a, i, b, k)) return;
    const ts_case c = made_of(w->s.v, &raw);
    /* What empties both at once shows neither; one such case is enough. */
    if (!ts_cover_shows(w->s.v, &c, a, b) && w->seen[a][i] && w->seen[b][k]) return;
    settled[a] = settled[b] = true;
    vary(w, &raw, settled);
    scatter(&w->s, &raw);
    keep(w, &raw);
}

/* One more: another case with another class of one parameter. */
static void add_random(work *w)
{
    const int a = (int)(draw(&w->s) % TS_MAX_AXES), n = ts_cover_classes(w->s.v, a);
    const int i = n ? (int)(draw(&w->s) % (uint64_t)n) : 0;
    int       fix[TS_MAX_AXES];
    bool      settled[TS_MAX_AXES] = { false };
    ts_case   raw = raw_of(w->s.v, &w->list[draw(&w->s) % (uint64_t)w->n]);
    raw.use = w->s.v->use | TS_USE_COVER;
    if (!n || w->never[a][i] || (empties(&w->s, a) && axis_of(&w->s, a)->from[i] == 0)) return;
    fill(fix, FREE);
    fix[a] = i;
    if (a < TS_COVER_DIMS) set(&w->s, &raw, a, a == TS_COVER_DTYPE ? ts_cover_dtype(w->s.v, i) : i);
    else *place(&raw, a) = axis_of(&w->s, a)->from[i];
    if (!repair(&w->s, &raw, fix)) return;
    settled[a] = true;
    vary(w, &raw, settled);
    scatter(&w->s, &raw);
    keep(w, &raw);
}

int ts_within_cover(const ts_task *t, const ts_cover *v, const ts_within *of, ts_case *list, int n,
                    int room)
{
    work   *w = calloc(1, sizeof *w);
    ts_case raw;
    if (!w) abort();
    open_space(&w->s, t, v, of, NULL);
    w->list = list, w->room = room;
    for (int a = 0; a < TS_MAX_AXES; a++)
        for (int i = 0; i < ts_cover_classes(v, a); i++)
            w->never[a][i] = !find(&w->s, &raw, a, i, -1, 0);
    for (int a = 0; a < TS_MAX_AXES; a++)
        for (int b = 0; b < a; b++)
            for (int i = 0; i < ts_cover_classes(v, a); i++)
                for (int k = 0; k < ts_cover_classes(v, b); k++) cover_pair(w, a, i, b, k);
    for (int i = 0; i < 8 * n && w->n && w->n < n; i++) add_random(w);
    n = w->n;
    free(w);
    return n;
}

/* ---- adapted cases ---- */

static const ts_cover *cover_of(const ts_task *t, const ts_case *c)
{
    return t->further && ts_case_about(t, c) >= 0 ? t->further : t->cover;
}

/* A model's script must not: products of its dimensions have limits that are not known here. */
static bool grew(const space *s, const ts_case *c, const ts_case *from)
{
    for (int a = TS_COVER_DIMS; a < TS_COVER_DIMS + TS_MAX_DIMS; a++)
        if (axis_of(s, a)->n && !axis_of(s, a)->exact &&
            c->dim[a - TS_COVER_DIMS] > from->dim[a - TS_COVER_DIMS])
            return true;
    return false;
}

bool ts_within_adapt(const ts_task *t, const ts_within *w, ts_case *c)
{
    static space  s;
    const ts_cost cost = t->cost(c);
    int           fix[TS_MAX_AXES];
    /* One that is larger than those of the cover stays large. */
    const bool large = ts_is(c, "normal") && !ts_cover_possible(t->cover, raw_of(t->cover, c));
    s.most_bytes = large ? cost.bytes : 0, s.most_flops = large ? cost.flops : 0;
    open_space(&s, t, cover_of(t, c), w, c->family);
    ts_case raw = raw_of(s.v, c);
    fill(fix, FREE);
    fix[TS_COVER_DTYPE] = fix[TS_COVER_FAMILY] = PINNED;
    if (!repair(&s, &raw, fix)) return false;
    const ts_case made = made_of(s.v, &raw);
    if (large && t->has_model && grew(&s, &made, c)) return false;
    *c = made;
    return true;
}

/* So many halves more in this dimension, and in what must agree with it. */
static bool grow(space *s, ts_case *raw, int axis, int64_t halves, double bytes)
{
    ts_case other = *raw;
    int     fix[TS_MAX_AXES];
    if (!axis_of(s, axis)->n || axis_of(s, axis)->exact || *place(raw, axis) < 1) return false;
    *place(&other, axis) += *place(raw, axis) * halves / 2;
    if (*place(&other, axis) > s->high[axis]) return false;
    fill(fix, FREE);
    fix[axis] = fix[TS_COVER_DTYPE] = fix[TS_COVER_FAMILY] = PINNED;
    if (!repair(s, &other, fix)) return false;
    const ts_case c = made_of(s->v, &other);
    if (s->t->cost(&c).bytes < 1.2 * bytes) return false;
    *raw = other;
    return true;
}

/* From the case to one within. Dimensions stay between the space's low and high, and those of few
 * values what they are if `keep`. */
static bool move_timed(space *s, ts_case *c, bool keep)
{
    const ts_task *const t = s->t;
    const ts_cost        cost = t->cost(c);
    ts_case              raw = raw_of(s->v, c), made;
    int                  fix[TS_MAX_AXES];
    fill(fix, FREE);
    fix[TS_COVER_DTYPE] = fix[TS_COVER_FAMILY] = PINNED;
    for (int a = TS_COVER_DIMS; keep && a < TS_MAX_AXES; a++)
        if (axis_of(s, a)->n && axis_of(s, a)->exact) fix[a] = PINNED;
    s->costs = 0;
    if (!repair(s, &raw, fix)) return false;
    for (int a = TS_COVER_DIMS; a < TS_COVER_DIMS + TS_MAX_DIMS && !t->has_model; a++)
        for (double bytes;;) {
            made = made_of(s->v, &raw);
            bytes = t->cost(&made).bytes;
            if (bytes >= 0.75 * cost.bytes) break;
            if (!grow(s, &raw, a, 2, bytes) && !grow(s, &raw, a, 1, bytes)) break;
        }
    made = made_of(s->v, &raw);
    if (t->cost(&made).bytes < 0.4 * cost.bytes || (t->has_model && grew(s, &made, c)))
        return false;
    *c = made;
    return true;
}

/* Dimensions within this factor of the case's own. */
static void narrow(space *s, const space *whole, const ts_case *raw, double factor)
{
    *s = *whole;
    s->narrow = true;
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        const ts_axis *x = axis_of(s, a);
        const int64_t  is = raw->dim[a - TS_COVER_DIMS];
        if (!x->n || x->exact || is < 0) continue;
        const int64_t low = (int64_t)ceil((double)is / factor);
        int64_t       high = (int64_t)(is ? (double)is * factor : factor - 1);
        if (s->t->has_model) high = is; /* see grew */
        if (low > s->low[a]) s->low[a] = low;
        if (high < s->high[a]) s->high[a] = high;
    }
}

/* To the nearest: a scope that leaves the case out must not choose a shape of another kind to be
 * timed in. */
bool ts_within_adapt_timed(const ts_task *t, const ts_within *w, ts_case *c)
{
    static const double factor[] = { 1.25, 2, 4, 16 };
    static space        whole, s;
    const ts_cost       cost = t->cost(c);
    whole.most_bytes = 1.3 * cost.bytes, whole.most_flops = 2.1 * cost.flops + 1;
    open_space(&whole, t, t->cover, w, NULL);
    const ts_case raw = raw_of(whole.v, c);
    for (size_t i = 0; i < sizeof factor / sizeof *factor; i++)
        for (int keep = 1; keep >= 0; keep--) {
            narrow(&s, &whole, &raw, factor[i]);
            if (move_timed(&s, c, keep)) return true;
        }
    s = whole;
    return move_timed(&s, c, false);
}
