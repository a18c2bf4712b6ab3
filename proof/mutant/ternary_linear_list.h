/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear_list.h - the mutants of ternary_linear. Per line: bug, name, the check that must
 * catch it, and the family whose cases must do so (NULL: normal).
 *
 * Private to ternary_linear.c. */
#ifndef TS_TERNARY_LINEAR_LIST_H
#define TS_TERNARY_LINEAR_LIST_H

/* clang-format off */
#define MUTANTS(M) \
    M(HONEST, "control", NONE, NULL) \
    /* the projection */ \
    M(UNCLIPPED, "rounded_without_clip", VALUE, "spike") \
    M(PADDED_MEAN, "padding_in_the_mean", VALUE, NULL) \
    M(MAX_SCALE, "scale_is_the_largest", VALUE, NULL) \
    M(FLOAT_MEAN, "mean_in_float", VALUE, "ties") \
    M(ROUNDED_DOWN, "scale_rounded_down", VALUE, NULL) \
    M(UNROUNDED, "scale_unrounded", VALUE, NULL) \
    M(UNROUNDED_CODES, "codes_from_the_unrounded_scale", VALUE, "ties") \
    M(TIE_UP, "tie_is_not_zero", VALUE, "ties") \
    M(ZERO_SIGNED, "zero_group_has_signs", VALUE, "zeros") \
    M(SIGNS, "codes_are_signs", VALUE, NULL) \
    M(DENSE, "latents_serve", VALUE, NULL) \
    /* packing */ \
    M(BIT_ORDER, "codes_from_the_high_bits", VALUE, NULL) \
    M(CODES_REVERSED, "reads_the_high_bits_first", VALUE, NULL) \
    M(CODE_POINTS, "other_code_points", VALUE, NULL) \
    M(SIGN_BIT, "signs_swapped", VALUE, NULL) \
    M(PADDING_0, "padding_coded_0", VALUE, NULL) \
    M(ONE_SCALE, "one_scale_a_row", VALUE, "steep") \
    M(ANY_CODE, "takes_code_point_3", VALUE, "bad_code") \
    M(ANY_SCALE, "takes_any_scale", VALUE, "bad_scale") \
    M(ANY_LATENT, "takes_any_latent", VALUE, "bad_latent") \
    M(ANY_PADDING, "takes_code_3_in_padding", VALUE, "bad_code_padding") \
    M(FIRST_CODES, "looks_at_codes_of_first_group", VALUE, "bad_code_last") \
    M(FIRST_SCALE, "looks_at_scale_of_first_group", VALUE, "bad_scale") \
    M(SCALE_INF, "takes_scale_inf", VALUE, "bad_scale_inf") \
    M(SCALE_MINUS, "takes_scale_minus_inf", VALUE, "bad_scale_minus") \
    M(SCALE_NAN, "takes_scale_nan", VALUE, "bad_scale") \
    M(SCALE_SIGN, "scale_made_positive", VALUE, "negative") \
    M(LATENT_NAN, "takes_latent_nan", VALUE, "bad_latent") \
    M(LATENT_INF, "takes_latent_inf", VALUE, "bad_latent_inf") \
    M(PAST_MAX, "refuses_scales_that_round_to_65504", VALUE, "brink") \
    M(LATENT_F16, "refuses_latents_past_f16", VALUE, "brink") \
    M(SUBNORMAL, "subnormal_scales_are_0", VALUE, "tiny") \
    M(ROWS_64, "rows_past_64_unwritten", UNWRITTEN, NULL) \
    M(OUT_128, "outputs_past_128_unwritten", UNWRITTEN, NULL) \
    M(ROWS_1024, "rows_past_1024_unwritten", UNWRITTEN, NULL) \
    M(ROWS_65535, "rows_past_65535_unwritten", UNWRITTEN, "tall") \
    M(OUT_65535, "outputs_past_65535_unwritten", UNWRITTEN, "taller") \
    M(OUT_4096, "outputs_past_4096_unwritten", UNWRITTEN, NULL) \
    M(IN_16384, "inputs_past_16384_left_out", VALUE, NULL) \
    M(BEFORE_WS, "writes_before_workspace", VALUE, NULL) \
    M(PAST_WS, "writes_past_workspace", VALUE, NULL) \
    M(NO_ARGS, "null_args_are_taken", REFUSAL, NULL) \
    M(NO_EXEC, "null_exec_is_taken", REFUSAL, NULL) \
    M(WRITES_FIRST, "writes_before_it_refuses", VALUE, "past_f16") \
    /* products */ \
    M(LAST_GROUP, "short_group_left_out", VALUE, NULL) \
    M(SKIPS_ZEROS, "zero_times_nan_left_out", VALUE, "nonfinite") \
    M(NARROW_SUM, "sums_in_16_bits", VALUE, NULL) \
    M(IN_MOST, "inputs_no_more_than_127", VALUE, "loud") \
    M(IN_8192_OF_16, "16_bit_inputs_past_8192_left_out", VALUE, NULL) \
    M(BF16_DOWN, "bf16_rounded_towards_zero", VALUE, NULL) \
    M(OTHER_ORDER, "forwards_differ", VALUE, NULL) \
    M(LAST_ROW, "last_row_unwritten", UNWRITTEN, NULL) \
    /* gradients */ \
    M(MASKED, "gradient_masked", VALUE, NULL) \
    M(TIMES_SCALE, "gradient_times_the_scale", VALUE, NULL) \
    M(DX_OF_LATENTS, "dx_from_latents", VALUE, NULL) \
    M(MEAN_DW, "gradient_averaged", VALUE, NULL) \
    M(DY_LEAST, "dy_below_f16_is_0", VALUE, "faint") \
    M(BY_THREADS, "bits_depend_on_threads", REPEAT, NULL) \
    M(NEGATIVE, "negative_extents", REFUSAL, NULL)
/* clang-format on */

#endif
