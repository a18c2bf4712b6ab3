/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8_list.h - the mutants of flash_attention_fp8. Per line: bug, name, the check that
 * must catch it, and the family whose cases must do so (NULL: normal).
 *
 * Private to attention_fp8.c. Bugs that attention of any dtype may have are in attention_list.h. */
#ifndef TS_ATTENTION_FP8_LIST_H
#define TS_ATTENTION_FP8_LIST_H

/* clang-format off */
#define MUTANTS(M) \
    M(HONEST, "control", NONE, NULL) \
    M(ROUNDED, "control_rounds_weights", NONE, NULL) \
    /* scales */ \
    M(NO_Q_SCALE, "q_scale_missing", VALUE, NULL) \
    M(NO_K_SCALE, "k_scale_missing", VALUE, NULL) \
    M(NO_V_SCALE, "v_scale_missing", VALUE, NULL) \
    M(Q_SCALE_KV_HEAD, "q_scale_of_the_kv_head", VALUE, NULL) \
    M(K_SCALE_Q_HEAD, "k_scale_of_the_query_head", VALUE, NULL) \
    M(V_SCALE_FIRST_HEAD, "v_scale_of_the_first_head", VALUE, NULL) \
    M(SCALES_FIRST_BATCH, "scales_of_the_first_batch", VALUE, NULL) \
    M(K_V_SWAPPED, "k_scale_and_v_scale_swapped", VALUE, NULL) \
    M(V_SCALE_TWICE, "v_scale_twice", VALUE, NULL) \
    M(SCALE_INVERTED, "k_scale_divides", VALUE, NULL) \
    M(SCALE_HALF, "scales_in_f16", VALUE, "scaled") \
    M(LSE_UNSCALED, "lse_without_the_scales_of_heads", VALUE, NULL) \
    /* codes */ \
    M(NAN_IS_480, "nan_code_is_480", VALUE, "nonfinite") \
    M(NAN_IS_480_KEY, "nan_code_of_a_key_is_480", VALUE, "nonfinite_key") \
    M(NAN_IS_480_VALUE, "nan_code_of_a_value_is_480", VALUE, "nonfinite_value") \
    M(NAN_MINUS_ONLY, "nan_code_with_sign_only", VALUE, "nonfinite") \
    M(NO_448, "largest_numbers_are_nan", VALUE, "extreme") \
    M(MOST_240, "codes_past_240_saturate", VALUE, "extreme") \
    M(FLUSHED, "subnormal_codes_are_0", VALUE, "subnormal") \
    M(SUBNORMAL_BIAS, "subnormal_codes_have_a_leading_one", VALUE, "subnormal") \
    M(E5M2, "codes_read_as_e5m2", VALUE, NULL) \
    M(BIAS_8, "exponent_bias_8", VALUE, NULL) \
    M(UNSIGNED, "sign_of_codes_ignored", VALUE, NULL) \
    /* weights */ \
    M(NOT_LIFTED, "small_weights_lost", VALUE, "tail") \
    M(SATURATED, "weights_saturate", VALUE, NULL) \
    M(TWO_BITS, "weights_of_two_bits", VALUE, NULL) \
    M(NOT_RESCALED, "sums_not_rescaled", VALUE, "late") \
    M(HALTS, "sums_of_13_bits", VALUE, "flat") \
    M(LSE_ROUNDED, "lse_of_rounded_weights", VALUE, NULL) \
    /* order of keys and columns */ \
    M(KEYS_PERMUTED, "weights_in_another_order_than_values", VALUE, NULL) \
    M(COLUMNS_PERMUTED, "even_columns_first", VALUE, NULL) \
    M(PADDING, "padding_times_0", VALUE, "padding") \
    /* conduct */ \
    M(UNWRITTEN, "last_column_unwritten", UNWRITTEN, NULL) \
    M(READS_SCALE_PAST, "reads_past_k_scale", PAST, NULL) \
    M(WRITES_SCALE, "writes_v_scale", INPUT, NULL) \
    M(TAKES_SCALE, "accepts_a_scale_of_0", REFUSAL, NULL) \
    M(TAKES_NULL, "accepts_missing_scales", REFUSAL, NULL) \
    M(TAKES_F64, "accepts_f64", REFUSAL, NULL)
/* clang-format on */

#endif
