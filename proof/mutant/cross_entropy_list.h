/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_list.h - the mutants of cross-entropy from hidden states and from logits. Per line:
 * bug, name, the check that must catch it, and the family whose cases must do so (NULL: normal).
 *
 *   bug                                        mutants
 *   logits rounded to 16 bits before the lse   logits_rounded
 *   max not subtracted                         no_max, lse_without_max
 *   running maximum not rescaled               sum_not_rescaled, tile_maximum
 *   smoothing's mean over padded vocabulary    smoothing_over_*, smoothing_*_missing
 *   ignored rows that still touch dw           ignored_rows_in_dw, ignored_*
 *   mean's count taken after sharding          mean_by_chunk, mean_over_all_rows, mean_of_none_is_0
 *   z-loss's gradient                          z_loss_*
 *   softcap's derivative                       softcap_*
 *   dw in 16-bit sums over many rows           dw_in_16_bits
 *   target out of range                        accepts_*_target, writes_then_refuses
 *   what chunks do to sums                     dw_of_last_chunk, accumulate_by_chunk
 *   unwritten or out of bounds, offsets        *_unwritten, *_dropped, writes_*, reads_*, int32_*
 *
 * Private to cross_entropy.c. */
#ifndef TS_CROSS_ENTROPY_LIST_H
#define TS_CROSS_ENTROPY_LIST_H

