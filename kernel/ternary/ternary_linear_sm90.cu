/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear_sm90.cu - selects the kernel of a forward matmul on the device, from codes or from
 * latents. No bit of the result depends on the selection. */
#include <math.h>

#include "ternary_few_sm90.cuh"
#include "ternary_many_sm90.cuh"

namespace
{

/* Codes are read once again for each FEW rows. More than these had better share what is decoded. */
enum { FEW_ROWS = 16 };

template <class T> bool is_few(const product_params &p)
{
    const int rows = few_of<T>(p).rows;
    if (sizeof(T) == 2 && wgmma_device()) return p.n_rows <= rows; /* else codes are read again */
    return p.n_rows <= FEW_ROWS && rows > 0;
}

template <class T> size_t workspace_for(const product_params &p)
{
    return is_few<T>(p) ? 0 : arranged_bytes<T>(p.n_rows, p.n_groups);
}

template <class T> ts_status run_product(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    const product_params p = params_of(a);
    cudaStream_t         stream = (cudaStream_t)x->stream;
    if (is_few<T>(p)) {
        const few_params f = few_of<T>(p);
        return aligned_to(p.code, 16) ? run_few<T, true>(f, stream) : run_few<T, false>(f, stream);
    }
    const ts_status s = ts_ternary_wide_sm90a(a, x);
    if (s != TS_E_UNSUPPORTED) return s;
    return run_arranged<T, many_layout>(aligned_to(p.code, 8) ? many_kernel<T, true>
                                                              : many_kernel<T, false>,
                                        p, x->workspace, stream);
}

/* Groups are counted in 32 bits. */
bool too_large(const ts_ternary_linear_dims *d)
{
    return d->n_out > INT32_MAX / (groups_of(d->n_in) + 1) - OUTPUTS * WARPS;
}

size_t forward_bytes(const ts_ternary_linear_packed_args *a)
{
    const ts_ternary_linear_dims *d = &a->d;
    if (d->n_out == 0 || d->n_rows == 0 || d->n_in == 0 || too_large(d)) return 0;
    const product_params p = params_of(a);
    return d->dtype == TS_F32    ? workspace_for<float>(p)
           : d->dtype == TS_BF16 ? workspace_for<__nv_bfloat16>(p)
                                 : workspace_for<__half>(p);
}

ts_status run_forward(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    const ts_ternary_linear_dims *d = &a->d;
    if (d->n_out == 0 || d->n_rows == 0) return TS_OK;
    if (too_large(d)) return TS_E_UNSUPPORTED;
    if (d->n_in == 0) {
        const size_t each = d->dtype == TS_F32 ? 4 : 2;
        return cudaMemsetAsync(a->y, 0, (size_t)(d->n_rows * d->n_out) * each,
                               (cudaStream_t)x->stream) == cudaSuccess
                   ? TS_OK
                   : TS_E_DEVICE;
    }
    if (d->dtype == TS_F32) return run_product<float>(a, x);
    if (d->dtype == TS_BF16) return run_product<__nv_bfloat16>(a, x);
    return run_product<__half>(a, x);
}

} // namespace

extern "C" TS_API ts_status ts_ternary_linear_packed_sm90_workspace(const void    *args,
                                                                    const ts_exec *x,
                                                                    size_t        *n_bytes)
{
    (void)x;
    *n_bytes = forward_bytes((const ts_ternary_linear_packed_args *)args);
    return TS_OK;
}

extern "C" TS_API ts_status ts_ternary_linear_packed_sm90(const void *args, const ts_exec *x)
{
    return run_forward((const ts_ternary_linear_packed_args *)args, x);
}

extern "C" TS_API ts_status ts_ternary_linear_sm90_workspace(const void *args, const ts_exec *x,
                                                             size_t *n_bytes)
{
    const ts_ternary_linear_args       *a = (const ts_ternary_linear_args *)args;
    const ts_ternary_linear_packed_args packed = { a->d, NULL, NULL, a->in, a->y };
    (void)x;
    *n_bytes = packed_room::n_bytes(&a->d) + forward_bytes(&packed);
    return TS_OK;
}

extern "C" TS_API ts_status ts_ternary_linear_sm90(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_args       *a = (const ts_ternary_linear_args *)args;
    const packed_room                   room(&a->d, x->workspace);
    const ts_ternary_pack_args          pack = { a->d, a->w, room.code, room.scale };
    const ts_ternary_linear_packed_args packed = { a->d, room.code, room.scale, a->in, a->y };
    const ts_status                     s = ts_ternary_pack_sm90(&pack, x);
    ts_exec                             rest = *x;
    rest.workspace = room.rest;
    return s ? s : run_forward(&packed, &rest);
}
