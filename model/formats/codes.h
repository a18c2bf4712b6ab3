/* SPDX-License-Identifier: Apache-2.0 */
/* codes.h - products of encoded matrices without making them floats: activations become integers of
 * 15 bits, in groups of 32 with a scale each, and codes are multiplied with their two bytes.
 *
 *     w = d u + m,  x = s (128 h + l):  w . x = sum over groups of
 *         d s (128 (u . h) + u . l) + m s (sum of 128 h + l)
 *
 * Each x is then off by at most s / 2, which is 2^-15 of the largest of its group. Sums within a
 * group are exact. */
#ifndef TS_MODEL_CODES_H
#define TS_MODEL_CODES_H

#include "model_impl.h"

/* A group, and the largest integer: 127 * 128 + 63. */
enum { TS_CODE_GROUP = 32, TS_CODE_MOST = 16319 };

/* n rows of activations, in memory that the caller has, in the order that an implementation wants:
 * two bytes of each, and of each group a scale, and that times the sum of its integers. */
typedef struct ts_rounded {
    int64_t n, cols;
    int8_t *code;
    float  *scale, *sum;
} ts_rounded;

/* What an instruction set has. */
typedef struct ts_codes {
    unsigned needs;   /* bits of cpu.h */
    int64_t  n_least; /* rows of activations from which on it is the best */
    /* Rows first .. first + n of x; first is even. */
    void (*round)(const float *x, const ts_rounded *to, int64_t first, int64_t n);
    /* Rows first .. first + n of the matrix, all rows of x. */
    void (*multiply)(const ts_encoded_product *p, const ts_rounded *x, int64_t first, int64_t n);
} ts_codes;

extern const ts_codes ts_codes_i8mm, ts_codes_few_i8mm, ts_codes_dotprod, ts_codes_vnni,
    ts_codes_avx2;

/* The one for a format and n rows of activations; NULL if this CPU has none. */
const ts_codes *ts_codes_of(const ts_block *b, int64_t n);
size_t          ts_rounded_bytes(int64_t n, int64_t cols);
ts_rounded      ts_rounded_in(void *memory, int64_t n, int64_t cols);

static inline const unsigned char *ts_encoded_at(const ts_encoded *e, int64_t cols, int64_t row)
{
    const int64_t from = e->head_dim ? ts_paired_row(row, e->head_dim) : row;
    return e->data + from * (cols / e->block->n) * e->block->n_bytes;
}

#endif
