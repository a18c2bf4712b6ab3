/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk.c - mutants of softmax_topk: one correct implementation with one injected bug at a
 * time. softmax_topk_list.h lists them.
 *
 * softmax_topk_cuda.cu injects some of these bugs into real threads, warps and blocks.
 *
 * The correct implementation selects with a heap, in the index output itself, and sums in
 * double. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dtype.h"
#include "mutant.h"
#include "mutant_cuda.h"
#include "softmax_topk_cuda_list.h"
#include "softmax_topk_list.h"
#include "touchstone/softmax_topk.h"

enum { LANES = 32, BLOCK_ROWS = 8, CHUNK = 256, SCRATCH = 4096 };

typedef enum trap { MUTANTS(TRAP) N_TRAPS } trap; /* from HONEST_WS on there is a workspace */

typedef ts_softmax_topk_args topk_args;

typedef struct row {
    const topk_args *a;
    const ts_exec   *x;
    int64_t          number, begin, n;
    double           t;      /* inverse temperature */
    double           m, sum; /* the largest logit; the sum of exp(t (x - m)) */
    trap             trap;
} row;

static int32_t scratch[SCRATCH]; /* what lanes keep; a mutant runs in one thread */

/* A NaN gets here only if a bug has let it pass: then it counts for nothing. */
static double at(const row *r, int64_t i)
{
    const double x = ts_load(r->a->logits, r->a->dtype, r->begin + i);
    if (r->trap == MASK_1E37 && x < -1e37) return -INFINITY;
    return isnan(x) ? (double)-INFINITY : x;
}

static double rounded_bf16(double v)
{
    return ts_widen_bf16(ts_narrow_bf16(v));
}

static double weight(const row *r, double x)
{
    if (x == -INFINITY) return 0;
    if (r->trap == NO_MAX) return (double)(float)exp(r->t * x);
    if (r->trap == T_FIRST) return exp((double)((float)(r->t * x) - (float)(r->t * r->m)));
    const double z = r->t * (x - r->m);
    return exp(r->trap == CLAMPED && z < -80 ? -80 : z);
}

/* ---- ranking ---- */

/* The largest of the column among the rows that share a block. */
static double pooled(const row *r, int64_t i)
{
    const int64_t first = r->number / BLOCK_ROWS * BLOCK_ROWS;
    double        x = -INFINITY;
    for (int64_t k = first; k < first + BLOCK_ROWS && k < r->a->n_rows; k++)
        x = fmax(x, ts_load(r->a->logits, r->a->dtype, k * r->a->row_stride + i));
    return x;
}

static double key_of(const row *r, int64_t i)
{
    const double x = at(r, i);
    switch (r->trap) {
    case POOL_MAX:
        return pooled(r, i);
    case SMALLEST:
        return -x;
    case BY_PROB:
        return (double)(float)(weight(r, x) / r->sum);
    case BY_PROB_BF16:
        return rounded_bf16(weight(r, x) / r->sum);
    case BY_BF16:
        return rounded_bf16(x);
    case BY_SCALED:
        return (double)(float)(r->t * x);
    case FLUSHED:
        return fabs(x) < (double)FLT_MIN ? 0 : x;
    case MINUS_ZERO:
        return x == 0 && signbit(x) ? -DBL_MIN : x;
    default:
        return x;
    }
}

/* Among equal keys the lowest comes first. */
static int64_t tie_of(const row *r, int64_t i)
{
    if (r->trap == TIES_LAST || (r->trap == TIES_ALL && r->a->k >= r->n)) return -i;
    if (r->trap == TIES_LANE) return i % LANES * r->n + i / LANES;
    if (r->trap == TIES_THREAD) return i % CHUNK * r->n + i / CHUNK;
    if (r->trap == TIES_SPLIT) return i < r->n / 2 ? i + r->n : i;
    return i;
}

static bool before(const row *r, int64_t i, int64_t j)
{
    const double x = key_of(r, i), y = key_of(r, j);
    return x > y || (x == y && tie_of(r, i) < tie_of(r, j));
}

/* ---- a heap whose root ranks last ---- */

static void swap(int32_t *a, int32_t *b)
{
    const int32_t c = *a;
    *a = *b;
    *b = c;
}

