/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_backward_sm90.cu - gradients on the device: dx from dy and the effective weights, dw from
 * dy and `in`.
 *
 * This file has those of float, for which no matrix instruction is exact, and those of 16-bit
 * activations for devices without wgmma (see ternary_gradient_sm90a.cu). Both gradients are matmuls
 * with a group of inputs in columns, and one kernel computes them: float sums, each in the order of
 * its terms, 8 x 8 of them per thread. */
#include <math.h>

#include "ternary_sm90.cuh"

namespace
{

enum {
    TILE = GROUP, /* sums down and across, of a block */
    DEEP = 16,    /* terms that are fetched together */
    EIGHT = 8,    /* elements that a thread fetches; sums down and across, of a thread */
};

struct backward_params {
    const uint8_t  *code; /* of dx */
    const uint16_t *scale;
    const void     *in, *dy;
    void           *out;
    int64_t         n_out, n_in, n_rows;
    int             n_groups;
    int64_t         n_tiles;            /* of sums, down */
    bool            whole_in, whole_dy; /* may eight elements of a row be loaded together? */
};

/* n elements, and 0 in place of others. */
template <class T>
__device__ __forceinline__ void fetch(const T *p, int64_t n, bool whole, float (&v)[EIGHT])
{
    if (whole && n >= EIGHT) {
        constexpr int E = lanes<T>::n;
#pragma unroll
        for (int k = 0; k < EIGHT; k += E) {
            float f[E];
            unpack_as<T>(__ldg((const uint4 *)(const void *)(p + k)), f);
#pragma unroll
            for (int i = 0; i < E; i++) v[k + i] = f[i];
        }
    } else {
#pragma unroll
        for (int k = 0; k < EIGHT; k++) v[k] = k < n ? to_float(p[k]) : 0;
    }
}

/* dx: sums down are rows, terms outputs. A thread takes eight terms of a row, and eight weights of
 * an output. */
template <class T_> struct dx_of {
    using T = T_;
    using result = T_;
    static constexpr bool ALONG = true; /* the left factor's terms are contiguous */

    static __device__ __forceinline__ int64_t n_terms(const backward_params &p)
    {
        return p.n_out;
    }
    static __device__ __forceinline__ int64_t n_down(const backward_params &p)
    {
        return p.n_rows;
    }
    static __device__ __forceinline__ void right(const backward_params &p, int g, int64_t term,
                                                 int j, float (&v)[EIGHT])
    {
        const int64_t  at = min(term, p.n_out - 1) * p.n_groups + g;
        const uint8_t *code = p.code + at * GROUP_BYTES + j / 4; /* of our own making: aligned */
        const unsigned two = __ldg((const uint16_t *)(const void *)code);
        const float    s = scale_at(p.scale + at);
#pragma unroll
        for (int k = 0; k < EIGHT; k++) v[k] = term < p.n_out ? weight_of(two >> 2 * k & 3, s) : 0;
    }
};

/* dw: sums down are outputs, terms rows. */
template <class T_> struct dw_of {
    using T = T_;
    using result = float;
    static constexpr bool ALONG = false;

    static __device__ __forceinline__ int64_t n_terms(const backward_params &p)
    {
        return p.n_rows;
    }
    static __device__ __forceinline__ int64_t n_down(const backward_params &p)
    {
        return p.n_out;
    }
    static __device__ __forceinline__ void right(const backward_params &p, int g, int64_t term,
                                                 int j, float (&v)[EIGHT])
    {
        const int64_t at = (int64_t)g * GROUP + j;
        fetch((const T *)p.in + term * p.n_in + at, term < p.n_rows ? p.n_in - at : 0, p.whole_in,
              v);
    }
};

/* [term][sum], and 4 of nothing to spread banks. */
struct tiles {
    float left[DEEP][TILE + 4], right[DEEP][TILE + 4];
};

/* What a thread fetches of a step, on its way to memory. */
template <class F> struct fetched {
    using T = typename F::T;
    float left[EIGHT], right[EIGHT];

    __device__ __forceinline__ void load(const backward_params &p, int64_t down, int g,
                                         int64_t term)
    {
        const int i = threadIdx.x;
        const T  *dy = (const T *)p.dy;
        if constexpr (F::ALONG) {
            const int64_t r = down + i / 2, o = term + i % 2 * EIGHT;
            fetch(dy + r * p.n_out + o, r < p.n_rows ? p.n_out - o : 0, p.whole_dy, left);
        } else {
            const int64_t r = term + i / 16, o = down + i % 16 * EIGHT;
            fetch(dy + r * p.n_out + o, r < p.n_rows ? p.n_out - o : 0, p.whole_dy, left);
        }
        F::right(p, g, term + i / 16, i % 16 * EIGHT, right);
    }
    __device__ __forceinline__ void put(tiles *to) const
    {
        const int i = threadIdx.x;
#pragma unroll
        for (int k = 0; k < EIGHT; k++) {
            if (F::ALONG) to->left[i % 2 * EIGHT + k][i / 2] = left[k];
            else to->left[i / 16][i % 16 * EIGHT + k] = left[k];
            to->right[i / 16][i % 16 * EIGHT + k] = right[k];
        }
    }
};

/* Of a thread's eight, four are adjacent and four half a tile further. */
__device__ __forceinline__ int nth(int thread, int k)
{
    return thread * 4 + k % 4 + k / 4 * (TILE / 2);
}

__device__ __forceinline__ void eight_of(const float *row, int thread, float (&v)[EIGHT])
{
#pragma unroll
    for (int k = 0; k < EIGHT; k += 4) {
        const float4 f = *(const float4 *)(row + nth(thread, k));
        v[k] = f.x, v[k + 1] = f.y, v[k + 2] = f.z, v[k + 3] = f.w;
    }
}

template <class F> __global__ void __launch_bounds__(THREADS, 2) backward_kernel(backward_params p)
{
    __shared__ tiles memory[2];
    const int        across = threadIdx.x % 16, tall = threadIdx.x / 16;
    const int        g = (int)(blockIdx.x / p.n_tiles);
    const int64_t    down = blockIdx.x % p.n_tiles * TILE, n = F::n_terms(p);
    float            sum[EIGHT][EIGHT] = {};
    fetched<F>       next;
    if (n > 0) {
        next.load(p, down, g, 0);
        next.put(&memory[0]);
    }
    __syncthreads();
    for (int64_t term = 0, turn = 0; term < n; term += DEEP, turn ^= 1) {
        const bool   more = term + DEEP < n;
        const tiles &at = memory[turn];
        if (more) next.load(p, down, g, term + DEEP);
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            float a[EIGHT], b[EIGHT];
            eight_of(at.left[i], tall, a);
            eight_of(at.right[i], across, b);
#pragma unroll
            for (int r = 0; r < EIGHT; r++)
#pragma unroll
                for (int c = 0; c < EIGHT; c++) sum[r][c] = fmaf(a[r], b[c], sum[r][c]);
        }
        if (more) next.put(&memory[turn ^ 1]);
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < EIGHT; r++)
#pragma unroll
        for (int c = 0; c < EIGHT; c++) {
            const int64_t row = down + nth(tall, r), j = (int64_t)g * GROUP + nth(across, c);
            if (row < F::n_down(p) && j < p.n_in)
                from_float((typename F::result *)p.out + row * p.n_in + j, sum[r][c]);
        }
}

