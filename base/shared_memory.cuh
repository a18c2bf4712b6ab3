/* SPDX-License-Identifier: Apache-2.0 */
/* shared_memory.cuh - access to shared memory by 32-bit address, as PTX instructions need it: words
 * and 16-byte vectors. */
#ifndef TS_SHARED_MEMORY_CUH
#define TS_SHARED_MEMORY_CUH

static __device__ __forceinline__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ unsigned load_word(unsigned at)
{
    unsigned w;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w) : "r"(at) : "memory");
    return w;
}

static __device__ __forceinline__ void store_word(unsigned to, unsigned w)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(w) : "memory");
}

static __device__ __forceinline__ uint4 load_piece(unsigned at)
{
    uint4 p;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(p.x), "=r"(p.y), "=r"(p.z), "=r"(p.w)
                 : "r"(at)
                 : "memory");
    return p;
}

static __device__ __forceinline__ void store_piece(unsigned to, uint4 p)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(p.x), "r"(p.y), "r"(p.z),
                 "r"(p.w)
                 : "memory");
}

static __device__ __forceinline__ void store_pair(unsigned to, float2 v)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(v.x), "f"(v.y) : "memory");
}

static __device__ __forceinline__ float2 load_pair(unsigned at)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory");
    return v;
}

static __device__ __forceinline__ float4 load_floats(unsigned at)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}

static __device__ __forceinline__ void store_floats(unsigned to, float4 v)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v.x), "f"(v.y), "f"(v.z),
                 "f"(v.w)
                 : "memory");
}

#endif
