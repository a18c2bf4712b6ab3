/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8_sm90.cuh - flash attention over e4m3 codes on the warpgroup's tensor cores.
 *
 * Items, tiles and roles are those of attention_forward_sm90.cuh; three things differ.
 *
 * V is transposed in shared memory, as attention_fp8_load_sm90.cuh says.
 *
 * Weights are rounded to e4m3. They are relative to the largest score so far and 2^LIFT times as
 * large, so that small ones are not lost.
 *
 * Sums have two levels. Tensor cores add 8-bit products with 13 bits after the leading one: long
 * sums would come to a halt. So each tile is summed on its own and added in float. */
#ifndef TS_ATTENTION_FP8_SM90_CUH
#define TS_ATTENTION_FP8_SM90_CUH

#include "attention_fp8_load_sm90.cuh"

namespace
{

constexpr float LIFT_E4M3 = 8; /* weights are at most 2^8; the largest e4m3 number is 448 */

/* ---- a warpgroup that computes ---- */

/* Four weights of one row, the first in the lowest byte. */
__device__ __forceinline__ unsigned narrow4(float a, float b, float c, float d)
{
    unsigned w;
    asm("{\n"
        ".reg .b16 lo, hi;\n"
        "cvt.rn.satfinite.e4m3x2.f32 lo, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 hi, %4, %3;\n"
        "mov.b32 %0, {lo, hi};\n"
        "}\n"
        : "=r"(w)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return w;
}

/* A row's scores become weights in two steps: first the largest so far is known, then each weight
 * is made, some at a time. */
struct weighing {
    float minus[2];                   /* what exponents are relative to */
    float keep[2], add[2] = { 0, 0 }; /* what earlier sums shrink to, and what these weights add */

    template <int N>
    __device__ __forceinline__ weighing(const float (&s)[N], row_sums *r, float scale)
    {
        float top[2] = { s[0], s[2] };
#pragma unroll
        for (int k = 1; k < N; k++) top[k % 4 / 2] = fmaxf(top[k % 4 / 2], s[k]);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 1));
            top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 2));
            const float next = fmaxf(top[i] * scale, r->base[i]);
            const float finite = next == -INFINITY ? 0.0f : next;
            keep[i] = exp2_of(r->base[i] - finite);
            minus[i] = LIFT_E4M3 - finite;
            r->base[i] = next;
        }
    }
    /* They are made before what follows, such as waiting for a matmul. */
    template <int N>
    __device__ __forceinline__ void make(float (&s)[N], float scale, int from, int to)
    {
#pragma unroll
        for (int k = from; k < to; k++) {
            s[k] = exp2_of(fmaf(s[k], scale, minus[k % 4 / 2]));
            add[k % 4 / 2] += s[k];
            asm volatile("" : "+f"(s[k])::"memory");
        }
    }
    __device__ __forceinline__ void end(row_sums *r) const
    {
#pragma unroll
        for (int i = 0; i < 2; i++) r->sum[i] = fmaf(r->sum[i], keep[i], add[i]);
    }
};

