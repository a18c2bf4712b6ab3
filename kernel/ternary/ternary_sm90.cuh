/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_sm90.cuh - shared by the device's kernels.
 *
 * A call returns before the device has read any tensor, so no call is rejected for the contents of
 * one. Instead a group that is out of range gets a scale of NaN, and results computed from invalid
 * codes or scales are not finite. */
#ifndef TS_TERNARY_SM90_CUH
#define TS_TERNARY_SM90_CUH

#include "dtype.cuh"

extern "C" {
#include "touchstone/ternary.h"
}

extern "C" ts_status ts_ternary_pack_sm90(const void *args, const ts_exec *x);

/* The product with many rows, in the workspace of ts_ternary_linear_packed_sm90. Where dtype or
 * device do not allow it: TS_E_UNSUPPORTED, and nothing was done. */
extern "C" ts_status ts_ternary_wide_sm90a(const ts_ternary_linear_packed_args *a,
                                           const ts_exec                       *x);

/* Both gradients, after the latents have been packed into the workspace; and the further workspace
 * that they need. */
extern "C" ts_status ts_ternary_gradient_sm90a(const ts_ternary_linear_backward_args *a,
                                               const ts_exec                         *x);
extern "C" size_t    ts_ternary_gradient_bytes_sm90a(const ts_ternary_linear_dims *d);

namespace
{

enum {
    GROUP = TS_TERNARY_GROUP,
    GROUP_BYTES = TS_TERNARY_GROUP_BYTES,
    WARPS = 8,
    THREADS = 32 * WARPS,
    LINE = 128, /* what parts of a workspace are aligned to */
};

constexpr unsigned ALL = 0xffffffffu;

__host__ __device__ inline int64_t groups_of(int64_t n_in)
{
    return n_in / GROUP + (n_in % GROUP != 0);
}

__host__ __device__ inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

__device__ __forceinline__ float scale_at(const uint16_t *p)
{
    return __half2float(__ushort_as_half(__ldg(p)));
}

/* Of code point c: NaN for 3. */
__device__ __forceinline__ float weight_of(unsigned c, float s)
{
    return c == 3 ? NAN : (float)((int)c - 1) * s;
}

/* ---- copies to shared memory, N bytes each, that go on while their thread does other things ----
 */

template <int N> __device__ __forceinline__ void copy_ahead(void *shared, const void *global)
{
    const unsigned s = (unsigned)__cvta_generic_to_shared(shared);
    if constexpr (N == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(s), "l"(global), "n"(N)
                     : "memory");
}

__device__ __forceinline__ void close_copies(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> __device__ __forceinline__ void await_all_but(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* ---- launches ---- */

/* A block may be there before the stream's kernels before it are done: it begins with this, until
 * they are and what they wrote can be read. The next may come as soon as there is room. */
__device__ __forceinline__ void start_after_others(void)
{
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
}

/* ---- host side ---- */

inline bool aligned_to(const void *p, size_t n)
{
    return (uintptr_t)p % n == 0;
}

template <class K> ts_status allow_shared(K *kernel, size_t n_bytes)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)n_bytes) == cudaSuccess
               ? TS_OK
               : TS_E_DEVICE;
}

/* Bytes that a block may have at most. */
inline size_t most_shared(void)
{
    int device = 0, n = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&n, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return (size_t)n;
}

/* For kernels that begin with start_after_others. */
template <class A>
ts_status launch(void (*kernel)(A), dim3 grid, unsigned threads, size_t n_shared,
                 cudaStream_t stream, const A &args)
{
    cudaLaunchAttribute early = {};
    cudaLaunchConfig_t  how = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    how.gridDim = grid, how.blockDim = dim3(threads), how.dynamicSmemBytes = n_shared;
    how.stream = stream, how.attrs = &early, how.numAttrs = 1;
    return cudaLaunchKernelEx(&how, kernel, args) == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

inline ts_status launched(void)
{
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

/* Blocks that fill the device a few times over, where there is so much to do. */
inline unsigned blocks_for(int64_t n)
{
    return (unsigned)(n < 132 * 16 ? n : 132 * 16);
}

/* A workspace from its first whole line on, handed out in lines. */
inline char *first_line(void *workspace)
{
    return (char *)workspace + (LINE - (uintptr_t)workspace % LINE) % LINE;
}

inline size_t lines(size_t n_bytes)
{
    return (n_bytes + LINE - 1) / LINE * LINE;
}

inline size_t code_bytes(const ts_ternary_linear_dims *d)
{
    return (size_t)(d->n_out * groups_of(d->n_in)) * GROUP_BYTES;
}

inline size_t scale_bytes(const ts_ternary_linear_dims *d)
{
    return code_bytes(d) / GROUP_BYTES * sizeof(uint16_t);
}

/* What latents are packed into, at the beginning of a workspace; and what comes after it. */
struct packed_room {
    uint8_t  *code;
    uint16_t *scale;
    char     *rest;

    packed_room(const ts_ternary_linear_dims *d, void *workspace)
        : code((uint8_t *)first_line(workspace)),
          scale((uint16_t *)(void *)(code + lines(code_bytes(d)))),
          rest((char *)scale + lines(scale_bytes(d)))
    {
    }
    static size_t n_bytes(const ts_ternary_linear_dims *d)
    {
        return lines(code_bytes(d)) + lines(scale_bytes(d)) + LINE;
    }
};

} // namespace

#endif
