/* SPDX-License-Identifier: Apache-2.0 */
/* cage_call.c - one call, observed from outside. What the entrant's process writes to the control
 * page is a hint only: it can make a verdict worse, never better. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cage_inside.h"
#include "dtype.h"

/* The judge spins for this long on its own core; a longer call is not affected by sleeps. */
static const double SPIN_NS = 50e6;

/* In one call of HELD_ONE_IN the process is left running for a while before it is armed and after
 * it is done, until it is idle: a process that computes outside the call is not. */
static const double HOLD_NS = 200e3, HOLD_LIMIT_NS = 3e9, HOLD_CPU_NS = 20e6;

/* CPU time of a running thread that the kernel may not have charged to it yet: a tick. */
static const double UNCHARGED_NS = 10e6;

/* CPU time of a thread outside a call that counts as a head start if it recurs. A correct entrant
 * uses a quarter of this to be woken, armed and put to sleep; the judge measures how much on this
 * machine. */
static double strike_ns = 60e3;

/* From ready to go, without interruption. */
static const double USUAL_NS = 10e3;

/* Bytes laid out before the call, from which the allowance before go follows: the more, the colder
 * the caches on wake-up. */
const size_t ts_lead_bytes[TS_LEADS] = { 0, 60000, 400000, 4000000 };

static ts_honest honest = { .lead_ns = { 60e3, 60e3, 60e3, 60e3 },
                            .many_ns = { 80e3, 80e3, 80e3, 80e3 },
                            .many = 2 };

void ts_cage_calibrate(const ts_honest *h)
{
    strike_ns = h->outside_ns > 20e3 ? 4 * h->outside_ns : 80e3;
    honest = *h;
}

enum { HELD_ONE_IN = 8, READY_LIMIT_MS = 10000 };

/* Input lines hidden from the entrant until go, and output lines as they were at done. */
enum { LINE = 64, MAX_LINES = TS_MAX_BUFS * 8 };

typedef struct line {
    unsigned char *at;
    size_t         n;
    unsigned char  kept[LINE];
} line;

static void ring(ts_cage *c, uint32_t signal, bool wake)
{
    __atomic_store_n(&c->control->signal, signal, __ATOMIC_SEQ_CST);
    if (wake) syscall(SYS_futex, &c->control->signal, FUTEX_WAKE, 0x7fffffff, NULL, NULL, 0);
}

/* ---- lines that detect late writes and early reads ---- */

/* Up to a line of a random row of b, aligned to its size if possible. */
static bool pick(ts_cage *c, const ts_arena_buf *b, line *l)
{
    if (b->b.n_rows < 1 || b->b.n_cols < 1) return false;
    const size_t   rows = (size_t)b->b.n_rows, element = ts_format_of(b->b.dtype)->n_bytes;
    const size_t   row = element * (size_t)b->b.n_cols;
    const uint64_t r = ts_cage_chance(c, rows);
    const size_t   at = (size_t)ts_cage_chance(c, (row + LINE - 1) / LINE) * LINE;
    l->at = b->p + r * (size_t)b->b.row_stride * element + at;
    l->n = row - at < LINE ? row - at : LINE;
    return true;
}

static int hide(ts_cage *c, const ts_slot *s, line *l)
{
    int n = 0;
    for (int i = 0; i < s->arena.n; i++) {
        const ts_arena_buf *b = &s->arena.buf[i];
        /* One line, and one more for every 64 KiB. */
        const size_t want = b->n_bytes >> 16 > 7 ? 8 : 1 + (b->n_bytes >> 16);
        for (size_t k = 0; b->b.role != TS_OUT && k < want && pick(c, b, &l[n]); k++) {
            memcpy(l[n].kept, l[n].at, l[n].n);
            for (size_t j = 0; j < l[n].n; j++) l[n].at[j] = (unsigned char)ts_cage_chance(c, 256);
            n++;
        }
    }
    return n;
}

/* In reverse order: a line that was picked twice contained garbage the second time. And only once:
 * after go, an input that is also an output belongs to the entrant. */
