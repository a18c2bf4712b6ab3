/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_list.h - the mutants of beam_search. Per line: bug, name, the check that must catch
 * it, and the family whose cases must do so (NULL: normal).
 *
 * Private to beam_search.c. */
#ifndef TS_BEAM_SEARCH_LIST_H
#define TS_BEAM_SEARCH_LIST_H

/* clang-format off */
#define MUTANTS(M) \
    M(HONEST, "control", NONE, NULL) \
    /* ends */ \
    M(FREE_EOS, "eos_costs_nothing", VALUE, "poor") \
    M(ENDS_REMOVED, "finished_beams_removed", VALUE, "slots") \
    M(ARCHIVE, "archive_instead_of_slots", VALUE, "evict") \
    M(NEVER_EVICTED, "finished_beams_never_evicted", VALUE, "evict") \
    M(AFTER_EOS, "goes_on_after_eos", VALUE, NULL) \
    M(WITHOUT_EOS, "length_without_eos", VALUE, NULL) \
    M(ENDS_AGE, "ends_are_penalised_anew", VALUE, NULL) \
    M(STOPS_AT_BEST, "stops_when_the_best_ends", VALUE, "slots") \
    /* scores */ \
    M(PROMPT_COUNTED, "prompt_counted", VALUE, NULL) \
    M(FOLDED, "penalty_folded_into_the_sum", VALUE, NULL) \
    M(RAW_SUM, "ranked_by_raw_sum", VALUE, "slots") \
    M(RAW_LOGITS, "logits_not_normalised", VALUE, NULL) \
    M(LOG_OF_SOFTMAX, "log_of_softmax", VALUE, "underflow") \
    M(FLOAT_SUMS, "sums_in_float", VALUE, "long") \
    M(FLOAT_LSE, "log_sum_in_float", VALUE, NULL) \
    M(DROPS_20, "logits_20_below_the_largest_dropped", VALUE, "steep") \
    /* beams */ \
    M(COPIES, "copies_at_the_start", VALUE, NULL) \
    M(ONE_TOKEN, "one_token_a_beam", VALUE, NULL) \
    M(TWICE_K, "needs_twice_the_width", STATUS, "underflow") \
    M(LAST_OF_EQUALS, "last_of_equals", VALUE, "ties") \
    M(BY_TOKEN, "ties_by_token", VALUE, "ties") \
    M(ENDS_LOSE, "ends_lose_ties", VALUE, "underflow") \
    M(ENDS_WIN, "ends_win_ties", VALUE, "underflow") \
    M(MINUS_ZERO, "minus_zero_below_zero", VALUE, "ties") \
    M(TOKENS_16, "tokens_in_16_bits", VALUE, NULL) \
    M(TOKENS_17, "tokens_in_17_bits", VALUE, NULL) \
    M(ALPHA_5, "alpha_no_more_than_5", VALUE, NULL) \
    M(PROMPT_128, "prompt_past_128_unseen", VALUE, NULL) \
    M(ITEMS_32, "items_past_32_unwritten", UNWRITTEN, NULL) \
    M(ROWS_1024, "rows_past_1024_not_normalised", VALUE, NULL) \
    M(WIDTH_64, "width_no_more_than_64", VALUE, NULL) \
    M(NO_MAX, "no_max_subtraction", VALUE, "offset") \
    M(MASK_1E4, "below_minus_1e4_is_masked", VALUE, "offset") \
    M(MASK_1E30, "below_minus_1e30_is_masked", VALUE, "underflow") \
    M(MASKED_TOO, "minus_inf_is_a_candidate", VALUE, "masked") \
    /* items */ \
    M(PADS_SEEN, "pads_seen", VALUE, NULL) \
    M(ROW_BY_SLOT, "rows_by_slot", VALUE, NULL) \
    M(ONE_POOL, "items_share_a_pool", VALUE, NULL) \
    M(ONE_STOPS_ALL, "one_item_stops_all", VALUE, "early") \
    M(WAITS, "asks_for_the_finished", VALUE, "early") \
    M(CALL_AN_ITEM, "a_call_for_each_item", VALUE, NULL) \
    /* answers and refusals */ \
    M(UNUSED_ZERO, "unused_slots_are_zero", VALUE, NULL) \
    M(EMPTY_NONE, "no_steps_no_beam", VALUE, NULL) \
    M(TAIL, "tokens_behind_the_end_unwritten", UNWRITTEN, NULL) \
    M(NONFINITE_PASSES, "nonfinite_row_passes", VALUE, "nonfinite") \
    M(NAN_PASSES, "nan_row_passes", VALUE, "nonfinite") \
    M(INF_PASSES, "inf_row_passes", VALUE, "nonfinite_inf") \
    M(NONE_PASSES, "masked_row_passes", VALUE, "nonfinite_none") \
    M(FAILURE_PASSES, "failing_model_passes", VALUE, "fails") \
    M(NEAR_IS_EQUAL, "scores_within_1e_7_are_equal", VALUE, "near") \
    M(CLOSE_IS_EQUAL, "parents_decide_within_1e_7", VALUE, "close") \
    M(WIDTH_16, "width_no_more_than_16", VALUE, NULL) \
    M(WRITES_FIRST, "writes_before_it_fails", VALUE, "nonfinite") \
    M(ANY_ALPHA, "takes_any_alpha", REFUSAL, NULL) \
    M(ANY_EOS, "takes_any_eos", REFUSAL, NULL) \
    M(ANY_PROMPT, "takes_any_prompt", REFUSAL, NULL) \
    M(BY_THREADS, "bits_depend_on_threads", REPEAT, NULL) \
    /* the archive */ \
    M(A_SLOTS, "slots_instead_of_an_archive", VALUE, "archive") \
    M(A_EVICTS_OLDEST, "archive_evicts_the_oldest", VALUE, "archive") \
    M(A_EVICTS_BEST, "archive_evicts_the_best", VALUE, "archive") \
    M(A_NO_EVICTION, "archive_that_is_full_takes_nothing", VALUE, "archive") \
    M(A_HOLDS_SLOT, "archived_beam_keeps_its_slot", VALUE, "archive") \
    M(A_ONE_A_STEP, "archive_takes_one_end_a_step", VALUE, "archive") \
    M(A_FULL_STOPS, "archive_full_is_the_end", VALUE, "archive") \
    M(A_NEVER_STOPS, "archive_never_stops_early", VALUE, "archive") \
    M(A_HOPE_NOW, "hope_at_the_present_length", VALUE, "archive") \
    M(A_HOPE_BEST, "hope_against_the_best_kept", VALUE, "archive") \
    M(A_BEAMS_FIRST, "beams_before_the_archive", VALUE, "archive_ties") \
    M(A_LAST_FIRST, "archive_last_of_equals_first", VALUE, "archive_ties") \
    M(A_LATE_ENTERS, "archive_equal_evicts", VALUE, "archive_ties") \
    M(A_ENDS_ONLY, "unfinished_beams_left_out", VALUE, "archive") \
    M(A_ENDS_FIRST, "finished_before_unfinished", VALUE, "archive") \
    M(A_WITHOUT_EOS, "archive_length_without_eos", VALUE, "archive") \
    M(A_RAW, "archive_by_raw_sum", VALUE, "archive") \
    M(A_SHARED, "archive_of_all_items", VALUE, "archive") \
    M(A_WRITES_FIRST, "archive_writes_before_it_fails", VALUE, "archive_nonfinite") \
    M(A_FAILURE, "archive_failing_model_passes", VALUE, "archive_fails") \
    M(A_ANY_EOS, "archive_takes_any_eos", VALUE, "archive_refused") \
    M(A_ANY_ALPHA, "archive_takes_any_alpha", VALUE, "archive_refused") \
    M(A_NO_SPACE, "archive_workspace_not_checked", VALUE, "archive_refused")
/* clang-format on */

#endif
