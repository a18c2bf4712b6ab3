/* SPDX-License-Identifier: Apache-2.0 */
/* cage_again.c - what one process cannot show: attempts repeated in new processes.
 *
 * CPU time outside a call may be the machine's: stolen from a guest, or charged late. So a process
 * that seems to have worked early is suspected only. The entrant is to blame if a new process of
 * it, with other inputs, does the same. */
#include <stdio.h>
#include <string.h>

#include "cage_inside.h"

/* Calls that show something, at least; and all calls for one of these. */
enum { CALLS = 24, MOST_PER_CALL = 16 };

static bool begins(const char *why, const char *reason)
{
    const size_t n = strlen(reason);
    return !strncmp(why, reason, n) && why[n] == ':';
}

/* A process that read files before it ended, as those of host and Python do, may have ended because
 * the machine failed it: once, or so that not even an empty one starts. */
static ts_cage *doubt(const ts_cage_plan *p, char *why, size_t n)
{
    char none[256];
    if (p->class == TS_SEALED || p->class == TS_GPU_SEALED || begins(why, TS_BUSY) ||
        begins(why, "error") || begins(why, "hang"))
        return NULL;
    ts_cage *c = ts_cage_start(p, why, n);
    if (!c && !begins(why, TS_BUSY) && !ts_cage_starts_nothing(p, none, sizeof none))
        snprintf(why, n, "error: not even an empty process starts: %.200s", none);
    return c;
}

ts_cage *ts_cage_start_patiently(const ts_cage_plan *p, char *why, size_t n)
{
    ts_cage *c = NULL;
    for (int i = 0; i < TS_ATTEMPTS && !c; i++) {
        c = ts_cage_start(p, why, n);
        if (!c && strncmp(why, TS_BUSY ":", 5)) break;
    }
    return c ? c : doubt(p, why, n);
}

/* Every call is held, since a suspect was perhaps found by chance in one of eight; and there are as
 * many as the suspect made, which may have counted them before it began. A process that fails in
 * another way, on inputs of the suspect's cases, is not a correct entrant's either. */
bool ts_cage_early_again(const ts_cage *c)
{
    static bool  nested; /* what the new process does counts */
    ts_cage_plan plan = c->plan;
    char         why[256], object[64];
    ts_call      r = { 0 };
    if (nested) return true;
    const int n_calls = c->n_calls > CALLS ? c->n_calls : CALLS;
    snprintf(object, sizeof object, "/proc/self/fd/%d", c->object_fd);
    plan.object = object; /* the copy: the path may be gone */
    plan.n_returned = NULL;
    ts_cage *k = ts_cage_start_patiently(&plan, why, sizeof why);
    nested = true;
    if (k) k->holds = true;
    for (int i = 0; k && i < MOST_PER_CALL * n_calls && k->n_calls - k->n_disturbed < n_calls;
         i++) {
        const int slot = i % plan.n_slots;
        k->slot[slot].workspace_bytes = c->slot[slot].workspace_bytes;
        ts_cage_fill(k, slot, ts_cage_chance(k, UINT64_MAX));
        if (!ts_cage_call(k, slot, &r)) break;
    }
    nested = false;
    ts_cage_stop(&k);
    return *ts_call_reason(&r) && r.end != TS_END_BUSY;
}
