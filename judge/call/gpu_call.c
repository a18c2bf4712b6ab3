/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_call.c - the device's part of a call.
 *
 * The keeper writes inputs between ready and go, and reads outputs after done. An entrant with a
 * kernel running at either time makes the keeper wait, which is detected. Between go and done the
 * keeper measures by the device's clock, see keep_gate.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cage_inside.h"

static size_t workspace_of(const ts_cage *c, int slot)
{
    return c->slot[slot].workspace_bytes;
}

void ts_gpu_point(const ts_cage *c, int slot, unsigned char *args)
{
    const ts_arena *m = &c->slot[slot].arena;
    for (int i = 0; i < m->n; i++) {
        unsigned char *at = args + m->buf[i].slot;
        /* A pointer that was made invalid stays so. */
        if (!memcmp(at, &m->buf[i].p, sizeof m->buf[i].p))
            memcpy(at, &c->control->device[slot][i], sizeof m->buf[i].p);
    }
}

/* A single event may be another program on the same device. */
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

/* A device has no per-process memory limit. Memory that disappears while only this process runs is
 * this process's; contexts, modules and libraries of correct entrants take less than half of this.
 */
static const double OWN_BYTES = 4.0 * (1 << 30);

static bool takes_too_much(ts_cage *c, const ts_kept_word *w, char *text, size_t n)
{
    if (c->n_free > w->n_free) c->n_taken += (double)(c->n_free - w->n_free);
    c->n_free = w->n_free;
    if (c->n_taken <= OWN_BYTES) return false;
    snprintf(text, n, "took %.1f GiB of the device's memory; %.0f are its own",
             c->n_taken / (1 << 30), OWN_BYTES / (1 << 30));
    return true;
}

bool ts_gpu_weigh(ts_cage *c, char *why, size_t n)
{
    ts_kept_word w;
    ts_keeper_weigh(c->keeper, &w);
    return !w.ok || !takes_too_much(c, &w, why, n);
}

/* Whether the end of a call is enqueued ahead: a timed call of a class that the device does not
 * time itself. */
static unsigned how_to_lay(const ts_cage *c, bool fresh)
{
    const unsigned timed = c->plan.aligned ? TS_LAY_TIMED : 0;
    const unsigned ahead = timed && c->plan.class != TS_GPU_SEALED ? TS_LAY_AHEAD : 0;
    return timed | ahead | (fresh ? TS_LAY_FRESH : 0);
}

/* If another process used the device before a call, the time since the layout counts too. If that
 * was chance, this call is just a disturbed measurement. */
int ts_gpu_lay(ts_cage *c, int slot, bool fresh, ts_call *r)
{
    ts_kept_word   w;
    const unsigned how = how_to_lay(c, fresh);
    ts_keeper_lay(c->keeper, slot, how, workspace_of(c, slot), &w);
    if (lost(&w, r)) return TS_WORD_NOT;
    c->was_busy = c->is_busy = w.busy;
    c->is_unsure = w.unsure;
    if (w.busy) { /* perhaps another entrant: stop them all, and retry with the same inputs */
        ts_cage_stop_rivals(c);
        ts_keeper_lay(c->keeper, slot, how | TS_LAY_ANYWAY, workspace_of(c, slot), &w);
        if (lost(&w, r)) return TS_WORD_NOT;
        c->is_busy = w.busy;
        c->is_unsure = w.unsure;
    }
    c->n_free = w.n_free;
    return TS_WORD_CAME;
}

void ts_gpu_go(ts_cage *c)
{
    ts_keeper_go(c->keeper);
}

/* A sealed entrant is timed by the device's events, others by the keeper. */
void ts_gpu_done(ts_cage *c, ts_call *r)
{
    ts_kept_word w;
    ts_keeper_done(c->keeper, &w);
    if (lost(&w, r)) return;
    const bool unsure = c->is_unsure || w.unsure, busy = c->was_busy || w.busy;
    c->n_before += c->is_busy || w.busy;
    if (again_and_again(c, c->n_before)) r->early = true;
    r->free_ns = w.free_ns;
    r->ns = c->plan.class == TS_GPU_SEALED ? c->device_ns
                                           : w.span_ns + (busy || unsure ? w.shown_ns : 0);
    r->away_ns = unsure ? w.shown_ns : 0;
}

void ts_gpu_fetch(ts_cage *c, int slot, ts_call *r)
{
    ts_kept_word w;
    ts_keeper_fetch(c->keeper, slot, workspace_of(c, slot), &w);
    if (lost(&w, r)) return;
    c->n_after += w.busy;
    r->flaw = w.flaw;
    if (takes_too_much(c, &w, r->text, sizeof r->text)) r->end = TS_END_MEMORY;
    r->late = again_and_again(c, c->n_after);
    if (r->early || r->late)
        snprintf(r->text, sizeof r->text, "work ran on the device %s the call, in %d of %d calls",
                 r->early ? "before" : "after", r->early ? c->n_before : c->n_after, c->n_calls);
}
