/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for ternary_linear against the definition in double. */
#include "selftest.h"
#include "touchstone/ternary.h"

static double half(uint16_t h)
{
    const int e = h >> 10 & 31, m = h & 1023;
    return e == 31 ? NAN : e == 0 ? ldexp(m, -24) : ldexp(m + 1024, e - 25);
}

static int64_t groups(int64_t n_in)
{
    return (n_in + 127) / 128;
}

/* Codes and scales must be those of the latents: s is the f16 nearest to the mean. */
static void check_pack(const char *name, int64_t n_out, int64_t n_in, const float *w,
                       const uint8_t *code, const uint16_t *scale, double *wt)
{
    for (int64_t o = 0; o < n_out; o++)
        for (int64_t g = 0; g < groups(n_in); g++) {
            const int64_t n = n_in - g * 128 < 128 ? n_in - g * 128 : 128,
                          at = o * groups(n_in) + g;
            const double s = half(scale[at]);
            double       mean = 0;
            for (int64_t j = 0; j < n; j++)
                mean += fabs((double)w[o * n_in + g * 128 + j]) / (double)n;
            compare(name, "scale", at, s, mean, mean * 0x1p-11 + 0x1p-25);
            for (int64_t j = 0; j < 128; j++) {
                const int    point = code[at * 32 + j / 4] >> 2 * (j % 4) & 3;
                const double v = j < n ? w[o * n_in + g * 128 + j] : 0;
                compare(name, "code", at * 128 + j, point,
                        s == 0 || 2 * fabs(v) <= s ? 1
                        : v < 0                    ? 0
                                                   : 2,
                        0);
                if (j < n) wt[o * n_in + g * 128 + j] = (point - 1) * s;
            }
        }
}

static void run(const char *name, void *a, ts_status (*f)(const void *, const ts_exec *),
                const ts_exec *x)
{
    const ts_status s = finish(f(a, x));
    if (s) flaw(name, "status", 0, s, TS_OK);
}

#define ENTRY(f, type)                                                                             \
    static ts_status f##_entry(const void *a, const ts_exec *x)                                    \
    {                                                                                              \
        return f((const type *)a, x);                                                              \
    }
ENTRY(ts_ternary_pack, ts_ternary_pack_args)
ENTRY(ts_ternary_unpack, ts_ternary_unpack_args)
ENTRY(ts_ternary_linear, ts_ternary_linear_args)
ENTRY(ts_ternary_linear_packed, ts_ternary_linear_packed_args)
ENTRY(ts_ternary_linear_backward, ts_ternary_linear_backward_args)

/* y, and y from the codes, against the products in double. */
static void check_forward(const char *name, const ts_ternary_linear_dims *d, const void *in,
                          const double *want, const void *y, const void *z)
{
    const int64_t  n_out = d->n_out, n_in = d->n_in, n_rows = d->n_rows;
    const ts_dtype t = d->dtype;
    const double   u = t == TS_F32 ? 1e-5 : 0.02;
    for (int64_t r = 0; r < n_rows && !is_failing; r++)
        for (int64_t o = 0; o < n_out; o++) {
            double sum = 0, A = 0;
            for (int64_t i = 0; i < n_in; i++) {
                const double p = get(in, t, r * n_in + i) * want[o * n_in + i];
                sum += p, A += fabs(p);
            }
            compare(name, "y", r * n_out + o, get(y, t, r * n_out + o), sum, u * A);
            compare(name, "y_packed", r * n_out + o, get(z, t, r * n_out + o),
                    get(y, t, r * n_out + o), 0);
        }
}

static void check_backward(const char *name, const ts_ternary_linear_dims *d, const void *in,
                           const void *dy, const double *want, const void *dx, const float *dw)
{
    const int64_t  n_out = d->n_out, n_in = d->n_in, n_rows = d->n_rows;
    const ts_dtype t = d->dtype;
    const double   u = t == TS_F32 ? 1e-5 : 0.02;
    for (int64_t r = 0; r < n_rows && !is_failing; r++)
        for (int64_t i = 0; i < n_in; i++) {
            double sum = 0, A = 0;
            for (int64_t o = 0; o < n_out; o++) {
                const double p = get(dy, t, r * n_out + o) * want[o * n_in + i];
                sum += p, A += fabs(p);
            }
            compare(name, "dx", r * n_in + i, get(dx, t, r * n_in + i), sum, u * A);
        }
    for (int64_t i = 0; i < n_out * n_in && !is_failing; i++) {
        double sum = 0, A = 0;
        for (int64_t r = 0; r < n_rows; r++) {
            const double p = get(dy, t, r * n_out + i / n_in) * get(in, t, r * n_in + i % n_in);
            sum += p, A += fabs(p);
        }
        compare(name, "dw", i, dw[i], sum, 1e-5 * A);
    }
}