template <class S> struct consumer8 {
    static constexpr int N_S = S::KEYS / 2, N_O = S::D / 2, N_P = S::KEYS / 8;
    static constexpr int N_PART = S::PART / 2, PARTS = S::D / S::PART;

    const fp8_call         &f;
    const forward_call     &c;
    const places8<S>       &in;
    const int               nth; /* among the warpgroups that compute */
    ring_place<S::K_STAGES> k;
    ring_place<S::V_STAGES> v;
    ring_place<S::Q_STAGES> q;
    ring_place<1>           told;
    float                   scale; /* of the head's scores, for exp2 */

    __device__ __forceinline__ consumer8(const fp8_call &f_, const places8<S> &in_, int nth_)
        : f(f_), c(f_.c), in(in_), nth(nth_)
    {
    }
    __device__ __forceinline__ void wait_keys(void)
    {
        barrier_wait(shared_address(&in.p->k_full[k.stage]), k.parity);
    }
    __device__ __forceinline__ void wait_values(void)
    {
        barrier_wait(shared_address(&in.p->v_full[v.stage]), v.parity);
    }
    __device__ __forceinline__ void release_keys(void)
    {
        if (lane() == 0) barrier_arrive(shared_address(&in.p->k_empty[k.stage]));
        k.advance();
    }
    __device__ __forceinline__ void release_values(void)
    {
        if (lane() == 0) barrier_arrive(shared_address(&in.p->v_empty[v.stage]));
        v.advance();
    }
    /* Between the two it is this warpgroup's turn to begin matmuls: once per tile of an item. */
    __device__ __forceinline__ void turn_begin(void)
    {
        named_wait(1 + nth, 2 * WARPGROUP);
    }
    __device__ __forceinline__ void turn_end(void)
    {
        asm volatile("bar.arrive %0, %1;" ::"r"(1 + (nth + 1) % S::CONSUMERS), "r"(2 * WARPGROUP)
                     : "memory");
    }
    /* Tiles that other warpgroups see. */
    __device__ __forceinline__ void pass(int n)
    {
#pragma unroll 1
        for (; n > 0; n--) {
            turn_begin();
            turn_end();
            wait_keys();
            release_keys();
            wait_values();
            release_values();
        }
    }
    __device__ __forceinline__ void issue_scores(float (&s)[N_S])
    {
        const typename S::q_tile a = in.q(q.stage, nth);
        const typename S::k_tile b = in.k(k.stage);
        products_begin();
#pragma unroll
        for (int i = 0; i < S::D / 32; i++) product_e4m3(s, a.step(i), b.step(i), i > 0);
        products_end();
    }
    __device__ __forceinline__ void issue_part(float (&sums)[N_PART], const unsigned (&p)[N_P],
                                               int part)
    {
        const typename S::v_tile b = in.v(v.stage);
        products_begin();
#pragma unroll
        for (int i = 0; i < S::KEYS / 32; i++)
            product_e4m3(sums, p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3],
                         b.step(i, part * S::PART), i > 0);
        products_end();
    }
    __device__ __forceinline__ void add_part(float (&o)[N_O], const float (&sums)[N_PART],
                                             const float (&keep)[2], int part)
    {
#pragma unroll
        for (int j = 0; j < N_PART; j++)
            o[part * N_PART + j] = fmaf(o[part * N_PART + j], keep[j % 4 / 2], sums[j]);
    }
    /* Adds the part that is under way, and begins the next. */
    __device__ __forceinline__ void next_part(float (&o)[N_O], float (&sums)[N_PART],
                                              unsigned (&p)[N_P], const float (&keep)[2], int part)
    {
        products_wait<0>();
        pin(sums);
        pin(p);
        add_part(o, sums, keep, part);
        if (part + 1 < PARTS) {
            pin(sums);
            issue_part(sums, p, part + 1);
        } else release_values();
    }
    /* Scores that are not seen become -inf. */
    __device__ __forceinline__ void mask(float (&s)[N_S], const item &i, int tile)
    {
        const int from = tile * S::KEYS, row = i.row + nth * ROWS;
        if (from + S::KEYS <= c.see.end(row, i.n_keys) && from >= c.see.begin(row + ROWS - 1))
            return;
        hide_unseen(s, c.see, i.n_keys, row + (int)threadIdx.x % WARPGROUP / 32 * 16 + lane() / 4,
                    from + lane() % 4 * 2);
    }
    __device__ __forceinline__ void narrow_weights(unsigned (&p)[N_P], const float (&s)[N_S])
    {
#pragma unroll
        for (int i = 0; i < N_P; i++) {
            const int at = i / 2 * 8 + i % 2 * 2; /* of the pair of rows */
            p[i] = narrow4(s[at], s[at + 1], s[at + 4], s[at + 5]);
        }
    }
    /* All tiles of an item, of which there is at least one. */
    __device__ __forceinline__ void attend(const item &i, int first, int end, float (&o)[N_O],
                                           row_sums *r)
    {
        float    s[N_S], sums[N_PART], keep[2];
        unsigned p[N_P];
        wait_keys();
        issue_scores(s);
        products_wait<0>();
        pin(s);
        release_keys();
        mask(s, i, end - 1);
        weighing now(s, r, scale);
        now.make(s, scale, 0, N_S);
        now.end(r);
        narrow_weights(p, s);
        keep[0] = now.keep[0], keep[1] = now.keep[1];
        if (end - first > 1) wait_keys();
#pragma unroll 1
        for (int tile = end - 2; tile >= first; tile--) {
            constexpr int STEPS = PARTS > 1 ? PARTS - 1 : 1; /* weights are made between parts */
            pin(sums);
            pin(p);
            turn_begin();
            issue_scores(s);
            wait_values();
            issue_part(sums, p, 0);
            turn_end();
            products_wait<1>();
            pin(s);
            release_keys();
            mask(s, i, tile);
            weighing next(s, r, scale);
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                if (PARTS > 1) next_part(o, sums, p, keep, step);
                next.make(s, scale, N_S * step / STEPS, N_S * (step + 1) / STEPS);
            }
            next.end(r);
            if (tile > first) wait_keys();
            next_part(o, sums, p, keep, PARTS - 1);
            narrow_weights(p, s);
            keep[0] = next.keep[0], keep[1] = next.keep[1];
        }
        wait_values();
        pin(sums);
        pin(p);
        turn_begin();
        issue_part(sums, p, 0);
        turn_end();
