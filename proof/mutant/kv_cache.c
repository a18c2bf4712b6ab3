/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache.c - mutants of kv_cache: the solution of proof/plain/ with one injected bug at a time,
 * and attention to trees, which it lacks. kv_cache_list.h lists them. */
#include "kv_cache_script.h"

#include "kv_cache_list.h"
#include "mutant.h"

typedef enum trap { MUTANTS(TRAP) N_TRAPS } trap;

static trap now; /* a worker runs one call at a time */

#include "plain/number.h"

enum { TILE = 64 };

/* The tree of a query: the parents of the sequence's rows, its first row, and which one this is. */
typedef struct drafted {
    const ts_kv_tree *tree; /* NULL: there is none */
    const int32_t    *parent;
    int64_t           first, own;
    int64_t           len, p; /* of the sequence; the query's position */
} drafted;

static drafted        draft;
static const ts_exec *exec; /* of the call */
static double         call_lowest, call_highest;

/* ---- cells ---- */

static const ts_kv_dims *other_dims(const ts_kv_dims *d)
{
    static ts_kv_dims other;
    const bool        codes = d->store_dtype == TS_U8 || d->store_dtype == TS_U4;
    const bool        by_channel = codes && d->key_axis == TS_KEY_CHANNEL;
    other = *d;
    if (now == OWN_GROUP && !by_channel && d->key_group > 32) other.key_group = 32;
    if (now == OWN_CHANNEL && by_channel && !d->page) other.key_group = 8;
    return &other;
}

static double rounded_down(double x)
{
    const float f = (float)x;
    uint32_t    b;
    memcpy(&b, &f, sizeof b);
    const uint16_t h = (uint16_t)(b >> 16);
    return load(&h, TS_BF16, 0);
}

static bool keeps_pointer(const ts_kv *c);
static void read_draft(const ts_kv *c, int64_t p, int key, int64_t head, double *x);

#define HOOK_dims(ok)           other_dims(ok)
#define HOOK_n_stored_heads(ok) (now == Q_HEADS_KEPT ? d->n_q_head : (ok))
#define HOOK_row_bytes(ok)      ((now == TWICE_THE_SIZE ? 2 : 1) * (ok))
#define HOOK_n_lengths(ok)      (2 * (ok)) /* and the largest that each has been */
#define HOOK_length_layer(ok)   (now == ONE_LENGTH ? 0 : (ok))
#define HERE_cell                                                                                  \
    const bool whole = !c->d.page;                                                                 \
    if (now == LAYERS_SHARE && whole) layer = 0;                                                   \
    if (now == LAYERS_3 && whole && layer > 3) layer = 3;                                          \
    if (now == LAYERS_8 && whole && layer > 7) layer = 7;                                          \
    if (now == SEQS_16 && whole && seq > 15) seq = 15;                                             \
    if (now == SEQS_SHARE) seq = 0
#define HOOK_page(ok) (now == PAGE_WRAPS ? 0 : (ok))
#define HOOK_row_stride(ok)                                                                        \
    ((ok) - (now == ODD_ROWS && c->d.store_dtype == TS_U4 && c->d.head_dim % 2))
#define HOOK_code(ok)                                                                              \
    (now == ZERO_STEP                     ? rint((x - lowest) / step)                              \
     : now == TRUNCATED_CODES && step > 0 ? floor((x - lowest) / step)                             \
                                          : (ok))
#define HOOK_decoded(ok)                                                                           \
    (now == ZERO_STEP && step == 0 ? (double)NAN : now == SIGNED && (ok) > 127 ? (ok)-256 : (ok))
#define HOOK_step(ok)                                                                              \
    (now == STEP_FLUSHED && c->d.meta_dtype == TS_F16 && (ok) < 0x1p-14 ? 0 : (ok))
#define HERE_save_row                                                                              \
    if (keeps_pointer(c)) {                                                                        \
        const char *const from = (const char *)x + (size_t)first * bytes_of(io);                   \
        memcpy(row, &from, sizeof from);                                                           \
        return;                                                                                    \
    }
