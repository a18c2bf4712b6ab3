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
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "driver.h"
#include "dtype.h"
#include "fact_ptx.h"
#include "keeper_inside.h"
#include "nothing.h"
#include "pass.h"

enum { BAND = 4096, PROBES = 16, MOST_PROBES = 8, REHEARSALS = 2, ORDERS = 3, GIVE };
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
static uint64_t         staged; /* slots whose image is staged */
static ts_device_ptr    flushed;
static size_t           n_flush, granule;
static ts_cu_any       *nothing, *begun, *ended;
static double           usual_ns;
static double           usual_lay_ns[TS_MAX_SLOTS];
static ts_reply_kept   *said;

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
    const double begin = ts_now_ns();
    must(ts_nothing_launch(d, nothing, NULL), "launch");
    must(d->sync(), "synchronising");
    return ts_now_ns() - begin;
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
    must(ts_nothing_load(d, &nothing), "empty kernel");
    must(d->event_create(&begun, 0), "clock");
    must(d->event_create(&ended, 0), "clock");
    usual_ns = probe();
    for (int i = 0; i < PROBES; i++) {
        const double ns = probe();
        if (ns < usual_ns) usual_ns = ns;
    }
}

static void give(int to, int fd, ts_kept what)
{
    if (!ts_pass(to, fd, &what, sizeof what)) _exit(1);
    close(fd);
}

/* Abuts one end of its mapping: beyond it nothing is mapped. */
static void make(kept *k, size_t n_bytes, bool front)
{
    k->n_bytes = n_bytes;
    k->n_mapped = (n_bytes + 64 + granule - 1) / granule * granule;
    must(ts_driver_share(d, k->n_mapped, &k->handle, &k->fd), "device memory");
    must(ts_driver_place(d, k->handle, k->n_mapped, 1, &k->lo), "device memory");
    k->p = k->lo + (front ? 0 : k->n_mapped - n_bytes);
    must(d->fill(k->lo, TS_BAND, k->n_mapped, NULL), "filling");
}

