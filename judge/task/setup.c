/* SPDX-License-Identifier: Apache-2.0 */
/* setup.c - lays out and fills the memory of a case. */
#include "arena.h"
#include "task.h"

void ts_arena_setup(ts_arena *m, const ts_task *t, const ts_case *c, uint64_t seed, void *args)
{
    ts_arena_begin(m, args);
    t->setup(c, seed, m, args);
    ts_arena_end(m);
}
