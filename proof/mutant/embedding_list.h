/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_list.h - the mutants of embedding: bug, name, the check that must catch it, and the
 * family whose cases must do so (NULL: normal). */
#ifndef TS_MUTANT_EMBEDDING_LIST_H
#define TS_MUTANT_EMBEDDING_LIST_H

/* clang-format off */
#define FORWARD(M)                                                      \
    M(F_HONEST, "control", NONE, NULL)                                  \
    /* the scale */                                                     \
    M(F_NO_SCALE, "scale_ignored", VALUE, NULL)                         \
    M(F_SCALE_TWICE, "scale_twice", VALUE, NULL)                        \
    M(F_SCALE_16, "scale_in_16_bits", VALUE, NULL)                      \
    M(F_SCALE_FLOAT, "scale_as_float", VALUE, NULL)                     \
    M(F_SCALE_SIZE, "scale_without_sign", VALUE, NULL)                  \
    /* elements */                                                      \
    M(F_FLUSHED, "subnormal_is_0", VALUE, "denormal")                   \
    M(F_BY_BF16, "through_bf16", VALUE, NULL)                           \
    M(F_CUT, "towards_zero", VALUE, NULL)                               \
    M(F_NARROW_Y, "y_dtype_ignored", VALUE, NULL)                       \
    M(F_MOST, "no_more_than_65504", VALUE, "huge")                      \
    /* NaN and infinity */                                              \
    M(F_NAN_0, "nan_is_0", VALUE, "nonfinite")                               \
    M(F_INF_MAX, "infinity_is_the_largest", VALUE, "nonfinite")              \
    M(F_NAN_LEAKS, "nan_reaches_the_next_row", VALUE, "nonfinite")           \
    /* rows and tokens */                                               \
    M(F_BY_ROW, "row_for_token", VALUE, NULL)                           \
    M(F_TOKEN_NEXT, "token_after", VALUE, NULL)                         \
    M(F_TOKEN_16, "token_in_16_bits", VALUE, NULL)                      \
    M(F_TOKEN_BEFORE, "repeated_token_unwritten", UNWRITTEN, "same")    \
    M(F_LAST_TOKEN, "last_token_left_out", VALUE, "ends")               \
    M(F_DENSE_TABLE, "dense_table", VALUE, NULL)                        \
    M(F_DENSE_Y, "dense_y", GAP, NULL)                                  \
    M(F_SWAPPED, "strides_swapped", VALUE, NULL)                        \
    M(F_INT32, "int32_offset", VALUE, "far")                            \
    M(F_NO_TAIL, "tail_dropped", UNWRITTEN, NULL)                       \
    M(F_NO_LAST_ROW, "last_row_unwritten", UNWRITTEN, NULL)             \
    M(F_ROWS_65535, "rows_past_65535", UNWRITTEN, NULL)                 \
    M(F_WRITE_PAST, "writes_past", PAST, NULL)                          \
    /* refusals */                                                      \
    M(F_TAKES_SCALE, "accepts_bad_scale", REFUSAL, NULL)                \
    M(F_TAKES_Y_DTYPE, "accepts_bad_y_dtype", REFUSAL, NULL)            \
    M(F_TAKES_TOKEN, "accepts_stray_token", REFUSAL, NULL)              \
    M(F_TAKES_NEGATIVE, "accepts_negative_token", REFUSAL, NULL)        \
    M(F_WRITES_FIRST, "writes_then_refuses", REFUSAL, NULL)

#define BACKWARD(M)                                                     \
    M(B_HONEST, "control", NONE, NULL)                                  \
    /* sums */                                                          \
    M(B_NO_SCALE, "scale_ignored", VALUE, NULL)                         \
    M(B_SCALES_ALL, "scale_applied_to_what_was_there", VALUE, NULL)     \
    M(B_LAST_WINS, "last_row_wins", VALUE, NULL)                        \
    M(B_FIRST_WINS, "first_row_wins", VALUE, NULL)                      \
    M(B_MEAN, "averaged", VALUE, NULL)                                  \
    M(B_HALF_SUMS, "sums_in_16_bits", VALUE, "constant")                \
    M(B_FLOAT_SUMS, "sums_in_float", VALUE, "constant")                 \
    M(B_OVERFLOW, "parts_overflow", VALUE, "huge")                      \
    M(B_FLUSHED, "subnormal_is_0", VALUE, "denormal")                   \
    M(B_LOST_RACE, "additions_lost", VALUE, "same")                     \
    M(B_BY_THREADS, "split_by_threads", REPEAT, NULL)                   \
    M(B_DRIFTS, "order_drifts", REPEAT, "same")                         \
    /* accumulate */                                                    \
    M(B_OVERWRITES, "accumulate_ignored", VALUE, NULL)                  \
    M(B_ADDS_TWICE, "accumulate_doubled", VALUE, NULL)                  \
    M(B_ADDS_STALE, "stale_dtable", VALUE, NULL)                        \
    M(B_OTHERS_KEPT, "other_tokens_unwritten", UNWRITTEN, NULL)         \
    M(B_OTHERS_ZERO, "other_tokens_zeroed", VALUE, NULL)                \
    M(B_ZERO_ROWS, "zero_rows_untouched", UNWRITTEN, NULL)              \
    /* NaN */                                                           \
    M(B_NAN_0, "nan_is_0", VALUE, "nonfinite")                               \
    M(B_NAN_ROW, "nan_in_the_whole_row", VALUE, "nonfinite")                 \
    /* rows and tokens */                                               \
    M(B_BY_ROW, "row_for_token", VALUE, NULL)                           \
    M(B_TOKEN_16, "token_in_16_bits", VALUE, NULL)                      \
    M(B_DENSE_TABLE, "dense_table", GAP, NULL)                          \
    M(B_DENSE_DY, "dense_dy", VALUE, NULL)                              \
    M(B_INT32, "int32_offset", VALUE, "far")                            \
    M(B_NO_TAIL, "tail_dropped", UNWRITTEN, NULL)                       \
    M(B_ROWS_65535, "rows_past_65535", VALUE, NULL)                     \
    M(B_WRITE_PAST, "writes_past", PAST, NULL)                          \
    /* refusals */                                                      \
    M(B_TAKES_ACCUMULATE, "accepts_bad_accumulate", REFUSAL, NULL)      \
    M(B_TAKES_TOKEN, "accepts_stray_token", REFUSAL, NULL)              \
    M(B_TAKES_NULL, "accepts_null", REFUSAL, NULL)                      \
    M(B_WRITES_FIRST, "writes_then_refuses", REFUSAL, NULL)
/* clang-format on */

#endif
