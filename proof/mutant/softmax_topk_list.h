/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_list.h - the mutants of softmax_topk. Per line: bug, name, the check that must catch
 * it, the family whose cases must do so (NULL: normal), and the workspace query.
 *
 *   bug                                      mutants
 *   rows pooled across warps                 rows_pooled, first_row_for_all_eight, last_rows_of_...
 *   lanes never merged                       lanes_never_merged
 *   buffer shorter than k                    lanes_*_keep_*, chunks_*_keep_*, *_keeps_k_less_1
 *   denominator counted once per lane        sum_once_per_lane, sum_of_first_*, sum_without_tail
 *   heap sift loses a value                  heap_one_child, heap_loses_a_value
 *   selecting on probabilities               ranked_*, subnormals_rank_as_zero
 *   finite sentinel for -inf; index 0        sentinel_*, max_from_*, places_past_vocab_*
 *   -inf minus -inf                          first_chunk_masked_poisons, all_masked_*
 *   NaN swallowed by max; NaN and inf rows    nan_*, inf_ordinary, nonfinite_row_*
 *   tie by arrival; -0 below +0              ties_*; minus_zero_below_zero
 *   renormalised over k; no max subtraction  renormalised, greedy_..., sum_of_winners; no_max_...
 *   template K is not the requested k        k_rounded_up_*, k_fixed_at_*, refuses_k_*
 *   uninitialised partials                   uninitialised_partials, empty_lanes_counted
 *   index and probability unpaired           index_sorted_apart, index_*, winners_unsorted
 *   blind tolerance at p = 1/V               sum_stagnates, low_precision
 *   online softmax; temperature; lse         online_*; temperature_*, scaled_...; lse_*
 *   unwritten output                         *_unwritten, tail_of_*, rows_past_65535
 *   out of bounds                            writes_*, reads_*, k_0_writes
 *   32-bit offset; assumed alignment         int32_offset, index_16_bits; assumed_alignment
 *   barrier not reached; race                hang; order_drifts, split_by_threads
 *   remembered data                          remembers, uninitialised_partials
 *   invalid calls                            accepts_*, refuses_*, writes_then_refuses
 *
 * Private to softmax_topk.c, which makes the enum of bugs, the functions and the table from this
 * list. */
#ifndef TS_SOFTMAX_TOPK_LIST_H
#define TS_SOFTMAX_TOPK_LIST_H

