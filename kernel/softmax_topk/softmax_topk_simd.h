/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_simd.h - a row's log-sum-exp and its k first entries, written once for any width of
 * vector.
 *
 * Private to the files that include it, each of which has first defined, for its own instruction
 * set:
 *
 *     vec_*.h        vec, LANES floats; get, put, splat, sub, madd, total, exponent
 *     GROUP          logits in four vecs, which are taken together
 *     ivec           LANES int32_t
 *     load           GROUP logits, each in some lane of some vec
 *     load_in_order  the same in the order of memory
 *     get_ints, count_from   of ivec; the latter is i, i + 1, ...
 *     BATCH          vectors, 2, 4 or 8, whose exponentials go step by step together
 *     most           the larger; the second of the two, or a NaN, where either is a NaN
 *     keep_nan       a vec that any_nan says yes to once one of the four vecs x had a NaN
 *     which_ge, which_gt   a bit for each lane; bits_in: how many are set; any_ge: whether one is
 *     tally          counts of lanes; tally_zero, tally_ge, and tallied: their sum
 *     pack           the lanes whose bit is set, next to each other; all LANES places are written
 *
 * A row is read in blocks that stay in the first-level cache. Each is looked at up to three times:
 * for its largest logits, for its sum, and, where it has any, for its candidates; the one after it
 * comes in meanwhile.
 *
 * A NaN or +inf turns the sum into a NaN and nothing else: all code here takes what comes.
 * Comparisons are those of floats, so that -0 equals +0. */
#ifndef TS_SOFTMAX_TOPK_SIMD_H
#define TS_SOFTMAX_TOPK_SIMD_H

#include <math.h>
#include <string.h>

#include "exp_simd.h"
#include "softmax_topk_candidates.h"
#include "unroll.h"
#include "vec_simd.h"

enum {
    MAXIMA = BLOCK / 4, /* a lane of a group has four logits */
    EIGHT = 8,
    SURE = 256,           /* largest k for which the maxima of lanes tell enough */
    SHORT = 1024 / GROUP, /* groups */
    LINE = 64,
};

/* ---- exponentials ---- */

/* 2^(c (x - max)) in floats; or, where some x - max or this factor is no float although it matters,
 * in doubles. */
typedef struct scale {
    double t;
    float  c, low; /* below `low` there is nothing to add to a sum of 1 or more */
    int    far;
} scale;

INLINE scale scale_of(double t)
{
    const double c = t * 0x1.71547652b82fep0;
    const int    far = !(c > 0x1p-100 && c < 0x1p127);
    return (scale) { t, far ? 0 : (float)c, far ? 0 : (float)(-125 / c), far };
}

typedef struct weighing {
    vec shift, low, c;
} weighing;

/* sum + 2^(c (x - shift)), over n_vec vectors, BATCH at most. The product with c is never rounded,
 * and `low` keeps results from becoming subnormal, which would be slow. A NaN in x passes through
 * everything. */
INLINE void add_weights(vec sum[2], const vec *x, int n_vec, const weighing *w)
{
    vec d[BATCH], n[BATCH], r[BATCH], p[BATCH];
    UNROLL
    for (int j = 0; j < n_vec; j++) d[j] = most(w->low, sub(x[j], w->shift));
    UNROLL
    for (int j = 0; j < n_vec; j++) n[j] = add_big(d[j], w->c);
    UNROLL
    for (int j = 0; j < n_vec; j++) r[j] = madd(d[j], w->c, less_big(n[j]));
    exp2_of(p, r, n_vec);
    UNROLL
    for (int j = 0; j < n_vec; j++) sum[j % 2] = madd(p[j], exponent(n[j]), sum[j % 2]);
}

/* ---- a block ---- */

/* The largest logit yet, and the sum of exp(t (x - max)). */
typedef struct state {
    double sum;
    float  max;
} state;

/* A core can have few outstanding cache lines, so memory stays busy only if lines are requested all
 * the time: whatever is done with a block, the next lines ahead are prefetched now and then. */
INLINE void fetch_ahead(uintptr_t *ahead)
{
    __builtin_prefetch((const char *)*ahead);
    *ahead += LINE;
}

/* Lane by lane, the maxima of each group and of each EIGHT groups. */
typedef struct peaks {
    float of_group[MAXIMA], of_eight[MAXIMA / EIGHT];
} peaks;

