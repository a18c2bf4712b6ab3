/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_candidates.h - the entries of a row that may be among its first k: choosing among
 * them, and putting them in order. Private to softmax_topk_simd.h, which says what vectors are. */
#ifndef TS_SOFTMAX_TOPK_CANDIDATES_H
#define TS_SOFTMAX_TOPK_CANDIDATES_H

#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    BLOCK = 4096, /* logits that are looked at together, and may all become candidates */
    ROOM = 2 * TS_SOFTMAX_TOPK_FAST + BLOCK + LANES,
    SORT_ROOM = 4 * TS_SOFTMAX_TOPK_FAST, /* of sort_many */
    FEW = 64,                             /* up to here a sort by counting is the fastest */
    DIGIT = 256,
};

/* ---- choosing among floats ---- */

/* Integers in the order of the floats, and back. */
INLINE int32_t key_of(float f)
{
    int32_t b;
    memcpy(&b, &f, sizeof b);
    return b < 0 ? b ^ INT32_MAX : b;
}

INLINE float float_of(int32_t key)
{
    const int32_t b = key < 0 ? key ^ INT32_MAX : key;
    float         f;
    memcpy(&f, &b, sizeof f);
    return f;
}

/* The next larger float; adding 0 turns -0 into +0. */
INLINE float above(float f)
{
    return float_of(key_of(f + 0.0f) + 1);
}

/* Keys of 16-bit logits differ in their high bits only, `shift` bits up. */
INLINE int shift_of(ts_dtype t)
{
    return t == TS_F32 ? 0 : t == TS_BF16 ? 16 : 13;
}

INLINE float float_of_high(int64_t high, int shift)
{
    const int64_t low = ((int64_t)1 << shift) - 1;
    return float_of((int32_t)(high * (low + 1) + (high < 0 ? low : 0)));
}

INLINE float highest(vec v)
{
    float x[LANES];
    put(x, v);
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) x[i] = x[i] > x[i + n] ? x[i] : x[i + n];
    return x[0];
}

static int count_ge(const float *x, int n, float v)
{
    const vec all = splat(v);
    tally     count = tally_zero();
#pragma GCC unroll 4
    for (int i = 0; i < n; i += LANES) count = tally_ge(count, get(x + i), all);
    return tallied(count);
}

typedef struct choice {
    float v;
    int   n_ge, n_gt; /* n_gt only if n_ge is more than requested */
} choice;

/* A v that at least k, and at most k + slack, of x[0..n) reach; where equal values forbid that, the
 * k-th largest of them. k or more reach `low`, none exceeds `high`. Bisection over all floats in
 * between: whatever the data, some 30 sweeps at most, without a branch that is hard to foretell.
 * Behind x there are -inf up to a multiple of LANES. */
static choice choose(const float *x, int n, int k, int slack, float low, float high, int shift)
{
    int64_t begin = key_of(low) >> shift, end = (key_of(high) >> shift) + (int64_t)1;
    choice  c = { low, low > -INFINITY ? count_ge(x, n, low) : n, 0 };
    while (end - begin > 1 && c.n_ge > k + slack) {
        const int64_t middle = begin + (end - begin) / 2;
        const float   v = float_of_high(middle, shift);
        const int     count = count_ge(x, n, v);
        if (count >= k) {
            begin = middle;
            c.v = v;
            c.n_ge = count;
        } else {
            end = middle;
            c.n_gt = count;
        }
    }
    return c;
}

/* ---- candidates ---- */

/* More than TS_SOFTMAX_TOPK_FAST entries: a heap, its worst entry first, in the output itself. */
typedef struct heap {
    float   *val;
    int32_t *idx;
    int64_t  n, k;
} heap;

/* Candidates by rising index. As soon as k of them or more are known to reach `floor`, logits after
 * them need `cut`, the next larger float. Until then both are -inf. */
typedef struct list {
    int     n, k, shift;
    float   floor, cut;
    heap   *all; /* NULL: k is small enough for this list to hold it */
    float   val[ROOM];
    int32_t idx[SORT_ROOM > ROOM ? SORT_ROOM : ROOM];
} list;

/* As many candidates are worth a selection. */
INLINE int plenty(int k)
{
    return k < 512 ? k + k / 2 + 16 : 2 * k;
}

INLINE void raise_floor(list *l, float v)
{
    if (l->cut > -INFINITY && !(v > l->floor)) return;
    l->floor = v;
    l->cut = above(v);
}

/* Those of the lowest bits that may stay where only n may. */
INLINE unsigned first_bits(unsigned bits, int n)
{
    if (n <= 0) return 0;
    while (bits_in(bits) > n) bits &= ~(1u << (31 - __builtin_clz(bits)));
    return bits;
}

