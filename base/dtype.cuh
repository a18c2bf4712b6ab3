/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.cuh - elements on the device: their number in 16 bytes, and conversion to and from
 * float. */
#ifndef TS_BASE_DTYPE_CUH
#define TS_BASE_DTYPE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

template <class T> struct lanes; /* n: elements in 16 bytes */
template <> struct lanes<float> {
    static constexpr int n = 4;
};
template <> struct lanes<__half> {
    static constexpr int n = 8;
};
template <> struct lanes<__nv_bfloat16> {
    static constexpr int n = 8;
};

static __device__ __forceinline__ void unpack(uint4 v, float (&f)[4])
{
    f[0] = __uint_as_float(v.x), f[1] = __uint_as_float(v.y);
    f[2] = __uint_as_float(v.z), f[3] = __uint_as_float(v.w);
}

/* Two 16-bit elements of a word, the lower first. */
static __device__ __forceinline__ float2 widen(unsigned w, __nv_bfloat16)
{
    return make_float2(__uint_as_float(w << 16), __uint_as_float(w & 0xffff0000u));
}

static __device__ __forceinline__ float2 widen(unsigned w, __half)
{
    return __half22float2(*reinterpret_cast<__half2 *>(&w));
}

static __device__ __forceinline__ unsigned narrow(float a, float b, __nv_bfloat16)
{
    const __nv_bfloat162 p = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const unsigned *>(&p);
}

static __device__ __forceinline__ unsigned narrow(float a, float b, __half)
{
    const __half2 p = __floats2half2_rn(a, b);
    return *reinterpret_cast<const unsigned *>(&p);
}

template <class T> static __device__ __forceinline__ void unpack(uint4 v, float (&f)[8])
{
    const unsigned w[4] = { v.x, v.y, v.z, v.w };
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float2 p = widen(w[k], T());
        f[2 * k] = p.x, f[2 * k + 1] = p.y;
    }
}

template <class T, int N> static __device__ __forceinline__ void unpack_as(uint4 v, float (&f)[N])
{
    if constexpr (N == 4) unpack(v, f);
    else unpack<T>(v, f);
}

template <class T, int N> static __device__ __forceinline__ uint4 pack_as(const float (&f)[N])
{
    if constexpr (N == 4)
        return make_uint4(__float_as_uint(f[0]), __float_as_uint(f[1]), __float_as_uint(f[2]),
                          __float_as_uint(f[3]));
    else
        return make_uint4(narrow(f[0], f[1], T()), narrow(f[2], f[3], T()), narrow(f[4], f[5], T()),
                          narrow(f[6], f[7], T()));
}

static __device__ __forceinline__ float to_float(float v)
{
    return v;
}
static __device__ __forceinline__ float to_float(__half v)
{
    return __half2float(v);
}
static __device__ __forceinline__ float to_float(__nv_bfloat16 v)
{
    return __bfloat162float(v);
}
static __device__ __forceinline__ void from_float(float *p, float v)
{
    *p = v;
}
static __device__ __forceinline__ void from_float(__half *p, float v)
{
    *p = __float2half_rn(v);
}
static __device__ __forceinline__ void from_float(__nv_bfloat16 *p, float v)
{
    *p = __float2bfloat16_rn(v);
}

#endif
