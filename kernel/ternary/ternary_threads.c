/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_threads.c - divides rows of latents, blocks of outputs and tiles of gradients among
 * threads, and lays out the workspace. */
#include <omp.h>

#include "ternary_impl.h"
#include "threads.h"
#include "whole.h"

enum {
    GROUP = TS_TERNARY_GROUP,
    GROUP_BYTES = TS_TERNARY_GROUP_BYTES,
    SMALL = 1 << 16,  /* weights times rows: fewer are done before a second thread wakes up */
    SHARE = 1 << 18,  /* of a thread in the forward pass: two threads take 1.35 times as long as one
                         for 2^16, as long for 2^18, 0.7 times as long for 2^20 (Xeon, AMX) */
    TABLES = 1 << 20, /* bytes of them that a processor's second cache keeps */
    LINE = 64,        /* bytes, of which tables and sums have whole ones */
};

static int count_threads(const ts_exec *x, double work, int64_t n_pieces)
{
    const int64_t n = ts_threads(x);
    return work < SMALL || n_pieces < 2 ? 1 : (int)ts_lesser(n, n_pieces);
}

static double weights_of(const ts_ternary_linear_dims *d)
{
    return (double)d->n_out * (double)d->n_in;
}

/* A workspace from its first whole line on, handed out in lines. */
static void *take(char **room, size_t n_bytes)
{
    char *const here = *room + (LINE - (uintptr_t)*room % LINE) % LINE;
    *room = here + n_bytes;
    return here;
}

/* ---- pack and unpack ---- */

static size_t code_bytes(const ts_ternary_linear_dims *d)
{
    return (size_t)(d->n_out * ts_ternary_groups(d->n_in) * GROUP_BYTES);
}

static size_t scale_bytes(const ts_ternary_linear_dims *d)
{
    return code_bytes(d) / GROUP_BYTES * sizeof(uint16_t);
}

static size_t packed_bytes(const ts_ternary_linear_dims *d)
{
    return code_bytes(d) + scale_bytes(d) + 2 * LINE;
}

/* False where a group is out of range. */
static bool pack_rows(const ts_ternary_linear_dims *d, const ts_exec *x,
                      const ts_ternary_steps *steps, const float *w, uint8_t *code, uint16_t *scale)
{
    const int64_t n_groups = ts_ternary_groups(d->n_in);
    const int     n_threads = count_threads(x, weights_of(d), d->n_out);
    bool          sound = true;
#pragma omp parallel for num_threads(n_threads) schedule(static) reduction(&& : sound)
    for (int64_t o = 0; o < d->n_out; o++)
        sound = steps->pack(w + o * d->n_in, d->n_in, code + o * n_groups * GROUP_BYTES,
                            scale + o * n_groups) &&
                sound;
    return sound;
}

ts_status ts_ternary_threads_pack_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    (void)x;
    *n_bytes = packed_bytes(&((const ts_ternary_pack_args *)args)->d);
    return TS_OK;
}

/* By way of the workspace: a sixteenth of the latents is written twice, where looking for what is
 * out of range beforehand would read all of them twice. */
ts_status ts_ternary_threads_pack(const void *args, const ts_exec *x, const ts_ternary_steps *steps)
{
    const ts_ternary_pack_args *a = args;
    char                       *room = x->workspace;
    uint8_t *const              code = take(&room, code_bytes(&a->d));
    uint16_t *const             scale = take(&room, scale_bytes(&a->d));
    if (a->d.n_out == 0 || a->d.n_in == 0) return TS_OK;
    if (!pack_rows(&a->d, x, steps, a->w, code, scale)) return TS_E_RANGE;
    memcpy(a->code, code, code_bytes(&a->d));
    memcpy(a->scale, scale, scale_bytes(&a->d));
    return TS_OK;
}

ts_status ts_ternary_threads_unpack(const void *args, const ts_exec *x,
                                    const ts_ternary_steps *steps)
{
    const ts_ternary_unpack_args *a = args;
    const ts_ternary_matrix       m = ts_ternary_matrix_of(&a->d, a->code, a->scale);
    const int                     n_threads = count_threads(x, weights_of(&a->d), m.n_out);
    if (!ts_ternary_sound(&m)) return TS_E_FORMAT;
    if (m.n_in == 0) return TS_OK;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t o = 0; o < m.n_out; o++) steps->unpack(&m, o, a->wt + o * m.n_in);
    return TS_OK;
}

/* ---- forward ---- */

typedef struct forward {
    const ts_ternary_linear_dims *d;
    const ts_ternary_steps       *steps;
    ts_ternary_matrix             m;
    const void                   *in;
    void                         *y;
    float                        *room; /* tables, then sums, of the rows that are multiplied */
    int                           n_threads;
} forward;

static int64_t table_floats(const ts_ternary_linear_dims *d, const ts_ternary_steps *steps)
{
    return ts_ternary_groups(d->n_in) * steps->table;
}

static int64_t sum_floats(const ts_ternary_linear_dims *d)
{
    return ts_ceil_div(d->n_out, TS_TERNARY_BLOCK) * TS_TERNARY_BLOCK;
}

