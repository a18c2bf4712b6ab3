/* SPDX-License-Identifier: Apache-2.0 */
/* unit_cage.h - the probe as an entrant, for unit_cage.c and unit_block.c. */
#ifndef TS_UNIT_CAGE_H
#define TS_UNIT_CAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "probe.h"
#include "selfcheck.h"
#include "unit.h"

static char object[1024];
static char why[256];

static inline ts_case probe_case(int what, int64_t n)
{
    return (ts_case) { .dtype = TS_F32, .dim = { what, n } };
}

static inline ts_cage_plan plan_for(ts_class k, const ts_case *c, int n_threads)
{
    return (ts_cage_plan) { .class = k,
                            .object = object,
                            .task = &ts_task_probe,
                            .n_slots = 1,
                            .slot = { c },
                            .seed = { ts_probe_seed(c) },
                            .n_threads = n_threads,
                            .memory_bytes = 64 << 20,
                            .workspace_bytes = 1 << 20,
                            .limit_ms = 10000 };
}

static inline bool answer_is_right(ts_cage *k, int slot, const ts_case *c, const void *args,
                                   const ts_want *want)
{
    ts_flaw   f = { 0 };
    ts_errors errors = { 0 };
    return ts_arena_intact(ts_cage_arena(k, slot), &f) &&
           ts_task_probe.check(c, args, want, &f, &errors);
}

/* One fresh call of `what`: its result, and whether the answer is right. */
static inline bool once(ts_class class, int what, int n_threads, ts_call *r)
{
    const ts_case      c = probe_case(what, 1000);
    const ts_cage_plan p = plan_for(class, &c, n_threads);
    ts_want            want[2000];
    ts_cage           *k = ts_cage_start(&p, why, sizeof why);
    if (!k) fail_msg("no cage: %s", why);
    const void *args = ts_cage_fill(k, 0, 0x5eed);
    ts_task_probe.oracle(&c, args, want);
    const bool ok = ts_cage_call(k, 0, r);
    const bool right = ok && !r->status && answer_is_right(k, 0, &c, args, want);
    ts_cage_stop(&k);
    return right;
}

static inline int run_with_probe(void)
{
    if (!ts_beside("touchstone-probe.so", object, sizeof object)) {
        puts("skipped: no touchstone-probe.so");
        return 77;
    }
    cmocka_set_test_filter(getenv("TS_TEST")); /* a name, with stars */
    return unit_run();
}

#endif
