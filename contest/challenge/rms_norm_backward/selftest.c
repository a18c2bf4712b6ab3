/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for rms_norm_backward against the definition in double. */
#include "selftest.h"
#include "touchstone/rms_norm.h"

static double rhat(const ts_rms_norm_backward_args *a, int64_t row, int64_t c)
{
    return get(a->r, a->dtype, row * a->row_stride + c) * ((const float *)a->rstd)[row];
}

static double dy(const ts_rms_norm_backward_args *a, int64_t row, int64_t c)
{
    return get(a->dy, a->dtype, row * a->row_stride + c);
}

static double g(const ts_rms_norm_backward_args *a, int64_t row, int64_t c)
{
    return dy(a, row, c) * (get(a->w, a->dtype, c) + a->w_offset);
}

static void check_row(const char *name, const ts_rms_norm_backward_args *a, int64_t row)
{
    const double n = (double)a->n_cols, rstd = ((const float *)a->rstd)[row];
    const double u = a->dtype == TS_F32 ? 1e-5 : 4e-3;
    double       avg = 0, size = 0;
    for (int64_t c = 0; c < a->n_cols; c++) {
        avg += g(a, row, c) * rhat(a, row, c) / n;
        size += fabs(g(a, row, c) * rhat(a, row, c)) / n;
    }
    for (int64_t c = 0; c < a->n_cols; c++) {
        const int64_t at = row * a->row_stride + c;
        const double  dr = a->dr ? get(a->dr, a->dtype, at) : 0, x = rhat(a, row, c);
        const double  dx = rstd * (g(a, row, c) - x * avg) + dr;
        compare(name, "dx", at, get(a->dx, a->dtype, at), dx,
                u * fabs(dx) + 1e-5 * (rstd * (fabs(g(a, row, c)) + fabs(x) * size) + fabs(dr)));
    }
}

/* `before` is what dw held, all of it the same number. */
static void check_columns(const char *name, const ts_rms_norm_backward_args *a, double before)
{
    for (int64_t c = 0; c < a->n_cols; c++) {
        double dw = before, size = fabs(before);
        for (int64_t row = 0; row < a->n_rows; row++) {
            dw += dy(a, row, c) * rhat(a, row, c);
            size += fabs(dy(a, row, c) * rhat(a, row, c));
        }
        compare(name, "dw", c, ((float *)a->dw)[c], dw, 1e-5 * size);
    }
}

static void run(ts_dtype t, int64_t rows, int64_t cols, int flags)
{
    const int64_t stride = cols + 3;
    const int     w_offset = flags & 1, accumulate = flags >> 1 & 1, has_dr = flags >> 2;
    char          name[128];
    ts_exec       e = test_exec();
    void         *r = fresh(rows * stride), *d = fresh(rows * stride), *dr = fresh(rows * stride);
    void         *w = fresh(cols);
    float        *rstd = fresh(rows), *dw = fresh(cols);
    ts_rms_norm_backward_args a = {
        t, w_offset, accumulate,           rows, cols, stride, r, d, has_dr ? dr : NULL,
        w, rstd,     fresh(rows * stride), dw
    };
    for (int64_t i = 0; i < rows; i++) {
        double square = 0;
        for (int64_t c = 0; c < cols; c++) {
            set(r, t, i * stride + c, draw());
            set(d, t, i * stride + c, draw());
            set(dr, t, i * stride + c, draw());
            square += pow(get(r, t, i * stride + c), 2) / (double)cols;
        }
        rstd[i] = (float)(1 / sqrt(square + 1e-6));
    }
    for (int64_t c = 0; c < cols; c++) set(w, t, c, c % 3 ? draw() : 0);
    for (int64_t c = 0; c < cols && accumulate; c++) dw[c] = 2;
    snprintf(name, sizeof name, "%s rows=%lld cols=%lld w_offset=%d accumulate=%d dr=%d",
             t == TS_F32 ? "f32" : "bf16", (long long)rows, (long long)cols, w_offset, accumulate,
             has_dr);
    begin_case();
    const ts_status s = finish(ts_rms_norm_backward(&a, &e));
    if (s != TS_OK) flaw(name, "status", 0, s, TS_OK);
    for (int64_t i = 0; i < rows && s == TS_OK; i++) check_row(name, &a, i);
    if (s == TS_OK) check_columns(name, &a, accumulate ? 2 : 0);
    drop_all();
}

int main(void)
{
    static const int64_t shape[][2] = { { 0, 16 },  { 1, 1 },    { 3, 2 },   { 5, 7 },
                                        { 17, 33 }, { 2, 1025 }, { 300, 64 } };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int flags = 0; flags < 8; flags++) {
            run(TS_F32, shape[i][0], shape[i][1], flags);
            run(TS_BF16, shape[i][0], shape[i][1], flags);
        }
    float                     x[4] = { 0 }, y[4], sums[4];
    ts_exec                   e = test_exec();
    ts_rms_norm_backward_args a = { TS_F32, 0, 0, 1, 4, 4, x, x, NULL, x, x, y, sums }, b = a;
    b.dw = NULL;
    refused("no dw", ts_rms_norm_backward(&b, &e), TS_E_ARG);
    b = a, b.accumulate = 2;
    refused("accumulate twice", ts_rms_norm_backward(&b, &e), TS_E_ARG);
    b = a, b.w_offset = -1;
    refused("w_offset -1", ts_rms_norm_backward(&b, &e), TS_E_ARG);
    b = a, b.n_cols = 0;
    refused("no columns", ts_rms_norm_backward(&b, &e), TS_E_SHAPE);
    b = a, b.dtype = TS_U8;
    refused("bytes", ts_rms_norm_backward(&b, &e), TS_E_DTYPE);
    return verdict();
}
