/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_list.h - the mutants of kv_cache. Per line: bug, name, the check that must catch it, and
 * the family whose cases must do so (NULL: normal).
 *
 * Private to kv_cache.c. */
#ifndef TS_KV_CACHE_LIST_H
#define TS_KV_CACHE_LIST_H

/* clang-format off */
#define MUTANTS(M) \
    M(HONEST, "control", NONE, NULL) \
    /* positions and masks */ \
    M(QUERY_AT_0, "query_at_position_0", VALUE, NULL) \
    M(NO_MASK, "sees_the_future", VALUE, NULL) \
    M(SOFT_MASK, "mask_is_a_constant", VALUE, NULL) \
    M(NOT_ITSELF, "query_does_not_see_itself", VALUE, NULL) \
    M(LAST_TWICE, "last_prompt_token_twice", VALUE, NULL) \
    M(WINDOW_WIDE, "window_one_too_wide", VALUE, "window_only") \
    M(NO_SINKS, "sinks_lost", VALUE, "window") \
    M(NO_WINDOW, "window_ignored", VALUE, "window") \
    M(WINDOW_4096, "window_no_more_than_4096", VALUE, "window_long") \
    M(SINKS_2, "sinks_past_the_second_lost", VALUE, "window_long") \
    M(SCALE_ZERO, "scale_0_is_no_scale", VALUE, NULL) \
    M(DIM_128, "head_dim_past_128_left_out_of_scores", VALUE, NULL) \
    M(LAYERS_3, "layers_past_the_third_share_storage", VALUE, NULL) \
    M(LAYERS_8, "layers_past_the_eighth_share_storage", VALUE, NULL) \
    M(SEQS_16, "sequences_past_the_16th_share_storage", VALUE, NULL) \
    M(NOTHING_COPIES, "append_of_nothing_copies_its_page", VALUE, "fork") \
    M(EMPTY_LIST, "empty_list_is_refused", VALUE, "fork") \
    M(NEEDS_LEN, "status_without_length", CRASH, NULL) \
    M(NEEDS_USAGE, "status_without_usage", CRASH, NULL) \
    M(SAME_LENGTH, "truncation_to_the_length_drops_a_page", VALUE, "fork") \
    M(IN_PLACE, "writes_in_place_without_a_free_page", VALUE, "cow") \
    M(COPIES_FIRST, "copies_before_it_refuses", VALUE, "cow") \
    M(PAST_WORKSPACE, "writes_past_its_workspace", VALUE, NULL) \
    M(BEFORE_WORKSPACE, "writes_before_its_workspace", VALUE, NULL) \
    M(TAKES_NO_EXEC, "null_exec_is_taken", VALUE, "nonsense") \
    M(TAKES_NO_ROWS, "null_rows_are_taken", VALUE, "nonsense") \
    M(TAKES_MANY, "list_longer_than_sequences", PAST, "nonsense") \
    /* lengths and storage */ \
    M(REPLACED, "cache_replaced", VALUE, NULL) \
    M(STORES_NOTHING, "stores_nothing", VALUE, NULL) \
    M(ONE_CURSOR, "one_cursor_for_the_batch", VALUE, NULL) \
    M(ONE_LENGTH, "one_length_for_all_layers", VALUE, NULL) \
    M(LAYERS_SHARE, "layers_share_storage", VALUE, NULL) \
    M(SEQS_SHARE, "sequences_share_storage", VALUE, NULL) \
    M(KEEPS_POINTER, "keeps_the_callers_pointer", VALUE, NULL) \
    M(FIRST_OF_BATCH, "first_tokens_for_all", VALUE, NULL) \
    M(READ_FROM_0, "reads_from_the_beginning", VALUE, NULL) \
    /* pages, forks, truncation */ \
    M(PAGE_WRAPS, "page_never_full", VALUE, NULL) \
    M(WHOLE_PAGES, "whole_pages_gathered", VALUE, NULL) \
    M(NO_COPY, "no_copy_on_write", VALUE, "fork") \
    M(FORK_COPIES, "fork_copies_pages", VALUE, "fork") \
    M(FORK_NO_TAIL, "fork_loses_the_tail", VALUE, "fork") \
    M(PAGE_LOST, "truncated_pages_lost", VALUE, "truncate") \
    M(FREED_TWICE, "shared_pages_freed_twice", VALUE, "fork") \
    M(STALE, "old_tokens_resurface", VALUE, "truncate") \
    M(STALE_NAN, "stale_tokens_weigh_zero", VALUE, "nonfinite") \
    M(TAIL_LOST, "cut_group_loses_its_tail", VALUE, "truncate") \
    M(TAIL_PAGED, "cut_group_in_a_page_loses_its_tail", VALUE, "truncate") \
    M(FUZZ_LEAK, "page_leaks_when_a_fork_is_cut", VALUE, "fuzz") \
    /* capacity and refusals */ \
    M(OVERRUN, "silent_overrun", VALUE, "full") \
    M(HALF_APPLIED, "failure_half_applied", VALUE, "full") \
    M(PAGES_TAKEN, "failure_keeps_pages", VALUE, "full") \
    M(OPENS_MORE, "opens_too_many", VALUE, "full") \
    M(TWICE, "takes_a_sequence_twice", VALUE, "nonsense") \
    M(FREES_AGAIN, "second_free_is_fine", VALUE, "nonsense") \
    M(MORE_QUERIES, "more_queries_than_tokens", VALUE, "nonsense") \
    M(NO_WORKSPACE, "workspace_not_checked", VALUE, "nonsense") \
    M(WRITES_FIRST, "writes_before_it_refuses", VALUE, "nonsense") \
    M(SMALL_MEMORY, "takes_too_little_memory", VALUE, NULL) \
    M(ANY_HEADS, "any_number_of_heads", REFUSAL, NULL) \
    /* codes */ \
    M(SIGNED, "codes_are_signed", VALUE, NULL) \
    M(ODD_ROWS, "odd_rows_overlap", VALUE, NULL) \
    M(ZERO_STEP, "constant_group_divides_by_0", VALUE, "constant") \
    M(CALL_SCALE, "scale_of_the_whole_call", VALUE, "chunk") \
    M(TRUNCATED_CODES, "codes_rounded_down", VALUE, NULL) \
    M(OWN_GROUP, "key_group_no_more_than_32", VALUE, NULL) \
    M(OWN_CHANNEL, "channel_group_of_its_own", VALUE, NULL) \
    M(STEP_FLUSHED, "subnormal_steps_are_0", VALUE, "tiny") \
    M(ROUNDED_DOWN, "store_rounded_towards_zero", VALUE, NULL) \
    /* sizes */ \
    M(TWICE_THE_SIZE, "twice_the_size", VALUE, "sized") \
    M(Q_HEADS_KEPT, "sized_by_query_heads", VALUE, "sized") \
    M(FORK_LIVE, "forked_tokens_live_twice_over", VALUE, "fork") \
    M(ALL_LIVE, "capacity_counts_as_live", VALUE, NULL) \
    M(PAST_STATE, "writes_past_its_state", VALUE, NULL) \
    /* heads and sums */ \
    M(HEAD_MODULO, "head_modulo", VALUE, NULL) \
    M(SHARE_7, "heads_that_share_by_7_as_by_8", VALUE, NULL) \
    M(TWICE_DIVIDED, "merge_divides_twice", VALUE, NULL) \
    M(NO_RESCALE, "sum_not_rescaled", VALUE, "ramp") \
    M(NO_MAX, "no_max_subtraction", VALUE, "offset") \
    M(OWN_SCALE, "scale_of_its_own", VALUE, "hot") \
    M(BASE_2, "lse_in_base_2", VALUE, NULL) \
    M(LOW_DIGITS, "weights_in_bf16", VALUE, NULL) \
    M(BY_PAGE, "summed_by_page", VALUE, "paged") \
    M(LAST_HEAD, "last_head_unwritten", UNWRITTEN, NULL) \
    M(BY_THREADS, "bits_depend_on_threads", REPEAT, NULL) \
    M(DIRTY_WORKSPACE, "workspace_assumed_zero", VALUE, NULL) \
    /* trees */ \
    M(T_INDEX, "tree_positions_by_index", VALUE, "tree") \
    M(T_CAUSAL, "tree_plainly_causal", VALUE, "tree") \
    M(T_SIBLINGS, "tree_row_reads_its_siblings_key", VALUE, "tree") \
    M(T_PARENT, "tree_row_sees_its_parent_only", VALUE, "tree") \
    M(T_NOT_ITSELF, "tree_row_does_not_see_itself", VALUE, "tree") \
    M(T_NO_CACHE, "tree_row_sees_no_cache", VALUE, "tree") \
    M(T_ONE_SHORT, "tree_row_misses_the_last_cached_token", VALUE, "tree") \
    M(T_ROWS_GLOBAL, "tree_parents_count_over_all_sequences", VALUE, "tree") \
    M(T_64, "tree_of_64_rows", VALUE, "tree") \
    M(T_WINDOW, "tree_outside_the_window_rule", VALUE, "tree") \
    M(T_SINKS, "tree_loses_the_sinks", VALUE, "tree") \
    M(T_EXACT, "tree_rows_not_coded", VALUE, "tree") \
    M(T_CODED_KEYS, "tree_keys_coded_by_channel_too", VALUE, "tree") \
    M(T_STORES, "tree_is_stored", VALUE, "tree") \
    M(T_LSE, "tree_lse_unwritten", UNWRITTEN, "tree") \
    M(T_ANY_ORDER, "tree_takes_a_child_before_its_parent", VALUE, "tree_nonsense") \
    M(T_BELOW, "tree_takes_any_negative_parent", VALUE, "tree_nonsense") \
    M(T_FIRST, "tree_writes_before_it_refuses", VALUE, "tree_nonsense") \
    M(T_NO_SPACE, "tree_workspace_not_checked", VALUE, "tree_nonsense")
/* clang-format on */

#endif
