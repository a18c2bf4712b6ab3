/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_list.h - the mutants of flash_attention_backward. Per line: bug, name, the
 * check that must catch it, and the family whose cases must do so (NULL: normal).
 *
 * Private to attention_backward.c, which makes the enum of bugs, the functions and the table from
 * this list. */
#ifndef TS_ATTENTION_BACKWARD_LIST_H
#define TS_ATTENTION_BACKWARD_LIST_H

/* clang-format off */
#define MUTANTS(M) \
    M(HONEST, "control", NONE, NULL) \
    /* the formula */ \
    M(DELTA_TILE, "delta_inside_one_tile", VALUE, NULL) \
    M(NO_DELTA, "delta_omitted", VALUE, NULL) \
    M(DELTA_16, "delta_in_16_bits", VALUE, "saturated") \
    M(NO_SCALE_Q, "scale_missing_in_dq", VALUE, NULL) \
    M(NO_SCALE_K, "scale_missing_in_dk", VALUE, NULL) \
    M(SCALE_TWICE, "scale_twice", VALUE, NULL) \
    M(SCALE_SIGN, "scale_made_positive", VALUE, "negative") \
    M(WRONG_AXIS, "softmax_over_queries", VALUE, NULL) \
    M(NO_P, "factor_p_forgotten", VALUE, NULL) \
    M(BY_SUM, "divided_by_row_sum", VALUE, NULL) \
    M(DOUT_FOR_DP, "dout_for_dp", VALUE, NULL) \
    M(ONES, "dout_taken_as_ones", VALUE, NULL) \
    M(DOUT_MOST, "dout_no_more_than_100", VALUE, "loud") \
    M(DOUT_LEAST, "dout_below_f16_is_0", VALUE, "faint") \
    M(ONLY_DV, "dq_and_dk_are_0", VALUE, NULL) \
    M(Q_FOR_K, "dk_from_keys", VALUE, NULL) \
    /* lse */ \
    M(L_AS_SUM, "lse_taken_as_sum", VALUE, NULL) \
    M(L_AS_MAX, "lse_taken_as_max", VALUE, NULL) \
    M(L_BASE_2, "lse_base_2", VALUE, NULL) \
    M(NO_MAX, "weights_without_max", VALUE, "sink") \
    M(NO_MAX_HOT, "weights_without_max_when_hot", VALUE, "hot") \
    M(L_LAYOUT, "lse_in_layout_order", VALUE, NULL) \
    /* sums */ \
    M(OVERWRITTEN, "dk_of_last_query_tile", VALUE, NULL) \
    M(FIRST_TILE, "dk_of_first_query_tile", VALUE, NULL) \
    M(DQ_LAST_TILE, "dq_of_last_key_tile", VALUE, NULL) \
    M(LAST_HEAD, "sharing_heads_not_summed", VALUE, NULL) \
    M(FIRST_HEAD, "first_of_sharing_heads", VALUE, NULL) \
    M(HALF_DQ, "dq_sums_in_16_bits", VALUE, "flat") \
    M(HALF_DK, "dk_sums_in_16_bits", VALUE, "flat") \
    M(HALF_DV, "dv_sums_in_16_bits", VALUE, "flat") \
    M(HALF_SCORES, "scores_in_bf16", VALUE, NULL) \
    M(ADDS, "adds_to_what_was_there", VALUE, NULL) \
    /* masks */ \
    M(NO_MASK, "causal_forgotten", VALUE, NULL) \
    M(FIRST_KEY, "causal_from_first_key", VALUE, NULL) \
    M(STRICT, "causal_strict", VALUE, NULL) \
    M(NO_WINDOW, "window_forgotten", VALUE, "window") \
    M(WINDOW_4096, "window_no_more_than_4096", VALUE, "window_long") \
    M(SCALE_0, "scale_0_is_no_scale", VALUE, NULL) \
    M(DIM_256, "head_dim_rounded_to_128_or_256", VALUE, NULL) \
    M(OVERFLOWS, "overflowing_score_is_nan", VALUE, "deep") \
    M(WIDE_WINDOW, "window_one_too_wide", VALUE, "window") \
    M(NO_LEN, "kv_len_forgotten", VALUE, "ragged") \
    M(PADDING, "padding_times_0", VALUE, "padding") \
    M(MASK_LATE, "masked_after_exponential", VALUE, NULL) \
    M(EMPTY_NAN, "empty_rows_contribute", VALUE, "empty") \
    M(NONE_ENDS, "queries_after_one_of_no_weight_lost", VALUE, "sunk") \
    M(NONE_COUNTS, "lse_minus_inf_unguarded", VALUE, "sunk") \
    M(TAIL, "last_key_tile_skipped", VALUE, NULL) \
    /* what is written, and where */ \
    M(EMPTY_DQ, "empty_dq_unwritten", UNWRITTEN, "empty") \
    M(UNSEEN_DK, "keys_past_length_unwritten", UNWRITTEN, "ragged") \
    M(NO_QUERIES, "no_queries_dk_unwritten", UNWRITTEN, NULL) \
    M(ONE_ROW, "one_row_tile_dropped", UNWRITTEN, NULL) \
    M(HEADS_65535, "heads_past_65535", UNWRITTEN, NULL) \
    M(ROWS_1024, "queries_past_1024_unwritten", UNWRITTEN, NULL) \
    M(KEYS_8192, "keys_past_8192_unseen", VALUE, NULL) \
    M(SHARE_7, "seventh_of_7_sharing_heads_not_summed", VALUE, NULL) \
    M(SHARE_32, "sharing_heads_past_32_not_summed", VALUE, NULL) \
    M(HEAD_MODULO, "kv_head_modulo", VALUE, NULL) \
    M(BATCH_KEYS, "keys_of_first_batch", VALUE, NULL) \
    M(LAYOUT, "layout_ignored", VALUE, NULL) \
    M(DOT_TAIL, "head_dim_tail_of_scores", VALUE, NULL) \
    M(PAST_DQ, "writes_past_dq", PAST, NULL) \
    M(PAST_DV, "writes_past_dv", PAST, NULL) \
    M(BEFORE_DK, "writes_before_dk", BEFORE, NULL) \
    M(WRITES_INPUT, "writes_dout", INPUT, NULL) \
    M(READS_PAST, "reads_past_q", PAST, NULL) \
    M(BY_THREADS, "split_by_threads", REPEAT, NULL) \
    M(REFUSES_F64, "refuses_f64", STATUS, NULL) \
    M(REFUSES_MORE_Q, "refuses_more_queries_than_keys", STATUS, NULL) \
    M(TAKES_ARG, "accepts_bad_arguments", REFUSAL, NULL) \
    M(TAKES_LENGTH, "accepts_kv_len_out_of_range", REFUSAL, NULL) \
    M(TAKES_WINDOW, "accepts_window_without_causal", REFUSAL, NULL) \
    M(TAKES_HEADS, "accepts_heads_that_do_not_divide", REFUSAL, NULL) \
    M(TAKES_DTYPE, "accepts_bad_dtype", REFUSAL, NULL) \
    M(WRITES_FIRST, "writes_then_refuses", REFUSAL, NULL)
/* clang-format on */

#endif
