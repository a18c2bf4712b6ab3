/* SPDX-License-Identifier: Apache-2.0 */
/* abi.h - the layout of every struct, and the value of every enumerator, of the public headers.
 * cmake/abi.py writes this file; do not edit it.
 *
 * A program that includes this header has in ts_abi_fields the layouts that its own compiler saw;
 * the library has the layouts with which it was built. To find a library that does not match the
 * headers, call ts_abi_mismatch once, before any kernel:
 *
 *     const ts_abi_field *bad = ts_abi_mismatch(ts_abi_fields, TS_ABI_FIELDS);
 *     if (bad) fprintf(stderr, "libtouchstone: %s.%s differs\n", bad->of, bad->name), exit(1);
 */
#ifndef TOUCHSTONE_ABI_H
#define TOUCHSTONE_ABI_H

#include "touchstone/adamw.h"
#include "touchstone/attention.h"
#include "touchstone/attention_fp8.h"
#include "touchstone/beam_search.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/embedding.h"
#include "touchstone/kv_cache.h"
#include "touchstone/layernorm.h"
#include "touchstone/model.h"
#include "touchstone/rms_norm.h"
#include "touchstone/rope.h"
#include "touchstone/softmax_topk.h"
#include "touchstone/swiglu.h"
#include "touchstone/ternary.h"
#include "touchstone/ternary_training.h"
#include "touchstone/touchstone.h"
#include "touchstone/tree_verify.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A field of a struct, or, if n_bytes is 0, a value of an enum. */
typedef struct ts_abi_field {
    const char *of, *name; /* names of the struct or enum, and of the field or value */
    size_t      of_bytes;  /* size of the whole struct or enum */
    size_t      at;        /* offset of the field in bytes, or the value */
    size_t      n_bytes;   /* size of the field */
} ts_abi_field;

/* Compares the caller's n fields with those of the library. Returns the first field that differs or
 * is missing on one side, or NULL if all are equal. */
TS_API const ts_abi_field *ts_abi_mismatch(const ts_abi_field *mine, size_t n);

/* clang-format off */
#define TS_ABI_IN(s, f) { #s, #f, sizeof(s), offsetof(s, f), sizeof(((s *)0)->f) }
#define TS_ABI_IS(e, v) { #e, #v, sizeof(e), (size_t)(v), 0 }

