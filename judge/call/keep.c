/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c - the keeper's process: the judge's only process that loads the driver. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "band_look.h"
#include "clock.h"
#include "driver.h"
#include "dtype.h"
#include "keep_gate.h"
#include "nothing.h"
#include "pass.h"

enum { BAND = 4096, MOST_PROBES = 8, REHEARSALS = 2, ATTEMPTS = 5, ORDERS = 3, GIVE };
enum { PLACES = TS_MAX_BUFS + 1, SIDES = 3 }; /* of bands: buffers and the workspace */
static const size_t COMPARED = (size_t)64 << 20, SAMPLE = (size_t)1 << 16;
static const double WARM_NS = 4e6,
                    TURN_NS =
                        120e3; /* switching to another process and back takes at least 160 us */

typedef struct kept {
    uint64_t      handle;
    int           fd;
    ts_device_ptr lo, p, staged; /* the mapping; the buffer; its image as drawn by the judge */
    size_t        n_mapped, n_bytes;
} kept;

static const ts_driver *d;
static kept             bufs[TS_MAX_SLOTS][TS_MAX_BUFS], workspace;
static bool             staged[TS_MAX_SLOTS]; /* whether the slot's image is */
static ts_device_ptr    flushed;
static size_t           n_flush, granule;
static ts_cu_any       *nothing, *band;
static ts_device_ptr    n_wrong; /* of every place, see look_at_bands */
static size_t           granted; /* of the workspace, at its end */
static double           usual_ns;
static ts_reply_kept   *said;
static ts_gate          gate;

_Noreturn static void give_up(int code, const char *what)
{
    snprintf(said->word.text, sizeof said->word.text, "%s: %s", what,
             code ? ts_driver_text(d, code) : "out of memory");
    said->word.ok = false;
    _exit(1);
}

static void must(int code, const char *what)
{
    if (code) give_up(code, what);
}

static uint32_t chance(void)
{
    uint32_t r = 0;
    return getrandom(&r, sizeof r, 0) == sizeof r ? r : 0;
}

static double probe(void)
{
    double ns;
    must(ts_keep_probe(d, nothing, &ns), "empty kernel");
    return ns;
}

/* An empty kernel takes some 10 us if the device is otherwise idle, 2 ms or more next to another
 * process's kernel; two switches to another process and back take twice 160 us. The number of
 * probes is random, so that an entrant cannot predict it. */
static bool somebody_is_there(void)
{
    for (uint32_t n = 1 + chance() % MOST_PROBES; n; n--)
        if (ts_keeper_sees(probe(), usual_ns)) return true;
    return false;
}

static void make_probe(void)
{
    must(ts_nothing_load(d, ts_nothing_ptx, &nothing), "empty kernel");
    must(ts_keep_usual(d, nothing, &usual_ns), "empty kernel");
}

static void give(int to, int fd, ts_kept what)
{
    if (!ts_pass(to, fd, &what, sizeof what)) _exit(1);
    close(fd);
}

/* At `offset` in its mapping, beyond which nothing is mapped. */
static void make(kept *k, size_t n_bytes, size_t offset)
{
    k->n_bytes = n_bytes;
    k->n_mapped = ts_kept_mapped(n_bytes, granule);
    must(ts_driver_share(d, k->n_mapped, &k->handle, &k->fd), "device memory");
    must(ts_driver_place(d, k->handle, k->n_mapped, 1, &k->lo), "device memory");
    k->p = k->lo + offset;
    must(d->fill(k->lo, TS_BAND, k->n_mapped, NULL), "filling");
}

static void make_all(const ts_keeper *k, size_t n_workspace)
{
    for (int s = 0; s < k->n; s++)
        for (int i = 0; i < k->slots[s]->n; i++) {
            const ts_arena_buf *b = &k->slots[s]->buf[i];
            make(&bufs[s][i], b->n_bytes, ts_kept_offset(b, granule));
            must(d->alloc(&bufs[s][i].staged, b->n_bytes + 1), "device memory");
            must(d->fill(bufs[s][i].staged, TS_BAND, b->n_bytes + 1, NULL), "filling");
        }
    make(&workspace, n_workspace, ts_kept_mapped(n_workspace, granule) - n_workspace);
    must(ts_band_load(d, &band), "kernel");
    must(d->alloc(&n_wrong, (size_t)PLACES * SIDES * sizeof(uint64_t)), "device memory");
}

