/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_pack_sm90.cu - latents to codes and back, on the device. */
#include <math.h>

#include "ternary_sm90.cuh"

namespace
{

constexpr uint16_t OUT_OF_RANGE = 0x7e00u; /* NaN */

struct pack_params {
    const float *w;
    uint8_t     *code;
    uint16_t    *scale;
    int64_t      n_out, n_in, n_groups;
    bool         aligned; /* may a lane load four latents at once? */
};

/* As base/dtype.c and the definition have it, for what is not plain. */
__device__ uint16_t scale_in_order(const float *w, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += fabs((double)w[j]);
    const double mean = sum / (double)n;
    if (!(mean < 65520)) return OUT_OF_RANGE;
    return __half_as_ushort(__double2half(mean));
}

/* Sums in two orders differ by far less than a float's spacing; see ternary_simd.h. */
__device__ __forceinline__ uint16_t scale_of(double sum, const float *w, int64_t n)
{
    const float    mean = (float)(sum / (double)n);
    const unsigned past = (__float_as_uint(mean) & 0x1fffu) - 0xfffu;
    if (!(mean >= 0x1p-14f && mean < 65504) || past <= 2) return scale_in_order(w, n);
    return __half_as_ushort(__float2half_rn(mean));
}

/* The mean from a sum in float, of which no term passed more than eight roundings: it is within ten
 * of a float's spacings. Is what it rounds to certain? */
__device__ __forceinline__ bool is_certain(float mean)
{
    const unsigned past = (__float_as_uint(mean) & 0x1fffu) - (0x1000u - 10);
    return mean >= 0x1.01p-14f && mean < 65000 && past > 20;
}

__device__ __forceinline__ unsigned code_of(float w, float s)
{
    return 2 * fabsf(w) > s ? (w > 0 ? 2u : 0u) : 1u;
}

/* Groups that a warp has at once, so as to keep memory busy. */
enum { AT_ONCE = 4 };

/* Four latents a lane. */
__device__ __forceinline__ void load(const pack_params &p, int64_t o, int64_t g, float (&v)[4])
{
    const int     lane = threadIdx.x % 32;
    const int64_t left = p.n_in - g * GROUP;
    const float  *w = p.w + o * p.n_in + g * GROUP;
    if (p.aligned && left >= GROUP) {
        const float4 f = __ldcs((const float4 *)w + lane);
        v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++) v[k] = lane * 4 + k < left ? w[lane * 4 + k] : 0;
    }
}

/* A byte a lane. */
__device__ __forceinline__ void pack(const pack_params &p, int64_t o, int64_t g, float (&v)[4])
{
    const int     lane = threadIdx.x % 32;
    const int64_t at = o * p.n_groups + g, n = min(p.n_in - g * GROUP, (int64_t)GROUP);
    float         quick = (fabsf(v[0]) + fabsf(v[1])) + (fabsf(v[2]) + fabsf(v[3]));
#pragma unroll
    for (int d = 16; d; d >>= 1) quick += __shfl_xor_sync(ALL, quick, d);
    const float mean = n == GROUP ? quick * (1.0f / GROUP) : quick / (float)n;
    uint16_t    h = __half_as_ushort(__float2half_rn(mean));
    if (!is_certain(mean)) {
        double sum = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) sum += fabs((double)v[k]);
#pragma unroll
        for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(ALL, sum, d);
        h = scale_of(sum, p.w + o * p.n_in + g * GROUP, n);
    }
    const float s = h == 0 || h == OUT_OF_RANGE ? INFINITY : __half2float(__ushort_as_half(h));
    unsigned    byte = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) byte |= code_of(v[k], s) << 2 * k;
    p.code[at * GROUP_BYTES + lane] = (uint8_t)byte;
    if (lane == 0) p.scale[at] = h;
}

/* Rows over blocks, groups over warps: no division. */
__global__ void __launch_bounds__(THREADS) pack_kernel(pack_params p)
{
    for (int64_t o = blockIdx.x; o < p.n_out; o += gridDim.x)
        for (int64_t g = threadIdx.x / 32; g < p.n_groups; g += WARPS * AT_ONCE) {
            float v[AT_ONCE][4];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if (g + i * WARPS < p.n_groups) load(p, o, g + i * WARPS, v[i]);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if (g + i * WARPS < p.n_groups) pack(p, o, g + i * WARPS, v[i]);
        }
}

struct unpack_params {
    const uint8_t  *code;
    const uint16_t *scale;
    float          *wt;
    int64_t         n_out, n_in, n_groups;
};

__global__ void __launch_bounds__(THREADS) unpack_kernel(unpack_params p)
{
    for (int64_t o = blockIdx.x; o < p.n_out; o += gridDim.x)
        for (int64_t j = threadIdx.x; j < p.n_in; j += THREADS) {
            const int64_t  at = o * p.n_groups + j / GROUP;
            const unsigned byte = p.code[at * GROUP_BYTES + j % GROUP / 4];
            p.wt[o * p.n_in + j] = weight_of(byte >> 2 * (j % 4) & 3, scale_at(p.scale + at));
        }
}

} // namespace

extern "C" TS_API ts_status ts_ternary_pack_sm90(const void *args, const ts_exec *x)
{
    const ts_ternary_pack_args *a = (const ts_ternary_pack_args *)args;
    const int64_t               n_groups = groups_of(a->d.n_in);
    const pack_params           p = { a->w,
                                      a->code,
                                      a->scale,
                                      a->d.n_out,
                                      a->d.n_in,
                                      n_groups,
                                      (uintptr_t)a->w % 16 == 0 && a->d.n_in % 4 == 0 };
    if (p.n_out == 0 || n_groups == 0) return TS_OK;
    pack_kernel<<<blocks_for(p.n_out), THREADS, 0, (cudaStream_t)x->stream>>>(p);
    return launched();
}

extern "C" TS_API ts_status ts_ternary_unpack_sm90(const void *args, const ts_exec *x)
{
    const ts_ternary_unpack_args *a = (const ts_ternary_unpack_args *)args;
    const unpack_params           p = {
                  a->code, a->scale, a->wt, a->d.n_out, a->d.n_in, groups_of(a->d.n_in)
    };
    if (p.n_out == 0 || p.n_in == 0) return TS_OK;
    unpack_kernel<<<blocks_for(p.n_out), THREADS, 0, (cudaStream_t)x->stream>>>(p);
    return launched();
}
