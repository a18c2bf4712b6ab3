/* SPDX-License-Identifier: Apache-2.0 */
/* attention_sm90.cuh - what attention has of sm_90a: base/sm90.cuh, and maps of its tensors. */
#ifndef TS_ATTENTION_SM90_CUH
#define TS_ATTENTION_SM90_CUH

#include "attention_rows.cuh"
#include "sm90.cuh"

/* Of q, k and their like: n rows of each of n_head heads. */
static inline bool map_rows(CUtensorMap *map, const void *data, const ts_attention_dims &d,
                            int64_t n_head, int64_t n, int rows)
{
    const strides     by(d, n_head, n);
    const tensor_view t = { data, d.n_batch, n_head, n, d.head_dim, by.batch, by.head, by.row };
    return make_map(map, t, d.dtype == TS_F16, rows);
}

#endif