/* Notes those of the groups from number g on, of which the first lies at p. Where a NaN is looked
 * for, no sum follows: all lines ahead are prefetched here. */
INLINE vec max_groups(const char *p, ts_dtype t, int g, int end, peaks *to, vec m, vec *nan,
                      uintptr_t *ahead)
{
    while (g < end) {
        const int stop = (int)ts_lesser(end, g / EIGHT * EIGHT + EIGHT);
        float    *of_eight = to->of_eight + g / EIGHT * LANES;
        vec       high = g % EIGHT ? get(of_eight) : splat(-INFINITY);
        for (; g < stop; g++, p += GROUP * size_of(t)) {
            vec x[4];
            load(x, p, t);
            if (nan) {
                *nan = keep_nan(*nan, x);
                for (int64_t i = 0; i < GROUP * size_of(t) / LINE; i++) fetch_ahead(ahead);
            } else if (g % (4 * LINE / (GROUP * size_of(t))) == 0) {
                fetch_ahead(ahead);
            }
            const vec of_group = most(most(x[0], x[1]), most(x[2], x[3]));
            put(to->of_group + g * LANES, of_group);
            high = most(of_group, high);
        }
        put(of_eight, high);
        m = most(high, m);
    }
    return m;
}

/* Few floats are added up before they are added to a double. Lines ahead, up to `until`, are
 * prefetched. */
INLINE double sum_groups(const char *p, ts_dtype t, int n_groups, float shift, const scale *s,
                         uintptr_t *ahead, uintptr_t until)
{
    const int64_t most = GROUP * size_of(t) / LINE; /* a group */
    const int64_t lines =
        until > *ahead ? ts_lesser(most, (int64_t)(until - *ahead) / LINE / n_groups + 1) : 0;
    const weighing w = { splat(shift), splat(s->low), splat(s->c) };
    double         all = 0;
    for (int begin = 0; begin < n_groups; begin += SHORT) {
        const int end = (int)ts_lesser(begin + SHORT, n_groups);
        vec       sum[2] = { splat(0), splat(0) }; /* more would not fit in 16 registers */
        int       g = begin;
        for (; BATCH > 4 && g + 2 <= end; g += 2) {
            vec x[BATCH];
            load(x, p + g * GROUP * size_of(t), t);
            load(x + BATCH / 2, p + (g + 1) * GROUP * size_of(t), t);
            for (int64_t i = 0; i < 2 * lines; i++) fetch_ahead(ahead);
            add_weights(sum, x, BATCH, &w);
        }
        for (; g < end; g++) {
            vec x[4];
            load(x, p + g * GROUP * size_of(t), t);
            for (int64_t i = 0; i < lines; i++) fetch_ahead(ahead);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j += BATCH) add_weights(sum, x + j, BATCH < 4 ? BATCH : 4, &w);
        }
        all += (double)total(sum[0]) + (double)total(sum[1]);
    }
    return all;
}

INLINE double sum_groups_far(const char *p, ts_dtype t, int n_groups, float shift, const scale *s)
{
    double sum = 0;
    for (int g = 0; g < n_groups; g++) {
        vec   x[4];
        float f[GROUP];
        load(x, p + g * GROUP * size_of(t), t);
        for (int j = 0; j < 4; j++) put(f + j * LANES, x[j]);
        sum += exp_sum(f, GROUP, (double)shift, s->t);
    }
    return sum;
}

INLINE void rescale(state *s, float max, const scale *c)
{
    if (!(max > s->max)) return;
    s->sum *= exp(((double)s->max - (double)max) * c->t);
    s->max = max;
}

typedef union group {
    float    f[GROUP];
    uint16_t h[GROUP];
} group;

/* The last logits of a row, and -inf up to a whole group. */
INLINE void copy_rest(group *to, const char *p, ts_dtype t, int n)
{
    for (int i = n; i < GROUP; i++) {
        if (t == TS_F32) to->f[i] = -INFINITY;
        else to->h[i] = t == TS_BF16 ? 0xff80 : 0xfc00;
    }
    memcpy(to, p, (size_t)(n * size_of(t)));
}

