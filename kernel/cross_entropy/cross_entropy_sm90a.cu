/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_sm90a.cu - cross-entropy from hidden states of 16 bits, by wgmma.
 *
 * Rows are processed in chunks whose logits are in the workspace, 16 bits each. The first matmul
 * gives every row's sums and, for each word, exp(z - m) with m the largest of its tile: rounding
 * that to storage costs no more than rounding the gradient. A pass turns these into gradients, and
 * two more matmuls compute dh and dw from the gradients: three matmuls in all.
 *
 * In two cases there is a fourth. With a softcap or smoothing the gradient is a difference for
 * which a rounded exp(z - m) is too inexact, so logits are computed twice. And a dw of 16 bits
 * needs all rows of a word in one sum: its logits are computed again, a block of words at a time,
 * after all lse are known.
 *
 * Each sum has one order that depends on the shape and on the number of multiprocessors. */
#include "cross_entropy_sm90.cuh"

#include "cross_entropy_wide.h"
#include "scratch.h"

namespace
{

enum {
    MOST_LOGITS = 768 * 128256, /* of a chunk, where the caller does not say */
    MOST_ROWS = 2048,
    MOST_HIDDEN = 8192, /* products round their sums down: of more terms than that, too far */
    MOST_PART = 16384,  /* terms of dh, for the same reason */
    LINES = 256,
};

int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

int64_t round_up(int64_t n, int64_t to)
{
    return ceil_div(n, to) * to;
}

/* Where things are in the workspace. */
struct space {
    int64_t   rows;  /* of a chunk */
    int64_t   words; /* of a block of words, for a dw of 16 bits */
    int64_t   dh_stride;
    shares   *share;
    float    *hit;     /* [n_rows]: the target's z */
    uint64_t *counted; /* a bit for each row */
    row_sums *part;    /* [rows][tile of words] */
    void     *x;       /* [rows][n_vocab] or [n_rows][words], strides rounded up to 8 */
    float    *dh;      /* [rows][dh_stride]; NULL: the output is float */
    int64_t   n_turns;
    int      *turn;
};

bool is_narrow(const ts_cross_entropy_args &a)
{
    return a.grad_dtype != TS_F32;
}

/* Returns false if `chunk` is too small for tiles of this size. */
bool divide(const ts_cross_entropy_args &a, space *s)
{
    const int64_t most = a.chunk ? a.chunk : greater(MOST_LOGITS, a.n_vocab * DOWN);
    s->rows = lesser(a.n_rows, lesser(most / a.n_vocab, a.chunk ? most : (int64_t)MOST_ROWS));
    if (s->rows < a.n_rows) s->rows = s->rows / DOWN * DOWN;
    s->words = lesser(a.n_vocab, s->rows * a.n_vocab / a.n_rows);
    if (s->words < a.n_vocab) s->words = s->words / ACROSS * ACROSS;
    s->dh_stride = round_up(a.n_hidden, 8);
    return s->rows > 0 && (s->words > 0 || !a.dw || !is_narrow(a));
}

size_t lay_out(const ts_cross_entropy_args &a, char *base, space *s)
{
    const int64_t tiles = ceil_div(a.n_vocab, ACROSS), across = ceil_div(a.n_hidden, ACROSS);
    const bool    wants_dh = a.dh && is_narrow(a), again = a.dw && is_narrow(a);
    const int64_t x = s->rows * round_up(a.n_vocab, 8);
    const int64_t y = again ? a.n_rows * round_up(s->words, 8) : 0;
    size_t        used = 0;
    s->share = (shares *)ts_cut(base, &used, 1, sizeof(shares));
    s->hit = (float *)ts_cut(base, &used, a.n_rows, sizeof(float));
    s->counted = (uint64_t *)ts_cut(base, &used, ceil_div(a.n_rows, TERMS), sizeof(uint64_t));
    s->part = (row_sums *)ts_cut(base, &used, s->rows * tiles, sizeof(row_sums));
    s->x = ts_cut(base, &used, a.dh || a.dw ? greater(x, y) : 0, 2);
    s->dh = (float *)ts_cut(base, &used, wants_dh ? s->rows * s->dh_stride : 0, sizeof(float));
    s->n_turns = a.dh ? (ceil_div(s->rows, DOWN) + 1) * 2 * (across + 1) : 0;
    s->turn = (int *)ts_cut(base, &used, s->n_turns, sizeof(int));
    if (!wants_dh) s->dh = nullptr;
    return used + TS_LINE;
}

/* ---- small kernels ---- */

__global__ void counted_kernel(rule r, const int32_t *target, uint64_t *to)
{
    const int64_t i = (int64_t)blockIdx.x * LINES + threadIdx.x;
    if (i * TERMS >= r.n_rows) return;
    uint64_t bits = ~(uint64_t)0;
    for (int k = 0; k < TERMS && i * TERMS + k < r.n_rows; k++)
        if (!is_counted(r, target[i * TERMS + k])) bits ^= (uint64_t)1 << k;
    to[i] = bits;
}

/* A row's lse and loss of its tiles' sums. A block per row of the chunk. */
__global__ void __launch_bounds__(ROW_THREADS)
    losses_kernel(rule r, const int32_t *target, const row_sums *part, int n_tiles,
                  const float *hit, float *loss, float *lse)
{
    const int64_t   i = blockIdx.x;
    const row_sums *of = part + i * n_tiles;
    row_sums        all = { -INFINITY, 0, 0 };
    const bool      counted = is_counted(r, target[i]);
    if (counted) {
        for (int k = threadIdx.x; k < n_tiles; k += ROW_THREADS)
            all.max = larger_of()(of[k].max, all.max);
        all.max = fold<ROW_THREADS>(all.max, larger_of());
        const float base = isfinite(all.max) ? all.max : 0;
        for (int k = threadIdx.x; k < n_tiles; k += ROW_THREADS) {
            all.sum += of[k].sum * expf((isfinite(of[k].max) ? of[k].max : 0) - base);
            all.z_sum += of[k].z_sum;
        }
        all.sum = fold<ROW_THREADS>(all.sum, sum_of());
        all.z_sum = fold<ROW_THREADS>(all.z_sum, sum_of());
    }
    if (threadIdx.x != 0) return;
    lse[i] = counted ? lse_of(all) : 0;
    loss[i] = counted ? loss_of(r, all, lse[i], hit[i]) : target[i] == r.ignored ? 0 : nanf("");
}

/* exp(z - m) becomes the gradient of z, in place. A block has a row, and LINES chunks of 16 bytes.
 * */
template <class T>
__global__ void __launch_bounds__(LINES)
    gradient_kernel(rule r, const int32_t *target, const row_sums *part, int n_tiles,
                    const float *hit, const float *lse, uint4 *x, int64_t stride)
{
    const int64_t i = blockIdx.y, at = (int64_t)blockIdx.x * LINES + threadIdx.x;
    if (at >= stride) return;
    uint4 *const  to = x + i * stride + at;
    const int64_t word = at * 8;
    float         v[8];
    if (!is_counted(r, target[i])) {
        *to = make_uint4(0, 0, 0, 0);
        return;
    }
    const float max = part[i * n_tiles + word / ACROSS].max, whole = 1 + 2 * r.z_loss * lse[i];
    const float by = whole * expf((isfinite(max) ? max : 0) - lse[i]) / LIFT<T>;
    unpack<T>(*to, v);
#pragma unroll
    for (int k = 0; k < 8; k++) {
        v[k] *= by;
        if (word + k == target[i]) v[k] = whole * expf(hit[i] - lse[i]) - 1;
    }
    *to = pack_as<T>(v);
}

/* A chunk's dh, rounded once. A block per row. */
template <class T>
__global__ void __launch_bounds__(LINES) store_kernel(const float *from, int64_t from_stride, T *to,
                                                      int64_t n, int64_t stride, bool adds)
{
    T *const row = to + (int64_t)blockIdx.x * stride;
    for (int64_t k = threadIdx.x; k < n; k += LINES) {
        const float v = from[(int64_t)blockIdx.x * from_stride + k];
        from_float(row + k, adds ? to_float(row[k]) + v : v);
    }
}

/* ---- launches ---- */

tensor_view view_of(const void *at, int64_t n_rows, int64_t n, int64_t stride)
{
    return tensor_view { at, 1, 1, n_rows, n, n_rows * stride, n_rows * stride, stride };
}

/* A factor as a TMA descriptor, in boxes of so many rows. */
bool map_of(CUtensorMap *to, const void *at, int64_t n_rows, int64_t n, int64_t stride,
            bool is_half, int rows)
{
    return make_map(to, view_of(at, n_rows, n, stride), is_half, rows);
}

/* Parts of so many units that the last turn of all clusters is full, or nearly. */
int parts_for(int64_t units, int64_t n_terms, int n_clusters)
{
    const int least = (int)ceil_div(n_terms, MOST_PART);
    int       best = least;
    double    cost = 1e300;
    for (int n = least; n < least + 16 && (n == least || n_terms / n >= 16 * TERMS); n++) {
        const double turns = (double)ceil_div(units * n, n_clusters) / n;
        if (turns < 0.98 * cost) best = n, cost = turns;
    }
    return best;
}

template <class F>
ts_status multiply_by(gemm *p, const typename F::params &e, bool in_parts, cudaStream_t stream)
{
    auto *const         kernel = gemm_kernel<F>;
    cudaLaunchAttribute cluster = {};
    cudaLaunchConfig_t  how = {};
    int                 most = 0;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 2, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    how.gridDim = dim3(2), how.blockDim = dim3(GEMM_THREADS), how.dynamicSmemBytes = GEMM_BYTES;
    how.stream = stream, how.attrs = &cluster, how.numAttrs = 1;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, GEMM_BYTES) !=
            cudaSuccess ||
        cudaOccupancyMaxActiveClusters(&most, kernel, &how) != cudaSuccess || most < 1)
        return TS_E_DEVICE;
    p->n_rows = (int)ceil_div(p->n_down, DOWN), p->n_tiles = (int)ceil_div(p->n_across, ACROSS);
    const int64_t units = ceil_div(p->n_rows, 2) * p->n_tiles;
    p->n_parts = in_parts ? parts_for(units, p->n_terms, most) : 1;
    p->part = round_up(ceil_div(p->n_terms, p->n_parts), TERMS);
    p->n_parts = (int)ceil_div(p->n_terms, p->part);
    how.gridDim.x = 2 * (unsigned)lesser(units * p->n_parts, most);
    return cudaLaunchKernelEx(&how, kernel, *p, e) == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

