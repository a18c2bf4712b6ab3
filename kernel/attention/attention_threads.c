/* SPDX-License-Identifier: Apache-2.0 */
/* attention_threads.c - divides both passes of attention among threads.
 *
 * Forward: tiles of queries. Backward: tiles of keys, assigned to a few partial sums of dq per
 * head, so that each sum has one order and one thread; then the partial sums are added. The
 * division depends on the dims alone. */
#include <omp.h>
#include <string.h>

#include "attention_impl.h"
#include "threads.h"

enum {
    PIECES = 32,     /* wanted of a backward call, to keep threads level */
    MOST_SUMS = 6,   /* of one head: they bound the workspace */
    SMALL = 1 << 20, /* products: fewer are done before a second thread wakes up */
    LINE = 64,
};

static int64_t tile_of(int64_t hint)
{
    return hint > 0 ? ts_lesser(hint, TS_ATTENTION_TILE) : TS_ATTENTION_TILE;
}

static int64_t q_floats(const ts_attention_dims *d)
{
    return d->n_batch * d->n_q_head * d->n_q * d->head_dim;
}

static int64_t k_floats(const ts_attention_dims *d)
{
    return d->n_batch * d->n_kv_head * d->n_k * d->head_dim;
}

/* Sums of dq for each head. */
static int64_t count_sums(const ts_attention_dims *d)
{
    const int64_t n = ts_lesser(MOST_SUMS, ts_ceil_div(d->n_k, tile_of(d->tile_k)));
    const int64_t heads = d->n_batch * d->n_kv_head;
    return heads > 0 ? ts_lesser(n, ts_ceil_div(PIECES, heads)) : 0;
}

/* As many as there is work for, and as scratch fits in `room` floats; at least one. */
static int count_threads(const ts_attention_dims *d, const ts_exec *x, int64_t n_pieces,
                         int64_t room, int64_t scratch)
{
    const int64_t n = ts_threads(x);
    const double  work = (double)q_floats(d) * (double)d->n_k;
    const int64_t most = ts_lesser(n_pieces, room / scratch);
    return work < SMALL || most < 1 ? 1 : (int)ts_lesser(n, most);
}

static float *aligned(const ts_exec *x)
{
    return (float *)(void *)((char *)x->workspace + (LINE - (uintptr_t)x->workspace % LINE));
}

/* ---- forward ---- */

static int64_t forward_scratch(const ts_attention_dims *d)
{
    return TS_ATTENTION_TILES * ts_attention_tile(d);
}

static int64_t forward_pieces(const ts_attention_dims *d)
{
    return d->n_batch * d->n_q_head * ts_ceil_div(d->n_q, tile_of(d->tile_q));
}

/* Scratch takes 4 MiB and twice q, k, v and o as floats at most. */
static int forward_threads(const ts_attention_dims *d, const ts_exec *x)
{
    const int64_t room = (1 << 20) + 4 * q_floats(d) + 4 * k_floats(d) - LINE;
    return count_threads(d, x, forward_pieces(d), room, forward_scratch(d));
}

ts_status ts_attention_threads_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_attention_dims *d = &((const ts_flash_attention_args *)args)->d;
    *n_bytes = (size_t)(forward_threads(d, x) * forward_scratch(d)) * sizeof(float) + LINE;
    return TS_OK;
}

/* Tiles of a head with most keys come first. */
static void attend(const ts_flash_attention_args *a, const ts_attention_steps *steps, int64_t i,
                   float *scratch)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            tile = tile_of(d->tile_q), n_tiles = ts_ceil_div(d->n_q, tile);
    const int64_t            head = i / n_tiles, begin = (n_tiles - 1 - i % n_tiles) * tile;
    const ts_attention_piece p = { head / d->n_q_head, head % d->n_q_head, begin,
                                   ts_lesser(begin + tile, d->n_q) };
    steps->forward(a, &p, scratch);
}

ts_status ts_attention_threads(const ts_flash_attention_args *a, const ts_exec *x,
                               const ts_attention_steps *steps)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            n_pieces = forward_pieces(d), scratch = forward_scratch(d);
    const int                n_threads = forward_threads(d, x);
    float *const             room = aligned(x);
    TS_EACH(n_threads, dynamic, i, n_pieces, attend(a, steps, i, room + thread * scratch));
    return TS_OK;
}

/* ---- backward ---- */

static int64_t backward_scratch(const ts_attention_dims *d)
{
    return TS_ATTENTION_BACKWARD_TILES * ts_attention_tile(d);
}

/* What sums of dq, six times dq at most, leave of 4 MiB and twice the eight tensors as floats. */
static int backward_threads(const ts_attention_dims *d, const ts_exec *x)
{
    const int64_t room = (1 << 20) + 2 * q_floats(d) + 8 * k_floats(d) - LINE;
    const int64_t n_pieces = d->n_batch * d->n_kv_head * count_sums(d);
    return count_threads(d, x, n_pieces, room, backward_scratch(d));
}

ts_status ts_attention_threads_backward_workspace(const void *args, const ts_exec *x,
                                                  size_t *n_bytes)
{
    const ts_attention_dims *d = &((const ts_flash_attention_backward_args *)args)->d;
    const int64_t            scratch = backward_threads(d, x) * backward_scratch(d);
    *n_bytes = (size_t)(scratch + count_sums(d) * q_floats(d)) * sizeof(float) + LINE;
    return TS_OK;
}

/* Every n_sums-th tile of a head's keys, which evens out what a causal mask hides. */
static void sum_up(const ts_flash_attention_backward_args *a, const ts_attention_steps *steps,
                   int64_t head, int64_t first, float *sums, float *scratch)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            tile = tile_of(d->tile_k), group = d->n_q_head / d->n_kv_head;
    const int64_t            step = count_sums(d) * tile, each = group * d->n_q * d->head_dim;
    float *const             mine = sums + first * q_floats(d) + head * each;
    memset(mine, 0, (size_t)each * sizeof *mine);
    for (int64_t k = first * tile; k < d->n_k; k += step) {
        const ts_attention_piece p = { head / d->n_kv_head, head % d->n_kv_head, k,
                                       ts_lesser(k + tile, d->n_k) };
        steps->backward(a, &p, mine, scratch);
    }
}

ts_status ts_attention_threads_backward(const ts_flash_attention_backward_args *a, const ts_exec *x,
                                        const ts_attention_steps *steps)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            n_sums = count_sums(d), tile = TS_ATTENTION_TILE;
    const int64_t n_tiles = ts_ceil_div(d->n_q, tile), n_heads = d->n_batch * d->n_q_head;
    const int64_t scratch = backward_scratch(d);
    const int     n_threads = backward_threads(d, x);
    float *const room = aligned(x), *const sums = room + n_threads * scratch;
#pragma omp parallel num_threads(n_threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < d->n_batch * d->n_kv_head * n_sums; i++)
            sum_up(a, steps, i / n_sums, i % n_sums, sums, room + omp_get_thread_num() * scratch);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n_heads * n_tiles; i++) {
            const int64_t            head = i / n_tiles, begin = i % n_tiles * tile;
            const ts_attention_piece p = { head / d->n_q_head, head % d->n_q_head, begin,
                                           ts_lesser(begin + tile, d->n_q) };
            steps->finish(a, &p, sums + (head * d->n_q + begin) * d->head_dim, n_sums, q_floats(d));
        }
    }
    return TS_OK;
}
