/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include <stdio.h>
#include <string.h>

#include "beam_search.h"
#include "cuda_module.h"
#include "kv_cache.h"
#include "ternary_linear.h"
#include "ternary_training.h"
#include "tool.h"
#include "touchstone/attention.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/layernorm.h"
#include "touchstone/softmax_topk.h"
#include "tree_verify.h"

extern const ts_task   ts_task_layernorm_forward, ts_task_layernorm_backward, ts_task_softmax_topk;
extern const ts_task   ts_task_kv_cache, ts_task_flash_attention, ts_task_flash_attention_backward;
extern const ts_task   ts_task_beam_search, ts_task_tree_verify;
extern const ts_task   ts_task_ternary_linear, ts_task_ternary_training;
extern const ts_task   ts_task_cross_entropy, ts_task_cross_entropy_logits;
extern const ts_impl   ts_layernorm_forward_impls[], ts_layernorm_backward_impls[];
extern const ts_impl   ts_softmax_topk_impls[], ts_kv_cache_impls[];
extern const ts_impl   ts_flash_attention_impls[], ts_flash_attention_backward_impls[];
extern const ts_impl   ts_beam_search_impls[], ts_tree_verify_impls[];
extern const ts_impl   ts_ternary_linear_impls[], ts_ternary_training_impls[];
extern const ts_impl   ts_cross_entropy_impls[], ts_cross_entropy_logits_impls[];
extern const ts_mutant ts_layernorm_mutants[], ts_softmax_topk_mutants[], ts_kv_cache_mutants[];
extern const ts_mutant ts_flash_attention_mutants[], ts_flash_attention_backward_mutants[];
extern const ts_mutant ts_beam_search_mutants[], ts_tree_verify_mutants[];
extern const ts_mutant ts_ternary_linear_mutants[], ts_ternary_training_mutants[];
extern const ts_mutant ts_cross_entropy_mutants[];

/* Entrants of kernel/softmax_topk. */
ts_status ts_softmax_topk_textbook(const void *a, const ts_exec *x);
ts_status ts_softmax_topk_textbook_workspace(const void *a, const ts_exec *x, size_t *n_bytes);
ts_status ts_softmax_topk_three_pass(const void *a, const ts_exec *x);
ts_status ts_softmax_topk_three_pass_workspace(const void *a, const ts_exec *x, size_t *n_bytes);

/* A door takes its own args type; an entry takes any. */
static ts_status layernorm_forward(const void *a, const ts_exec *x)
{
    return ts_layernorm_forward(a, x);
}

static ts_status layernorm_forward_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_layernorm_forward_workspace(a, x, n);
}

static ts_status layernorm_backward(const void *a, const ts_exec *x)
{
    return ts_layernorm_backward(a, x);
}

static ts_status layernorm_backward_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_layernorm_backward_workspace(a, x, n);
}

static ts_status softmax_topk(const void *a, const ts_exec *x)
{
    return ts_softmax_topk(a, x);
}

static ts_status softmax_topk_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_softmax_topk_workspace(a, x, n);
}

/* A cache has eleven doors: they are entered as a script says. */
static const ts_kv_table kv_cache_doors = { ts_kv_bytes, ts_kv_create, ts_kv_destroy,
                                            ts_kv_open,  ts_kv_fork,   ts_kv_truncate,
                                            ts_kv_free,  ts_kv_append, ts_kv_attend,
                                            ts_kv_read,  ts_kv_status, ts_kv_attend_tree };

static ts_status kv_cache(const void *a, const ts_exec *x)
{
    if (x->device == TS_CPU) return ts_kv_play(&kv_cache_doors, NULL, a, x);
    if (ts_cuda_unavailable_reason()) return TS_E_DEVICE;
    const ts_cuda_module_ops *cuda = ts_cuda_ops();
    const ts_kv_mover         m = { cuda->copy_in, cuda->copy_out, cuda->copy_within, cuda->fill };
    return ts_kv_play(&kv_cache_doors, &m, a, x);
}

static ts_status kv_cache_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_kv_play_workspace(&kv_cache_doors, a, x, n);
}

static ts_status flash_attention(const void *a, const ts_exec *x)
{
    return ts_flash_attention(a, x);
}

static ts_status flash_attention_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_flash_attention_workspace(a, x, n);
}

static ts_status flash_attention_backward(const void *a, const ts_exec *x)
{
    return ts_flash_attention_backward(a, x);
}

static ts_status flash_attention_backward_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_flash_attention_backward_workspace(a, x, n);
}

/* These two are given one of the judge's models, and watched as they ask it; a call without args or
 * exec has none. */
static ts_status beam_search(const void *a, const ts_exec *x)
{
    return ts_beam_search(a, x);
}

