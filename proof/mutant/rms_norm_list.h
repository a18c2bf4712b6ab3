/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_list.h - the mutants of rms_norm: bug, name, the check that must catch it, and the
 * family whose cases must do so (NULL: normal). */
#ifndef TS_MUTANT_RMS_NORM_LIST_H
#define TS_MUTANT_RMS_NORM_LIST_H

/* clang-format off */
#define FORWARD(M)                                                      \
    M(F_HONEST, "control", NONE, NULL)                                  \
    /* the residual */                                                  \
    M(F_UNROUNDED, "r_unrounded", VALUE, NULL)                          \
    M(F_CUT, "r_towards_zero", VALUE, NULL)                             \
    M(F_FLUSHED, "r_subnormal_is_0", VALUE, "denormal")                 \
    M(F_NO_RESIDUAL, "residual_ignored", VALUE, NULL)                   \
    M(F_RESIDUAL_TWICE, "residual_twice", VALUE, NULL)                  \
    M(F_RESIDUAL_MINUS, "residual_subtracted", VALUE, NULL)             \
    M(F_NO_R, "r_unwritten", UNWRITTEN, NULL)                           \
    M(F_X_KEPT, "r_is_x", VALUE, NULL)                                  \
    M(F_Y_OF_X, "y_of_x", VALUE, NULL)                                  \
    M(F_SUM_AGAIN, "in_place_adds_twice", VALUE, NULL)                  \
    M(F_NO_IN_PLACE, "in_place_refused", STATUS, NULL)                  \
    M(F_R_ALWAYS, "r_without_residual", CRASH, NULL)                    \
    M(F_R_IN_RESIDUAL, "r_in_the_residual", INPUT, NULL)                \
    /* the average */                                                   \
    M(F_PADDED, "mean_over_padded_row", VALUE, NULL)                    \
    M(F_POWER_OF_2, "mean_over_power_of_2", VALUE, NULL)                \
    M(F_SAMPLE, "sample_mean", VALUE, NULL)                             \
    M(F_CENTRED, "mean_subtracted", VALUE, "offset")                    \
    M(F_OVERFLOW, "squares_overflow", VALUE, "huge")                    \
    M(F_UNDERFLOW, "squares_underflow", VALUE, "small")                 \
    M(F_HALF_SQUARES, "half_squares", VALUE, "huge")                    \
    M(F_16_BIT_SUM, "sum_in_16_bits", VALUE, NULL)                      \
    M(F_FIRST_32, "first_warp", VALUE, NULL)                            \
    M(F_FIRST_1024, "first_1024", VALUE, NULL)                          \
    M(F_FIRST_16384, "first_16384", VALUE, NULL)                        \
    M(F_FIRST_70000, "first_70000", VALUE, NULL)                        \
    M(F_BY_THREADS, "split_by_threads", REPEAT, NULL)                   \
    /* eps */                                                           \
    M(F_EPS_OUTSIDE, "eps_outside_root", VALUE, "constant")             \
    M(F_EPS_IGNORED, "eps_ignored", VALUE, "tiny")                      \
    M(F_EPS_OF_SUM, "eps_divided_by_cols", VALUE, "tiny")               \
    M(F_EPS_SQUARED, "eps_squared", VALUE, "tiny")                      \
    M(F_EPS_MAXIMUM, "eps_as_floor", VALUE, "tiny")                     \
    M(F_EPS_FIXED, "eps_always_1e_6", VALUE, "constant")                \
    M(F_EPS_LEAST, "eps_no_less_than_1e_8", VALUE, "zeros")             \
    M(F_EPS_BELOW, "eps_below_float_is_0", VALUE, "zeros")              \
    M(F_EPS_PAST, "eps_past_float_is_infinite", VALUE, NULL)            \
    /* the gain */                                                      \
    M(F_NO_GAIN, "w_ignored", VALUE, NULL)                              \
    M(F_NO_OFFSET, "w_offset_forgotten", VALUE, NULL)                   \
    M(F_OFFSET_1, "w_offset_always_1", VALUE, NULL)                     \
    M(F_GAIN_ROUNDED, "gain_rounded", VALUE, NULL)                      \
    M(F_GAIN_MOST, "gain_no_more_than_8", VALUE, "loud")                \
    M(F_RHAT_ROUNDED, "rounded_before_gain", VALUE, NULL)               \
    M(F_Y_CUT, "y_towards_zero", VALUE, NULL)                           \
    /* rstd */                                                          \
    M(F_RMS_KEPT, "rms_for_rstd", VALUE, NULL)                          \
    M(F_NO_RSTD, "rstd_unwritten", UNWRITTEN, NULL)                     \
    /* NaN and infinity */                                              \
    M(F_NAN_LEAKS, "nan_row_leaks", VALUE, "nonfinite")                      \
    M(F_NONFINITE_ZEROED, "nonfinite_row_zeroed", VALUE, "nonfinite")                \
    M(F_INF_IS_0, "infinite_row_is_0", VALUE, "nonfinite")                   \
    /* shapes and memory */                                             \
    M(F_DENSE, "dense_rows", VALUE, NULL)                               \
    M(F_INT32, "int32_offset", VALUE, "far")                            \
    M(F_ALIGNED, "assumed_alignment", VALUE, NULL)                      \
    M(F_NO_TAIL, "tail_dropped", UNWRITTEN, NULL)                       \
    M(F_NO_LAST_ROW, "last_row_unwritten", UNWRITTEN, NULL)             \
    M(F_ROWS_65535, "rows_past_65535", UNWRITTEN, NULL)                 \
    M(F_CRASH_1, "one_column_crashes", CRASH, NULL)                     \
    M(F_REMEMBERS, "remembers", VALUE, NULL)                            \
    M(F_WRITE_PAST, "writes_past", PAST, NULL)                          \
    M(F_WRITE_BEFORE, "writes_before", BEFORE, NULL)                    \
    M(F_WRITE_GAP, "writes_gap", GAP, NULL)                             \
    M(F_WRITE_INPUT, "writes_input", INPUT, NULL)                       \
    /* refusals */                                                      \
    M(F_TAKES_EPS, "accepts_bad_eps", REFUSAL, NULL)                    \
    M(F_TAKES_OFFSET, "accepts_bad_w_offset", REFUSAL, NULL)            \
    M(F_TAKES_NO_R, "accepts_no_r", REFUSAL, NULL)                      \
    M(F_TAKES_SHAPE, "accepts_bad_shape", REFUSAL, NULL)