#pragma unroll
        for (int part = 0; part < PARTS; part++) next_part(o, sums, p, keep, part);
    }
    /* What the rows' sums are to be multiplied by; their lse is stored. */
    __device__ __forceinline__ void close_rows(const item &i, const row_sums &r, float v_scale,
                                               float (&by)[2])
    {
        const int row = i.row + nth * ROWS + (int)threadIdx.x % WARPGROUP / 32 * 16 + lane() / 4;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float sum = whole_sum(r, h);
            by[h] = sum == 0 ? 0.0f : inverse(sum) * v_scale;
            if (c.lse && lane() % 4 == 0 && row + 8 * h < c.n_q)
                c.lse[((int64_t)i.batch * c.n_head + i.head) * c.n_q + row + 8 * h] =
                    sum == 0 ? -INFINITY : fmaf(r.base[h] - LIFT_E4M3, LN_2, logf(sum));
        }
    }
    /* Four columns of every 16 of the two rows. */
    __device__ __forceinline__ void store(const item &i, const float (&o)[N_O],
                                          const float (&by)[2])
    {
        const int row = i.row + nth * ROWS + (int)threadIdx.x % WARPGROUP / 32 * 16 + lane() / 4;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (row + 8 * h >= c.n_q) continue;
            const int64_t to = f.of_o.at(i.batch, i.head, row + 8 * h) + lane() % 4 * 4;
#pragma unroll
            for (int b = 0; b < S::D / 16; b++) {
                const float *x = o + 8 * b + 2 * h;
                const float4 y = { x[0] * by[h], x[4] * by[h], x[1] * by[h], x[5] * by[h] };
                if (b * 16 >= f.head_dim) break;
                if (f.dtype == TS_F32) *(float4 *)((float *)f.o + to + b * 16) = y;
                else
                    *(uint2 *)((__half *)f.o + to + b * 16) =
                        f.dtype == TS_BF16
                            ? make_uint2(narrow(y.x, y.y, __nv_bfloat16()),
                                         narrow(y.z, y.w, __nv_bfloat16()))
                            : make_uint2(narrow(y.x, y.y, __half()), narrow(y.z, y.w, __half()));
            }
        }
    }
    __device__ __forceinline__ void run(void)
    {
        if (nth == S::CONSUMERS - 1) turn_end(); /* the first one begins */
        for (;;) {
            const item i = told_item(in, &told);
            if (i.batch < 0) break;
            row_sums  r;
            float     o[N_O] = {}, by[2];
            int       first, end;
            const int q_head = i.batch * c.n_head + i.head, kv_head = q_head / c.group;
            /* Not 0: times a hidden score it would be NaN. */
            scale = fmaxf(c.scale * f.q_scale[q_head] * f.k_scale[kv_head], 1e-30f);
            const float v_scale = f.v_scale[kv_head];
            tiles_of<S>(c, i.n_keys, i.row + nth * ROWS, ROWS, &first, &end);
            if (first == end) first = end = i.end;
            barrier_wait(shared_address(&in.p->q_full[q.stage]), q.parity);
            pass(i.end - end);
            if (first < end) attend(i, first, end, o, &r);
            if (lane() == 0) barrier_arrive(shared_address(&in.p->q_empty[q.stage]));
            q.advance();
            pass(first - i.first);
            close_rows(i, r, v_scale, by);
            store(i, o, by);
        }
    }
};

template <class S>
__global__ void __launch_bounds__(S::THREADS, 1) forward_fp8(const __grid_constant__ fp8_call f)
{
    if constexpr (HAS_WGMMA) {
        extern __shared__ uint4 memory[];
        __shared__ pipes8<S> p;
        const unsigned       align = 8 * SLAB_BYTES;
        const places8<S>     in = { (shared_address(memory) + align - 1) / align * align, &p };
        const int            warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
        if (threadIdx.x == 0) {
            for (const CUtensorMap *m : { &f.c.q, &f.c.k, &f.c.v }) prefetch_map(m);
            in.begin();
        }
        __syncthreads();
        if (warp < 4) {
            give_registers<S::PRODUCER_REGISTERS>();
            if (warp == 0) load_items<S>(loader<S>(f.c, in));
            else if (warp <= TRANSPOSERS) run_transposer<S>(in, warp - 1);
        } else {
            take_registers<S::CONSUMER_REGISTERS>();
            consumer8<S>(f, in, warp / 4 - 1).run();
        }
    }
}

} // namespace

#endif
