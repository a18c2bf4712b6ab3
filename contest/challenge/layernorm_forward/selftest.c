/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for layernorm_forward against the definition in double. */
#include "selftest.h"
#include "touchstone/layernorm.h"

typedef enum family { NORMAL, OFFSET, CONSTANT, HUGE_ONES, NONFINITE } family;

static const char *const family_name[] = { "normal", "offset", "constant", "huge", "nonfinite" };

static double element(family f, int64_t r, int64_t c)
{
    if (f == OFFSET) return 1000 + draw();
    if (f == CONSTANT) return 3;
    if (f == HUGE_ONES) return 1e30 * draw();
    return f == NONFINITE && r == 0 && c == 0 ? INFINITY : draw();
}

static void check_row(const char *name, const ts_layernorm_forward_args *a, int64_t r)
{
    const double n = (double)a->n_cols, u = a->dtype == TS_F32 ? 1e-6 : 4e-3;
    double       mean = 0, v = 0, largest = 0;
    for (int64_t c = 0; c < a->n_cols; c++) {
        mean += get(a->x, a->dtype, r * a->row_stride + c) / n;
        largest = fmax(largest, fabs(get(a->x, a->dtype, r * a->row_stride + c)));
    }
    for (int64_t c = 0; c < a->n_cols; c++)
        v += pow(get(a->x, a->dtype, r * a->row_stride + c) - mean, 2) / n;
    const double rstd = 1 / sqrt(v + a->eps), off = 1e-6 * largest * rstd;
    if (isfinite(largest)) {
        compare(name, "mean", r, ((float *)a->mean)[r], mean, 1e-6 * largest);
        compare(name, "rstd", r, ((float *)a->rstd)[r], rstd, rstd * (1e-5 + off * off));
    }
    for (int64_t c = 0; c < a->n_cols; c++) {
        const int64_t at = r * a->row_stride + c;
        const double  gamma = get(a->gamma, a->dtype, c), beta = get(a->beta, a->dtype, c);
        const double  xhat = (get(a->x, a->dtype, at) - mean) * rstd;
        const double  bound = fabs(gamma) * (off + (u + 1e-5) * (1 + fabs(xhat))) + u * fabs(beta);
        compare(name, "y", at, get(a->y, a->dtype, at),
                isfinite(largest) ? gamma * xhat + beta : NAN, bound);
    }
}

static void run(ts_dtype t, int64_t rows, int64_t cols, family f)
{
    const int64_t             stride = cols + 3;
    char                      name[128];
    ts_exec                   e = test_exec();
    void                     *x = fresh(rows * stride), *gamma = fresh(cols), *beta = fresh(cols);
    ts_layernorm_forward_args a = { t,
                                    rows,
                                    cols,
                                    stride,
                                    f == CONSTANT ? 1e-2 : 1e-5,
                                    x,
                                    gamma,
                                    beta,
                                    fresh(rows * stride),
                                    fresh(rows),
                                    fresh(rows) };
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) set(x, t, r * stride + c, element(f, r, c));
    for (int64_t c = 0; c < cols; c++) set(gamma, t, c, draw()), set(beta, t, c, draw());
    snprintf(name, sizeof name, "%s rows=%lld cols=%lld %s", t == TS_F32 ? "f32" : "bf16",
             (long long)rows, (long long)cols, family_name[f]);
    begin_case();
    const ts_status s = finish(ts_layernorm_forward(&a, &e));
    if (s != TS_OK) flaw(name, "status", 0, s, TS_OK);
    for (int64_t r = 0; r < rows && s == TS_OK; r++) check_row(name, &a, r);
    drop_all();
}

int main(void)
{
    static const int64_t shape[][2] = { { 0, 16 },  { 1, 1 },    { 3, 2 },   { 5, 7 },
                                        { 17, 33 }, { 2, 1025 }, { 3, 4096 } };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int f = NORMAL; f <= NONFINITE; f++) {
            run(TS_F32, shape[i][0], shape[i][1], (family)f);
            run(TS_BF16, shape[i][0], shape[i][1], (family)f);
        }
    float                     x[4] = { 0 }, y[4], mean[1], rstd[1];
    ts_exec                   e = test_exec();
    ts_layernorm_forward_args a = { TS_F32, 1, 4, 4, 1e-5, x, x, x, y, mean, rstd }, b = a;
    b.gamma = NULL;
    refused("no gamma", ts_layernorm_forward(&b, &e), TS_E_ARG);
    b = a, b.eps = 0;
    refused("no eps", ts_layernorm_forward(&b, &e), TS_E_ARG);
    b = a, b.row_stride = 3;
    refused("rows that overlap", ts_layernorm_forward(&b, &e), TS_E_SHAPE);
    b = a, b.dtype = TS_U8;
    refused("bytes", ts_layernorm_forward(&b, &e), TS_E_DTYPE);
    return verdict();
}
