/* SPDX-License-Identifier: Apache-2.0 */
/* attention_forward_sm90a.cu - selects the forward kernel for a call on sm_90a, and divides the
 * call into work items. */
#include <float.h>
#include <utility>

#include "attention_forward_sm90.cuh"
#include "device.cuh"

namespace
{

unsigned *counter_in(const ts_exec *x)
{
    const uintptr_t align = sizeof(unsigned);
    return (unsigned *)(((uintptr_t)x->workspace + align - 1) / align * align);
}

template <class S> ts_status launch(const ts_flash_attention_args *a, const ts_exec *x)
{
    const ts_attention_dims &d = a->d;
    const cudaStream_t       stream = (cudaStream_t)x->stream;
    const int64_t            n_head = d.n_batch * d.n_q_head, group = d.n_q_head / d.n_kv_head;
    const int64_t            n_block = (d.n_q + S::BLOCK_ROWS - 1) / S::BLOCK_ROWS;
    if (n_head > INT_MAX / 2 / n_block) return TS_E_UNSUPPORTED;
    forward_call c = { {},
                       {},
                       {},
                       {},
                       visible_keys(d),
                       a->kv_len,
                       (float *)a->lse,
                       counter_in(x),
                       (int)(n_head * n_block),
                       row_order(d, n_block),
                       (int)d.n_q_head,
                       (int)group,
                       (int)d.n_q,
                       (float)(d.scale * LOG2_E) };
    if (!map_rows(&c.q, a->q, d, d.n_q_head, d.n_q, ROWS) ||
        !map_rows(&c.o, a->o, d, d.n_q_head, d.n_q, ROWS) ||
        !map_rows(&c.k, a->k, d, d.n_kv_head, d.n_k, S::KEYS) ||
        !map_rows(&c.v, a->v, d, d.n_kv_head, d.n_k, S::KEYS))
        return TS_E_UNSUPPORTED;
    const int sms = n_multiprocessors();
    cudaFuncSetAttribute(forward<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::SHARED_BYTES);
    cudaMemsetAsync(c.n_taken, 0, sizeof *c.n_taken, stream);
    forward<S>
        <<<(unsigned)(c.n_item < sms ? c.n_item : sms), S::THREADS, S::SHARED_BYTES, stream>>>(c);
    return launched();
}

/* Rows that the busiest multiprocessor has, if all blocks take equally long. Their number is that
 * of an H200 on every device, as the order of sums is to depend on the shape alone. */
int64_t most_rows(const ts_attention_dims &d, int64_t block_rows)
{
    const int64_t sms = 132, n = d.n_batch * d.n_q_head * ((d.n_q + block_rows - 1) / block_rows);
    return (n + sms - 1) / sms * block_rows;
}

/* 192 queries per block request two thirds of what 128 do from L2. That pays unless more
 * multiprocessors are idle at the end; under a causal mask short blocks fill it up. Windows and
 * short keys have not been tried with it. */
bool tall(const ts_flash_attention_args *a)
{
    const ts_attention_dims &d = a->d;
    return d.n_q >= 2048 && !d.window && !a->kv_len &&
           (d.causal || most_rows(d, 192) <= most_rows(d, 128));
}

/* Keys per tile are what registers and shared memory allow. */
template <class T, int D> ts_status launch_of(const ts_flash_attention_args *a, const ts_exec *x)
{
    if constexpr (D <= 64) return launch<shape<T, D, 3, 128, 4, 4, 2>>(a, x);
    else if constexpr (D <= 128) {
        constexpr int KEYS = D <= 80 ? 112 : D <= 112 ? 96 : 80, V_STAGES = D <= 80 ? 2 : 3;
        return tall(a) ? launch<shape<T, D, 3, KEYS, 2, V_STAGES, 2>>(a, x)
                       : launch<shape<T, D, 2, 128, 2, 3, 2>>(a, x);
    } else return launch<shape<T, D, 2, D <= 192 ? 112 : 80, 2, 2, 1>>(a, x);
}

/* By the least of these that is not below head_dim. */
template <class T, int... D>
ts_status launch_least(const ts_flash_attention_args *a, const ts_exec *x,
                       std::integer_sequence<int, D...>)
{
    ts_status s = TS_E_UNSUPPORTED;
    (void)((a->d.head_dim <= D && (s = launch_of<T, D>(a, x), true)) || ...);
    return s;
}

template <class T> ts_status launch_for(const ts_flash_attention_args *a, const ts_exec *x)
{
    return launch_least<T>(
        a, x, std::integer_sequence<int, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256>());
}

/* Whether TMA and wgmma support the call: rows must be whole chunks of 16 bytes. */
bool is_plain(const ts_flash_attention_args *a)
{
    const ts_attention_dims &d = a->d;
    const double             scale = d.scale * LOG2_E;
    return (d.dtype == TS_BF16 || d.dtype == TS_F16) && d.head_dim % 8 == 0 && d.n_k > 0 &&
           d.n_k <= MOST_LENGTH && d.n_q <= MOST_LENGTH && scale >= FLT_MIN && scale <= FLT_MAX &&
           is_aligned(a->q) && is_aligned(a->k) && is_aligned(a->v) && is_aligned(a->o) &&
           wgmma_device();
}

} // namespace

extern "C" TS_API ts_status ts_flash_attention_sm90_workspace(const void *args, const ts_exec *x,
                                                              size_t *n_bytes)
{
    (void)args, (void)x;
    *n_bytes = 2 * sizeof(unsigned); /* one, and room to align it */
    return TS_OK;
}

extern "C" TS_API ts_status ts_flash_attention_sm90(const void *args, const ts_exec *x)
{
    const ts_flash_attention_args *a = (const ts_flash_attention_args *)args;
    const ts_attention_dims       &d = a->d;
    if (d.n_batch == 0 || d.n_q == 0) return TS_OK;
    ts_status s = TS_E_UNSUPPORTED;
    if (is_plain(a))
        s = d.dtype == TS_F16 ? launch_for<__half>(a, x) : launch_for<__nv_bfloat16>(a, x);
    return s == TS_E_UNSUPPORTED ? ts_flash_attention_cuda(a, x) : s;
}
