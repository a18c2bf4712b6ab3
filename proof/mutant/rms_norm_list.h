/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_list.h - the mutants of rms_norm: bug, name, the check that must catch it, and the
 * family whose cases must do so (NULL: normal). */
#ifndef TS_MUTANT_RMS_NORM_LIST_H
#define TS_MUTANT_RMS_NORM_LIST_H

/* clang-format off */
#define RMS_NORM_FORWARD(M)                                                 \
    M(HONEST, "control", NONE, NULL)                                        \
    /* the residual */                                                      \
    M(UNROUNDED, "r_unrounded", VALUE, NULL)                                \
    M(R_CUT, "r_towards_zero", VALUE, NULL)                                 \
    M(FLUSHED, "r_subnormal_is_0", VALUE, "denormal")                       \
    M(NO_RESIDUAL, "residual_ignored", VALUE, NULL)                         \
    M(RESIDUAL_TWICE, "residual_twice", VALUE, NULL)                        \
    M(RESIDUAL_MINUS, "residual_subtracted", VALUE, NULL)                   \
    M(NO_R, "r_unwritten", UNWRITTEN, NULL)                                 \
    M(X_KEPT, "r_is_x", VALUE, NULL)                                        \
    M(Y_OF_X, "y_of_x", VALUE, NULL)                                        \
    M(SUM_AGAIN, "in_place_adds_twice", VALUE, NULL)                        \
    M(NO_IN_PLACE, "in_place_refused", STATUS, NULL)                        \
    M(R_ALWAYS, "r_without_residual", CRASH, NULL)                          \
    M(R_IN_RESIDUAL, "r_in_the_residual", INPUT, NULL)                      \
    /* the average */                                                       \
    M(PADDED, "mean_over_padded_row", VALUE, NULL)                          \
    M(POWER_OF_2, "mean_over_power_of_2", VALUE, NULL)                      \
    M(SAMPLE, "sample_mean", VALUE, NULL)                                   \
    M(CENTRED, "mean_subtracted", VALUE, "offset")                          \
    M(SQUARES_OVERFLOW, "squares_overflow", VALUE, "huge")                  \
    M(SQUARES_UNDERFLOW, "squares_underflow", VALUE, "small")               \
    M(SCALE_256, "scaled_by_the_first_256", VALUE, "peak")                  \
    M(HALF_SQUARES, "half_squares", VALUE, "huge")                          \
    M(SUM_16_BIT, "sum_in_16_bits", VALUE, NULL)                            \
    M(FIRST_32, "first_warp", VALUE, NULL)                                  \
    M(FIRST_1024, "first_1024", VALUE, NULL)                                \
    M(FIRST_16384, "first_16384", VALUE, NULL)                              \
    M(FIRST_70000, "first_70000", VALUE, NULL)                              \
    M(BY_THREADS, "split_by_threads", REPEAT, NULL)                         \
    /* eps */                                                               \
    M(EPS_OUTSIDE, "eps_outside_root", VALUE, "constant")                   \
    M(EPS_IGNORED, "eps_ignored", VALUE, "tiny")                            \
    M(EPS_OF_SUM, "eps_divided_by_cols", VALUE, "tiny")                     \
    M(EPS_SQUARED, "eps_squared", VALUE, "tiny")                            \
    M(EPS_MAXIMUM, "eps_as_floor", VALUE, "tiny")                           \
    M(EPS_FIXED, "eps_always_1e_6", VALUE, "constant")                      \
    M(EPS_LEAST, "eps_no_less_than_1e_8", VALUE, "zeros")                   \
    M(EPS_BELOW, "eps_below_float_is_0", VALUE, "zeros")                    \
    M(EPS_PAST, "eps_past_float_is_infinite", VALUE, NULL)                  \
    /* the gain */                                                          \
    M(NO_GAIN, "w_ignored", VALUE, NULL)                                    \
    M(NO_OFFSET, "w_offset_forgotten", VALUE, NULL)                         \
    M(OFFSET_1, "w_offset_always_1", VALUE, NULL)                           \
    M(GAIN_ROUNDED, "gain_rounded", VALUE, NULL)                            \
    M(GAIN_MOST, "gain_no_more_than_8", VALUE, "loud")                      \
    M(XHAT_ROUNDED, "rounded_before_gain", VALUE, NULL)                     \
    M(Y_CUT, "y_towards_zero", VALUE, NULL)                                 \
    /* rstd */                                                              \
    M(RMS_KEPT, "rms_for_rstd", VALUE, NULL)                                \
    M(NO_RSTD, "rstd_unwritten", UNWRITTEN, NULL)                           \
    /* NaN and infinity */                                                  \
    M(NAN_LEAKS, "nan_row_leaks", VALUE, "nonfinite")                       \
    M(NONFINITE_ZEROED, "nonfinite_row_zeroed", VALUE, "nonfinite")         \
    M(INF_IS_0, "infinite_row_is_0", VALUE, "nonfinite")                    \
    /* shapes and memory */                                                 \
    M(DENSE_ROWS, "dense_rows", VALUE, NULL)                                \
    M(INT32_OFFSET, "int32_offset", VALUE, "far")                           \
    M(UINT32_OFFSET, "uint32_offset", VALUE, "farther")                     \
    M(STRIDE_32, "stride_of_32_bits", VALUE, "farther")                     \
    M(WIDE_65535, "wide_rows_past_65535", UNWRITTEN, "tall")                \
    M(WIDE_2_17, "wide_rows_past_2_17", UNWRITTEN, "taller")                \
    M(TAIL_5, "tail_of_5_before_a_gap", VALUE, NULL)                        \
    M(PAST_BLOCK, "two_past_a_block", VALUE, NULL)                          \
    M(ALIGNED, "assumed_alignment", VALUE, NULL)                            \
    M(NO_TAIL, "tail_dropped", UNWRITTEN, NULL)                             \
    M(NO_LAST_ROW, "last_row_unwritten", UNWRITTEN, NULL)                   \
    M(ROWS_65535, "rows_past_65535", UNWRITTEN, NULL)                       \
    M(CRASH_1, "one_column_crashes", CRASH, NULL)                           \
    M(REMEMBERS, "remembers", VALUE, NULL)                                  \
    M(WRITE_PAST, "writes_past", PAST, NULL)                                \
    M(WRITE_BEFORE, "writes_before", BEFORE, NULL)                          \
    M(WRITE_GAP, "writes_gap", GAP, NULL)                                   \
    M(WRITE_INPUT, "writes_input", INPUT, NULL)                             \
    /* refusals */                                                          \
    M(TAKES_EPS, "accepts_bad_eps", REFUSAL, NULL)                          \
    M(TAKES_OFFSET, "accepts_bad_w_offset", REFUSAL, NULL)                  \
    M(TAKES_NO_R, "accepts_no_r", REFUSAL, NULL)                            \
    M(TAKES_SHAPE, "accepts_bad_shape", REFUSAL, NULL)