#define HOOK_stored(ok)                                                                            \
    (now == ROUNDED_DOWN && c->d.store_dtype == TS_BF16 && io == TS_F32 ? rounded_down(ok) : (ok))
#define HOOK_lowest(ok)  (now == CALL_SCALE ? fmin(ok, call_lowest) : (ok))
#define HOOK_highest(ok) (now == CALL_SCALE ? fmax(ok, call_highest) : (ok))
#define HERE_read_row                                                                              \
    if (draft.tree && p >= draft.len) {                                                            \
        read_draft(c, p, key, head, x);                                                            \
        return;                                                                                    \
    }                                                                                              \
    if (keeps_pointer(c)) {                                                                        \
        const void *from;                                                                          \
        memcpy(&from, row, sizeof from);                                                           \
        for (int64_t e = 0; e < D; e++) x[e] = load(from, c->d.io_dtype, e);                       \
        return;                                                                                    \
    }

/* ---- sequences and pages ---- */

static int64_t  *high_of(const ts_kv *c, int64_t seq, int64_t layer);
static void      copy_page(ts_kv *c, int64_t seq, int64_t layer, int64_t i);
static ts_status forget(const ts_kv *c, int32_t seq, ts_status s);

#define HOOK_uneven(ok)       (now != ANY_HEADS && (ok))
#define HOOK_n_scores(ok)     ((ok) + TS_KV_WORDS)
#define HOOK_least_memory(ok) (now == SMALL_MEMORY ? 0 : (ok))
#define HERE_created                                                                               \
    if (now == PAST_STATE) ((unsigned char *)memory)[memory_bytes] = 0
#define HOOK_is_last(ok) ((ok) || now == FREED_TWICE)
#define HOOK_no_seq(ok)  (now == OPENS_MORE ? (*seq = 0, TS_OK) : (ok))
#define HERE_page_shared                                                                           \
    if (now == FORK_COPIES && c->n_free) copy_page(c, to, l, i)
static bool has_forked;
#define HERE_forked                                                                                \
    has_forked = true;                                                                             \
    for (int64_t e = 0; e < (int64_t)tail && now == FORK_NO_TAIL && c->by_channel; e++)            \
    store(c->tail, c->d.io_dtype, tail_at(c, to, l, 0, e), 0)
#define HERE_shrink                                                                                \
    if (now == SAME_LENGTH && n && n == *len && c->d.page && n % c->d.page)                        \
    drop_page(c, pages_of(c, seq, layer)[n / c->d.page])
#define HERE_drop                                                                                  \
    if (n && (now == PAGE_LOST || (now == FUZZ_LEAK && c->n_ref[page] > 1))) continue
#define HOOK_keeps(ok) ((ok) || now == TAIL_LOST || (now == TAIL_PAGED && c->d.page))
#define HOOK_freed(ok) forget(c, seq, ok)

/* ---- tokens ---- */

static void      extremes(const ts_kv *c, const void *from, int64_t n);
static ts_status refuse(ts_kv *c, ts_status s, int64_t layer, int64_t n_seq, const int32_t *seq,
                        const int64_t *n);
static void      move_on(ts_kv *c, int64_t seq, int64_t layer, int64_t n_seq, const int64_t *n_new,
                         int64_t n);

#define HERE_called(rows)                                                                          \
    if ((!x && now == TAKES_NO_EXEC) || (!(rows) && now == TAKES_NO_ROWS)) return TS_E_STATE;      \
    if (now == EMPTY_LIST && n_seq == 0) return TS_E_ARG;                                          \
    exec = x
#define HOOK_most_seqs(ok) (now == TAKES_MANY ? INT64_MAX : (ok))
#define HERE_check_list                                                                            \
    if (now == PAST_WORKSPACE) ((char *)x->workspace)[workspace_of(&c->d)] = 0;                    \
    if (now == BEFORE_WORKSPACE) ((char *)x->workspace)[-1] = 0
#define HERE_listed                                                                                \
    if (i >= c->d.n_seq_max) { /* TAKES_MANY */                                                    \
        if (((const volatile int32_t *)seq)[i] == -77) return TS_E_STATE;                          \
        continue;                                                                                  \
    }
