/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_cuda.cu - cross-entropy from hidden states, in tiles of rows by words whose logits
 * are in the workspace.
 *
 * Two passes. The first computes every row's sums, tile by tile with a running maximum. The second
 * computes each tile's logits again, turns them into gradients in the storage dtype, and multiplies
 * these by w and by h. dh and dw are summed in float: in the outputs if those are float, else in
 * the workspace, dh whole and dw one tile of words at a time. Each sum has one block and one order,
 * so results are bitwise identical from run to run.
 *
 * With `chunk` 0 a tile is 4096 rows by 2048 words: 32 MiB of logits and 16 MiB of gradients. */
#include "cross_entropy_product.cuh"

#include "cross_entropy_wide.h"
#include "scratch.h"

namespace
{

enum { CHUNK_ROWS = 4096, CHUNK_WORDS = 2048, LINES = 256 };

/* Where things are in the workspace. */
struct space {
    int64_t   rows, words; /* of a tile */
    shares   *share;
    row_sums *of;      /* [n_rows] */
    float    *hit;     /* [n_rows]: the target's z */
    float    *x;       /* [rows][words] */
    void     *dx;      /* [rows][words], in the storage dtype */
    float    *dh, *dw; /* [n_rows][n_hidden], [words][n_hidden]; NULL: the outputs are float */
};

int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

size_t lay_out(const ts_cross_entropy_args &a, char *base, space *s)
{
    const int64_t most = a.chunk ? a.chunk : (int64_t)CHUNK_ROWS * CHUNK_WORDS;
    const bool    narrow = a.grad_dtype != TS_F32;
    const size_t  each = a.dtype == TS_F32 ? 4 : 2;
    size_t        used = 0;
    s->rows = lesser(lesser(CHUNK_ROWS, a.n_rows > 1 ? a.n_rows : 1), most);
    s->words = lesser(lesser(CHUNK_WORDS, a.n_vocab), most / s->rows);
    s->share = (shares *)ts_cut(base, &used, 1, sizeof(shares));
    s->of = (row_sums *)ts_cut(base, &used, a.n_rows, sizeof(row_sums));
    s->hit = (float *)ts_cut(base, &used, a.n_rows, sizeof(float));
    s->x = (float *)ts_cut(base, &used, s->rows * s->words, sizeof(float));
    s->dx = ts_cut(base, &used, s->rows * s->words, each);
    s->dh = (float *)ts_cut(base, &used, narrow && a.dh ? a.n_rows * a.n_hidden : 0, sizeof(float));
    s->dw = (float *)ts_cut(base, &used, narrow && a.dw ? s->words * a.n_hidden : 0, sizeof(float));
    if (!narrow || !a.dh) s->dh = nullptr;
    if (!narrow || !a.dw) s->dw = nullptr;
    return used + TS_LINE;
}

/* A tile: n rows from `row` on, m words from `word` on. */
struct tile {
    int64_t row, n, word, m;
};

/* ---- logits, and the sums of rows ---- */

template <class T>
__global__ void __launch_bounds__(PRODUCT_THREADS)
    logits_kernel(rule r, operand<T> h, operand<T> w, const T *bias, float *x)
{
    product(r, h, w, [=](int64_t i, int64_t v, float sum, bool first) {
        float *const at = x + i * w.n_rows + v;
        *at = !first ? *at + sum : bias ? sum + to_float(bias[v]) : sum;
    });
}

__global__ void clear_kernel(rule r, row_sums *of)
{
    const int64_t i = (int64_t)blockIdx.x * LINES + threadIdx.x;
    if (i < r.n_rows) of[i] = row_sums { -INFINITY, 0, 0 };
}

/* A block per row of the tile. */
__global__ void __launch_bounds__(ROW_THREADS)
    sums_kernel(rule r, tile t, const float *x, const int32_t *target, row_sums *of, float *hit)
{
    const int64_t i = t.row + blockIdx.x, word = target[i] - t.word;
    const float  *line = x + blockIdx.x * t.m;
    if (!is_counted(r, target[i])) return;
    const row_sums now = sums_of(r, t.m, [=](int64_t v) { return line[v]; });
    if (threadIdx.x != 0) return;
    row_sums all = of[i];
    all.z_sum += now.z_sum;
    if (!(now.max == -INFINITY && now.sum == 0)) { /* not words of -inf alone */
        const float max = larger_of()(now.max, all.max);
        all.sum =
            (all.sum > 0 ? all.sum * expf(all.max - max) : all.sum) + now.sum * expf(now.max - max);
        all.max = max;
    }
    of[i] = all;
    if (word >= 0 && word < t.m) hit[i] = capped(r, line[word]);
}

__global__ void losses_kernel(rule r, const int32_t *target, const row_sums *of, const float *hit,
                              float *loss, float *lse)
{
    const int64_t i = (int64_t)blockIdx.x * LINES + threadIdx.x;
    if (i >= r.n_rows) return;
    const bool counted = is_counted(r, target[i]);
    lse[i] = counted ? lse_of(of[i]) : 0;
    loss[i] = counted ? loss_of(r, of[i], lse[i], hit[i]) : target[i] == r.ignored ? 0 : nanf("");
}

/* ---- gradients ---- */

/* A block per row of the tile. */
template <class T>
__global__ void __launch_bounds__(ROW_THREADS)
    gradient_kernel(rule r, tile t, const float *x, const int32_t *target, const float *lse, T *dx)
{
    const int64_t i = t.row + blockIdx.x, at = blockIdx.x * t.m;
    const bool    counted = is_counted(r, target[i]);
    const float   l = lse[i];
    for (int64_t v = threadIdx.x; v < t.m; v += ROW_THREADS)
        from_float(dx + at + v,
                   counted ? gradient(r, x[at + v], l, t.word + v == target[i]) : 0.0f);
}

/* to += g a b, or = */
template <class T>
__global__ void __launch_bounds__(PRODUCT_THREADS)
    add_kernel(rule r, operand<T> a, operand<T> b, const shares *s, float *to, int64_t stride,
               bool adds)
{
    const float g = s->g;
    product(r, a, b, [=](int64_t i, int64_t k, float sum, bool first) {
        float *const at = to + i * stride + k;
        *at = adds || !first ? *at + g * sum : g * sum;
    });
}

/* Rows of float sums to rows of an output: rounded once. from NULL: zeros. A block per row. */
template <class T>
__global__ void store_kernel(const float *from, T *to, int64_t n, int64_t stride, bool adds)
{
    T *const row = to + (int64_t)blockIdx.x * stride;
    for (int64_t k = threadIdx.x; k < n; k += LINES) {
        const float v = from ? from[(int64_t)blockIdx.x * n + k] : 0;
        from_float(row + k, adds ? to_float(row[k]) + v : v);
    }
}

/* ---- launches ---- */

template <class T> struct call {
    const ts_cross_entropy_args &a;
    rule                         r;
    space                        s;
    cudaStream_t                 stream;

    const T *h(int64_t row) const
    {
        return (const T *)a.h + row * a.h_stride;
    }
    const T *w(int64_t word) const
    {
        return (const T *)a.w + word * a.w_stride;
    }
    static dim3 grid(int64_t rows, int64_t columns)
    {
        return dim3((unsigned)((rows + TILE - 1) / TILE), (unsigned)((columns + TILE - 1) / TILE));
    }
    static unsigned lines(int64_t n)
    {
        return (unsigned)((n + LINES - 1) / LINES);
    }

    void logits(const tile &t) const
    {
        const operand<T> left = { h(t.row), a.h_stride, t.n, a.n_hidden, false, nullptr };
        const operand<T> right = { w(t.word), a.w_stride, t.m, a.n_hidden, false, nullptr };
        logits_kernel<T><<<grid(t.n, t.m), PRODUCT_THREADS, 0, stream>>>(
            r, left, right, a.bias ? (const T *)a.bias + t.word : nullptr, s.x);
    }

    tile at(int64_t row, int64_t word) const
    {
        return tile { row, lesser(s.rows, a.n_rows - row), word,
                      lesser(s.words, a.n_vocab - word) };
    }

    void forward(void) const
    {
        count_kernel<<<1, SUM_THREADS, 0, stream>>>(r, a.target, s.share);
        if (a.n_rows) clear_kernel<<<lines(a.n_rows), LINES, 0, stream>>>(r, s.of);
        for (int64_t row = 0; row < a.n_rows; row += s.rows)
            for (int64_t word = 0; word < a.n_vocab; word += s.words) {
                const tile t = at(row, word);
                logits(t);
                sums_kernel<<<(unsigned)t.n, ROW_THREADS, 0, stream>>>(r, t, s.x, a.target, s.of,
                                                                       s.hit);
            }
        if (a.n_rows)
            losses_kernel<<<lines(a.n_rows), LINES, 0, stream>>>(r, a.target, s.of, s.hit,
                                                                 (float *)a.loss, (float *)a.lse);
        total_kernel<<<1, SUM_THREADS, 0, stream>>>(r, (const float *)a.loss, s.share,
                                                    (float *)a.total);
    }

    /* The tile's share of dh and dw. */
    void add(const tile &t) const
    {
        T *const dx = (T *)s.dx;
        logits(t);
        gradient_kernel<T><<<(unsigned)t.n, ROW_THREADS, 0, stream>>>(r, t, s.x, a.target,
                                                                      (const float *)a.lse, dx);
        if (a.dh) {
            const operand<T> left = { dx, t.m, t.n, t.m, false, nullptr };
            const operand<T> right = { w(t.word), a.w_stride, a.n_hidden, t.m, true, nullptr };
            const int64_t    stride = s.dh ? a.n_hidden : a.h_stride;
            float *const     to = (s.dh ? s.dh : (float *)a.dh) + t.row * stride;
            add_kernel<T><<<grid(t.n, a.n_hidden), PRODUCT_THREADS, 0, stream>>>(
                r, left, right, s.share, to, stride, t.word > 0 || (!s.dh && a.accumulate));
        }
        if (a.dw) {
            const operand<T> left = { dx, t.m, t.m, t.n, true, nullptr };
            const operand<T> right = {
                h(t.row), a.h_stride, a.n_hidden, t.n, true, a.target + t.row
            };
            const int64_t stride = s.dw ? a.n_hidden : a.w_stride;
            float *const  to = s.dw ? s.dw : (float *)a.dw + t.word * stride;
            add_kernel<T><<<grid(t.m, a.n_hidden), PRODUCT_THREADS, 0, stream>>>(
                r, left, right, s.share, to, stride, t.row > 0 || (!s.dw && a.accumulate));
        }
    }

    void store(const float *from, void *to, int64_t n, int64_t stride) const
    {
        if (!n) return;
        if (a.grad_dtype == TS_F32)
            store_kernel<<<(unsigned)n, LINES, 0, stream>>>(from, (float *)to, a.n_hidden, stride,
                                                            a.accumulate);
        else
            store_kernel<<<(unsigned)n, LINES, 0, stream>>>(from, (T *)to, a.n_hidden, stride,
                                                            a.accumulate);
    }

    void backward(void) const
    {
        const int64_t each = a.grad_dtype == TS_F32 ? 4 : 2;
        for (int64_t word = 0; word < a.n_vocab; word += s.words) {
            const int64_t m = lesser(s.words, a.n_vocab - word);
            void *const   dw = a.dw ? (char *)a.dw + word * a.w_stride * each : nullptr;
            for (int64_t row = 0; row < a.n_rows; row += s.rows) add(at(row, word));
            if (a.dw && (s.dw || !a.n_rows)) store(a.n_rows ? s.dw : nullptr, dw, m, a.w_stride);
        }
        if (s.dh) store(s.dh, a.dh, a.n_rows, a.h_stride);
    }
};

template <class T>
void run(const ts_cross_entropy_args &a, const rule &r, const space &s, cudaStream_t stream)
{
    const call<T> c = { a, r, s, stream };
    c.forward();
    if (a.dh || a.dw) c.backward();
}

} // namespace

