/* SPDX-License-Identifier: Apache-2.0 */
#include "task.h"

extern const ts_task ts_task_layernorm_forward, ts_task_layernorm_backward, ts_task_softmax_topk;
extern const ts_task ts_task_kv_cache, ts_task_flash_attention, ts_task_flash_attention_backward;
extern const ts_task ts_task_beam_search, ts_task_tree_verify;
extern const ts_task ts_task_cross_entropy, ts_task_cross_entropy_logits;
extern const ts_task ts_task_ternary_linear, ts_task_ternary_training;

const ts_task *const ts_tasks[] = { &ts_task_layernorm_forward,
                                    &ts_task_layernorm_backward,
                                    &ts_task_softmax_topk,
                                    &ts_task_kv_cache,
                                    &ts_task_flash_attention,
                                    &ts_task_flash_attention_backward,
                                    &ts_task_beam_search,
                                    &ts_task_tree_verify,
                                    &ts_task_ternary_linear,
                                    &ts_task_ternary_training,
                                    &ts_task_cross_entropy,
                                    &ts_task_cross_entropy_logits,
                                    NULL };
