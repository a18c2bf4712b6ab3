/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_mma.cuh - instructions that have no name in C: products of tensor cores, copies that are
 * waited for later, and shared memory in words. */
#ifndef TS_KV_CACHE_MMA_CUH
#define TS_KV_CACHE_MMA_CUH

#include <type_traits>

#include "dtype.cuh"

/* c += A B: A is 16 x 16, B 16 x 8, the sum float. Lane 4 g + t has of A rows g (a0, a2) and g + 8
 * (a1, a3), places 2 t, 2 t + 1 (a0, a1) and those + 8; of B column g, the same places; of c rows g
 * (c[0], c[1]) and g + 8, columns 2 t and 2 t + 1. */
template <class T>
static __device__ __forceinline__ void mma(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                           unsigned a3, const unsigned (&b)[2])
{
    if constexpr (std::is_same<T, __half>::value)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b[0]), "r"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b[0]), "r"(b[1]));
}

/* An 8 x 8 matrix of 16-bit elements: lane 4 g + t has row g, columns 2 t and 2 t + 1. */
static __device__ __forceinline__ unsigned transposed(unsigned a)
{
    unsigned b;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(b) : "r"(a));
    return b;
}

/* Four matrices of 8 x 8 16-bit elements from shared memory, as above; lane 8 i + r gives the
 * address of row r of matrix i. */
template <bool TRANSPOSED>
static __device__ __forceinline__ void load_matrices(unsigned (&w)[4], unsigned row)
{
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                     : "r"(row)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                     : "r"(row)
                     : "memory");
}

static __device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

/* N bytes to shared memory, or zeros. */
template <int N>
static __device__ __forceinline__ void copy_ahead(unsigned to, const void *from, bool valid)
{
    const int n = valid ? N : 0;
    if constexpr (N == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(n)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(N),
                     "r"(n)
                     : "memory");
}

/* Closes a batch of copies, which may be empty. */
static __device__ __forceinline__ void copies_end(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until this thread's copies have come, all but the last N batches. */
template <int N> static __device__ __forceinline__ void copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* ---- copies of whole runs, which end a phase of a barrier in shared memory ---- */

/* n arrivals a phase, and the bytes that they say are on their way. */
static __device__ __forceinline__ void barrier_begin(unsigned barrier, int n)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(n) : "memory");
}

static __device__ __forceinline__ void barrier_arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives as soon as this thread's copies have come, those of copy_ahead. */
static __device__ __forceinline__ void barrier_arrive_later(unsigned barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/* After barriers have begun, or after plain stores to where copies go next. */
static __device__ __forceinline__ void copies_see_stores(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

static __device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned n_bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                 "r"(n_bytes)
                 : "memory");
}

static __device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "again%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t"
                 "@!p bra again%=;\n\t}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Addresses and size are multiples of 16 bytes. What is read once leaves the L2 cache first. */
static __device__ __forceinline__ void copy_run(unsigned to, const void *from, unsigned n_bytes,
                                                unsigned barrier)
{
    uint64_t once;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(n_bytes), "r"(barrier), "l"(once)
                 : "memory");
}

/* In one lane of the warp, always the same. The compiler knows that it is one: copies, whose
 * operands are those of a warp, are then not made a loop over lanes. */
static __device__ __forceinline__ bool is_elected(void)
{
    unsigned yes;
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(yes));
    return yes;
}

/* A word that is looked at later. */
static __device__ __forceinline__ int fetch_to_l1(const int32_t *p)
{
    int x;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(p));
    return x;
}

static __device__ __forceinline__ void fetch_to_l2(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

/* ---- words ---- */

template <int N, int M>
static __device__ __forceinline__ void load_words(unsigned (&w)[M], unsigned from)
{
    static_assert(N <= M && (N == 1 || N == 2 || N == 4), "one load");
    if constexpr (N == 4)
        asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                     : "r"(from)
                     : "memory");
    else if constexpr (N == 2)
        asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];"
                     : "=r"(w[0]), "=r"(w[1])
                     : "r"(from)
                     : "memory");
    else asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w[0]) : "r"(from) : "memory");
}

/* 16 bytes of shared memory. */
static __device__ __forceinline__ void store_zero(unsigned to)
{
    asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" ::"r"(to), "r"(0) : "memory");
}

#endif
