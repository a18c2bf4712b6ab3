/* SPDX-License-Identifier: Apache-2.0 */
/* draw.c - draws the cases for an entrant: some of every kind, and enough to cover every class of
 * every parameter, in an unpredictable order. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cover.h"
#include "run.h"

/* Number of cases per category, and their maximum size. One of every family in every dtype is
 * always drawn, and at normal depth one of every group: unit tests verify both. Python gets fewer,
 * since every block starts an interpreter. */
static const struct {
    int    cases, python;
    double bytes;
} DEPTH[TS_N_DEPTHS] = { { 8, 8, 4e6 }, { 112, 24, 16e6 }, { INT_MAX, INT_MAX, 300e6 } };

enum { RARE = 3 };

typedef struct drawn {
    int            number, place; /* of the case; in the order drawn */
    int            turn, n_alike; /* how many of its group come before it, and exist */
    bool           first;         /* of its family, in its dtype */
    bool           covers;        /* a class, or pair of classes, that no other drawn case has */
    const ts_case *c;
    ts_category    category;
    uint64_t       group;
    int            cls[TS_MAX_AXES]; /* of a case that covers: see read_classes */
} drawn;

int ts_run_case_named(const ts_scope *s, const ts_task *t, const char *which, uint64_t *seed)
{
    const ts_case *all = ts_scope_cases(s, t);
    const char    *at = strrchr(which, '@');
    char           name[192];
    *seed = at ? strtoull(at + 1, NULL, 0) : 0;
    for (int i = 0; at && all[i].use; i++) {
        ts_case_string(t, &all[i], *seed, name, sizeof name);
        if (!strcmp(name, which)) return i;
    }
    return -1;
}

uint64_t ts_run_case_seed(const ts_run *c, const ts_task *t, int number)
{
    const char *at = c->only ? strrchr(c->only, '@') : NULL;
    if (!c->only) return ts_run_seed(c, t, TS_FOR_INPUTS, number, 0);
    return at ? strtoull(at + 1, NULL, 0) : 0;
}

/* Memory for three arrays with distant rows, and for other processes. */
static const double FAR_BYTES = 64e9;

/* Whether to use distant rows: on the CPU their gaps have no pages, but on a device, and in Python
 * where arrays are copied whole, they take gigabytes. */
static bool asks_far(const ts_run *c, ts_class cls)
{
    const bool     gpu = c->device == TS_CUDA;
    const ts_depth least = ts_in_python(cls) ? TS_FULL : gpu ? TS_NORMAL : TS_QUICK;
    return c->depth >= least && (!gpu || c->survey.n_bytes >= FAR_BYTES);
}

static bool may_ask(const ts_run *c, const ts_task *t, ts_class cls, const ts_scope *s,
                    const ts_case *one)
{
    return ts_scope_takes(s, t, one) && ts_case_checks(one, c->device) &&
           (strcmp(one->family, "far") || asks_far(c, cls));
}

static bool alike(const ts_task *t, const ts_case *a, const ts_case *b)
{
    return a->dtype == b->dtype && !strcmp(a->family, b->family) &&
           ts_case_category(t, a) == ts_case_category(t, b);
}

/* If no case of a family is small enough for the depth, its smallest fits. */
static bool fits(const ts_run *c, const ts_task *t, ts_class cls, const ts_scope *s,
                 const ts_case *one)
{
    const double bytes = t->cost(one).bytes;
    if (!may_ask(c, t, cls, s, one)) return false;
    if (bytes <= DEPTH[c->depth].bytes) return true;
    for (const ts_case *other = ts_scope_cases(s, t); other->use; other++) {
        if (other->use & TS_USE_COVER) continue;
        const double others = t->cost(other).bytes;
        const bool   less = others < bytes || (others == bytes && other < one);
        if (less && may_ask(c, t, cls, s, other) && alike(t, one, other)) return false;
    }
    return true;
}

/* All cases that fit, in an order derived from the key. */
static int shuffle(const ts_run *c, const ts_task *t, ts_class cls, const ts_scope *s, drawn *d,
                   int *order, int n)
{
    const ts_case *all = ts_scope_cases(s, t);
    int            m = 0;
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        const int j = (int)(ts_run_seed(c, t, TS_FOR_CASE_ORDER, 0, i) % (i + 1u)), swap = order[i];
        order[i] = order[j], order[j] = swap;
    }
    for (int i = 0; i < n; i++) {
        const ts_case *one = &all[order[i]];
        if (!fits(c, t, cls, s, one)) continue;
        d[m] = (drawn) { .number = order[i], .place = m, .first = true, .c = one };
        d[m].category = ts_case_category(t, one), d[m].group = ts_case_group(t, one);
        d[m].first = !(one->use & TS_USE_COVER);
        for (int k = 0; k < m && d[m].first; k++)
            d[m].first = d[k].c->use & TS_USE_COVER || !alike(t, d[k].c, one);
        m++;
    }
    return m;
}

/* ---- covering cases ---- */

typedef bool seen[TS_MAX_AXES][TS_MAX_FAMILIES];

/* What the case shows of a cover: the class of every parameter, -1 for one it does not show. Within
 * a scope two parameters may be 0 only at once, which then shows both. */
