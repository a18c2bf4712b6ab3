/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_impl.h - the implementations, and what the threaded CPU ones share. Private. */
#ifndef TS_SOFTMAX_TOPK_IMPL_H
#define TS_SOFTMAX_TOPK_IMPL_H

#include "topk.h"
#include "whole.h"

extern const ts_impl ts_softmax_topk_impls[];

/* Validates the arguments; every API function of this kernel calls it first. */
ts_status ts_softmax_topk_check(const ts_softmax_topk_args *a, const ts_exec *x);

TS_DECLARE_IMPLS(ts_softmax_topk)

/* Two naive methods to compare with: functions of their own, not in the dispatch table. */
ts_status ts_softmax_topk_textbook(const void *args, const ts_exec *x);
ts_status ts_softmax_topk_textbook_workspace(const void *args, const ts_exec *x, size_t *n_bytes);
ts_status ts_softmax_topk_three_pass(const void *args, const ts_exec *x);
ts_status ts_softmax_topk_three_pass_workspace(const void *args, const ts_exec *x, size_t *n_bytes);

/* Larger k are served without lists of candidates. Rows are cut only for k up to the second. */
enum { TS_SOFTMAX_TOPK_FAST = 8192, TS_SOFTMAX_TOPK_CUT = 1024 };

/* The partial result of a part of a row after its logits have been read. It is followed in memory
 * by `room` floats and `room` int32_t, of which n are used: its candidates, by ascending index. */
typedef struct ts_softmax_topk_part {
    double  sum;
    float   max;
    int32_t n, room;
} ts_softmax_topk_part;

/* Few long rows are cut into parts. How, depends on the shape alone, and parts are put together in
 * their order, so that no bit of the result depends on the number of threads. */
typedef struct ts_softmax_topk_steps {
    int weighs; /* whether there are sums, or candidates only; of logits in TS_F32 */
    void (*rows)(const ts_softmax_topk_args *a, int64_t row_begin, int64_t row_end, int weighs);
    void (*part)(const ts_softmax_topk_args *a, int64_t row, int64_t begin, int64_t end, int weighs,
                 ts_softmax_topk_part *part);
    void (*merge)(const ts_softmax_topk_args *a, int64_t row, const ts_softmax_topk_part *first,
                  int64_t n_parts, size_t part_bytes);
} ts_softmax_topk_steps;

ts_status ts_softmax_topk_threads(const ts_softmax_topk_args *a, const ts_exec *x,
                                  const ts_softmax_topk_steps *steps);
ts_status ts_softmax_topk_threads_workspace(const void *args, const ts_exec *x, size_t *n_bytes);

#endif