template <class T> struct call {
    const ts_cross_entropy_args &a;
    rule                         r;
    space                        s;
    cudaStream_t                 stream;
    static constexpr bool        IS_HALF = std::is_same<T, __half>::value;

    const T *h(int64_t row) const
    {
        return (const T *)a.h + row * a.h_stride;
    }
    const T *w(int64_t word) const
    {
        return (const T *)a.w + word * a.w_stride;
    }
    static unsigned lines(int64_t n)
    {
        return (unsigned)ceil_div(n, LINES);
    }
    /* Whether exp(z - m) may be kept instead of z. */
    bool keeps(void) const
    {
        return a.softcap == 0 && a.smoothing == 0;
    }

    /* Logits of n rows by m words, and what F does with them. */
    template <class F> ts_status logits(int64_t row, int64_t n, int64_t word, int64_t m) const
    {
        gemm          p = {};
        logits_params e = {};
        p.n_down = n, p.n_across = m, p.n_terms = a.n_hidden;
        e.r = r, e.bias = a.bias ? (const T *)a.bias + word : nullptr;
        e.target = a.target + row, e.word = word;
        e.part = s.part, e.hit = s.hit + row, e.lse = (const float *)a.lse + row;
        if (!map_of(&p.left, h(row), n, a.n_hidden, a.h_stride, IS_HALF, DOWN) ||
            !map_of(&p.right, w(word), m, a.n_hidden, a.w_stride, IS_HALF, ACROSS / 2) ||
            (s.x && !map_of(&e.to, s.x, n, m, round_up(m, 8), IS_HALF, 64)))
            return TS_E_DEVICE;
        return multiply_by<F>(&p, e, false, stream);
    }

    ts_status add_dh(int64_t row, int64_t n) const
    {
        gemm            p = {};
        gradient_params e = {};
        ts_status       st;
        p.n_down = n, p.n_across = a.n_hidden, p.n_terms = a.n_vocab;
        e.share = s.share, e.r = r, e.target = a.target + row, e.turn = s.turn;
        e.out = s.dh ? s.dh : (float *)a.dh + row * a.h_stride;
        e.stride = s.dh ? s.dh_stride : a.h_stride, e.adds = !s.dh && a.accumulate;
        if (!map_of(&p.left, s.x, n, a.n_vocab, round_up(a.n_vocab, 8), IS_HALF, DOWN) ||
            !map_of(&p.right, w(0), a.n_vocab, a.n_hidden, a.w_stride, IS_HALF, TERMS) ||
            cudaMemsetAsync(s.turn, 0, (size_t)s.n_turns * sizeof(int), stream) != cudaSuccess)
            return TS_E_DEVICE;
        if ((st = multiply_by<dh_of<T>>(&p, e, true, stream)) || !s.dh) return st;
        store_kernel<<<(unsigned)n, LINES, 0, stream>>>(
            s.dh, s.dh_stride, (T *)a.dh + row * a.h_stride, a.n_hidden, a.h_stride, a.accumulate);
        return TS_OK;
    }

    /* n rows' share of m words' dw. */
    ts_status add_dw(int64_t row, int64_t n, int64_t word, int64_t m, bool adds) const
    {
        gemm            p = {};
        gradient_params e = {};
        p.n_down = m, p.n_across = a.n_hidden, p.n_terms = n;
        e.share = s.share, e.out = (T *)a.dw + word * a.w_stride, e.stride = a.w_stride;
        e.adds = adds, e.counted = s.counted + row / TERMS;
        if (!map_of(&p.left, s.x, n, m, round_up(m, 8), IS_HALF, TERMS) ||
            !map_of(&p.right, h(row), n, a.n_hidden, a.h_stride, IS_HALF, TERMS))
            return TS_E_DEVICE;
        if (is_narrow(a)) return multiply_by<narrow_dw_of<T>>(&p, e, false, stream);
        const tensor_view to =
            view_of((float *)a.dw + word * a.w_stride, m, a.n_hidden, a.w_stride);
        if (!make_float_map(&e.to, to, 64)) return TS_E_DEVICE;
        return multiply_by<dw_of<T>>(&p, e, false, stream);
    }

    /* All that is done with a chunk of rows. */
    ts_status rows(int64_t row, int64_t n) const
    {
        const int     tiles = (int)ceil_div(a.n_vocab, ACROSS);
        const bool    goes_on = a.dh || (a.dw && !is_narrow(a)), keep = goes_on && keeps();
        const int64_t pieces = ceil_div(a.n_vocab, 8);
        const float  *hit = s.hit + row;
        float *const  lse = (float *)a.lse + row;
        ts_status     st = keep ? logits<sums_of_rows<T, true>>(row, n, 0, a.n_vocab)
                                : logits<sums_of_rows<T, false>>(row, n, 0, a.n_vocab);
        if (st) return st;
        losses_kernel<<<(unsigned)n, ROW_THREADS, 0, stream>>>(r, a.target + row, s.part, tiles,
                                                               hit, (float *)a.loss + row, lse);
        if (!goes_on) return TS_OK;
        if (keep)
            gradient_kernel<T><<<dim3(lines(pieces), (unsigned)n), LINES, 0, stream>>>(
                r, a.target + row, s.part, tiles, hit, lse, (uint4 *)s.x, pieces);
        else st = logits<gradient_of_logits<T>>(row, n, 0, a.n_vocab);
        if (!st && a.dh) st = add_dh(row, n);
        if (!st && a.dw && !is_narrow(a))
            st = add_dw(row, n, 0, a.n_vocab, row > 0 || a.accumulate);
        return st;
    }

    ts_status run(void) const
    {
        ts_status st = TS_OK;
        count_kernel<<<1, SUM_THREADS, 0, stream>>>(r, a.target, s.share);
        counted_kernel<<<lines(ceil_div(a.n_rows, TERMS)), LINES, 0, stream>>>(r, a.target,
                                                                               s.counted);
        for (int64_t row = 0; row < a.n_rows && !st; row += s.rows)
            st = rows(row, lesser(s.rows, a.n_rows - row));
        total_kernel<<<1, SUM_THREADS, 0, stream>>>(r, (const float *)a.loss, s.share,
                                                    (float *)a.total);
        for (int64_t word = 0; a.dw && is_narrow(a) && word < a.n_vocab && !st; word += s.words) {
            const int64_t m = lesser(s.words, a.n_vocab - word);
            st = logits<gradient_of_logits<T>>(0, a.n_rows, word, m);
            if (!st) st = add_dw(0, a.n_rows, word, m, a.accumulate);
        }
        return st ? st : cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
    }
};

