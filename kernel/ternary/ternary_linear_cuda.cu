/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear_cuda.cu - the products of ternary layers on every device from sm_80 on; sm_90 has
 * faster kernels.
 *
 * Forward, a warp has one output and ROWS rows: lane l has weights 4 l .. 4 l + 3 of each group,
 * adds scale times their products, and the lanes are added at the end: the order of a sum depends
 * on n_in only. Backward, a thread has one input and ROWS rows (dx) or outputs (dw). Long sums are
 * made of short ones, so that rounding grows with the number of parts. */
#include "ternary_sm90.cuh"

extern "C" ts_status ts_ternary_pack_cuda(const void *args, const ts_exec *x);

namespace
{

enum { ROWS = 8, PART = 64 /* terms of a short sum */ };

template <class T> struct forward_params {
    const uint8_t  *code;
    const uint16_t *scale;
    const T        *in;
    T              *y;
    int64_t         n_out, n_in, n_rows, n_groups;
};

template <class T> __global__ void __launch_bounds__(THREADS) forward_rows(forward_params<T> p)
{
    const int     lane = threadIdx.x % 32;
    const int64_t o = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    if (o >= p.n_out) return;
    for (int64_t first = blockIdx.y * (int64_t)ROWS; first < p.n_rows;
         first += gridDim.y * (int64_t)ROWS) {
        float sum[ROWS] = {};
        for (int64_t g = 0; g < p.n_groups; g++) {
            const int64_t  at = o * p.n_groups + g;
            const unsigned byte = p.code[at * GROUP_BYTES + lane];
            const float    s = scale_at(p.scale + at);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float part = 0;
#pragma unroll
                for (int k = 0; k < 4;
                     k++) { /* zeros past the end: an invalid code is NaN there too */
                    const int64_t i = g * GROUP + 4 * lane + k;
                    const bool    has = i < p.n_in && first + r < p.n_rows;
                    part = fmaf(weight_of(byte >> 2 * k & 3, 1.0f),
                                has ? to_float(p.in[(first + r) * p.n_in + i]) : 0.0f, part);
                }
                sum[r] = fmaf(s, part, sum[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int d = 16; d; d >>= 1) sum[r] += __shfl_xor_sync(ALL, sum[r], d);
            if (lane == 0 && first + r < p.n_rows)
                from_float(p.y + (first + r) * p.n_out + o, sum[r]);
        }
    }
}

/* Threads: inputs of one group. */
template <class T>
__global__ void __launch_bounds__(GROUP)
    backward_dx(forward_params<T> p, const T *__restrict__ dy, T *__restrict__ dx)
{
    const int64_t g = blockIdx.x, i = g * GROUP + threadIdx.x;
    for (int64_t first = blockIdx.y * (int64_t)ROWS; first < p.n_rows;
         first += gridDim.y * (int64_t)ROWS) {
        float sum[ROWS] = {}, part[ROWS] = {};
        for (int64_t o = 0; o < p.n_out; o++) {
            const int64_t  at = o * p.n_groups + g;
            const unsigned byte = p.code[at * GROUP_BYTES + threadIdx.x / 4];
            const float    w = weight_of(byte >> 2 * (threadIdx.x % 4) & 3, scale_at(p.scale + at));
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (first + r < p.n_rows)
                    part[r] = fmaf(w, to_float(dy[(first + r) * p.n_out + o]), part[r]);
                if (o % PART == PART - 1) sum[r] += part[r], part[r] = 0;
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (first + r < p.n_rows && i < p.n_in)
                from_float(dx + (first + r) * p.n_in + i, sum[r] + part[r]);
    }
}

/* Threads: inputs; y: ROWS outputs. */
template <class T>
__global__ void __launch_bounds__(GROUP)
    backward_dw(forward_params<T> p, const T *__restrict__ dy, float *__restrict__ dw)
{
    const int64_t i = blockIdx.x * (int64_t)GROUP + threadIdx.x;
    if (i >= p.n_in) return;
    for (int64_t first = blockIdx.y * (int64_t)ROWS; first < p.n_out;
         first += gridDim.y * (int64_t)ROWS) {
        float sum[ROWS] = {}, part[ROWS] = {};
        for (int64_t r = 0; r < p.n_rows; r++) {
            const float v = to_float(p.in[r * p.n_in + i]);
#pragma unroll
            for (int k = 0; k < ROWS; k++) {
                if (first + k < p.n_out)
                    part[k] = fmaf(to_float(dy[r * p.n_out + first + k]), v, part[k]);
                if (r % PART == PART - 1) sum[k] += part[k], part[k] = 0;
            }
        }
#pragma unroll
        for (int k = 0; k < ROWS; k++)
            if (first + k < p.n_out) dw[(first + k) * p.n_in + i] = sum[k] + part[k];
    }
}

/* The second dimension of a grid. */
unsigned tiles(int64_t n)
{
    return (unsigned)(ceil_div(n, ROWS) < 65535 ? ceil_div(n, ROWS) : 65535);
}

bool too_large(const ts_ternary_linear_dims *d)
{
    return ceil_div(d->n_out, WARPS) > INT32_MAX || groups_of(d->n_in) > INT32_MAX;
}

template <class T> ts_status forward(const ts_ternary_linear_packed_args *a, cudaStream_t s)
{
    const forward_params<T> p = { a->code,    a->scale,  (const T *)a->in, (T *)a->y,
                                  a->d.n_out, a->d.n_in, a->d.n_rows,      groups_of(a->d.n_in) };
    forward_rows<T>
        <<<dim3((unsigned)ceil_div(p.n_out, WARPS), tiles(p.n_rows)), THREADS, 0, s>>>(p);
    return launched();
}

ts_status run_forward(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    const cudaStream_t s = (cudaStream_t)x->stream;
    if (too_large(&a->d)) return TS_E_UNSUPPORTED;
    if (a->d.n_out == 0 || a->d.n_rows == 0) return TS_OK;
    if (a->d.dtype == TS_F32) return forward<float>(a, s);
    if (a->d.dtype == TS_BF16) return forward<__nv_bfloat16>(a, s);
    return forward<__half>(a, s);
}

template <class T>
ts_status backward(const ts_ternary_linear_backward_args *a, const packed_room &room,
                   cudaStream_t s)
{
    const forward_params<T> p = { room.code,  room.scale, (const T *)a->in, nullptr,
                                  a->d.n_out, a->d.n_in,  a->d.n_rows,      groups_of(a->d.n_in) };
    const unsigned          groups = (unsigned)p.n_groups;
    if (p.n_rows)
        backward_dx<T>
            <<<dim3(groups, tiles(p.n_rows)), GROUP, 0, s>>>(p, (const T *)a->dy, (T *)a->dx);
    if (p.n_out)
        backward_dw<T><<<dim3(groups, tiles(p.n_out)), GROUP, 0, s>>>(p, (const T *)a->dy, a->dw);
    return launched();
}

} // namespace

extern "C" TS_API ts_status ts_ternary_linear_packed_cuda(const void *args, const ts_exec *x)
{
    return run_forward((const ts_ternary_linear_packed_args *)args, x);
}

extern "C" TS_API ts_status ts_ternary_linear_cuda_workspace(const void *args, const ts_exec *x,
                                                             size_t *n_bytes)
{
    (void)x;
    *n_bytes = packed_room::n_bytes(&((const ts_ternary_linear_args *)args)->d);
    return TS_OK;
}

extern "C" TS_API ts_status ts_ternary_linear_cuda(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_args       *a = (const ts_ternary_linear_args *)args;
    const packed_room                   room(&a->d, x->workspace);
    const ts_ternary_pack_args          pack = { a->d, a->w, room.code, room.scale };
    const ts_ternary_linear_packed_args packed = { a->d, room.code, room.scale, a->in, a->y };
    const ts_status                     s = ts_ternary_pack_cuda(&pack, x);
    return s ? s : run_forward(&packed, x);
}

extern "C" TS_API ts_status ts_ternary_linear_backward_cuda_workspace(const void    *args,
                                                                      const ts_exec *x,
                                                                      size_t        *n_bytes)
{
    (void)x;
    *n_bytes = packed_room::n_bytes(&((const ts_ternary_linear_backward_args *)args)->d);
    return TS_OK;
}

extern "C" TS_API ts_status ts_ternary_linear_backward_cuda(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_backward_args *a = (const ts_ternary_linear_backward_args *)args;
    const cudaStream_t                     stream = (cudaStream_t)x->stream;
    const packed_room                      room(&a->d, x->workspace);
    const ts_ternary_pack_args             pack = { a->d, a->w, room.code, room.scale };
    if (too_large(&a->d)) return TS_E_UNSUPPORTED;
    if (a->d.n_in == 0) return TS_OK;
    const ts_status s = ts_ternary_pack_cuda(&pack, x);
    if (s) return s;
    if (a->d.dtype == TS_F32) return backward<float>(a, room, stream);
    if (a->d.dtype == TS_BF16) return backward<__nv_bfloat16>(a, room, stream);
    return backward<__half>(a, room, stream);
}
