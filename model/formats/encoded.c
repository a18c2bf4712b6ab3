/* SPDX-License-Identifier: Apache-2.0 */
/* encoded.c - matrices that stay as their file has them, mapped: a panel of rows is decoded to
 * floats, multiplied while it is in the cache, and forgotten.
 *
 * Memory is read once, in the file's format. */
#include <cblas.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "codes.h"

enum {
    PANEL = 1 << 15, /* floats */
    MOST_ROWS = 64,
    CHUNK = 32,     /* rows of codes that a thread takes at a time */
    SMALL = 1 << 16 /* weights for one thread */
};

static _Thread_local _Alignas(64) float panel[PANEL];

bool ts_encoded_takes(ts_shape s, const ts_tensor *t)
{
    return t->block && t->block->n_bytes < 4 * t->block->n && s.cols && s.cols <= PANEL;
}

size_t ts_encoded_bytes(const ts_encoded *e, ts_shape s)
{
    return (size_t)(s.rows * (s.cols / e->block->n) * e->block->n_bytes);
}

/* Row `to` of a matrix whose channels turn as i and i + half comes from here. */
int64_t ts_paired_row(int64_t to, int64_t head_dim)
{
    const int64_t head = to / head_dim * head_dim, i = to % head_dim, half = head_dim / 2;
    return head + (i < half ? 2 * i : 2 * (i - half) + 1);
}

void ts_encoded_row(const ts_encoded *e, int64_t cols, int64_t row, float *y)
{
    ts_block_row(e->block, ts_encoded_at(e, cols, row), cols, y);
}

static void multiply_panel(const ts_encoded_product *p, int64_t first, int64_t n_row)
{
    const int64_t cols = p->shape.cols;
    float        *y = (float *)p->y + first;
    const float   beta = p->add ? 1 : 0;
    for (int64_t r = 0; p->n == 1 && p->e->block->dot && r < n_row; r++)
        y[r] = (p->add ? y[r] : 0) +
               p->e->block->dot(ts_encoded_at(p->e, cols, first + r), p->x, cols);
    if (p->n == 1 && p->e->block->dot) return;
    for (int64_t r = 0; r < n_row; r++) ts_encoded_row(p->e, cols, first + r, panel + r * cols);
    if (p->n == 1)
        cblas_sgemv(CblasRowMajor, CblasNoTrans, (int)n_row, (int)cols, 1, panel, (int)cols, p->x,
                    1, beta, y, 1);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)p->n, (int)n_row, (int)cols, 1,
                    p->x, (int)cols, panel, (int)cols, beta, y, (int)p->shape.rows);
}

/* Panels do not depend on the number of threads, so neither do results. */
static void multiply_floats(const ts_encoded_product *p, int team)
{
    const int64_t fit = PANEL / p->shape.cols, each = fit < MOST_ROWS ? fit : MOST_ROWS;
    const int64_t n_panel = (p->shape.rows + each - 1) / each;
    ts_blas_threads(0);
#pragma omp parallel for num_threads(team) schedule(static)
    for (int64_t i = 0; i < n_panel; i++) {
        const int64_t first = i * each, left = p->shape.rows - first;
        multiply_panel(p, first, left < each ? left : each);
    }
}

/* Chunk i of the rows of several matrices. */
static void multiply_chunk(const ts_codes *c, const ts_encoded_product *p, const ts_rounded *x,
                           int64_t i)
{
    for (int64_t n; i >= (n = (p->shape.rows + CHUNK - 1) / CHUNK); p++) i -= n;
    const int64_t left = p->shape.rows - i * CHUNK;
    c->multiply(p, x, i * CHUNK, left < CHUNK ? left : CHUNK);
}

static void multiply_codes(const ts_codes *c, const ts_encoded_product *p, int n, void *memory,
                           int team)
{
    const ts_rounded x = ts_rounded_in(memory, p->n, p->shape.cols);
    int64_t          n_chunk = 0;
    for (int i = 0; i < n; i++) n_chunk += (p[i].shape.rows + CHUNK - 1) / CHUNK;
    if (p->n <= 2) c->round(p->x, &x, 0, p->n);
#pragma omp parallel num_threads(team)
    {
        if (p->n > 2) {
#pragma omp for schedule(static)
            for (int64_t i = 0; i < p->n; i += 2) c->round(p->x, &x, i, i + 1 < p->n ? 2 : 1);
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < n_chunk; i++) multiply_chunk(c, p, &x, i);
    }
}

void ts_decoder_exact(ts_decoder *m, bool exact)
{
    m->exact = exact;
}