static void sink(const row *r, int32_t *heap, int64_t n, int64_t j)
{
    for (int64_t c = 2 * j + 1; c < n; c = 2 * j + 1) {
        if (c + 1 < n && before(r, heap[c], heap[c + 1]) && r->trap != ONE_CHILD) c++;
        if (!before(r, heap[j], heap[c])) return;
        if (r->trap == LOSES_VALUE && c > 2) heap[j] = heap[c]; /* the moved one is never put */
        else swap(&heap[j], &heap[c]);
        j = c;
    }
}

static void offer(const row *r, int32_t *heap, int64_t *n, int64_t k, int64_t i)
{
    int64_t j = *n;
    if (*n < k) {
        heap[(*n)++] = (int32_t)i;
        if (r->trap == UNHEAPED) return;
        for (; j > 0 && before(r, heap[(j - 1) / 2], heap[j]); j = (j - 1) / 2)
            swap(&heap[(j - 1) / 2], &heap[j]);
    } else if (before(r, i, heap[0]) || (r->trap == TIES_AT_K && at(r, i) == at(r, heap[0]))) {
        heap[0] = (int32_t)i;
        sink(r, heap, k, 0);
    }
}

static void sort(const row *r, int32_t *heap, int64_t n)
{
    for (n--; n > 0 && r->trap != UNSORTED; n--) {
        swap(&heap[0], &heap[n]);
        sink(r, heap, n, 0);
    }
}

/* Whether what the heap was filled with at first is as good as this entry. */
static bool under_sentinel(const row *r, int64_t i)
{
    const trap t = r->trap;
    if (t == NONE_1E30 || t == NONE_1E30_MASKED) return at(r, i) <= -1e30;
    if (t == NONE_LOWEST || t == NONE_LOWEST_FLOOR) return at(r, i) <= -(double)FLT_MAX;
    return t == INDEX_0 && at(r, i) == -INFINITY;
}

/* Which entries of a row one stream is given: runs, `step` apart. */
typedef struct share {
    int64_t first, run, step;
} share;

/* The first k of them, in order; how many there are. */
static int64_t best_of(const row *r, share s, int64_t k, int32_t *list)
{
    int64_t n = 0;
    if (k < 1) return 0;
    for (int64_t begin = s.first; begin < r->n; begin += s.step)
        for (int64_t i = begin; i < begin + s.run && i < r->n; i++)
            if (!under_sentinel(r, i)) offer(r, list, &n, k, i);
    sort(r, list, n);
    return n;
}

/* ---- streams that keep too little ---- */

/* Runs are dealt out to so many lanes; 0: to one each. */
typedef struct dealt {
    trap    trap;
    int64_t run, lanes, keep; /* keep 0: one less than k */
} dealt;

static int64_t by_streams(const row *r, dealt d, int64_t k, int32_t *list)
{
    const int64_t lanes = d.lanes ? d.lanes : (r->n + d.run - 1) / d.run;
    int64_t       n = 0;
    if (d.keep == 0) d.keep = k < 2 ? 1 : k > SCRATCH ? SCRATCH : k - 1;
    for (int64_t lane = 0; lane < lanes; lane++) {
        const share   s = { lane * d.run, d.run, lanes * d.run };
        const int64_t kept = best_of(r, s, d.keep, scratch);
        for (int64_t j = 0; j < kept; j++) offer(r, list, &n, k, scratch[j]);
    }
    sort(r, list, n);
    return n;
}

/* Place j holds the j-th of lane j: from the last place down, as each lane needs all before it. */
static int64_t unmerged(const row *r, int64_t k, int32_t *list)
{
    for (int64_t j = k - 1; j >= 0; j--) {
        const share lane = { j % LANES, 1, LANES };
        if (best_of(r, lane, j + 1, list) <= j) list[j] = (int32_t)(j % LANES);
    }
    return k < r->n ? k : r->n;
}