#define RMS_NORM_BACKWARD(M)                                                \
    M(HONEST, "control", NONE, NULL)                                        \
    /* dx */                                                                \
    M(NO_OFFSET, "w_offset_forgotten", VALUE, NULL)                         \
    M(NO_GAIN, "w_ignored", VALUE, NULL)                                    \
    M(GAIN_ROUNDED, "gain_rounded", VALUE, NULL)                            \
    M(GAIN_OUTSIDE, "gain_outside_mean", VALUE, NULL)                       \
    M(GAIN_0, "gain_0_has_no_dx", VALUE, "pruned")                          \
    M(NO_RSTD2, "mean_without_rstd_squared", VALUE, NULL)                   \
    M(ONE_RSTD, "mean_with_one_rstd", VALUE, NULL)                          \
    M(RSTD2_FIRST, "rstd_squared_underflows", VALUE, "huge")                \
    M(NO_PULL, "no_mean_term", VALUE, NULL)                                 \
    M(PULL_TWICE, "mean_term_doubled", VALUE, NULL)                         \
    M(SUM_FOR_PULL, "sum_instead_of_mean", VALUE, NULL)                     \
    M(NO_OUTER_RSTD, "no_outer_rstd", VALUE, NULL)                          \
    M(EPS_FORGOTTEN, "eps_forgotten", VALUE, "tiny")                        \
    M(OWN_RSTD, "own_rstd", VALUE, "constant")                              \
    M(PADDED, "mean_over_padded_row", VALUE, NULL)                          \
    M(FIRST_32, "first_warp", VALUE, NULL)                                  \
    M(DY_MOST, "dy_no_more_than_100", VALUE, "loud")                        \
    M(DY_LEAST, "dy_below_f16_is_0", VALUE, "faint")                        \
    M(ADDS_TO_DX, "dx_accumulates", VALUE, NULL)                            \
    /* dr */                                                                \
    M(NO_DR, "dr_dropped", VALUE, NULL)                                     \
    M(DR_TWICE, "dr_twice", VALUE, NULL)                                    \
    M(DR_INSIDE, "dr_times_rstd", VALUE, NULL)                              \
    M(ROUNDED_EARLY, "rounded_before_dr", VALUE, NULL)                      \
    M(NEEDS_DR, "dr_required", STATUS, NULL)                                \
    /* dw */                                                                \
    M(XHAT_BY_GAIN, "dw_from_y_over_w", VALUE, "pruned")                    \
    M(SUM_WITH_GAIN, "dw_with_gain", VALUE, NULL)                           \
    M(SUM_NO_RSTD, "dw_without_rstd", VALUE, NULL)                          \
    M(BY_ROW, "dw_by_row", VALUE, NULL)                                     \
    M(ONE_ROW, "dw_one_row", VALUE, NULL)                                   \
    M(SUM_MEAN, "dw_averaged", VALUE, NULL)                                 \
    M(HALF_SUMS, "dw_in_16_bits", VALUE, NULL)                              \
    M(OVERWRITES, "accumulate_ignored", VALUE, NULL)                        \
    M(ADDS_TWICE, "accumulate_doubled", VALUE, NULL)                        \
    M(ADDS_STALE, "stale_dw", VALUE, NULL)                                  \
    M(ZERO_ROWS, "zero_rows_untouched", UNWRITTEN, NULL)                    \
    M(BY_THREADS, "split_by_threads", REPEAT, NULL)                         \
    M(DRIFTS, "order_drifts", REPEAT, NULL)                                 \
    /* NaN */                                                               \
    M(NONFINITE_ZEROED, "nonfinite_row_zeroed", VALUE, "nonfinite")         \
    M(ZERO_SKIPPED, "rows_with_a_zero_gradient_skipped", VALUE, "nonfinite_zero") \
    M(ZERO_ROW, "row_of_zero_gradients_is_0", VALUE, "nonfinite_zero")      \
    M(SUM_NONFINITE_ROWS, "dw_without_nonfinite_rows", VALUE, "nonfinite")  \
    M(NONFINITE_DY, "nan_gradients_are_0", VALUE, "nonfinite_dy")           \
    /* shapes, memory, refusals */                                          \
    M(DENSE_ROWS, "dense_rows", VALUE, NULL)                                \
    M(INT32_OFFSET, "int32_offset", VALUE, "far")                           \
    M(UINT32_OFFSET, "uint32_offset", VALUE, "farther")                     \
    M(STRIDE_32, "stride_of_32_bits", VALUE, "farther")                     \
    M(NO_TAIL, "tail_dropped", UNWRITTEN, NULL)                             \
    M(WRITE_PAST, "writes_past", PAST, NULL)                                \
    M(TAKES_ACCUMULATE, "accepts_bad_accumulate", REFUSAL, NULL)            \
    M(TAKES_NULL, "accepts_null", REFUSAL, NULL)                            \
    M(WRITES_FIRST, "writes_then_refuses", REFUSAL, NULL)
/* clang-format on */

#endif