/* The widest matrix counts. */
size_t ts_encoded_workspace(const ts_decoder *m, int64_t n)
{
    size_t most = 0;
    for (int s = 0; m->n_encoded && !m->exact && s < TS_SLOTS; s++) {
        const ts_shape shape = ts_slot_shape(&m->dims, (ts_slot)s);
        const size_t   bytes = shape.rows ? ts_rounded_bytes(n, shape.cols) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

void ts_encoded_linear(const ts_encoded_product *p, int n, void *rounded, int n_threads)
{
    const int       all = n_threads > 0 ? n_threads : omp_get_max_threads();
    const ts_codes *c = NULL;
    int64_t         n_weight = 0;
    if (!p->n) return;
    for (int i = 0; i < n; i++) {
        n_weight += ts_shape_count(p[i].shape);
        c = rounded ? ts_codes_of(p[i].e->block, p->n) : NULL;
        if (!c) break;
    }
    if (c) multiply_codes(c, p, n, rounded, n_weight < SMALL ? 1 : all);
    else if (n == 1) multiply_floats(p, n_weight < SMALL ? 1 : all);
    else
        for (int i = 0; i < n; i++) ts_encoded_linear(p + i, 1, rounded, n_threads);
}

/* ---- on a CUDA device ---- */

static bool is_half(const ts_encoded *e)
{
    return e->block == ts_block_of(TS_BLOCK_F16) || e->block == ts_block_of(TS_BLOCK_BF16);
}

ts_dtype ts_encoded_dtype(const ts_encoded *e)
{
    return e->block == ts_block_of(TS_BLOCK_F16) ? TS_F16 : TS_BF16;
}

void ts_encoded_half(const ts_decoder *m, const ts_encoded_product *p)
{
    const ts_half_product h = { .dtype = ts_encoded_dtype(p->e),
                                .n_matrix = 1,
                                .w = { p->e->data },
                                .y = { p->y },
                                .n_out = { p->shape.rows },
                                .x = p->x,
                                .n = p->n,
                                .n_in = p->shape.cols,
                                .add = p->add };
    m->ops->linear_half(m->self, &h);
}

/* ---- a whole tensor at once, as plain floats ---- */

/* Does it become floats? Those of 16 bits need not where a CUDA device multiplies them. */
static bool goes(const ts_encoded *e, ts_shape s, bool keep_half)
{
    return e->data && !(keep_half && is_half(e) && s.cols % 8 == 0);
}

static size_t decoded_bytes(ts_shape s)
{
    return ((size_t)ts_shape_count(s) * sizeof(float) + 63) / 64 * 64;
}

static void decode(ts_decoder *m, int64_t at, ts_shape s, float *to)
{
    for (int64_t r = 0; r < s.rows; r++)
        ts_encoded_row(&m->encoded[at], s.cols, r, to + r * s.cols);
    m->n_encoded -= ts_encoded_bytes(&m->encoded[at], s);
    m->weight[at] = to;
    m->encoded[at] = (ts_encoded) { 0 };
}

/* Without memory it only counts. Returns the bytes of what becomes floats. */
static size_t decode_all(ts_decoder *m, bool keep_half, char *memory)
{
    size_t n = 0;
    for (int64_t l = 0; l < m->dims.n_layer; l++)
        for (int s = 0; s < (l ? TS_LAYER_SLOTS : TS_SLOTS); s++) {
            const int64_t  at = ts_slot_at(&m->dims, l, (ts_slot)s);
            const ts_shape shape = ts_slot_shape(&m->dims, (ts_slot)s);
            if (!goes(&m->encoded[at], shape, keep_half)) continue;
            if (memory) decode(m, at, shape, (float *)(void *)(memory + n));
            n += decoded_bytes(shape);
        }
    return n;
}

void ts_decoder_forget_files(ts_decoder *m)
{
    for (int i = 0; i < m->n_file; i++) ts_file_unmap(&m->file[i]);
    free(m->file);
    m->file = NULL;
    m->n_file = 0;
}

bool ts_encoded_decode(ts_decoder *m, bool keep_half, char why[TS_MODEL_WHY])
{
    const size_t more = decode_all(m, keep_half, NULL);
    if (!more) return true;
    char *memory = aligned_alloc(64, m->n_bytes + more);
    if (!memory) return ts_say(why, "out of memory for %zu bytes of weights", m->n_bytes + more);
    memcpy(memory, m->memory, m->n_bytes);
    ts_decoder_rebase(m, memory);
    free(m->memory);
    m->memory = memory;
    m->n_bytes += decode_all(m, keep_half, memory + m->n_bytes);
    if (!m->n_encoded) ts_decoder_forget_files(m);
    return true;
}

bool ts_decoder_decode(ts_decoder *m, char why[TS_MODEL_WHY])
{
    return ts_encoded_decode(m, false, why);
}
