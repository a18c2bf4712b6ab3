/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_cuda.cu - swiglu on a CUDA device, forward and backward.
 *
 * A thread takes 16 bytes of each tensor where rows allow it, else an element. Gates of a magnitude
 * from FAR on, and NaN, go through double, as in swiglu_simd.h. */
#include "row_teams.cuh"
#include "touchstone/swiglu.h"

namespace
{

enum { THREADS = 256, MOST_BLOCKS = 1 << 16 };

constexpr float FAR = 80.0f;

/* ---- an element ---- */

/* s, and 1 - s: neither by subtraction. */
template <class R> struct sigmoid {
    R                          s, rest;
    __device__ __forceinline__ sigmoid(R gate, R e) /* e = exp(-|gate|) */
    {
        const R large = 1 / (1 + e), small = e * large;
        s = gate > 0 ? large : small;
        rest = gate > 0 ? small : large;
    }
};

/* Double holds the product of three floats, and an exp from -745 on; below, they cannot make up for
 * it. Not inlined: it is rare. */
__device__ __noinline__ float y_far(float gate, float up)
{
    const sigmoid<double> g((double)gate, exp(-fabs((double)gate)));
    return (float)(gate == -INFINITY ? 0.0 * up : (double)gate * g.s * (double)up);
}

__device__ __forceinline__ float y_of(float gate, float up)
{
    if (!(fabsf(gate) < FAR)) return y_far(gate, up);
    return gate * sigmoid<float>(gate, expf(-fabsf(gate))).s * up;
}

__device__ __noinline__ float2 slopes_far(float gate, float up, float dy)
{
    const sigmoid<double> g((double)gate, exp(-fabs((double)gate)));
    const double          slope = isinf(gate) ? g.s : g.s * (1 + (double)gate * g.rest);
    return make_float2((float)(slope * (double)up * (double)dy),
                       (float)(gate == -INFINITY ? 0.0 * dy : (double)gate * g.s * (double)dy));
}

/* dgate and dup. The larger of dy and up meets the slope first: see swiglu_simd.h. */
__device__ __forceinline__ float2 slopes_of(float gate, float up, float dy)
{
    if (!(fabsf(gate) < FAR)) return slopes_far(gate, up, dy);
    const sigmoid<float> g(gate, expf(-fabsf(gate)));
    const float          slope = g.s * fmaf(gate, g.rest, 1.0f);
    const bool           is_dy = fabsf(dy) > fabsf(up);
    return make_float2(slope * (is_dy ? dy : up) * (is_dy ? up : dy), gate * g.s * dy);
}

/* ---- rows of vectors, or of elements; an output may be an input, so nothing is restrict ---- */

struct extent {
    int64_t n, across, x_stride, y_stride; /* n: of all; across: in a row; in vectors or elements */

    /* Row and column of the i-th. A division of 64 bits takes longer than the rest. */
    __device__ __forceinline__ void place(int64_t i, int64_t *r, int64_t *c) const
    {
        *r = n <= UINT32_MAX ? (int64_t)((uint32_t)i / (uint32_t)across) : i / across;
        *c = i - *r * across;
    }
};

template <class T, class V>
__global__ void __launch_bounds__(THREADS) forward(const extent e, const V *gate, const V *up, V *y)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < e.n;
         i += gridDim.x * (int64_t)THREADS) {
        int64_t r, c;
        e.place(i, &r, &c);
        const V a = gate[r * e.x_stride + c], b = up[r * e.x_stride + c];
        if constexpr (sizeof(V) == sizeof(T)) {
            from_float(y + r * e.y_stride + c, y_of(to_float(a), to_float(b)));
        } else {
            constexpr int N = lanes<T>::n;
            float         g[N], u[N];
            unpack_as<T>(a, g);
            unpack_as<T>(b, u);
#pragma unroll
            for (int k = 0; k < N; k++) g[k] = y_of(g[k], u[k]);
            y[r * e.y_stride + c] = pack_as<T>(g);
        }
    }
}