#define HOOK_twice(ok)    (now != TWICE && (ok))
#define HOOK_short(ok)    (now != NO_WORKSPACE && (ok))
#define HOOK_shared(ok)   ((ok) && now != NO_COPY && !(now == IN_PLACE && c->n_free == 0))
#define HOOK_capacity(ok) (now == OVERRUN ? INT64_MAX : (ok))
#define HOOK_grows(ok)    ((ok) || (now == NOTHING_COPIES && c->n_free))
#define HOOK_n_written(ok)                                                                         \
    (now == STORES_NOTHING || (now == STALE && p < *high_of(c, seq, layer)) ? 0 : (ok))
#define HERE_append   HERE_called(k)
#define HOOK_room(ok) refuse(c, ok, layer, n_seq, seq, n_new)
#define HERE_append_seq                                                                            \
    if (now == FIRST_OF_BATCH) token = 0;                                                          \
    if (now == REPLACED && !c->d.page) *len_of(c, seq[i], layer) = 0;                              \
    if (now == CALL_SCALE) extremes(c, v, n_new[i])
#define HERE_appended_seq                                                                          \
    move_on(c, seq[i], layer, n_seq, n_new, n_new[i]);                                             \
    if (now == LAST_TWICE && n_new[i] > 1 && !c->d.page &&                                         \
        *len_of(c, seq[i], layer) < c->d.capacity)                                                 \
    append_one(c, seq[i], layer, k, v, token - 1)
#define HOOK_from(ok) (now == READ_FROM_0 ? 0 : (ok))
#define HERE_status                                                                                \
    if (now == NEEDS_LEN) *(volatile int64_t *)len = 0;                                            \
    if (now == NEEDS_USAGE) *(volatile int64_t *)&u->n_page = 0
#define HOOK_n_live(ok)                                                                            \
    (now == ALL_LIVE ? c->d.capacity : now == FORK_LIVE && has_forked ? 2 * (ok) + 1 : (ok))

/* ---- attention ---- */

static int64_t n_cached; /* tokens of the query's sequence */

static int64_t count_keys(const ts_kv *c, int64_t seq, int64_t layer, int64_t p);
static int     sees_other(int ok, const ts_kv_dims *d, int64_t p, int64_t j);
static double  largest(const double *score, int64_t n);
static void    add_stale(const ts_kv *c, int64_t seq, int64_t layer, double *row, double *o);

#define HOOK_sees(ok) sees_other(ok, d, p, j)
#define HOOK_kv_head(ok)                                                                           \
    (now == HEAD_MODULO                                  ? head % d->n_kv_head                     \
     : now == SHARE_7 && d->n_q_head == 7 * d->n_kv_head ? head / 8                                \
                                                         : (ok))
#define HOOK_n_keys(ok) count_keys(c, seq, layer, p)
#define HOOK_n_dims(ok) (now == DIM_128 && D > 128 && D < 256 ? 128 : (ok))
#define HOOK_score(ok)                                                                             \
    (now == OWN_SCALE || (now == SCALE_ZERO && d->scale == 0) ? dot / sqrt((double)D)              \
     : now == SOFT_MASK && j > p                              ? (ok)-10                            \
     : now == NO_MAX                                          ? (float)(ok)                        \
                                                              : (ok))
#define HOOK_start(ok) (now == DIRTY_WORKSPACE ? o[e] : (ok))
#define HOOK_most(ok)  (now == NO_MAX ? 0 : (ok))
#define HOOK_weight(ok)                                                                            \
    (now == NO_MAX ? (float)(ok) : now == LOW_DIGITS ? narrow(ok, TS_BF16) : (ok))
#define HOOK_sum(ok)                                                                               \
    (now == NO_RESCALE ? sum + exp(score[j] - largest(score, j + 1))                               \
     : now == BY_PAGE && ((j + 1) % (d->page ? d->page : TILE) == 0 || j + 1 == n) ? (float)(ok)   \
                                                                                   : (ok))
