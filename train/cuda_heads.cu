/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_heads.cu - queries and keys of a product's rows: norm of each head, rotation, and back;
 * values are copied. A warp has a head: of two neighbouring pairs a lane has channels i, i + 1 and,
 * half a head on, the others. */
#include "cuda_impl.cuh"

namespace
{

enum {
    EACH = 2,                                   /* pairs of an access */
    PER = TS_CUDA_HEAD_DIM / 2 / (WARP * EACH), /* accesses of a lane, at most */
    FORWARD_THREADS = 256,
    BACK_THREADS = 512,
    BACK_WARPS = BACK_THREADS / WARP,
};

struct pairs {
    float a[PER][EACH], b[PER][EACH];
};

template <typename T>
__device__ __forceinline__ void load_pairs(pairs &p, const T *__restrict__ x, int half, int lane)
{
#pragma unroll
    for (int k = 0; k < PER; k++) {
        const int i = (lane + k * WARP) * EACH;
        if (i < half) {
            load(p.a[k], x + i);
            load(p.b[k], x + half + i);
        } else
#pragma unroll
            for (int j = 0; j < EACH; j++) p.a[k][j] = p.b[k][j] = 0;
    }
}

template <typename T>
__device__ __forceinline__ void store_pairs(T *__restrict__ y, const pairs &p, int half, int lane)
{
#pragma unroll
    for (int k = 0; k < PER; k++) {
        const int i = (lane + k * WARP) * EACH;
        if (i >= half) break;
        store(y + i, p.a[k]);
        store(y + half + i, p.b[k]);
    }
}

/* Cosines and sines of a lane's pairs; back: of the turn the other way. */
__device__ __forceinline__ void load_turn(pairs &p, const float *__restrict__ turn, int half,
                                          int lane)
{
#pragma unroll
    for (int k = 0; k < PER; k++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int    i = (lane + k * WARP) * EACH + j;
            const float2 t = i < half ? ((const float2 *)turn)[i] : make_float2(0, 0);
            p.a[k][j] = t.x;
            p.b[k][j] = t.y;
        }
}

__device__ __forceinline__ void rotate(pairs &x, const pairs &turn, float sign)
{
#pragma unroll
    for (int k = 0; k < PER; k++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const float a = x.a[k][j], b = x.b[k][j], c = turn.a[k][j], s = sign * turn.b[k][j];
            x.a[k][j] = a * c - b * s;
            x.b[k][j] = b * c + a * s;
        }
}

__device__ __forceinline__ float dot(const pairs &x, const pairs &y)
{
    float sum = 0;
#pragma unroll
    for (int k = 0; k < PER; k++)
#pragma unroll
        for (int j = 0; j < EACH; j++) sum += x.a[k][j] * y.a[k][j] + x.b[k][j] * y.b[k][j];
    return warp_sum(sum);
}

template <typename T>
__device__ __forceinline__ void copy_values(T *__restrict__ to, const T *__restrict__ from, int n)
{
    enum { N = 16 / sizeof(T) };
    for (int i = (int)threadIdx.x * N; i < n; i += (int)blockDim.x * N)
        *(uint4 *)(to + i) = *(const uint4 *)(from + i);
}

/* ---- forward: a block a token ---- */

template <typename T>
__global__ void __launch_bounds__(FORWARD_THREADS) heads_of_rows(const ts_cuda_heads h)
{
    const int     dim = (int)h.head_dim, half = dim / 2, lane = (int)threadIdx.x % WARP;
    const int     n_q = (int)h.n_head, n_kv = (int)h.n_kv_head;
    const int64_t r = blockIdx.x;
    const T      *row = (const T *)h.rows + r * (n_q + 2 * n_kv) * dim;
    pairs         turn;
    load_turn(turn, h.turn + r % h.n_token * dim, half, lane);
    copy_values((T *)h.v + r * n_kv * dim, row + (n_q + n_kv) * dim, n_kv * dim);
    for (int i = (int)threadIdx.x / WARP; i < n_q + n_kv; i += FORWARD_THREADS / WARP) {
        const bool is_q = i < n_q;
        pairs      x, gain;
        load_pairs(x, row + i * dim, half, lane);
        load_pairs(gain, is_q ? h.q_gain : h.k_gain, half, lane);
        const float s = 1 / sqrtf(dot(x, x) / (float)dim + (float)h.eps);
#pragma unroll
        for (int k = 0; k < PER; k++)
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                x.a[k][j] *= s * gain.a[k][j];
                x.b[k][j] *= s * gain.b[k][j];
            }
        rotate(x, turn, 1);
        T *to = is_q ? (T *)h.q + (r * n_q + i) * dim : (T *)h.k + (r * n_kv + i - n_q) * dim;
        store_pairs(to, x, half, lane);
    }
}

