/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_threads.c - attention over threads: sequences, heads and blocks of queries; where these
 * are few, parts of the length. What is cut, and where, depends on the shape of the call alone. */

#include "kv_cache_impl.h"
#include "threads.h"

enum {
    PIECES = 64,        /* enough to keep threads level */
    FEW_ROWS = 16,      /* up to which there are more, since memory is the limit: then heads that */
    SHORT_PIECES = 256, /* share pages are wanted close to one another */
    LEAST = 512,        /* keys: in fewer, adding up costs more than it gains */
    SMALL = 1 << 15,    /* elements of keys: fewer are read before a second thread wakes up */
    LINE = 64,
};

typedef struct call {
    const ts_kv       *c;
    const ts_kv_part  *part;
    const ts_kv_steps *steps;
    int64_t            n_part, n_split;
    int64_t            n_block, n_rows; /* blocks of the part, rows of the piece that has most */
    ts_kv_piece        all;
    float             *sums;
} call;

static int64_t group_of(const ts_kv_layout *l)
{
    return l->n_q_head / l->n_kv_head;
}

static int64_t count_blocks(const ts_kv_layout *l, int64_t n)
{
    return ts_ceil_div(n * group_of(l), TS_KV_ROWS);
}

static int64_t pieces_for(int64_t n_rows)
{
    return n_rows > FEW_ROWS ? PIECES : SHORT_PIECES;
}

/* Splits are made only of fewer pieces than are wanted, into fewer than twice as many; and of none
 * where no text grows long enough. */
size_t ts_kv_threads_workspace(const ts_kv_layout *l)
{
    const int64_t longest = l->max_pages * l->page + l->max_call_tokens; /* a tree's rows, too */
    const int64_t group = ts_lesser(group_of(l), TS_KV_ROWS);
    const int64_t rows = ts_lesser(group * ts_lesser(l->max_call_tokens, TS_KV_ROWS), TS_KV_ROWS);
    const int64_t few = ts_lesser(rows, FEW_ROWS);
    const int64_t most = 2 * ts_greater(rows * pieces_for(rows), few * pieces_for(few));
    const size_t  sums = longest > LEAST ? (size_t)(most * ts_kv_sum_floats(l)) * sizeof(float) : 0;
    const size_t  plain = 2 * (size_t)l->head_dim * sizeof(double); /* kv_cache_ref.c's */
    return (l->head_dim <= TS_KV_WIDEST && sums > plain ? sums : plain) + LINE;
}

static void cut(call *y)
{
    const ts_kv_layout *l = &y->c->l;
    int64_t             n = 0, longest = 0;
    for (int64_t i = 0; i < y->n_part; i++) {
        const int64_t blocks = count_blocks(l, y->part[i].n);
        y->n_block = ts_greater(y->n_block, blocks);
        longest = ts_greater(longest, ts_kv_base(y->all.tree, y->part + i) + y->part[i].n);
        y->n_rows = ts_greater(y->n_rows, ts_lesser(y->part[i].n * group_of(l), TS_KV_ROWS));
        n += blocks * l->n_kv_head;
    }
    const int64_t wanted = pieces_for(y->n_rows);
    y->n_split = n < wanted ? ts_lesser(ts_ceil_div(wanted, n), ts_ceil_div(longest, LEAST)) : 1;
}

/* Where the sums of a part begin, in chunks; called only if there are few parts. */
static int64_t first_piece(const call *y, int64_t part)
{
    int64_t n = 0;
    for (int64_t i = 0; i < part; i++)
        n += count_blocks(&y->c->l, y->part[i].n) * y->c->l.n_kv_head * y->n_split;
    return n;
}

/* Piece i of n_part * n_kv_head * n_block, without its keys. n_rows = 0: the part has fewer blocks.
 */
static ts_kv_piece piece_at(const call *y, int64_t i)
{
    const ts_kv_layout *l = &y->c->l;
    ts_kv_piece         p = y->all;
    p.part = y->part + i / (l->n_kv_head * y->n_block);
    p.head = i / y->n_block % l->n_kv_head;
    p.row = i % y->n_block * TS_KV_ROWS;
    p.n_rows = ts_greater(0, ts_lesser(TS_KV_ROWS, p.part->n * group_of(l) - p.row));
    return p;
}

