/* SPDX-License-Identifier: Apache-2.0 */
/* attention_cuda_list.h - the CUDA mutants of flash_attention. Per line: bug, name, the check that
 * must catch it, and the family whose cases must do so (NULL: normal).
 *
 * The mutant is called cuda_<name>, its function ts_mutant_attention_<name>. attention_cuda.cu
 * makes the enum of bugs and the functions from this list, attention.c the table. */
#ifndef TS_ATTENTION_CUDA_LIST_H
#define TS_ATTENTION_CUDA_LIST_H

/* clang-format off */
#define CUDA_FORWARD(M) \
    M(FORWARD_HONEST, control, NONE, NULL) \
    /* the running state */ \
    M(O_KEPT, output_not_rescaled, VALUE, "late") \
    M(SUM_KEPT, sum_not_rescaled, VALUE, "late") \
    M(INVERTED, rescale_inverted, VALUE, "late") \
    M(TILE_MAX, tile_max_for_running_max, VALUE, "early") \
    M(UNGUARDED, minus_inf_unguarded, VALUE, "masked") \
    M(HALF_SUMS, sums_in_16_bits, VALUE, "flat") \
    /* masks */ \
    M(STRICT, mask_off_by_one, VALUE, NULL) \
    M(LOCAL_MASK, mask_by_local_index, VALUE, NULL) \
    M(SKIP_ONE, last_tile_skipped, VALUE, NULL) \
    M(WIDE_WINDOW, window_one_too_wide, VALUE, "window") \
    M(NO_LENGTH, kv_len_ignored, VALUE, "ragged") \
    M(PADDING, padding_times_0, VALUE, "padding") \
    M(EMPTY_NAN, empty_row_is_nan, VALUE, "empty") \
    M(NAN_DROPPED, nan_dropped_by_max, VALUE, "nonfinite") \
    /* scale, heads, blocks */ \
    M(SCALE_SIGN, scale_made_positive, VALUE, "negative") \
    M(LSE_BASE_2, lse_base_2, VALUE, NULL) \
    M(HEAD_MODULO, kv_head_modulo, VALUE, NULL) \
    M(LAYOUT, layout_ignored, VALUE, NULL) \
    M(TAIL_8, head_dim_tail_unwritten, UNWRITTEN, NULL) \
    M(ROWS_16, last_rows_unwritten, UNWRITTEN, NULL) \
    M(HEADS_65535, heads_past_65535, UNWRITTEN, NULL) \
    M(PAST_O, writes_past_o, PAST, NULL)
/* clang-format on */

#endif