/* clang-format off */
#define WITHOUT_WORKSPACE(M) \
    M(HONEST, "control", NONE, NULL, NULL) \
    /* rows and lanes */ \
    M(POOL_MAX, "rows_pooled", VALUE, "disjoint", NULL) \
    M(POOL_FIRST, "first_row_for_all_eight", VALUE, "disjoint", NULL) \
    M(ROWS_BY_8, "last_rows_of_eight_unwritten", UNWRITTEN, "disjoint", NULL) \
    M(UNMERGED, "lanes_never_merged", VALUE, "mod32", NULL) \
    M(SHORT_32_4, "lanes_32_keep_4", VALUE, "mod32", NULL) \
    M(SHORT_64_4, "lanes_64_keep_4", VALUE, "mod64", NULL) \
    M(SHORT_256_2, "lanes_256_keep_2", VALUE, "mod256", NULL) \
    M(SHORT_256_8, "lanes_256_keep_8", VALUE, "mod256", NULL) \
    M(SHORT_1024_2, "lanes_1024_keep_2", VALUE, "mod1024", NULL) \
    M(SHORT_1024_8, "lanes_1024_keep_8", VALUE, "mod1024", NULL) \
    M(EIGHTS_4, "lanes_of_eights_keep_4", VALUE, "mod1024x8", NULL) \
    M(CHUNK_32_4, "chunks_32_keep_4", VALUE, "chunk", NULL) \
    M(CHUNK_256_8, "chunks_256_keep_8", VALUE, "chunk", NULL) \
    M(CHUNK_1024_8, "chunks_1024_keep_8", VALUE, "chunk", NULL) \
    M(LANE_K_1, "lane_keeps_k_less_1", VALUE, "mod32", NULL) \
    M(BLOCK_K_1, "block_lane_keeps_k_less_1", VALUE, "mod256", NULL) \
    M(CHUNK_K_1, "chunk_keeps_k_less_1", VALUE, "chunk", NULL) \
    /* selection */ \
    M(ONE_CHILD, "heap_one_child", VALUE, "ramp", NULL) \
    M(LOSES_VALUE, "heap_loses_a_value", VALUE, "ramp", NULL) \
    M(UNHEAPED, "heap_never_built", VALUE, "descending", NULL) \
    M(UNSORTED, "winners_unsorted", VALUE, NULL, NULL) \
    M(SMALLEST, "k_smallest", VALUE, NULL, NULL) \
    M(BY_PROB, "ranked_by_probability", VALUE, "underflow", NULL) \
    M(BY_PROB_BF16, "ranked_by_bf16_probability", VALUE, NULL, NULL) \
    M(BY_BF16, "ranked_in_bf16", VALUE, NULL, NULL) \
    M(BY_SCALED, "ranked_after_scaling", VALUE, "floor", NULL) \
    M(FLUSHED, "subnormals_rank_as_zero", VALUE, "subnormal", NULL) \
    M(MINUS_ZERO, "minus_zero_below_zero", VALUE, "zeros", NULL) \
    M(TIES_LAST, "ties_last_first", VALUE, "equal", NULL) \
    M(TIES_LANE, "ties_by_lane", VALUE, "equal", NULL) \
    M(TIES_THREAD, "ties_by_thread", VALUE, "sawtooth", NULL) \
    M(TIES_SPLIT, "ties_across_halves", VALUE, "ties", NULL) \
    M(TIES_AT_K, "ties_at_kth_place", VALUE, "ties", NULL) \
    M(TIES_ALL, "ties_last_first_where_all_win", VALUE, "ties", NULL) \
    M(INDEX_16_BITS, "index_16_bits", VALUE, "ramp", NULL) \
    M(INDEX_LOCAL, "index_within_chunk", VALUE, "back", NULL) \
    M(UNPAIRED, "index_sorted_apart", VALUE, NULL, NULL) \
    /* sentinels */ \
    M(NONE_1E30, "sentinel_minus_1e30", VALUE, "floor", NULL) \
    M(NONE_1E30_MASKED, "sentinel_hides_masked", VALUE, "masked", NULL) \
    M(NONE_LOWEST, "sentinel_lowest", VALUE, "masked", NULL) \
    M(NONE_LOWEST_FLOOR, "sentinel_hides_lowest", VALUE, "floor", NULL) \
    M(INDEX_0, "sentinel_index_0", VALUE, "masked", NULL) \
    M(MAX_1E30, "max_from_minus_1e30", VALUE, "floor", NULL) \
    M(MAX_LOWEST, "max_from_lowest", VALUE, "all_masked", NULL) \
    M(MAX_ZERO, "max_from_zero", VALUE, "offset", NULL) \
    M(PAST_UNWRITTEN, "places_past_vocab_unwritten", UNWRITTEN, NULL, NULL) \
    M(PAST_INDEX_0, "places_past_vocab_index_0", VALUE, NULL, NULL) \
    M(PAST_REPEATS, "places_past_vocab_repeat", VALUE, NULL, NULL) \
    /* the sum */ \
    M(ONLINE_NAN, "first_chunk_masked_poisons", VALUE, "half_masked", NULL) \
    M(NO_RESCALE, "online_not_rescaled", VALUE, "ramp", NULL) \
    M(INVERTED, "online_rescale_inverted", VALUE, "ramp", NULL) \
    M(TILE_MAX, "tile_max_for_running_max", VALUE, "holes", NULL) \
    M(DROPS_12, "logits_12_below_the_largest_dropped", VALUE, "tail", NULL) \
    M(NO_MAX, "no_max_subtraction", VALUE, "offset", NULL) \
    M(TIMES_32, "sum_once_per_lane", VALUE, NULL, NULL) \
    M(FIRST_32, "sum_of_first_warp", VALUE, NULL, NULL) \
    M(FIRST_1024, "sum_of_first_1024", VALUE, NULL, NULL) \
    M(SUM_NO_TAIL, "sum_without_tail", VALUE, "flat", NULL) \
    M(SUM_BF16, "sum_stagnates", VALUE, "flat", NULL) \
    M(EMPTY_LANES, "empty_lanes_counted", VALUE, NULL, NULL) \
    M(WINNERS, "sum_of_winners", VALUE, NULL, NULL) \
    M(RENORMALISED, "renormalised", VALUE, "flat", NULL) \
    M(GREEDY, "greedy_is_certain", VALUE, "flat", NULL) \
    M(LOW_DIGITS, "low_precision", VALUE, NULL, NULL) \
    M(CLAMPED, "exponent_clamped", VALUE, "spike", NULL) \
    M(FROM_LSE, "probability_from_rounded_lse", VALUE, "offset30", NULL) \
    M(T_IGNORED, "temperature_ignored", VALUE, "hot", NULL) \
    M(T_TWICE, "temperature_twice", VALUE, "cold", NULL) \
    M(T_DIVIDES, "temperature_divides", VALUE, "hot", NULL) \
    M(T_NOT_LSE, "temperature_not_in_lse", VALUE, "hot", NULL) \
    M(T_FIRST, "scaled_before_difference", VALUE, "offset", NULL) \
    M(T_PAST_50, "temperature_clamped_past_50", VALUE, NULL, NULL) \
    M(T_PAST_1E6, "temperature_clamped_past_1e6", VALUE, NULL, NULL) \
    M(T_LEAST, "temperature_no_less_than_1e_6", VALUE, NULL, NULL) \
    M(T_PAST_1E20, "temperature_clamped_past_1e20", VALUE, NULL, NULL) \
    M(LSE_BASE_2, "lse_base_2", VALUE, NULL, NULL) \
    M(LSE_NO_MAX, "lse_without_max", VALUE, NULL, NULL) \
    M(LSE_NO_LOG, "lse_is_the_sum", VALUE, NULL, NULL) \
    M(LSE_UNWRITTEN, "lse_unwritten", UNWRITTEN, NULL, NULL) \
    M(LSE_FIRST_ROW, "lse_of_first_row_alone", UNWRITTEN, NULL, NULL) \
    M(LSE_ALWAYS, "lse_though_null", CRASH, NULL, NULL) \
    /* nonfinite and masked rows */ \
    M(NAN_SWALLOWED, "nan_swallowed", VALUE, "nonfinite", NULL) \
    M(NAN_IN_TAIL, "nan_in_tail_unseen", VALUE, "nonfinite", NULL) \
    M(NAN_OFF_LANE, "nan_off_first_lane_unseen", VALUE, "nonfinite", NULL) \
    M(NONFINITE_SPLIT, "nonfinite_split_unseen", VALUE, "nonfinite_one", NULL) \
    M(NAN_ALONE, "nan_in_single_row_swallowed", VALUE, "nonfinite_one", NULL) \
    M(ONE_LOGIT, "single_logit_is_certain", VALUE, "nonfinite", NULL) \
    M(INF_ALONE, "inf_in_single_row_ordinary", VALUE, "nonfinite_inf", NULL) \
    M(INF_ORDINARY, "inf_ordinary", VALUE, "nonfinite", NULL) \
    M(NAN_LEAKS, "nan_row_leaks", VALUE, "nonfinite", NULL) \
    M(NONFINITE_INDEX, "nonfinite_row_keeps_indices", VALUE, "nonfinite", NULL) \
    M(NONFINITE_ZERO, "nonfinite_row_gets_zeros", VALUE, "nonfinite", NULL) \
    M(MASKED_NAN, "all_masked_nan", VALUE, "all_masked", NULL) \
    M(MASKED_NO_INDEX, "all_masked_no_indices", VALUE, "all_masked", NULL) \
    M(MASKED_UNIFORM, "all_masked_uniform", VALUE, "all_masked", NULL) \
    M(MASKED_LSE, "all_masked_finite_lse", VALUE, "all_masked", NULL) \
    /* shapes and addresses */ \
    M(STRIDE_2_POW, "k_rounded_up_stride", VALUE, NULL, NULL) \
    M(WRITES_2_POW, "k_rounded_up_written", PAST, NULL, NULL) \
    M(AT_MOST_64, "k_fixed_at_64", VALUE, NULL, NULL) \
    M(AT_MOST_256, "k_fixed_at_256", VALUE, NULL, NULL) \
    M(AT_MOST_1024, "k_fixed_at_1024", VALUE, NULL, NULL) \
    M(AT_MOST_8192, "k_fixed_at_8192", VALUE, NULL, NULL) \
    M(TAIL_4, "tail_of_4_dropped", VALUE, "back", NULL) \
    M(TAIL_8, "tail_of_8_dropped", VALUE, "back", NULL) \
    M(TAIL_32, "tail_of_32_dropped", VALUE, "back", NULL) \
    M(ALIGNED, "assumed_alignment", VALUE, NULL, NULL) \
    M(DENSE_ROWS, "dense_rows", VALUE, NULL, NULL) \
    M(INT32_OFFSET, "int32_offset", VALUE, "far", NULL) \
    M(UINT32_OFFSET, "uint32_offset", VALUE, "farther", NULL) \
    M(WIDE_65535, "wide_rows_past_65535", UNWRITTEN, "tall", NULL) \
    M(T_BELOW_50, "temperature_no_more_than_50", VALUE, NULL, NULL) \
    M(MASK_1E37, "below_minus_1e37_is_masked", VALUE, "wide", NULL) \
    M(NO_LAST_ROW, "last_row_unwritten", UNWRITTEN, NULL, NULL) \
    M(ROWS_65535, "rows_past_65535", UNWRITTEN, NULL, NULL) \
    M(ROWS_20000, "rows_past_20000", UNWRITTEN, "ties", NULL) \
    M(COLS_2_17, "logits_past_2_17_dropped", VALUE, "back", NULL) \
    M(V_0_UNWRITTEN, "vocab_0_unwritten", UNWRITTEN, NULL, NULL) \
    M(V_0_LSE, "vocab_0_lse_0", VALUE, NULL, NULL) \
    M(NO_LSE_AT_K_0, "k_0_lse_unwritten", UNWRITTEN, "all_masked", NULL) \
    M(WRITES_AT_K_0, "k_0_writes", CRASH, "all_masked", NULL) \
    M(PAST_INDEX, "writes_past_index", PAST, NULL, NULL) \
    M(PAST_PROB, "writes_past_prob", PAST, NULL, NULL) \
    M(PAST_LSE, "writes_past_lse", PAST, NULL, NULL) \
    M(BEFORE_INDEX, "writes_before_index", BEFORE, NULL, NULL) \
    M(BEFORE_PROB, "writes_before_prob", BEFORE, NULL, NULL) \
    M(BEFORE_LSE, "writes_before_lse", BEFORE, NULL, NULL) \
    M(WRITES_INPUT, "writes_logits", INPUT, NULL, NULL) \
    M(WRITES_GAP, "writes_between_logits", INPUT, NULL, NULL) \
    M(READS_PAST, "reads_past_logits", PAST, NULL, NULL) \
    M(READS_VECTOR, "reads_whole_last_vector", PAST, NULL, NULL) \
    M(READS_BEFORE, "reads_before_logits", BEFORE, NULL, NULL) \
    /* conduct */ \
    M(HANGS, "hang", HANG, NULL, NULL) \
    M(CRASHES, "crash", CRASH, NULL, NULL) \
    M(NO_DEFAULT, "no_default_threads", CRASH, NULL, NULL) \
    M(WRONG_STATUS, "wrong_status", STATUS, NULL, NULL) \
    M(REFUSES_K_V, "refuses_k_past_vocab", STATUS, NULL, NULL) \
    M(REFUSES_K_0, "refuses_k_0", STATUS, "nonfinite", NULL) \
    M(REFUSES_V_0, "refuses_vocab_0", STATUS, NULL, NULL) \
    M(REFUSES_K_256, "refuses_k_past_256", STATUS, NULL, NULL) \
    M(REFUSES_F16, "refuses_f16", STATUS, NULL, NULL) \
    M(REFUSES_NO_LSE, "refuses_without_lse", STATUS, NULL, NULL) \
    M(BY_THREADS, "split_by_threads", REPEAT, NULL, NULL) \
    M(DRIFTS, "order_drifts", REPEAT, NULL, NULL) \
    M(REMEMBERS, "remembers", VALUE, NULL, NULL) \
    M(TAKES_T_0, "accepts_temperature_0", REFUSAL, NULL, NULL) \
    M(TAKES_T_NAN, "accepts_temperature_nan", REFUSAL, NULL, NULL) \
    M(TAKES_T_MINUS, "accepts_temperature_minus", REFUSAL, NULL, NULL) \
    M(TAKES_T_TINY, "accepts_temperature_subnormal", REFUSAL, NULL, NULL) \
    M(TAKES_T_HUGE, "accepts_temperature_infinite", REFUSAL, NULL, NULL) \
    M(TAKES_NO_LOGITS, "accepts_null_logits", REFUSAL, NULL, NULL) \
    M(TAKES_NO_INDEX, "accepts_null_index", REFUSAL, NULL, NULL) \
    M(TAKES_NO_PROB, "accepts_null_prob", REFUSAL, NULL, NULL) \
    M(TAKES_ROWS, "accepts_minus_rows", REFUSAL, NULL, NULL) \
    M(TAKES_V_MINUS, "accepts_minus_vocab", REFUSAL, NULL, NULL) \
    M(TAKES_V_2_31, "accepts_vocab_2_31", REFUSAL, NULL, NULL) \
    M(TAKES_STRIDE, "accepts_short_stride", REFUSAL, NULL, NULL) \
    M(TAKES_K_MINUS, "accepts_minus_k", REFUSAL, NULL, NULL) \
    M(TAKES_K_2_31, "accepts_k_2_31", REFUSAL, NULL, NULL) \
    M(TAKES_OVERFLOW, "accepts_overflowing_extent", REFUSAL, NULL, NULL) \
    M(TAKES_F64, "accepts_f64", REFUSAL, NULL, NULL) \
    M(TAKES_NO_DTYPE, "accepts_no_dtype", REFUSAL, NULL, NULL) \
    M(WRITES_FIRST, "writes_then_refuses", REFUSAL, NULL, NULL) \
    M(REFUSES_ODD, "refuses_with_another_status", REFUSAL, NULL, NULL)

#define WITH_WORKSPACE(M) \
    M(HONEST_WS, "control_workspace", NONE, NULL, workspace) \
    M(DIRTY_WS, "uninitialised_partials", VALUE, NULL, workspace) \
    M(PAST_WS, "writes_workspace_past", PAST, NULL, workspace) \
    M(BEFORE_WS, "writes_workspace_before", BEFORE, NULL, workspace) \
    M(TAKES_SHORT_WS, "accepts_short_workspace", REFUSAL, NULL, workspace)

#define MUTANTS(M) WITHOUT_WORKSPACE(M) WITH_WORKSPACE(M)
/* clang-format on */

#endif
