/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_call.c - the device's part of a call. Inputs are laid out between ready and go; outputs are
 * read after done. Whoever has a kernel running at either time makes the keeper wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cage_inside.h"

static size_t workspace_of(const ts_cage *c, int slot)
{
    const size_t n = c->slot[slot].workspace_bytes;
    return (n + TS_WORKSPACE_ALIGN - 1) / TS_WORKSPACE_ALIGN * TS_WORKSPACE_ALIGN;
}

void ts_gpu_point(const ts_cage *c, int slot, unsigned char *args)
{
    const ts_arena *m = &c->slot[slot].arena;
    for (int i = 0; i < m->n; i++) {
        unsigned char *at = args + m->buf[i].slot;
        /* One that was spoiled stays so. */
        if (!memcmp(at, &m->buf[i].p, sizeof m->buf[i].p))
            memcpy(at, &c->control->device[slot][i], sizeof m->buf[i].p);
    }
}

/* Once may be chance: another program on the same device. */
static bool again_and_again(const ts_cage *c, int n)
{
    return n >= 3 && 2 * n > c->n_calls;
}

static bool lost(const ts_kept_word *w, ts_call *r)
{
    if (w->ok) return false;
    r->broken = true;
    snprintf(r->text, sizeof r->text, "device: %s", w->text);
    return true;
}

/* Of a call before which somebody was on the device, the time since then counts too. It may have
 * been chance, and then the call is one that was disturbed. */
int ts_gpu_lay(ts_cage *c, int slot, bool fresh, ts_call *r)
{
    ts_kept_word w;
    ts_keeper_lay(c->keeper, slot, fresh, workspace_of(c, slot), &w);
    if (lost(&w, r)) return TS_WORD_NOT;
    c->shown_ns = w.busy && c->plan.class != TS_GPU_SEALED ? w.shown_ns : 0;
    if (w.busy) { /* a rival's doing? They are stopped, and it is tried again, with the same inputs
                   */
        ts_cage_stop_rivals(c);
        ts_keeper_lay(c->keeper, slot, fresh, workspace_of(c, slot), &w);
        if (lost(&w, r)) return TS_WORD_NOT;
    }
    c->n_before += w.busy;
    if (again_and_again(c, c->n_before)) r->early = true;
    return TS_WORD_CAME;
}

/* Asked before anything else is done: a kernel that still runs would end meanwhile. */
void ts_gpu_free(ts_cage *c, double done_ns, ts_call *r)
{
    ts_kept_word w;
    ts_keeper_probe(c->keeper, &w);
    r->free_ns = ts_now_ns() - done_ns;
}

void ts_gpu_fetch(ts_cage *c, int slot, ts_call *r)
{
    ts_kept_word w;
    ts_keeper_fetch(c->keeper, slot, workspace_of(c, slot), &w);
    if (lost(&w, r)) return;
    c->n_after += w.busy;
    r->flaw = w.flaw;
    r->late = again_and_again(c, c->n_after);
    if (r->early || r->late)
        snprintf(r->text, sizeof r->text, "work ran on the device %s the call, in %d of %d calls",
                 r->early ? "before" : "after", r->early ? c->n_before : c->n_after, c->n_calls);
    /* No code of a sealed entrant's can have touched this. */
    if (c->plan.class == TS_GPU_SEALED) r->ns = c->control->answer.device_ns;
}
