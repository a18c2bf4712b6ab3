/* SPDX-License-Identifier: Apache-2.0 */
/* fake_half.h - the two 16-bit formats of fake_kernel.h; arithmetic on them is float's. */
#ifndef TS_FAKE_HALF_H
#define TS_FAKE_HALF_H

inline float fake_wide_bf16(uint16_t bits)
{
    return __uint_as_float((unsigned)bits << 16);
}

inline uint16_t fake_narrow_bf16(float f)
{
    const unsigned u = __float_as_uint(f);
    if (f != f) return 0x7fff;
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16); /* to nearest, ties to even */
}

inline float fake_wide_f16(uint16_t bits)
{
    const int      exponent = bits >> 10 & 31;
    const unsigned fraction = bits & 1023, sign = (bits & 0x8000u) << 16;
    float f = ldexpf((float)(fraction + (exponent ? 1024 : 0)), (exponent ? exponent : 1) - 25);
    if (exponent == 31) f = __uint_as_float(0x7f800000 | fraction << 13);
    return __uint_as_float(__float_as_uint(f) | sign);
}

inline uint16_t fake_narrow_f16(float f)
{
    const unsigned sign = __float_as_uint(f) >> 16 & 0x8000;
    const float    a = fabsf(f);
    unsigned       u = __float_as_uint(a);
    if (f != f) return 0x7fff;
    if (a >= 65520.0f) u = 0x7c00; /* nearer to infinity than to 65504 */
    else if (a < 0x1p-14f)
        u = __float_as_uint(a + 0.5f) - __float_as_uint(0.5f); /* the sum rounds at 2^-24 */
    else u = (u + 0xfff + (u >> 13 & 1) - (112u << 23)) >> 13;
    return (uint16_t)(sign | u);
}

#define FAKE_16(T, format)                                                                         \
    struct T {                                                                                     \
        uint16_t bits;                                                                             \
        T() = default;                                                                             \
        T(float f) : bits(fake_narrow_##format(f))                                                 \
        {                                                                                          \
        }                                                                                          \
        operator float() const                                                                     \
        {                                                                                          \
            return fake_wide_##format(bits);                                                       \
        }                                                                                          \
    };                                                                                             \
    struct __align__(4) T##2                                                                       \
    {                                                                                              \
        T x, y;                                                                                    \
    };                                                                                             \
    inline float fake_to_float(T v)                                                                \
    {                                                                                              \
        return v;                                                                                  \
    }                                                                                              \
    inline float2 fake_to_float2(T##2 v)                                                           \
    {                                                                                              \
        return { v.x, v.y };                                                                       \
    }
FAKE_16(__nv_bfloat16, bf16)
FAKE_16(__half, f16)
typedef __nv_bfloat162 nv_bfloat162;
typedef __nv_bfloat16  nv_bfloat16;
typedef __half2        half2;
typedef __half         half;

#define __bfloat162float(v)         fake_to_float((__nv_bfloat16)(v))
#define __bfloat1622float2          fake_to_float2
#define __float2bfloat16(f)         __nv_bfloat16((float)(f))
#define __float2bfloat16_rn         __float2bfloat16
#define __floats2bfloat162_rn(a, b) (__nv_bfloat162 { __float2bfloat16(a), __float2bfloat16(b) })
#define __half2float(v)             fake_to_float((__half)(v))
#define __half22float2              fake_to_float2
#define __float2half(f)             __half((float)(f))
#define __float2half_rn             __float2half
#define __floats2half2_rn(a, b)     (__half2 { __float2half(a), __float2half(b) })

/* To odd: whatever was cut off shows in the last bit, so that rounding again is rounding once. */
inline float fake_to_odd(double v)
{
    const float f = (float)v;
    if (f == v || f != f || fabsf(f) > 3e38f) return f;
    unsigned u = __float_as_uint(f);
    if (fabs((double)f) > fabs(v)) u--; /* towards zero */
    return __uint_as_float(u | 1);
}

inline __half __double2half(double v)
{
    return __half(fake_to_odd(v));
}

inline __nv_bfloat16 __double2bfloat16(double v)
{
    return __nv_bfloat16(fake_to_odd(v));
}

#endif