static void reveal(line *l, int *n)
{
    while (*n > 0) {
        --*n;
        memcpy(l[*n].at, l[*n].kept, l[*n].n);
    }
}

static int choose_outputs(ts_cage *c, const ts_slot *s, line *l)
{
    int n = 0;
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < s->arena.n; i++)
            if (s->arena.buf[i].b.role != TS_IN && pick(c, &s->arena.buf[i], &l[n])) n++;
    return n;
}

static bool unchanged(const line *l, int n)
{
    for (int i = 0; i < n; i++)
        if (memcmp(l[i].kept, l[i].at, l[i].n)) return false;
    return true;
}

/* ---- the call ---- */

static int threads_of(const ts_cage *c)
{
    return c->plan.n_threads > 0 ? c->plan.n_threads : 1;
}

void ts_cage_threads(ts_cage *c, int slot, int n_threads)
{
    c->slot[slot].n_threads = n_threads;
}

void ts_cage_exec(const ts_cage *c, int slot, ts_exec *x)
{
    const size_t n = c->slot[slot].workspace_bytes;
    *x = (ts_exec) { .device = TS_CPU,
                     .n_threads = c->slot[slot].n_threads ? c->slot[slot].n_threads : threads_of(c),
                     .deterministic = 1,
                     .workspace_bytes = n };
    if (n) x->workspace = c->workspace_hi - ts_arena_beyond(&c->slot[slot].arena, n) - n;
}

/* Including the bands on both sides. */
static void poison_workspace(const ts_cage *c, unsigned char *p, size_t n)
{
    unsigned char *const lo = ts_cage_workspace_from(c, p);
    memset(lo, TS_BAND, (size_t)(p - lo));
    memset(p, TS_POISON, n);
    memset(p + n, TS_BAND, (size_t)(c->workspace_hi - p) - n);
}

static void look_at_workspace(const ts_cage *c, unsigned char *p, size_t n, ts_call *r)
{
    if (!ts_band_holds(ts_cage_workspace_from(c, p), p))
        r->flaw = (ts_flaw) { .fault = TS_FAULT_BEFORE, .what = "workspace" };
    else if (!ts_band_holds(p + n, c->workspace_hi))
        r->flaw = (ts_flaw) { .fault = TS_FAULT_PAST, .what = "workspace" };
}

static void blame(const ts_cage *c, const ts_slot *s, ts_call *r)
{
    const uintptr_t at = c->control->fault.address, lo = (uintptr_t)c->workspace_lo,
                    hi = (uintptr_t)c->workspace_hi;
    if (r->end != TS_END_CRASH || (r->signal != SIGSEGV && r->signal != SIGBUS)) return;
    if (at - hi < TS_GUARD_BYTES)
        r->flaw = (ts_flaw) { .fault = TS_FAULT_PAST, .what = "workspace" };
    else if (lo - 1 - at < TS_GUARD_BYTES)
        r->flaw = (ts_flaw) { .fault = TS_FAULT_BEFORE, .what = "workspace" };
    else ts_arena_blame(&s->arena, at, c->control->fault.write, &r->flaw);
}

enum { RESTS, RESTLESS, UNKNOWN };

/* Whether it becomes idle: for a while it uses no CPU time and is not runnable. Only its CPU time
 * counts against it. `charged` is what it may have used before, of which up to a tick per core is
 * charged late. A busy core makes it wait, and that shows nothing. */
static int rests(const ts_cage *c, double charged)
{
    const double begin = ts_now_ns(), first = ts_cage_cpu_ns(c);
    double       before = first;
    do {
        ts_nap(HOLD_NS);
        const double now = ts_cage_cpu_ns(c);
        if (now == before && !ts_cage_threads_in(c, "R")) return RESTS;
        if (now - first > HOLD_CPU_NS + c->n_cores * UNCHARGED_NS && now - charged > HOLD_CPU_NS)
            return RESTLESS;
        before = now;
    } while (ts_now_ns() - begin < HOLD_LIMIT_NS);
    return before - first > HOLD_LIMIT_NS / 2 ? RESTLESS : UNKNOWN;
}

