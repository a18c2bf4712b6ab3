/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_cuda.c - the steps of beam_search_merge.c with logits that stay on a CUDA device: of
 * each row its candidates, their logits and one sum come from there, in one copy. */
#include "beam_search_impl.h"
#include "cuda_module.h"
#include "row_sums.h"

static ts_status reduce(ts_beam_state *s, const ts_exec *x)
{
    const ts_softmax_topk_args best = ts_beam_topk_args(s, 0, s->n_rows);
    const ts_row_sums_args     sums = {
            .n_rows = s->n_rows,
            .n_vocab = s->a->model->n_vocab,
            .piece = TS_BEAM_PIECE,
            .k = s->n_best,
            .t = 1,
            .also = s->a->d.eos,
            .logits = s->logits,
            .index = s->device.best,
            .sum = s->sum,
            .total = s->device.total,
            .value = s->device.value,
    };
    ts_status status = ts_softmax_topk(&best, &s->inner);
    if (!status) status = ts_row_sums(&sums, &s->inner);
    if (status) return status;
    if (ts_cuda_ops()->fetch(s->found.total, s->device.total, s->n_found, x->stream))
        return TS_E_DEVICE;
    return ts_beam_take_rows(s);
}

ts_status ts_beam_search_cuda(const void *args, const ts_exec *x)
{
    static const ts_beam_steps steps = { reduce, ts_beam_choose_slots, ts_beam_finish_slots };
    return ts_beam_run(args, x, 0, &steps);
}

ts_status ts_beam_search_archive_cuda(const void *args, const ts_exec *x)
{
    static const ts_beam_steps steps = { reduce, ts_beam_choose_archive, ts_beam_finish_archive };
    return ts_beam_run(args, x, 1, &steps);
}