static void try(ts_dtype t, int64_t n_out, int64_t n_in, int64_t n_rows, int way)
{
    char          name[96];
    const int64_t n = n_out * n_in, G = n_out * groups(n_in);
    const ts_exec x = test_exec(); /* generous; the judge provides exactly what was requested */
    const ts_ternary_linear_dims d = { t, n_out, n_in, n_rows };
    float                       *w = fresh(n), *wt = fresh(n), *dw = fresh(n);
    uint8_t                     *code = fresh(G * 32);
    uint16_t                    *scale = fresh(G);
    void   *in = fresh(n_rows * n_in), *y = fresh(n_rows * n_out), *z = fresh(n_rows * n_out);
    void   *dy = fresh(n_rows * n_out), *dx = fresh(n_rows * n_in);
    double *want = fresh(n);
    snprintf(name, sizeof name, "dtype=%d out=%d in=%d rows=%d way=%d", t, (int)n_out, (int)n_in,
             (int)n_rows, way);
    for (int64_t i = 0; i < n; i++)
        w[i] = way == 1 && i / n_in % 2 ? 0 : (float)(draw() * (way == 2 && i % 50 == 7 ? 40 : 1));
    for (int64_t i = 0; i < n_rows * n_in; i++) set(in, t, i, draw());
    for (int64_t i = 0; i < n_rows * n_out; i++) set(dy, t, i, draw());
    begin_case();
    run(name, &(ts_ternary_pack_args) { d, w, code, scale }, ts_ternary_pack_entry, &x);
    if (!is_failing) check_pack(name, n_out, n_in, w, code, scale, want);
    if (!is_failing)
        run(name, &(ts_ternary_unpack_args) { d, code, scale, wt }, ts_ternary_unpack_entry, &x);
    for (int64_t i = 0; i < n && !is_failing; i++) compare(name, "wt", i, wt[i], want[i], 0);
    if (!is_failing)
        run(name, &(ts_ternary_linear_args) { d, w, in, y }, ts_ternary_linear_entry, &x);
    if (!is_failing)
        run(name, &(ts_ternary_linear_packed_args) { d, code, scale, in, z },
            ts_ternary_linear_packed_entry, &x);
    if (!is_failing)
        run(name, &(ts_ternary_linear_backward_args) { d, w, in, dy, dx, dw },
            ts_ternary_linear_backward_entry, &x);
    check_forward(name, &d, in, want, y, z);
    check_backward(name, &d, in, dy, want, dx, dw);
    drop_all();
}

/* Fixed bytes: 1, -1, 0 and 1 are points 2, 0, 1, 2, and the rest of the group is coded 1. */
static void try_bytes(void)
{
    static const float     latent[] = { 1, -1, 0.25f, 1 };
    const ts_exec          x = test_exec();
    float                 *w = memcpy(fresh(4), latent, sizeof latent), *wt = fresh(4);
    uint8_t               *code = fresh_bytes(32);
    uint16_t              *scale = fresh(1);
    ts_ternary_pack_args   a = { { TS_F32, 1, 4, 0 }, w, code, scale };
    ts_ternary_unpack_args u = { a.d, code, scale, wt };
    begin_case();
    const ts_status s = finish(ts_ternary_pack(&a, &x));
    if (s) flaw("bytes", "status", 0, s, TS_OK);
    compare("bytes", "code", 0, code[0], 0x92, 0);
    compare("bytes", "code", 1, code[1], 0x55, 0);
    compare("bytes", "scale", 0, half(*scale), 0.8125, 0);
    code[0] = 0x93; /* a code point of 3 */
    if (TEST_DEVICE == TS_CPU) refused("bytes", ts_ternary_unpack(&u, &x), TS_E_FORMAT);
    drop_all();
}

int main(void)
{
    const int64_t shape[][3] = { { 1, 1, 1 },   { 3, 127, 3 },  { 3, 128, 2 },
                                 { 5, 129, 3 }, { 7, 200, 17 }, { 4, 1376, 3 } };
    for (int i = 0; i < 6; i++)
        for (int way = 0; way < 3; way++) {
            try(TS_F32, shape[i][0], shape[i][1], shape[i][2], way);
            if (way == 0) try(TS_BF16, shape[i][0], shape[i][1], shape[i][2], way);
        }
    try_bytes();
    return verdict();
}