bool aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

} // namespace

bool ts_cross_entropy_wide_bytes(const ts_cross_entropy_args *a, size_t *n_bytes)
{
    space s = {};
    if (a->dtype == TS_F32 || !wgmma_device() || a->n_rows == 0) return false;
    if (!aligned(a->h) || !aligned(a->w) || !aligned(a->dh) || !aligned(a->dw)) return false;
    if (a->h_stride % 8 || a->w_stride % 8 || a->n_hidden > MOST_HIDDEN) return false;
    if (a->n_rows > INT32_MAX / 2 || a->n_vocab > INT32_MAX / 2 || !divide(*a, &s)) return false;
    *n_bytes = lay_out(*a, nullptr, &s);
    return true;
}

ts_status ts_cross_entropy_wide(const ts_cross_entropy_args *a, const ts_exec *x)
{
    const rule r = { (float)a->softcap, (float)a->smoothing, (float)a->z_loss, a->mean,
                     a->ignore_index,   a->n_rows,           a->n_vocab,       a->scale };
    space      s = {};
    divide(*a, &s);
    lay_out(*a, ts_scratch(x), &s);
    if (a->dtype == TS_F16) return call<__half> { *a, r, s, (cudaStream_t)x->stream }.run();
    return call<__nv_bfloat16> { *a, r, s, (cudaStream_t)x->stream }.run();
}