static void give_all(const ts_keeper *k, int to)
{
    uint32_t left = 0;
    for (int s = 0; s < k->n; s++) left += (uint32_t)k->slots[s]->n;
    for (int s = 0; s < k->n; s++)
        for (int i = 0; i < k->slots[s]->n; i++) {
            const kept *b = &bufs[s][i];
            give(to, b->fd,
                 (ts_kept) { s, i, b->n_mapped, b->p - b->lo, k->slots[s]->buf[i].b.role != TS_IN,
                             left-- });
        }
    give(to, workspace.fd,
         (ts_kept) { -1, 0, workspace.n_mapped, workspace.p - workspace.lo, 1, 0 });
}

/* ---- images: whole if the gaps between rows are short, else row by row with margins ---- */

typedef void span_fn(unsigned char *host, ts_device_ptr device, size_t n);

static void to_device(unsigned char *host, ts_device_ptr device, size_t n)
{
    must(d->copy_in(device, host, n), "copying to the device");
}

static void to_host(unsigned char *host, ts_device_ptr device, size_t n)
{
    must(d->copy_out(host, device, n), "copying from the device");
}

static size_t stride_of(const ts_arena_buf *b)
{
    return (size_t)b->b.row_stride * ts_format_of(b->b.dtype)->n_bytes;
}

static size_t row_of(const ts_arena_buf *b)
{
    return (size_t)b->b.n_cols * ts_format_of(b->b.dtype)->n_bytes;
}

static bool is_apart(const ts_arena_buf *b)
{
    return b->b.n_rows > 1 && stride_of(b) >= row_of(b) + (1u << 20);
}

static void each_span(const ts_arena_buf *b, ts_device_ptr device, span_fn *f)
{
    const size_t row = row_of(b), stride = stride_of(b);
    if (!b->n_bytes) return;
    if (!is_apart(b)) {
        f(b->p, device, b->n_bytes);
        return;
    }
    for (int64_t r = 0; r < b->b.n_rows; r++) {
        const size_t at = (size_t)r * stride, before = r ? BAND : 0;
        const size_t after = r + 1 < b->b.n_rows ? BAND : 0;
        f(b->p + at - before, device + at - before, before + row + after);
    }
}

static void stage(const ts_keeper *k, int slot)
{
    for (int i = 0; i < k->slots[slot]->n; i++)
        each_span(&k->slots[slot]->buf[i], bufs[slot][i].staged, to_device);
    staged[slot] = true;
}

static void copy_over(void)
{
    must(d->copy_within(flushed + n_flush, flushed, n_flush, NULL), "flushing the cache");
}

/* An idle device starts at a low clock rate. */
static void warm_up(void)
{
    const double begin = ts_now_ns();
    /* Persisting lines are reset first: a flush does not evict them. */
    must(d->reset_l2(), "flushing the cache");
    do {
        copy_over();
        must(d->sync(), "flushing the cache");
    } while (ts_now_ns() - begin < WARM_NS);
}

static size_t workspace_size(size_t n)
{
    return (n + TS_WORKSPACE_ALIGN - 1) / TS_WORKSPACE_ALIGN * TS_WORKSPACE_ALIGN;
}

/* n bytes of poison, aligned; the rest of the mapping stays or becomes a band. */
static void lay_workspace(size_t n)
{
    const ts_device_ptr end = workspace.lo + workspace.n_mapped, was = end - granted;
    const size_t        whole = workspace_size(n);
    workspace.p = end - whole, workspace.n_bytes = n;
    if (granted > whole) must(d->fill(was, TS_BAND, granted - whole, NULL), "filling");
    if (n) must(d->fill(workspace.p, TS_POISON, n, NULL), "filling");
    if (whole > n) must(d->fill(workspace.p + n, TS_BAND, whole - n, NULL), "filling");
    granted = whole;
}

/* By the device's clock, before an entrant can interfere. */
static double usual_lay_ns[TS_MAX_SLOTS], fill_ns; /* without workspace; per byte of it */

/* Writes inputs and poison, flushes the caches and shuts the gate; returns how long the device took
 * from the first step until the gate ran. All is enqueued at once, so that work of another process
 * in between costs measurable time. *away: how long this process had no core meanwhile. */
static double lay_out(const ts_keeper *k, const ts_order_kept *o, double *away)
{
    const double wall = ts_now_ns(), cpu = ts_thread_cpu_ns();
    double       ns;
    must(ts_gate_begin(&gate), "clock");
    for (int i = 0; i < k->slots[o->slot]->n; i++) {
        const kept *b = &bufs[o->slot][i];
        if (b->n_bytes) must(d->copy_within(b->p, b->staged, b->n_bytes, NULL), "layout");
    }
    lay_workspace(o->n_workspace);
    copy_over();
    must(ts_gate_shut(&gate), "gate");
    *away = ts_now_ns() - wall - (ts_thread_cpu_ns() - cpu);
    must(ts_gate_await(&gate, &ns), "layout");
    return ns;
}

