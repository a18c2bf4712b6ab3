/* SPDX-License-Identifier: Apache-2.0 */
/* keep_gate.c - times a call by the device's clock, from outside the entrant's process.
 *
 * The gate, a kernel of the keeper, is enqueued with the layout and runs until HOLD_NS after go. A
 * device runs kernels of one process at a time, so until then nothing of the entrant's can run: if
 * the device turns to another process before the gate, the gate begins late, and if it interrupts
 * the gate, that sees a gap in its own clock. When it
 * ends, the launches of an entrant that only began at go are enqueued, as those of one that
 * prepared them are: neither is ahead.
 *
 * A stamp, another kernel of the keeper, ends the time. It is enqueued while the entrant's work
 * runs, so it runs as soon as the device has nothing else to do, whenever the entrant says done. If
 * it has run before done, the entrant left the device idle, and another stamp after done counts.
 * After MOST_GAPS such calls in a row none is enqueued ahead any more: it would delay work that
 * comes after a gap. The time that done takes is then added: some 12 us on an H200. */
#define _GNU_SOURCE
#include "keep_gate.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

/* Launches of a correct entrant are enqueued within HOLD_NS. LEAD_NS after the gate's end the
 * device has switched to the entrant, which takes 145 us; a stamp that is enqueued during the
 * switch makes times vary by 30 us. */
static const uint64_t HOLD_NS = 60000, LIMIT_NS = 200000000;
static const double   LEAD_NS = 160e3, SPIN_NS = 50e6, PATIENCE_NS = 10e9;
static const unsigned NAP_US = 50;
enum { MOST_GAPS = 2, AHEAD = 0, AFTER, LAID /* stamps */ };

/* Two switches between processes take 280 us, and reading a word of the host 2. */
static const uint64_t GAP_NS = 60000;

int ts_gate_open(ts_gate *g, const ts_driver *d)
{
    ts_cu_any *module;
    void      *words;
    *g = (ts_gate) { .d = d };
    int code = d->module_load(&module, ts_fact_ptx);
    if (!code) code = d->module_function(&g->gate, module, "ts_gate");
    if (!code) code = d->module_function(&g->stamp, module, "ts_stamp");
    if (!code) code = d->host_alloc(&words, sizeof *g->words, 0);
    if (code) return code;
    memset(words, 0, sizeof *g->words);
    g->words = words;
    return 0;
}

static uint32_t seen(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Whether a word becomes `call`, in at most limit_ns. */
static bool becomes(const uint32_t *word, uint32_t call, double limit_ns)
{
    const double begin = ts_now_ns();
    while (seen(word) != call) {
        const double now = ts_now_ns();
        if (now - begin > limit_ns) return false;
        if (now - begin > SPIN_NS) usleep(NAP_US);
        else sched_yield(); /* to the judge, on a machine with few cores */
    }
    return true;
}

static int stamp(const ts_gate *g, int i)
{
    ts_device_ptr p = (ts_device_ptr)(uintptr_t)&g->words->stamp_ns[i];
    void         *params[] = { &p };
    __atomic_store_n(&g->words->stamp_ns[i], 0, __ATOMIC_RELEASE);
    return g->d->launch(g->stamp, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

int ts_gate_begin(ts_gate *g)
{
    return stamp(g, LAID);
}

int ts_gate_shut(ts_gate *g)
{
    ts_device_ptr words = (ts_device_ptr)(uintptr_t)g->words;
    uint64_t      hold = HOLD_NS, limit = LIMIT_NS;
    void         *params[] = { &words, &g->call, &hold, &limit };
    ++g->call;
    return g->d->launch(g->gate, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

int ts_gate_await(ts_gate *g, double *ns)
{
    /* It may wait for a kernel of another process; or there was a fault, which is named then. */
    const int code = becomes(&g->words->begun, g->call, PATIENCE_NS) ? 0 : g->d->sync();
    *ns = (double)(g->words->begin_ns - g->words->stamp_ns[LAID]);
    return code;
}

int ts_gate_leave(ts_gate *g)
{
    __atomic_store_n(&g->words->go, g->call, __ATOMIC_RELEASE);
    return becomes(&g->words->ended, g->call, PATIENCE_NS) ? 0 : g->d->sync();
}

static bool has_run(const ts_gate *g, int i)
{
    return __atomic_load_n(&g->words->stamp_ns[i], __ATOMIC_ACQUIRE) != 0;
}

/* Enqueues a stamp behind the entrant's work, unless done comes first. */
static int stamp_ahead(const ts_gate *g, const ts_kept_page *page, bool *enqueued)
{
    *enqueued = !becomes(&page->done, page->go, LEAD_NS);
    return *enqueued ? stamp(g, AHEAD) : 0;
}

int ts_gate_time(ts_gate *g, ts_kept_page *page, bool ahead, ts_kept_word *w)
{
    const ts_gate_words *const words = g->words;
    bool                       enqueued = false;
    const uint32_t             call = page->laid;
    while (!becomes(&page->go, call, 1e9)) {} /* the judge says it, or ends this process */
    int code = ts_gate_leave(g);
    if (code) return code;
    w->shown_ns = ts_now_ns() - g->begin_ns;
    w->busy = words->gap_ns > GAP_NS;
    w->unsure = words->saw != g->call; /* go came after the limit, which shows nothing */
    code = ahead && g->n_gaps < MOST_GAPS ? stamp_ahead(g, page, &enqueued) : 0;
    if (code) return code;
    while (!becomes(&page->done, call, 1e9)) {}
    const double done = ts_now_ns();
    const bool   idle = enqueued && has_run(g, AHEAD);
    if (enqueued && !idle && (code = g->d->sync())) return code;
    /* Work that was enqueued after the stamp comes before this one. */
    if ((code = stamp(g, AFTER)) || (code = g->d->sync())) return code;
    w->free_ns = ts_now_ns() - done;
    const bool counts =
        enqueued && !idle && words->stamp_ns[AFTER] - words->stamp_ns[AHEAD] < GAP_NS;
    w->span_ns = (double)(words->stamp_ns[counts ? AHEAD : AFTER] - words->end_ns);
    if (enqueued) g->n_gaps = idle ? g->n_gaps + 1 : 0;
    return 0;
}
