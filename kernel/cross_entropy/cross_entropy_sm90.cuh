/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_sm90.cuh - matmuls c = a b by wgmma, and the steps that follow on c.
 *
 * A block has tiles of 128 rows by 256 columns. One thread loads 64 terms of both factors at a
 * time, four such stages ahead; two warpgroups of 64 rows each multiply. Two blocks form a cluster:
 * their tiles are one below the other, and each loads half of the right factor for both. Blocks
 * stay resident and process one tile after the other.
 *
 * A factor is stored as [row][term] or as [term][row]; wgmma and TMA support both. Terms past the
 * end are 0. */
#ifndef TS_CROSS_ENTROPY_SM90_CUH
#define TS_CROSS_ENTROPY_SM90_CUH

#include "cross_entropy.cuh"
#include "device.cuh"
#include "sm90.cuh"

namespace
{

enum {
    DOWN = 128,   /* rows of a tile, half of them of a warpgroup */
    ACROSS = 256, /* columns */
    TERMS = 64,   /* of a stage */
    STAGES = 4,
    SLAB = TERMS * SLAB_BYTES,    /* 64 by 64 elements */
    LEFT = 2 * SLAB,              /* bytes of a stage */
    STAGE = LEFT + 4 * SLAB,      /* both factors */
    STAGING = 2 * SLAB,           /* of a warpgroup, for 64 rows on their way out */
    SUMS = ACROSS / 2,            /* of a thread */
    N_WARPS = 2 * WARPGROUP / 32, /* that multiply */
    GEMM_THREADS = 3 * WARPGROUP,
    GEMM_BYTES = STAGES * (STAGE + 16) + 2 * STAGING,
};

/* The product of a launch. Terms come in parts of `part`, a multiple of TERMS; a tile's parts are
 * added in order. */
struct gemm {
    CUtensorMap left, right;
    int64_t     n_down, n_across, n_terms, part;
    int         n_rows, n_tiles, n_parts; /* tiles down, across */
};

/* The work of a block at a time; the other blocks of its cluster do the same in parallel. */
struct unit {
    int     row, tile, part; /* of tiles: down, across */
    int64_t begin, end;      /* terms */
};

template <class F, class G> __device__ __forceinline__ void for_units(const gemm &p, const G &f)
{
    const int pairs = (p.n_rows + 1) / 2, n = pairs * p.n_tiles;
    for (int i = (int)blockIdx.x / 2; i < n * p.n_parts; i += (int)gridDim.x / 2) {
        unit u;
        u.row = (F::DOWN_FIRST ? i % n % pairs : i % n / p.n_tiles) * 2 + (int)cluster_rank();
        u.tile = F::DOWN_FIRST ? i % n / pairs : i % n % p.n_tiles;
        u.part = i / n;
        u.begin = u.part * p.part, u.end = min(u.begin + p.part, p.n_terms);
        f(u);
    }
}

/* Where a thread's sums belong: rows `row` and row + 8, of each 8 columns `column` and the next. */
struct spot {
    int64_t row, column;

