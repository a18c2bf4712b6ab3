/* SPDX-License-Identifier: Apache-2.0 */
/* ops_tmpl.h - ts_ops in the precision of the file that includes it: `real`, GEMM, GEMV and OPS. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "dtype.h"
#include "ops.h"
#include "touchstone/ternary.h"

static void put(void *self, void *to, const void *host, size_t n_bytes)
{
    (void)self;
    if (n_bytes) memcpy(to, host, n_bytes);
}

static void gather_packed(void *self, void *y, const uint8_t *code, const uint16_t *scale,
                          const int32_t *row, int64_t n, int64_t width)
{
    (void)self;
    const int64_t groups = (width + TS_TERNARY_GROUP - 1) / TS_TERNARY_GROUP;
    real         *to = y;
    for (int64_t r = 0; r < n; r++) {
        const uint8_t  *c = code + row[r] * groups * TS_TERNARY_GROUP_BYTES;
        const uint16_t *s = scale + row[r] * groups;
        for (int64_t j = 0; j < width; j++)
            *to++ =
                (real)(((c[j / 4] >> 2 * (j % 4) & 3) - 1) * ts_widen_f16(s[j / TS_TERNARY_GROUP]));
    }
}

static void sum(void *self, void *y, const void *x, const void *bias, int64_t n, int64_t width,
                bool add)
{
    (void)self;
    real       *to = y;
    const real *from = x, *b = bias;
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < width; c++) {
            const int64_t i = r * width + c;
            to[i] = (from ? from[i] : 0) + (b ? b[c] : 0) + (add ? to[i] : 0);
        }
}

static void linear(void *self, void *y, const void *x, const void *w, const void *bias, int64_t n,
                   int64_t n_out, int64_t n_in, bool add)
{
    const int m = (int)n, o = (int)n_out, k = (int)n_in; /* ts_dims_check keeps them small */
    if (!n) return;
    if (bias) sum(self, y, NULL, bias, n, n_out, add); /* for the product to be added to */
    const real beta = add || bias ? 1 : 0;
    ts_blas_threads(n * n_out * n_in);
    if (n == 1) GEMV(CblasRowMajor, CblasNoTrans, o, k, 1, w, k, x, 1, beta, y, 1);
    else GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, m, o, k, 1, x, k, w, k, beta, y, o);
}

static void gelu(void *self, void *up, int64_t n)
{
    (void)self;
    const real c = (real)0.7978845608028654; /* sqrt(2 / pi) */
    real      *u = up;
    for (int64_t i = 0; i < n; i++)
        u[i] = u[i] / 2 * (1 + TANH(c * (u[i] + (real)0.044715 * u[i] * u[i] * u[i])));
}

const ts_ops OPS = {
    .put = put,
    .gather_packed = gather_packed,
    .sum = sum,
    .linear = linear,
    .gelu = gelu,
};