/* Whether laying out took so long that another process used the device. If this process lost its
 * core meanwhile, the time shows nothing, and it is measured again. */
static void lay_and_look(const ts_keeper *k, const ts_order_kept *o, ts_kept_word *w)
{
    bool slow = true, lost = true;
    for (int i = 0; i < ATTEMPTS && slow && lost; i++) {
        const size_t n_filled = granted > o->n_workspace ? granted : (size_t)o->n_workspace;
        const double usual = usual_lay_ns[o->slot] + fill_ns * (double)n_filled;
        double       away;
        if (i) must(ts_gate_leave(&gate), "gate");
        slow = lay_out(k, o, &away) > usual + TURN_NS;
        lost = away > TURN_NS / 2;
    }
    w->busy = slow && !lost;
    w->unsure = slow && lost;
}

static double rehearse_slot(const ts_keeper *k, int slot, size_t n_workspace)
{
    const ts_order_kept o = { TS_KEEP_LAY, slot, 0, n_workspace };
    double              least = 0, away;
    for (int i = 0; i < REHEARSALS; i++) {
        const double ns = lay_out(k, &o, &away);
        must(ts_gate_leave(&gate), "gate");
        if (!i || ns < least) least = ns;
    }
    return least;
}

static void rehearse(const ts_keeper *k, size_t n_workspace)
{
    for (int s = 0; s < k->n; s++) usual_lay_ns[s] = rehearse_slot(k, s, 0);
    if (!n_workspace) return;
    const double more = rehearse_slot(k, 0, n_workspace) - usual_lay_ns[0];
    fill_ns = more > 0 ? more / (double)n_workspace : 0;
}

/* From here on the inputs are on the device, and the gate keeps other processes from reading them:
 * one that does so earlier makes the device switch to it and back, which takes time. False: that
 * happened, and the judge may try again. */
static bool lay(const ts_keeper *k, const ts_order_kept *o, ts_kept_word *w)
{
    const bool again = o->how & TS_LAY_ANYWAY;
    if (o->how & TS_LAY_FRESH || !staged[o->slot]) stage(k, o->slot);
    if (!again) gate.begin_ns = ts_now_ns(); /* a second layout shows what the first one did */
    if (o->how & TS_LAY_TIMED || again) warm_up();
    else must(d->reset_l2(), "flushing the cache");
    lay_and_look(k, o, w);
    if (w->busy && !again) {
        must(ts_gate_leave(&gate), "gate");
        return false;
    }
    k->page->laid++;
    return true;
}

/* ---- after the call ---- */

static const ts_fault side[SIDES] = { TS_FAULT_BEFORE, TS_FAULT_PAST, TS_FAULT_GAP };

/* Counts the wrong words of [lo, hi) in counter i. */
static void look(ts_device_ptr lo, ts_device_ptr hi, int i)
{
    must(ts_band_look(d, band, lo, hi, TS_BAND, n_wrong + (size_t)i * sizeof(uint64_t)),
         "comparing a band");
}

/* All of a mapping but the buffer; it stays as it is between calls. */
static void look_beside(const kept *k, int place)
{
    look(k->lo, k->p, place * SIDES);
    look(k->p + k->n_bytes, k->lo + k->n_mapped, place * SIDES + 1);
}

/* Gaps between distant rows, which the host does not see. */
static void look_between(const ts_arena_buf *b, const kept *k, int place)
{
    const size_t stride = stride_of(b);
    for (int64_t r = 0; is_apart(b) && r + 1 < b->b.n_rows; r++) {
        const ts_device_ptr at = k->p + (size_t)r * stride;
        look(at + row_of(b), at + stride, place * SIDES + 2);
    }
}

static void fill_beside(const kept *k)
{
    const ts_device_ptr end = k->p + k->n_bytes, hi = k->lo + k->n_mapped;
    if (k->p > k->lo) must(d->fill(k->lo, TS_BAND, k->p - k->lo, NULL), "filling");
    if (hi > end) must(d->fill(end, TS_BAND, hi - end, NULL), "filling");
}

/* Every byte around the buffers of a slot and the workspace, compared where it is. What was changed
 * is reported once. */
