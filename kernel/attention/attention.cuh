/* SPDX-License-Identifier: Apache-2.0 */
/* attention.cuh - shared by the CUDA kernels of both passes: which query sees which key, where a
 * row is stored, and the kernels that support every call. */
#ifndef TS_ATTENTION_CUH
#define TS_ATTENTION_CUH

#include <limits.h>

#include "dtype.cuh"

extern "C" {
#include "touchstone/attention.h"

/* Every dtype but double, every head_dim, alignment, length and scale, on every device that the
 * module runs on: the fallback of the others. 16-bit elements by warp-level mma (_mma), float by
 * split matmuls (_split) if possible, else without tensor cores. */
TS_API ts_status ts_flash_attention_cuda(const void *args, const ts_exec *x);
TS_API ts_status ts_flash_attention_backward_cuda(const void *args, const ts_exec *x);
TS_API ts_status ts_flash_attention_backward_cuda_workspace(const void *args, const ts_exec *x,
                                                            size_t *n_bytes);
}

/* For 16-bit elements; there are queries, and lengths are at most MOST_LENGTH. */
ts_status ts_flash_attention_mma(const ts_flash_attention_args *a, const ts_exec *x);
ts_status ts_flash_attention_backward_mma(const ts_flash_attention_backward_args *a,
                                          const ts_exec                          *x);
size_t    ts_flash_attention_backward_mma_workspace(const ts_flash_attention_backward_args *a);

namespace
{

/* Lengths at most, so that a sum of several fits an int. */
constexpr int64_t MOST_LENGTH = 1 << 28;

/* ---- as a query has it, for forward ---- */

/* Query i sees keys begin(i) .. end(i) - 1; neither falls as i grows. */
struct visible_keys {
    int  n_k, shift, window; /* window 0: none */
    bool causal;

    explicit visible_keys(const ts_attention_dims &d)
        : n_k((int)d.n_k), shift((int)(d.n_k - d.n_q)),
          window((int)(d.window < 2 * MOST_LENGTH ? d.window : 2 * MOST_LENGTH)),
          causal(d.causal != 0)
    {
    }
    /* Of a batch, by kv_len alone. */
    __device__ __forceinline__ int length(const int32_t *kv_len, int batch) const
    {
        return kv_len ? max(0, min(n_k, kv_len[batch])) : n_k;
    }
    __device__ __forceinline__ int begin(int i) const
    {
        return causal && window ? max(0, i + shift - window + 1) : 0;
    }
    __device__ __forceinline__ int end(int i, int length) const
    {
        return causal ? max(0, min(length, i + shift + 1)) : length;
    }
};

/* ---- as a key has it, for backward ---- */

/* Query i sees key j < length if 0 <= i + shift - j < window; full attention is a shift and a
 * window that nothing exceeds. Queries are walked in tiles of `height`, keys in blocks of `width`.
 */
struct sight {
    int n_q, n_k, shift, window;

    explicit sight(const ts_attention_dims &d)
        : n_q((int)d.n_q), n_k((int)d.n_k), shift(n_k - (d.causal ? n_q : 0)), window(1 << 30)
    {
        if (d.causal && d.window > 0 && d.window < window) window = (int)d.window;
    }

    __device__ __forceinline__ bool sees(int query, int key, int length) const
    {
        const int past = query + shift - key;
        return key < length && past >= 0 && past < window;
    }

    /* The first key that a query sees, if it sees any. */
    __device__ __forceinline__ int first_key(int query) const
    {
        const int first = query + shift - window + 1;
        return first > 0 ? first : 0;
    }

    /* The first tile that may see a block of keys from `key` on. */
    __device__ __forceinline__ int first_tile(int key, int height) const
    {
        return key > shift ? (key - shift) / height : 0;
    }

    /* One past the last. */
    __device__ __forceinline__ int end_tile(int key, int width, int height) const
    {
        const int64_t end = (int64_t)window + key + width - 1 - shift; /* of the queries */
        const int64_t last = end < n_q ? end : n_q;
        return last > 0 ? (int)((last + height - 1) / height) : 0;
    }

    /* The last block with a key that a tile of queries from `query` on may see; -1 if none. */
    __device__ __forceinline__ int last_block(int query, int height, int length, int width) const
    {
        const int last = min(query + height - 1 + shift, length - 1);
        return last < 0 ? -1 : last / width;
    }
};

/* ---- addresses ---- */

/* Row n of head h of batch b begins at element b * batch + h * head + n * row. */
struct strides {
    int64_t batch, head, row;

    strides(const ts_attention_dims &d, int64_t n_head, int64_t n)
        : batch(n_head * n * d.head_dim), head((d.layout == TS_BHND ? n : 1) * d.head_dim),
          row((d.layout == TS_BHND ? 1 : n_head) * d.head_dim)
    {
    }

    __device__ __forceinline__ int64_t at(int64_t b, int64_t h, int64_t n) const
    {
        return b * batch + h * head + n * row;
    }
};

/* ---- in which order ---- */

/* Blocks of rows of all heads. Heads come in sections, so that what a section reads stays in L2; in
 * a section the last rows of all its heads come first, which under a causal mask see most. The last
 * section is twice as large, for its short blocks fill up the end. Where all rows see the same, a
 * section is one KV head: its keys and values are read once from memory, and then not again. */
struct row_order {
    int n_heads, n_block, section, n_section; /* n_block: of a head */

    row_order(const ts_attention_dims &d, int64_t n_block_)
        : n_heads((int)(d.n_batch * d.n_q_head)), n_block((int)n_block_)
    {
        const int64_t most = d.n_batch * d.n_kv_head,
                      fit = d.causal ? ((int64_t)16 << 20) / (d.n_k * d.head_dim * 4 + 1) : 1;
        section = (int)(d.n_q_head / d.n_kv_head * (fit < 1 ? 1 : fit < most ? fit : most));
        n_section = n_heads < 2 * section ? 1 : n_heads / section - 1;
    }
    __device__ __forceinline__ void find(int index, int *head, int *block) const
    {
        const int nth = min(index / (section * n_block), n_section - 1);
        const int first = nth * section, rest = index - first * n_block;
        const int width = nth < n_section - 1 ? section : n_heads - first;
        *head = first + rest % width;
        *block = n_block - 1 - rest / width;
    }
};

/* A workspace may have any alignment: its query returns ALIGN bytes more than are used. */
enum { ALIGN = 256 };
inline void *aligned_up(void *p)
{
    return (void *)(((uintptr_t)p + ALIGN - 1) / ALIGN * ALIGN);
}

inline ts_status launched(void)
{
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

inline bool is_aligned(const void *p) /* for 16 bytes at once */
{
    return (uintptr_t)p % 16 == 0;
}

} // namespace

#endif