/* Leaves the first k candidates, of which none exceeds max, and at most `slack` others. */
static void select_first(list *l, int slack, float max)
{
    if (l->n <= l->k) return;
    const int n = l->n;
    for (int i = n; i < n + LANES; i++) l->val[i] = -INFINITY;
    const choice c = choose(l->val, n, l->k, slack, l->floor, max, l->shift);
    int left = c.n_ge > l->k + slack ? l->k - c.n_gt : INT_MAX, kept = 0; /* of equal ones */
    for (int i = 0; i < n; i += LANES) {
        const vec x = get(l->val + i);
        unsigned  gt = which_gt(x, splat(c.v)), eq = which_ge(x, splat(c.v)) & ~gt;
        if (i + LANES > n) eq &= (1u << (n - i)) - 1; /* not the -inf behind the end */
        eq = first_bits(eq, left);
        left -= bits_in(eq);
        pack(l->val + kept, l->idx + kept, gt | eq, x, get_ints(l->idx + i));
        kept += bits_in(gt | eq);
    }
    /* More only in a row with a NaN, whose maximum may be wrong. */
    l->n = kept < l->k + slack ? kept : l->k + slack;
    raise_floor(l, c.v);
}

INLINE int worse(const heap *h, int64_t i, int64_t j)
{
    return h->val[i] < h->val[j] || (h->val[i] == h->val[j] && h->idx[i] > h->idx[j]);
}

/* Puts an entry in the place of i and lets it sink, in the heap's first n entries. */
static void sink(heap *h, int64_t n, int64_t i, float val, int32_t idx)
{
    for (int64_t j = 2 * i + 1; j < n; i = j, j = 2 * i + 1) {
        if (j + 1 < n && worse(h, j + 1, j)) j++;
        if (val < h->val[j] || (val == h->val[j] && idx > h->idx[j])) break;
        h->val[i] = h->val[j];
        h->idx[i] = h->idx[j];
    }
    h->val[i] = val;
    h->idx[i] = idx;
}

/* Moves the candidates on to the heap. */
static void pour(list *l)
{
    heap *h = l->all;
    for (int i = 0; i < l->n; i++) {
        if (h->n == h->k) {
            if (l->val[i] > h->val[0]) sink(h, h->k, 0, l->val[i], l->idx[i]);
            continue;
        }
        h->val[h->n] = l->val[i];
        h->idx[h->n++] = l->idx[i];
        for (int64_t j = h->k / 2; h->n == h->k && j-- > 0;) sink(h, h->k, j, h->val[j], h->idx[j]);
    }
    l->n = 0;
    if (h->n == h->k) l->cut = above(h->val[0]);
}

/* Puts the heap's entries in order, the worst last. */
static void sort_heap(heap *h)
{
    for (int64_t n = h->n; n-- > 1;) {
        const float   val = h->val[n];
        const int32_t idx = h->idx[n];
        h->val[n] = h->val[0];
        h->idx[n] = h->idx[0];
        sink(h, n, 0, val, idx);
    }
}

/* ---- order ---- */

/* Writes the n candidates, best first: each to the place that is the number of better ones. */
static void sort_few(const list *l, int32_t *index, float *val)
{
    for (int i = 0; i < l->n; i++) {
        int place = 0;
        for (int j = 0; j < l->n; j += LANES) {
            const vec      x = get(l->val + j), v = splat(l->val[i]);
            const unsigned before = i - j >= LANES ? ~0u : i > j ? (1u << (i - j)) - 1 : 0;
            place += bits_in(which_gt(x, v) | (which_ge(x, v) & before));
        }
        index[place] = l->idx[i];
        val[place] = l->val[i];
    }
}

/* The same by a radix sort, which keeps the order of equal ones. A digit that all have in common is
 * passed over: 16-bit logits have two of them. */
static void sort_many(list *l, int32_t *index, float *val)
{
    const int n = l->n;
    int32_t  *key = l->idx + n, *idx = l->idx, *to_key = key + n, *to_idx = to_key + n;
    int       count[4][DIGIT] = { { 0 } };
    for (int i = 0; i < n; i++) {
        key[i] = ~key_of(l->val[i] + 0.0f);
        const uint32_t bits = (uint32_t)key[i] ^ 0x80000000;
        for (int d = 0; d < 4; d++) count[d][bits >> 8 * d & (DIGIT - 1)]++;
    }
    for (int d = 0; d < 4; d++) {
        const uint32_t flip = d == 3 ? 0x80 : 0;
        int           *c = count[d], sum = 0;
        if (c[((uint32_t)key[0] >> 8 * d & (DIGIT - 1)) ^ flip] == n) continue;
        for (int i = 0; i < DIGIT; i++) {
            const int here = c[i];
            c[i] = sum;
            sum += here;
        }
        for (int i = 0; i < n; i++) {
            const int place = c[((uint32_t)key[i] >> 8 * d & (DIGIT - 1)) ^ flip]++;
            to_key[place] = key[i];
            to_idx[place] = idx[i];
        }
        int32_t *const old_key = key, *const old_idx = idx;
        key = to_key;
        idx = to_idx;
        to_key = old_key;
        to_idx = old_idx;
    }
    for (int i = 0; i < n; i++) {
        index[i] = idx[i];
        val[i] = float_of(~key[i]);
    }
}

#endif