static void look_at_bands(const ts_arena *m, const kept *b)
{
    uint64_t wrong[PLACES * SIDES];
    must(d->fill(n_wrong, 0, sizeof wrong, NULL), "filling");
    for (int i = 0; i < m->n; i++) look_beside(&b[i], i), look_between(&m->buf[i], &b[i], i);
    look_beside(&workspace, m->n);
    must(d->copy_out(wrong, n_wrong, sizeof wrong), "reading a band");
    for (int i = (m->n + 1) * SIDES - 1; i >= 0; i--) {
        if (!wrong[i]) continue;
        said->buf = i / SIDES < m->n ? i / SIDES : -1;
        said->word.flaw.fault = side[i % SIDES];
        fill_beside(said->buf < 0 ? &workspace : &b[said->buf]);
    }
}

/* Detects writes to an input. It is mapped read-only, so this catches entrants that changed the
 * mapping. Of a large input random samples are compared. */
static bool input_holds(const ts_arena_buf *b, const kept *k)
{
    static unsigned char part[1 << 16];
    const bool           far = is_apart(b), whole = k->n_bytes <= COMPARED && !far;
    const size_t         n_parts = whole ? (k->n_bytes + SAMPLE - 1) / SAMPLE : far ? 0 : 64;
    for (size_t i = 0; i < n_parts; i++) {
        const size_t at = whole ? i * SAMPLE : (size_t)chance() % (k->n_bytes / SAMPLE) * SAMPLE;
        const size_t n = k->n_bytes - at < SAMPLE ? k->n_bytes - at : SAMPLE;
        must(d->copy_out(part, k->p + at, n), "reading an input");
        if (memcmp(part, b->p + at, n)) return false;
    }
    return true;
}

static void fetch(const ts_keeper *k, const ts_order_kept *o, ts_kept_word *w)
{
    const ts_arena *m = k->slots[o->slot];
    w->busy = somebody_is_there();
    look_at_bands(m, bufs[o->slot]);
    for (int i = 0; i < m->n && !w->flaw.fault; i++) {
        const kept *b = &bufs[o->slot][i];
        if (m->buf[i].b.role != TS_IN) each_span(&m->buf[i], b->p, to_host);
        else if (!input_holds(&m->buf[i], b)) w->flaw.fault = TS_FAULT_INPUT, said->buf = i;
    }
}

static void weigh(void)
{
    size_t all;
    must(d->memory_info(&said->word.n_free, &all), "device memory");
    said->word.ok = true;
}

static void reply(int orders)
{
    if (write(orders, "k", 1) != 1) _exit(0);
}

_Noreturn void ts_keep(const ts_keeper *k, size_t n_workspace, int orders, int to)
{
    char          why[128];
    ts_order_kept o;
    int           l2 = 0;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL)) _exit(1); /* it would outlive the judge */
    /* Closes the judge's descriptors: a socket that the keeper kept open would never appear closed.
     */
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) { /* a descriptor for each buffer until they are sent */
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    const int high[2] = { fcntl(orders, F_DUPFD, 64), fcntl(to, F_DUPFD, 64) };
    if (dup2(high[0], ORDERS) < 0 || dup2(high[1], GIVE) < 0) _exit(1);
    syscall(SYS_close_range, GIVE + 1u, ~0u, 0u);
    orders = ORDERS, to = GIVE;
    said = &k->page->last;
    d = ts_driver_open(why, sizeof why);
    if (!d) {
        snprintf(said->word.text, sizeof said->word.text, "%s", why);
        _exit(1);
    }
    granule = ts_driver_granule(d);
    if (!granule) give_up(1, "this device does not support shared memory handles");
    must(d->device_attribute(&l2, TS_CU_L2_BYTES, 0), "cache size");
    n_flush = 4 * (size_t)l2;
    must(d->alloc(&flushed, 2 * n_flush), "device memory");
    must(d->fill(flushed, 1, 2 * n_flush, NULL), "filling");
    make_probe();
    must(ts_gate_open(&gate, d), "gate");
    make_all(k, n_workspace);
    must(d->sync(), "layout");
    rehearse(k, n_workspace);
    give_all(k, to);
    close(to);
    weigh();
    for (reply(orders); read(orders, &o, sizeof o) == (ssize_t)sizeof o; reply(orders)) {
        *said = (ts_reply_kept) { .buf = -1 };
        if (o.verb == TS_KEEP_LAY && lay(k, &o, &said->word)) {
            weigh();
            reply(orders); /* the judge reads it until it has said go and done */
            ts_kept_word timed = { 0 };
            must(ts_gate_time(&gate, k->page, o.how & TS_LAY_AHEAD, &timed), "timing");
            said->word = timed;
        } else if (o.verb == TS_KEEP_FETCH) fetch(k, &o, &said->word);
        weigh();
    }
    _exit(0);
}
