/* SPDX-License-Identifier: Apache-2.0 */
/* attention_list.h - the mutants of flash_attention. Per line: bug, name, the check that must catch
 * it, the family whose cases must do so (NULL: normal), and the workspace query.
 *
 * Private to attention.c, which makes the enum of bugs, the functions and the table from this list.
 * */
#ifndef TS_ATTENTION_LIST_H
#define TS_ATTENTION_LIST_H

/* clang-format off */
#define WITHOUT_WORKSPACE(M) \
    /* the running state */ \
    M(INVERTED, "rescale_inverted", VALUE, "late", NULL) \
    M(SUM_KEPT, "sum_not_rescaled", VALUE, "late", NULL) \
    M(O_KEPT, "output_not_rescaled", VALUE, "late", NULL) \
    M(TWICE, "divided_in_loop_and_again", VALUE, NULL, NULL) \
    M(TILE_MAX, "tile_max_for_running_max", VALUE, "early", NULL) \
    M(TILE_MAX_SINK, "tile_max_under_sink", VALUE, "sink", NULL) \
    M(TILE_MAX_HOT, "tile_max_when_hot", VALUE, "hot", NULL) \
    M(NO_MAX, "no_max_subtraction", VALUE, "offset", NULL) \
    M(MAX_ZERO, "max_from_zero", VALUE, "offset", NULL) \
    M(MAX_1E30, "max_from_minus_1e30", VALUE, "floor", NULL) \
    M(MASK_1E30, "mask_is_minus_1e30", VALUE, "floor", NULL) \
    M(UNGUARDED, "minus_inf_unguarded", VALUE, "masked", NULL) \
    M(UNGUARDED_WINDOW, "tiles_before_window_unguarded", VALUE, "window", NULL) \
    M(GUARD_ZEROES, "guard_zeroes_the_state", VALUE, "masked", NULL) \
    M(HALF_SUMS, "sums_in_16_bits", VALUE, "flat", NULL) \
    M(HALF_SCORES, "scores_in_bf16", VALUE, NULL, NULL) \
    /* rows that see nothing */ \
    M(EMPTY_NAN, "empty_row_is_nan", VALUE, "empty", NULL) \
    M(EMPTY_NAN_CAUSAL, "rows_before_first_key_are_nan", VALUE, NULL, NULL) \
    M(EMPTY_MEAN, "mask_is_minus_1e9", VALUE, "empty", NULL) \
    M(EMPTY_LSE, "empty_lse_is_0", VALUE, "empty", NULL) \
    M(EMPTY_UNWRITTEN, "empty_row_unwritten", UNWRITTEN, "empty", NULL) \
    /* masks */ \
    M(SKIP_ONE, "last_tile_skipped", VALUE, NULL, NULL) \
    M(LOCAL_MASK, "mask_by_local_index", VALUE, NULL, NULL) \
    M(TAIL_COUNTED, "zeros_past_the_end_counted", VALUE, NULL, NULL) \
    M(FIRST_KEY, "causal_from_first_key", VALUE, NULL, NULL) \
    M(STRICT, "causal_strict", VALUE, NULL, NULL) \
    M(FULL_MASK, "causal_ignored", VALUE, NULL, NULL) \
    M(LEN_SHIFTS, "causal_from_kv_len", VALUE, "ragged", NULL) \
    M(LEN_IGNORED, "kv_len_ignored", VALUE, "ragged", NULL) \
    M(LEN_FIRST, "kv_len_of_first_batch", VALUE, "ragged", NULL) \
    M(PADDING, "padding_times_0", VALUE, "padding", NULL) \
    M(NO_WINDOW, "window_ignored", VALUE, "window", NULL) \
    M(WIDE_WINDOW, "window_one_too_wide", VALUE, "window", NULL) \
    /* scale and lse */ \
    M(NO_SCALE, "scale_missing", VALUE, NULL, NULL) \
    M(ROOT_SCALE, "scale_is_root_of_head_dim", VALUE, NULL, NULL) \
    M(SCALE_SIGN, "scale_made_positive", VALUE, "negative", NULL) \
    M(SCALE_0, "scale_0_is_no_scale", VALUE, NULL, NULL) \
    M(SCALE_MOST, "scale_no_more_than_100", VALUE, NULL, NULL) \
    M(WINDOW_4096, "window_no_more_than_4096", VALUE, "window_long", NULL) \
    M(DIM_256, "head_dim_rounded_to_128_or_256", VALUE, NULL, NULL) \
    M(OVERFLOWS, "overflowing_score_is_nan", VALUE, "deep", NULL) \
    M(LSE_BASE_2, "lse_base_2", VALUE, NULL, NULL) \
    M(LSE_UNSCALED, "lse_unscaled", VALUE, NULL, NULL) \
    M(LSE_NO_MAX, "lse_without_max", VALUE, NULL, NULL) \
    M(LSE_SUM, "lse_is_the_sum", VALUE, NULL, NULL) \
    M(LSE_LAYOUT, "lse_in_layout_order", VALUE, NULL, NULL) \
    M(LSE_UNWRITTEN, "lse_unwritten", UNWRITTEN, NULL, NULL) \
    M(LSE_ALWAYS, "lse_though_null", CRASH, NULL, NULL) \
    /* heads, batches, rows */ \
    M(HEAD_MODULO, "kv_head_modulo", VALUE, NULL, NULL) \
    M(HEAD_SAME, "kv_head_of_same_number", VALUE, NULL, NULL) \
    M(HEAD_FIRST, "first_head_alone", UNWRITTEN, NULL, NULL) \
    M(BATCH_FIRST, "first_batch_alone", UNWRITTEN, NULL, NULL) \
    M(BATCH_KEYS, "keys_of_first_batch", VALUE, NULL, NULL) \
    M(LAYOUT, "layout_ignored", VALUE, NULL, NULL) \
    M(ONE_ROW, "one_row_tile_dropped", UNWRITTEN, NULL, NULL) \
    M(HEADS_65535, "heads_past_65535", UNWRITTEN, NULL, NULL) \
    M(ROWS_1024, "queries_past_1024_unwritten", UNWRITTEN, NULL, NULL) \
    M(KEYS_8192, "keys_past_8192_unseen", VALUE, NULL, NULL) \
    M(SHARE_7, "heads_that_share_by_7_as_by_8", VALUE, NULL) \
    M(DIM_96, "head_dim_96_as_64", VALUE, NULL) \
    M(SHARE_32, "heads_past_32_share_the_next_kv_head", VALUE, NULL, NULL) \
    M(TAIL_8, "head_dim_tail_unwritten", UNWRITTEN, NULL, NULL) \
    M(DOT_TAIL, "head_dim_tail_of_scores", VALUE, NULL, NULL) \
    M(NAN_SWALLOWED, "nan_score_swallowed", VALUE, "nonfinite", NULL) \
    M(NAN_KEY, "nan_of_one_key_skipped", VALUE, "nonfinite_key", NULL) \
    M(INF_KEY, "inf_of_one_key_is_finite", VALUE, "nonfinite_key", NULL) \
    M(NAN_VALUE, "nan_value_is_0", VALUE, "nonfinite_value", NULL) \
    M(ONE_KEY, "one_key_has_all_weight", VALUE, "nonfinite_key", NULL) \
    M(NAN_LEAKS, "nan_row_leaks", VALUE, "nonfinite", NULL) \
    /* addresses and conduct */ \
    M(PAST_O, "writes_past_o", PAST, NULL, NULL) \
    M(BEFORE_O, "writes_before_o", BEFORE, NULL, NULL) \
    M(PAST_LSE, "writes_past_lse", PAST, NULL, NULL) \
    M(WRITES_INPUT, "writes_q", INPUT, NULL, NULL) \
    M(READS_PAST, "reads_past_k", PAST, NULL, NULL) \
    M(READS_BEFORE, "reads_before_v", BEFORE, NULL, NULL) \
    M(BY_THREADS, "split_by_threads", REPEAT, NULL, NULL) \
    M(REMEMBERS, "remembers", VALUE, NULL, NULL) \
    M(REFUSES_F64, "refuses_f64", STATUS, NULL, NULL) \
    M(REFUSES_ODD_DIM, "refuses_odd_head_dim", STATUS, NULL, NULL) \
    M(REFUSES_MORE_Q, "refuses_more_queries_than_keys", STATUS, NULL, NULL) \
    M(REFUSES_HINT, "refuses_hints", STATUS, NULL, NULL) \
    M(REFUSES_LARGE, "refuses_hints_past_4096", STATUS, NULL, NULL) \
    M(TAKES_ARG, "accepts_bad_arguments", REFUSAL, NULL, NULL) \
    M(TAKES_WINDOW, "accepts_window_without_causal", REFUSAL, NULL, NULL) \
    M(TAKES_HEADS, "accepts_heads_that_do_not_divide", REFUSAL, NULL, NULL) \
    M(TAKES_257, "accepts_head_dim_257", REFUSAL, NULL, NULL) \
    M(TAKES_OVERFLOW, "accepts_overflowing_extent", REFUSAL, NULL, NULL) \
    M(TAKES_DTYPE, "accepts_bad_dtype", REFUSAL, NULL, NULL) \
    M(TAKES_LENGTH, "accepts_kv_len_out_of_range", REFUSAL, NULL, NULL) \
    M(WRITES_FIRST, "writes_then_refuses", REFUSAL, NULL, NULL) \
    M(REFUSES_ODD, "refuses_with_another_status", REFUSAL, NULL, NULL)

#define WITH_WORKSPACE(M) \
    M(HONEST, "control", NONE, NULL, workspace) \
    M(DIRTY_WS, "uninitialised_sums", VALUE, NULL, workspace) \
    M(PAST_WS, "writes_workspace_past", PAST, NULL, workspace) \
    M(TAKES_SHORT_WS, "accepts_short_workspace", REFUSAL, NULL, workspace)

#define MUTANTS(M) WITHOUT_WORKSPACE(M) WITH_WORKSPACE(M) /* HONEST and on: with one */
/* clang-format on */

#endif