static ts_status beam_search_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_beam_search_workspace(a, x, n);
}

static ts_status beam_search_archive(const void *a, const ts_exec *x)
{
    return ts_beam_search_archive(a, x);
}

static ts_status beam_search_archive_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_beam_search_archive_workspace(a, x, n);
}

static const ts_beam_table beam_doors = { beam_search, beam_search_archive, beam_search_workspace,
                                          beam_search_archive_workspace };

static ts_status play_beam(const void *a, const ts_exec *x)
{
    return a && x ? ts_beam_play(&beam_doors, a, x) : ts_beam_search(a, x);
}

static ts_status play_beam_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return a && x && n ? ts_beam_play_workspace(&beam_doors, a, x, n)
                       : ts_beam_search_workspace(NULL, x, n);
}

static ts_status tree_verify(const void *a, const ts_exec *x)
{
    return ts_tree_verify(a, x);
}

static ts_status tree_verify_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_tree_verify_workspace(a, x, n);
}

static ts_status tree_mask(const void *a, const ts_exec *x)
{
    return ts_tree_mask(a, x);
}

static ts_status tree_bias(const void *a, const ts_exec *x)
{
    return ts_tree_bias(a, x);
}

static ts_status tree_residual(const void *a, const ts_exec *x)
{
    return ts_tree_residual(a, x);
}

static const ts_tree_table tree_doors = { tree_verify, tree_mask, tree_bias, tree_residual,
                                          tree_verify_workspace };

static ts_status play_tree(const void *a, const ts_exec *x)
{
    return a && x ? ts_tree_play(&tree_doors, a, x) : ts_tree_verify(a, x);
}

static ts_status play_tree_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return a && x && n ? ts_tree_play_workspace(&tree_doors, a, x, n)
                       : ts_tree_verify_workspace(NULL, x, n);
}

/* Five functions over one matrix, in turn. */
static const ts_ternary_table ternary_linear_doors = {
    ts_ternary_pack,
    ts_ternary_unpack,
    ts_ternary_linear,
    ts_ternary_linear_packed,
    ts_ternary_linear_backward,
    ts_ternary_pack_workspace,
    ts_ternary_unpack_workspace,
    ts_ternary_linear_workspace,
    ts_ternary_linear_packed_workspace,
    ts_ternary_linear_backward_workspace,
};

/* On a device all is there but the statuses, which the player notes down here. */
static ts_status play_linear(const void *args, const ts_exec *x)
{
    double               seen[TS_TL_FUNCTIONS] = { 0 };
    ts_ternary_play_args a = *(const ts_ternary_play_args *)args;
    void *const          there = a.seen;
    if (x->device != TS_CUDA) return ts_ternary_linear_play(&ternary_linear_doors, &a, x);
    a.seen = seen;
    const ts_status s = ts_ternary_linear_play(&ternary_linear_doors, &a, x);
    return !s && ts_cuda_ops()->copy_in(there, seen, sizeof seen) ? TS_E_DEVICE : s;
}

static ts_status play_linear_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_ternary_linear_play_workspace(&ternary_linear_doors, a, x, n);
}

/* A model in training: its doors are entered as a script says. */
static const ts_tt_table ternary_training_doors = {
    ts_ternary_bytes, ts_ternary_create, ts_ternary_destroy, ts_ternary_grad,
    ts_ternary_step,  ts_ternary_eval,   ts_ternary_export,
};

static ts_status play_training(const void *a, const ts_exec *x)
{
    return ts_tt_play(&ternary_training_doors, a, x);
}

static ts_status play_training_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_tt_play_workspace(&ternary_training_doors, a, x, n);
}

static ts_status cross_entropy(const void *a, const ts_exec *x)
{
    return ts_cross_entropy(a, x);
}

static ts_status cross_entropy_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_cross_entropy_workspace(a, x, n);
}

static ts_status cross_entropy_logits(const void *a, const ts_exec *x)
{
    return ts_cross_entropy_logits(a, x);
}

static ts_status cross_entropy_logits_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return ts_cross_entropy_logits_workspace(a, x, n);
}

enum { FAST = TS_HAS_F32 | TS_HAS_BF16 | TS_HAS_F16 };

static const ts_entrant softmax_topk_entrants[] = {
    { "three_pass", TS_CPU, FAST, ts_softmax_topk_three_pass,
      ts_softmax_topk_three_pass_workspace },
    { "textbook", TS_CPU, FAST, ts_softmax_topk_textbook, ts_softmax_topk_textbook_workspace },
    { 0 },
};