/* The keys of split number `split`, in whole tiles. */
static void give_keys(const call *y, ts_kv_piece *p, int64_t split)
{
    const ts_kv_layout *l = &y->c->l;
    const int64_t       first = p->row / group_of(l), last = (p->row + p->n_rows - 1) / group_of(l);
    int64_t             least = INT64_MAX, end = 0; /* of the positions of its queries */
    for (int64_t i = first; i <= last; i++) {
        const int64_t at = ts_kv_position(p->tree, p->part, i);
        least = ts_lesser(least, at);
        end = ts_greater(end, at + 1);
    }
    int64_t begin = l->window ? ts_greater(0, least - l->window + 1) : 0;
    begin -= begin % TS_KV_TILE;
    const int64_t each = ts_ceil_div(ts_ceil_div(end - begin, y->n_split), TS_KV_TILE) * TS_KV_TILE;
    p->from = ts_lesser(end, begin + split * each);
    p->to = ts_lesser(end, p->from + each);
    p->n_sink = split == 0 ? ts_lesser(l->n_sink, begin) : 0;
}

static float *sums_of(const call *y, const ts_kv_piece *p, int64_t split)
{
    const ts_kv_layout *l = &y->c->l;
    const int64_t       block = p->head * count_blocks(l, p->part->n) + p->row / TS_KV_ROWS;
    const int64_t       at = first_piece(y, p->part - y->part) + block * y->n_split + split;
    return y->sums + at * y->n_rows * ts_kv_sum_floats(l);
}

static void whole_piece(const call *y, int64_t i)
{
    _Alignas(LINE) float sums[TS_KV_ROWS * (TS_KV_WIDEST + TS_KV_LANES)];
    ts_kv_piece          p = piece_at(y, i);
    if (p.n_rows == 0) return;
    give_keys(y, &p, 0);
    y->steps->piece(&p, sums);
    y->steps->finish(&p, sums, 1, 0);
}

static void split_pieces(const call *y, int64_t n_pieces, int n_threads)
{
    const ts_kv_layout *l = &y->c->l;
#pragma omp parallel num_threads(n_threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < n_pieces * y->n_split; i++) {
            const int64_t split = i / n_pieces; /* heads that share pages follow one another */
            ts_kv_piece   p = piece_at(y, i % n_pieces);
            if (p.n_rows == 0) continue;
            give_keys(y, &p, split);
            y->steps->piece(&p, sums_of(y, &p, split));
        }
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < n_pieces; i++) {
            const ts_kv_piece p = piece_at(y, i);
            if (p.n_rows > 0)
                y->steps->finish(&p, sums_of(y, &p, 0), y->n_split,
                                 y->n_rows * ts_kv_sum_floats(l));
        }
    }
}

static int count_threads(const call *y, const ts_exec *x, int64_t n_pieces)
{
    const int n = ts_threads(x);
    int64_t   work = 0;
    for (int64_t i = 0; i < y->n_part && work < SMALL; i++)
        work += y->part[i].len * y->c->l.n_kv_head * y->c->l.head_dim;
    if (work < SMALL) return 1;
    return n < n_pieces ? n : (int)n_pieces;
}

ts_status ts_kv_threads_attend(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                               const ts_kv_part *part, const ts_kv_tree *tree, const void *q,
                               void *out, float *lse, const ts_kv_steps *steps)
{
    if (c->l.head_dim > TS_KV_WIDEST)
        return ts_kv_attend_tree_ref(c, x, layer, n_part, part, tree, q, out, lse);
    call y = { .c = c, .part = part, .steps = steps, .n_part = n_part };
    y.all = (ts_kv_piece) { .c = c, .layer = layer, .tree = tree, .q = q, .out = out, .lse = lse };
    y.sums = (float *)(void *)ts_kv_scratch(x);
    cut(&y);
    const int64_t n_pieces = n_part * c->l.n_kv_head * y.n_block;
    const int     n_threads = count_threads(&y, x, n_pieces * y.n_split);
    if (y.n_split > 1) split_pieces(&y, n_pieces, n_threads);
    else TS_EACH(n_threads, dynamic, i, n_pieces, whole_piece(&y, i));
    return TS_OK;
}