    __device__ __forceinline__ spot(const unit &u)
    {
        const int own = (int)threadIdx.x - WARPGROUP, lane = own % 32;
        row = (int64_t)u.row * DOWN + own / 32 * 16 + lane / 4;
        column = (int64_t)u.tile * ACROSS + lane % 4 * 2;
    }
};

__device__ __forceinline__ int warpgroup(void) /* of the two that multiply */
{
    return (int)threadIdx.x / WARPGROUP - 1;
}

/* ---- what becomes of the sums: rows of a chunk by words ---- */

/* f16 has few small numbers: weights of at most 1 are kept as multiples of 2^-15. */
template <class T> constexpr float LIFT = std::is_same<T, __half>::value ? 32768.0f : 1.0f;

struct logits_params {
    rule           r;
    const void    *bias;   /* [n_across], or NULL */
    const int32_t *target; /* [n_down] */
    int64_t        word;   /* the first of these, of gradient_of_logits */
    CUtensorMap    to;     /* [n_down][n_across] */
    row_sums      *part;   /* [n_down][n_tiles] */
    float         *hit;    /* [n_down] */
    const float   *lse;    /* [n_down] */
};

/* To the tensor: what a warpgroup has, in the storage dtype. */
template <class T>
__device__ __forceinline__ void put_tile(const CUtensorMap *to, unsigned staging, const unit &u,
                                         const float (&d)[SUMS])
{
    const int      own = (int)threadIdx.x % WARPGROUP, lane = own % 32, warp = own / 32;
    const unsigned at = staging + warpgroup() * STAGING;
    const int      row = u.row * DOWN + warpgroup() * 64;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (own == 0) stores_wait_read<0>();
        named_wait(1 + warpgroup(), WARPGROUP);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            unsigned w[4];
#pragma unroll
            for (int n = 0; n < 4; n++)
                w[n] = narrow(d[half * 64 + 8 * j + 2 * n], d[half * 64 + 8 * j + 2 * n + 1], T());
            store_matrices<false>(slab_piece(at + (unsigned)(j / 4 * SLAB), warp * 16 + lane % 16,
                                             j % 4 * 2 + lane / 16),
                                  w[0], w[1], w[2], w[3]);
        }
        publish_to_engines();
        named_wait(1 + warpgroup(), WARPGROUP);
        if (own == 0) {
            for (int i = 0; i < 2; i++)
                store_box(to, at + (unsigned)(i * SLAB),
                          u.tile * ACROSS + (half * 2 + i) * SLAB_COLUMNS, row, 0, 0);
            stores_end();
        }
    }
}

template <class T>
__device__ __forceinline__ void add_bias(const gemm &p, const logits_params &e, const spot &s,
                                         float (&d)[SUMS])
{
    if (!e.bias) return;
#pragma unroll
    for (int j = 0; j < SUMS / 4; j++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int64_t v = s.column + 8 * j + i;
            const float   b = v < p.n_across ? to_float(((const T *)e.bias)[v]) : 0;
            d[4 * j + i] += b;
            d[4 * j + 2 + i] += b;
        }
}

/* The sums of rows over a tile's words, and, with KEEP, exp(z - max) to the tensor. */
template <class T_, bool KEEP> struct sums_of_rows {
    using T = T_;
    using params = logits_params;
    static constexpr bool LEFT_DOWN = false, RIGHT_DOWN = false, DOWN_FIRST = true, SKIPS = false;

    static __device__ __forceinline__ void done(const gemm &p, const params &e, const unit &u,
                                                unsigned staging, float (&d)[SUMS])
    {
        const spot s(u);
        const int  n = (int)min(p.n_across - s.column, (int64_t)ACROSS); /* columns there are */
        add_bias<T>(p, e, s, d);
        if (e.r.softcap > 0)
#pragma unroll
            for (int i = 0; i < SUMS; i++) d[i] = capped(e.r, d[i]);
#pragma unroll
        for (int low = 0; low < 2; low++) {
            const int64_t row = s.row + 8 * low;
            const bool    there = row < p.n_down;
            const int     word = there ? (int)(e.target[row] - s.column) : -1;
            row_sums      sums = { -INFINITY, 0, 0 };
#pragma unroll
            for (int j = 0; j < SUMS / 4; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float &z = d[4 * j + 2 * low + i];
                    if (word == 8 * j + i) e.hit[row] = z;
                    if (8 * j + i < n) sums.z_sum += z;
                    else z = -INFINITY;
                    sums.max = fmaxf(sums.max, z);
                }
            sums.max = fmaxf(sums.max, __shfl_xor_sync(~0u, sums.max, 1));
            sums.max = fmaxf(sums.max, __shfl_xor_sync(~0u, sums.max, 2));
            const float base = isfinite(sums.max) ? sums.max : 0;
#pragma unroll
            for (int j = 0; j < SUMS / 4; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float &z = d[4 * j + 2 * low + i];
                    z = exp2_of((z - base) * 1.44269504f);
                    sums.sum += z;
                    z *= LIFT<T>;
                }
#pragma unroll
            for (int far = 1; far < 4; far *= 2) {
                sums.sum += __shfl_xor_sync(~0u, sums.sum, far);
                sums.z_sum += __shfl_xor_sync(~0u, sums.z_sum, far);
            }
            if (there && threadIdx.x % 4 == 0) e.part[row * p.n_tiles + u.tile] = sums;
        }
        if (KEEP) put_tile<T>(&e.to, staging, u, d);
    }
};

