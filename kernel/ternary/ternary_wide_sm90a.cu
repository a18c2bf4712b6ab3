/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_wide_sm90a.cu - the product of 16-bit inputs where the device has wgmma: the choice of
 * tiles, and the launch. */
#include <math.h>

#include "ternary_wide_sm90.cuh"

namespace
{

int multiprocessors(void)
{
    int device = 0, n = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    return n > 0 ? n : 1;
}

/* Clocks, roughly: the warpgroups take turns with products, 4 for each row, and with decoding. A
 * tile also has to be begun and ended. Not all multiprocessors can be in a cluster of four. */
double cost_of(const wide_params &a, int rows, int n_shares, int n_sm)
{
    const double group = fmax(8.0 * rows, 4.5 * rows + 400) + 60;
    const double groups = ceil((double)a.n_segments / n_shares) * SEGMENT;
    const double tiles = (double)ceil_div(a.n_out, n_shares == 2 ? WIDE_OUT / 2 : WIDE_OUT);
    const double items = tiles * (double)ceil_div(a.n_rows, rows) * (n_shares == 4 ? 4 : 1);
    return ceil(items / (n_shares == 4 ? n_sm * 7 / 8 / 4 * 4 : n_sm)) *
               (groups * group + 1000 + 8 * rows + (n_shares == 4 ? 2500 : 0)) +
           (n_shares == 4 ? 4000 : 0);
}

template <class T, int C>
ts_status launch_wide(wide_params &a, const product_params &p, int n_sm, cudaStream_t stream)
{
    auto *const           kernel = wide_kernel<T, C>;
    cudaLaunchAttribute   how[2] = {};
    cudaLaunchConfig_t    c = {};
    const arranged_params laid = { p, (uint4 *)(void *)a.units, (float *)a.lift };
    a.n_tiles = (int)ceil_div(a.n_out, a.n_shares == 2 ? WIDE_OUT / 2 : WIDE_OUT);
    a.n_row_tiles = (int)ceil_div(a.n_rows, C);
    a.n_peers = C >= 64 && a.n_shares == 1 && a.n_tiles > 1 ? 2 : 1;
    if (allow_shared(kernel, wide<C>::BYTES)) return TS_E_DEVICE;
    const int     size = (a.n_shares == 4 ? 4 : 1) * a.n_peers;
    const int64_t items = ceil_div(a.n_tiles, a.n_peers) * a.n_row_tiles;
    const int64_t most = a.n_shares == 4 ? items : n_sm / size;
    how[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    how[0].val.programmaticStreamSerializationAllowed = 1;
    how[1].id = cudaLaunchAttributeClusterDimension;
    how[1].val.clusterDim.x = (unsigned)size;
    how[1].val.clusterDim.y = how[1].val.clusterDim.z = 1;
    c.gridDim = dim3((unsigned)((items < most ? items : most) * size));
    c.blockDim = dim3(WIDE_THREADS), c.dynamicSmemBytes = wide<C>::BYTES;
    c.stream = stream, c.attrs = how, c.numAttrs = size > 1 ? 2 : 1;
    const ts_status s = launch(arrange_kernel<T, wide_layout>, dim3((unsigned)(a.n_row_tiles * C)),
                               THREADS, 0, stream, laid);
    if (s) return s;
    return cudaLaunchKernelEx(&c, kernel, a) == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

template <class T> ts_status run_wide(wide_params &a, const product_params &p, cudaStream_t stream)
{
    static const int rows[] = { 16, 32, 64, 96, 128 };
    const int        n_sm = multiprocessors();
    int              best = 0;
    double           least = INFINITY;
    for (int r : rows)
        for (int n = 1; n <= STRIPES; n *= 2) {
            if (n == 2 && r > 64) continue;
            const double cost = cost_of(a, r, n, n_sm);
            if (cost < least) least = cost, best = r, a.n_shares = n;
        }
    switch (best) {
    case 16:
        return launch_wide<T, 16>(a, p, n_sm, stream);
    case 32:
        return launch_wide<T, 32>(a, p, n_sm, stream);
    case 64:
        return launch_wide<T, 64>(a, p, n_sm, stream);
    case 96:
        return launch_wide<T, 96>(a, p, n_sm, stream);
    default:
        return launch_wide<T, 128>(a, p, n_sm, stream);
    }
}

} // namespace

ts_status ts_ternary_wide_sm90a(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    const ts_ternary_linear_dims *d = &a->d;
    cudaStream_t                  stream = (cudaStream_t)x->stream;
    product_params                p = params_of(a);
    wide_params                   w = {};
    if (d->dtype == TS_F32 || !wgmma_device()) return TS_E_UNSUPPORTED;
    w.code = a->code, w.scale = a->scale;
    w.n_out = d->n_out, w.n_groups = p.n_groups;
    w.n_segments = (int)ceil_div(w.n_groups, SEGMENT);
    w.whole_codes = aligned_to(a->code, 16);
    w.scale_unit = w.n_groups % 4 == 0 && aligned_to(a->scale, 8)   ? 8
                   : w.n_groups % 2 == 0 && aligned_to(a->scale, 4) ? 4
                                                                    : 2;
    if (CHUNK / WIDE_TILE * ceil_div(d->n_out, 64) > INT32_MAX / 4) return TS_E_UNSUPPORTED;
    char *const units = first_line(x->workspace);
    w.units = units;
    w.lift = (const float *)(const void *)(units + (chunk_of(d->n_rows) + TILE_ROWS) * p.n_groups *
                                                       UNITS * (int64_t)sizeof(uint4));
    for (int64_t first = 0; first < d->n_rows; first += CHUNK) {
        p.n_rows = w.n_rows = d->n_rows - first < CHUNK ? d->n_rows - first : (int64_t)CHUNK;
        p.in = (const uint16_t *)a->in + first * d->n_in;
        p.y = w.y = (uint16_t *)a->y + first * d->n_out;
        const ts_status s = d->dtype == TS_F16 ? run_wide<__half>(w, p, stream)
                                               : run_wide<__nv_bfloat16>(w, p, stream);
        if (s) return s;
    }
    return TS_OK;
}
