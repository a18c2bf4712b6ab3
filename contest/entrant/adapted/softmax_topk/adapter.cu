// SPDX-License-Identifier: Apache-2.0
// adapter.cu - maps the challenge's function to fast_topk.cu, which is unchanged; rejects what that
// does not support: other dtypes, other k, and rows shorter than k.
#include <math.h>

#include "fast_topk.cu"
#include "touchstone/softmax_topk.h"

template <int K> static ts_status run(const ts_softmax_topk_args *a, const ts_exec *x)
{
    if (!a->n_rows) return TS_OK;
    return fasttopk::launch_topk<K>((const float *)a->logits, (int)a->n_rows, (int)a->n_vocab,
                                    a->row_stride, (float)a->inv_temperature, a->index, a->prob,
                                    a->lse, (cudaStream_t)x->stream)
               ? TS_E_DEVICE
               : TS_OK;
}

static ts_status refuse(const ts_softmax_topk_args *a, const ts_exec *x)
{
    if (!a || !x || x->device != TS_CUDA) return TS_E_ARG;
    if (a->dtype != TS_F32) return TS_E_DTYPE;
    if (a->n_rows < 0 || a->n_vocab < 0 || a->n_vocab >= INT64_C(1) << 31 ||
        a->row_stride < a->n_vocab || a->k < 0 || a->k >= INT64_C(1) << 31)
        return TS_E_SHAPE;
    const float t = (float)a->inv_temperature;
    if (!(isnormal(t) && t > 0)) return TS_E_ARG;
    if (a->n_rows && ((a->n_vocab && !a->logits) || (a->k && (!a->index || !a->prob))))
        return TS_E_ARG;
    return a->k > a->n_vocab || a->n_rows >= INT64_C(1) << 31 ? TS_E_UNSUPPORTED : TS_OK;
}

TS_API ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    if (s) return s;
    switch (a->k) {
    case 8:
        return run<8>(a, x);
    case 16:
        return run<16>(a, x);
    case 32:
        return run<32>(a, x);
    case 64:
        return run<64>(a, x);
    default:
        return TS_E_UNSUPPORTED;
    }
}