/* ---- backward ---- */

/* x: what was normed; d: the gradient of what came out, and then of x. */
__device__ __forceinline__ void head_back(const pairs &x, pairs &d, const pairs &gain,
                                          const pairs &turn, int dim, float eps, pairs &dgain)
{
    rotate(d, turn, -1);
    const float s = 1 / sqrtf(dot(x, x) / (float)dim + eps);
#pragma unroll
    for (int k = 0; k < PER; k++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            dgain.a[k][j] += d.a[k][j] * x.a[k][j] * s;
            dgain.b[k][j] += d.b[k][j] * x.b[k][j] * s;
            d.a[k][j] *= gain.a[k][j];
            d.b[k][j] *= gain.b[k][j];
        }
    const float share = dot(d, x) * s * s / (float)dim;
#pragma unroll
    for (int k = 0; k < PER; k++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            d.a[k][j] = s * (d.a[k][j] - x.a[k][j] * share);
            d.b[k][j] = s * (d.b[k][j] - x.b[k][j] * share);
        }
}

/* Of heads first .. first + n of each token, all with one gain. */
template <typename T>
__device__ __forceinline__ void heads_back(const ts_cuda_heads &h, const T *__restrict__ d_head,
                                           const float *__restrict__ gain_at, int first, int n,
                                           float *__restrict__ sums, float *joined)
{
    const int     dim = (int)h.head_dim, half = dim / 2;
    const int     lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int64_t across = h.n_head + 2 * h.n_kv_head;
    pairs         gain, dgain = {};
    load_pairs(gain, gain_at, half, lane);
    for (int64_t i = blockIdx.x * (int64_t)BACK_WARPS + warp; i < h.n * n;
         i += gridDim.x * (int64_t)BACK_WARPS) {
        const int64_t r = i / n, at = (r * across + first + i % n) * dim;
        pairs         x, d, turn;
        load_pairs(x, (const T *)h.rows + at, half, lane);
        load_pairs(d, d_head + i * dim, half, lane);
        load_turn(turn, h.turn + r % h.n_token * dim, half, lane);
        head_back(x, d, gain, turn, dim, (float)h.eps, dgain);
        store_pairs((T *)h.d_rows + at, d, half, lane);
    }
    store_pairs(joined + warp * dim, dgain, half, lane);
    __syncthreads();
    for (int c = (int)threadIdx.x; c < dim; c += BACK_THREADS) {
        float sum = 0;
        for (int w = 0; w < BACK_WARPS; w++) sum += joined[w * dim + c];
        sums[(int64_t)blockIdx.x * h.n_sums + c] = sum;
    }
    __syncthreads();
}

template <typename T>
__global__ void __launch_bounds__(BACK_THREADS) rows_of_heads(const ts_cuda_heads h)
{
    alignas(16) __shared__ float joined[BACK_WARPS * TS_CUDA_HEAD_DIM];
    const int64_t wide = h.n_kv_head * h.head_dim, across = h.n_head * h.head_dim + 2 * wide;
    heads_back(h, (const T *)h.q, h.q_gain, 0, (int)h.n_head, h.q_sums, joined);
    heads_back(h, (const T *)h.k, h.k_gain, (int)h.n_head, (int)h.n_kv_head, h.k_sums, joined);
    for (int64_t r = blockIdx.x; r < h.n; r += gridDim.x)
        copy_values((T *)h.d_rows + (r + 1) * across - wide, (const T *)h.v + r * wide, (int)wide);
}

} // namespace

void ts_train_heads(void *self, const ts_cuda_heads *h)
{
    with_type(h->type,
              [&](auto t) { launch(self, heads_of_rows<decltype(t)>, h->n, FORWARD_THREADS, *h); });
}

void ts_train_heads_back(void *self, const ts_cuda_heads *h)
{
    with_type(h->type, [&](auto t) {
        launch(self, rows_of_heads<decltype(t)>, TS_CUDA_SUMS, BACK_THREADS, *h);
    });
}
