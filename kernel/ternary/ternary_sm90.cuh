/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_sm90.cuh - what the device's kernels share.
 *
 * A call returns before the device has looked at anything, so nothing is refused for what a tensor
 * holds. Instead a group that is out of range is given a scale that is NaN; and what is made of
 * unsound codes or scales is not finite. */
#ifndef TS_TERNARY_SM90_CUH
#define TS_TERNARY_SM90_CUH

#include "dtype.cuh"

extern "C" {
#include "touchstone/ternary.h"
}

extern "C" ts_status ts_ternary_pack_sm90(const void *args, const ts_exec *x);

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

/* ---- host side ---- */

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
