/* SPDX-License-Identifier: Apache-2.0 */
/* norm_row.cuh - one row of layer norm's forward pass (CENTRED), and of RMS norm's as the case
 * without mean and beta, but with a residual.
 *
 * A thread has a few 16-byte vectors of the row in registers, in their storage format. Of x +
 * residual the rounded values are those that are summed.
 *
 * Centred statistics are those of the corrected two-pass algorithm: a first mean m, then the sums
 * of d = x - m and of d^2, which give the rounding error of the mean and a variance without
 * cancellation. xhat is computed from d and that error, so it is correct to a few units at any
 * offset. Otherwise d is x. A row whose squares leave the range of float is computed again, scaled
 * by a power of two. */
#ifndef TS_BASE_NORM_ROW_CUH
#define TS_BASE_NORM_ROW_CUH

#include "row_vectors.cuh"

namespace
{

struct forward_params {
    int64_t n_rows, row_stride;
    int     n_cols;
    int     pitch, n_stages; /* where a cluster has the row: vectors of a block; rows in its ring */
    float   one_over_n, offset;
    double  eps;
    const void *x, *residual, *gamma, *beta; /* beta and mean: where centred; residual: elsewhere */
    void       *r, *y;                       /* r is x where there is no residual */
    float      *mean, *rstd;
};

/* A row's first mean, and the sums of d and d^2. Without a mean, d^2 alone. */
struct row_sums {
    float  m;
    float2 d;
};

/* xhat = (x * h - m) * r + rest */
struct row_map {
    float h, m, r, rest;
};

/* Whether float holds eps and the squares of d, or at least eps makes up for those too small for
 * it. */
template <bool CENTRED> __device__ __forceinline__ bool in_range(float squares, double eps)
{
    return squares <= FLT_MAX && eps >= 0x1p-60 && eps <= (CENTRED ? 0x1p60 : 0x1p120);
}

/* From the first mean, what it lacks, and the variance. */
__device__ __forceinline__ row_map finish(float m, float rest, float v, const forward_params &p,
                                          float *mean, float *rstd)
{
    *mean = m + rest;
    *rstd = one_over_sqrt(v + (float)p.eps);
    return { 1.0f, m, *rstd, -rest * *rstd };
}

/* The same from the sums. */
template <bool CENTRED>
__device__ __forceinline__ row_map finish(row_sums sum, const forward_params &p, float *mean,
                                          float *rstd)
{
    if constexpr (CENTRED) {
        const float rest = sum.d.x * p.one_over_n;
        const float v = fmaxf(sum.d.y * p.one_over_n - rest * rest, 0.0f);
        return finish(sum.m, rest, v, p, mean, rstd);
    }
    *rstd = one_over_sqrt(fmaf(sum.d.y, p.one_over_n, (float)p.eps));
    return { 1.0f, 0.0f, *rstd, 0.0f };
}

/* The same of a row scaled by h; mean and rstd are those of the row as it was. */
template <bool CENTRED>
__device__ __forceinline__ row_map finish_scaled(float h, row_sums sum, const forward_params &p,
                                                 float *mean, float *rstd)
{
    const float  rest = CENTRED ? sum.d.x * p.one_over_n : 0.0f;
    const float  square = sum.d.y * p.one_over_n;
    const float  v = CENTRED ? fmaxf(square - rest * rest, 0.0f) : square;
    const double exact = 1.0 / sqrt((double)v + p.eps * h * h);
    /* More than a float only if every d is 0; fmin would drop a NaN. */
    const float r = exact > FLT_MAX ? FLT_MAX : (float)exact;
    *mean = (sum.m + rest) / h;
    *rstd = (float)(exact * h);
    return { h, sum.m, r, -rest * r };
}

template <bool CENTRED>
__device__ __forceinline__ void keep_statistics(const forward_params &p, int64_t row, float mean,
                                                float rstd)
{
    if constexpr (CENTRED) p.mean[row] = mean;
    p.rstd[row] = rstd;
}

/* y of one element. */
template <bool CENTRED>
__device__ __forceinline__ float y_of(float x, float gain, float beta, row_map map)
{
    if constexpr (CENTRED) return fmaf(gain, fmaf(x * map.h - map.m, map.r, map.rest), beta);
    else return x * map.h * map.r * gain;
}

/* ---- rows of 16-byte vectors ---- */

/* The vector's elements times h. */
template <class T, int E>
__device__ __forceinline__ void widen_scaled(uint4 raw, float h, float (&x)[E])
{
    unpack_as<T>(raw, x);
#pragma unroll
    for (int e = 0; e < E; e++) x[e] *= h;
}

/* As a tree, so that the sum of a constant row is exact. */
template <class T, int V> __device__ __forceinline__ float plain_sum(const uint4 (&raw)[V], float h)
{
    constexpr int E = lanes<T>::n;
    float         s[V];
#pragma unroll
    for (int v = 0; v < V; v++) {
        float x[E];
        widen_scaled<T>(raw[v], h, x);
#pragma unroll
        for (int w = E / 2; w; w >>= 1)
#pragma unroll
            for (int e = 0; e < w; e++) x[e] += x[e + w];
        s[v] = x[0];
    }
#pragma unroll
    for (int w = (V + 1) / 2, n = V; n > 1; n = w, w = (w + 1) / 2)
#pragma unroll
        for (int v = 0; v + w < n; v++) s[v] += s[v + w];
    return s[0];
}

/* The sums of d = x - m and of d^2. */
template <class T, class OWN>
__device__ __forceinline__ float2 deviations(const OWN &mine, const uint4 (&raw)[OWN::N], float h,
                                             float m)
{
    constexpr int E = OWN::E;
    float2        sum = make_float2(0, 0);
#pragma unroll
    for (int v = 0; v < OWN::N; v++)
        if (mine.has(v)) {
            float x[E];
            widen_scaled<T>(raw[v], h, x);
#pragma unroll
            for (int e = 0; e < E; e++) x[e] -= m;
            if (!mine.whole(v)) {
#pragma unroll
                for (int e = 0; e < E; e++) x[e] = mine.has(v, e) ? x[e] : 0.0f;
            }
#pragma unroll
            for (int e = 0; e < E; e++) sum.x += x[e], sum.y = fmaf(x[e], x[e], sum.y);
        }
    return sum;
}

template <class T, int V>
__device__ __forceinline__ float squares_of(const uint4 (&raw)[V], float h)
{
    constexpr int E = lanes<T>::n;
    float         sum = 0;
#pragma unroll
    for (int v = 0; v < V; v++) {
        float x[E], part = 0; /* short chains of additions */
        widen_scaled<T>(raw[v], h, x);
#pragma unroll
        for (int e = 0; e < E; e++) part = fmaf(x[e], x[e], part);
        sum += part;
    }
    return sum;
}

template <class T, int V> __device__ __forceinline__ float largest_of(const uint4 (&raw)[V])
{
    float largest = 0;
#pragma unroll
    for (int v = 0; v < V; v++) {
        float x[lanes<T>::n];
        unpack_as<T>(raw[v], x);
#pragma unroll
        for (int e = 0; e < lanes<T>::n; e++) largest = fmaxf(largest, magnitude(x[e]));
    }
    return largest;
}

/* The sums of a row times h, over all threads that have some of it. PACKED: it stays packed
 * throughout. */
template <bool CENTRED, bool PACKED, class T, class OWN, class OVER>
__device__ __forceinline__ row_sums sums_of(const forward_params &p, const OWN &mine, OVER &over,
                                            uint4 (&raw)[OWN::N], float h)
{
    row_sums sum = { 0.0f, { 0.0f, 0.0f } };
    if constexpr (CENTRED) {
        sum.m = over.template reduce<add>(plain_sum<T>(raw, h)) * p.one_over_n;
        if constexpr (PACKED) keep_packed(raw);
        sum.d = over.sums(deviations<T>(mine, raw, h, sum.m));
    } else {
        sum.d.y = over.template reduce<add>(squares_of<T>(raw, h));
    }
    if constexpr (PACKED) keep_packed(raw);
    return sum;
}

template <bool CENTRED, class T, class OWN>
__device__ __forceinline__ void write_row(const forward_params &p, int64_t at, const OWN &mine,
                                          const uint4 (&raw)[OWN::N], row_map map)
{
    constexpr int E = OWN::E;
#pragma unroll
    for (int v = 0; v < OWN::N; v++)
        if (mine.has(v)) {
            float x[E], gain[E], beta[E] = { 0 };
            unpack_as<T>(raw[v], x);
            mine.load_columns((const T *)p.gamma, v, gain);
            if constexpr (CENTRED) mine.load_columns((const T *)p.beta, v, beta);
#pragma unroll
            for (int e = 0; e < E; e++)
                x[e] = y_of<CENTRED>(x[e], CENTRED ? gain[e] : gain[e] + p.offset, beta[e], map);
            mine.template store<false>((T *)p.y + at + v * mine.apart * E, v, pack_as<T>(x));
        }
}

/* A row out of range, from r as it is stored. Not inlined: it would cost every row its registers.
 */
template <bool CENTRED, class T, class OWN, class OVER>
__device__ __noinline__ void scaled_row(const forward_params &p, int64_t row, int64_t at, OWN mine,
                                        OVER over, bool first, bool write)
{
    float mean, rstd;
    uint4 raw[OWN::N];
    mine.load((const T *)p.r + at, raw, row + 1 == p.n_rows);
#pragma unroll
    for (int v = 0; v < OWN::N; v++) raw[v] = mine.cut(v, raw[v]);
    const float    h = scale_for(over.template reduce<larger>(largest_of<T>(raw)));
    const row_sums sum = sums_of<CENTRED, false, T>(p, mine, over, raw, h);
    const row_map  map = finish_scaled<CENTRED>(h, sum, p, &mean, &rstd);
    if (!write) return;
    write_row<CENTRED, T>(p, at, mine, raw, map);
    if (first) keep_statistics<CENTRED>(p, row, mean, rstd);
}

/* x + residual, rounded to the dtype. */
template <class T> __device__ __forceinline__ uint4 sum_of(uint4 x, uint4 residual)
{
    float a[lanes<T>::n], b[lanes<T>::n];
    unpack_as<T>(x, a);
    unpack_as<T>(residual, b);
#pragma unroll
    for (int e = 0; e < lanes<T>::n; e++) a[e] += b[e];
    return pack_as<T>(a);
}

/* x, to which the residual is added; r is stored then. */
template <bool CENTRED, class T, class OWN>
__device__ __forceinline__ void fetch_row(const forward_params &p, int64_t row, int64_t at,
                                          const OWN &mine, uint4 (&raw)[OWN::N])
{
    const bool last = row + 1 == p.n_rows;
    mine.load((const T *)p.x + at, raw, last);
    if (!CENTRED && p.residual) {
        uint4 more[OWN::N];
        mine.load((const T *)p.residual + at, more, last);
#pragma unroll
        for (int v = 0; v < OWN::N; v++) {
            raw[v] = sum_of<T>(raw[v], more[v]);
            if (mine.has(v))
                mine.template store<false>((T *)p.r + at + v * mine.apart * OWN::E, v, raw[v]);
        }
    }
#pragma unroll
    for (int v = 0; v < OWN::N; v++) raw[v] = mine.cut(v, raw[v]);
    if constexpr (!CENTRED) keep_packed(raw);
}

/* Normalises a row; `at` is the offset of the thread's first element. A thread without a row has no
 * vectors, and takes part in reductions only. */
template <bool CENTRED, class T, class OWN, class OVER>
__device__ __forceinline__ void normalise(const forward_params &p, int64_t row, int64_t at,
                                          const OWN &mine, OVER &over, uint4 (&raw)[OWN::N],
                                          bool first, bool live)
{
    float          mean, rstd;
    const row_sums sum = sums_of<CENTRED, true, T>(p, mine, over, raw, 1.0f);
    const bool     out = !in_range<CENTRED>(sum.d.y, p.eps);
    if (OVER::any(out)) {
        scaled_row<CENTRED, T>(p, row, at, mine, over, first, out && live);
        if (out) return;
    }
    write_row<CENTRED, T>(p, at, mine, raw, finish<CENTRED>(sum, p, &mean, &rstd));
    if (first && live) keep_statistics<CENTRED>(p, row, mean, rstd);
}

} // namespace

#endif
