/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8_sm90a.cu - selects the kernel for a call of flash_attention_fp8, and divides the
 * call into work items. */
#include <float.h>

#include "attention_fp8.cuh"
#include "attention_fp8_sm90.cuh"

namespace
{

bool map_codes(CUtensorMap *map, const uint8_t *data, const ts_attention_dims &d, int64_t n_head,
               int64_t n, int rows, int width)
{
    const strides     by(d, n_head, n);
    const tensor_view t = { data, d.n_batch, n_head, n, d.head_dim, by.batch, by.head, by.row };
    return make_byte_map(map, t, rows, width);
}

template <class S> ts_status launch(const ts_flash_attention_fp8_args *a, const ts_exec *x)
{
    const ts_attention_dims &d = a->d;
    const cudaStream_t       stream = (cudaStream_t)x->stream;
    const int64_t            n_head = d.n_batch * d.n_q_head, group = d.n_q_head / d.n_kv_head;
    const int64_t            n_block = (d.n_q + S::BLOCK_ROWS - 1) / S::BLOCK_ROWS;
    if (n_head > INT_MAX / 2 / n_block) return TS_E_UNSUPPORTED;
    fp8_call f = { { {},
                     {},
                     {},
                     {},
                     visible_keys(d),
                     a->kv_len,
                     a->lse,
                     (unsigned *)aligned_up(x->workspace),
                     (int)(n_head * n_block),
                     row_order(d, n_block),
                     (int)d.n_q_head,
                     (int)group,
                     (int)d.n_q,
                     (float)(d.scale * LOG2_E) },
                   a->q_scale,
                   a->k_scale,
                   a->v_scale,
                   a->o,
                   strides(d, d.n_q_head, d.n_q),
                   d.dtype,
                   (int)d.head_dim };
    if (!map_codes(&f.c.q, a->q, d, d.n_q_head, d.n_q, ROWS, S::W) ||
        !map_codes(&f.c.k, a->k, d, d.n_kv_head, d.n_k, S::KEYS, S::W) ||
        !map_codes(&f.c.v, a->v, d, d.n_kv_head, d.n_k, S::KEYS, S::W))
        return TS_E_DEVICE;
    const int sms = n_multiprocessors();
    cudaFuncSetAttribute(forward_fp8<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         S::SHARED_BYTES);
    cudaMemsetAsync(f.c.n_taken, 0, sizeof *f.c.n_taken, stream);
    forward_fp8<S>
        <<<(unsigned)(f.c.n_item < sms ? f.c.n_item : sms), S::THREADS, S::SHARED_BYTES, stream>>>(
            f);
    return launched();
}

/* Whether TMA and wgmma support the call: rows must be whole chunks of 16 bytes. */
bool is_plain(const ts_flash_attention_fp8_args *a)
{
    const ts_attention_dims &d = a->d;
    const double             scale = d.scale * LOG2_E;
    return d.head_dim % 16 == 0 && d.n_k > 0 && d.n_k <= MOST_LENGTH && d.n_q <= MOST_LENGTH &&
           scale >= FLT_MIN && scale <= FLT_MAX && is_aligned(a->q) && is_aligned(a->k) &&
           is_aligned(a->v) && is_aligned(a->o) && wgmma_device();
}

} // namespace

extern "C" TS_API ts_status ts_flash_attention_fp8_sm90_workspace(const void    *args,
                                                                  const ts_exec *x, size_t *n_bytes)
{
    if (!is_plain((const ts_flash_attention_fp8_args *)args))
        return ts_flash_attention_fp8_cuda_workspace(args, x, n_bytes);
    *n_bytes = ALIGN + sizeof(unsigned);
    return TS_OK;
}

extern "C" TS_API ts_status ts_flash_attention_fp8_sm90(const void *args, const ts_exec *x)
{
    const ts_flash_attention_fp8_args *a = (const ts_flash_attention_fp8_args *)args;
    const ts_attention_dims           &d = a->d;
    if (d.n_batch == 0 || d.n_q == 0) return TS_OK;
    if (!is_plain(a)) return ts_flash_attention_fp8_cuda(a, x);
    if (d.head_dim <= 64) return launch<shape8<64, 3, 96, 4, 3, 4, 2>>(a, x);
    if (d.head_dim > 128) return launch<shape8<256, 2, 64, 3, 2, 3, 1>>(a, x);
    return d.n_k < 4096 ? launch<shape8<128, 2, 128, 3, 2, 3, 2, 64>>(a, x)
                        : launch<shape8<128, 2, 160, 3, 2, 3, 2, 64>>(a, x);
}