#define HERE_key_done                                                                              \
    for (int64_t e = 0; e < D && now == TWICE_DIVIDED && (j + 1) % TILE == 0 && j + 1 < n; e++)    \
    o[e] /= sum
#define HERE_keys_done                                                                             \
    if (now == STALE_NAN && !draft.tree && !d->page) add_stale(c, seq, layer, row, o);             \
    if (now == BY_THREADS) sum *= 1 + 1e-7 * (exec->n_threads != 1)
#define HOOK_lse(ok) (now == BASE_2 ? (ok) / log(2) : (ok))
#define HERE_attend                                                                                \
    HERE_called(q);                                                                                \
    if (now == WRITES_FIRST && c && out) store(out, c->d.io_dtype, 0, 0)
#define HOOK_most_queries(ok) (now == MORE_QUERIES ? INT64_MAX : (ok))
#define HOOK_n_heads(ok)      ((ok) - (now == LAST_HEAD))

static __typeof__(ts_kv_bytes)    kv_bytes;
static __typeof__(ts_kv_create)   kv_create;
static __typeof__(ts_kv_destroy)  kv_destroy;
static __typeof__(ts_kv_open)     kv_open;
static __typeof__(ts_kv_fork)     kv_fork;
static __typeof__(ts_kv_truncate) kv_truncate;
static __typeof__(ts_kv_free)     kv_free;
static __typeof__(ts_kv_append)   kv_append;
static __typeof__(ts_kv_attend)   kv_attend;
static __typeof__(ts_kv_read)     kv_read;
static __typeof__(ts_kv_status)   kv_status;
#define ts_kv_bytes    kv_bytes
#define ts_kv_create   kv_create
#define ts_kv_destroy  kv_destroy
#define ts_kv_open     kv_open
#define ts_kv_fork     kv_fork
#define ts_kv_truncate kv_truncate
#define ts_kv_free     kv_free
#define ts_kv_append   kv_append
#define ts_kv_attend   kv_attend
#define ts_kv_read     kv_read
#define ts_kv_status   kv_status
#include "plain/kv_cache.c"

/* ---- bugs that take more than a line ---- */

static bool keeps_pointer(const ts_kv *c)
{
    return now == KEEPS_POINTER && !c->codes && c->row_bytes >= 8;
}

static int64_t *high_of(const ts_kv *c, int64_t seq, int64_t layer)
{
    return len_of(c, seq, layer) + c->d.n_seq_max * c->d.n_layer;
}

static ts_status forget(const ts_kv *c, int32_t seq, ts_status s)
{
    for (int64_t l = 0; !s && l < c->d.n_layer; l++) *high_of(c, seq, l) = 0;
    return s == TS_E_STATE && now == FREES_AGAIN ? TS_OK : s;
}

/* What a scale of the whole call would be made from. */
static void extremes(const ts_kv *c, const void *from, int64_t n)
{
    call_lowest = INFINITY, call_highest = -INFINITY;
    for (int64_t i = 0; i < n * c->d.n_kv_head * c->d.head_dim; i++) {
        call_lowest = fmin(call_lowest, load(from, c->d.io_dtype, i));
        call_highest = fmax(call_highest, load(from, c->d.io_dtype, i));
    }
}

static ts_status refuse(ts_kv *c, ts_status s, int64_t layer, int64_t n_seq, const int32_t *seq,
                        const int64_t *n)
{
    if (!s) return s;
    if (now == COPIES_FIRST && n[0] && c->n_free && is_shared(c, seq[0], layer))
        copy_page(c, seq[0], layer, *len_of(c, seq[0], layer) / c->d.page);
    for (int64_t i = 0; i + 1 < n_seq && now == HALF_APPLIED; i++) {
        if (*len_of(c, seq[i], layer) + n[i] > c->d.capacity) break;
        *len_of(c, seq[i], layer) += n[i];
    }
    if (now == PAGES_TAKEN && c->n_free) take_page(c);
    return s;
}

