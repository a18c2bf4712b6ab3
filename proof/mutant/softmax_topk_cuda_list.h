/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_cuda_list.h - the CUDA mutants of softmax_topk. Per line: bug, name, the check that
 * must catch it, and the family whose cases must do so (NULL: normal).
 *
 * The mutant is called cuda_<name>, its function ts_mutant_softmax_topk_<name>.
 * softmax_topk_cuda.cu makes the enum of bugs and the functions from this list, softmax_topk.c the
 * table. */
#ifndef TS_SOFTMAX_TOPK_CUDA_LIST_H
#define TS_SOFTMAX_TOPK_CUDA_LIST_H

/* clang-format off */
#define CUDA_MUTANTS(M) \
    M(HONEST, control, NONE, NULL) \
    /* threads and rows */ \
    M(UNMERGED, lanes_never_merged, VALUE, "mod32") \
    M(ROWS_MIXED, rows_mixed_across_warps, VALUE, "disjoint") \
    M(LOCAL_K, local_k_too_small, VALUE, "mod256") \
    M(FIRST_WARP, first_warp_only, VALUE, NULL) \
    M(TIES_THREAD, ties_by_thread, VALUE, "sawtooth") \
    M(BY_PROB, selects_on_probabilities, VALUE, "underflow") \
    /* the sum */ \
    M(TIMES_32, denominator_scaled, VALUE, NULL) \
    M(WINNERS, sums_only_winners, VALUE, NULL) \
    M(RENORMALISED, renormalised, VALUE, "flat") \
    M(NO_MAX, no_max_subtraction, VALUE, "offset") \
    M(T_IGNORED, temperature_ignored, VALUE, "hot") \
    /* nonfinite, masked and short rows */ \
    M(NAN_SWALLOWED, nan_swallowed, VALUE, "nonfinite") \
    M(MASKED_NAN, all_masked_nan, VALUE, "all_masked") \
    M(INDEX_0, index_sentinel_0, VALUE, NULL) \
    /* shapes and addresses */ \
    M(TAIL_4, tail_dropped, VALUE, "back") \
    M(ALIGNED, misaligned_vector_load, VALUE, NULL) \
    M(INT32_OFFSET, int32_offset, VALUE, "far") \
    M(ROWS_65535, rows_past_65535, UNWRITTEN, NULL) \
    M(NO_LAST_ROW, last_row_unwritten, UNWRITTEN, NULL) \
    M(PAST_INDEX, writes_past_index, PAST, NULL)
/* clang-format on */

#endif
