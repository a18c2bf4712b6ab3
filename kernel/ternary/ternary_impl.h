/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_impl.h - the implementations, and what those for the CPU share. Private.
 *
 * Every implementation may rely on what ternary_check.c validated: no product of extents overflows,
 * and every tensor that has elements has a pointer aligned to its element. n_out, n_in and n_rows
 * may each be 0: with n_in = 0 y is still written, with n_rows = 0 dw. The workspace has the size
 * that the implementation's own query returned, and any alignment. An implementation itself must
 * check latents for range, and codes for validity, before it writes. */
#ifndef TS_TERNARY_IMPL_H
#define TS_TERNARY_IMPL_H

#include <stdbool.h>
#include <string.h>

#include "impl.h"
#include "touchstone/ternary.h"

extern const ts_impl ts_ternary_pack_impls[], ts_ternary_unpack_impls[], ts_ternary_linear_impls[],
    ts_ternary_linear_packed_impls[], ts_ternary_linear_backward_impls[];

ts_status ts_ternary_pack_check(const ts_ternary_pack_args *a, const ts_exec *x);
ts_status ts_ternary_unpack_check(const ts_ternary_unpack_args *a, const ts_exec *x);
ts_status ts_ternary_linear_check(const ts_ternary_linear_args *a, const ts_exec *x);
ts_status ts_ternary_linear_packed_check(const ts_ternary_linear_packed_args *a, const ts_exec *x);
ts_status ts_ternary_linear_backward_check(const ts_ternary_linear_backward_args *a,
                                           const ts_exec                         *x);

TS_DECLARE_IMPLS(ts_ternary_pack)

TS_DECLARE_IMPLS(ts_ternary_unpack)

TS_DECLARE_IMPLS(ts_ternary_linear)
TS_DECLARE_SIZES(ts_ternary_linear)

TS_DECLARE_IMPLS(ts_ternary_linear_packed)
TS_DECLARE_SIZES(ts_ternary_linear_packed)

TS_DECLARE_IMPLS(ts_ternary_linear_backward)

ts_status ts_ternary_linear_amx(const void *args, const ts_exec *x);
ts_status ts_ternary_linear_workspace_amx(const void *args, const ts_exec *x, size_t *n_bytes);
ts_status ts_ternary_linear_packed_amx(const void *args, const ts_exec *x);
ts_status ts_ternary_linear_packed_workspace_amx(const void *args, const ts_exec *x,
                                                 size_t *n_bytes);

/* ---- the definition, group by group ---- */

static inline int64_t ts_ternary_groups(int64_t n_in)
{
    return n_in / TS_TERNARY_GROUP + (n_in % TS_TERNARY_GROUP != 0);
}

/* How many weights group g of a row has. */
static inline int64_t ts_ternary_width(int64_t n_in, int64_t g)
{
    return n_in - g * TS_TERNARY_GROUP < TS_TERNARY_GROUP ? n_in - g * TS_TERNARY_GROUP
                                                          : TS_TERNARY_GROUP;
}

/* The scale of n >= 1 latents, as f16: that of infinity where it is out of range. */
uint16_t ts_ternary_scale(const float *w, int64_t n);

/* A matrix as codes and scales. */
typedef struct ts_ternary_matrix {
    int64_t         n_out, n_in, n_groups;
    const uint8_t  *code;
    const uint16_t *scale;
} ts_ternary_matrix;

static inline ts_ternary_matrix ts_ternary_matrix_of(const ts_ternary_linear_dims *d,
                                                     const uint8_t *code, const uint16_t *scale)
{
    return (ts_ternary_matrix) { d->n_out, d->n_in, ts_ternary_groups(d->n_in), code, scale };
}

/* Is no code point 3, and every scale finite? */
bool ts_ternary_sound(const ts_ternary_matrix *m);

/* ---- the CPU's vector implementations: work items divided among threads ---- */

enum {
    TS_TERNARY_ROWS = 128, /* of `in` that any width of vector multiplies together, at most */
    TS_TERNARY_TILE = 64,  /* of the backward products: sums that are made, and terms of each */
    TS_TERNARY_BLOCK = 64, /* outputs together: a multiple of what any width of vector takes */
};