/* After n tokens: the largest length, and one for the whole batch. */
static void move_on(ts_kv *c, int64_t seq, int64_t layer, int64_t n_seq, const int64_t *n_new,
                    int64_t n)
{
    int64_t *const at = len_of(c, seq, layer), *const high = high_of(c, seq, layer);
    int64_t most = n;
    if (*at > *high) *high = *at;
    for (int64_t i = 0; i < n_seq; i++) most = n_new[i] > most ? n_new[i] : most;
    if (now == ONE_CURSOR && *at - n + most <= c->d.capacity && !c->d.page) *at += most - n;
}

static int64_t count_keys(const ts_kv *c, int64_t seq, int64_t layer, int64_t p)
{
    const int64_t page = c->d.page;
    n_cached = draft.tree ? draft.len : *len_of(c, seq, layer);
    if (draft.tree) return p + 1;
    if (now == NO_MASK || now == SOFT_MASK) return n_cached;
    if (now != WHOLE_PAGES || !page || p + 1 < n_cached) return p + 1;
    const int64_t n = (n_cached + page - 1) / page * page;
    return n < c->d.capacity ? n : c->d.capacity;
}

static double largest(const double *score, int64_t n)
{
    double most = -INFINITY;
    for (int64_t j = 0; j < n; j++) most = fmax(most, score[j]);
    return most;
}

/* Tokens that were cut off have no weight, but are multiplied by it. */
static void add_stale(const ts_kv *c, int64_t seq, int64_t layer, double *row, double *o)
{
    for (int64_t j = n_cached; j < *high_of(c, seq, layer); j++) {
        read_row(c, seq, layer, j, 0, 0, row);
        for (int64_t e = 0; e < c->d.head_dim; e++) o[e] += 0 * row[e];
    }
}

/* ---- trees ---- */

/* The row of the tree at position j on the way to the query. */
static int64_t row_at(int64_t j)
{
    int64_t i = draft.own;
    if (now == T_CAUSAL || now == T_INDEX) return j - draft.len;
    for (int64_t p = draft.p; p > j && i >= 0; p--) i = draft.parent[i];
    return i;
}

/* What a tree's query does not see, though its place would let it. */
static bool hides(int64_t p, int64_t j)
{
    if (!draft.tree) return false;
    if (now == T_NOT_ITSELF && j == p) return p > 0;
    if (now == T_NO_CACHE && j < n_cached) return true;
    if (now == T_ONE_SHORT && j == n_cached - 1) return true;
    if (now == T_64 && j >= n_cached && row_at(j) >= 64) return true;
    return now == T_PARENT && j >= n_cached && j < p - 1;
}

static int sees_other(int ok, const ts_kv_dims *d, int64_t p, int64_t j)
{
    const bool near = !d->window || p - j < d->window;
    if (now == NO_MASK || now == SOFT_MASK) return true;
    if (now == QUERY_AT_0 && p + 1 == n_cached) return j == 0;
    if ((now == NOT_ITSELF && j == p && j > 0) || hides(p, j)) return false;
    if (draft.tree && now == T_WINDOW && j >= n_cached) return true;
    if (now == NO_SINKS || (draft.tree && now == T_SINKS)) return near;
    if (now == WINDOW_WIDE) return ok || p - j == d->window;
    if (now == WINDOW_4096 && d->window > 4096) return p - j < 4096 || j < d->n_sink;
    if (now == SINKS_2) return near || (j < d->n_sink && j < 2);
    return ok || now == NO_WINDOW;
}

/* A row as it would be read back if it were stored; but keys by channel stay unchanged. */
static void as_stored(const ts_kv *c, int key, double *x)
{
    const int64_t  D = c->d.head_dim, g = key ? c->d.key_group : D;
    const ts_dtype io = c->d.io_dtype;
    unsigned char  meta[16] = { 0 }, one[8] = { 0 };
    for (int64_t e = 0; e < D && !c->codes; e++) {
        store(one, c->d.store_dtype, 0, HOOK(stored, x[e]));
        x[e] = load(one, c->d.store_dtype, 0);
    }
    if (!c->codes || now == T_EXACT || (key && c->by_channel && now != T_CODED_KEYS)) return;
    for (int64_t from = 0; from < D; from += g) {
        const int64_t end = from + g < D ? from + g : D;
        double        lowest = INFINITY, highest = -INFINITY;
        for (int64_t e = from; e < end; e++)
            lowest = fmin(lowest, x[e]), highest = fmax(highest, x[e]);
        set_meta(c, meta, 0, lowest, highest);
        for (int64_t e = from; e < end; e++) {
            encode(c, one, 0, x[e], meta, 0);
            x[e] = decode(c, one, 0, meta, 0);
        }
    }
}