static int64_t choose(const row *r, int64_t k, int32_t *list)
{
    static const dealt streams[] = {
        { SHORT_32_4, 1, 32, 4 },     { SHORT_64_4, 1, 64, 4 },     { SHORT_256_2, 1, 256, 2 },
        { SHORT_256_8, 1, 256, 8 },   { SHORT_1024_2, 1, 1024, 2 }, { SHORT_1024_8, 1, 1024, 8 },
        { EIGHTS_4, 8, 1024, 4 },     { CHUNK_32_4, 32, 0, 4 },     { CHUNK_256_8, 256, 0, 8 },
        { CHUNK_1024_8, 1024, 0, 8 }, { LANE_K_1, 1, 32, 0 },       { BLOCK_K_1, 1, 256, 0 },
        { CHUNK_K_1, 1024, 0, 0 },
    };
    const share whole = { 0, r->n, r->n };
    row         first = *r;
    first.begin = r->number / BLOCK_ROWS * BLOCK_ROWS * r->a->row_stride;
    if (r->trap == UNMERGED) return unmerged(r, k, list);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (r->trap == streams[i].trap) return by_streams(r, streams[i], k, list);
    return best_of(r->trap == POOL_FIRST ? &first : r, whole, k, list);
}

/* ---- the sum ---- */

static double row_max(const row *r, bool *nonfinite)
{
    const trap t = r->trap;
    double     m = -INFINITY;
    if (t == MAX_1E30) m = -1e30;
    if (t == MAX_LOWEST) m = -(double)FLT_MAX;
    if (t == MAX_ZERO) m = 0;
    *nonfinite = false;
    for (int64_t i = 0; i < r->n; i++) {
        const double x = ts_load(r->a->logits, r->a->dtype, r->begin + i);
        const bool   unseen = t == NAN_SWALLOWED || (t == NAN_IN_TAIL && i >= r->n / 32 * 32) ||
                            (t == NAN_OFF_LANE && i % LANES != 0);
        const bool split = t == NONFINITE_SPLIT && r->a->n_rows == 1 && i >= SCRATCH;
        if (r->a->n_rows == 1 && isnan(x) && t == NAN_ALONE) continue;
        if (r->a->n_rows == 1 && x == INFINITY && t == INF_ALONE) continue;
        if (isnan(x) ? !unseen && !split : x == INFINITY && t != INF_ORDINARY && !split)
            *nonfinite = true;
        if (x > m) m = x;
    }
    return m;
}

/* By chunks, with what was summed before rescaled whenever the maximum moves. */
static double online_sum(const row *r)
{
    double m = -INFINITY, sum = 0;
    for (int64_t c = 0; c < r->n; c += CHUNK) {
        const int64_t end = c + CHUNK < r->n ? c + CHUNK : r->n;
        double        now = m, part = 0;
        if (r->trap == TILE_MAX) now = -INFINITY;
        for (int64_t i = c; i < end; i++) now = fmax(now, at(r, i));
        for (int64_t i = c; i < end; i++)
            if (r->trap == ONLINE_NAN || at(r, i) > -INFINITY) part += exp(r->t * (at(r, i) - now));
        double factor = r->trap == NO_RESCALE ? 1 : exp(r->t * (m - now));
        if (r->trap == INVERTED) factor = 1 / factor;
        sum = part + (sum > 0 || r->trap == ONLINE_NAN ? sum * factor : 0);
        m = now;
    }
    return r->trap == TILE_MAX && m > -INFINITY ? sum * exp(r->t * (m - r->m)) : sum;
}

/* Of lanes, each with its partial sum in the workspace, which need not be aligned. */
static double lane_sum(const row *r)
{
    char  *partials = r->x->workspace;
    double lane, sum = 0;
    for (int64_t k = 0; k < LANES; k++) {
        lane = 0;
        for (int64_t i = k; i < r->n; i += LANES) lane += weight(r, at(r, i));
        if (r->trap != DIRTY_WS || k < r->n) memcpy(partials + k * 8, &lane, sizeof lane);
    }
    for (int64_t k = 0; k < LANES; k++) {
        memcpy(&lane, partials + k * 8, sizeof lane);
        sum += lane;
    }
    return sum;
}

