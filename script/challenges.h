/* SPDX-License-Identifier: Apache-2.0 */
/* challenges.h - every challenge, in the order in which they are shown. A new one adds its line. So
 * does a task that takes no entrants: its descriptor says no_challenge.
 *
 * PLAIN(NAME): one function, which is called with its args. SCRIPT(NAME): several functions, or one
 * with a model that is watched, which are called as a script says.
 * The rest is found by name: ts_task_NAME (task/), ts_NAME_impls (kernel/), ts_NAME_mutants
 * (mutant/); of a script ts_player_NAME (script/) and ts_NAME_doors (tool/) besides. */
#ifndef TS_SCRIPT_CHALLENGES_H
#define TS_SCRIPT_CHALLENGES_H

/* clang-format off */
#define TS_CHALLENGES(PLAIN, SCRIPT) \
    PLAIN(layernorm_forward)         \
    PLAIN(layernorm_backward)        \
    PLAIN(rms_norm_forward)          \
    PLAIN(rms_norm_backward)         \
    PLAIN(softmax_topk)              \
    SCRIPT(kv_cache)                 \
    PLAIN(flash_attention)           \
    PLAIN(flash_attention_backward)  \
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
