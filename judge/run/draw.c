/* SPDX-License-Identifier: Apache-2.0 */
/* draw.c - draws the cases for an entrant: some of every kind, and enough to cover every class of
 * every parameter, in an unpredictable order. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cover.h"
#include "rng.h"
#include "run.h"

/* Number of cases per category, and their maximum size. One of every family in every dtype is
 * always drawn, and at normal depth one of every group: unit tests verify both. Python gets fewer,
 * since every block starts an interpreter. */
static const struct {
    int    cases, python;
    double bytes;
} DEPTH[TS_N_DEPTHS] = { { 8, 8, 4e6 }, { 112, 24, 16e6 }, { INT_MAX, INT_MAX, 300e6 } };

enum { RARE = 3, FOR_POINTS = 28, MANY_COUNTS = 3, PER_COUNT = 4 };

/* What a covering case may show: a class of every axis, and the tail of rows before a gap. */
enum { TAIL = TS_MAX_AXES, ALIGNED_TAIL, SHOWN };

typedef struct drawn {
    int            number, place; /* of the case; in the order drawn */
    int            turn, n_alike; /* how many of its group come before it, and exist */
    bool           first;         /* of its family, in its dtype */
    bool           always;        /* asked, in addition to those of its category */
    bool           covers;        /* a class, or pair of classes, that no other drawn case has */
    const ts_case *c;
    ts_category    category;
    uint64_t       group;
    int            cls[SHOWN]; /* of a case that covers: see read_classes */
    int            point[TS_MAX_AXES];
    uint64_t       blocks[TS_MAX_AXES];   /* see ts_cover_blocks */
    uint64_t       products[TS_MAX_AXES]; /* see ts_cover_products */
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

int ts_run_case_threads(const ts_run *c, uint64_t seed)
{
    static const int many[] = { 9, 12, 16, 17, 33 };
    const uint64_t   bits = ts_mix(seed + 11);
    const int        n = (int)(bits % (TS_FEW_THREADS + 3));
    if (n > TS_FEW_THREADS) return many[bits / 64 % (sizeof many / sizeof *many)];
    return n ? n : c->n_threads;
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

/* Whether the key chooses the case's dtype, of those in which cases of its family may be asked. */
static bool is_chosen(const ts_run *c, const ts_task *t, const ts_scope *s, const ts_case *one)
{
    unsigned dtypes = 0;
    int      n = 0;
    for (const ts_case *other = ts_scope_cases(s, t); other->use; other++)
        if (!strcmp(other->family, one->family) && ts_scope_takes(s, t, other) &&
            ts_case_checks(other, c->device))
            dtypes |= 1u << other->dtype;
    for (unsigned left = dtypes; left; left &= left - 1) n++;
    const uint64_t seed = ts_run_seed(c, t, TS_FOR_CASE_ORDER, 1, !strcmp(one->family, "taller"));
    for (int turn = n ? (int)(seed % (uint64_t)n) : 0; turn; turn--) dtypes &= dtypes - 1;
    return dtypes >> one->dtype & 1u && !(dtypes & ((1u << one->dtype) - 1));
}

/* The gaps of rows 2^32 elements apart are address space only where a call is not a copy. Of the
 * many rows one dtype is enough. A crowd of tokens takes some implementations seconds. */
static bool asks_large(const ts_run *c, const ts_task *t, ts_class cls, const ts_scope *s,
                       const ts_case *one)
{
    const bool     taller = !strcmp(one->family, "taller");
    const ts_depth slow = ts_in_python(cls) ? TS_FULL : TS_NORMAL;
    if (!strcmp(one->family, "crowd")) return c->depth >= slow;
    if (!strcmp(one->family, "far")) return asks_far(c, cls);
    if (!strcmp(one->family, "farther")) return c->device == TS_CPU && !ts_in_python(cls);
    if (!(taller || !strcmp(one->family, "tall")) || c->depth == TS_FULL) return true;
    if (t->cost(one).bytes <= DEPTH[TS_QUICK].bytes) return true;
    if (ts_in_python(cls) || (taller && c->depth == TS_QUICK)) return false;
    return is_chosen(c, t, s, one);
}

static bool may_ask(const ts_run *c, const ts_task *t, ts_class cls, const ts_scope *s,
                    const ts_case *one)
{
    return ts_scope_takes(s, t, one) && ts_case_checks(one, c->device) &&
           asks_large(c, t, cls, s, one);
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
    /* Of a covering case no smaller one takes the place. */
    if (bytes <= DEPTH[c->depth].bytes * (one->use & TS_USE_COVER ? 2 : 1)) return true;
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
    const bool     always = c->depth >= TS_NORMAL && !ts_in_python(cls);
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
        d[m].always = always && one->use & TS_USE_ALWAYS;
        m++;
    }
    return m;
}

/* ---- covering cases ---- */

/* What the chosen cases show: classes by dtype, points and blocks in any. */
typedef struct shown {
    bool     of_dtype[TS_I32 + 1][SHOWN][TS_MAX_FAMILIES];
    bool     point[TS_MAX_AXES][TS_MAX_POINTS];
    uint64_t blocks[TS_MAX_AXES], products[TS_MAX_AXES];
} shown;

/* How many of a case's classes are new in its dtype; tails in its dtype, or before an aligned gap
 * in any, ends of blocks and products; and points. */
typedef struct fresh {
    int classes, ends, points;
} fresh;

/* What the case shows of a cover: the class of every parameter, -1 for one it does not show. Within
 * a scope two parameters may be 0 only at once, which then shows both. */
static void read_classes(const ts_cover *v, drawn *d, bool scoped)
{
    const bool rare = d->c->dtype == TS_F64; /* many entrants do not offer it */
    for (int a = 0; a < TS_MAX_AXES; a++) {
        const int  i = a - TS_COVER_DIMS;
        const bool zero = scoped && i >= 0 && v->empties >> i & 1u && !d->c->dim[i];
        const bool shows = zero || ts_cover_shows(v, d->c, a, a);
        d->cls[a] = shows && ts_cover_tells(v, d->c, a) ? ts_cover_class(v, d->c, a) : -1;
        d->point[a] = rare ? -1 : ts_cover_point(v, d->c, a);
        d->blocks[a] = rare ? 0 : ts_cover_blocks(v, d->c, a);
        d->products[a] = rare ? 0 : ts_cover_products(v, d->c, a);
    }
    d->cls[TAIL] = rare ? -1 : ts_cover_tail(v, d->c, TS_GAP_ANY);
    d->cls[ALIGNED_TAIL] = rare ? -1 : ts_cover_tail(v, d->c, TS_GAP_ALIGNED);
}

static fresh news(const drawn *d, shown *s, bool mark)
{
    fresh f = { 0 };
    for (int a = 0; a < SHOWN; a++) {
        const int dtype = a == ALIGNED_TAIL ? TS_F32 : (int)d->c->dtype;
        bool     *cls = d->cls[a] < 0 ? NULL : &s->of_dtype[dtype][a][d->cls[a]];
        *(a < TAIL ? &f.classes : &f.ends) += cls && !*cls;
        if (cls) *cls |= mark;
    }
    for (int a = 0; a < TS_MAX_AXES; a++) {
        bool *point = d->point[a] < 0 ? NULL : &s->point[a][d->point[a]];
        f.points += point && !*point;
        f.ends += __builtin_popcountll(d->blocks[a] & ~s->blocks[a]) +
                  __builtin_popcountll(d->products[a] & ~s->products[a]);
        if (point) *point |= mark;
        if (mark) s->blocks[a] |= d->blocks[a], s->products[a] |= d->products[a];
    }
    return f;
}

/* How many cases without a new class are enough for ends and points: those for points are left out
 * where ends take that many. Where few parameters count, a case has few points. */
static int most_for_points(const ts_cover *v)
{
    int n = 0;
    for (int i = 0; v && i < TS_MAX_DIMS + TS_MAX_MORE; i++) n += v->dim[i].counts;
    return n > MANY_COUNTS ? FOR_POINTS : PER_COUNT * n;
}

/* All cases; or greedily as few as cover every class of every parameter in every dtype, every tail
 * before a gap and every end of a block, those that show more points first, and after them a few
 * for further points. */
static void choose_covering(const ts_cover *v, drawn *d, int n, bool all, bool points, bool scoped,
                            int *open)
{
    static shown s;
    int          for_points = points ? most_for_points(v) : 0;
    int          n_open = 0; /* cases of this cover; those of the other are of other families */
    memset(&s, 0, sizeof s);
    for (int i = 0; i < n; i++) d[i].covers |= all && d[i].c->use & TS_USE_COVER;
    if (!v || all) return;
    for (int i = 0; i < n; i++) {
        if (!(d[i].c->use & TS_USE_COVER) || ts_cover_class(v, d[i].c, TS_COVER_FAMILY) < 0)
            continue;
        read_classes(v, &d[i], scoped);
        if (!points) memset(d[i].products, 0, sizeof d[i].products);
        open[n_open++] = i;
    }
    for (;;) {
        int best = -1, most = 0;
        for (int i = 0; i < n_open; i++) {
            if (d[open[i]].covers) continue;
            const fresh f = news(&d[open[i]], &s, false);
            const int   must = f.classes + f.ends;
            const int   k = must             ? TS_MAX_AXES * (must + 1) + f.points
                            : for_points > 0 ? f.points
                                             : 0;
            if (k > most) best = open[i], most = k;
        }
        if (best < 0) return;
        d[best].covers = true;
        for_points -= !news(&d[best], &s, true).classes;
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
    const bool points = !ts_in_python(cls); /* there a block starts an interpreter */
    choose_covering(t->cover, d, n, all, points, scoped, number);
    choose_covering(t->further, d, n, all, points, scoped, number);
    count_alike(d, n);
    qsort(d, (size_t)n, sizeof *d, by_turn);
    for (int i = 0; i < n; i++) {
        const bool cover = d[i].c->use & TS_USE_COVER;
        if (cover) {
            if (!d[i].covers) continue;
        } else if (!d[i].always && taken[d[i].category]++ >= most && !d[i].first) {
            continue;
        }
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