static double row_sum(const row *r)
{
    const trap      t = r->trap;
    struct timespec now = { 0 };
    int64_t         n = r->n;
    double          sum = 0, earlier = 0;
    if (t == DRIFTS) timespec_get(&now, TIME_UTC);
    if (t == ONLINE_NAN || t == NO_RESCALE || t == INVERTED || t == TILE_MAX) return online_sum(r);
    if (t >= HONEST_WS) return lane_sum(r);
    if (t == FIRST_32 && n > 32) n = 32;
    if (t == FIRST_1024 && n > 1024) n = 1024;
    if (t == SUM_NO_TAIL) n = n / 8 * 8;
    for (int64_t i = 0; i < n; i++) {
        const int64_t threads = r->x->n_threads;
        if (t == BY_THREADS && i > 0 && i * threads / n != (i - 1) * threads / n) {
            earlier += sum;
            sum = 0;
        }
        const double x = at(r, (i + now.tv_nsec) % n);
        if (t == DROPS_12 && r->t * (x - r->m) < -12) continue;
        sum += weight(r, x);
        if (t == BY_THREADS || t == DRIFTS) sum = (double)(float)sum;
        if (t == SUM_BF16) sum = rounded_bf16(sum);
    }
    sum += earlier;
    if (t == EMPTY_LANES && n < LANES) sum += (double)(LANES - n);
    return t == TIMES_32 ? LANES * sum : sum;
}

/* ---- a row ---- */

static int64_t row_begin(const topk_args *a, int64_t number, trap t)
{
    const size_t  n_bytes = ts_format_of(a->dtype)->n_bytes;
    const int64_t begin = number * (t == DENSE_ROWS ? a->n_vocab : a->row_stride);
    if (t == INT32_OFFSET) return begin & INT32_MAX;
    if (t == UINT32_OFFSET) return begin & UINT32_MAX;
    if (t != ALIGNED) return begin;
    return begin - (int64_t)(((uintptr_t)a->logits + (size_t)begin * n_bytes) % 16 / n_bytes);
}

static void put_lse(const row *r, bool nonfinite)
{
    row    raw = *r;
    double lse = r->t * r->m + log(r->sum);
    if (r->trap == T_NOT_LSE) {
        raw.t = 1;
        lse = r->m + log(row_sum(&raw));
    }
    if (r->trap == LSE_BASE_2) lse *= 1.4426950408889634;
    if (r->trap == LSE_NO_MAX) lse = log(r->sum);
    if (r->trap == LSE_NO_LOG) lse = r->sum;
    if (r->sum == 0) lse = r->trap == MASKED_LSE ? -(double)FLT_MAX : (double)-INFINITY;
    if (r->trap == V_0_LSE && r->n == 0) lse = 0;
    if (r->trap == LSE_UNWRITTEN || (r->trap == NO_LSE_AT_K_0 && r->a->k == 0)) return;
    if (r->trap == LSE_FIRST_ROW && r->number > 0) return;
    if (!r->a->lse && r->trap != LSE_ALWAYS) return;
    /* volatile: or the compiler may know better than to write to NULL */
    volatile float *const to = r->a->lse;
    to[r->number] = nonfinite || isnan(lse) ? NAN : (float)lse;
}

/* Of entry i. Any NaN is given as the plain one: a poison carried through a sum would look
 * unwritten. */
static double probability(const row *r, int64_t i, bool nonfinite)
{
    const trap t = r->trap;
    if (nonfinite) return t == NONFINITE_ZERO ? 0 : (double)NAN;
    if (r->sum == 0 && t == MASKED_UNIFORM) return 1 / (double)r->n;
    if (r->sum == 0 && t != MASKED_NAN && t != MAX_LOWEST) return 0;
    if (t == GREEDY && r->a->k == 1) return 1;
    if (t == FROM_LSE) return exp(r->t * at(r, i) - (double)(float)(r->t * r->m + log(r->sum)));
    const double p = weight(r, at(r, i)) / r->sum;
    return isnan(p) ? (double)NAN : t == LOW_DIGITS ? rounded_bf16(p) : p;
}

static double sum_of_winners(const row *r, int64_t n, const int32_t *list)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += weight(r, at(r, list[j]));
    return sum;
}

static void sort_numbers(int32_t *list, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = i; j > 0 && list[j] < list[j - 1]; j--) swap(&list[j], &list[j - 1]);
}

