/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_list.h - the mutants of ternary_training. Per line: bug, name, the check that
 * must catch it, and the family whose cases must do so (NULL: normal).
 *
 * Private to ternary_training.c. */
#ifndef TS_TERNARY_TRAINING_LIST_H
#define TS_TERNARY_TRAINING_LIST_H

/* clang-format off */
#define MUTANTS(M) \
    M(HONEST, "control", NONE, NULL) \
    /* labels and loss */ \
    M(LABELS_SWAPPED, "predicts_what_it_sees", VALUE, NULL) \
    M(LOG_OF_TINY, "log_of_softmax_and_tiny", VALUE, "gap") \
    M(TWICE_DIVIDED, "mean_divided_twice", VALUE, NULL) \
    M(EXTRA_POSITIONS, "extra_positions_counted", VALUE, "ragged") \
    M(SUM_GRADIENT, "gradient_of_the_sum", VALUE, NULL) \
    M(EVAL_IS_MEAN, "eval_gives_the_mean", VALUE, NULL) \
    M(LOSS_AFTER, "loss_after_the_step", VALUE, NULL) \
    /* what is ternary */ \
    M(DENSE, "no_matrix_is_ternary", VALUE, NULL) \
    M(DENSE_EMBEDDING, "dense_embedding", VALUE, NULL) \
    M(DENSE_HEAD, "dense_head", VALUE, NULL) \
    M(UNCLIPPED, "rounded_without_clip", VALUE, NULL) \
    M(SIGN_ONLY, "codes_are_signs", VALUE, NULL) \
    M(ZERO_DIVIDED, "zero_group_divided", VALUE, "zeros") \
    M(PADDED_MEAN, "padding_in_the_mean", VALUE, NULL) \
    M(MAX_SCALE, "scale_is_the_largest", VALUE, NULL) \
    M(BF16_SCALE, "scale_in_bf16", VALUE, NULL) \
    M(UNROUNDED_SCALE, "scale_unrounded_in_training", VALUE, NULL) \
    M(TIE_UP, "tie_is_not_zero", VALUE, "ties") \
    M(BY_OUTPUTS, "groups_along_outputs", VALUE, NULL) \
    M(BIT_ORDER, "codes_from_the_high_bits", VALUE, NULL) \
    M(CODE_POINTS, "other_code_points", VALUE, NULL) \
    M(PADDING_0, "padding_coded_0", VALUE, NULL) \
    M(EXPORTS_FIRST, "export_shows_something_else", VALUE, NULL) \
    M(NOT_LOADED, "latents_not_loaded", VALUE, NULL) \
    /* gradients */ \
    M(MASKED, "gradient_masked", VALUE, NULL) \
    M(THROUGH_SCALE, "gradient_through_the_scale", VALUE, NULL) \
    M(TIMES_SCALE, "gradient_times_the_scale", VALUE, NULL) \
    M(DX_OF_LATENTS, "dx_from_latents", VALUE, NULL) \
    M(NO_EMBEDDING_GRADIENT, "embedding_without_its_input", VALUE, "once") \
    M(NO_HEAD_GRADIENT, "embedding_without_its_head", VALUE, "once") \
    M(LAST_ONE_KEPT, "embedding_overwritten", VALUE, NULL) \
    M(ADDS_GRADIENT, "gradient_added_to_what_was_there", UNWRITTEN, NULL) \
    /* the model */ \
    M(LAYERNORM, "mean_subtracted", VALUE, NULL) \
    M(EPS_OUTSIDE, "eps_outside_of_the_root", VALUE, "zeros") \
    M(OWN_EPS, "eps_of_its_own", VALUE, NULL) \
    M(NO_QK_NORM, "no_norm_of_q_and_k", VALUE, NULL) \
    M(NO_ROPE, "no_rotation", VALUE, NULL) \
    M(BY_NEIGHBOURS, "rotates_neighbours", VALUE, NULL) \
    M(OWN_THETA, "theta_of_its_own", VALUE, NULL) \
    M(POSITION_FROM_1, "queries_one_further", VALUE, NULL) \
    M(SEES_BATCH, "sees_the_sequence_before", VALUE, NULL) \
    M(SEES_AHEAD, "sees_the_future", VALUE, NULL) \
    M(HEAD_MODULO, "head_modulo", VALUE, "shared") \
    M(NO_SCORE_SCALE, "scores_not_scaled", VALUE, NULL) \
    M(NO_RESIDUAL, "residual_missing", VALUE, NULL) \
    M(GATE_UP_SWAPPED, "gate_and_up_swapped", VALUE, NULL) \
    M(OWN_FFN, "ffn_of_its_own", VALUE, NULL) \
    M(VOCAB_512, "vocabulary_past_512_left_out", VALUE, NULL) \
    M(TWO_LAYERS, "layers_past_the_second_left_out", VALUE, NULL) \
    M(NINE_TOKENS, "keys_past_the_ninth_unseen", VALUE, NULL) \
    M(BATCH_8, "batches_past_the_eighth_left_out", VALUE, NULL) \
    M(PAST_WORKSPACE, "writes_past_its_workspace", VALUE, NULL) \
    M(BEFORE_WORKSPACE, "writes_before_its_workspace", VALUE, NULL) \
    M(NO_LAST_NORM, "last_norm_missing", VALUE, NULL) \
    M(BF16_PASS, "activations_in_bf16", VALUE, NULL) \
    /* the optimiser */ \
    M(NO_CLIP, "no_clipping", VALUE, "clip") \
    M(CLIP_ELEMENTS, "clips_elements", VALUE, "clip") \
    M(CLIP_MATRICES, "clips_parts_apart", VALUE, "clip") \
    M(CLIP_ALWAYS, "scales_up_to_the_clip", VALUE, "loose") \
    M(COUPLED, "coupled_decay", VALUE, "decay") \
    M(DECAYS_GAINS, "gains_decay", VALUE, "decay") \
    M(NO_DECAY, "no_decay", VALUE, "decay") \
    M(DECAY_WITHOUT_RATE, "decay_without_the_rate", VALUE, "decay") \
    M(NO_BIAS_1, "no_bias_correction_of_m", VALUE, NULL) \
    M(NO_BIAS_2, "no_bias_correction_of_v", VALUE, NULL) \
    M(NO_BIAS, "no_bias_correction", VALUE, NULL) \
    M(EPS_INSIDE, "eps_inside_of_the_root", VALUE, "clip") \
    M(NO_MOMENT, "no_second_moment", VALUE, NULL) \
    M(FORGETS, "forgets_its_moments", VALUE, NULL) \
    M(BETA_0, "beta1_0_is_0_9", VALUE, "rates") \
    M(BETA_2_0, "beta2_0_is_0_999", VALUE, "rates") \
    M(RATE_0, "rate_0_is_no_step", VALUE, "rates") \
    M(RATE_MOST, "rate_no_more_than_0_05", VALUE, "rates") \
    M(CLIP_LEAST, "clip_below_1e_3_is_none", VALUE, "rates") \
    M(BF16_MOMENTS, "moments_in_bf16", VALUE, NULL) \
    M(BF16_MASTERS, "masters_in_bf16", VALUE, "slow") \
    M(F16_MASTERS, "masters_in_f16", VALUE, "slow") \
    M(GAINS_STAY, "gains_are_not_trained", VALUE, NULL) \
    M(STOPS, "stops_learning", VALUE, "learn") \
    /* what may not change, and refusals */ \
    M(GRAD_COUNTS, "grad_counts_as_a_step", VALUE, NULL) \
    M(GRAD_MOVES, "grad_moves_weights", VALUE, NULL) \
    M(EVAL_COUNTS, "eval_counts_as_a_step", VALUE, NULL) \
    M(KEEPS_POINTER, "keeps_the_callers_pointer", VALUE, NULL) \
    M(WRITES_FIRST, "writes_before_it_refuses", VALUE, "nonsense") \
    M(HALF_APPLIED, "refused_step_counts", VALUE, "nonsense") \
    M(ANY_TOKEN, "takes_any_token", VALUE, "nonsense") \
    M(ONE_TOKEN, "takes_one_token", VALUE, "nonsense") \
    M(ANY_RATE, "takes_any_rate", VALUE, "nonsense") \
    M(ANY_LATENTS, "takes_any_latents", VALUE, "nonsense") \
    M(NO_WORKSPACE, "workspace_not_checked", VALUE, "nonsense") \
    M(SMALL_MEMORY, "takes_too_little_memory", VALUE, NULL) \
    M(WHOLE_BATCHES, "whole_batches_only", VALUE, "ragged") \
    M(ANY_HEADS, "any_number_of_heads", REFUSAL, NULL) \
    M(PAST_STATE, "writes_past_its_state", VALUE, NULL) \
    M(LAST_GAIN_UNWRITTEN, "last_gain_unwritten", UNWRITTEN, NULL) \
    M(BY_THREADS, "bits_depend_on_threads", REPEAT, NULL) \
    M(DIRTY_WORKSPACE, "workspace_assumed_zero", VALUE, NULL)
/* clang-format on */

#endif
