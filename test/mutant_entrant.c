/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_entrant.c - a mutant as a third-party shared library, which exports only the challenge's
 * names. mutant.sh compiles it once for each, with TASK and MUTANT. */
#include <stdlib.h>
#include <string.h>

#include "mutant.h"
#include "touchstone/attention.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/layernorm.h"
#include "touchstone/rms_norm.h"
#include "touchstone/softmax_topk.h"

#define JOIN(a, b, c) a##b##c
#define NAME(a, b, c) JOIN(a, b, c)
#define TEXT(a)       #a
#define QUOTED(a)     TEXT(a)

typedef NAME(ts_, TASK, _args) task_args;

extern const ts_mutant ts_layernorm_forward_mutants[], ts_layernorm_backward_mutants[];
extern const ts_mutant ts_softmax_topk_mutants[];
extern const ts_mutant ts_flash_attention_mutants[], ts_flash_attention_backward_mutants[];
extern const ts_mutant ts_rms_norm_forward_mutants[], ts_rms_norm_backward_mutants[];
extern const ts_mutant ts_cross_entropy_mutants[], ts_cross_entropy_logits_mutants[];

static const ts_mutant *mutant(void)
{
    const ts_mutant *const lists[] = { ts_layernorm_forward_mutants,
                                       ts_layernorm_backward_mutants,
                                       ts_softmax_topk_mutants,
                                       ts_flash_attention_mutants,
                                       ts_flash_attention_backward_mutants,
                                       ts_rms_norm_forward_mutants,
                                       ts_rms_norm_backward_mutants,
                                       ts_cross_entropy_mutants,
                                       ts_cross_entropy_logits_mutants };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const ts_mutant *m = lists[i]; m->name; m++)
            if (!strcmp(m->name, QUOTED(MUTANT)) && !strcmp(m->task, QUOTED(TASK))) return m;
    abort();
}

ts_status NAME(ts_, TASK, )(const task_args *a, const ts_exec *x)
{
    return mutant()->run(a, x);
}

ts_status NAME(ts_, TASK, _workspace)(const task_args *a, const ts_exec *x, size_t *n)
{
    *n = 0;
    return mutant()->workspace ? mutant()->workspace(a, x, n) : TS_OK;
}