/* The gradients of logits to the tensor, once the rows' lse is known. */
template <class T_> struct gradient_of_logits {
    using T = T_;
    using params = logits_params;
    static constexpr bool LEFT_DOWN = false, RIGHT_DOWN = false, DOWN_FIRST = true, SKIPS = false;

    template <bool CAPS>
    static __device__ __forceinline__ void grade(const gemm &p, const params &e, const spot &s,
                                                 float (&d)[SUMS])
    {
        rule r = e.r;
        if (!CAPS) r.softcap = 0;
#pragma unroll
        for (int low = 0; low < 2; low++) {
            const int64_t row = s.row + 8 * low;
            const int32_t target = row < p.n_down ? e.target[row] : r.ignored;
            const bool    counted = is_counted(r, target);
            const float   lse = counted ? e.lse[row] : 0;
            const int     word = (int)(target - e.word - s.column);
#pragma unroll
            for (int j = 0; j < SUMS / 4; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float &x = d[4 * j + 2 * low + i];
                    x = counted ? gradient(r, x, lse, word == 8 * j + i) : 0;
                }
        }
    }
    static __device__ __forceinline__ void done(const gemm &p, const params &e, const unit &u,
                                                unsigned staging, float (&d)[SUMS])
    {
        const spot s(u);
        add_bias<T>(p, e, s, d);
        if (e.r.softcap > 0) grade<true>(p, e, s, d);
        else grade<false>(p, e, s, d);
        put_tile<T>(&e.to, staging, u, d);
    }
};

/* ---- what becomes of the sums: dh and dw ---- */

struct gradient_params {
    rule            r;
    const shares   *share;
    bool            adds;
    CUtensorMap     to;  /* dw in float */
    void           *out; /* dh, or dw in the storage dtype: [n_down][stride] */
    int64_t         stride;
    const int32_t  *target;  /* of dh: of its rows */
    int            *turn;    /* of dh in parts: which comes next, of [tile across][64 rows] */
    const uint64_t *counted; /* of dw: a bit for each of its terms, which are rows of h */
};

/* Parts of a tile are added in their order. Blocks take units in order and all of them are on the
 * device, so some block is working on what is waited for. */
struct turn_of {
    int *at;
    int  part;

    __device__ __forceinline__ turn_of(const gemm &p, const gradient_params &e, const unit &u)
        : at(nullptr), part(u.part)
    {
        if (p.n_parts == 1) return;
        at = e.turn + ((int64_t)u.tile * (p.n_rows + 1) + u.row) * 2 + warpgroup();
        if (threadIdx.x % WARPGROUP == 0) {
            while (*(volatile int *)at != part) __nanosleep(100);
            __threadfence();
        }
        named_wait(1 + warpgroup(), WARPGROUP);
    }
    __device__ __forceinline__ void end(void) const
    {
        if (!at) return;
        __threadfence();
        named_wait(1 + warpgroup(), WARPGROUP);
        if (threadIdx.x % WARPGROUP == 0) *(volatile int *)at = part + 1;
    }
};

/* dh, in float. Rows that are not counted have 0, even if w is not finite. */
template <class T_> struct dh_of {
    using T = T_;
    using params = gradient_params;
    static constexpr bool LEFT_DOWN = false, RIGHT_DOWN = true, DOWN_FIRST = true, SKIPS = false;

    static __device__ __forceinline__ void done(const gemm &p, const params &e, const unit &u,
                                                unsigned, float (&d)[SUMS])
    {
        const spot    s(u);
        const turn_of turn(p, e, u);
        const float   g = e.share->g;
        const bool    adds = e.adds || u.part > 0;
#pragma unroll
        for (int low = 0; low < 2; low++) {
            const int64_t row = s.row + 8 * low;
            if (row >= p.n_down) continue;
            float *const to = (float *)e.out + row * e.stride;
            const bool   counted = is_counted(e.r, e.target[row]);
#pragma unroll
            for (int j = 0; j < SUMS / 4; j++) {
                const int64_t k = s.column + 8 * j;
                float         v[2] = { d[4 * j + 2 * low] * g, d[4 * j + 2 * low + 1] * g };
                if (!counted) v[0] = v[1] = 0;
                if (k + 1 < p.n_across) {
                    float2 *const pair = (float2 *)(void *)(to + k);
                    const float2  old = adds ? __ldcg(pair) : make_float2(0, 0);
                    __stcg(pair, make_float2(old.x + v[0], old.y + v[1]));
                } else if (k < p.n_across) to[k] = adds ? __ldcg(to + k) + v[0] : v[0];
            }
        }
        turn.end();
    }
};