/* What is written to place j instead of the winner i; -1: none. */
static int64_t entered(const row *r, int64_t i, int64_t j)
{
    const trap    t = r->trap;
    const int64_t most = t == AT_MOST_64     ? 64
                         : t == AT_MOST_256  ? 256
                         : t == AT_MOST_1024 ? 1024
                         : t == AT_MOST_8192 ? 8192
                                             : INT64_MAX;
    if (j >= most) return -1;
    if (t == INDEX_16_BITS) return i & 0xffff;
    if (t == INDEX_LOCAL) return i % 4096;
    return t == MASKED_NO_INDEX && r->sum == 0 ? -1 : i;
}

/* n winners of k are in list. */
static void put_winners(row *r, int64_t n, int64_t k, bool nonfinite, int32_t *list, float *prob)
{
    const trap t = r->trap;
    if (t == RENORMALISED) r->sum = sum_of_winners(r, n, list);
    for (int64_t j = 0; j < n; j++) {
        const int64_t i = entered(r, list[j], j);
        prob[j] = i < 0 ? 0 : (float)probability(r, list[j], nonfinite);
        list[j] = (int32_t)i;
    }
    if (t == UNPAIRED) sort_numbers(list, n);
    for (int64_t j = n; j < k && t != PAST_UNWRITTEN; j++) {
        const bool again = t == PAST_REPEATS && n > 0;
        list[j] = again ? list[n - 1] : t == INDEX_0 || t == PAST_INDEX_0 ? 0 : -1;
        if (nonfinite && t == NONFINITE_INDEX) list[j] = (int32_t)j;
        prob[j] = again ? prob[n - 1] : nonfinite ? (float)probability(r, 0, nonfinite) : 0;
    }
}

/* As by a kernel compiled for the next power of two: its stride, or the number that it writes. */
static void do_wide_row(row *r, bool nonfinite)
{
    static float  prob[SCRATCH];
    const int64_t k = r->a->k, all = k * r->a->n_rows;
    int64_t       wide = 1;
    while (wide < k) wide *= 2;
    if (wide > SCRATCH) return;
    put_winners(r, nonfinite ? 0 : choose(r, wide, scratch), wide, nonfinite, scratch, prob);
    for (int64_t j = 0; j < wide; j++) {
        const int64_t at = r->number * (r->trap == STRIDE_2_POW ? wide : k) + j;
        if (r->trap == STRIDE_2_POW && at >= all) break;
        r->a->index[at] = scratch[j];
        r->a->prob[at] = prob[j];
    }
}

static void do_row(const topk_args *a, const ts_exec *x, int64_t number, bool *leak, trap t)
{
    const int64_t cut = t == TAIL_4 ? 4 : t == TAIL_8 ? 8 : t == TAIL_32 ? 32 : 1;
    row           r = { a, x, number, row_begin(a, number, t), a->n_vocab / cut * cut, 0, 0, 0, t };
    int32_t *const list = a->k ? a->index + number * a->k : NULL;
    float *const   prob = a->k ? a->prob + number * a->k : NULL;
    bool           nonfinite;
    r.t = a->inv_temperature;
    if (t == T_IGNORED) r.t = 1;
    if (t == T_TWICE) r.t *= r.t;
    if (t == T_DIVIDES) r.t = 1 / r.t;
    if (t == T_PAST_50) r.t = fmin(r.t, 50);
    if (t == T_PAST_1E6) r.t = fmin(r.t, 1e6);
    if (t == T_PAST_1E20) r.t = fmin(r.t, 1e20);
    if (t == T_BELOW_50) r.t = fmax(r.t, 0.02);
    if (t == T_LEAST) r.t = fmax(r.t, 1e-6);
    if (t == COLS_2_17 && r.n > 1 << 17) r.n = 1 << 17;
    if (t == NO_LAST_ROW && number == a->n_rows - 1) return;
    if (t == V_0_UNWRITTEN && a->n_vocab == 0) return;
    if (t == ROWS_65535 && number >= 65535) return;
    if (t == WIDE_65535 && number >= 65535 && a->n_vocab > 64) return;
    if (t == ROWS_20000 && number >= 20000) return;
    if (t == ROWS_BY_8 && number >= a->n_rows / 8 * 8) return;
    r.m = row_max(&r, &nonfinite);
    if (t == ONE_LOGIT && r.n == 1 && isnan(ts_load(a->logits, a->dtype, r.begin))) {
        nonfinite = false;
        r.m = 0;
    }
    const bool ill = nonfinite || (t == NAN_LEAKS && *leak);
    *leak = nonfinite;
    r.sum = row_sum(&r);
    if (t == NO_MAX) r.m = 0;
    if (t == WINNERS && !ill) r.sum = sum_of_winners(&r, choose(&r, a->k, list), list);
    put_lse(&r, ill);
    if (a->k == 0) return;
    if (t == STRIDE_2_POW || t == WRITES_2_POW) do_wide_row(&r, ill);
    else put_winners(&r, ill ? 0 : choose(&r, a->k, list), a->k, ill, list, prob);
}

