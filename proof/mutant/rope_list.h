/* SPDX-License-Identifier: Apache-2.0 */
/* rope_list.h - the mutants of rope: bug, name, the check that must catch it, and the family whose
 * cases must do so (NULL: normal). */
#ifndef TS_MUTANT_ROPE_LIST_H
#define TS_MUTANT_ROPE_LIST_H

/* clang-format off */
#define ROPE(M)                                                         \
    M(HONEST, "control", NONE, NULL)                                    \
    /* angles */                                                        \
    M(FLOAT_ANGLE, "angle_in_float", VALUE, NULL)                       \
    M(FLOAT_FREQUENCY, "frequency_in_float", VALUE, NULL)               \
    M(FLOAT_POSITION, "position_in_float", VALUE, "long")               \
    M(FLOAT_QUARTER, "quarter_turn_in_float", VALUE, NULL)              \
    M(QUARTER_16, "quarters_in_16_bits", VALUE, "long")                 \
    M(UNSIGNED, "position_unsigned", VALUE, "long")                     \
    M(NO_MINUS, "position_below_0_is_0", VALUE, "long")                 \
    M(BY_ROW, "row_for_position", VALUE, NULL)                          \
    M(FIRST_POSITION, "first_position_for_all", VALUE, NULL)            \
    M(FROM_1, "positions_from_1", VALUE, NULL)                          \
    M(THETA_FIXED, "theta_always_10000", VALUE, NULL)                   \
    M(BY_HEAD_DIM, "exponent_by_head_dim", VALUE, NULL)                 \
    M(BY_PAIR, "exponent_without_2", VALUE, NULL)                       \
    M(FROM_SECOND, "exponent_from_second_pair", VALUE, NULL)            \
    M(NO_TABLE, "table_ignored", VALUE, NULL)                           \
    M(NEEDS_TABLE, "table_required", STATUS, NULL)                      \
    M(NARROW_TURN, "cosine_in_16_bits", VALUE, NULL)                    \
    /* pairs */                                                         \
    M(HALVES, "halves_always", VALUE, NULL)                             \
    M(ADJACENT, "adjacent_always", VALUE, NULL)                         \
    M(HALF_OF_HEAD, "halves_of_the_head", UNWRITTEN, NULL)              \
    M(NO_INVERSE, "inverse_ignored", VALUE, NULL)                       \
    M(ALL_INVERSE, "inverse_always", VALUE, NULL)                       \
    M(REFLECTS, "reflected", VALUE, NULL)                               \
    M(NO_SINE, "sine_forgotten", VALUE, NULL)                           \
    M(IN_PLACE, "in_place_reads_what_it_wrote", VALUE, NULL)            \
    M(NO_IN_PLACE, "in_place_refused", STATUS, NULL)                    \
    M(CUT, "towards_zero", VALUE, NULL)                                 \
    M(TWICE_ROUNDED, "products_in_16_bits", VALUE, NULL)                \
    M(OVERFLOWS, "half_the_range", VALUE, "huge")                       \
    M(NAN_0, "nan_is_0", VALUE, "nonfinite")                                 \
    M(NAN_HEAD, "nan_reaches_the_next_pair", VALUE, "nonfinite")             \
    /* the rest of a head */                                            \
    M(NO_REST, "rest_unwritten", UNWRITTEN, NULL)                       \
    M(REST_0, "rest_is_0", VALUE, NULL)                                 \
    M(REST_FLUSHED, "rest_flushed", VALUE, "denormal")                  \
    M(REST_TURNED, "rest_turned", VALUE, NULL)                          \
    /* shapes and memory */                                             \
    M(DENSE_X, "dense_rows", VALUE, NULL)                               \
    M(Y_AS_X, "y_stride_ignored", GAP, NULL)                            \
    M(INT32, "int32_offset", VALUE, "far")                              \
    M(NO_LAST_HEAD, "last_head_unwritten", UNWRITTEN, NULL)             \
    M(ONE_HEAD_TURNED, "first_head_alone", VALUE, NULL)                 \
    M(PAIRS_128, "pairs_past_128", UNWRITTEN, NULL)                     \
    M(NO_TAIL, "tail_dropped", UNWRITTEN, NULL)                         \
    M(ROWS_65535, "rows_past_65535", UNWRITTEN, NULL)                   \
    M(WRITES_X, "writes_input", INPUT, NULL)                            \
    M(WRITES_PAST, "writes_past", PAST, NULL)                           \
    M(BY_THREADS, "depends_on_threads", REPEAT, NULL)                   \
    /* refusals */                                                      \
    M(TAKES_ODD, "accepts_odd_rotary_dim", REFUSAL, NULL)               \
    M(TAKES_WIDE, "accepts_rotary_dim_past_head", REFUSAL, NULL)        \
    M(TAKES_THETA, "accepts_bad_theta", REFUSAL, NULL)                  \
    M(TAKES_PAIRING, "accepts_bad_pairing", REFUSAL, NULL)              \
    M(TAKES_STRIDE, "accepts_bad_stride", REFUSAL, NULL)
/* clang-format on */

#endif
