/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_list.h - the mutants of layer norm: bug, name, the check that must catch it, the
 * family whose cases must do so (NULL: normal), and the workspace query if there is one. */
#ifndef TS_MUTANT_LAYERNORM_LIST_H
#define TS_MUTANT_LAYERNORM_LIST_H

/* clang-format off */
#define LAYERNORM_FORWARD(M)                                                \
    M(HONEST, "control", NONE, NULL)                                        \
    /* mean and variance */                                                 \
    M(ONE_PASS, "one_pass_variance", VALUE, "offset")                       \
    M(SAMPLE, "sample_variance", VALUE, NULL)                               \
    M(SQUARES_OVERFLOW, "variance_overflows", VALUE, "huge")                \
    M(SQUARES_UNDERFLOW, "variance_underflows", VALUE, "small")             \
    M(SCALE_256, "scaled_by_the_first_256", VALUE, "peak")                  \
    M(HALF_SQUARES, "half_squares", VALUE, "huge")                          \
    M(SUM_OVERFLOW, "sum_overflows", VALUE, "extreme")                      \
    M(DIFFERENCE, "difference_overflows", VALUE, "extreme")                 \
    M(FIRST_32, "first_warp", VALUE, NULL)                                  \
    M(FIRST_256, "first_256", VALUE, NULL)                                  \
    M(FIRST_1024, "first_1024", VALUE, NULL)                                \
    M(FIRST_16384, "sums_of_first_16384", VALUE, NULL)                      \
    M(FIRST_70000, "sums_of_first_70000", VALUE, NULL)                      \
    M(DENSE_WRONG, "dense_rows_wrong", VALUE, NULL)                         \
    M(FLAT_GARBAGE, "flat_garbage", VALUE, "flat_huge")                     \
    M(BY_THREADS, "split_by_threads", REPEAT, NULL)                         \
    /* eps */                                                               \
    M(EPS_OUTSIDE, "eps_outside_root", VALUE, "constant")                   \
    M(EPS_IGNORED, "eps_ignored", VALUE, "tiny")                            \
    M(EPS_LEAST, "eps_no_less_than_1e_8", VALUE, "constant")                \
    M(EPS_MOST, "eps_no_more_than_1", VALUE, NULL)                          \
    M(EPS_BELOW, "eps_below_float_is_0", VALUE, "constant")                 \
    M(EPS_PAST, "eps_past_float_is_infinite", VALUE, NULL)                  \
    M(RESCALE, "rescale_underflow", VALUE, "flat_huge")                     \
    /* gamma and beta */                                                    \
    M(NO_GAIN, "gamma_ignored", VALUE, NULL)                                \
    M(NO_BETA, "beta_ignored", VALUE, NULL)                                 \
    M(GAIN_MOST, "gamma_no_more_than_8", VALUE, "loud")                     \
    M(BETA_MOST, "beta_no_more_than_8", VALUE, "loud")                      \
    M(LOW_DIGITS, "low_precision", VALUE, NULL)                             \
    M(Y_CUT, "bf16_rounded_towards_zero", VALUE, NULL)                      \
    M(ODD_F16, "last_of_odd_unaligned_f16", VALUE, NULL)                    \
    /* NaN and infinity */                                                  \
    M(NAN_LEAKS, "nan_row_leaks", VALUE, "nonfinite")                       \
    M(NONFINITE_ZEROED, "nonfinite_row_zeroed", VALUE, "nonfinite")         \
    M(ONE_COLUMN, "one_column_is_never_nonfinite", VALUE, "nonfinite")      \
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
    M(ROWS_20000, "rows_past_20000", UNWRITTEN, "ramp")                     \
    M(NO_MEAN, "mean_unwritten", UNWRITTEN, NULL)                           \
    M(NO_RSTD, "rstd_unwritten", UNWRITTEN, NULL)                           \
    M(WRITE_PAST, "writes_past", PAST, NULL)                                \
    M(WRITE_BEFORE, "writes_before", BEFORE, NULL)                          \
    M(WRITE_GAP, "writes_gap", GAP, NULL)                                   \
    M(WRITE_INPUT, "writes_input", INPUT, NULL)                             \
    M(FAR_WRITE, "writes_far_past", PAST, NULL)                             \
    M(READ_PAST, "reads_past", PAST, NULL)                                  \
    M(READ_BEFORE, "reads_before", BEFORE, NULL)                            \
    M(REMEMBERS, "remembers", VALUE, NULL)                                  \
    M(HANG, "hang", HANG, NULL)                                             \
    M(CRASH, "crash", CRASH, NULL)                                          \
    M(NO_DEFAULT, "no_default_threads", CRASH, NULL)                        \
    /* refusals */                                                          \
    M(WRONG_STATUS, "wrong_status", STATUS, NULL)                           \
    M(TAKES_EPS, "accepts_bad_eps", REFUSAL, NULL)                          \
    M(TAKES_SHAPE, "accepts_bad_shape", REFUSAL, NULL)                      \
    M(TAKES_DTYPE, "accepts_bad_dtype", REFUSAL, NULL)                      \
    M(GAP_REFUSES, "scribbles_then_refuses", REFUSAL, NULL)

