/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_call.c - the device's part of a call. Inputs are laid out between ready and go; outputs are
 * read after done. Whoever has a kernel running at either time makes the keeper's empty one wait.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "cage_inside.h"

enum { WAKE_LIMIT_MS = 5000 };

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
    snprintf(r->text, sizeof r->text, "the device: %s", w->text);
    return true;
}

/* The device turns to another process in its own time. */
static int wake(ts_cage *c)
{
    if (ts_in_python(c->plan.class))
        return send(c->bell_fd, "w", 1, MSG_NOSIGNAL) == 1 ? ts_cage_await_byte(c, WAKE_LIMIT_MS)
                                                           : TS_WORD_DEAD;
    if (!c->spin) return TS_WORD_CAME; /* it sleeps until go */
    __atomic_store_n(&c->control->wake, c->bell - 1, __ATOMIC_RELEASE);
    return ts_cage_await(c, &c->control->awake, c->bell - 1, WAKE_LIMIT_MS * 1e6,
                         WAKE_LIMIT_MS * 1e6);
}

int ts_gpu_lay(ts_cage *c, int slot, int n, uint32_t fresh, ts_call *r)
{
    ts_kept_word w;
    c->secret = 0;
    if (c->plan.class != TS_GPU_SEALED &&
        getrandom(&c->secret, sizeof c->secret, 0) != sizeof c->secret)
        abort();
    ts_keeper_lay(c->keeper, slot, n, fresh, workspace_of(c, slot), c->secret, &w);
    if (lost(&w, r)) return TS_WORD_NOT;
    if (w.busy) { /* a rival's doing? They are stopped, and it is tried again */
        ts_cage_stop_rivals(c);
        ts_keeper_lay(c->keeper, slot, n, fresh, workspace_of(c, slot), c->secret, &w);
        if (lost(&w, r)) return TS_WORD_NOT;
    }
    c->n_before += w.busy;
    if (again_and_again(c, c->n_before)) r->early = true;
    return wake(c);
}

/* Asked before anything else is done: a kernel that still runs would end meanwhile. */
void ts_gpu_free(ts_cage *c, double done_ns, ts_call *r)
{
    ts_kept_word w;
    ts_keeper_probe(c->keeper, &w);
    r->free_ns = ts_now_ns() - done_ns;
}

void ts_gpu_fetch(ts_cage *c, int slot, int n, ts_call *r)
{
    ts_kept_word w;
    for (int i = 0; i < n && !r->flaw.fault; i++) {
        ts_keeper_fetch(c->keeper, slot + i, workspace_of(c, slot), &w);
        if (lost(&w, r)) return;
        c->n_after += w.busy && i == 0;
        r->flaw = w.flaw;
    }
    r->late = again_and_again(c, c->n_after);
    if (r->early || r->late)
        snprintf(r->text, sizeof r->text, "something ran on the device %s the call, in %d of %d",
                 r->early ? "before" : "after", r->early ? c->n_before : c->n_after, c->n_calls);
    /* No code of a sealed entrant's can have touched this. */
    if (c->plan.class == TS_GPU_SEALED) r->ns = c->control->answer.device_ns;
}