/* Discards bytes sent before the call. At most a socket's capacity, so that a process that keeps
 * sending cannot block the judge. */
static void hear_out(int signal_fd)
{
    char said[4096];
    for (int i = 0; i < 64 && recv(signal_fd, said, sizeof said, MSG_DONTWAIT) > 0; i++) {}
}

/* Moments of a call, by the judge's clock, and CPU times. */
typedef struct moments {
    double arm, ready, go, done;
    double cpu;  /* of the process before it was thawed */
    double spun; /* CPU time of the judge from arming to go */
    bool   held;
    int    rest; /* RESTS, unless it was held and did not */
} moments;

/* The judge runs from arming to go, except while the machine gives its core to others. Where judge
 * and entrant share a core, the entrant is one of these: its part is exact, since it does not run
 * now, and is its own. */
static double away_ns(const ts_cage *c, const moments *m, const ts_call *r)
{
    const double own = c->shares_core ? ts_cage_cpu_ns(c) - m->cpu - r->cpu_before_ns : 0;
    return fmax(0, m->go - m->arm - m->spun - own);
}

/* Keeps the lines of outputs as they are at done, before anything else. */
static int await_done(ts_cage *c, const moments *m, line *seen, int n_seen, ts_call *r)
{
    ts_watch     w = ts_watch_from(m->go, m->cpu, "R");
    const double spin = ts_on_gpu(c->plan.class) && !c->shares_core ? SPIN_NS : 0;
    const int    came =
        ts_by_bytes(c->plan.class)
               ? ts_cage_await_byte(c, spin, c->plan.limit_ms, &w)
               : ts_cage_await(c, &c->control->done, c->signal, SPIN_NS, c->plan.limit_ms * 1e6, &w);
    r->ns = ts_now_ns() - m->go;
    ts_awake_end();
    for (int i = 0; i < n_seen; i++) memcpy(seen[i].kept, seen[i].at, seen[i].n);
    r->own_ns = r->ns < SPIN_NS ? r->ns : fmin(r->ns, ts_watch_own_ns(c, &w));
    return came;
}

/* Freezes the process, and computes what it used outside the call.
 *
 * cpu_outside_ns is exact, because the process is frozen at both ends: CPU times of running threads
 * are updated only now and then. Threads that are ready spin until go, longer than usual if the
 * judge was delayed. All but one spin from their wake-up, and waking more threads takes longer.
 *
 * The judge spins from arming to go: wall time that is not its CPU time was stolen from its core,
 * and a correct entrant spins until the judge returns. If much was stolen, the call shows nothing,
 * and neither does a workspace query, in which there is nothing to gain. An entrant that delays
 * ready until the judge sleeps pays by its head start. */
static int settle(ts_cage *c, int verb, moments *m, ts_call *r)
{
    const double cpu = ts_cage_cpu_ns(c), lead = m->go - m->arm;
    const int    cores = threads_of(c) < c->n_cores ? threads_of(c) : c->n_cores;
    if (m->held && m->rest == RESTS)
        m->rest = rests(c, m->cpu + r->cpu_before_ns + cores * (m->done - m->arm));
    r->early |= m->rest == RESTLESS;
    const bool frozen = ts_cage_freeze(c);
    r->after_ns = ts_now_ns() - m->done;
    if (!frozen) return TS_WORD_DEAD;
    r->cpu_after_ns = ts_cage_cpu_ns(c) - cpu;
    const double away = c->spin ? r->away_ns : 0;
    const double kept = fmax(away, fmax(0, m->go - m->ready - USUAL_NS));
    r->disturbed = verb != TS_VERB_RUN || away > strike_ns || m->rest == UNKNOWN;
    r->cpu_outside_ns = ts_cage_cpu_ns(c) - m->cpu - cores * r->ns - kept - (cores - 1) * lead;
    return TS_WORD_CAME;
}

/* Before all others on its core, from arming to done, where the system permits: while the judge is
 * away from its core, an entrant can work before go, which a correct one does not. Never on a core
 * that the entrant needs. */
