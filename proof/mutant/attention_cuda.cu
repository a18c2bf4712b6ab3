/* SPDX-License-Identifier: Apache-2.0 */
/* attention_cuda.cu - CUDA mutants of attention: one correct forward and one correct backward pass,
 * with one injected bug at a time.
 *
 * attention_cuda_list.h and attention_backward_cuda_list.h list them. A warp has a row: forward a
 * query, backward a query for dq and a key for dk and dv. Lane i has every 32nd element of the row,
 * beginning with the i-th, and sums in double; keys are processed in tiles of 16. Slow, and simple
 * enough to be correct. */
#include <math_constants.h>

#include "attention_backward_cuda_list.h"
#include "attention_cuda_list.h"
#include "dtype.cuh"

extern "C" {
#include "touchstone/attention.h"
}

namespace
{

enum { WARP = 32, THREADS = 128, TILE = 16, WIDEST = 256, MINE = WIDEST / WARP };

#define TRAP(trap, name, fault, family) trap,
enum trap { CUDA_FORWARD(TRAP) CUDA_BACKWARD(TRAP) N_TRAPS };

typedef ts_flash_attention_args          forward_args;
typedef ts_flash_attention_backward_args backward_args;

__device__ int lane(void)
{
    return (int)threadIdx.x % WARP;
}

/* The warp's number among all. */
__device__ int64_t nth_warp(void)
{
    return ((int64_t)blockIdx.x * THREADS + threadIdx.x) / WARP;
}

/* ---- elements ---- */

__device__ double load(const void *p, ts_dtype t, int64_t i)
{
    if (t == TS_F64) return ((const double *)p)[i];
    if (t == TS_F32) return ((const float *)p)[i];
    if (t == TS_F16) return to_float(((const __half *)p)[i]);
    return to_float(((const __nv_bfloat16 *)p)[i]);
}

/* Any NaN is stored as the plain one: a poison carried through a sum would look unwritten. */
__device__ void store(void *p, ts_dtype t, int64_t i, double v)
{
    if (v != v) v = CUDART_NAN;
    if (t == TS_F64) ((double *)p)[i] = v;
    else if (t == TS_F32) ((float *)p)[i] = (float)v;
    else if (t == TS_F16) from_float((__half *)p + i, (float)v);
    else from_float((__nv_bfloat16 *)p + i, (float)v);
}

__device__ double rounded(double v, ts_dtype t)
{
    if (t == TS_F16) return to_float(__float2half_rn((float)v));
    return t == TS_BF16 ? to_float(__float2bfloat16_rn((float)v)) : v;
}

/* The lane's part of a row, and zeros. */
struct part {
    double x[MINE];

    __device__ part(void)
    {
        for (int i = 0; i < MINE; i++) x[i] = 0;
    }
    __device__ part(const void *p, const ts_attention_dims &d, int64_t at) : part()
    {
        for (int i = 0; i < MINE; i++)
            if (i * WARP + lane() < d.head_dim) x[i] = load(p, d.dtype, at + i * WARP + lane());
    }
    __device__ void put(void *p, const ts_attention_dims &d, int64_t at, double by, int64_t end)
    {
        for (int i = 0; i < MINE; i++)
            if (i * WARP + lane() < end) store(p, d.dtype, at + i * WARP + lane(), x[i] * by);
    }
    __device__ void add(double w, const part &y, bool narrowly, ts_dtype t)
    {
        for (int i = 0; i < MINE; i++) {
            x[i] += w * y.x[i];
            if (narrowly) x[i] = rounded(x[i], t);
        }
    }
};

__device__ double dot(const part &x, const part &y)
{
    double sum = 0;
    for (int i = 0; i < MINE; i++) sum += x.x[i] * y.x[i];
    for (int by = WARP / 2; by; by /= 2) sum += __shfl_xor_sync(~0u, sum, by);
    return sum;
}

/* ---- places ---- */

/* A query and a key of a head. It is moved, never copied: of a copy nvcc 13.0 reads what lies
 * behind the dims from the kernel's arguments, which begin with dims as well. */
struct pair {
    ts_attention_dims d;
    const int32_t    *kv_len;
    trap              t;
    int64_t           b, h, i, j;