/* One tile of a backward product: left [TILE][TILE], right and sum [TILE][GROUP]. */
typedef struct ts_ternary_scratch {
    float left[TS_TERNARY_TILE * TS_TERNARY_TILE], right[TS_TERNARY_TILE * TS_TERNARY_GROUP],
        sum[TS_TERNARY_TILE * TS_TERNARY_GROUP];
} ts_ternary_scratch;

/* Rows of `in` that are multiplied together, and the tables that they are turned into. */
typedef struct ts_ternary_rows {
    const void  *in;
    ts_dtype     dtype;
    int64_t      n_in, first;
    int          n;
    const float *shrink; /* what each is multiplied by */
    float       *table;
} ts_ternary_rows;

/* What an instruction set supplies. No sum's order depends on how work is cut, so no bit of a
 * result depends on the number of threads. */
typedef struct ts_ternary_steps {
    int64_t table;    /* floats that a group of a row is turned into, for `multiply` */
    int64_t rows;     /* of `in` that `multiply` takes together, at most */
    int64_t dw_tiles; /* of outputs that one call of `dw` makes */
    /* One row of latents; false, and anything written, where a group is out of range. */
    bool (*pack)(const float *w, int64_t n_in, uint8_t *code, uint16_t *scale);
    void (*unpack)(const ts_ternary_matrix *m, int64_t out, float *wt);
    /* The largest magnitude among n elements. NaN does not count. */
    float (*largest)(const void *in, ts_dtype t, int64_t at, int64_t n);
    /* Can `multiply` take this row, of n elements? NULL: it takes all. */
    bool (*suits)(const void *in, ts_dtype t, int64_t at, int64_t n);
    const struct ts_ternary_steps *others; /* for rows that it does not take */
    /* Row r of these, its group g, into its place in the tables. */
    void (*tabulate)(const ts_ternary_rows *rows, int r, int64_t g);
    /* y[r][o] for a block of outputs from `out` on and n_rows rows; true where all are finite and
     * no code point was 3. y has room for the whole block. */
    bool (*multiply)(const ts_ternary_matrix *m, int64_t out, int n_rows, const float *table,
                     float *y, int64_t y_stride);
    /* n floats, times `scale`, to elements from `at` on. */
    void (*store)(const float *from, int64_t n, float scale, void *to, ts_dtype t, int64_t at);
    /* dx of group g and rows from `row` on, TILE at most; dw of group g and outputs from `out` on,
     * dw_tiles tiles at most. */
    void (*dx)(const ts_ternary_linear_backward_args *a, const ts_ternary_matrix *m, int64_t row,
               int64_t g, ts_ternary_scratch *s);
    void (*dw)(const ts_ternary_linear_backward_args *a, int64_t out, int64_t g,
               ts_ternary_scratch *s);
} ts_ternary_steps;

ts_status ts_ternary_threads_pack(const void *args, const ts_exec *x, const ts_ternary_steps *s);
ts_status ts_ternary_threads_pack_workspace(const void *args, const ts_exec *x, size_t *n_bytes);
ts_status ts_ternary_threads_unpack(const void *args, const ts_exec *x, const ts_ternary_steps *s);
ts_status ts_ternary_threads_linear(const void *args, const ts_exec *x, const ts_ternary_steps *s);
ts_status ts_ternary_threads_linear_workspace(const void *args, const ts_ternary_steps *s,
                                              size_t *n_bytes);
ts_status ts_ternary_threads_packed(const void *args, const ts_exec *x, const ts_ternary_steps *s);
ts_status ts_ternary_threads_packed_workspace(const void *args, const ts_ternary_steps *s,
                                              size_t *n_bytes);
ts_status ts_ternary_threads_backward(const void *args, const ts_exec *x,
                                      const ts_ternary_steps *s);
ts_status ts_ternary_threads_backward_workspace(const void *args, const ts_exec *x,
                                                size_t *n_bytes);

#endif