/* clang-format off */
#define HIDDEN(M) \
    M(HONEST, "control", NONE, NULL) \
    M(ROUNDED, "logits_rounded", VALUE, NULL) \
    M(NO_MAX, "no_max", VALUE, "offset") \
    M(LSE_NO_MAX, "lse_without_max", VALUE, NULL) \
    M(NO_RESCALE, "sum_not_rescaled", VALUE, "rising") \
    M(TILE_MAX, "tile_maximum", VALUE, "falling") \
    M(LSE_BASE_2, "lse_in_base_2", VALUE, NULL) \
    M(NO_TAIL, "last_words_dropped", VALUE, NULL) \
    M(P_ROUNDED, "p_rounded", VALUE, NULL) \
    M(SMOOTH_PADDED, "smoothing_over_padding", VALUE, NULL) \
    M(SMOOTH_OTHERS, "smoothing_over_others", VALUE, NULL) \
    M(SMOOTH_NO_GRAD, "smoothing_gradient_missing", VALUE, NULL) \
    M(SMOOTH_NO_LOSS, "smoothing_loss_missing", VALUE, NULL) \
    M(SMOOTH_FULL_TARGET, "smoothing_keeps_target", VALUE, NULL) \
    M(IGNORED_DW, "ignored_rows_in_dw", VALUE, NULL) \
    M(IGNORED_DH, "ignored_dh_unwritten", UNWRITTEN, NULL) \
    M(IGNORED_LOSS, "ignored_loss_unwritten", UNWRITTEN, NULL) \
    M(IGNORED_LSE, "ignored_lse_unwritten", UNWRITTEN, NULL) \
    M(IGNORE_100, "ignores_minus_100_only", VALUE, NULL) \
    M(IGNORED_ONE, "count_one_too_many", VALUE, NULL) \
    M(ALL_ROWS, "mean_over_all_rows", VALUE, NULL) \
    M(BY_CHUNK, "mean_by_chunk", VALUE, NULL) \
    M(NONE_0, "mean_of_none_is_0", VALUE, NULL) \
    M(NO_MEAN, "mean_is_a_sum", VALUE, NULL) \
    M(MEAN_GRAD, "gradient_of_the_sum", VALUE, NULL) \
    M(Z_NO_GRAD, "z_loss_gradient_missing", VALUE, NULL) \
    M(Z_NO_2, "z_loss_gradient_halved", VALUE, NULL) \
    M(Z_NO_LOSS, "z_loss_missing", VALUE, NULL) \
    M(Z_LINEAR, "z_loss_linear", VALUE, NULL) \
    M(Z_TARGET, "z_loss_gradient_at_target", VALUE, NULL) \
    M(CAP_NO_SLOPE, "softcap_slope_missing", VALUE, NULL) \
    M(CAP_SLOPE_Z, "softcap_slope_of_z", VALUE, NULL) \
    M(CAP_NO_DIVIDE, "softcap_undivided", VALUE, NULL) \
    M(CAP_TARGET, "softcap_not_of_target", VALUE, NULL) \
    M(CAP_LATE_BIAS, "softcap_before_bias", VALUE, NULL) \
    M(CAP_CLIPS, "softcap_clips", VALUE, NULL) \
    M(DW_16, "dw_in_16_bits", VALUE, "coherent") \
    M(DH_16, "dh_in_16_bits", VALUE, NULL) \
    M(DW_LAST, "dw_of_last_chunk", VALUE, NULL) \
    M(DW_NO_G, "dw_not_scaled", VALUE, NULL) \
    M(ACC_IGNORED, "accumulate_ignored", VALUE, NULL) \
    M(ACC_TWICE, "accumulate_doubled", VALUE, NULL) \
    M(ACC_STALE, "stale_gradients", VALUE, NULL) \
    M(ACC_CHUNK, "accumulate_by_chunk", VALUE, NULL) \
    M(NARROW, "grad_dtype_ignored", VALUE, NULL) \
    M(SCALE_1, "scale_ignored", VALUE, NULL) \
    M(SCALE_LOSS, "loss_is_scaled", VALUE, NULL) \
    M(SCALE_ABS, "scale_without_sign", VALUE, NULL) \
    M(NO_BIAS, "bias_ignored", VALUE, NULL) \
    M(TARGET_TAIL, "target_in_tail_missed", VALUE, NULL) \
    M(TARGET_KEPT, "target_not_subtracted", VALUE, NULL) \
    M(TARGET_0, "target_is_word_0", VALUE, NULL) \
    M(DENSE_H, "dense_h", VALUE, NULL) \
    M(DENSE_W, "dense_w", VALUE, NULL) \
    M(INT32, "int32_offset", VALUE, "far") \
    M(UINT32, "uint32_offset", VALUE, "farther") \
    M(WIDE_65535, "wide_rows_past_65535", UNWRITTEN, "tall") \
    M(NONFINITE_0, "nonfinite_row_is_0", VALUE, "nonfinite") \
    M(NONFINITE_LEAKS, "nonfinite_row_leaks", VALUE, "nonfinite") \
    M(IGNORED_NONFINITE, "ignored_row_times_0", VALUE, "ignored_nonfinite") \
    M(MASK_NAN, "masked_mean_times_0", VALUE, "masked") \
    M(DROPS_12, "logits_12_below_the_largest_dropped", VALUE, "tail") \
    M(HIT_TIMES_0, "masked_target_times_0", VALUE, "masked_target") \
    M(MASKED_MEAN, "masked_words_left_out_of_the_mean", VALUE, "masked_target") \
    M(NO_LSE, "lse_unwritten", UNWRITTEN, NULL) \
    M(NO_TOTAL, "total_unwritten", UNWRITTEN, NULL) \
    M(ROWS_65535, "rows_past_65535", UNWRITTEN, NULL) \
    M(WORDS_65535, "words_past_65535", VALUE, NULL) \
    M(LAST_ROW, "last_row_unwritten", UNWRITTEN, NULL) \
    M(WRITE_PAST, "writes_past", PAST, NULL) \
    M(WRITE_GAP, "writes_gap", GAP, NULL) \
    M(WRITE_INPUT, "writes_input", INPUT, NULL) \
    M(READ_PAST, "reads_past", PAST, NULL) \
    M(HANG, "hang", HANG, NULL) \
    M(CRASH, "crash", CRASH, NULL) \
    M(STATUS, "wrong_status", STATUS, NULL) \
    M(BY_THREADS, "split_by_threads", REPEAT, NULL) \
    M(TAKES_TARGET, "accepts_any_target", REFUSAL, NULL) \
    M(TAKES_LOW, "accepts_negative_target", REFUSAL, NULL) \
    M(TAKES_HIGH, "accepts_large_target", REFUSAL, NULL) \
    M(WRITES_FIRST, "writes_then_refuses", REFUSAL, NULL) \
    M(TAKES_NULL, "accepts_null", REFUSAL, NULL) \
    M(TAKES_SHAPE, "accepts_bad_shape", REFUSAL, NULL) \
    M(TAKES_DTYPE, "accepts_bad_dtype", REFUSAL, NULL) \
    M(TAKES_NUMBER, "accepts_bad_number", REFUSAL, NULL) \
    M(TAKES_GRAD, "accepts_bad_grad_dtype", REFUSAL, NULL)