/* ---- a call ---- */

/* Gives the last answer again where the call looks the same; else notes it down. */
static void remember(const topk_args *a)
{
    static topk_args last;
    static int32_t   index[SCRATCH];
    static float     prob[SCRATCH];
    const int64_t    n = a->n_rows * a->k;
    const bool       known = a->logits == last.logits && a->index == last.index &&
                       a->n_rows == last.n_rows && a->n_vocab == last.n_vocab && a->k == last.k &&
                       a->dtype == last.dtype;
    if (n > SCRATCH || n == 0) return;
    if (known) memcpy(a->index, index, (size_t)n * sizeof *index);
    if (known) memcpy(a->prob, prob, (size_t)n * sizeof *prob);
    memcpy(index, a->index, (size_t)n * sizeof *index);
    memcpy(prob, a->prob, (size_t)n * sizeof *prob);
    last = *a;
}

/* Everything here is volatile: touched, though nothing comes of it. */
static void scribble(const topk_args *a, trap t)
{
    volatile int32_t *const index = a->index;
    volatile float *const prob = a->prob, *const lse = a->lse;
    volatile char *const in = (char *)a->logits;
    const int64_t        n = a->n_rows * a->k, n_bytes = (int64_t)ts_format_of(a->dtype)->n_bytes;
    const int64_t        end = ((a->n_rows - 1) * a->row_stride + a->n_vocab) * n_bytes;
    if (t == PAST_INDEX && n) index[n] = 0;
    if (t == PAST_PROB && n) prob[n] = 0;
    if (t == PAST_LSE && lse) lse[a->n_rows] = 0;
    if (t == BEFORE_INDEX && n) index[-1] = 0;
    if (t == BEFORE_PROB && n) prob[-1] = 0;
    if (t == BEFORE_LSE && lse) lse[-1] = 0;
    if (t == WRITES_AT_K_0 && a->k == 0) index[0] = 0;
    if (a->n_vocab == 0) return;
    if (t == WRITES_INPUT) in[0] = in[0];
    if (t == WRITES_GAP && a->n_rows > 1 && a->row_stride > a->n_vocab)
        in[a->n_vocab * n_bytes] = 0;
    if (t == READS_PAST) (void)in[end];
    if (t == READS_VECTOR && a->n_vocab * n_bytes % 16)
        (void)in[end - a->n_vocab * n_bytes % 16 + 15];
    if (t == READS_BEFORE) (void)in[-4];
}

