/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_cuda.c - chooses tokens from logits that stay on a CUDA device.
 *
 * All rows are processed at once: a walk that requested one after the other would wait for the
 * device each time. With a temperature, the chunk of the row that contains u is copied to the host.
 * */
#include "cuda_module.h"
#include "row_sums.h"
#include "touchstone/softmax_topk.h"
#include "tree_verify_impl.h"

static ts_status look(const ts_tree_chooser *c)
{
    const ts_softmax_topk_args largest = {
        .dtype = TS_F32,
        .n_rows = c->n_rows,
        .n_vocab = c->n_vocab,
        .row_stride = c->n_vocab,
        .k = 1,
        .inv_temperature = 1,
        .logits = c->logits,
        .index = c->device.first,
        .prob = c->device.prob,
    };
    ts_status s = ts_softmax_topk(&largest, &c->inner);
    if (!s && c->temperature > 0) {
        const ts_row_sums_args sums = {
            .n_rows = c->n_rows,
            .n_vocab = c->n_vocab,
            .piece = TS_TREE_PIECE,
            .k = 1,
            .t = ts_tree_scale(c),
            .also = -1,
            .logits = c->logits,
            .index = c->device.first,
            .sum = c->device.sum,
            .total = c->sum,
            .value = c->device.value,
        };
        s = ts_row_sums(&sums, &c->inner);
    }
    if (s) return s;
    return ts_cuda_ops()->fetch(c->found.first, c->device.first, c->n_found, c->inner.stream)
               ? TS_E_DEVICE
               : TS_OK;
}

static ts_status choose(const ts_tree_chooser *c, int64_t row, double u, int32_t *token)
{
    if (c->found.first[row] < 0 || c->found.prob[row] == 0) return TS_E_MODEL;
    *token = c->found.first[row];
    if (c->temperature == 0) return TS_OK;
    const ts_tree_draw d =
        ts_tree_draw_of(c->found.sum + row * ts_tree_pieces(c->n_vocab), c->n_vocab, u);
    if (ts_cuda_ops()->fetch(c->piece, c->logits + row * c->n_vocab + d.begin,
                             (size_t)d.n * sizeof *c->piece, c->inner.stream))
        return TS_E_DEVICE;
    *token = ts_tree_find(&d, c->piece, c->found.value[2 * row], ts_tree_scale(c));
    return TS_OK;
}

ts_status ts_tree_verify_cuda(const void *args, const ts_exec *x)
{
    static const ts_tree_steps steps = { look, choose };
    return ts_tree_run(args, x, &steps);
}
