/* SPDX-License-Identifier: Apache-2.0 */
/* attention_rows.cuh - scores in the registers of a warp after a matmul: masks, weights, and
 * gradients of scores.
 *
 * Of a matrix of 16 rows lane 4 g + t has rows g and g + 8: of each 8 columns, s[4 j] and s[4 j +
 * 1] are columns 8 j + 2 t and the next of the first row, s[4 j + 2] and s[4 j + 3] of the second.
 * Forward, rows are queries and columns keys; backward, where keys own their gradients, the other
 * way round. */
#ifndef TS_ATTENTION_ROWS_CUH
#define TS_ATTENTION_ROWS_CUH

#include <type_traits>

#include "attention.cuh"
#include "device.cuh"

namespace
{

constexpr double LOG2_E = 1.4426950408889634;
constexpr float  LN_2 = 0.693147180559945f;

/* Weights may exceed those of the maximum that sums are relative to by 2^SLACK, before it is
 * replaced. */
constexpr float SLACK = 8;

/* All weights are 2^LIFT times as large as need be: small ones would lose bits in f16. */
template <class T> constexpr float LIFT = std::is_same<T, __half>::value ? 6 : 0;

/* 1 / x as a division has it, where neither is so small or large that it would call a function:
 * products that are under way would be waited for. */
__device__ __forceinline__ float inverse(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return fmaf(y, fmaf(-x, y, 1.0f), y);
}

template <class T, int N>
__device__ __forceinline__ void narrow_all(unsigned (&a)[N / 2], const float (&s)[N])
{
#pragma unroll
    for (int i = 0; i < N / 2; i++) a[i] = narrow(s[2 * i], s[2 * i + 1], T());
}

/* ---- rows are queries ---- */

struct row_sums {
    float base[2] = { -INFINITY, -INFINITY }; /* what weights are relative to, in powers of 2 */
    float sum[2] = { 0, 0 };                  /* of the weights that this lane met */
};

/* Scores that are not seen become -inf; `row` is the lane's first, `from` its first column. */
template <int N>
__device__ __forceinline__ void hide_unseen(float (&s)[N], const visible_keys &see, int n_keys,
                                            int row, int from)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int      begin = see.begin(row + 8 * h), end = see.end(row + 8 * h, n_keys);
        const int      first = from - begin;
        const unsigned n = (unsigned)max(0, end - begin);
#pragma unroll
        for (int j = 0; j < N / 2; j++) {
            const int column = j / 2 * 8 + j % 2;
            if ((unsigned)(first + column) >= n) s[j / 2 * 4 + h * 2 + j % 2] = -INFINITY;
        }
    }
}

/* Scores become weights. keep[i] is what earlier sums of row i shrink to. */
template <class T, int N>
__device__ __forceinline__ void weigh(float (&s)[N], row_sums *r, float (&keep)[2], float scale)
{
    float top[2] = { s[0], s[2] }, add[2] = { 0, 0 }, minus[2];
#pragma unroll
    for (int k = 1; k < N; k++) top[k % 4 / 2] = fmaxf(top[k % 4 / 2], s[k]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 1));
        top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 2)) * scale;
        /* Also if both are -inf, or one is NaN. */
        const bool  jump = !(top[i] - r->base[i] <= SLACK);
        const float next = jump ? fmaxf(top[i], r->base[i]) : r->base[i];
        const float finite = next == -INFINITY ? 0.0f : next;
        keep[i] = jump ? exp2_of(r->base[i] - finite) : 1.0f;
        minus[i] = LIFT<T> - finite;
        r->base[i] = next;
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        s[k] = exp2_of(fmaf(s[k], scale, minus[k % 4 / 2]));
        add[k % 4 / 2] += s[k];
    }
#pragma unroll
    for (int i = 0; i < 2; i++) r->sum[i] = fmaf(r->sum[i], keep[i], add[i]);
}

/* The whole sum of weights of a lane's row i, for all lanes that share it. */
__device__ __forceinline__ float whole_sum(const row_sums &r, int i)
{
    const float sum = r.sum[i] + __shfl_xor_sync(0xffffffffu, r.sum[i], 1);
    return sum + __shfl_xor_sync(0xffffffffu, sum, 2);
}

template <class T> __device__ __forceinline__ float lse_of(const row_sums &r, int i, float sum)
{
    return sum == 0 ? -INFINITY : fmaf(r.base[i] - LIFT<T>, LN_2, logf(sum));
}

/* ---- rows are keys ---- */

/* The queries of a tile that a lane's two keys are seen by: column c if c - first < width, as
 * unsigned numbers. `key` is the lane's first, `query` its first column. */
struct view {
    int      first[2];
    unsigned width[2];

    __device__ __forceinline__ view(const sight &see, int length, int key, int query)
    {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            first[r] = key + 8 * r - see.shift - query;
            width[r] = key + 8 * r < length ? see.window : 0;
        }
    }
    __device__ __forceinline__ bool hides(int i) const /* register i */
    {
        const int r = i / 2 % 2, c = i / 4 * 8 + i % 2;
        return (unsigned)(c - first[r]) >= width[r];
    }
};

/* What is hidden may be NaN, or become it. */
template <int N> __device__ __forceinline__ void blank(float (&s)[N], const view &seen)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        if (seen.hides(i)) s[i] = 0.0f;
}

/* Scores of infinite keys are -inf once they are scaled, or their row is NaN by its lse. Bit 2 r of
 * `infinite` is the warp's key r. */
template <int N>
__device__ __forceinline__ void sink_infinite(float (&s)[N], unsigned infinite, float scale_log2,
                                              int lane)
{
    const float lowest = scale_log2 > 0 ? -INFINITY : INFINITY;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (infinite >> (lane / 4 + i / 2 % 2 * 8) * 2 & 1) s[i] = lowest;
}

/* Whether a 16-byte chunk of 16-bit elements has an infinite one. */
template <class T> __device__ __forceinline__ bool has_infinite(uint4 p)
{
    constexpr unsigned INFINITE = std::is_same<T, __half>::value ? 0x7c007c00 : 0x7f807f80;
    return __vcmpeq2(p.x & 0x7fff7fff, INFINITE) | __vcmpeq2(p.y & 0x7fff7fff, INFINITE) |
           __vcmpeq2(p.z & 0x7fff7fff, INFINITE) | __vcmpeq2(p.w & 0x7fff7fff, INFINITE);
}

} // namespace

#endif
