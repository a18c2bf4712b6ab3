/* SPDX-License-Identifier: Apache-2.0 */
/* canon.h - a case with its inputs and expected values, for tests of what a rule excuses. */
#ifndef TS_TEST_CANON_H
#define TS_TEST_CANON_H

#include <stdlib.h>

#include "arena.h"
#include "task.h"
#include "unit.h"

/* With 23 bits in the timed model, a search of 64 steps has equal scores by accident here. */
static const uint64_t SEED = UINT64_C(0x826dabb60fe22e8c);

typedef struct question {
    const ts_task *t;
    const ts_case *c;
    ts_arena       m;
    void          *args;
    ts_want       *want;
} question;

static inline void ask_with(question *q, const char *task, const ts_case *c, uint64_t seed)
{
    *q = (question) { .t = ts_task_called(task), .c = c };
    q->args = calloc(1, q->t->args_bytes);
    q->want = calloc(q->t->n_want(c) + 1, sizeof *q->want);
    assert_true(ts_arena_open(&q->m));
    ts_arena_setup(&q->m, q->t, c, seed, q->args);
    q->t->oracle(c, q->args, q->want);
}

static inline void ask(question *q, const char *task, const ts_case *c)
{
    ask_with(q, task, c, SEED);
}

static inline void close_question(question *q)
{
    ts_arena_clear(&q->m);
    ts_arena_close(&q->m);
    free(q->args);
    free(q->want);
}

#endif