extern "C" TS_API ts_status ts_cross_entropy_cuda_workspace(const void *args, const ts_exec *x,
                                                            size_t *n_bytes);
extern "C" TS_API ts_status ts_cross_entropy_cuda(const void *args, const ts_exec *x);

ts_status ts_cross_entropy_cuda_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_cross_entropy_args &a = *(const ts_cross_entropy_args *)args;
    space                        s;
    (void)x;
    if (!ts_cross_entropy_wide_bytes(&a, n_bytes)) *n_bytes = lay_out(a, nullptr, &s);
    return TS_OK;
}

ts_status ts_cross_entropy_cuda(const void *args, const ts_exec *x)
{
    const ts_cross_entropy_args &a = *(const ts_cross_entropy_args *)args;
    const cudaStream_t           stream = (cudaStream_t)x->stream;
    const rule r = { (float)a.softcap, (float)a.smoothing, (float)a.z_loss, a.mean,
                     a.ignore_index,   a.n_rows,           a.n_vocab,       a.scale };
    space      s;
    size_t     wide;
    if (ts_cross_entropy_wide_bytes(&a, &wide)) return ts_cross_entropy_wide(&a, x);
    if (a.n_rows > INT32_MAX || a.n_hidden > (int64_t)65535 * TILE) return TS_E_UNSUPPORTED;
    lay_out(a, ts_scratch(x), &s);
    if (a.dtype == TS_F32) run<float>(a, r, s, stream);
    else if (a.dtype == TS_BF16) run<__nv_bfloat16>(a, r, s, stream);
    else run<__half>(a, r, s, stream);
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}