/* Rows of `in` together: what their tables leave room for. It changes no bit. */
static int64_t count_rows(const ts_ternary_linear_dims *d, const ts_ternary_steps *steps)
{
    const int64_t each = table_floats(d, steps) * (int64_t)sizeof(float);
    const int64_t room = each > 0 ? TABLES / each : steps->rows;
    return ts_lesser(d->n_rows, room < 1 ? 1 : ts_lesser(room, steps->rows));
}

/* Of tables and sums, whichever steps the rows suit. */
static int64_t forward_floats(const ts_ternary_linear_dims *d, const ts_ternary_steps *steps)
{
    const int64_t each = count_rows(d, steps) * (table_floats(d, steps) + sum_floats(d));
    return steps->others ? ts_greater(each, forward_floats(d, steps->others)) : each;
}

static size_t forward_bytes(const ts_ternary_linear_dims *d, const ts_ternary_steps *steps)
{
    return (size_t)forward_floats(d, steps) * sizeof(float) + 2 * LINE;
}

/* Above this, sums of a group could exceed the largest float although the result, times a scale,
 * would not. Dividing by a power of two loses nothing that matters for such a number. */
static float shrink_of(const forward *f, int64_t row)
{
    const float most = f->steps->largest(f->in, f->d->dtype, row * f->d->n_in, f->d->n_in);
    return most >= 0x1p110f ? 0x1p-20f : 1;
}

static float *sums_of(const forward *f, const ts_ternary_steps *steps, int64_t n_rows)
{
    return f->room + n_rows * table_floats(f->d, steps);
}

/* Sums of these rows, or 0 where there are no inputs; true where all are finite. */
static bool multiply(const forward *f, const ts_ternary_steps *steps, const ts_ternary_rows *rows)
{
    const int64_t n_groups = f->m.n_groups, n_blocks = ts_ceil_div(f->d->n_out, TS_TERNARY_BLOCK);
    const int64_t stride = sum_floats(f->d);
    float *const  sums = sums_of(f, steps, rows->n);
    bool          finite = true;
    if (n_groups == 0) {
        memset(sums, 0, (size_t)(rows->n * stride) * sizeof *sums);
        return true;
    }
#pragma omp parallel num_threads(f->n_threads)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows->n * n_groups; i++)
            steps->tabulate(rows, (int)(i / n_groups), i % n_groups);
#pragma omp for schedule(static) reduction(&& : finite)
        for (int64_t i = 0; i < n_blocks; i++)
            finite = steps->multiply(&f->m, i * TS_TERNARY_BLOCK, rows->n, rows->table,
                                     sums + i * TS_TERNARY_BLOCK, stride) &&
                     finite;
    }
    return finite;
}

/* Reading and storing rows is less work than multiplying them. */
static int row_threads(const forward *f, int64_t n_rows)
{
    return n_rows * (f->d->n_in + f->d->n_out) < SMALL ? 1 : (int)ts_lesser(n_rows, f->n_threads);
}

static const ts_ternary_steps *steps_of(const forward *f, int64_t row)
{
    const ts_ternary_steps *s = f->steps;
    const int64_t           n_in = f->d->n_in;
    return !s->suits || s->suits(f->in, f->d->dtype, row * n_in, n_in) ? s : s->others;
}

/* Rows from `row` on, as many as take the same steps and have room, with what each is shrunk by. */
static ts_ternary_rows rows_from(const forward *f, int64_t row, const ts_ternary_steps **steps,
                                 float *shrink)
{
    const ts_ternary_linear_dims *d = f->d;
    const ts_ternary_steps       *all[TS_TERNARY_ROWS];
    int64_t n = ts_lesser(count_rows(d, f->steps), d->n_rows - row), alike = 1;
#pragma omp parallel for num_threads(row_threads(f, n)) schedule(static)
    for (int64_t r = 0; r < n; r++)
        shrink[r] = shrink_of(f, row + r), all[r] = steps_of(f, row + r);
    *steps = all[0];
    n = ts_lesser(n, count_rows(d, *steps));
    while (alike < n && all[alike] == *steps) alike++;
    return (ts_ternary_rows) { f->in, d->dtype, d->n_in, row, (int)alike, shrink, f->room };
}

/* The first rows meet every code and every scale, and what is unsound among those is noticed or
 * makes a sum that is not finite: so nothing has been written yet when it is found. */
static ts_status run_forward(const forward *f, bool examine)
{
    const ts_ternary_linear_dims *d = f->d;
    if (d->n_rows == 0 && examine && !ts_ternary_sound(&f->m)) return TS_E_FORMAT;
    for (int64_t row = 0, n; row < d->n_rows; row += n) {
        const ts_ternary_steps *steps;
        float                   shrink[TS_TERNARY_ROWS];
        const ts_ternary_rows   rows = rows_from(f, row, &steps, shrink);
        const bool              finite = multiply(f, steps, &rows);
        n = rows.n;
        if (row == 0 && examine && !finite && !ts_ternary_sound(&f->m)) return TS_E_FORMAT;
#pragma omp parallel for num_threads(row_threads(f, n)) schedule(static)
        for (int64_t r = 0; r < (d->n_out > 0 ? n : 0); r++)
            steps->store(sums_of(f, steps, n) + r * sum_floats(d), d->n_out, 1 / shrink[r], f->y,
                         d->dtype, (row + r) * d->n_out);
    }
    return TS_OK;
}

