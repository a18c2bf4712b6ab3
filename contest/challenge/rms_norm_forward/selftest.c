/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for rms_norm_forward against the definition in double. */
#include "selftest.h"
#include "touchstone/rms_norm.h"

typedef enum family { NORMAL, TINY, ZEROS, HUGE_ONES, NONFINITE } family;
typedef enum residual { NONE, APART, IN_PLACE } residual;

static const char *const family_name[] = { "normal", "tiny", "zeros", "huge", "nonfinite" };

static double element(family f, int64_t r, int64_t c)
{
    if (f == TINY) return 1e-3 * draw();
    if (f == ZEROS) return 0;
    if (f == HUGE_ONES) return 1e30 * draw();
    return f == NONFINITE && r == 0 && c == 0 ? INFINITY : draw();
}

/* r as it should be: `sum` has it, rounded. */
static void check_row(const char *name, const ts_rms_norm_forward_args *a, const void *sum,
                      int64_t row)
{
    const double  u = a->dtype == TS_F32 ? 1e-5 : 4e-3;
    const int64_t begin = row * a->row_stride;
    double        square = 0;
    for (int64_t c = 0; c < a->n_cols; c++)
        square += pow(get(sum, a->dtype, begin + c), 2) / (double)a->n_cols;
    const double rstd = 1 / sqrt(square + a->eps);
    if (isfinite(square)) compare(name, "rstd", row, ((float *)a->rstd)[row], rstd, 1e-5 * rstd);
    for (int64_t c = 0; c < a->n_cols; c++) {
        const double r = get(sum, a->dtype, begin + c);
        const double y = r * rstd * (get(a->w, a->dtype, c) + a->w_offset);
        if (a->residual) compare(name, "r", begin + c, get(a->r, a->dtype, begin + c), r, 0);
        compare(name, "y", begin + c, get(a->y, a->dtype, begin + c), isfinite(square) ? y : NAN,
                u * (fabs(y) + fabs(r * rstd)));
    }
}

static void run(ts_dtype t, int64_t rows, int64_t cols, family f, residual how, int w_offset)
{
    const int64_t stride = cols + 3;
    char          name[128];
    ts_exec       e = test_exec();
    void         *x = fresh(rows * stride), *add = fresh(rows * stride), *w = fresh(cols);
    void         *r = fresh(rows * stride), *sum = fresh(rows * stride);
    ts_rms_norm_forward_args a = { t,
                                   w_offset,
                                   rows,
                                   cols,
                                   stride,
                                   1e-6,
                                   x,
                                   how == NONE ? NULL : add,
                                   w,
                                   how == NONE    ? NULL
                                   : how == APART ? r
                                                  : x,
                                   fresh(rows * stride),
                                   fresh(rows) };
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < cols; c++) {
            const int64_t at = i * stride + c;
            set(x, t, at, element(f, i, c));
            set(add, t, at, f == ZEROS ? 0 : element(f == NONFINITE ? NORMAL : f, i, c));
            set(sum, t, at, get(x, t, at) + (how == NONE ? 0 : get(add, t, at)));
        }
    for (int64_t c = 0; c < cols; c++) set(w, t, c, draw());
    snprintf(name, sizeof name, "%s rows=%lld cols=%lld %s residual=%d w_offset=%d",
             t == TS_F32 ? "f32" : "bf16", (long long)rows, (long long)cols, family_name[f], how,
             w_offset);
    begin_case();
    const ts_status s = finish(ts_rms_norm_forward(&a, &e));
    if (s != TS_OK) flaw(name, "status", 0, s, TS_OK);
    for (int64_t i = 0; i < rows && s == TS_OK; i++) check_row(name, &a, sum, i);
    drop_all();
}

int main(void)
{
    static const int64_t shape[][2] = { { 0, 16 },  { 1, 1 },    { 3, 2 },   { 5, 7 },
                                        { 17, 33 }, { 2, 1025 }, { 3, 4096 } };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int f = NORMAL; f <= NONFINITE; f++)
            for (int how = NONE; how <= IN_PLACE; how++) {
                run(TS_F32, shape[i][0], shape[i][1], (family)f, (residual)how, how == APART);
                run(TS_BF16, shape[i][0], shape[i][1], (family)f, (residual)how, how != APART);
            }
    float                    x[4] = { 0 }, y[4], r[4], rstd[1];
    ts_exec                  e = test_exec();
    ts_rms_norm_forward_args a = { TS_F32, 0, 1, 4, 4, 1e-6, x, x, x, r, y, rstd }, b = a;
    b.w = NULL;
    refused("no w", ts_rms_norm_forward(&b, &e), TS_E_ARG);
    b = a, b.r = NULL;
    refused("a residual and no r", ts_rms_norm_forward(&b, &e), TS_E_ARG);
    b = a, b.w_offset = 2;
    refused("w_offset 2", ts_rms_norm_forward(&b, &e), TS_E_ARG);
    b = a, b.eps = 0;
    refused("no eps", ts_rms_norm_forward(&b, &e), TS_E_ARG);
    b = a, b.row_stride = 3;
    refused("rows that overlap", ts_rms_norm_forward(&b, &e), TS_E_SHAPE);
    b = a, b.dtype = TS_U8;
    refused("bytes", ts_rms_norm_forward(&b, &e), TS_E_DTYPE);
    return verdict();
}