#define LOGITS(M) \
    M(HONEST, "control", NONE, NULL) \
    M(NO_MAX, "no_max", VALUE, "offset") \
    M(LSE_NO_MAX, "lse_without_max", VALUE, NULL) \
    M(NO_RESCALE, "sum_not_rescaled", VALUE, "rising") \
    M(TILE_MAX, "tile_maximum", VALUE, "falling") \
    M(NO_TAIL, "last_words_dropped", VALUE, NULL) \
    M(P_ROUNDED, "p_rounded", VALUE, NULL) \
    M(SMOOTH_PADDED, "smoothing_over_padding", VALUE, NULL) \
    M(SMOOTH_OTHERS, "smoothing_over_others", VALUE, NULL) \
    M(SMOOTH_NO_GRAD, "smoothing_gradient_missing", VALUE, NULL) \
    M(IGNORED_DH, "ignored_gradient_unwritten", UNWRITTEN, NULL) \
    M(IGNORE_100, "ignores_minus_100_only", VALUE, NULL) \
    M(ALL_ROWS, "mean_over_all_rows", VALUE, NULL) \
    M(BY_CHUNK, "mean_by_chunk", VALUE, NULL) \
    M(NONE_0, "mean_of_none_is_0", VALUE, NULL) \
    M(MEAN_GRAD, "gradient_of_the_sum", VALUE, NULL) \
    M(Z_NO_GRAD, "z_loss_gradient_missing", VALUE, NULL) \
    M(Z_NO_2, "z_loss_gradient_halved", VALUE, NULL) \
    M(Z_NO_LOSS, "z_loss_missing", VALUE, NULL) \
    M(CAP_NO_SLOPE, "softcap_slope_missing", VALUE, NULL) \
    M(CAP_SLOPE_Z, "softcap_slope_of_z", VALUE, NULL) \
    M(CAP_NO_DIVIDE, "softcap_undivided", VALUE, NULL) \
    M(CAP_TARGET, "softcap_not_of_target", VALUE, NULL) \
    M(SCALE_1, "scale_ignored", VALUE, NULL) \
    M(SCALE_LOSS, "loss_is_scaled", VALUE, NULL) \
    M(TARGET_TAIL, "target_in_tail_missed", VALUE, NULL) \
    M(TARGET_KEPT, "target_not_subtracted", VALUE, NULL) \
    M(DENSE_H, "dense_rows", VALUE, NULL) \
    M(INT32, "int32_offset", VALUE, "far") \
    M(UINT32, "uint32_offset", VALUE, "farther") \
    M(WIDE_65535, "wide_rows_past_65535", UNWRITTEN, "tall") \
    M(NAN_AS_LOW, "nan_has_no_weight", VALUE, "nonfinite") \
    M(INF_OK, "infinity_accepted", VALUE, "nonfinite") \
    M(IGNORED_NONFINITE, "ignored_row_times_0", VALUE, "ignored_nonfinite") \
    M(MASK_NAN, "masked_mean_times_0", VALUE, "masked") \
    M(DROPS_12, "logits_12_below_the_largest_dropped", VALUE, "tail") \
    M(HIT_TIMES_0, "masked_target_times_0", VALUE, "masked_target") \
    M(MASKED_MEAN, "masked_words_left_out_of_the_mean", VALUE, "masked_target") \
    M(PLACE_LATE, "target_read_too_late", VALUE, NULL) \
    M(PLACE_KEPT, "in_place_ignored", VALUE, NULL) \
    M(PLACE_IGNORED, "ignored_logits_kept", VALUE, NULL) \
    M(NO_LSE, "lse_unwritten", UNWRITTEN, NULL) \
    M(NO_TOTAL, "total_unwritten", UNWRITTEN, NULL) \
    M(ROWS_65535, "rows_past_65535", UNWRITTEN, NULL) \
    M(WRITE_PAST, "writes_past", PAST, NULL) \
    M(WRITE_GAP, "writes_gap", GAP, NULL) \
    M(WRITE_INPUT, "writes_input", INPUT, NULL) \
    M(BY_THREADS, "split_by_threads", REPEAT, NULL) \
    M(TAKES_TARGET, "accepts_any_target", REFUSAL, NULL) \
    M(TAKES_LOW, "accepts_negative_target", REFUSAL, NULL) \
    M(WRITES_FIRST, "writes_then_refuses", REFUSAL, NULL) \
    M(TAKES_NULL, "accepts_null", REFUSAL, NULL) \
    M(TAKES_SHAPE, "accepts_bad_shape", REFUSAL, NULL) \
    M(TAKES_DTYPE, "accepts_bad_dtype", REFUSAL, NULL) \
    M(TAKES_NUMBER, "accepts_bad_number", REFUSAL, NULL)
/* clang-format on */

#endif