/* dw in float, stored or added to by TMA: 64 rows by 32 columns at a time, through two places in
 * shared memory. */
template <class T_> struct dw_of {
    using T = T_;
    using params = gradient_params;
    static constexpr bool LEFT_DOWN = true, RIGHT_DOWN = true, DOWN_FIRST = false, SKIPS = true;

    static __device__ __forceinline__ void done(const gemm &, const params &e, const unit &u,
                                                unsigned staging, float (&d)[SUMS])
    {
        const int      own = (int)threadIdx.x % WARPGROUP, t = own % 4;
        const int      line = own / 32 * 16 + own % 32 / 4;
        const int      row = u.row * DOWN + warpgroup() * 64;
        const unsigned at = staging + warpgroup() * STAGING;
        const float    g = e.share->g;
#pragma unroll
        for (int q = 0; q < ACROSS / 32; q++) {
            const unsigned to = at + q % 2 * SLAB;
            if (own == 0) stores_wait_read<1>();
            named_wait(1 + warpgroup(), WARPGROUP);
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int low = 0; low < 2; low++) {
                    const int i = q * 16 + 4 * j + 2 * low;
                    store_pair(slab_piece(to, line + 8 * low, 2 * j + t / 2) + t % 2 * 8,
                               make_float2(d[i] * g, d[i + 1] * g));
                }
            publish_to_engines();
            named_wait(1 + warpgroup(), WARPGROUP);
            if (own != 0) continue;
            if (e.adds) add_box(&e.to, to, u.tile * ACROSS + q * 32, row);
            else store_box(&e.to, to, u.tile * ACROSS + q * 32, row, 0, 0);
            stores_end();
        }
    }
};

/* dw in the storage dtype, of all of its terms. */
template <class T_> struct narrow_dw_of {
    using T = T_;
    using params = gradient_params;
    static constexpr bool LEFT_DOWN = true, RIGHT_DOWN = true, DOWN_FIRST = false, SKIPS = true;

    static __device__ __forceinline__ void done(const gemm &p, const params &e, const unit &u,
                                                unsigned, float (&d)[SUMS])
    {
        const spot  s(u);
        const float g = e.share->g;
#pragma unroll
        for (int low = 0; low < 2; low++) {
            const int64_t row = s.row + 8 * low;
            if (row >= p.n_down) continue;
            T *const to = (T *)e.out + row * e.stride;
#pragma unroll
            for (int j = 0; j < SUMS / 4; j++) {
                const int64_t k = s.column + 8 * j;
                const float   v[2] = { d[4 * j + 2 * low] * g, d[4 * j + 2 * low + 1] * g };
                if (k + 1 < p.n_across) {
                    unsigned *const pair = (unsigned *)(void *)(to + k);
                    const float2    old = e.adds ? widen(*pair, T()) : make_float2(0, 0);
                    *pair = narrow(old.x + v[0], old.y + v[1], T());
                } else if (k < p.n_across)
                    from_float(to + k, (e.adds ? to_float(to[k]) : 0) + v[0]);
            }
        }
    }
};

/* ---- the kernel ---- */

extern __shared__ __align__(1024) uint4 memory[];

struct places {
    unsigned stages, staging, full, empty;

    __device__ __forceinline__ places(void)
        : stages(shared_address(memory)), staging(stages + STAGES * STAGE),
          full(staging + 2 * STAGING), empty(full + STAGES * 8)
    {
    }
};