/* Whole groups of logits, and a group that holds the n_rest others and -inf. */
typedef struct block {
    const char *p, *rest;
    int         n_groups, n_rest;
} block;

typedef struct hits {
    uint64_t bits[BLOCK / GROUP / 64]; /* which groups have a logit that reaches the bar */
    int      n;
} hits;

/* First which groups, then what is in them: a jump at each group would often be foretold wrongly.
 */
INLINE hits find_hits(const peaks *m, int n_groups, float bar, uintptr_t *ahead)
{
    const vec v = splat(bar);
    hits      h = { { 0 }, 0 };
    uint32_t  eights = 0;
    for (int e = 0; e * EIGHT < n_groups; e++)
        eights |= (uint32_t)any_ge(get(m->of_eight + e * LANES), v) << e;
    for (; eights; eights &= eights - 1) {
        const int begin = __builtin_ctz(eights) * EIGHT;
        uint64_t  bits = 0;
        fetch_ahead(ahead);
#pragma GCC unroll 8
        for (int g = 0; g < EIGHT; g++)
            bits |= (uint64_t)any_ge(get(m->of_group + (begin + g) * LANES), v) << g;
        if (begin + EIGHT > n_groups) bits &= ((uint64_t)1 << (n_groups - begin)) - 1;
        h.bits[begin / 64] |= bits << begin % 64;
        h.n += __builtin_popcountll(bits);
    }
    return h;
}

/* Appends the logits that reach the bar. */
INLINE void enter(list *l, const block *b, ts_dtype t, const hits *h, float bar, uint32_t first,
                  uintptr_t *ahead)
{
    int n = l->n;
    for (int w = 0; w < BLOCK / GROUP / 64; w++)
        for (uint64_t bits = h->bits[w]; bits; bits &= bits - 1) {
            const int g = w * 64 + __builtin_ctzll(bits);
            uint32_t  i = first + (uint32_t)(g * GROUP);
            vec       x[4];
            fetch_ahead(ahead);
            load_in_order(x, g < b->n_groups ? b->p + g * GROUP * size_of(t) : b->rest, t);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++, i += LANES) {
                const unsigned which = which_ge(x[j], splat(bar));
                pack(l->val + n, l->idx + n, which, x[j], count_from((int32_t)i));
                n += bits_in(which);
            }
        }
    /* What was put behind the row's end has entered, too, unless NaNs hid the last group. */
    const int last = b->n_groups;
    if (b->n_rest && bar == -INFINITY && (h->bits[last / 64] >> last % 64 & 1))
        n -= GROUP - b->n_rest;
    l->n = n;
}

/* Where very many logits of a block would enter, a bar that only about k of them reach. For small k
 * the maxima of lanes give it: k of them reach it, and each is a logit. Otherwise a quarter of the
 * block is taken for the whole, which may fail. */
INLINE float guess_bar(const list *l, const block *b, ts_dtype t, const peaks *m, float max)
{
    const int n = (b->n_groups + (b->n_rest != 0)) * LANES, k = l->k, least = plenty(k);
    float     sample[MAXIMA];
    if (k <= SURE) {
        if (n < least || count_ge(m->of_group, n, l->cut) < least) return l->cut;
        return choose(m->of_group, n, k, (least - k) / 2, l->cut, max, l->shift).v;
    }
    if (count_ge(m->of_group, n, l->cut) < n - n / 8) return l->cut;
    for (int g = 0; g < b->n_groups; g++) {
        vec x[4];
        load(x, b->p + g * GROUP * size_of(t), t);
        put(sample + g * LANES, x[0]);
    }
    const int some = b->n_groups * LANES, wanted = (k + k / 8 + 32) / 4;
    if (some < wanted) return l->cut;
    return choose(sample, some, wanted, wanted / 8, l->cut, max, l->shift).v;
}

INLINE void take_candidates(list *l, const block *b, ts_dtype t, const peaks *m, float max,
                            int32_t first, uintptr_t *ahead)
{
    const int before = l->n, n_groups = b->n_groups + (b->n_rest != 0);
    hits      h = find_hits(m, n_groups, l->cut, ahead);
    if (!l->all && h.n * GROUP >= plenty(l->k)) {
        const float bar = guess_bar(l, b, t, m, max);
        const hits  at_bar = bar > l->cut ? find_hits(m, n_groups, bar, ahead) : h;
        if (bar > l->cut) {
            enter(l, b, t, &at_bar, bar, (uint32_t)first, ahead);
            if (l->n - before >= l->k) {
                raise_floor(l, bar);
                return;
            }
            l->n = before;
        }
    }
    enter(l, b, t, &h, l->cut, (uint32_t)first, ahead);
}

