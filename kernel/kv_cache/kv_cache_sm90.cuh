/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_sm90.cuh - shared by all kernels of the cache: the parts of a call, passed as parameters
 * of a launch, and conversion of single stored elements. */
#ifndef TS_KV_CACHE_SM90_CUH
#define TS_KV_CACHE_SM90_CUH

#include "dtype.cuh"
#include "kv_cache_impl.h"

/* ---- the parts of a call, cut into launches ---- */

enum { MOST_PARTS = 256 }; /* of a launch */

struct kv_part {
    int len, n, first, seq; /* as in ts_kv_part */
};

/* Work is counted in units, of which begin[i] come before part i, and begin[n] are all. */
struct kv_call {
    ts_kv_layout l;
    int          layer, n;
    int          begin[MOST_PARTS + 1];
    kv_part      part[MOST_PARTS];
};

/* The part that a unit belongs to. */
static __device__ __forceinline__ int part_of(const kv_call &c, int unit)
{
    int low = 0, high = c.n - 1;
    while (low < high) {
        const int mid = (low + high + 1) / 2;
        if (c.begin[mid] <= unit) low = mid;
        else high = mid - 1;
    }
    return low;
}

static __device__ __forceinline__ const int32_t *pages_of(const kv_call &c, const kv_part &p)
{
    return ts_kv_pages(&c.l, c.l.table, p.seq, c.layer);
}

/* Lengths and places of a call are kept as int. */
static inline bool fits(const ts_kv_part *part, int64_t n_part)
{
    for (int64_t i = 0; i < n_part; i++)
        if (part[i].len > INT32_MAX - part[i].n || part[i].first > INT32_MAX - part[i].n)
            return false;
    return true;
}

/* Takes parts from *i on into a launch, as long as there is room, but for those of no units.
 * Returns how many units there are, or -1 if too many. */
template <class UNITS>
static int64_t take_parts(kv_call *c, const ts_kv_part *part, int64_t n_part, int64_t *i,
                          UNITS units)
{
    int64_t n = 0;
    c->n = 0;
    for (; *i < n_part && c->n < MOST_PARTS; (*i)++) {
        const ts_kv_part *p = &part[*i];
        c->part[c->n] = { (int)p->len, (int)p->n, (int)p->first, (int)p->seq };
        const int64_t here = units(c->part[c->n]);
        if (!here) continue;
        if (here > INT32_MAX - n) return -1;
        c->begin[c->n++] = (int)n;
        n += here;
    }
    c->begin[c->n] = (int)n;
    return n;
}