/* ---- host side ---- */

template <class F> ts_status run(backward_params p, int64_t n_down, void *out, cudaStream_t stream)
{
    p.out = out, p.n_tiles = ceil_div(n_down, TILE);
    if (n_down == 0 || p.n_in == 0) return TS_OK;
    if (p.n_tiles > INT32_MAX / p.n_groups) return TS_E_UNSUPPORTED;
    backward_kernel<F><<<(unsigned)(p.n_tiles * p.n_groups), THREADS, 0, stream>>>(p);
    return launched();
}

template <class T>
ts_status run_both(backward_params p, const ts_ternary_linear_backward_args *a, const ts_exec *x)
{
    cudaStream_t stream = (cudaStream_t)x->stream;
    p.whole_in = p.n_in % EIGHT == 0 && (uintptr_t)p.in % 16 == 0;
    p.whole_dy = p.n_out % EIGHT == 0 && (uintptr_t)p.dy % 16 == 0;
    const ts_status s = run<dx_of<T>>(p, p.n_rows, a->dx, stream);
    return s ? s : run<dw_of<T>>(p, p.n_out, a->dw, stream);
}

} // namespace

extern "C" TS_API ts_status ts_ternary_linear_backward_sm90_workspace(const void    *args,
                                                                      const ts_exec *x,
                                                                      size_t        *n_bytes)
{
    const ts_ternary_linear_dims *d = &((const ts_ternary_linear_backward_args *)args)->d;
    (void)x;
    *n_bytes = packed_room::n_bytes(d) + ts_ternary_gradient_bytes_sm90a(d);
    return TS_OK;
}

extern "C" TS_API ts_status ts_ternary_linear_backward_sm90(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_backward_args *a = (const ts_ternary_linear_backward_args *)args;
    const packed_room                      room(&a->d, x->workspace);
    const ts_ternary_pack_args             pack = { a->d, a->w, room.code, room.scale };
    const int64_t                          n_groups = groups_of(a->d.n_in);
    backward_params                        p = {};
    if (n_groups > INT32_MAX / THREADS) return TS_E_UNSUPPORTED;
    p.code = room.code, p.scale = room.scale, p.in = a->in, p.dy = a->dy;
    p.n_out = a->d.n_out, p.n_in = a->d.n_in, p.n_rows = a->d.n_rows, p.n_groups = (int)n_groups;
    ts_status s = ts_ternary_pack_sm90(&pack, x);
    if (s) return s;
    s = ts_ternary_gradient_sm90a(a, x);
    if (s != TS_E_UNSUPPORTED) return s;
    if (a->d.dtype == TS_F32) return run_both<float>(p, a, x);
    if (a->d.dtype == TS_BF16) return run_both<__nv_bfloat16>(p, a, x);
    return run_both<__half>(p, a, x);
}
