/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how a verification with another interface enters. Unused until entry.json
 * names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines ts_tree_verify. Say that theirs.c has a greedy walk
 * over logits that are there already,
 *
 *     int walk(const float *logits, int n_vocab, const int *tokens, const int *parents, int n,
 *              int *path, int *last);
 *
 * which gives the length of the path and the token behind it. Then the adapter makes the pass. */
#if 0
#include "touchstone/tree_verify.h"

int walk(const float *logits, int n_vocab, const int *tokens, const int *parents, int n, int *path,
         int *last);

/* Fills mask, positions and rows, and calls a->model->forward. */
const float *make_pass(const ts_tree_verify_args *a, const ts_exec *x);

ts_status ts_tree_verify(const ts_tree_verify_args *a, const ts_exec *x)
{
    int last;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (a->d.temperature != 0 || a->d.max_new <= a->d.n_node) return TS_E_UNSUPPORTED;
    const float *logits = make_pass(a, x);
    *a->n_path = walk(logits, (int)a->model->n_vocab, a->token, a->parent, (int)a->d.n_node,
                      a->path, &last);
    for (int64_t i = 0; i < *a->n_path; i++) a->out[i] = a->token[a->path[i]];
    a->out[*a->n_path] = last;
    *a->n_out = *a->n_path + 1;
    return TS_OK; /* once status, and what lies behind the ends, is there, too */
}
#endif
