/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_wide_sm90a.cu - the product with many rows where the device has what it takes. */
#include <math.h>

#include "ternary_wide_sm90.cuh"

namespace
{

template <class T, int C>
ts_status run_wide(const product_params &p, void *workspace, cudaStream_t stream)
{
    return run_arranged<T, wide_layout<C>>(aligned_to(p.code, 8) ? wide_kernel<T, true, C>
                                                                 : wide_kernel<T, false, C>,
                                           p, workspace, stream);
}

/* Rows that are not there cost what others do. */
template <class T> ts_status run_fitting(const product_params &p, void *room, cudaStream_t stream)
{
    return p.n_rows <= 64 ? run_wide<T, 64>(p, room, stream) : run_wide<T, 128>(p, room, stream);
}

} // namespace

ts_status ts_ternary_wide_sm90a(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    const product_params p = params_of(a);
    cudaStream_t         stream = (cudaStream_t)x->stream;
    if (a->d.dtype == TS_F32 || !wgmma_device()) return TS_E_UNSUPPORTED;
    return a->d.dtype == TS_F16 ? run_fitting<__half>(p, x->workspace, stream)
                                : run_fitting<__nv_bfloat16>(p, x->workspace, stream);
}