#define LAYERNORM_BACKWARD(M)                                               \
    M(HONEST, "control", NONE, NULL)                                        \
    M(HONEST_WS, "control_workspace", NONE, NULL, workspace)                \
    /* dx */                                                                \
    M(GAIN_OUTSIDE, "gamma_outside_means", VALUE, NULL)                     \
    M(NO_GAIN, "gamma_ignored", VALUE, NULL)                                \
    M(GAIN_0, "gamma_0_has_no_dx", VALUE, "faint")                          \
    M(PULL_TWICE, "lost_half", VALUE, NULL)                                 \
    M(SUMS_FOR_MEANS, "sums_instead_of_means", VALUE, NULL)                 \
    M(SUM_FOR_PULL, "second_mean_not_divided", VALUE, NULL)                 \
    M(NO_MEAN_G, "mean_of_g_missing", VALUE, NULL)                          \
    M(NO_PULL_XHAT, "mean_of_g_xhat_missing", VALUE, NULL)                  \
    M(NO_OUTER_RSTD, "dx_without_rstd", VALUE, NULL)                        \
    M(NO_PULL, "no_mean_terms", VALUE, NULL)                                \
    M(EPS_FORGOTTEN, "eps_forgotten", VALUE, "tiny")                        \
    M(DIFFERENCE, "difference_overflows", VALUE, "extreme")                 \
    M(FIRST_32, "first_warp", VALUE, NULL)                                  \
    M(DY_MOST, "dy_no_more_than_100", VALUE, "loud")                        \
    M(DY_LEAST, "dy_below_f16_is_0", VALUE, "faint")                        \
    M(ADDS_TO_DX, "dx_accumulates", VALUE, NULL)                            \
    /* dgamma and dbeta */                                                  \
    M(BY_ROW, "dgamma_by_row", VALUE, NULL)                                 \
    M(ONE_ROW, "dgamma_one_row", VALUE, NULL)                               \
    M(DBETA_WITH_GAIN, "dbeta_with_gamma", VALUE, NULL)                     \
    M(HALF_SUMS, "half_sums", VALUE, NULL)                                  \
    M(OVERWRITES, "accumulate_ignored", VALUE, NULL)                        \
    M(ADDS_TWICE, "accumulate_doubled", VALUE, NULL)                        \
    M(ADDS_BY_BLOCK, "adds_by_block", VALUE, NULL)                          \
    M(ADDS_STALE, "stale_dgamma", VALUE, NULL)                              \
    M(SUMS_MOST, "accumulate_drops_past_100", VALUE, "loud")                \
    M(ZERO_ROWS, "zero_rows_untouched", UNWRITTEN, NULL)                    \
    M(ZERO_ROWS_BF16, "zero_rows_bf16", UNWRITTEN, NULL)                    \
    M(DIRTY_WS, "dirty_workspace", VALUE, NULL, workspace)                  \
    M(BY_THREADS, "split_by_threads", REPEAT, NULL)                         \
    M(DRIFTS, "order_drifts", REPEAT, NULL)                                 \
    /* NaN */                                                               \
    M(NONFINITE_ZEROED, "nonfinite_row_zeroed", VALUE, "nonfinite")         \
    M(ZERO_SKIPPED, "rows_with_a_zero_gradient_skipped", VALUE, "nonfinite_zero") \
    M(ZERO_ROW, "row_of_zero_gradients_is_0", VALUE, "nonfinite_zero")      \
    M(NAN_DBETA, "nan_in_dbeta", VALUE, "nonfinite")                        \
    /* shapes and memory */                                                 \
    M(DENSE_ROWS, "dense_rows", VALUE, NULL)                                \
    M(INT32_OFFSET, "int32_offset", VALUE, "far")                           \
    M(UINT32_OFFSET, "uint32_offset", VALUE, "farther")                     \
    M(STRIDE_32, "stride_of_32_bits", VALUE, "farther")                     \
    M(NO_TAIL, "tail_dropped", UNWRITTEN, NULL)                             \
    M(WRITE_PAST, "writes_past", PAST, NULL)                                \
    M(PAST_WS, "writes_workspace_past", PAST, NULL, workspace)              \
    M(BEFORE_WS, "writes_workspace_before", BEFORE, NULL, workspace)        \
    /* refusals */                                                          \
    M(TAKES_ALL, "accepts_anything", REFUSAL, NULL, workspace)              \
    M(TAKES_NULL, "accepts_null", REFUSAL, NULL)                            \
    M(TAKES_NO_WS, "accepts_short_workspace", REFUSAL, NULL, workspace)     \
    M(REFUSES_ODD, "refuses_wrongly", REFUSAL, NULL, workspace)             \
    M(WRITES_FIRST, "writes_then_refuses", REFUSAL, NULL)
/* clang-format on */

#endif