static void go_first(const ts_cage *c, bool first)
{
    static int               usual = -1;
    const struct sched_param p = { .sched_priority = first };
    if (c->shares_core || c->keeper) return;
    if (usual < 0) usual = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    /* Without a privilege the flag cannot be taken back, nor then the priority. */
    if (usual != SCHED_FIFO && usual != SCHED_RR)
        sched_setscheduler(0, (first ? SCHED_FIFO : usual) | SCHED_RESET_ON_FORK, &p);
}

/* A call to be made. */
typedef struct order {
    int            slot, verb;
    const void    *args; /* NULL: the slot's own */
    const ts_exec *x;    /* NULL: as ts_cage_exec says */
    bool           fresh;
    line          *hidden, *seen;
    int            n_hidden, n_seen;
} order;

/* Writes what the entrant is to do. On a device only at go: which of several slots is called shall
 * not be known while their buffers are laid out. */
static void give_order(ts_cage *c, const order *o)
{
    const ts_slot *s = &c->slot[o->slot];
    unsigned char *to = c->control->args[o->slot];
    memcpy(to, o->args ? o->args : s->args, c->plan.task->args_bytes);
    if (c->keeper) ts_gpu_point(c, o->slot, to);
    if (o->x) c->control->call.exec = *o->x;
    else ts_cage_exec(c, o->slot, &c->control->call.exec);
    if (c->keeper) c->control->call.exec.device = TS_CUDA;
    c->control->call.verb = (uint32_t)o->verb;
    c->control->call.slot = (uint32_t)o->slot;
}

/* What the entrant hears go by. */
static bool say_go(ts_cage *c)
{
    if (ts_by_bytes(c->plan.class)) return send(c->signal_fd, "g", 1, MSG_NOSIGNAL) == 1;
    ring(c, c->signal, !c->spin);
    return true;
}

/* Thaws the process, arms it, signals go and waits for its reply. */
static int perform(ts_cage *c, order *o, ts_call *r)
{
    const bool python = ts_in_python(c->plan.class), timed = c->keeper && o->verb == TS_VERB_RUN;
    moments    m = { .cpu = ts_cage_cpu_ns(c), .rest = RESTS };
    /* Entrants of other classes may have threads that legitimately spin for work. */
    m.held = c->plan.class == TS_SEALED &&
             (c->signal < 2 || c->holds || ts_cage_chance(c, HELD_ONE_IN) == 0);
    c->signal += 2;
    if (m.held) {
        ts_cage_thaw(c);
        m.rest = rests(c, m.cpu);
        r->early = m.rest == RESTLESS;
        r->cpu_before_ns = ts_cage_cpu_ns(c) - m.cpu; /* exact, if it sleeps */
    }
    go_first(c, true);
    m.arm = ts_now_ns();
    const double arm_cpu_ns = ts_thread_cpu_ns();
    if (!python) ring(c, c->signal - 1, m.held);
    if (!m.held) ts_cage_thaw(c);
    if (!python) {
        ts_watch  w = ts_watch_from(m.arm, m.cpu + r->cpu_before_ns, "R");
        const int ready =
            ts_cage_await(c, &c->control->ready, c->signal - 1, SPIN_NS, READY_LIMIT_MS * 1e6, &w);
        if (ready != TS_WORD_CAME) return ready;
    }
    m.ready = ts_now_ns();
    if (ts_by_bytes(c->plan.class)) hear_out(c->signal_fd);
    if (timed) {
        const int laid = ts_gpu_lay(c, o->slot, o->fresh, r);
        if (laid != TS_WORD_CAME) return laid;
    }
    for (uint64_t i = ts_cage_chance(c, 64); i; i--) ts_cage_relax(c);
    /* Read before go: a core that is lost in between was not used, and belongs to away. */
    m.spun = ts_thread_cpu_ns() - arm_cpu_ns;
    reveal(o->hidden, &o->n_hidden);
    if (c->keeper) give_order(c, o);
    m.go = ts_now_ns();
    r->lead_ns = m.go - m.arm + r->cpu_before_ns;
    r->away_ns = away_ns(c, &m, r);
    r->n_wakes = m.held ? 2 : 1;
    if (timed) ts_gpu_go(c);
    if (!say_go(c)) return TS_WORD_DEAD;
    ts_awake_go();
    const int came = await_done(c, &m, o->seen, o->n_seen, r);
    go_first(c, false);
    m.done = m.go + r->ns;
    if (came != TS_WORD_CAME) return came;
    if (timed) ts_gpu_done(c, r);
    return settle(c, o->verb, &m, r);
}

