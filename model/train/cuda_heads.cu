/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_heads.cu - queries, keys and values from the rows of one matmul: norm of each head,
 * rotation, and their gradients; values are copied.
 *
 * A team of lanes has a head: each lane has some neighbouring channels and, half a head further,
 * those that they are rotated with. If the dimension allows, a team is 8 or 16 lanes with 8
 * channels each, which are 16 bytes of bf16: with 4 bytes per lane, too few bytes are in flight. */
#include "cuda_impl.cuh"

namespace
{

enum {
    FORWARD_THREADS = 256,
    BACK_THREADS = 512,
    JOINED = BACK_THREADS / 8 * TS_CUDA_HEAD_DIM / 2, /* floats: a head's channels for each team */
};

/* N neighbouring channels of a lane, M times, L lanes for a head. */
template <int N, int M, int L> struct layout {
    enum { EACH = N, PER = M, LANES = L };

    struct pairs {
        float a[M][N], b[M][N];
    };
    static __device__ __forceinline__ int first(int k)
    {
        return ((int)threadIdx.x % L + k * L) * N;
    }
};

typedef layout<8, 1, 8>  short_heads; /* dimensions to 128, multiples of 16 */
typedef layout<8, 1, 16> long_heads;  /* to TS_CUDA_HEAD_DIM */
typedef layout<2, 2, 32> any_heads;

template <class H, typename T>
__device__ __forceinline__ void load_pairs(typename H::pairs &p, const T *__restrict__ x, int half)
{
#pragma unroll
    for (int k = 0; k < H::PER; k++) {
        const int i = H::first(k);
        if (i < half) {
            load(p.a[k], x + i);
            load(p.b[k], x + half + i);
        } else
#pragma unroll
            for (int j = 0; j < H::EACH; j++) p.a[k][j] = p.b[k][j] = 0;
    }
}

/* As they are in memory, so that they can be loaded one head ahead; past `half` 0. */
template <typename T, class H> struct raw_pairs {
    packed<T, H::EACH> a[H::PER], b[H::PER];
};

template <class H, typename T>
__device__ __forceinline__ void load_raw(raw_pairs<T, H> &p, const T *__restrict__ x, int half)
{
#pragma unroll
    for (int k = 0; k < H::PER; k++) {
        const int i = H::first(k);
        if (i < half) {
            p.a[k] = *(const packed<T, H::EACH> *)(x + i);
            p.b[k] = *(const packed<T, H::EACH> *)(x + half + i);
        } else p.a[k] = p.b[k] = {};
    }
}

template <class H, typename T>
__device__ __forceinline__ void widen_pairs(typename H::pairs &p, const raw_pairs<T, H> &x)
{
#pragma unroll
    for (int k = 0; k < H::PER; k++)
#pragma unroll
        for (int j = 0; j < H::EACH; j++) {
            p.a[k][j] = widen(x.a[k].e[j]);
            p.b[k][j] = widen(x.b[k].e[j]);
        }
}

template <class H, typename T>
__device__ __forceinline__ void store_pairs(T *__restrict__ y, const typename H::pairs &p, int half)
{
#pragma unroll
    for (int k = 0; k < H::PER; k++) {
        const int i = H::first(k);
        if (i >= half) break;
        store(y + i, p.a[k]);
        store(y + half + i, p.b[k]);
    }
}

/* Cosines and sines of a lane's pairs. */
template <class H>
__device__ __forceinline__ void load_turn(typename H::pairs &p, const float *__restrict__ turn,
                                          int                half)
{
#pragma unroll
    for (int k = 0; k < H::PER; k++)
#pragma unroll
        for (int j = 0; j < H::EACH; j += 2) {
            const int    i = H::first(k) + j;
            const float4 t = i < half ? *(const float4 *)(turn + 2 * i) : make_float4(0, 0, 0, 0);
            p.a[k][j] = t.x, p.b[k][j] = t.y;
            p.a[k][j + 1] = t.z, p.b[k][j + 1] = t.w;
        }
}

/* sign -1: the other way. */
template <class H>
__device__ __forceinline__ void rotate(typename H::pairs &x, const typename H::pairs &turn,
                                       float sign)
{
#pragma unroll
    for (int k = 0; k < H::PER; k++)
#pragma unroll
        for (int j = 0; j < H::EACH; j++) {
            const float a = x.a[k][j], b = x.b[k][j], c = turn.a[k][j], s = sign * turn.b[k][j];
            x.a[k][j] = a * c - b * s;
            x.b[k][j] = b * c + a * s;
        }
}

/* Over a team. All lanes of a warp. */
template <class H>
__device__ __forceinline__ float dot(const typename H::pairs &x, const typename H::pairs &y)
{
    float sum = 0;
#pragma unroll
    for (int k = 0; k < H::PER; k++)
#pragma unroll
        for (int j = 0; j < H::EACH; j++) sum += x.a[k][j] * y.a[k][j] + x.b[k][j] * y.b[k][j];
#pragma unroll
    for (int d = H::LANES / 2; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    return sum;
}

template <typename T>
__device__ __forceinline__ void copy_values(T *__restrict__ to, const T *__restrict__ from, int n)
{
    enum { N = 16 / sizeof(T) };
    for (int i = (int)threadIdx.x * N; i < n; i += (int)blockDim.x * N)
        *(uint4 *)(to + i) = *(const uint4 *)(from + i);
}

/* ---- forward: a block a token ---- */

template <typename T, class H>
__global__ void __launch_bounds__(FORWARD_THREADS) heads_of_rows(const ts_cuda_heads h)
{
    enum { TEAMS = FORWARD_THREADS / H::LANES };
    const int         dim = (int)h.head_dim, half = dim / 2;
    const int         n_q = (int)h.n_head, n_kv = (int)h.n_kv_head;
    const int64_t     r = blockIdx.x;
    const T          *row = (const T *)h.rows + r * (n_q + 2 * n_kv) * dim;
    typename H::pairs turn;
    load_turn<H>(turn, h.turn + r % h.n_token * dim, half);
    copy_values((T *)h.v + r * n_kv * dim, row + (n_q + n_kv) * dim, n_kv * dim);
    for (int first = 0; first < n_q + n_kv; first += TEAMS) {
        const int         i = min(first + (int)threadIdx.x / H::LANES, n_q + n_kv - 1);
        const bool        is_q = i < n_q; /* past the last head that one again */
        typename H::pairs x, gain;
        load_pairs<H>(x, row + i * dim, half);
        load_pairs<H>(gain, is_q ? h.q_gain : h.k_gain, half);
        const float s = 1 / sqrtf(dot<H>(x, x) / (float)dim + (float)h.eps);
#pragma unroll
        for (int k = 0; k < H::PER; k++)
#pragma unroll
            for (int j = 0; j < H::EACH; j++) {
                x.a[k][j] *= s * gain.a[k][j];
                x.b[k][j] *= s * gain.b[k][j];
            }
        rotate<H>(x, turn, 1);
        T *to = is_q ? (T *)h.q + (r * n_q + i) * dim : (T *)h.k + (r * n_kv + i - n_q) * dim;
        if (first + (int)threadIdx.x / H::LANES == i) store_pairs<H>(to, x, half);
    }
}

/* ---- backward ---- */

/* x: what was normed; d: the gradient of what came out, and then of x. */
template <class H>
__device__ __forceinline__ void
head_back(const typename H::pairs &x, typename H::pairs &d, const typename H::pairs &gain,
          const typename H::pairs &turn, int dim, float eps, typename H::pairs &dgain)
{
    rotate<H>(d, turn, -1);
    const float s = 1 / sqrtf(dot<H>(x, x) / (float)dim + eps);
#pragma unroll
    for (int k = 0; k < H::PER; k++)
#pragma unroll
        for (int j = 0; j < H::EACH; j++) {
            dgain.a[k][j] += d.a[k][j] * x.a[k][j] * s;
            dgain.b[k][j] += d.b[k][j] * x.b[k][j] * s;
            d.a[k][j] *= gain.a[k][j];
            d.b[k][j] *= gain.b[k][j];
        }
    const float share = dot<H>(d, x) * s * s / (float)dim;
#pragma unroll
    for (int k = 0; k < H::PER; k++)
#pragma unroll
        for (int j = 0; j < H::EACH; j++) {
            d.a[k][j] = s * (d.a[k][j] - x.a[k][j] * share);
            d.b[k][j] = s * (d.b[k][j] - x.b[k][j] * share);
        }
}

/* Of heads first .. first + n of each token, all with one gain. */
template <typename T, class H>
__device__ __forceinline__ void heads_back(const ts_cuda_heads &h, const T *__restrict__ d_head,
                                           const float *__restrict__ gain_at, int first, int n,
                                           float *__restrict__ sums, float *joined)
{
    enum { TEAMS = BACK_THREADS / H::LANES };
    const int         dim = (int)h.head_dim, half = dim / 2, team = (int)threadIdx.x / H::LANES;
    const int64_t     across = h.n_head + 2 * h.n_kv_head, count = h.n * n;
    typename H::pairs gain, dgain = {};
    raw_pairs<T, H>   raw_x, raw_d;
    const int64_t     step = gridDim.x * (int64_t)TEAMS;
    auto              place = [&](int64_t i) { return (i / n * across + first + i % n) * dim; };
    auto              load_next = [&](int64_t begin) { /* past the last head nothing */
                                          const int64_t i = begin + team < count ? begin + team : 0;
                                          load_raw<H>(raw_x, (const T *)h.rows + place(i),
                                                      begin + team < count ? half : 0);
                                          load_raw<H>(raw_d, d_head + i * dim,
                                                      begin + team < count ? half : 0);
    };
    load_pairs<H>(gain, gain_at, half);
    load_next(blockIdx.x * (int64_t)TEAMS);
    for (int64_t begin = blockIdx.x * (int64_t)TEAMS; begin < count; begin += step) {
        const int64_t i = begin + team, r = min(i, count - 1) / n, at = place(min(i, count - 1));
        typename H::pairs x, d, turn;
        widen_pairs<H>(x, raw_x);
        widen_pairs<H>(d, raw_d);
        load_next(begin + step);
        load_turn<H>(turn, h.turn + r % h.n_token * dim, half);
        head_back<H>(x, d, gain, turn, dim, (float)h.eps, dgain);
        if (i < count) store_pairs<H>((T *)h.d_rows + at, d, half);
    }
    store_pairs<H>(joined + team * dim, dgain, half);
    __syncthreads();
    for (int c = (int)threadIdx.x; c < dim; c += BACK_THREADS) {
        float sum = 0;
        for (int w = 0; w < TEAMS; w++) sum += joined[w * dim + c];
        sums[(int64_t)blockIdx.x * h.n_sums + c] = sum;
    }
    __syncthreads();
}

template <typename T, class H>
__global__ void __launch_bounds__(BACK_THREADS) rows_of_heads(const ts_cuda_heads h)
{
    alignas(16) __shared__ float joined[JOINED];
    const int64_t wide = h.n_kv_head * h.head_dim, across = h.n_head * h.head_dim + 2 * wide;
    heads_back<T, H>(h, (const T *)h.q, h.q_gain, 0, (int)h.n_head, h.q_sums, joined);
    heads_back<T, H>(h, (const T *)h.k, h.k_gain, (int)h.n_head, (int)h.n_kv_head, h.k_sums,
                     joined);
    for (int64_t r = blockIdx.x; r < h.n; r += gridDim.x)
        copy_values((T *)h.d_rows + (r + 1) * across - wide, (const T *)h.v + r * wide, (int)wide);
}

/* f(T(), H()) with the layout for the heads' dimension. */
template <typename F> void with_layout(const ts_cuda_heads *h, F f)
{
    with_type(h->type, [&](auto t) {
        if (h->head_dim % 16) f(t, any_heads());
        else if (h->head_dim <= 128) f(t, short_heads());
        else f(t, long_heads());
    });
}

} // namespace

void ts_train_heads(void *self, const ts_cuda_heads *h)
{
    with_layout(h, [&](auto t, auto l) {
        launch(self, heads_of_rows<decltype(t), decltype(l)>, h->n, FORWARD_THREADS, *h);
    });
}

void ts_train_heads_back(void *self, const ts_cuda_heads *h)
{
    with_layout(h, [&](auto t, auto l) {
        launch(self, rows_of_heads<decltype(t), decltype(l)>, TS_CUDA_SUMS, BACK_THREADS, *h);
    });
}