/* One thread of each block. */
template <class F> __device__ __forceinline__ void send(const gemm &p, const places &m)
{
    const unsigned rank = cluster_rank(), both = 3;
    /* h, the left factor of logits and the right one of dw, is small and meets every tile. */
    const uint64_t     of_left = F::RIGHT_DOWN ? as_usual_in_l2() : keep_in_l2();
    const uint64_t     of_right = F::LEFT_DOWN ? keep_in_l2() : as_usual_in_l2();
    ring_place<STAGES> at;
    for_units<F>(p, [&](const unit &u) {
        const int down = u.row * DOWN, across = u.tile * ACROSS;
        for (int64_t k = u.begin; k < u.end; k += TERMS, at.advance()) {
            const unsigned left = m.stages + at.stage * STAGE, full = m.full + at.stage * 8;
            const unsigned half = left + LEFT + rank * 2 * SLAB;
            barrier_wait(m.empty + at.stage * 8, at.parity ^ 1);
            barrier_expect(full, STAGE);
            if constexpr (F::LEFT_DOWN)
                for (int i = 0; i < 2; i++)
                    load_box(left + i * SLAB, &p.left, full, down + i * SLAB_COLUMNS, (int)k, 0, 0,
                             of_left);
            else load_box(left, &p.left, full, (int)k, down, 0, 0, of_left);
            if constexpr (F::RIGHT_DOWN)
                for (int i = 0; i < 2; i++)
                    load_box_to(both, half + i * SLAB, &p.right, full,
                                across + (2 * (int)rank + i) * SLAB_COLUMNS, (int)k, of_right);
            else
                load_box_to(both, half, &p.right, full, (int)k, across + (int)rank * ACROSS / 2,
                            of_right);
        }
    });
}

/* Terms that do not count, whatever their rows of h hold: 0 in the right factor. */
__device__ __forceinline__ void skip_terms(unsigned right, uint64_t counted)
{
    if (counted == ~(uint64_t)0) return;
    for (int i = (int)threadIdx.x - WARPGROUP; i < TERMS * 32; i += 2 * WARPGROUP)
        if (!(counted >> i / 32 & 1))
            store_piece(slab_piece(right + i % 32 / 8 * SLAB, i / 32, i % 8),
                        make_uint4(0, 0, 0, 0));
    publish_to_engines();
    named_wait(3, 2 * WARPGROUP);
}

template <class F>
__device__ __forceinline__ void multiply(const gemm &p, const typename F::params &e,
                                         const places &m)
{
    ring_place<STAGES> at;
    for_units<F>(p, [&](const unit &u) {
        float d[SUMS];
        int   before = -1; /* the stage whose products may still run */
        auto  release = [&](int stage) {
            if (stage >= 0 && threadIdx.x % 32 < 2)
                barrier_arrive_at(m.empty + stage * 8, threadIdx.x % 32);
        };
        for (int64_t k = u.begin; k < u.end; k += TERMS, at.advance()) {
            const unsigned left = m.stages + at.stage * STAGE, right = left + LEFT;
            const unsigned own = left + warpgroup() * SLAB; /* 64 rows, either way */
            barrier_wait(m.full + at.stage * 8, at.parity);
            if constexpr (F::SKIPS)
                skip_terms(right, __ldg((const unsigned long long *)e.counted + k / TERMS));
            pin(d);
            products_begin();
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint64_t a =
                    F::LEFT_DOWN ? down_rows<TERMS>(own).step(i) : along_rows<DOWN>(own).step(i);
                const uint64_t b = F::RIGHT_DOWN ? down_rows<TERMS>(right).step(i)
                                                 : along_rows<ACROSS>(right).step(i);
                product<typename F::T, F::LEFT_DOWN, F::RIGHT_DOWN>(d, a, b, i > 0 || k > u.begin);
            }
            products_end();
            products_wait<1>();
            release(before);
            before = at.stage;
        }
        products_wait<0>();
        pin(d);
        release(before);
        F::done(p, e, u, m.staging, d);
    });
    if (threadIdx.x % WARPGROUP == 0) stores_wait<0>();
}

template <class F>
__global__ void __launch_bounds__(GEMM_THREADS, 1)
    gemm_kernel(const __grid_constant__ gemm p, const __grid_constant__ typename F::params e)
{
    if constexpr (HAS_WGMMA) {
        const places m;
        if (threadIdx.x == 0) {
            for (int i = 0; i < STAGES; i++) {
                barrier_init(m.full + i * 8, 1);
                barrier_init(m.empty + i * 8, 2 * N_WARPS);
            }
            barrier_init_end();
        }
        cluster_wait();
        if (threadIdx.x < WARPGROUP) {
            give_registers<40>();
            if (threadIdx.x == 0) send<F>(p, m);
            __syncwarp();
        } else {
            take_registers<232>();
            multiply<F>(p, e, m);
        }
        cluster_wait(); /* the other block may still write to this one's memory */
    }
}

} // namespace

#endif
