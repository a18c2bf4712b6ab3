/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_step_cuda.cu - four parameters per thread where arrays are aligned, else one; everything is
 * read and written once.
 *
 * Arithmetic is float where no square and no quotient can leave its range, which is nearly always,
 * and double in the parameters where one could. */
#include <math.h>

#include "row_teams.cuh"
#include "touchstone/adamw.h"

namespace
{

enum { THREADS = 256, EACH = 4 };

template <class R> struct rates {
    R beta1, beta2, rest1, rest2, move, eps, decay; /* as in adamw_simd.h */
};

struct step_params {
    int64_t       n, n_decay;
    rates<float>  f;
    rates<double> d;
    bool          narrow; /* every rate is a usual float */
    const double *scale;
    const void   *grad;
    void         *w;
    float        *master, *m, *v;
};

/* 0, or far from the ends of float: products of two of them and a rate stay in its range. */
__device__ __forceinline__ bool is_usual(float x, float least, float most)
{
    const float size = fabsf(x);
    return size == 0 || (size >= least && size <= most);
}

template <class R>
__device__ __forceinline__ void step_one(const rates<R> &r, R g, R decay, float &w, float &m,
                                         float &v)
{
    const R first = r.beta1 * (R)m + r.rest1 * g, second = r.beta2 * (R)v + r.rest2 * g * g;
    w = (float)((R)w - (r.move * (first / (sqrt(second) + r.eps)) + decay * (R)w));
    m = (float)first;
    v = (float)second;
}

__device__ __forceinline__ void step(const step_params &p, double scale, int64_t i, float grad,
                                     float &w, float &m, float &v)
{
    const double g = scale * (double)grad;
    const bool   decays = i < p.n_decay;
    if (p.narrow && is_usual((float)g, 0x1p-40f, 0x1p60f) && is_usual(m, 0x1p-90f, 0x1p60f) &&
        is_usual(v, 0x1p-90f, 0x1p120f) && (g == 0) == ((float)g == 0))
        step_one(p.f, (float)g, decays ? p.f.decay : 0.0f, w, m, v);
    else step_one(p.d, g, decays ? p.d.decay : 0.0, w, m, v);
}

/* N elements, which are aligned to all of them. */
template <int N, class T> __device__ __forceinline__ void fetch(float (&to)[N], const T *from)
{
    struct alignas(sizeof(T) * N) pack {
        T v[N];
    };
    const pack p = *(const pack *)from;
#pragma unroll
    for (int j = 0; j < N; j++) to[j] = to_float(p.v[j]);
}

template <int N, class T> __device__ __forceinline__ void keep(T *to, const float (&from)[N])
{
    struct alignas(sizeof(T) * N) pack {
        T v[N];
    };
    pack p;
#pragma unroll
    for (int j = 0; j < N; j++) from_float(&p.v[j], from[j]);
    *(pack *)to = p;
}

template <class T, class G, int N>
__global__ void __launch_bounds__(THREADS) step_all(const __grid_constant__ step_params p)
{
    const double  scale = p.scale ? *p.scale : 1;
    const int64_t i = (blockIdx.x * (int64_t)THREADS + threadIdx.x) * N;
    if (i >= p.n || isnan(scale)) return;
    float g[N], w[N], m[N], v[N];
    fetch<N>(g, (const G *)p.grad + i);
    fetch<N>(m, p.m + i);
    fetch<N>(v, p.v + i);
    if (p.master) fetch<N>(w, p.master + i);
    else fetch<N>(w, (const T *)p.w + i);
#pragma unroll
    for (int j = 0; j < N; j++) step(p, scale, i + j, g[j], w[j], m[j], v[j]);
    keep<N>(p.m + i, m);
    keep<N>(p.v + i, v);
    if (p.master) keep<N>(p.master + i, w);
    keep<N>((T *)p.w + i, w);
}

template <class T, class G> void launch(const step_params &p, cudaStream_t s)
{
    const bool vectors = p.n % EACH == 0 && aligned16(p.grad) && aligned16(p.w) &&
                         aligned16(p.master) && aligned16(p.m) && aligned16(p.v);
    const int64_t each = THREADS * (vectors ? EACH : 1), blocks = (p.n + each - 1) / each;
    if (vectors) step_all<T, G, EACH><<<(unsigned)blocks, THREADS, 0, s>>>(p);
    else step_all<T, G, 1><<<(unsigned)blocks, THREADS, 0, s>>>(p);
}

/* 1 - beta^step */
double bias(double beta, int64_t step)
{
    return -expm1((double)step * log(beta));
}

template <class R> rates<R> rates_of(const ts_adamw_step_args &a)
{
    const double root = sqrt(bias(a.beta2, a.step));
    return { (R)a.beta1,
             (R)a.beta2,
             (R)(1 - a.beta1),
             (R)(1 - a.beta2),
             (R)(a.lr * root / bias(a.beta1, a.step)),
             (R)(a.eps * root),
             (R)(a.lr * a.weight_decay) };
}

bool is_narrow(const rates<double> &r)
{
    const double any[] = { r.beta1, r.beta2, r.move, r.decay };
    bool         ok = r.rest2 >= 0x1p-24 && r.rest1 >= 0x1p-24;
    for (double v : any) ok = ok && (v == 0 || (v >= 0x1p-30 && v <= 0x1p30));
    return ok && r.eps >= 0x1p-60 && r.eps <= 0x1p30;
}

} // namespace

extern "C" TS_API ts_status ts_adamw_step_cuda_workspace(const void *args, const ts_exec *x,
                                                         size_t *n_bytes);
extern "C" TS_API ts_status ts_adamw_step_cuda(const void *args, const ts_exec *x);

ts_status ts_adamw_step_cuda_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    (void)args, (void)x;
    *n_bytes = 0;
    return TS_OK;
}

ts_status ts_adamw_step_cuda(const void *args, const ts_exec *x)
{
    const ts_adamw_step_args &a = *(const ts_adamw_step_args *)args;
    const cudaStream_t        s = (cudaStream_t)x->stream;
    const rates<double>       d = rates_of<double>(a);
    const step_params         p = {
                a.n, a.n_decay,         rates_of<float>(a), d,           is_narrow(d), a.scale, a.grad,
                a.w, (float *)a.master, (float *)a.m,       (float *)a.v
    };
    const bool wide = a.grad_dtype == TS_F32;
    if (a.n > INT32_MAX * (int64_t)THREADS) return TS_E_UNSUPPORTED;
    if (a.n == 0) return TS_OK;
    if (a.dtype == TS_F32) launch<float, float>(p, s);
    else if (a.dtype == TS_BF16 && wide) launch<__nv_bfloat16, float>(p, s);
    else if (a.dtype == TS_BF16) launch<__nv_bfloat16, __nv_bfloat16>(p, s);
    else if (wide) launch<__half, float>(p, s);
    else launch<__half, __half>(p, s);
    return launched();
}