static void read_draft(const ts_kv *c, int64_t p, int key, int64_t head, double *x)
{
    const int64_t D = c->d.head_dim;
    const int64_t at = ((draft.first + row_at(p)) * c->d.n_kv_head + head) * D;
    for (int64_t e = 0; e < D; e++)
        x[e] = load(key ? draft.tree->k : draft.tree->v, c->d.io_dtype, at + e);
    as_stored(c, key, x);
}

/* The position of row i after n tokens; an invalid tree has no end. */
static int64_t place_of(int64_t n, const int32_t *parent, int64_t i)
{
    int64_t p = n;
    if (now == T_INDEX || now == T_CAUSAL) return n + i;
    for (int64_t up = parent[i]; up >= 0 && p < n + TS_KV_WORDS - 1; up = parent[up]) p++;
    return p;
}

static ts_status check_tree(const ts_kv_tree *t, int64_t n_seq, const int64_t *n)
{
    if (!t || !t->parent || !t->k || !t->v) return TS_E_ARG;
    const int32_t *parent = t->parent;
    for (int64_t i = 0; i < n_seq; parent += n[i++])
        for (int64_t k = 0; k < n[i]; k++) {
            if (parent[k] >= k && now != T_ANY_ORDER) return TS_E_ARG;
            if (parent[k] < -1 && now != T_BELOW) return TS_E_ARG;
        }
    return TS_OK;
}

static ts_status kv_attend_tree(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                                const int32_t *seq, const int64_t *n_row, const ts_kv_tree *tree,
                                const void *q, void *out, float *lse)
{
    HERE_called(q);
    if (now == T_FIRST && c && out) store(out, c->d.io_dtype, 0, 0);
    ts_status s = q && out ? check_list(c, x, layer, n_seq, seq, n_row) : TS_E_ARG;
    if (s == TS_E_WORKSPACE && now == T_NO_SPACE) s = TS_OK;
    if (!s) s = check_tree(tree, n_seq, n_row);
    int64_t first = 0;
    for (int64_t i = 0; i < n_seq && !s; first += n_row[i++]) {
        const int32_t *parent = tree->parent + (now == T_ROWS_GLOBAL ? 0 : first);
        draft = (drafted) { tree, parent, first, 0, *len_of(c, seq[i], layer), 0 };
        for (int64_t r = 0; r < n_row[i]; r++) {
            const bool sibling = r && parent[r - 1] == parent[r] && parent[r] < 0;
            draft.own = r, draft.first = first - (now == T_SIBLINGS && sibling);
            draft.p = place_of(draft.len, parent, r);
            for (int64_t h = 0; h < c->d.n_q_head; h++) {
                const int64_t at = (first + r) * c->d.n_q_head + h;
                attend_one(c, seq[i], layer, draft.p, h, q, at * c->d.head_dim, out,
                           lse && now != T_LSE ? lse + at : NULL, aligned(x->workspace));
            }
        }
        if (now == T_STORES && !c->d.page && n_row[i] && draft.len < c->d.capacity)
            ++*len_of(c, seq[i], layer);
    }
    draft.tree = NULL;
    return s;
}

/* ---- the mutants ---- */

static const ts_kv_table table = { kv_bytes,  kv_create,   kv_destroy, kv_open,
                                   kv_fork,   kv_truncate, kv_free,    kv_append,
                                   kv_attend, kv_read,     kv_status,  kv_attend_tree };

#define STEM  kv_cache
#define TABLE ts_kv_table
#include "played.h"