static void make_all(const ts_keeper *k, size_t n_workspace)
{
    for (int s = 0; s < k->n; s++)
        for (int i = 0; i < k->slots[s]->n; i++) {
            const ts_arena_buf *b = &k->slots[s]->buf[i];
            make(&bufs[s][i], b->n_bytes, b->p == b->lo);
            must(d->alloc(&bufs[s][i].staged, b->n_bytes + 1), "device memory");
        }
    make(&workspace, n_workspace, false);
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

static void each_span(const ts_arena_buf *b, ts_device_ptr device, span_fn *f)
{
    const size_t element = ts_format_of(b->b.dtype)->n_bytes, row = (size_t)b->b.n_cols * element;
    const size_t stride = (size_t)b->b.row_stride * element;
    if (!b->n_bytes) return;
    if (b->b.n_rows == 1 || stride < row + (1u << 20)) {
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
    staged |= UINT64_C(1) << slot;
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

/* Writes inputs and poison and flushes the caches; returns how long it took, by the device's clock.
 * Everything is enqueued at once, so that work of another process in between costs measurable time.
 */
static double lay_out(const ts_keeper *k, const ts_order_kept *o)
{
    float ms = 0;
    must(d->event_record(begun, NULL), "clock");
    for (int i = 0; i < k->slots[o->slot]->n; i++) {
        const kept *b = &bufs[o->slot][i];
        if (b->n_bytes) must(d->copy_within(b->p, b->staged, b->n_bytes, NULL), "layout");
    }
    if (o->n_workspace) {
        const ts_device_ptr end = workspace.lo + workspace.n_mapped;
        must(d->fill(end - o->n_workspace, TS_POISON, o->n_workspace, NULL), "filling");
        must(d->fill(end - o->n_workspace - BAND, TS_BAND, BAND, NULL), "filling");
    }
    copy_over();
    must(d->event_record(ended, NULL), "clock");
    must(d->sync(), "layout");
    must(d->event_elapsed(&ms, begun, ended), "clock");
    return 1e6 * (double)ms;
}

/* Measures the usual time of lay_out before an entrant can interfere. */
static void rehearse(const ts_keeper *k, size_t n_workspace)
{
    for (int s = 0; s < k->n; s++)
        for (int i = 0; i < REHEARSALS; i++) {
            const double ns = lay_out(k, &(ts_order_kept) { TS_KEEP_LAY, s, 0, n_workspace });
            if (!i || ns < usual_lay_ns[s]) usual_lay_ns[s] = ns;
        }
}

/* The inputs are on the device for some hundred microseconds before the call. A process that reads
 * them in this time makes the device switch to it and back, which is detected. */
static void lay(const ts_keeper *k, const ts_order_kept *o, ts_kept_word *w)
{
    if (o->fresh || !(staged >> o->slot & 1)) stage(k, o->slot);
    warm_up();
    const double begin = ts_now_ns();
    w->busy = lay_out(k, o) > usual_lay_ns[o->slot] + TURN_NS;
    w->busy = somebody_is_there() || w->busy;
    w->shown_ns = ts_now_ns() - begin;
}

/* ---- after the call ---- */

static bool band_holds(ts_device_ptr from, size_t n)
{
    static unsigned char band[BAND];
    if (n > BAND) n = BAND;
    must(d->copy_out(band, from, n), "reading a band");
    for (size_t i = 0; i < n; i++)
        if (band[i] != TS_BAND) return false;
    return true;
}

static void look_at_bands(const kept *k, int buf, size_t n_bytes, ts_device_ptr p)
{
    const ts_device_ptr hi = k->lo + k->n_mapped, end = p + n_bytes;
    const size_t        before = (size_t)(p - k->lo), near = before < BAND ? before : BAND;
    said->buf = buf;
    if (!band_holds(p - near, near)) said->word.flaw.fault = TS_FAULT_BEFORE;
    else if (!band_holds(end, (size_t)(hi - end))) said->word.flaw.fault = TS_FAULT_PAST;
}

/* Detects writes to an input. It is mapped read-only, so this catches entrants that changed the
 * mapping. Of a large input random samples are compared. */
static bool input_holds(const ts_arena_buf *b, const kept *k)
{
    static unsigned char part[1 << 16];
    const size_t         element = ts_format_of(b->b.dtype)->n_bytes;
    const bool           far = b->b.n_rows > 1 && (size_t)b->b.row_stride * element > (1u << 20);
    const bool           whole = k->n_bytes <= COMPARED && !far;
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
    for (int i = 0; i < m->n && !w->flaw.fault; i++) {
        const kept *b = &bufs[o->slot][i];
        look_at_bands(b, i, b->n_bytes, b->p);
        if (w->flaw.fault) break;
        if (m->buf[i].b.role != TS_IN) each_span(&m->buf[i], b->p, to_host);
        else if (!input_holds(&m->buf[i], b)) w->flaw.fault = TS_FAULT_INPUT, said->buf = i;
    }
    if (o->n_workspace && !w->flaw.fault)
        look_at_bands(&workspace, -1, o->n_workspace,
                      workspace.lo + workspace.n_mapped - o->n_workspace);
}

_Noreturn void ts_keep(const ts_keeper *k, size_t n_workspace, int orders, int to)
{
    char          why[128];
    ts_order_kept o;
    int           l2 = 0;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL)) _exit(1); /* it would outlive the judge */
    /* Closes the judge's descriptors: a socket that the keeper kept open would never appear closed.
     */
    const int high[2] = { fcntl(orders, F_DUPFD, 64), fcntl(to, F_DUPFD, 64) };
    if (dup2(high[0], ORDERS) < 0 || dup2(high[1], GIVE) < 0) _exit(1);
    syscall(SYS_close_range, GIVE + 1u, ~0u, 0u);
    orders = ORDERS, to = GIVE;
    said = k->last;
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
    make_all(k, n_workspace);
    must(d->sync(), "layout");
    rehearse(k, n_workspace);
    give_all(k, to);
    close(to);
    size_t n_free, all;
    must(d->memory_info(&n_free, &all), "device memory");
    said->word = (ts_kept_word) { .ok = true, .n_free = n_free };
    while (write(orders, "k", 1) == 1 && read(orders, &o, sizeof o) == (ssize_t)sizeof o) {
        *said = (ts_reply_kept) { .buf = -1 };
        if (o.verb == TS_KEEP_LAY) lay(k, &o, &said->word);
        else if (o.verb == TS_KEEP_PROBE) probe();
        else fetch(k, &o, &said->word);
        size_t all;
        must(d->memory_info(&said->word.n_free, &all), "device memory");
        said->word.ok = true;
    }
    _exit(0);
}

/* ---- the survey ---- */

static double copy_rate(size_t n)
{
    ts_device_ptr a, b;
    ts_cu_any    *from, *to;
    float         ms = 0, best = 1e9f;
    must(d->alloc(&a, n), "device memory");
    must(d->alloc(&b, n), "device memory");
    must(d->event_create(&from, 0), "clock");
    must(d->event_create(&to, 0), "clock");
    for (int i = 0; i < 8; i++) {
        must(d->event_record(from, NULL), "clock");
        must(d->copy_within(b, a, n, NULL), "copying");
        must(d->event_record(to, NULL), "clock");
        must(d->event_sync(to), "copying");
        must(d->event_elapsed(&ms, from, to), "clock");
        if (ms > 0 && ms < best) best = ms;
    }
    return 2e-6 * (double)n / best;
}

/* Eight blocks of 256 threads per multiprocessor, each thread with eight sums. */
static double fma_rate(unsigned n_processors)
{
    const unsigned grid = 8 * n_processors, block = 256;
    uint32_t       n_steps = 4096;
    ts_device_ptr  out;
    ts_cu_any     *module, *f, *from, *to;
    float          ms = 0, best = 1e9f;
    void          *params[] = { &out, &n_steps };
    must(d->module_load(&module, ts_fact_ptx), "kernel");
    must(d->module_function(&f, module, "ts_fma"), "kernel");
    must(d->alloc(&out, sizeof(float)), "device memory");
    must(d->event_create(&from, 0), "clock");
    must(d->event_create(&to, 0), "clock");
    for (int i = 0; i < 8; i++) {
        must(d->event_record(from, NULL), "clock");
        must(d->launch(f, grid, 1, 1, block, 1, 1, 0, NULL, params, NULL), "launch");
        must(d->event_record(to, NULL), "clock");
        must(d->event_sync(to), "computing");
        must(d->event_elapsed(&ms, from, to), "clock");
        if (ms > 0 && ms < best) best = ms;
    }
    return best < 1e9f ? 2e-6 * 8 * n_steps * grid * block / best : 0;
}

_Noreturn void ts_keep_survey(ts_survey *s)
{
    static ts_reply_kept unheard;
    char                 name[128] = "";
    int                  v[4] = { 0 }, version = 0;
    size_t               memory = 0;
    said = &unheard;
    d = ts_driver_open(s->text, sizeof s->text);
    if (!d) _exit(1);
    must(d->device_name(name, sizeof name, 0), "device name");
    const int what[4] = { TS_CU_MAJOR, TS_CU_MINOR, TS_CU_SMS, TS_CU_L2_BYTES };
    for (int i = 0; i < 4; i++) must(d->device_attribute(&v[i], what[i], 0), "device");
    must(d->device_memory(&memory, 0), "device memory");
    must(d->version(&version), "driver version");
    snprintf(s->arch, sizeof s->arch, "sm_%d%d", v[0], v[1]);
    snprintf(s->text, sizeof s->text, "%s, %s, %d multiprocessors, %d MiB L2, %.0f GiB, CUDA %d.%d",
             name, s->arch, v[2], v[3] >> 20, (double)memory / 1073741824.0, version / 1000,
             version % 1000 / 10);
    make_probe();
    s->n_bytes = (double)memory;
    s->probe_ns = usual_ns;
    s->copy_gbs = copy_rate((size_t)16 * (size_t)v[3]);
    s->gflops = fma_rate((unsigned)v[2]);
    s->matrix = v[0] >= 8 ? 16 : 1;
    s->there = true;
    _exit(0);
}
