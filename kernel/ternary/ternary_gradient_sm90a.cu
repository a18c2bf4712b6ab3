/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_gradient_sm90a.cu - calls the wgmma gradients of 16-bit activations; tensors that TMA
 * cannot read in place are copied first. */
#include <math.h>

#include "ternary_gradient_sm90.cuh"

namespace
{

/* ---- tensors that TMA cannot read in place ---- */

struct pad_params {
    const uint16_t *from; /* [n_rows][n] */
    uint4          *to;   /* [n_rows][n rounded up to 8], 0 past the end */
    int64_t         n_rows, n;
};

__global__ void __launch_bounds__(THREADS) pad_kernel(pad_params p)
{
    const int64_t each = ceil_div(p.n, 8), n = p.n_rows * each;
    start_after_others();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        const int64_t row = i / each, j = (i - row * each) * 8;
        unsigned      w[8];
#pragma unroll
        for (int k = 0; k < 8; k++) w[k] = j + k < p.n ? p.from[row * p.n + j + k] : 0;
        p.to[i] =
            make_uint4(w[0] | w[1] << 16, w[2] | w[3] << 16, w[4] | w[5] << 16, w[6] | w[7] << 16);
    }
}

/* ---- host side ---- */

enum {
    LEAST_PART = 512, /* terms */
    N_BLOCKS = 132,   /* a multiprocessor each; what a sum is depends on no device */
};

inline size_t padded_bytes(int64_t n_rows, int64_t n)
{
    return lines((size_t)(n_rows * ceil_div(n, 8)) * 16);
}

/* A tensor that the engine takes: this one, or a copy of it. */
inline ts_status padded(tensor_view *t, void *room, cudaStream_t stream)
{
    t->n_batch = t->n_head = 1;
    t->row_stride = ceil_div(t->n_column, 8) * 8;
    t->head_stride = t->batch_stride = t->n_row * t->row_stride;
    if (t->n_column % 8 == 0 && aligned_to(t->data, 16)) return TS_OK;
    const pad_params p = { (const uint16_t *)t->data, (uint4 *)room, t->n_row, t->n_column };
    t->data = room;
    return launch(pad_kernel, dim3(blocks_for(ceil_div(p.n_rows * (t->row_stride / 8), THREADS))),
                  THREADS, 0, stream, p);
}

/* In how many parts the terms of dx are summed: blocks for all multiprocessors, and parts that are
 * worth it. */
inline int64_t dx_parts(const ts_ternary_linear_dims *d)
{
    const int64_t tiles = ceil_div(d->n_rows, TILE) * groups_of(d->n_in);
    const int64_t few = d->n_out / LEAST_PART, n = N_BLOCKS / (tiles ? tiles : 1);
    return n < 2 || few < 2 ? 1 : n < few ? n : few;
}

inline size_t parts_bytes(const ts_ternary_linear_dims *d)
{
    const int64_t n = dx_parts(d);
    return n == 1 ? 0 : lines((size_t)(n * d->n_rows * d->n_in) * sizeof(float));
}

template <class F> ts_status run(gradient_params p, cudaStream_t stream)
{
    using R = typename F::result;
    auto *const kernel = gradient_kernel<F>;
    int         device, n_sm;
    p.n_tiles = (int)ceil_div(p.n_down, TILE);
    p.part = ceil_div(ceil_div(p.n_terms, p.n_parts), 2 * DEEP) * (2 * DEEP);
    p.n_parts = (int)ceil_div(p.n_terms, p.part);
    const int n = p.n_tiles * p.n_groups * p.n_parts;
    if (allow_shared(kernel, N_BYTES<F>) || cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return TS_E_DEVICE;
    const ts_status s =
        launch(kernel, dim3((unsigned)(n < n_sm ? n : n_sm)), 3 * WARPGROUP, N_BYTES<F>, stream, p);
    if (s || p.n_parts == 1) return s;
    return launch(add_parts<R>, dim3(blocks_for(ceil_div(p.n_down * p.n_in, THREADS))), THREADS, 0,
                  stream, p);
}

template <class T>
ts_status run_both(const ts_ternary_linear_backward_args *a, const uint8_t *code,
                   const uint16_t *scale, char *room, cudaStream_t stream)
{
    const ts_ternary_linear_dims *d = &a->d;
    constexpr bool                is_half = std::is_same<T, __half>::value;
    tensor_view                   dy = {}, in = {};
    gradient_params               p = {};
    ts_status                     s;
    dy.data = a->dy, dy.n_row = in.n_row = d->n_rows, dy.n_column = d->n_out;
    in.data = a->in, in.n_column = d->n_in;
    if ((s = padded(&dy, room, stream))) return s;
    if ((s = padded(&in, room + padded_bytes(d->n_rows, d->n_out), stream))) return s;
    p.n_in = d->n_in, p.n_groups = (int)groups_of(d->n_in), p.code = code, p.scale = scale;
    p.out = a->dx, p.n_down = d->n_rows, p.n_terms = d->n_out;
    p.parts = (float *)(void *)(room + padded_bytes(d->n_rows, d->n_out) +
                                padded_bytes(d->n_rows, d->n_in));
    p.n_parts = (int)dx_parts(d);
    if (!make_map(&p.left, dy, is_half, TILE)) return TS_E_DEVICE;
    if ((s = run<dx_of<T>>(p, stream))) return s;
    p.out = a->dw, p.n_down = d->n_out, p.n_terms = d->n_rows, p.n_parts = 1;
    if (!make_map(&p.left, dy, is_half, DEEP) || !make_map(&p.right, in, is_half, DEEP))
        return TS_E_DEVICE;
    return run<dw_of<T>>(p, stream);
}

} // namespace

size_t ts_ternary_gradient_bytes_sm90a(const ts_ternary_linear_dims *d)
{
    if (d->dtype == TS_F32) return 0;
    return padded_bytes(d->n_rows, d->n_out) + padded_bytes(d->n_rows, d->n_in) + parts_bytes(d);
}

ts_status ts_ternary_gradient_sm90a(const ts_ternary_linear_backward_args *a, const ts_exec *x)
{
    const ts_ternary_linear_dims *d = &a->d;
    const packed_room             room(d, x->workspace);
    cudaStream_t                  stream = (cudaStream_t)x->stream;
    const int64_t                 most = d->n_rows > d->n_out ? d->n_rows : d->n_out;
    if (d->dtype == TS_F32 || !wgmma_device()) return TS_E_UNSUPPORTED;
    if (d->n_rows == 0 || d->n_out == 0 || d->n_in == 0) return TS_E_UNSUPPORTED; /* only zeros */
    if (most > INT32_MAX / 2 || ceil_div(most, TILE) > INT32_MAX / 2 / groups_of(d->n_in))
        return TS_E_UNSUPPORTED; /* coordinates and tiles are counted in 32 bits */
    return d->dtype == TS_F16
               ? run_both<__half>(a, room.code, room.scale, room.rest, stream)
               : run_both<__nv_bfloat16>(a, room.code, room.scale, room.rest, stream);
}