static void read_classes(const ts_cover *v, drawn *d, bool scoped)
{
    for (int a = 0; a < TS_MAX_AXES; a++) {
        const int  i = a - TS_COVER_DIMS;
        const bool zero = scoped && i >= 0 && v->empties >> i & 1u && !d->c->dim[i];
        d->cls[a] = zero || ts_cover_shows(v, d->c, a, a) ? ts_cover_class(v, d->c, a) : -1;
    }
}

/* Number of the case's classes that are new in its dtype. */
static int news(const drawn *d, seen *of_dtype, bool mark)
{
    int n = 0;
    for (int a = 0; a < TS_MAX_AXES; a++) {
        if (d->cls[a] < 0) continue;
        n += !of_dtype[d->c->dtype][a][d->cls[a]];
        of_dtype[d->c->dtype][a][d->cls[a]] |= mark;
    }
    return n;
}

/* All cases; or greedily as few as cover every class of every parameter in every dtype. */
static void choose_covering(const ts_cover *v, drawn *d, int n, bool all, bool scoped, int *open)
{
    static seen of_dtype[TS_I32 + 1];
    int         n_open = 0; /* cases of this cover; those of the other are of other families */
    memset(of_dtype, 0, sizeof of_dtype);
    for (int i = 0; i < n; i++) d[i].covers |= all && d[i].c->use & TS_USE_COVER;
    if (!v || all) return;
    for (int i = 0; i < n; i++) {
        if (!(d[i].c->use & TS_USE_COVER) || ts_cover_class(v, d[i].c, TS_COVER_FAMILY) < 0)
            continue;
        read_classes(v, &d[i], scoped);
        open[n_open++] = i;
    }
    for (;;) {
        int best = -1, most = 0;
        for (int i = 0; i < n_open; i++) {
            const int k = d[open[i]].covers ? 0 : news(&d[open[i]], of_dtype, false);
            if (k > most) best = open[i], most = k;
        }
        if (best < 0) return;
        d[best].covers = true;
        news(&d[best], of_dtype, true);
    }
}

/* ---- other cases ---- */

static void count_alike(drawn *d, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            if ((d[i].c->use | d[k].c->use) & TS_USE_COVER) continue;
            const bool alike = d[i].group == d[k].group && d[i].category == d[k].category;
            d[i].n_alike += alike;
            d[i].turn += alike && k < i;
        }
}

/* The first of every family, then one of every group in turn, rare groups first. Not sorted by
 * rarity: wide dtypes have fewer cases than narrow ones, and a quick run would draw no others. */
static int by_turn(const void *left, const void *right)
{
    const drawn *a = left, *b = right;
    const bool   common_a = a->n_alike > RARE, common_b = b->n_alike > RARE;
    if (a->first != b->first) return b->first - a->first;
    if (a->turn != b->turn) return a->turn - b->turn;
    return common_a != common_b ? common_a - common_b : a->place - b->place;
}

static int by_place(const void *left, const void *right)
{
    return ((const drawn *)left)->place - ((const drawn *)right)->place;
}

/* A scope has fewer classes to cover: more of its cases, up to the number without a scope. */
static int add_more(const ts_run *c, const ts_task *t, ts_class cls, drawn *d, int m, int n)
{
    int wanted;
    free(ts_run_draw(c, t, cls, NULL, &wanted));
    if (m >= wanted) return m;
    qsort(d + m, (size_t)(n - m), sizeof *d, by_place);
    return wanted < n ? wanted : n;
}

int *ts_run_draw(const ts_run *c, const ts_task *t, ts_class cls, const ts_scope *s, int *n_drawn)
{
    int            n_all = 0, m = 0, taken[TS_N_CATEGORIES] = { 0 };
    uint64_t       seed;
    const ts_case *cases = ts_scope_cases(s, t);
    while (cases[n_all].use) n_all++;
    int   *number = calloc((size_t)n_all + 1, sizeof *number);
    drawn *d = calloc((size_t)n_all + 1, sizeof *d);
    if (!number || !d) abort();
    if (c->only) {
        *n_drawn = (number[0] = ts_run_case_named(s, t, c->only, &seed)) >= 0;
        free(d);
        return number;
    }
    const int  n = shuffle(c, t, cls, s, d, number, n_all);
    const int  most = ts_in_python(cls) ? DEPTH[c->depth].python : DEPTH[c->depth].cases;
    const bool all = c->depth >= TS_NORMAL && !ts_in_python(cls);
    const bool scoped = s && *s->text;
    choose_covering(t->cover, d, n, all, scoped, number);
    choose_covering(t->further, d, n, all, scoped, number);
    count_alike(d, n);
    qsort(d, (size_t)n, sizeof *d, by_turn);
    for (int i = 0; i < n; i++) {
        const bool cover = d[i].c->use & TS_USE_COVER;
        if (cover ? !d[i].covers : taken[d[i].category]++ >= most && !d[i].first) continue;
        const drawn kept = d[m]; /* the others stay, behind those that are drawn */
        d[m++] = d[i], d[i] = kept;
    }
    if (scoped) m = add_more(c, t, cls, d, m, n);
    qsort(d, (size_t)m, sizeof *d, by_place);
    for (int i = 0; i < m; i++) number[i] = d[i].number;
    free(d);
    *n_drawn = m;
    return number;
}