const ts_offer ts_offers[] = {
    { &ts_task_layernorm_forward, ts_layernorm_forward_impls, layernorm_forward,
      layernorm_forward_workspace, ts_layernorm_mutants, NULL },
    { &ts_task_layernorm_backward, ts_layernorm_backward_impls, layernorm_backward,
      layernorm_backward_workspace, ts_layernorm_mutants, NULL },
    { &ts_task_softmax_topk, ts_softmax_topk_impls, softmax_topk, softmax_topk_workspace,
      ts_softmax_topk_mutants, softmax_topk_entrants },
    { &ts_task_kv_cache, ts_kv_cache_impls, kv_cache, kv_cache_workspace, ts_kv_cache_mutants,
      NULL },
    { &ts_task_flash_attention, ts_flash_attention_impls, flash_attention,
      flash_attention_workspace, ts_flash_attention_mutants, NULL },
    { &ts_task_flash_attention_backward, ts_flash_attention_backward_impls,
      flash_attention_backward, flash_attention_backward_workspace,
      ts_flash_attention_backward_mutants, NULL },
    { &ts_task_beam_search, ts_beam_search_impls, play_beam, play_beam_workspace,
      ts_beam_search_mutants, NULL },
    { &ts_task_tree_verify, ts_tree_verify_impls, play_tree, play_tree_workspace,
      ts_tree_verify_mutants, NULL },
    { &ts_task_ternary_linear, ts_ternary_linear_impls, play_linear, play_linear_workspace,
      ts_ternary_linear_mutants, NULL },
    { &ts_task_ternary_training, ts_ternary_training_impls, play_training, play_training_workspace,
      ts_ternary_training_mutants, NULL },
    { &ts_task_cross_entropy, ts_cross_entropy_impls, cross_entropy, cross_entropy_workspace,
      ts_cross_entropy_mutants, NULL },
    { &ts_task_cross_entropy_logits, ts_cross_entropy_logits_impls, cross_entropy_logits,
      cross_entropy_logits_workspace, ts_cross_entropy_mutants, NULL },
    { 0 },
};

ts_entry ts_entry_of(const ts_offer *o, const ts_impl *row)
{
    unsigned mask = 0;
    for (const ts_impl *r = row; r->name; r++) mask |= r->needs;
    return (ts_entry) { row->name, row->device, mask, o->run, o->workspace, false, false };
}

const ts_entrant *ts_entrants_of(const ts_offer *o)
{
    static const ts_entrant none[] = { { 0 } };
    return o->entrants ? o->entrants : none;
}

ts_entry ts_entry_of_entrant(const ts_entrant *e)
{
    return (ts_entry) { e->name, e->device, ~0u, e->run, e->workspace, false, false };
}

bool ts_task_matches(const ts_task *t, const char *filter)
{
    const size_t n = filter ? strlen(filter) : 0;
    return !filter || (!strncmp(t->name, filter, n) && (t->name[n] == 0 || t->name[n] == '_'));
}

bool ts_task_known(const char *command, const char *option, const char *filter, bool whole)
{
    for (const ts_task *const *t = ts_tasks; *t; t++)
        if (whole && filter ? !strcmp((*t)->name, filter) : ts_task_matches(*t, filter))
            return true;
    fprintf(stderr, "touchstone %s: %s: got '%s', expected one of", command, option, filter);
    for (const ts_task *const *t = ts_tasks; *t; t++)
        fprintf(stderr, "%s %s", t == ts_tasks ? "" : ",", (*t)->name);
    fprintf(stderr, "\n");
    return false;
}

bool ts_case_seed(const char *filter, bool *given, uint64_t *seed)
{
    *given = false;
    for (const char *at = filter ? strchr(filter, '@') : NULL; at; at = strchr(at + 1, '@')) {
        char         text[32];
        uint64_t     value;
        const size_t n = strcspn(at + 1, "|");
        snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), at + 1);
        if (!ts_parse_u64("--case ...@", text, &value)) return false;
        if (*given && value != *seed) {
            fprintf(stderr, "touchstone %s: --case: got two seeds, expected one for all names\n",
                    ts_command());
            return false;
        }
        *given = true;
        *seed = value;
    }
    return true;
}

bool ts_case_matches(const ts_task *t, const ts_case *c, const char *filter)
{
    char name[256], part[256];
    ts_case_string(t, c, 0, name, sizeof name);
    name[strcspn(name, "@")] = 0;
    for (bool more = filter != NULL; more;) {
        const size_t n = strcspn(filter, "|@"), whole = strcspn(filter, "|");
        if (n >= sizeof part) return false;
        memcpy(part, filter, n);
        part[n] = 0;
        /* With its seed a name is whole, and means that case alone. */
        if (filter[n] == '@' ? !strcmp(name, part) : strstr(name, part) != NULL) return true;
        more = filter[whole] == '|';
        filter += whole + 1;
        if (!more) return false;
    }
    return true;
}
