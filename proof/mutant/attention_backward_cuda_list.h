/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_cuda_list.h - the CUDA mutants of flash_attention_backward. Per line: bug,
 * name, the check that must catch it, and the family whose cases must do so (NULL: normal).
 *
 * The mutant is called cuda_<name>, its function ts_mutant_attention_backward_<name>.
 * attention_cuda.cu makes the enum of bugs and the functions from this list, attention_backward.c
 * the table. */
#ifndef TS_ATTENTION_BACKWARD_CUDA_LIST_H
#define TS_ATTENTION_BACKWARD_CUDA_LIST_H

/* clang-format off */
#define CUDA_BACKWARD(M) \
    M(BACKWARD_HONEST, control, NONE, NULL) \
    /* the formula */ \
    M(NO_DELTA, delta_omitted, VALUE, NULL) \
    M(DELTA_TILE, delta_inside_one_tile, VALUE, NULL) \
    M(NO_SCALE_K, scale_missing_in_dk, VALUE, NULL) \
    M(LSE_AS_BASE_2, lse_taken_as_base_2, VALUE, NULL) \
    /* sums */ \
    M(LAST_HEAD, sharing_heads_not_summed, VALUE, NULL) \
    M(DQ_LAST_TILE, dq_of_last_key_tile, VALUE, NULL) \
    M(HALF_DQ, dq_sums_in_16_bits, VALUE, "flat") \
    M(HALF_DK, dk_sums_in_16_bits, VALUE, "flat") \
    M(ADDS, dq_sums_not_cleared, VALUE, NULL) \
    /* masks */ \
    M(BACKWARD_STRICT, mask_off_by_one, VALUE, NULL) \
    M(BACKWARD_WINDOW, window_one_too_wide, VALUE, "window") \
    M(BACKWARD_LENGTH, kv_len_ignored, VALUE, "ragged") \
    M(BACKWARD_PADDING, padding_times_0, VALUE, "padding") \
    M(EMPTY_ROWS, empty_rows_contribute, VALUE, "empty") \
    M(TAIL_KEYS, keys_past_length_unwritten, UNWRITTEN, "ragged") \
    M(PAST_DK, writes_past_dk, PAST, NULL)
/* clang-format on */

#endif
