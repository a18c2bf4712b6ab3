/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_neon.c - embedding_simd.h over the vectors of row_neon.h. */
#include "embedding_impl.h"
#include "row_neon.h"

#include "embedding_simd.h"

ts_status ts_embedding_forward_neon(const void *args, const ts_exec *x)
{
    return ts_embedding_forward_threads(args, x, copy_any);
}

ts_status ts_embedding_backward_neon(const void *args, const ts_exec *x)
{
    return ts_embedding_backward_threads(args, x, sum_any);
}