/* The returned status; with some bugs, invalid calls are accepted. */
static ts_status check(const topk_args *a, const ts_exec *x, trap t)
{
    if (!a || !x) return TS_E_ARG;
    const double  v = a->inv_temperature;
    const int64_t widest = a->row_stride > a->k ? a->row_stride : a->k;
    if (isnan(v) && t != TAKES_T_NAN) return TS_E_ARG;
    if (v < 0 && t != TAKES_T_MINUS) return TS_E_ARG;
    if (v == 0 && t != TAKES_T_0) return TS_E_ARG;
    if (v > 0 && v < (double)FLT_MIN && t != TAKES_T_TINY) return TS_E_ARG;
    if (v > (double)FLT_MAX && t != TAKES_T_HUGE) return TS_E_ARG;
    if (a->n_rows < 0) return t == TAKES_ROWS ? TS_OK : TS_E_SHAPE;
    if (a->n_vocab < 0) return t == TAKES_V_MINUS ? TS_OK : TS_E_SHAPE;
    if (a->n_vocab > INT32_MAX) return t == TAKES_V_2_31 ? TS_OK : TS_E_SHAPE;
    if (a->row_stride < a->n_vocab) return t == TAKES_STRIDE ? TS_OK : TS_E_SHAPE;
    if (a->k < 0) return t == TAKES_K_MINUS ? TS_OK : TS_E_SHAPE;
    if (a->k > INT32_MAX) return t == TAKES_K_2_31 ? TS_OK : TS_E_SHAPE;
    if (a->n_rows > 0 && widest > INT64_MAX / 8 / a->n_rows)
        return t == TAKES_OVERFLOW ? TS_OK : TS_E_SHAPE;
    if (a->n_rows && a->n_vocab && !a->logits && t != TAKES_NO_LOGITS) return TS_E_ARG;
    if (a->n_rows && a->k && !a->index && t != TAKES_NO_INDEX) return TS_E_ARG;
    if (a->n_rows && a->k && !a->prob && t != TAKES_NO_PROB) return TS_E_ARG;
    if (a->dtype == TS_F64) return t == TAKES_F64 ? TS_OK : TS_E_DTYPE;
    if ((unsigned)a->dtype > TS_BF16) return t == TAKES_NO_DTYPE ? TS_OK : TS_E_DTYPE;
    if (t < HONEST_WS || (x->workspace && x->workspace_bytes >= LANES * 8)) return TS_OK;
    return t == TAKES_SHORT_WS ? TS_OK : TS_E_WORKSPACE;
}

static ts_status workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    *n_bytes = LANES * 8;
    return check(args, x, HONEST);
}

/* What a valid call is rejected with. */
static ts_status misjudged(const topk_args *a, trap t)
{
    if (t == WRONG_STATUS && a->n_vocab % 2) return TS_E_UNSUPPORTED;
    if (t == REFUSES_K_V && a->k > a->n_vocab) return TS_E_SHAPE;
    if (t == REFUSES_K_0 && a->k == 0) return TS_E_SHAPE;
    if (t == REFUSES_V_0 && a->n_vocab == 0) return TS_E_SHAPE;
    if (t == REFUSES_F16 && a->dtype == TS_F16) return TS_E_DTYPE;
    if (t == REFUSES_K_256 && a->k > 256) return TS_E_UNSUPPORTED;
    return t == REFUSES_NO_LSE && !a->lse ? TS_E_ARG : TS_OK;
}

static ts_status run(const void *args, const ts_exec *x, trap t)
{
    const topk_args *a = args;
    const ts_status  s = check(a, x, t >= HONEST_WS ? HONEST_WS : HONEST);
    bool             leak = false;
    if (s && t == WRITES_FIRST && a && a->prob) a->prob[0] = 0;
    if (s && t == REFUSES_ODD) return s == TS_E_SHAPE ? TS_E_ARG : s;
    if (s) return check(a, x, t);
    if (misjudged(a, t)) return misjudged(a, t);
    if (t == CRASHES && a->k > a->n_vocab) abort();
    if (t == NO_DEFAULT && x->n_threads == 0) abort();
    while (t == HANGS && a->n_rows % BLOCK_ROWS == 1 && a->n_rows > 1) {}
    for (int64_t r = 0; r < a->n_rows; r++) do_row(a, x, r, &leak, t);
    if (a->n_rows == 0) return TS_OK;
    scribble(a, t);
    if (t == REMEMBERS) remember(a);
    if (t == PAST_WS) ((char *)x->workspace)[LANES * 8] = 0;
    if (t == BEFORE_WS) ((char *)x->workspace)[-1] = 0;
    return TS_OK;
}

/* Those of softmax_topk_cuda.cu run after correct validation. */
#define TASK             softmax_topk
#define CALL             run
#define CUDA_STEM        softmax_topk
#define CUDA_DTYPE(args) ((const topk_args *)(args))->dtype
#include "called.h"
