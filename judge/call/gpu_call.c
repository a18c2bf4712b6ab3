/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_call.c - the device's part of a call.
 *
 * The keeper writes inputs between ready and go, and reads outputs after done. An entrant with a
 * kernel running at either time makes the keeper wait, which is detected. */
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
    ts_keeper_probe(c->keeper, &w);
    return !w.ok || !takes_too_much(c, &w, why, n);
}

/* If another process used the device before a call, the time since then counts too. If that was
 * chance, this call is just a disturbed measurement. */
int ts_gpu_lay(ts_cage *c, int slot, bool fresh, ts_call *r)
{
    ts_kept_word w;
    ts_keeper_lay(c->keeper, slot, fresh, workspace_of(c, slot), &w);
    if (lost(&w, r)) return TS_WORD_NOT;
    c->shown_ns = w.busy && c->plan.class != TS_GPU_SEALED ? w.shown_ns : 0;
    if (w.busy) { /* perhaps another entrant: stop them all, and retry with the same inputs
                   */
        ts_cage_stop_rivals(c);
        ts_keeper_lay(c->keeper, slot, fresh, workspace_of(c, slot), &w);
        if (lost(&w, r)) return TS_WORD_NOT;
    }
    c->n_free = w.n_free;
    c->n_before += w.busy;
    if (again_and_again(c, c->n_before)) r->early = true;
    return TS_WORD_CAME;
}

/* Probe first: a kernel that still runs could end during any other step. */
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
    if (takes_too_much(c, &w, r->text, sizeof r->text)) r->end = TS_END_MEMORY;
    r->late = again_and_again(c, c->n_after);
    if (r->early || r->late)
        snprintf(r->text, sizeof r->text, "work ran on the device %s the call, in %d of %d calls",
                 r->early ? "before" : "after", r->early ? c->n_before : c->n_after, c->n_calls);
    /* No code of a sealed entrant can have written this. */
    if (c->plan.class == TS_GPU_SEALED) r->ns = c->control->answer.device_ns;
}