/* Once thawed, it sees its inputs except the hidden lines, and may have replaced the runner: so the
 * time until go is counted, less the wake-up time of a correct entrant. A delay of the judge counts
 * too: the entrant could compute during it. */
static double head_start_ns(const ts_cage *c, const ts_slot *s, const ts_call *r)
{
    size_t n_bytes = 0;
    int    k = TS_LEADS - 1;
    for (int i = 0; i < s->arena.n; i++) n_bytes += s->arena.buf[i].n_bytes;
    while (ts_lead_bytes[k] > n_bytes) k--;
    /* Its threads are woken with it; no more are counted than it was allowed. */
    const int    most = threads_of(c), n = c->spread.n_threads < most ? c->spread.n_threads : most;
    const double each = (honest.many_ns[k] - honest.lead_ns[k]) / (honest.many - 1);
    return fmax(0, r->lead_ns - r->n_wakes * (honest.lead_ns[k] + (n - 1) * each));
}

static void conclude(ts_cage *c, int came, const line *seen, int n_seen, ts_call *r)
{
    if (came != TS_WORD_CAME) {
        const ts_call so_far = *r;
        ts_cage_end(c, came, r);
        r->ns = so_far.ns;
        r->own_ns = so_far.own_ns;
        r->broken = so_far.broken;
        if (r->broken) memcpy(r->text, so_far.text, sizeof r->text);
        return;
    }
    r->status = (ts_status)c->control->answer.status;
    r->fp_changed = c->control->answer.fp != 0;
    r->workspace_bytes = c->control->answer.n_bytes;
    r->late = !unchanged(seen, n_seen);
    /* Rare excess is noise: an interrupted call, or stolen time. Excess in nearly all calls, large
     * compared with the call, is a head start. A host that takes the judge's core for a while
     * affects several calls in a row, and the guest does not see that time. */
    const double much = strike_ns * (2 * threads_of(c) - 1);
    c->n_calls++;
    c->n_disturbed += r->disturbed;
    c->n_strikes += c->plan.class == TS_SEALED && !r->disturbed && r->cpu_outside_ns > much &&
                    r->cpu_outside_ns > 0.1 * r->ns;
    const bool often = c->n_strikes >= 8 && 4 * c->n_strikes > 3 * (c->n_calls - c->n_disturbed);
    /* If a correct entrant now uses as much, the calls so far show nothing. */
    const bool busy = often && honest.outside_now && 4 * honest.outside_now() > strike_ns;
    if (busy) c->n_strikes = 0, c->n_disturbed = c->n_calls;
    if (r->early)
        snprintf(r->text, sizeof r->text, "worked outside the call, and did not come to rest");
    else if (often && !busy)
        snprintf(r->text, sizeof r->text,
                 "worked outside the call: %.0f us in this call, too much in %d of %d calls",
                 r->cpu_outside_ns / 1e3, c->n_strikes, c->n_calls);
    r->early |= often && !busy;
    ts_cage_listen(c);
    memcpy(r->stderr_tail, c->err, sizeof r->stderr_tail);
}

/* Early work of one process is a suspicion, which a new process must confirm. If none does, time
 * and again, this machine cannot tell. */
static void confirm(ts_cage *c, ts_call *r)
{
    enum { MOST_DOUBTS = 3 };
    if (!r->early || c->plan.class != TS_SEALED || r->end || ts_cage_early_again(c)) return;
    r->early = false;
    *r->text = 0;
    c->n_strikes = 0, c->n_disturbed = c->n_calls;
    if (++c->n_doubts < MOST_DOUBTS) return;
    ts_cage_kill_as(c, TS_KILLED_BUSY);
    r->end = TS_END_BUSY;
    snprintf(r->text, sizeof r->text,
             "the machine is too busy: CPU times outside calls are not repeatable");
}

