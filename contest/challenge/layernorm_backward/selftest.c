/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for layernorm_backward against the definition in double. */
#include "selftest.h"
#include "touchstone/layernorm.h"

static double xhat(const ts_layernorm_backward_args *a, int64_t r, int64_t c)
{
    const double mean = ((const float *)a->mean)[r], rstd = ((const float *)a->rstd)[r];
    return (get(a->x, a->dtype, r * a->row_stride + c) - mean) * rstd;
}

static double dy(const ts_layernorm_backward_args *a, int64_t r, int64_t c)
{
    return get(a->dy, a->dtype, r * a->row_stride + c);
}

static void check_row(const char *name, const ts_layernorm_backward_args *a, int64_t r)
{
    const double n = (double)a->n_cols, rstd = ((const float *)a->rstd)[r];
    const double u = a->dtype == TS_F32 ? 1e-5 : 4e-3;
    double       g_sum = 0, gx_sum = 0, size = 0;
    for (int64_t c = 0; c < a->n_cols; c++) {
        const double g = get(a->gamma, a->dtype, c) * dy(a, r, c);
        g_sum += g;
        gx_sum += g * xhat(a, r, c);
        size += (fabs(g) + fabs(g * xhat(a, r, c))) / n;
    }
    for (int64_t c = 0; c < a->n_cols; c++) {
        const int64_t at = r * a->row_stride + c;
        const double  g = get(a->gamma, a->dtype, c) * dy(a, r, c), x = xhat(a, r, c);
        compare(name, "dx", at, get(a->dx, a->dtype, at), rstd * (g - g_sum / n - x * gx_sum / n),
                u * rstd * (fabs(g) + size * (1 + fabs(x))));
    }
}

/* `before` is what dgamma and dbeta held, all of it the same number. */
static void check_columns(const char *name, const ts_layernorm_backward_args *a, double before)
{
    for (int64_t c = 0; c < a->n_cols; c++) {
        double g = before, b = before, size = fabs(before);
        for (int64_t r = 0; r < a->n_rows; r++) {
            g += dy(a, r, c) * xhat(a, r, c);
            b += dy(a, r, c);
            size += fabs(dy(a, r, c)) * (1 + fabs(xhat(a, r, c)));
        }
        compare(name, "dgamma", c, ((float *)a->dgamma)[c], g, 1e-5 * size);
        compare(name, "dbeta", c, ((float *)a->dbeta)[c], b, 1e-5 * size);
    }
}

static void fill(const ts_layernorm_backward_args *a, void *x, void *d, float *mean, float *rstd)
{
    for (int64_t r = 0; r < a->n_rows; r++) {
        double m = 0, v = 0;
        for (int64_t c = 0; c < a->n_cols; c++) {
            set(x, a->dtype, r * a->row_stride + c, 10 + draw());
            set(d, a->dtype, r * a->row_stride + c, draw());
            m += get(x, a->dtype, r * a->row_stride + c) / (double)a->n_cols;
        }
        for (int64_t c = 0; c < a->n_cols; c++)
            v += pow(get(x, a->dtype, r * a->row_stride + c) - m, 2) / (double)a->n_cols;
        mean[r] = (float)m;
        rstd[r] = (float)(1 / sqrt(v + 1e-5));
    }
}

static void run(ts_dtype t, int64_t rows, int64_t cols, int accumulate)
{
    const int64_t stride = cols + 3;
    char          name[128];
    ts_exec       e = test_exec();
    void         *x = fresh(rows * stride), *d = fresh(rows * stride), *gamma = fresh(cols);
    float *mean = fresh(rows), *rstd = fresh(rows), *dgamma = fresh(cols), *dbeta = fresh(cols);
    ts_layernorm_backward_args a = {
        t,    accumulate,           rows,   cols, stride, x, d, gamma, mean,
        rstd, fresh(rows * stride), dgamma, dbeta
    };
    fill(&a, x, d, mean, rstd);
    for (int64_t c = 0; c < cols; c++) set(gamma, t, c, draw());
    for (int64_t c = 0; c < cols && accumulate; c++) dgamma[c] = dbeta[c] = 2;
    snprintf(name, sizeof name, "%s rows=%lld cols=%lld accumulate=%d",
             t == TS_F32 ? "f32" : "bf16", (long long)rows, (long long)cols, accumulate);
    begin_case();
    const ts_status s = finish(ts_layernorm_backward(&a, &e));
    if (s != TS_OK) flaw(name, "status", 0, s, TS_OK);
    for (int64_t r = 0; r < rows && s == TS_OK; r++) check_row(name, &a, r);
    if (s == TS_OK) check_columns(name, &a, accumulate ? 2 : 0);
    drop_all();
}

int main(void)
{
    static const int64_t shape[][2] = { { 0, 16 },  { 1, 1 },    { 3, 2 },   { 5, 7 },
                                        { 17, 33 }, { 2, 1025 }, { 300, 64 } };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            run(TS_F32, shape[i][0], shape[i][1], accumulate);
            run(TS_BF16, shape[i][0], shape[i][1], accumulate);
        }
    float                      x[4] = { 0 }, y[4], sums[2][4];
    ts_exec                    e = test_exec();
    ts_layernorm_backward_args a = { TS_F32, 0, 1, 4, 4, x, x, x, x, x, y, sums[0], sums[1] },
                               b = a;
    b.dgamma = NULL;
    refused("no dgamma", ts_layernorm_backward(&b, &e), TS_E_ARG);
    b = a, b.accumulate = 2;
    refused("accumulate twice", ts_layernorm_backward(&b, &e), TS_E_ARG);
    b = a, b.n_cols = 0;
    refused("no columns", ts_layernorm_backward(&b, &e), TS_E_SHAPE);
    b = a, b.dtype = TS_U8;
    refused("bytes", ts_layernorm_backward(&b, &e), TS_E_DTYPE);
    return verdict();
}
