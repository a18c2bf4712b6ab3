/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_list.h - the mutants of tree_verify. Per line: bug, name, the check that must catch
 * it, and the family whose cases must do so (NULL: normal).
 *
 * Private to tree_verify.c. */
#ifndef TS_TREE_VERIFY_LIST_H
#define TS_TREE_VERIFY_LIST_H

/* clang-format off */
#define MUTANTS(M) \
    M(HONEST, "control", NONE, NULL) \
    /* whose logits */ \
    M(AT_NODE, "logits_at_the_node", VALUE, NULL) \
    M(BY_DEPTH, "logits_by_depth", VALUE, NULL) \
    M(BY_CHAIN, "logits_by_chain_position", VALUE, NULL) \
    M(NO_ROOT_ROW, "last_prompt_row_not_wanted", VALUE, NULL) \
    M(ALL_ROWS, "all_rows_wanted", VALUE, NULL) \
    /* the pass */ \
    M(BY_INDEX, "positions_by_index", VALUE, "breadth") \
    M(DEPTH_FROM_0, "positions_one_too_small", VALUE, NULL) \
    M(CAUSAL, "plain_causal_mask", VALUE, NULL) \
    M(PROMPT_SEES, "prompt_sees_the_tree", VALUE, NULL) \
    M(PARENT_ONLY, "sees_the_parent_only", VALUE, "chain") \
    M(NOT_ITSELF, "does_not_see_itself", VALUE, NULL) \
    M(NO_PROMPT, "node_sees_no_prompt", VALUE, NULL) \
    M(TRANSPOSED, "mask_transposed", VALUE, NULL) \
    M(PLAIN_INSIDE, "plain_decoding_inside", VALUE, NULL) \
    M(TWO_PASSES, "a_second_pass", VALUE, NULL) \
    /* the walk */ \
    M(RE_EMITS, "sibling_emits_again", VALUE, NULL) \
    M(TWICE, "correction_emitted_twice", VALUE, NULL) \
    M(FIRST_SIBLING, "stops_at_the_first_wrong_sibling", VALUE, NULL) \
    M(ANY_NODE, "child_of_a_refused_node", VALUE, NULL) \
    M(NO_BONUS, "no_token_after_the_path", VALUE, "chain") \
    M(OVERSHOOT, "overshoots", VALUE, "chain") \
    M(EMPTY_TREE, "empty_tree_is_an_error", STATUS, NULL) \
    M(LAST_TWIN, "last_of_twins", VALUE, "twins") \
    M(BOTH_TWINS, "twins_both_accepted", VALUE, "twins") \
    /* the choice */ \
    M(COLD, "temperature_ignored", VALUE, "hot") \
    M(HOT_TWICE, "temperature_multiplied", VALUE, "hot") \
    M(ONE_DRAW, "one_draw_for_all", VALUE, "hot") \
    M(DROPS_20, "logits_20_below_the_largest_dropped", VALUE, "beside") \
    M(COARSE, "cumulative_too_coarse", VALUE, "hot") \
    M(LAST_OF_EQUALS, "last_of_equals", VALUE, "ties") \
    M(MINUS_ZERO, "minus_zero_below_zero", VALUE, "ties") \
    M(TOKENS_16, "tokens_in_16_bits", VALUE, NULL) \
    M(FROM_MINUS_1E9, "max_from_minus_1e9", VALUE, "floor") \
    M(NO_MAX, "no_max_subtraction", VALUE, "offset") \
    M(PROMPT_128, "prompt_past_128_unseen", VALUE, NULL) \
    M(DEEP_32, "path_no_longer_than_32", VALUE, "chain") \
    M(SIBLINGS_128, "siblings_past_128_never_taken", VALUE, "late") \
    M(TAU_50, "temperature_no_more_than_50", VALUE, "extreme") \
    M(TAU_1E_3, "temperature_below_1e_3_is_greedy", VALUE, "cold") \
    M(TAU_1E_5, "temperature_below_1e_5_is_greedy", VALUE, "colder") \
    M(LAST_AT_1, "draw_near_1_takes_the_last", VALUE, "one_u") \
    M(NONFINITE_PASSES, "nonfinite_row_passes", VALUE, "nonfinite") \
    M(NONFINITE_ANYWHERE, "unvisited_nonfinite_row_fails", VALUE, "nonfinite") \
    M(NAN_PASSES, "nan_row_passes", VALUE, "nonfinite") \
    M(INF_PASSES, "inf_row_passes", VALUE, "nonfinite_inf") \
    M(NONE_PASSES, "masked_row_passes", VALUE, "nonfinite_none") \
    M(FAILURE_PASSES, "failing_model_passes", VALUE, "fails") \
    M(FIRST_AT_0, "draw_of_0_takes_the_first", VALUE, "zero_u") \
    M(TAU_LEAST, "temperature_below_0_05_is_greedy", VALUE, "cold") \
    M(NODES_64, "nodes_past_64_never_taken", VALUE, "late") \
    M(HUGE_MAX_NEW, "takes_a_huge_max_new", REFUSAL, NULL) \
    M(WRITES_FIRST, "writes_before_it_fails", VALUE, "nonfinite") \
    /* answers and refusals */ \
    M(ALL_REJECTED, "unreached_is_rejected", VALUE, NULL) \
    M(TWIN_STATUS, "twin_of_an_accepted_unreached", VALUE, "twins") \
    M(PATH_TAIL, "path_behind_the_end_unwritten", UNWRITTEN, NULL) \
    M(ASKS_FOR_NOTHING, "asks_though_nothing_is_wanted", VALUE, NULL) \
    M(ANY_ORDER, "takes_a_child_before_its_parent", REFUSAL, NULL) \
    M(ANY_TOKEN, "takes_any_token", REFUSAL, NULL) \
    M(ANY_DRAW, "takes_any_draw", REFUSAL, NULL) \
    M(BY_THREADS, "bits_depend_on_threads", REPEAT, NULL) \
    /* masks and biases */ \
    M(MASK_INDEX, "mask_positions_by_index", VALUE, "mask") \
    M(MASK_DEPTH_0, "mask_positions_one_too_small", VALUE, "mask") \
    M(MASK_SIBLINGS, "mask_shows_siblings", VALUE, "mask") \
    M(MASK_ONE_SHORT, "mask_loses_the_first_ancestor", VALUE, "mask") \
    M(MASK_NOT_ITSELF, "mask_hides_the_node_itself", VALUE, "mask") \
    M(MASK_64, "mask_of_64_nodes", VALUE, "mask") \
    M(MASK_LAST_PROMPT, "mask_hides_the_last_prompt_token", VALUE, "mask") \
    M(MASK_TRANSPOSED, "mask_of_who_is_seen", VALUE, "mask") \
    M(MASK_LOWER, "mask_above_the_diagonal_unwritten", UNWRITTEN, "mask") \
    M(MASK_ORDER, "mask_takes_any_parent", VALUE, "mask_refused") \
    M(MASK_HUGE, "mask_takes_a_huge_max_new", VALUE, "mask_refused") \
    M(MASK_FIRST, "mask_written_before_it_is_refused", VALUE, "mask_refused") \
    M(BIAS_FINITE, "bias_is_minus_1e9", VALUE, "bias") \
    M(BIAS_MAX, "bias_is_minus_flt_max", VALUE, "bias") \
    M(BIAS_ONE, "bias_of_the_seen_is_1", VALUE, "bias") \
    M(BIAS_INVERTED, "bias_inverted", VALUE, "bias") \
    M(BIAS_SIBLINGS, "bias_shows_siblings", VALUE, "bias") \
    M(BIAS_PARENT, "bias_shows_the_parent_only", VALUE, "bias") \
    M(BIAS_CAUSAL, "bias_plainly_causal", VALUE, "bias") \
    M(BIAS_64, "bias_of_64_nodes", VALUE, "bias") \
    M(BIAS_ORDER, "bias_takes_any_parent", VALUE, "bias_refused") \
    /* residuals */ \
    M(RES_PLAIN, "residual_not_renormalised", VALUE, "residual") \
    M(RES_ONCE, "residual_taken_once", VALUE, "residual") \
    M(RES_KEPT, "residual_is_p", VALUE, "residual") \
    M(RES_SIGNED, "residual_may_be_negative", VALUE, "residual") \
    M(RES_FIRST_P, "residual_of_the_first_p", VALUE, "residual") \
    M(RES_RATIO, "accepts_by_q_over_p", VALUE, "residual") \
    M(RES_AT_MOST, "accepts_at_equality", VALUE, "residual") \
    M(RES_SUMS, "residual_assumes_sums_of_1", VALUE, "residual") \
    M(RES_SAME_U, "residual_one_draw_for_all", VALUE, "residual") \
    M(RES_LAST_U, "residual_draws_with_the_first_u", VALUE, "residual") \
    M(RES_TOKEN, "residual_gives_the_token_of_the_child", VALUE, "residual") \
    M(RES_ZERO, "residual_draw_of_0_takes_the_first", VALUE, "residual") \
    M(RES_FLOAT, "residual_in_float", VALUE, "residual") \
    M(RES_TWINS, "residual_skips_equal_children", VALUE, "residual") \
    M(RES_HUGE, "residual_reads_huge_children", PAST, "residual_refused") \
    M(RES_ANY_LAW, "residual_takes_any_law", VALUE, "residual_refused") \
    M(RES_NULL_Q, "residual_asks_for_q_without_children", VALUE, "residual")
/* clang-format on */

#endif