static bool ask(ts_cage *c, int slot, int verb, const void *args, const ts_exec *x, ts_call *r)
{
    static line hidden[MAX_LINES], seen[MAX_LINES];
    ts_slot    *s = &c->slot[slot];
    ts_exec     own;
    order       o = { slot, verb, args, x, .fresh = s->fresh, .hidden = hidden, .seen = seen };
    if (!ts_cage_freeze(c)) {
        if (c->killed > TS_KILLED_HANG) return ts_cage_end(c, TS_WORD_DEAD, r), false;
        *r = (ts_call) { .end = TS_END_EXIT, .text = "the process has already ended" };
        return false;
    }
    *r = (ts_call) { 0 };
    *c->err = 0; /* of this call alone */
    const bool gpu = c->keeper != NULL;
    if (!gpu) ts_threads_spread(c->pid, &c->spread);
    if (!s->fresh) ts_arena_reset(&s->arena);
    s->fresh = false;
    ts_cage_exec(c, slot, &own);
    unsigned char *const workspace = gpu ? NULL : own.workspace;
    ts_cage_take_workspace(c, workspace);
    const size_t n_workspace = s->workspace_bytes;
    if (workspace) poison_workspace(c, workspace, n_workspace);
    memset(&c->control->fault, 0, sizeof c->control->fault);
    /* On a device the keeper writes the inputs after ready, so nothing needs to be hidden. */
    if (!gpu) {
        give_order(c, &o);
        o.n_seen = choose_outputs(c, s, seen);
        o.n_hidden = hide(c, s, hidden);
    }
    /* Timed calls find their cores awake, including those of threads that they wake. */
    if (c->plan.aligned && !gpu && !c->shares_core) ts_awake_begin(&c->cores);
    const int came = perform(c, &o, r);
    go_first(c, false);
    conclude(c, came, seen, o.n_seen, r);
    if (gpu && came == TS_WORD_CAME && verb == TS_VERB_RUN) ts_gpu_fetch(c, slot, r);
    if (!gpu) r->ns += head_start_ns(c, s, r);
    reveal(hidden, &o.n_hidden); /* in case go was never signalled */
    blame(c, s, r);
    if (workspace && came == TS_WORD_CAME) look_at_workspace(c, workspace, n_workspace, r);
    if (came == TS_WORD_CAME) ts_cage_look_beside(c, s, workspace, r);
    confirm(c, r);
    return !*ts_call_reason(r);
}

bool ts_cage_call(ts_cage *c, int slot, ts_call *r)
{
    const bool came = ask(c, slot, TS_VERB_RUN, NULL, NULL, r);
    if (came && !r->status && c->plan.n_returned) ++*c->plan.n_returned;
    return came;
}

bool ts_cage_call_with(ts_cage *c, int slot, const void *args, const ts_exec *x, ts_call *r)
{
    return ask(c, slot, TS_VERB_RUN, args, x, r);
}

bool ts_cage_workspace(ts_cage *c, int slot, ts_call *r)
{
    c->slot[slot].workspace_bytes = 0;
    const bool fresh = c->slot[slot].fresh;
    if (!ask(c, slot, TS_VERB_WORKSPACE, NULL, NULL, r)) return false;
    c->slot[slot].fresh = fresh && ts_arena_outputs_untouched(&c->slot[slot].arena, &r->flaw);
    if (r->status) return true;
    r->too_large = r->workspace_bytes > c->plan.workspace_bytes;
    if (!r->too_large) c->slot[slot].workspace_bytes = r->workspace_bytes;
    return !*ts_call_reason(r);
}

const char *ts_call_reason(const ts_call *r)
{
    const char *const end[] = { "", "crash", "seal", "protocol", "hang", "memory", TS_BUSY };
    if (r->broken) return "error";
    if (r->flaw.fault) return ts_fault_name(r->flaw.fault);
    if (r->end) return end[r->end];
    if (r->late) return "output-late";
    if (r->early) return "early";
    return r->too_large ? "workspace" : "";
}