    __device__ int64_t row(int64_t n_head, int64_t n, int64_t head, int64_t at) const
    {
        const bool heads_first = d.layout == TS_BHND || t == LAYOUT;
        return (heads_first ? (b * n_head + head) * n + at : (b * n + at) * n_head + head) *
               d.head_dim;
    }
    __device__ int64_t q(void) const
    {
        return row(d.n_q_head, d.n_q, h, i);
    }
    __device__ int64_t k(void) const
    {
        const int64_t share = d.n_q_head / d.n_kv_head;
        return row(d.n_kv_head, d.n_k, t == HEAD_MODULO ? h % d.n_kv_head : h / share, j);
    }
    __device__ int64_t stat(void) const
    {
        return (b * d.n_q_head + h) * d.n_q + i;
    }
    __device__ bool in_length(void) const
    {
        return !kv_len || t == NO_LENGTH || t == BACKWARD_LENGTH || j < kv_len[b];
    }
    __device__ bool sees(void) const
    {
        const int64_t last = i + d.n_k - d.n_q - (t == STRICT || t == BACKWARD_STRICT);
        const int64_t window = d.window + (t == WIDE_WINDOW || t == BACKWARD_WINDOW);
        if (!in_length()) return false;
        if (!d.causal) return true;
        if (t == LOCAL_MASK) return j % TILE <= i % TILE;
        return j <= last && (d.window == 0 || last - j < window);
    }
};

/* ---- forward ---- */

struct state {
    double m, l;
    part   o;
};

__device__ void meet_tile(const forward_args &a, pair *p, const part &q, int64_t end, state *s)
{
    const trap    t = p->t;
    const int64_t first = p->j;
    double        score[TILE], top = -CUDART_INF;
    bool          seen[TILE];
    for (int n = 0; n < TILE; n++) {
        p->j = first + n;
        seen[n] = p->j < end && p->sees();
        score[n] = -CUDART_INF;
        if (seen[n]) score[n] = dot(q, part(a.k, a.d, p->k())) * a.d.scale;
        if (seen[n] && t == SCALE_SIGN && a.d.scale < 0) score[n] = -score[n];
        if (t == NAN_DROPPED && score[n] != score[n]) score[n] = -CUDART_INF;
        if (score[n] != score[n]) s->l = CUDART_NAN;
        top = fmax(top, score[n]); /* which passes over NaN */
    }
    const double m = t == TILE_MAX ? top : fmax(s->m, top);
    if (m == -CUDART_INF && t != UNGUARDED) return;
    const double keep = t == INVERTED && s->m != -CUDART_INF ? exp(m - s->m) : exp(s->m - m);
    if (t != SUM_KEPT) s->l *= keep;
    for (int i = 0; i < MINE && t != O_KEPT; i++) s->o.x[i] *= keep;
    s->m = m;
    for (int n = 0; n < TILE; n++) {
        p->j = first + n;
        if (p->j >= end || (!seen[n] && t != PADDING)) continue;
        const double w = exp(score[n] - m);
        s->l += w;
        s->o.add(w, part(a.v, a.d, p->k()), t == HALF_SUMS, a.d.dtype);
    }
}

__device__ bool is_left_out(const pair &p)
{
    if (p.t == ROWS_16) return p.d.n_q % TILE && p.i >= p.d.n_q / TILE * TILE;
    return p.t == HEADS_65535 && p.b * p.d.n_q_head + p.h >= 65535;
}

__global__ void forward(forward_args a, trap t)
{
    const ts_attention_dims &d = a.d;
    const int64_t            row = nth_warp();
    if (row >= d.n_batch * d.n_q_head * d.n_q) return;
    pair p = { d, a.kv_len, t, row / d.n_q / d.n_q_head, row / d.n_q % d.n_q_head, row % d.n_q, 0 };
    const part q(a.q, d, p.q());
    state      s = { -CUDART_INF, 0, part() };
    int64_t    end = d.n_k;
    if (t == SKIP_ONE) {
        for (p.j = end - 1; end > 0 && !p.sees(); p.j--) end--;
        end = end / TILE * TILE;
    }
    for (int64_t j = 0; j < end; j += TILE) {
        p.j = j;
        meet_tile(a, &p, q, end, &s);
    }
    if (is_left_out(p)) return;
    const bool   empty = s.l == 0 && t != EMPTY_NAN;
    const double lse = s.l == 0 ? -CUDART_INF : s.m + log(s.l);
    if (empty) s.o = part();
    s.o.put(a.o, d, p.q(), empty ? 0 : 1 / s.l,
            t == TAIL_8 && d.head_dim > 8 ? d.head_dim / 8 * 8 : d.head_dim);
    if (a.lse && lane() == 0)
        store(a.lse, d.dtype == TS_F64 ? TS_F64 : TS_F32, row,
              t == LSE_BASE_2 ? lse * 1.4426950408889634 : lse);
    if (t == PAST_O && row == 0 && lane() == 0)
        store(a.o, d.dtype, d.n_batch * d.n_q_head * d.n_q * d.head_dim, 0);
}

/* ---- backward ---- */

struct weights {
    double p, ds;
};

__device__ weights weigh(const backward_args &a, pair *p, const part &q, const part &k,
                         const part &dout, const part &v)
{
    const double lse = load(a.lse, a.d.dtype == TS_F64 ? TS_F64 : TS_F32, p->stat());
    const double s = dot(q, k) * a.d.scale;
    double       delta = p->t == NO_DELTA ? 0 : dot(dout, part(a.o, a.d, p->q()));
    if (p->t == DELTA_TILE) {
        const int64_t at = p->j;
        delta = 0;
        for (p->j = at / TILE * TILE; p->j < a.d.n_k && p->j / TILE == at / TILE; p->j++)
            if (p->sees())
                delta += exp(dot(q, part(a.k, a.d, p->k())) * a.d.scale - lse) *
                         dot(dout, part(a.v, a.d, p->k()));
        p->j = at;
    }
    const double w = lse == -CUDART_INF || s == -CUDART_INF ? 0
                     : p->t == LSE_AS_BASE_2                ? exp2(s - lse)
                                                            : exp(s - lse);
    return { w, w == 0 ? 0 : w * (dot(dout, v) - delta) };
}

__global__ void backward_queries(backward_args a, trap t)
{
    const ts_attention_dims &d = a.d;
    const int64_t            row = nth_warp();
    if (row >= d.n_batch * d.n_q_head * d.n_q) return;
    pair p = { d, a.kv_len, t, row / d.n_q / d.n_q_head, row / d.n_q % d.n_q_head, row % d.n_q, 0 };
    const part q(a.q, d, p.q()), dout(a.dout, d, p.q());
    part       dq;
    if (t == ADDS) dq = part(a.dq, d, p.q());
    for (p.j = 0; p.j < d.n_k; p.j++) {
        const bool seen = p.sees();
        if (t == DQ_LAST_TILE && p.j % TILE == 0 && seen) dq = part();
        if (!seen && t != BACKWARD_PADDING) continue;
        const part    k(a.k, d, p.k());
        const weights w = weigh(a, &p, q, k, dout, part(a.v, d, p.k()));
        dq.add(seen ? w.ds : 0, k, t == HALF_DQ, d.dtype);
    }
    if (t == EMPTY_ROWS &&
        load(a.lse, d.dtype == TS_F64 ? TS_F64 : TS_F32, p.stat()) == -CUDART_INF)
        dq.x[0] = CUDART_NAN;
    dq.put(a.dq, d, p.q(), d.scale, d.head_dim);
}

__global__ void backward_keys(backward_args a, trap t)
{
    const ts_attention_dims &d = a.d;
    const int64_t            row = nth_warp(), share = d.n_q_head / d.n_kv_head;
    if (row >= d.n_batch * d.n_kv_head * d.n_k) return;
    const int64_t head = row / d.n_k % d.n_kv_head;
    pair          p = { d, a.kv_len, t, row / d.n_k / d.n_kv_head, head * share, 0, row % d.n_k };
    const part    k(a.k, d, p.k()), v(a.v, d, p.k());
    part          dk, dv;
    if (t == TAIL_KEYS && !p.in_length()) return;
    for (p.h = head * share; p.h < (head + 1) * share; p.h++) {
        if (t == LAST_HEAD && p.h + 1 < (head + 1) * share) continue;
        for (p.i = 0; p.i < d.n_q; p.i++) {
            if (!p.sees()) continue;
            const part    q(a.q, d, p.q()), dout(a.dout, d, p.q());
            const weights w = weigh(a, &p, q, k, dout, v);
            dk.add(w.ds, q, t == HALF_DK, d.dtype);
            dv.add(w.p, dout, false, d.dtype);
        }
    }
    p.h = head * share;
    dk.put(a.dk, d, p.k(), t == NO_SCALE_K ? 1 : d.scale, d.head_dim);
    dv.put(a.dv, d, p.k(), 1, d.head_dim);
    if (t == PAST_DK && row == 0 && lane() == 0)
        store(a.dk, d.dtype, d.n_batch * d.n_kv_head * d.n_k * d.head_dim, 0);
}

/* ---- calls ---- */

unsigned blocks(int64_t n_rows)
{
    return (unsigned)((n_rows * WARP + THREADS - 1) / THREADS);
}

ts_status launched(void)
{
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

ts_status run_forward(const void *args, const ts_exec *x, trap t)
{
    const forward_args a = *(const forward_args *)args;
    const int64_t      n = a.d.n_batch * a.d.n_q_head * a.d.n_q;
    if (n) forward<<<blocks(n), THREADS, 0, (cudaStream_t)x->stream>>>(a, t);
    return launched();
}

ts_status run_backward(const void *args, const ts_exec *x, trap t)
{
    const backward_args a = *(const backward_args *)args;
    const int64_t       n_q = a.d.n_batch * a.d.n_q_head * a.d.n_q;
    const int64_t       n_k = a.d.n_batch * a.d.n_kv_head * a.d.n_k;
    const cudaStream_t  s = (cudaStream_t)x->stream;
    if (n_q) backward_queries<<<blocks(n_q), THREADS, 0, s>>>(a, t);
    if (n_k) backward_keys<<<blocks(n_k), THREADS, 0, s>>>(a, t);
    return launched();
}

} // namespace

#define RUN_FORWARD(trap, name, fault, family)                                                     \
    extern "C" TS_API ts_status ts_mutant_attention_##name(const void *a, const ts_exec *x)        \
    {                                                                                              \
        return run_forward(a, x, trap);                                                            \
    }
CUDA_FORWARD(RUN_FORWARD)

#define RUN_BACKWARD(trap, name, fault, family)                                                    \
    extern "C" TS_API ts_status ts_mutant_attention_backward_##name(const void    *a,              \
                                                                    const ts_exec *x)              \
    {                                                                                              \
        return run_backward(a, x, trap);                                                           \
    }
CUDA_BACKWARD(RUN_BACKWARD)