INLINE void add_block(const block *b, ts_dtype t, float max, const scale *c, uintptr_t *ahead,
                      state *s)
{
    rescale(s, max, c);
    const int       has_rest = b->n_rest != 0;
    const float     shift = s->max > -INFINITY ? s->max : 0;
    const uintptr_t until = (uintptr_t)b->p + (uintptr_t)(2 * BLOCK * size_of(t));
    if (c->far) {
        s->sum += sum_groups_far(b->p, t, b->n_groups, shift, c);
        s->sum += sum_groups_far(b->rest, t, has_rest, shift, c);
    } else {
        if (b->n_groups) s->sum += sum_groups(b->p, t, b->n_groups, shift, c, ahead, until);
        if (has_rest) s->sum += sum_groups(b->rest, t, 1, shift, c, ahead, 0);
    }
    if (!(s->max > -INFINITY) && !isnan(s->sum)) s->sum = 0;
}

/* n logits from p on, of which the first is number `first`. Without a scale the sum remains 0, but
 * for a NaN. */
INLINE void take_block(const char *p, ts_dtype t, int n, int32_t first, const scale *c,
                       uintptr_t *ahead, state *s, list *l)
{
    peaks      found;
    group      rest;
    block      b = { p, (const char *)&rest, n / GROUP, n % GROUP };
    vec        any = splat(0);
    vec *const nan = c ? NULL : &any;
    vec        m = max_groups(p, t, 0, b.n_groups, &found, splat(-INFINITY), nan, ahead);
    const int  has_rest = b.n_rest != 0;
    if (has_rest) copy_rest(&rest, p + b.n_groups * GROUP * size_of(t), t, b.n_rest);
    m = max_groups(b.rest, t, b.n_groups, b.n_groups + has_rest, &found, m, nan, ahead);
    const float max = highest(m);
    if (c) {
        add_block(&b, t, max, c, ahead, s);
    } else {
        s->max = max > s->max ? max : s->max;
        if (max == INFINITY || any_nan(any)) s->sum = (double)NAN;
    }
    if (l->k == 0 || !(max >= l->cut)) return;
    take_candidates(l, &b, t, &found, max, first, ahead);
    if (l->all) pour(l);
    else if (l->n >= plenty(l->k)) select_first(l, l->k / 8, s->max);
}

/* ---- a row ---- */

INLINE void read_as(const char *p, ts_dtype t, int64_t begin, int64_t end, const scale *c, state *s,
                    list *l)
{
    uintptr_t ahead = (uintptr_t)(p + (begin + BLOCK) * size_of(t));
    for (int64_t i = begin; i < end; i += BLOCK)
        take_block(p + i * size_of(t), t, (int)ts_lesser(BLOCK, end - i), (int32_t)i, c, &ahead, s,
                   l);
}

/* Logits begin..end of a row. weighs: whether their sum is wanted; otherwise they are floats. */
static void read_logits(const ts_softmax_topk_args *a, int64_t row, int64_t begin, int64_t end,
                        int weighs, state *s, list *l)
{
    const scale c = scale_of(a->inv_temperature);
    *s = (state) { 0, -INFINITY };
    if (begin == end) return;
    const int64_t pitch = a->row_stride * size_of(a->dtype);
    const char   *p = (const char *)a->logits + row * pitch;
    if (!weighs) read_as(p, TS_F32, begin, end, NULL, s, l);
    else if (a->dtype == TS_BF16) read_as(p, TS_BF16, begin, end, &c, s, l);
    else if (a->dtype == TS_F16) read_as(p, TS_F16, begin, end, &c, s, l);
    else read_as(p, TS_F32, begin, end, &c, s, l);
}