template <class T, class V>
__global__ void __launch_bounds__(THREADS)
    backward(const extent e, const V *gate, const V *up, const V *dy, V *dgate, V *dup)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < e.n;
         i += gridDim.x * (int64_t)THREADS) {
        int64_t r, c;
        e.place(i, &r, &c);
        const int64_t at = r * e.x_stride + c;
        const V       a = gate[at], b = up[at], d = dy[r * e.y_stride + c];
        if constexpr (sizeof(V) == sizeof(T)) {
            const float2 s = slopes_of(to_float(a), to_float(b), to_float(d));
            from_float(dgate + at, s.x);
            from_float(dup + at, s.y);
        } else {
            constexpr int N = lanes<T>::n;
            float         g[N], u[N], o[N];
            unpack_as<T>(a, g);
            unpack_as<T>(b, u);
            unpack_as<T>(d, o);
#pragma unroll
            for (int k = 0; k < N; k++) {
                const float2 s = slopes_of(g[k], u[k], o[k]);
                g[k] = s.x;
                u[k] = s.y;
            }
            dgate[at] = pack_as<T>(g);
            dup[at] = pack_as<T>(u);
        }
    }
}

/* ---- choice ---- */

unsigned blocks_for(int64_t n)
{
    const int64_t blocks = (n + THREADS - 1) / THREADS;
    return (unsigned)(blocks < MOST_BLOCKS ? blocks : (int64_t)MOST_BLOCKS);
}

/* each: elements that are taken together */
template <class A> extent extent_of(const A *a, int64_t each)
{
    const int64_t across = a->n_cols / each;
    return { a->n_rows * across, across, a->x_stride / each, a->y_stride / each };
}

template <class T, class A> bool by_vectors(const A *a)
{
    const int64_t n = lanes<T>::n;
    return a->n_cols % n == 0 && a->x_stride % n == 0 && a->y_stride % n == 0 &&
           aligned16(a->gate) && aligned16(a->up);
}

template <class T, class V>
void launch(const ts_swiglu_forward_args *a, int64_t each, cudaStream_t s)
{
    const extent e = extent_of(a, each);
    forward<T, V>
        <<<blocks_for(e.n), THREADS, 0, s>>>(e, (const V *)a->gate, (const V *)a->up, (V *)a->y);
}

template <class T, class V>
void launch(const ts_swiglu_backward_args *a, int64_t each, cudaStream_t s)
{
    const extent e = extent_of(a, each);
    backward<T, V><<<blocks_for(e.n), THREADS, 0, s>>>(
        e, (const V *)a->gate, (const V *)a->up, (const V *)a->dy, (V *)a->dgate, (V *)a->dup);
}

template <class T, class A> ts_status run_as(const A *a, bool outputs_aligned, cudaStream_t s)
{
    if (outputs_aligned && by_vectors<T>(a)) launch<T, uint4>(a, lanes<T>::n, s);
    else launch<T, T>(a, 1, s);
    return launched();
}

template <class A> ts_status run(const A *a, bool outputs_aligned, const ts_exec *x)
{
    const cudaStream_t s = (cudaStream_t)x->stream;
    if (a->n_rows == 0) return TS_OK;
    if (a->dtype == TS_F32) return run_as<float>(a, outputs_aligned, s);
    if (a->dtype == TS_BF16) return run_as<__nv_bfloat16>(a, outputs_aligned, s);
    return run_as<__half>(a, outputs_aligned, s);
}

} // namespace

extern "C" TS_API ts_status ts_swiglu_forward_cuda(const void *args, const ts_exec *x)
{
    const ts_swiglu_forward_args *a = (const ts_swiglu_forward_args *)args;
    return run(a, aligned16(a->y), x);
}

extern "C" TS_API ts_status ts_swiglu_backward_cuda(const void *args, const ts_exec *x)
{
    const ts_swiglu_backward_args *a = (const ts_swiglu_backward_args *)args;
    return run(a, aligned16(a->dy) && aligned16(a->dgate) && aligned16(a->dup), x);
}