static inline ts_status launched(void)
{
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

/* ---- elements ---- */

/* Byte b of the row of position p is stored at b ^ twist_of(..). So the same vectors of eight rows
 * one after the other lie in all banks of shared memory, wherever whole rows are copied to; of two
 * rows, the same four. Rows of an odd number of vectors need no twist for that. It changes bits
 * below the largest power of two that divides row_bytes, so that a byte stays in its row. */
static constexpr __host__ __device__ __forceinline__ int twist_of(int row_bytes, int p)
{
    if (row_bytes % 128 == 0) return ((p ^ (p & 1) << 2) & 7) << 4;
    if (row_bytes % 64 == 0) return (p >> 1 & 3) << 4;
    return row_bytes % 32 == 0 ? (p >> 2 & 1) << 4 : 0;
}

static __device__ __forceinline__ int lane(void)
{
    return (int)(threadIdx.x % 32);
}

template <ts_dtype T>
static __device__ __forceinline__ float stored(const char *row, int d, int twist)
{
    if constexpr (T == TS_F32) return *(const float *)(row + ((d * 4) ^ twist));
    if constexpr (T == TS_F16) return to_float(*(const __half *)(row + ((d * 2) ^ twist)));
    if constexpr (T == TS_BF16) return to_float(*(const __nv_bfloat16 *)(row + ((d * 2) ^ twist)));
    if constexpr (T == TS_U8) return (float)(uint8_t)row[d ^ twist];
    if constexpr (T == TS_U4) return (float)((uint8_t)row[(d / 2) ^ twist] >> d % 2 * 4 & 15);
}

static __device__ __forceinline__ float load_io(ts_dtype t, const void *p, int64_t i)
{
    if (t == TS_F32) return ((const float *)p)[i];
    return t == TS_F16 ? to_float(((const __half *)p)[i]) : to_float(((const __nv_bfloat16 *)p)[i]);
}

static __device__ __forceinline__ void store_io(ts_dtype t, void *p, int64_t i, float v)
{
    if (t == TS_F32) ((float *)p)[i] = v;
    else if (t == TS_F16) from_float((__half *)p + i, v);
    else from_float((__nv_bfloat16 *)p + i, v);
}

/* s and lo. */
static __device__ __forceinline__ float2 load_pair(ts_dtype t, const char *meta, int64_t i)
{
    return t == TS_F32 ? ((const float2 *)meta)[i] : __half22float2(((const __half2 *)meta)[i]);
}

static constexpr __host__ __device__ bool is_code(ts_dtype t)
{
    return t == TS_U8 || t == TS_U4;
}

/* ---- codes ---- */

static __device__ __forceinline__ int top_code(const ts_kv_layout &l)
{
    return l.store_dtype == TS_U8 ? 255 : 15;
}

/* The extremes of a group. */
struct extremes {
    float lo = INFINITY, hi = -INFINITY;
    bool  finite = true;

    __device__ __forceinline__ void meet(float x)
    {
        lo = fminf(lo, x), hi = fmaxf(hi, x);
        finite = finite && fabsf(x) <= 3.402823466e38f;
    }
    __device__ __forceinline__ void of_warp(void)
    {
#pragma unroll
        for (int d = 16; d; d /= 2) {
            lo = fminf(lo, __shfl_xor_sync(0xffffffffu, lo, d));
            hi = fmaxf(hi, __shfl_xor_sync(0xffffffffu, hi, d));
        }
        finite = __all_sync(0xffffffffu, finite);
    }
};

/* s and lo of a group, as they are kept: NaN, if it is not finite. */
static __device__ __forceinline__ float2 pair_of(const ts_kv_layout &l, const extremes &e)
{
    const double s = e.finite ? ((double)e.hi - (double)e.lo) / top_code(l) : NAN;
    const float  lo = e.finite ? e.lo : NAN;
    if (l.meta_dtype == TS_F32) return make_float2((float)s, lo);
    return make_float2(__half2float(__double2half(s)), __half2float(__float2half_rn(lo)));
}

/* In double, so that the bits are those of every other implementation. */
static __device__ __forceinline__ unsigned code_of(float x, float2 m, int top)
{
    const double q = m.x > 0 ? rint(((double)x - (double)m.y) / (double)m.x) : 0;
    return q > 0 ? (unsigned)fmin(q, (double)top) : 0u;
}

static __device__ __forceinline__ float decoded(float code, float2 m)
{
    return __fadd_rn(m.y, __fmul_rn(code, m.x));
}

/* Element d of the key or value of position p, in row `row` of a page; i: the index of its pair. */
template <ts_dtype T>
static __device__ __forceinline__ float read_back(const ts_kv_layout &l, const char *data,
                                                  const char *meta, int64_t row, int64_t i, int p,
                                                  int d)
{
    const float x = stored<T>(data + row * l.row_bytes, d, twist_of((int)l.row_bytes, p));
    if constexpr (!is_code(T)) return x;
    return decoded(x, load_pair(l.meta_dtype, meta, i));
}

/* A row of keys at position p, by the lanes of a warp: element d is given to put(d, x). */
template <ts_dtype T, class PUT>
static __device__ __forceinline__ void read_key(const ts_kv_layout &l, const int32_t *pages,
                                                int64_t seq, int64_t layer, int len, int head,
                                                int p, PUT put)
{
    const int D = (int)l.head_dim;
    if (is_code(T) && p >= ts_kv_tail_begin(&l, len)) {
        const int64_t at = ts_kv_tail_at(&l, seq, layer, head, p);
        for (int d = lane(); d < D; d += 32) put(d, load_io(l.io_dtype, l.tail, at + d));
        return;
    }
    const int64_t page = pages[p / (int)l.page], slot = p % (int)l.page;
    const int64_t row = ts_kv_row(&l, page, head, slot);
    for (int d = lane(); d < D; d += 32)
        put(d, read_back<T>(l, l.k_data, l.k_meta, row,
                            is_code(T) ? ts_kv_key_pair(&l, page, head, slot, d) : 0, p, d));
}

template <ts_dtype T, class PUT>
static __device__ __forceinline__ void read_value(const ts_kv_layout &l, const int32_t *pages,
                                                  int head, int p, PUT put)
{
    const int64_t row = ts_kv_row(&l, pages[p / (int)l.page], head, p % (int)l.page);
    for (int d = lane(); d < (int)l.head_dim; d += 32)
        put(d, read_back<T>(l, l.v_data, l.v_meta, row, row, p, d));
}

/* run(constant) with the store's dtype as a compile-time constant. */
template <ts_dtype T> struct dtype_is {
    static constexpr ts_dtype value = T;
};

template <class RUN> static ts_status by_store(ts_dtype t, RUN run)
{
    if (t == TS_F32) return run(dtype_is<TS_F32>());
    if (t == TS_F16) return run(dtype_is<TS_F16>());
    if (t == TS_BF16) return run(dtype_is<TS_BF16>());
    return t == TS_U8 ? run(dtype_is<TS_U8>()) : run(dtype_is<TS_U4>());
}

/* ---- kv_cache_attend_sm90.cu ---- */

size_t    ts_kv_attend_sm90_workspace(const ts_kv_layout *l);
ts_status ts_kv_attend_sm90(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                            const ts_kv_part *part, const void *q, void *out, float *lse);
ts_status ts_kv_attend_tree_sm90(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                                 const ts_kv_part *part, const ts_kv_tree *tree, const void *q,
                                 void *out, float *lse);

#endif