static const ts_abi_field ts_abi_fields[] = {
    { "ts_abi_version", "", 0, TS_ABI_VERSION, 0 },
    TS_ABI_IN(ts_adamw_step_args, dtype), TS_ABI_IN(ts_adamw_step_args, grad_dtype),
    TS_ABI_IN(ts_adamw_step_args, n), TS_ABI_IN(ts_adamw_step_args, n_decay),
    TS_ABI_IN(ts_adamw_step_args, step), TS_ABI_IN(ts_adamw_step_args, lr),
    TS_ABI_IN(ts_adamw_step_args, beta1), TS_ABI_IN(ts_adamw_step_args, beta2),
    TS_ABI_IN(ts_adamw_step_args, eps), TS_ABI_IN(ts_adamw_step_args, weight_decay),
    TS_ABI_IN(ts_adamw_step_args, scale), TS_ABI_IN(ts_adamw_step_args, grad),
    TS_ABI_IN(ts_adamw_step_args, w), TS_ABI_IN(ts_adamw_step_args, master),
    TS_ABI_IN(ts_adamw_step_args, m), TS_ABI_IN(ts_adamw_step_args, v),
    TS_ABI_IS(ts_attention_layout, TS_BHND), TS_ABI_IS(ts_attention_layout, TS_BNHD),
    TS_ABI_IN(ts_attention_dims, dtype), TS_ABI_IN(ts_attention_dims, layout),
    TS_ABI_IN(ts_attention_dims, causal), TS_ABI_IN(ts_attention_dims, n_batch),
    TS_ABI_IN(ts_attention_dims, n_q), TS_ABI_IN(ts_attention_dims, n_k),
    TS_ABI_IN(ts_attention_dims, n_q_head), TS_ABI_IN(ts_attention_dims, n_kv_head),
    TS_ABI_IN(ts_attention_dims, head_dim), TS_ABI_IN(ts_attention_dims, window),
    TS_ABI_IN(ts_attention_dims, tile_q), TS_ABI_IN(ts_attention_dims, tile_k),
    TS_ABI_IN(ts_attention_dims, scale), TS_ABI_IN(ts_flash_attention_args, d),
    TS_ABI_IN(ts_flash_attention_args, q), TS_ABI_IN(ts_flash_attention_args, k),
    TS_ABI_IN(ts_flash_attention_args, v), TS_ABI_IN(ts_flash_attention_args, kv_len),
    TS_ABI_IN(ts_flash_attention_args, o), TS_ABI_IN(ts_flash_attention_args, lse),
    TS_ABI_IN(ts_flash_attention_backward_args, d), TS_ABI_IN(ts_flash_attention_backward_args, q),
    TS_ABI_IN(ts_flash_attention_backward_args, k), TS_ABI_IN(ts_flash_attention_backward_args, v),
    TS_ABI_IN(ts_flash_attention_backward_args, o),
    TS_ABI_IN(ts_flash_attention_backward_args, dout),
    TS_ABI_IN(ts_flash_attention_backward_args, lse),
    TS_ABI_IN(ts_flash_attention_backward_args, kv_len),
    TS_ABI_IN(ts_flash_attention_backward_args, dq),
    TS_ABI_IN(ts_flash_attention_backward_args, dk),
    TS_ABI_IN(ts_flash_attention_backward_args, dv),
    TS_ABI_IN(ts_flash_attention_fp8_args, d), TS_ABI_IN(ts_flash_attention_fp8_args, q),
    TS_ABI_IN(ts_flash_attention_fp8_args, k), TS_ABI_IN(ts_flash_attention_fp8_args, v),
    TS_ABI_IN(ts_flash_attention_fp8_args, q_scale),
    TS_ABI_IN(ts_flash_attention_fp8_args, k_scale),
    TS_ABI_IN(ts_flash_attention_fp8_args, v_scale), TS_ABI_IN(ts_flash_attention_fp8_args, kv_len),
    TS_ABI_IN(ts_flash_attention_fp8_args, o), TS_ABI_IN(ts_flash_attention_fp8_args, lse),
    TS_ABI_IN(ts_beam_dims, n_items), TS_ABI_IN(ts_beam_dims, beam_width),
    TS_ABI_IN(ts_beam_dims, max_new_tokens), TS_ABI_IN(ts_beam_dims, alpha),
    TS_ABI_IN(ts_beam_dims, eos), TS_ABI_IN(ts_beam_search_args, d),
    TS_ABI_IN(ts_beam_search_args, model), TS_ABI_IN(ts_beam_search_args, prompts),
    TS_ABI_IN(ts_beam_search_args, prompt_len), TS_ABI_IN(ts_beam_search_args, tokens),
    TS_ABI_IN(ts_beam_search_args, length), TS_ABI_IN(ts_beam_search_args, logprob),
    TS_ABI_IN(ts_beam_search_args, score), TS_ABI_IN(ts_beam_search_args, finished),
    TS_ABI_IN(ts_beam_search_args, n_found), TS_ABI_IN(ts_beam_search_args, host),
    TS_ABI_IN(ts_beam_search_args, host_bytes),
    TS_ABI_IN(ts_cross_entropy_args, dtype), TS_ABI_IN(ts_cross_entropy_args, grad_dtype),
    TS_ABI_IN(ts_cross_entropy_args, mean), TS_ABI_IN(ts_cross_entropy_args, accumulate),
    TS_ABI_IN(ts_cross_entropy_args, ignore_index), TS_ABI_IN(ts_cross_entropy_args, n_rows),
    TS_ABI_IN(ts_cross_entropy_args, n_vocab), TS_ABI_IN(ts_cross_entropy_args, n_hidden),
    TS_ABI_IN(ts_cross_entropy_args, h_stride), TS_ABI_IN(ts_cross_entropy_args, w_stride),
    TS_ABI_IN(ts_cross_entropy_args, chunk), TS_ABI_IN(ts_cross_entropy_args, scale),
    TS_ABI_IN(ts_cross_entropy_args, smoothing), TS_ABI_IN(ts_cross_entropy_args, z_loss),
    TS_ABI_IN(ts_cross_entropy_args, softcap), TS_ABI_IN(ts_cross_entropy_args, h),
    TS_ABI_IN(ts_cross_entropy_args, w), TS_ABI_IN(ts_cross_entropy_args, bias),
    TS_ABI_IN(ts_cross_entropy_args, target), TS_ABI_IN(ts_cross_entropy_args, loss),
    TS_ABI_IN(ts_cross_entropy_args, lse), TS_ABI_IN(ts_cross_entropy_args, total),
    TS_ABI_IN(ts_cross_entropy_args, dh), TS_ABI_IN(ts_cross_entropy_args, dw),
    TS_ABI_IN(ts_cross_entropy_logits_args, dtype), TS_ABI_IN(ts_cross_entropy_logits_args, mean),
    TS_ABI_IN(ts_cross_entropy_logits_args, in_place),
    TS_ABI_IN(ts_cross_entropy_logits_args, ignore_index),
    TS_ABI_IN(ts_cross_entropy_logits_args, n_rows),
    TS_ABI_IN(ts_cross_entropy_logits_args, n_vocab),
    TS_ABI_IN(ts_cross_entropy_logits_args, row_stride),
    TS_ABI_IN(ts_cross_entropy_logits_args, scale),
    TS_ABI_IN(ts_cross_entropy_logits_args, smoothing),
    TS_ABI_IN(ts_cross_entropy_logits_args, z_loss),
    TS_ABI_IN(ts_cross_entropy_logits_args, softcap),
    TS_ABI_IN(ts_cross_entropy_logits_args, logits),
    TS_ABI_IN(ts_cross_entropy_logits_args, target), TS_ABI_IN(ts_cross_entropy_logits_args, loss),
    TS_ABI_IN(ts_cross_entropy_logits_args, lse), TS_ABI_IN(ts_cross_entropy_logits_args, total),
    TS_ABI_IN(ts_cross_entropy_logits_args, dlogits),
    TS_ABI_IN(ts_embedding_forward_args, dtype), TS_ABI_IN(ts_embedding_forward_args, y_dtype),
    TS_ABI_IN(ts_embedding_forward_args, n_rows), TS_ABI_IN(ts_embedding_forward_args, n_cols),
    TS_ABI_IN(ts_embedding_forward_args, n_vocab),
    TS_ABI_IN(ts_embedding_forward_args, table_stride),
    TS_ABI_IN(ts_embedding_forward_args, y_stride), TS_ABI_IN(ts_embedding_forward_args, scale),
    TS_ABI_IN(ts_embedding_forward_args, table), TS_ABI_IN(ts_embedding_forward_args, token),
    TS_ABI_IN(ts_embedding_forward_args, y), TS_ABI_IN(ts_embedding_backward_args, dtype),
    TS_ABI_IN(ts_embedding_backward_args, accumulate),
    TS_ABI_IN(ts_embedding_backward_args, n_rows), TS_ABI_IN(ts_embedding_backward_args, n_cols),
    TS_ABI_IN(ts_embedding_backward_args, n_vocab),
    TS_ABI_IN(ts_embedding_backward_args, table_stride),
    TS_ABI_IN(ts_embedding_backward_args, dy_stride), TS_ABI_IN(ts_embedding_backward_args, scale),
    TS_ABI_IN(ts_embedding_backward_args, token), TS_ABI_IN(ts_embedding_backward_args, dy),
    TS_ABI_IN(ts_embedding_backward_args, dtable),
    TS_ABI_IS(ts_key_axis, TS_KEY_TOKEN), TS_ABI_IS(ts_key_axis, TS_KEY_CHANNEL),
    TS_ABI_IN(ts_kv_dims, n_layer), TS_ABI_IN(ts_kv_dims, n_seq_max),
    TS_ABI_IN(ts_kv_dims, n_q_head), TS_ABI_IN(ts_kv_dims, n_kv_head),
    TS_ABI_IN(ts_kv_dims, head_dim), TS_ABI_IN(ts_kv_dims, capacity), TS_ABI_IN(ts_kv_dims, page),
    TS_ABI_IN(ts_kv_dims, n_page), TS_ABI_IN(ts_kv_dims, window), TS_ABI_IN(ts_kv_dims, n_sink),
    TS_ABI_IN(ts_kv_dims, key_group), TS_ABI_IN(ts_kv_dims, max_call_tokens),
    TS_ABI_IN(ts_kv_dims, key_axis), TS_ABI_IN(ts_kv_dims, io_dtype),
    TS_ABI_IN(ts_kv_dims, store_dtype), TS_ABI_IN(ts_kv_dims, meta_dtype),
    TS_ABI_IN(ts_kv_dims, scale), TS_ABI_IN(ts_kv_usage, n_page), TS_ABI_IN(ts_kv_usage, n_free),
    TS_ABI_IN(ts_kv_usage, bytes_reserved), TS_ABI_IN(ts_kv_usage, bytes_live),
    TS_ABI_IN(ts_kv_tree, parent), TS_ABI_IN(ts_kv_tree, k), TS_ABI_IN(ts_kv_tree, v),
    TS_ABI_IN(ts_layernorm_forward_args, dtype), TS_ABI_IN(ts_layernorm_forward_args, n_rows),
    TS_ABI_IN(ts_layernorm_forward_args, n_cols), TS_ABI_IN(ts_layernorm_forward_args, row_stride),
    TS_ABI_IN(ts_layernorm_forward_args, eps), TS_ABI_IN(ts_layernorm_forward_args, x),
    TS_ABI_IN(ts_layernorm_forward_args, gamma), TS_ABI_IN(ts_layernorm_forward_args, beta),
    TS_ABI_IN(ts_layernorm_forward_args, y), TS_ABI_IN(ts_layernorm_forward_args, mean),
    TS_ABI_IN(ts_layernorm_forward_args, rstd), TS_ABI_IN(ts_layernorm_backward_args, dtype),
    TS_ABI_IN(ts_layernorm_backward_args, accumulate),
    TS_ABI_IN(ts_layernorm_backward_args, n_rows), TS_ABI_IN(ts_layernorm_backward_args, n_cols),
    TS_ABI_IN(ts_layernorm_backward_args, row_stride), TS_ABI_IN(ts_layernorm_backward_args, x),
    TS_ABI_IN(ts_layernorm_backward_args, dy), TS_ABI_IN(ts_layernorm_backward_args, gamma),
    TS_ABI_IN(ts_layernorm_backward_args, mean), TS_ABI_IN(ts_layernorm_backward_args, rstd),
    TS_ABI_IN(ts_layernorm_backward_args, dx), TS_ABI_IN(ts_layernorm_backward_args, dgamma),
    TS_ABI_IN(ts_layernorm_backward_args, dbeta),
    TS_ABI_IN(ts_model, self), TS_ABI_IN(ts_model, n_vocab), TS_ABI_IN(ts_model, next),
    TS_ABI_IN(ts_model, forward),
    TS_ABI_IN(ts_rms_norm_forward_args, dtype), TS_ABI_IN(ts_rms_norm_forward_args, w_offset),
    TS_ABI_IN(ts_rms_norm_forward_args, n_rows), TS_ABI_IN(ts_rms_norm_forward_args, n_cols),
    TS_ABI_IN(ts_rms_norm_forward_args, row_stride), TS_ABI_IN(ts_rms_norm_forward_args, eps),
    TS_ABI_IN(ts_rms_norm_forward_args, x), TS_ABI_IN(ts_rms_norm_forward_args, residual),
    TS_ABI_IN(ts_rms_norm_forward_args, w), TS_ABI_IN(ts_rms_norm_forward_args, r),
    TS_ABI_IN(ts_rms_norm_forward_args, y), TS_ABI_IN(ts_rms_norm_forward_args, rstd),
    TS_ABI_IN(ts_rms_norm_backward_args, dtype), TS_ABI_IN(ts_rms_norm_backward_args, w_offset),
    TS_ABI_IN(ts_rms_norm_backward_args, accumulate), TS_ABI_IN(ts_rms_norm_backward_args, n_rows),
    TS_ABI_IN(ts_rms_norm_backward_args, n_cols), TS_ABI_IN(ts_rms_norm_backward_args, row_stride),
    TS_ABI_IN(ts_rms_norm_backward_args, r), TS_ABI_IN(ts_rms_norm_backward_args, dy),
    TS_ABI_IN(ts_rms_norm_backward_args, dr), TS_ABI_IN(ts_rms_norm_backward_args, w),
    TS_ABI_IN(ts_rms_norm_backward_args, rstd), TS_ABI_IN(ts_rms_norm_backward_args, dx),
    TS_ABI_IN(ts_rms_norm_backward_args, dw),
    TS_ABI_IN(ts_rope_args, dtype), TS_ABI_IN(ts_rope_args, pairing),
    TS_ABI_IN(ts_rope_args, inverse), TS_ABI_IN(ts_rope_args, n_rows),
    TS_ABI_IN(ts_rope_args, n_heads), TS_ABI_IN(ts_rope_args, head_dim),
    TS_ABI_IN(ts_rope_args, rotary_dim), TS_ABI_IN(ts_rope_args, x_stride),
    TS_ABI_IN(ts_rope_args, y_stride), TS_ABI_IN(ts_rope_args, theta),
    TS_ABI_IN(ts_rope_args, frequency), TS_ABI_IN(ts_rope_args, position),
    TS_ABI_IN(ts_rope_args, x), TS_ABI_IN(ts_rope_args, y),
    TS_ABI_IN(ts_softmax_topk_args, dtype), TS_ABI_IN(ts_softmax_topk_args, n_rows),
    TS_ABI_IN(ts_softmax_topk_args, n_vocab), TS_ABI_IN(ts_softmax_topk_args, row_stride),
    TS_ABI_IN(ts_softmax_topk_args, k), TS_ABI_IN(ts_softmax_topk_args, inv_temperature),
    TS_ABI_IN(ts_softmax_topk_args, logits), TS_ABI_IN(ts_softmax_topk_args, index),
    TS_ABI_IN(ts_softmax_topk_args, prob), TS_ABI_IN(ts_softmax_topk_args, lse),
    TS_ABI_IN(ts_swiglu_forward_args, dtype), TS_ABI_IN(ts_swiglu_forward_args, n_rows),
    TS_ABI_IN(ts_swiglu_forward_args, n_cols), TS_ABI_IN(ts_swiglu_forward_args, x_stride),
    TS_ABI_IN(ts_swiglu_forward_args, y_stride), TS_ABI_IN(ts_swiglu_forward_args, gate),
    TS_ABI_IN(ts_swiglu_forward_args, up), TS_ABI_IN(ts_swiglu_forward_args, y),
    TS_ABI_IN(ts_swiglu_backward_args, dtype), TS_ABI_IN(ts_swiglu_backward_args, n_rows),
    TS_ABI_IN(ts_swiglu_backward_args, n_cols), TS_ABI_IN(ts_swiglu_backward_args, x_stride),
    TS_ABI_IN(ts_swiglu_backward_args, y_stride), TS_ABI_IN(ts_swiglu_backward_args, gate),
    TS_ABI_IN(ts_swiglu_backward_args, up), TS_ABI_IN(ts_swiglu_backward_args, dy),
    TS_ABI_IN(ts_swiglu_backward_args, dgate), TS_ABI_IN(ts_swiglu_backward_args, dup),
    TS_ABI_IN(ts_ternary_linear_dims, dtype), TS_ABI_IN(ts_ternary_linear_dims, n_out),
    TS_ABI_IN(ts_ternary_linear_dims, n_in), TS_ABI_IN(ts_ternary_linear_dims, n_rows),
    TS_ABI_IN(ts_ternary_pack_args, d), TS_ABI_IN(ts_ternary_pack_args, w),
    TS_ABI_IN(ts_ternary_pack_args, code), TS_ABI_IN(ts_ternary_pack_args, scale),
    TS_ABI_IN(ts_ternary_unpack_args, d), TS_ABI_IN(ts_ternary_unpack_args, code),
    TS_ABI_IN(ts_ternary_unpack_args, scale), TS_ABI_IN(ts_ternary_unpack_args, wt),
    TS_ABI_IN(ts_ternary_linear_args, d), TS_ABI_IN(ts_ternary_linear_args, w),
    TS_ABI_IN(ts_ternary_linear_args, in), TS_ABI_IN(ts_ternary_linear_args, y),
    TS_ABI_IN(ts_ternary_linear_packed_args, d), TS_ABI_IN(ts_ternary_linear_packed_args, code),
    TS_ABI_IN(ts_ternary_linear_packed_args, scale), TS_ABI_IN(ts_ternary_linear_packed_args, in),
    TS_ABI_IN(ts_ternary_linear_packed_args, y), TS_ABI_IN(ts_ternary_linear_backward_args, d),
    TS_ABI_IN(ts_ternary_linear_backward_args, w), TS_ABI_IN(ts_ternary_linear_backward_args, in),
    TS_ABI_IN(ts_ternary_linear_backward_args, dy), TS_ABI_IN(ts_ternary_linear_backward_args, dx),
    TS_ABI_IN(ts_ternary_linear_backward_args, dw),
    TS_ABI_IN(ts_ternary_dims, n_vocab), TS_ABI_IN(ts_ternary_dims, width),
    TS_ABI_IN(ts_ternary_dims, n_layer), TS_ABI_IN(ts_ternary_dims, n_head),
    TS_ABI_IN(ts_ternary_dims, n_kv_head), TS_ABI_IN(ts_ternary_dims, head_dim),
    TS_ABI_IN(ts_ternary_dims, ffn), TS_ABI_IN(ts_ternary_dims, max_batch),
    TS_ABI_IN(ts_ternary_dims, max_tokens), TS_ABI_IN(ts_ternary_dims, rope_theta),
    TS_ABI_IN(ts_ternary_dims, norm_eps), TS_ABI_IN(ts_adamw, lr), TS_ABI_IN(ts_adamw, beta1),
    TS_ABI_IN(ts_adamw, beta2), TS_ABI_IN(ts_adamw, eps), TS_ABI_IN(ts_adamw, weight_decay),
    TS_ABI_IN(ts_adamw, clip_norm),
    TS_ABI_IS(ts_status, TS_OK), TS_ABI_IS(ts_status, TS_E_ARG), TS_ABI_IS(ts_status, TS_E_SHAPE),
    TS_ABI_IS(ts_status, TS_E_DTYPE), TS_ABI_IS(ts_status, TS_E_UNSUPPORTED),
    TS_ABI_IS(ts_status, TS_E_WORKSPACE), TS_ABI_IS(ts_status, TS_E_CAPACITY),
    TS_ABI_IS(ts_status, TS_E_STATE), TS_ABI_IS(ts_status, TS_E_RANGE),
    TS_ABI_IS(ts_status, TS_E_FORMAT), TS_ABI_IS(ts_status, TS_E_MODEL),
    TS_ABI_IS(ts_status, TS_E_DEVICE), TS_ABI_IS(ts_dtype, TS_F32), TS_ABI_IS(ts_dtype, TS_F64),
    TS_ABI_IS(ts_dtype, TS_F16), TS_ABI_IS(ts_dtype, TS_BF16), TS_ABI_IS(ts_dtype, TS_U8),
    TS_ABI_IS(ts_dtype, TS_U4), TS_ABI_IS(ts_dtype, TS_I32), TS_ABI_IS(ts_dtype, TS_E4M3),
    TS_ABI_IS(ts_device, TS_CPU), TS_ABI_IS(ts_device, TS_CUDA), TS_ABI_IN(ts_exec, device),
    TS_ABI_IN(ts_exec, n_threads), TS_ABI_IN(ts_exec, deterministic), TS_ABI_IN(ts_exec, stream),
    TS_ABI_IN(ts_exec, workspace), TS_ABI_IN(ts_exec, workspace_bytes),
    TS_ABI_IS(ts_node_status, TS_NODE_UNREACHED), TS_ABI_IS(ts_node_status, TS_NODE_ACCEPTED),
    TS_ABI_IS(ts_node_status, TS_NODE_REJECTED), TS_ABI_IN(ts_tree_dims, prompt_len),
    TS_ABI_IN(ts_tree_dims, n_node), TS_ABI_IN(ts_tree_dims, max_new),
    TS_ABI_IN(ts_tree_dims, temperature), TS_ABI_IN(ts_tree_mask_args, d),
    TS_ABI_IN(ts_tree_mask_args, parent), TS_ABI_IN(ts_tree_mask_args, visible),
    TS_ABI_IN(ts_tree_mask_args, position), TS_ABI_IN(ts_tree_bias_args, d),
    TS_ABI_IN(ts_tree_bias_args, parent), TS_ABI_IN(ts_tree_bias_args, bias),
    TS_ABI_IN(ts_tree_verify_args, d), TS_ABI_IN(ts_tree_verify_args, model),
    TS_ABI_IN(ts_tree_verify_args, prompt), TS_ABI_IN(ts_tree_verify_args, token),
    TS_ABI_IN(ts_tree_verify_args, parent), TS_ABI_IN(ts_tree_verify_args, u),
    TS_ABI_IN(ts_tree_verify_args, out), TS_ABI_IN(ts_tree_verify_args, n_out),
    TS_ABI_IN(ts_tree_verify_args, path), TS_ABI_IN(ts_tree_verify_args, n_path),
    TS_ABI_IN(ts_tree_verify_args, status), TS_ABI_IN(ts_tree_verify_args, host),
    TS_ABI_IN(ts_tree_verify_args, host_bytes), TS_ABI_IN(ts_tree_residual_args, n_vocab),
    TS_ABI_IN(ts_tree_residual_args, n_child), TS_ABI_IN(ts_tree_residual_args, p),
    TS_ABI_IN(ts_tree_residual_args, q), TS_ABI_IN(ts_tree_residual_args, child),
    TS_ABI_IN(ts_tree_residual_args, u), TS_ABI_IN(ts_tree_residual_args, token),
    TS_ABI_IN(ts_tree_residual_args, accepted),
};
/* clang-format on */
enum { TS_ABI_FIELDS = sizeof ts_abi_fields / sizeof *ts_abi_fields };

/* Returns a hash of n fields (FNV-1a, 64 bits): equal layouts have equal hashes. For processes that
 * cannot read each other's tables. */
static inline uint64_t ts_abi_hash(const ts_abi_field *f, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) {
        const uint64_t number[] = { f[i].of_bytes, f[i].at, f[i].n_bytes };
        for (const char *s = f[i].of; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
        for (const char *s = f[i].name; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
        for (int k = 0; k < 3; k++) h = (h ^ number[k]) * 0x100000001b3u;
    }
    return h;
}

#undef TS_ABI_IN
#undef TS_ABI_IS

#ifdef __cplusplus
}
#endif
#endif