static forward forward_of(const ts_ternary_linear_dims *d, const ts_exec *x,
                          const ts_ternary_steps *steps, ts_ternary_matrix m, const void *in,
                          void *y, char *room)
{
    const double work = weights_of(d) * (double)count_rows(d, steps), most = work / SHARE;
    const int    n = count_threads(x, work, ts_ceil_div(d->n_out, TS_TERNARY_BLOCK));
    return (forward) { d, steps, m, in, y, take(&room, 0), n > most ? 1 + (int)most : n };
}

ts_status ts_ternary_threads_packed_workspace(const void *args, const ts_ternary_steps *steps,
                                              size_t *n_bytes)
{
    *n_bytes = forward_bytes(&((const ts_ternary_linear_packed_args *)args)->d, steps);
    return TS_OK;
}

ts_status ts_ternary_threads_packed(const void *args, const ts_exec *x,
                                    const ts_ternary_steps *steps)
{
    const ts_ternary_linear_packed_args *a = args;
    const ts_ternary_matrix              m = ts_ternary_matrix_of(&a->d, a->code, a->scale);
    const forward f = forward_of(&a->d, x, steps, m, a->in, a->y, x->workspace);
    return run_forward(&f, true);
}

ts_status ts_ternary_threads_linear_workspace(const void *args, const ts_ternary_steps *steps,
                                              size_t *n_bytes)
{
    const ts_ternary_linear_dims *d = &((const ts_ternary_linear_args *)args)->d;
    *n_bytes = packed_bytes(d) + forward_bytes(d, steps);
    return TS_OK;
}

ts_status ts_ternary_threads_linear(const void *args, const ts_exec *x,
                                    const ts_ternary_steps *steps)
{
    const ts_ternary_linear_args *a = args;
    char                         *room = x->workspace;
    uint8_t *const                code = take(&room, code_bytes(&a->d));
    uint16_t *const               scale = take(&room, scale_bytes(&a->d));
    if (a->d.n_in > 0 && !pack_rows(&a->d, x, steps, a->w, code, scale)) return TS_E_RANGE;
    const ts_ternary_matrix m = ts_ternary_matrix_of(&a->d, code, scale);
    const forward           f = forward_of(&a->d, x, steps, m, a->in, a->y, room);
    return run_forward(&f, false);
}

/* ---- backward ---- */

static int64_t backward_pieces(const ts_ternary_linear_dims *d)
{
    const int64_t tiles =
        ts_ceil_div(d->n_rows, TS_TERNARY_TILE) + ts_ceil_div(d->n_out, TS_TERNARY_TILE);
    return tiles * ts_ternary_groups(d->n_in);
}

static int backward_threads(const ts_ternary_linear_dims *d, const ts_exec *x)
{
    return count_threads(x, weights_of(d) * (double)d->n_rows, backward_pieces(d));
}

ts_status ts_ternary_threads_backward_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_ternary_linear_dims *d = &((const ts_ternary_linear_backward_args *)args)->d;
    *n_bytes = packed_bytes(d) + (size_t)backward_threads(d, x) * sizeof(ts_ternary_scratch) + LINE;
    return TS_OK;
}

ts_status ts_ternary_threads_backward(const void *args, const ts_exec *x,
                                      const ts_ternary_steps *steps)
{
    const ts_ternary_linear_backward_args *a = args;
    const ts_ternary_linear_dims          *d = &a->d;
    const int64_t                          n_groups = ts_ternary_groups(d->n_in);
    const int64_t             dx_tiles = ts_ceil_div(d->n_rows, TS_TERNARY_TILE) * n_groups;
    const int64_t             n_outs = TS_TERNARY_TILE * steps->dw_tiles;
    const int64_t             dw_tiles = ts_ceil_div(d->n_out, n_outs) * n_groups;
    const int                 n_threads = backward_threads(d, x);
    char                     *room = x->workspace;
    uint8_t *const            code = take(&room, code_bytes(d));
    uint16_t *const           scale = take(&room, scale_bytes(d));
    ts_ternary_scratch *const scratch = take(&room, (size_t)n_threads * sizeof *scratch);
    if (d->n_in == 0) return TS_OK;
    if (!pack_rows(d, x, steps, a->w, code, scale)) return TS_E_RANGE;
    const ts_ternary_matrix m = ts_ternary_matrix_of(d, code, scale);
#pragma omp parallel num_threads(n_threads)
    {
        ts_ternary_scratch *const mine = scratch + omp_get_thread_num();
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < dx_tiles; i++)
            steps->dx(a, &m, i / n_groups * TS_TERNARY_TILE, i % n_groups, mine);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < dw_tiles; i++)
            steps->dw(a, i / n_groups * n_outs, i % n_groups, mine);
    }
    return TS_OK;
}