#define BACKWARD(M)                                                     \
    M(B_HONEST, "control", NONE, NULL)                                  \
    /* dx */                                                            \
    M(B_NO_OFFSET, "w_offset_forgotten", VALUE, NULL)                   \
    M(B_NO_GAIN, "w_ignored", VALUE, NULL)                              \
    M(B_GAIN_ROUNDED, "gain_rounded", VALUE, NULL)                      \
    M(B_GAIN_OUTSIDE, "gain_outside_mean", VALUE, NULL)                 \
    M(B_GAIN_0, "gain_0_has_no_dx", VALUE, "pruned")                    \
    M(B_NO_RSTD2, "mean_without_rstd_squared", VALUE, NULL)             \
    M(B_ONE_RSTD, "mean_with_one_rstd", VALUE, NULL)                    \
    M(B_RSTD2_FIRST, "rstd_squared_underflows", VALUE, "huge")          \
    M(B_NO_PULL, "no_mean_term", VALUE, NULL)                           \
    M(B_PULL_TWICE, "mean_term_doubled", VALUE, NULL)                   \
    M(B_NO_OUTER_RSTD, "no_outer_rstd", VALUE, NULL)                    \
    M(B_EPS_FORGOTTEN, "eps_forgotten", VALUE, "tiny")                  \
    M(B_OWN_RSTD, "own_rstd", VALUE, "constant")                        \
    M(B_PADDED, "mean_over_padded_row", VALUE, NULL)                    \
    M(B_FIRST_32, "first_warp", VALUE, NULL)                            \
    M(B_DY_MOST, "dy_no_more_than_100", VALUE, "loud")                  \
    M(B_DY_LEAST, "dy_below_f16_is_0", VALUE, "faint")                  \
    M(B_ADDS_TO_DX, "dx_accumulates", VALUE, NULL)                      \
    /* dr */                                                            \
    M(B_NO_DR, "dr_dropped", VALUE, NULL)                               \
    M(B_DR_TWICE, "dr_twice", VALUE, NULL)                              \
    M(B_DR_INSIDE, "dr_times_rstd", VALUE, NULL)                        \
    M(B_ROUNDED_EARLY, "rounded_before_dr", VALUE, NULL)                \
    M(B_NEEDS_DR, "dr_required", STATUS, NULL)                          \
    /* dw */                                                            \
    M(B_RHAT_BY_GAIN, "dw_from_y_over_w", VALUE, "pruned")              \
    M(B_DW_WITH_GAIN, "dw_with_gain", VALUE, NULL)                      \
    M(B_DW_NO_RSTD, "dw_without_rstd", VALUE, NULL)                     \
    M(B_DW_BY_ROW, "dw_by_row", VALUE, NULL)                            \
    M(B_DW_ONE_ROW, "dw_one_row", VALUE, NULL)                          \
    M(B_DW_MEAN, "dw_averaged", VALUE, NULL)                            \
    M(B_HALF_SUMS, "dw_in_16_bits", VALUE, NULL)                        \
    M(B_OVERWRITES, "accumulate_ignored", VALUE, NULL)                  \
    M(B_ADDS_TWICE, "accumulate_doubled", VALUE, NULL)                  \
    M(B_ADDS_STALE, "stale_dw", VALUE, NULL)                            \
    M(B_ZERO_ROWS, "zero_rows_untouched", UNWRITTEN, NULL)              \
    M(B_BY_THREADS, "split_by_threads", REPEAT, NULL)                   \
    M(B_DRIFTS, "order_drifts", REPEAT, NULL)                           \
    /* NaN */                                                           \
    M(B_NONFINITE_ZEROED, "nonfinite_row_zeroed", VALUE, "nonfinite")                \
    M(B_DW_NONFINITE_ROWS, "dw_without_nonfinite_rows", VALUE, "nonfinite")            \
    M(B_NONFINITE_DY, "nan_gradients_are_0", VALUE, "nonfinite_dy")               \
    /* shapes, memory, refusals */                                      \
    M(B_DENSE, "dense_rows", VALUE, NULL)                               \
    M(B_INT32, "int32_offset", VALUE, "far")                            \
    M(B_NO_TAIL, "tail_dropped", UNWRITTEN, NULL)                       \
    M(B_WRITE_PAST, "writes_past", PAST, NULL)                          \
    M(B_TAKES_ACCUMULATE, "accepts_bad_accumulate", REFUSAL, NULL)      \
    M(B_TAKES_NULL, "accepts_null", REFUSAL, NULL)                      \
    M(B_WRITES_FIRST, "writes_then_refuses", REFUSAL, NULL)
/* clang-format on */

#endif