/* From the candidates to the row's output. `prob` holds the logits of the winners for a while. */
static void finish_row(const ts_softmax_topk_args *a, int64_t row, const state *s, list *l)
{
    const int nonfinite = isnan(s->sum);
    if (a->lse)
        a->lse[row] = nonfinite    ? NAN
                      : s->sum > 0 ? (float)(a->inv_temperature * (double)s->max + log(s->sum))
                                   : (float)-INFINITY;
    if (a->k == 0) return;
    int32_t *index = a->index + row * a->k;
    float   *prob = a->prob + row * a->k;
    int64_t  n = 0;
    if (l->all) {
        n = l->all->n;
        if (!nonfinite) sort_heap(l->all);
    } else if (!nonfinite && l->k > 0) {
        select_first(l, 0, s->max);
        n = l->n;
        for (int i = l->n; i < l->n + LANES; i++) l->val[i] = -INFINITY;
        if (n <= FEW) sort_few(l, index, prob);
        else sort_many(l, index, prob);
    }
    if (nonfinite) n = 0;
    put_exps(prob, n, s->sum > 0 ? (double)s->max : 0, a->inv_temperature,
             s->sum > 0 ? 1 / s->sum : 0);
    for (int64_t j = n; j < a->k; j++) {
        index[j] = -1;
        prob[j] = nonfinite ? NAN : 0;
    }
}

INLINE void empty(list *l, const ts_softmax_topk_args *a)
{
    l->n = 0;
    l->k = (int)ts_lesser(a->k, a->n_vocab);
    l->shift = shift_of(a->dtype);
    l->floor = l->cut = -INFINITY;
    l->all = NULL;
}

static void do_rows(const ts_softmax_topk_args *a, int64_t begin, int64_t end, int weighs)
{
    list l;
    for (int64_t r = begin; r < end; r++) {
        state s;
        heap  h;
        empty(&l, a);
        if (l.k > TS_SOFTMAX_TOPK_FAST) {
            h = (heap) { a->prob + r * a->k, a->index + r * a->k, 0, l.k };
            l.all = &h;
        }
        read_logits(a, r, 0, a->n_vocab, weighs, &s, &l);
        finish_row(a, r, &s, &l);
    }
}

static void do_part(const ts_softmax_topk_args *a, int64_t row, int64_t begin, int64_t end,
                    int weighs, ts_softmax_topk_part *part)
{
    float *const val = (float *)(part + 1);
    list         l;
    state        s;
    empty(&l, a);
    read_logits(a, row, begin, end, weighs, &s, &l);
    select_first(&l, 0, s.max);
    part->sum = s.sum;
    part->max = s.max;
    part->n = l.n;
    memcpy(val, l.val, (size_t)l.n * sizeof *l.val);
    memcpy(val + part->room, l.idx, (size_t)l.n * sizeof *l.idx);
}

/* Parts come by rising index, so that their candidates do. */
static void do_merge(const ts_softmax_topk_args *a, int64_t row, const ts_softmax_topk_part *first,
                     int64_t n_parts, size_t part_bytes)
{
    const scale c = scale_of(a->inv_temperature);
    state       s = { 0, -INFINITY };
    list        l;
    empty(&l, a);
    for (int64_t i = 0; i < n_parts; i++) {
        const ts_softmax_topk_part *part =
            (const void *)((const char *)first + (size_t)i * part_bytes);
        const float   *val = (const float *)(part + 1);
        const int32_t *idx = (const int32_t *)(val + part->room);
        state          of_part = { part->sum, part->max };
        rescale(&s, part->max, &c);
        rescale(&of_part, s.max, &c);
        s.sum += of_part.sum;
        for (int j = 0; j < part->n; j++) {
            if (!(val[j] >= l.cut)) continue;
            l.val[l.n] = val[j];
            l.idx[l.n++] = idx[j];
        }
        if (l.n >= plenty(l.k)) select_first(&l, 0, s.max);
    }
    finish_row(a, row, &s, &l);
}

ts_status SIMD(ts_softmax_topk)(const void *args, const ts_exec *x)
{
    static const ts_softmax_topk_steps steps = { 1, do_rows, do_part, do_merge };
    return ts_softmax_topk_threads(args, x, &steps);
}

ts_status SIMD(ts_topk)(const ts_softmax_topk_args *a, const ts_exec *x)
{
    static const ts_softmax_topk_steps steps = { 0, do_rows, do_part, do_merge };
    return ts_softmax_topk_threads(a, x, &steps);
}

#endif
