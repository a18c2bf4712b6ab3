/* SPDX-License-Identifier: Apache-2.0 */
/* fake_kernel.h - the CUDA language as far as correct kernels need it, for a C++ compiler:
 * fake_nvcc puts it before every source. */
#ifndef TS_FAKE_KERNEL_H
#define TS_FAKE_KERNEL_H

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utility>

#include "fake_state.h"

/* ---- words of the language; fake_nvcc looks for two of these expansions ---- */

#define __global__ __attribute__((noinline, used))
#define __shared__ static thread_local
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __noinline__    __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n)    __attribute__((aligned(n)))

typedef fake_index uint3;

struct dim3 : fake_index {
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : fake_index { x, y, z }
    {
    }
};

extern "C" {
thread_local fake_state fake_now;
}
#define gridDim   (fake_now.grid)
#define blockDim  (fake_now.block)
#define blockIdx  (fake_now.block_at)
#define threadIdx (fake_now.thread_at)
#define warpSize  32

/* What `extern __shared__ T name[]` becomes a pointer to. */
struct fake_shared {
    template <class T> operator T *() const
    {
        return (T *)fake_now.shared;
    }
};

/* ---- what NAME__call and NAME__params, which fake_nvcc adds, are made of ---- */

template <class... A, size_t... I>
void fake_unpack(void (*f)(A...), void **p, std::index_sequence<I...>)
{
    f(*(A *)p[I]...);
}

template <class... A> void fake_apply(void (*f)(A...), void **p)
{
    fake_unpack(f, p, std::index_sequence_for<A...>());
}

template <size_t N> struct fake_table {
    fake_param row[N + 1];
};

template <class... A> constexpr fake_table<sizeof...(A)> fake_layout(void (*)(A...))
{
    const size_t             size[] = { sizeof(A)..., 0 }, align[] = { alignof(A)..., 1 };
    fake_table<sizeof...(A)> t {};
    size_t                   at = 0;
    for (size_t i = 0; i < sizeof...(A); i++) {
        at = (at + align[i] - 1) / align[i] * align[i];
        t.row[i].offset = at;
        t.row[i].n_bytes = size[i];
        at += size[i];
    }
    return t;
}

/* ---- barriers, and what a warp tells itself: show, wait, look, wait ---- */

inline void __syncthreads()
{
    fake_now.wait(0);
}

inline void __syncwarp(unsigned mask = ~0u)
{
    fake_now.wait(mask);
}

inline void __threadfence()
{
}
#define __threadfence_block __threadfence

inline int __syncthreads_count(int is_true)
{
    int n = 0;
    fake_now.slot[fake_now.thread] = is_true != 0;
    __syncthreads();
    for (unsigned i = 0; i < fake_now.n_threads; i++) n += (int)fake_now.slot[i];
    __syncthreads();
    return n;
}
#define __syncthreads_or(is_true)  (__syncthreads_count(is_true) != 0)
#define __syncthreads_and(is_true) (__syncthreads_count(!(is_true)) == 0)

inline uint64_t *fake_warp()
{
    return fake_now.slot + (fake_now.thread - fake_now.lane);
}

template <class T> T fake_look(unsigned mask, T v, unsigned lane)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "a word");
    memcpy(fake_warp() + fake_now.lane, &v, sizeof v);
    __syncwarp(mask);
    memcpy(&v, fake_warp() + lane, sizeof v);
    __syncwarp(mask);
    return v;
}

/* Lane `to` if it is in this lane's part of the warp, and otherwise this lane. */
inline unsigned fake_lane(bool is_in, unsigned to)
{
    return is_in ? to : fake_now.lane;
}

template <class T> T __shfl_sync(unsigned mask, T v, int from, int width = 32)
{
    const unsigned w = (unsigned)width, lane = fake_now.lane;
    return fake_look(mask, v, lane / w * w + (unsigned)from % w);
}

template <class T> T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32)
{
    const unsigned w = (unsigned)width, lane = fake_now.lane, to = lane ^ (unsigned)bits;
    return fake_look(mask, v, fake_lane(to < (lane / w + 1) * w, to));
}

template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32)
{
    const unsigned w = (unsigned)width, lane = fake_now.lane;
    return fake_look(mask, v, fake_lane(lane % w + delta < w, lane + delta));
}

template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32)
{
    const unsigned w = (unsigned)width, lane = fake_now.lane;
    return fake_look(mask, v, fake_lane(lane % w >= delta, lane - delta));
}

inline unsigned __ballot_sync(unsigned mask, int is_true)
{
    unsigned votes = 0;
    fake_warp()[fake_now.lane] = is_true != 0;
    __syncwarp(mask);
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1) votes |= (unsigned)fake_warp()[i] << i;
    __syncwarp(mask);
    return votes;
}
#define __any_sync(mask, is_true) (__ballot_sync(mask, is_true) != 0)
#define __all_sync(mask, is_true) (__ballot_sync(mask, !(is_true)) == 0)

