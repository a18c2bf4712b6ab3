/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_list.h - the mutants of swiglu: bug, name, the check that must catch it, and the family
 * whose cases must do so (NULL: normal). */
#ifndef TS_MUTANT_SWIGLU_LIST_H
#define TS_MUTANT_SWIGLU_LIST_H

/* clang-format off */
#define FORWARD(M)                                                      \
    M(F_HONEST, "control", NONE, NULL)                                  \
    /* the activation */                                                \
    M(F_SIGMOID, "sigmoid_alone", VALUE, NULL)                          \
    M(F_RELU, "relu", VALUE, NULL)                                      \
    M(F_GELU, "gelu_by_sigmoid", VALUE, NULL)                           \
    M(F_SIGN, "sigmoid_of_minus_gate", VALUE, NULL)                     \
    M(F_SWAPPED, "gate_and_up_swapped", VALUE, NULL)                    \
    M(F_NO_UP, "up_ignored", VALUE, NULL)                               \
    M(F_BOTH, "silu_of_both", VALUE, NULL)                              \
    /* range and rounding */                                            \
    M(F_EXP_RATIO, "exp_over_1_plus_exp", VALUE, "large")               \
    M(F_ONE_MINUS, "one_minus_sigmoid", VALUE, "large")                 \
    M(F_TAYLOR, "half_gate_below_1e_6", VALUE, "tiny")                  \
    M(F_CLAMPED, "gate_no_less_than_minus_20", VALUE, "large")          \
    M(F_UNDERFLOW, "sigmoid_underflows", VALUE, "deep")                 \
    M(F_OVERFLOW, "gate_times_up_overflows", VALUE, "deep")             \
    M(F_ROUNDED, "silu_rounded", VALUE, NULL)                           \
    M(F_16_BIT_EXP, "exp_in_16_bits", VALUE, NULL)                      \
    M(F_CUT, "towards_zero", VALUE, NULL)                               \
    M(F_NAN_0, "nan_is_0", VALUE, "nonfinite")                               \
    M(F_MINUS_INF, "minus_infinity_is_nan", VALUE, "nonfinite")              \
    M(F_INF, "infinity_is_the_largest", VALUE, "nonfinite")                  \
    /* shapes and memory */                                             \
    M(F_DENSE, "dense_rows", VALUE, NULL)                               \
    M(F_Y_AS_X, "y_stride_ignored", GAP, NULL)                          \
    M(F_INT32, "int32_offset", VALUE, "far")                            \
    M(F_NO_TAIL, "tail_dropped", UNWRITTEN, NULL)                       \
    M(F_ROWS_65535, "rows_past_65535", UNWRITTEN, NULL)                 \
    M(F_COLS_8192, "columns_past_8192", UNWRITTEN, NULL)                \
    M(F_NO_IN_PLACE, "in_place_refused", STATUS, NULL)                  \
    M(F_CLEARS, "in_place_cleared_first", VALUE, NULL)                  \
    M(F_WRITES_INPUT, "writes_input", INPUT, NULL)                      \
    M(F_WRITES_PAST, "writes_past", PAST, NULL)                         \
    M(F_BY_THREADS, "depends_on_threads", REPEAT, NULL)                 \
    /* refusals */                                                      \
    M(F_TAKES_STRIDE, "accepts_bad_stride", REFUSAL, NULL)              \
    M(F_TAKES_NULL, "accepts_null", REFUSAL, NULL)

#define BACKWARD(M)                                                     \
    M(B_HONEST, "control", NONE, NULL)                                  \
    /* dgate */                                                         \
    M(B_SIGMOID, "slope_is_sigmoid", VALUE, NULL)                       \
    M(B_SLOPE_OF_S, "slope_of_sigmoid", VALUE, NULL)                    \
    M(B_PLUS_S, "slope_with_s_for_1_minus_s", VALUE, NULL)              \
    M(B_NO_PULL, "slope_without_gate", VALUE, "root")                   \
    M(B_RELU, "slope_of_relu", VALUE, NULL)                             \
    M(B_NO_UP, "dgate_without_up", VALUE, NULL)                         \
    M(B_NO_DY, "dgate_without_dy", VALUE, NULL)                         \
    M(B_ABOVE_0, "slope_never_below_0", VALUE, NULL)                    \
    M(B_ONE_MINUS, "one_minus_sigmoid", VALUE, "large")                 \
    /* dup */                                                           \
    M(B_DUP_S, "dup_without_gate", VALUE, NULL)                         \
    M(B_DUP_UP, "dup_with_up", VALUE, NULL)                             \
    M(B_SWAPPED, "gradients_swapped", VALUE, NULL)                      \
    M(B_NO_DUP, "dup_unwritten", UNWRITTEN, NULL)                       \
    /* range and rounding */                                            \
    M(B_UNDERFLOW, "sigmoid_underflows", VALUE, "deep")                 \
    M(B_DY_UP_FIRST, "dy_times_up_overflows", VALUE, "extreme")         \
    M(B_ROUNDED, "slope_rounded", VALUE, NULL)                          \
    M(B_CUT, "towards_zero", VALUE, NULL)                               \
    M(B_NAN_0, "nan_is_0", VALUE, "nonfinite")                               \
    M(B_INF_0, "infinity_times_0", VALUE, "nonfinite")                       \
    M(B_DY_LEAST, "dy_below_normal_is_0", VALUE, "denormal")            \
    /* shapes and memory */                                             \
    M(B_DENSE, "dense_rows", VALUE, NULL)                               \
    M(B_DY_AS_X, "y_stride_ignored", VALUE, NULL)                       \
    M(B_INT32, "int32_offset", VALUE, "far")                            \
    M(B_NO_TAIL, "tail_dropped", UNWRITTEN, NULL)                       \
    M(B_OVERWRITES, "in_place_reads_what_it_wrote", VALUE, NULL)        \
    M(B_ADDS, "adds_in_place", VALUE, NULL)                             \
    M(B_NO_IN_PLACE, "in_place_refused", STATUS, NULL)                  \
    M(B_WRITES_DY, "writes_input", INPUT, NULL)                         \
    M(B_WRITES_PAST, "writes_past", PAST, NULL)                         \
    /* refusals */                                                      \
    M(B_TAKES_ONE, "accepts_one_output", REFUSAL, NULL)                 \
    M(B_TAKES_NULL, "accepts_null", REFUSAL, NULL)
/* clang-format on */

#endif
