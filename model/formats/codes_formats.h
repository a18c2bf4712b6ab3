/* SPDX-License-Identifier: Apache-2.0 */
/* codes_formats.h - `multiply` of a ts_codes from `multiply_rows(f, ...)`, which is compiled for
 * each format, in the file that includes this. */
#ifndef TS_MODEL_CODES_FORMATS_H
#define TS_MODEL_CODES_FORMATS_H

#define ROWS_OF(f)                                                                                 \
    static void rows_##f(const ts_encoded_product *p, const ts_rounded *x, int64_t first,          \
                         int64_t n)                                                                \
    {                                                                                              \
        multiply_rows(TS_CODE_##f, p, x, first, n);                                                \
    }
ROWS_OF(Q8_0)
ROWS_OF(Q4_0)
ROWS_OF(Q4_1)
ROWS_OF(Q5_0)
ROWS_OF(Q5_1)
ROWS_OF(Q4_K)
ROWS_OF(Q5_K)
ROWS_OF(Q6_K)
ROWS_OF(TQ2_0)

static void multiply(const ts_encoded_product *p, const ts_rounded *x, int64_t first, int64_t n)
{
    static void (*const of[])(const ts_encoded_product *, const ts_rounded *, int64_t, int64_t) = {
        NULL,      rows_Q8_0, rows_Q4_0, rows_Q4_1, rows_Q5_0,
        rows_Q5_1, rows_Q4_K, rows_Q5_K, rows_Q6_K, rows_TQ2_0,
    };
    of[p->e->block->code](p, x, first, n);
}

#endif