/* ---- atomics: nothing else runs ---- */

#define FAKE_ATOMIC(name, now)                                                                     \
    template <class T, class U> T name(T *p, U value)                                              \
    {                                                                                              \
        const T old = *p, v = (T)value;                                                            \
        *p = (T)(now);                                                                             \
        return old;                                                                                \
    }
FAKE_ATOMIC(atomicAdd, old + v)
FAKE_ATOMIC(atomicSub, old - v)
FAKE_ATOMIC(atomicMax, old < v ? v : old)
FAKE_ATOMIC(atomicMin, v < old ? v : old)
FAKE_ATOMIC(atomicOr, old | v)
FAKE_ATOMIC(atomicAnd, old &v)
FAKE_ATOMIC(atomicExch, v)

template <class T, class U, class V> T atomicCAS(T *p, U compare, V value)
{
    const T old = *p;
    if (old == (T)compare) *p = (T)value;
    return old;
}

/* ---- vectors ---- */

#define FAKE_VECTOR(T, name, bytes)                                                                \
    struct __align__(2 * (bytes)) name##2                                                          \
    {                                                                                              \
        T x, y;                                                                                    \
    };                                                                                             \
    struct __align__(4 * (bytes) < 16 ? 4 * (bytes) : 16) name##4                                  \
    {                                                                                              \
        T x, y, z, w;                                                                              \
    };                                                                                             \
    inline name##2 make_##name##2(T x, T y)                                                        \
    {                                                                                              \
        return { x, y };                                                                           \
    }                                                                                              \
    inline name##4 make_##name##4(T x, T y, T z, T w)                                              \
    {                                                                                              \
        return { x, y, z, w };                                                                     \
    }
FAKE_VECTOR(float, float, 4)
FAKE_VECTOR(int, int, 4)
FAKE_VECTOR(unsigned, uint, 4)
FAKE_VECTOR(unsigned short, ushort, 2)
FAKE_VECTOR(unsigned char, uchar, 1)
FAKE_VECTOR(double, double, 8)

/* ---- loads, stores and arithmetic ---- */

template <class T> T fake_load(const T *p)
{
    return *p;
}
#define __ldg  fake_load
#define __ldcs fake_load
#define __ldcg fake_load
#define __ldca fake_load

template <class T> void fake_store(T *p, T v)
{
    *p = v;
}
#define __stcs fake_store
#define __stcg fake_store
#define __stwb fake_store

template <class To, class From> To fake_cast(From v)
{
    To to;
    static_assert(sizeof to == sizeof v, "the same bits");
    memcpy(&to, &v, sizeof to);
    return to;
}
#define __int_as_float  fake_cast<float, int>
#define __uint_as_float fake_cast<float, unsigned>
#define __float_as_int  fake_cast<int, float>
#define __float_as_uint fake_cast<unsigned, float>

/* The C library declares some of these names and does not have them. */
#define __expf          expf
#define __exp10f        exp10f
#define __logf          logf
#define __log2f         log2f
#define __log10f        log10f
#define __powf          powf
#define __sinf          sinf
#define __cosf          cosf
#define __fmaf_rn       fmaf
#define __fsqrt_rn      sqrtf
#define __fadd_rn(a, b) ((a) + (b))
#define __fsub_rn(a, b) ((a) - (b))
#define __fmul_rn(a, b) ((a) * (b))
#define __fdiv_rn(a, b) ((a) / (b))
#define __fdividef      __fdiv_rn
#define __frcp_rn(a)    (1.0f / (a))
#define rsqrtf(a)       (1.0f / sqrtf(a))
#define __frsqrt_rn     rsqrtf
#define __popc          __builtin_popcount
#define __clz(a)        ((a) ? __builtin_clz((unsigned)(a)) : 32)
#define __ffs           __builtin_ffs
#define __trap          __builtin_trap

#define FAKE_MIN_MAX(T)                                                                            \
    inline T min(T a, T b)                                                                         \
    {                                                                                              \
        return b < a ? b : a;                                                                      \
    }                                                                                              \
    inline T max(T a, T b)                                                                         \
    {                                                                                              \
        return a < b ? b : a;                                                                      \
    }
FAKE_MIN_MAX(int)
FAKE_MIN_MAX(unsigned)
FAKE_MIN_MAX(long)
FAKE_MIN_MAX(unsigned long)
FAKE_MIN_MAX(long long)
FAKE_MIN_MAX(unsigned long long)
FAKE_MIN_MAX(float)
FAKE_MIN_MAX(double)

#include "fake_half.h"

#endif
