/* SPDX-License-Identifier: Apache-2.0 */
/* row_sums.c - dispatch of row_sums.h. */
#include "row_sums.h"

#include "impl.h"

static const ts_impl impls[] = {
    { "cuda", TS_CUDA, 0, TS_HAS_F32, NULL, NULL, "ts_row_sums_cuda" },
    { 0 },
};

ts_status ts_row_sums(const ts_row_sums_args *a, const ts_exec *x)
{
    return ts_impl_run(impls, TS_F32, a, x, NULL);
}
