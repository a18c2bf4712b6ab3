/* SPDX-License-Identifier: Apache-2.0 */
/* challenges.h - every challenge, in display order. A new one adds its line. So does a task that
 * takes no entrants: its descriptor sets no_challenge.
 *
 * PLAIN(NAME): one function, called with its args. SCRIPT(NAME): several functions, or one with an
 * observed model, called by a script. The rest is found by name: ts_task_NAME (judge/task/),
 * ts_NAME_impls (kernel/), ts_NAME_mutants (proof/mutant/); for a script also ts_player_NAME
 * (judge/task/) and ts_NAME_entries (tool/). */
#ifndef TS_SCRIPT_CHALLENGES_H
#define TS_SCRIPT_CHALLENGES_H

/* clang-format off */
#define TS_CHALLENGES(PLAIN, SCRIPT) \
    PLAIN(layernorm_forward)         \
    PLAIN(layernorm_backward)        \
    PLAIN(rms_norm_forward)          \
    PLAIN(rms_norm_backward)         \
    PLAIN(rope)                      \
    PLAIN(swiglu_forward)            \
    PLAIN(swiglu_backward)           \
    PLAIN(softmax_topk)              \
    SCRIPT(kv_cache)                 \
    PLAIN(flash_attention)           \
    PLAIN(flash_attention_backward)  \
    PLAIN(flash_attention_fp8)       \
    SCRIPT(beam_search)              \
    SCRIPT(tree_verify)              \
    SCRIPT(ternary_linear)           \
    SCRIPT(ternary_training)         \
    PLAIN(cross_entropy)             \
    PLAIN(cross_entropy_logits)      \
    PLAIN(embedding_forward)         \
    PLAIN(embedding_backward)        \
    PLAIN(adamw_step)
/* clang-format on */

#endif
