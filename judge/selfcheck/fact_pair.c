/* SPDX-License-Identifier: Apache-2.0 */
/* fact_pair.c - trials with two processes: this one acts as the keeper, workers act as entrants. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cage_inside.h"
#include "fact_inside.h"
#include "keeper.h"
#include "quantile.h"

enum { BYTE = 0x5a, SOME = 1 << 16 }; /* contents of shared memory; bytes compared */

/* ---- access outside a buffer ---- */

static const struct {
    unsigned how;
    enum { INSIDE, PAST, BEFORE } where;
    bool writable, faults;
} steps[] = {
    { TS_TOUCH_ADD, INSIDE, true, false },   { TS_TOUCH_READ, INSIDE, false, false },
    { TS_TOUCH_READ, PAST, true, true },     { TS_TOUCH_WRITE, PAST, true, true },
    { TS_TOUCH_ADD, PAST, true, true },      { TS_TOUCH_READ, BEFORE, true, true },
    { TS_TOUCH_WRITE, BEFORE, true, true },  { TS_TOUCH_ADD, BEFORE, true, true },
    { TS_TOUCH_WRITE, INSIDE, false, true }, { TS_TOUCH_ADD, INSIDE, false, true },
};
enum { STEPS = sizeof steps / sizeof *steps };

static void take_step(ts_trial *t, int i, uint64_t handle)
{
    ts_device_ptr p = 0, more;
    ts_trial_must(t, ts_driver_place(t->d, handle, t->granule, steps[i].writable, &p), "mapping");
    const ts_device_ptr at[] = { p + t->granule / 2, p + t->granule, p - sizeof(uint32_t) };
    int                 code = ts_trial_touch(t, at[steps[i].where], steps[i].how);
    if (!code) code = t->d->sync();
    t->page->worker[i].after = t->d->alloc(&more, 1);
    t->page->worker[i].code = code;
}

void ts_trial_guards(ts_trial *t)
{
    int      fd, n = 0, n_faults = 0, n_fine = 0, n_lost = 0;
    uint32_t word, before;
    memset(&before, BYTE, sizeof before);
    ts_trial_hire(t, STEPS, take_step);
    ts_trial_open(t);
    const ts_device_ptr p = ts_trial_share(t, BYTE, &fd), middle = p + t->granule / 2;
    for (int i = 0; i < STEPS; i++) ts_trial_give(t, i, fd);
    for (int i = 0; i < STEPS; i++) {
        ts_trial_ended(t, i);
        const int code = t->page->worker[i].code;
        n += steps[i].faults;
        n_faults += steps[i].faults && code > 0;
        n_lost += steps[i].faults && code > 0 && t->page->worker[i].after;
        n_fine += !steps[i].faults && !code && !t->page->worker[i].after;
    }
    ts_trial_must(t, t->d->copy_out(&word, middle, sizeof word), "reading");
    const bool whole = ts_trial_whole(t, p, BYTE, SOME) &&
                       ts_trial_whole(t, middle + sizeof word, BYTE, SOME) &&
                       ts_trial_whole(t, p + t->granule - SOME, BYTE, SOME);
    const double usual = ts_trial_usual(t);
    ts_trial_say(t, "device-guards", n_faults == n && n_lost == n && n_fine == STEPS - n && whole,
                 "an out-of-bounds access or a write to an input ends only its own process: %d of "
                 "%d fault, %d of %d allowed accesses do not, %d processes lost; the keeper's data "
                 "%s, its empty kernel %.1f us",
                 n_faults, n, n_fine, STEPS - n, n_lost, whole ? "intact" : "CHANGED", usual / 1e3);
    ts_trial_say(t, "device-shared", word == before + 1,
                 "memory is shared by a descriptor: a worker's addition was %s by the keeper",
                 word == before + 1 ? "seen" : "not seen");
}

/* ---- a worker killed while its kernel runs, and the effect on the keeper ---- */

enum { KILLS = 3, TRIES = 20 };

typedef struct killing {
    int    n_begun, n_ended, n_whole, n_seen, n_tries;
    double usual, slow[KILLS * TRIES], reaped_ns, speed_ns; /* the longest of each */
} killing;

static void never_end(ts_trial *t, int i, uint64_t handle)
{
    ts_device_ptr p = 0;
    ts_trial_must(t, ts_driver_place(t->d, handle, t->granule, 1, &p), "mapping");
    ts_trial_must(t, ts_trial_spin(t, p, UINT64_MAX, NULL), "launch");
    t->page->worker[i].code = t->d->sync();
}

static uint64_t word_at(ts_trial *t, ts_device_ptr p)
{
    uint64_t v;
    ts_trial_must(t, t->d->copy_out(&v, p, sizeof v), "reading");
    return v;
}

/* Waits until the word at p differs from, or equals, the value; false after three seconds. */
static bool await_word(ts_trial *t, ts_device_ptr p, bool is, uint64_t v)
{
    const double begin = ts_now_ns();
    while ((word_at(t, p) == v) != is) {
        if (ts_now_ns() - begin > 3e9) return false;
        usleep(200);
    }
    return true;
}

/* Kills it; measures the time until it was reaped, and until the first of three fast probes. */
static void kill_it(ts_trial *t, int i, killing *k)
{
    const double begin = ts_now_ns();
    double       reaped = 0, quick = 0;
    int          n_quick = 0;
    kill(t->worker[i].pid, SIGKILL);
    while (ts_now_ns() - begin < 2e9 && (!reaped || n_quick < 3)) {
        if (!reaped && waitpid(t->worker[i].pid, NULL, WNOHANG)) reaped = ts_now_ns() - begin;
        const double at = ts_now_ns() - begin;
        const bool   is_quick = ts_trial_probe(t) < 2 * k->usual + 20e3;
        if (is_quick && !n_quick) quick = at;
        n_quick = is_quick ? n_quick + 1 : 0;
    }
    k->n_ended += reaped && n_quick >= 3;
    if (reaped > k->reaped_ns) k->reaped_ns = reaped;
    if (quick > k->speed_ns) k->speed_ns = quick;
}

static void one_kill(ts_trial *t, int i, ts_device_ptr p, int fd, killing *k)
{
    const uint64_t before = word_at(t, p);
    ts_trial_give(t, i, fd);
    if (!await_word(t, p, false, before)) return;
    k->n_begun++;
    for (int n = 0; n < TRIES; n++) {
        const double ns = ts_trial_probe(t);
        k->n_seen += ts_keeper_sees(ns, k->usual);
        k->slow[k->n_tries++] = ns;
    }
    kill_it(t, i, k);
    const uint64_t last = word_at(t, p);
    usleep(10000);
    k->n_whole += word_at(t, p) == last && ts_trial_whole(t, p + sizeof last, BYTE, SOME);
}

void ts_trial_kill(ts_trial *t)
{
    killing k = { 0 };
    int     fd;
    ts_trial_hire(t, KILLS, never_end);
    ts_trial_open(t);
    const ts_device_ptr p = ts_trial_share(t, BYTE, &fd);
    k.usual = ts_trial_usual(t);
    for (int i = 0; i < KILLS; i++) one_kill(t, i, p, fd, &k);
    ts_trial_say(t, "device-kill", k.n_ended == KILLS && k.n_whole == KILLS,
                 "killing a process ends its endless kernel: %d of %d started, %d ended, %d "
                 "stopped for good with the keeper's data intact; at most %.0f ms until the "
                 "process was reaped, %.0f ms until the keeper was at full speed",
                 k.n_begun, KILLS, k.n_ended, k.n_whole, k.reaped_ns / 1e6, k.speed_ns / 1e6);
    const double slow = k.n_tries ? ts_median(k.slow, (size_t)k.n_tries) : 0;
    ts_trial_say(t, "device-busy", k.n_tries && 10 * k.n_seen >= 9 * k.n_tries,
                 "a kernel left running on the device is detected: the keeper's empty kernel takes "
                 "%.0f us next to it, %.1f us alone, x %.0f; detected in %d of %d",
                 slow / 1e3, k.usual / 1e3, slow / k.usual, k.n_seen, k.n_tries);
}

/* ---- a waiting kernel that polls an input ---- */

enum { ROWS = 1024, COLS = 64, THREADS = 128, ROUNDS = 8 };
enum { GO, BEGUN, CHANGED, WENT, EARLY, LATE, WORDS }; /* of ts_poll */

typedef struct parked {
    ts_device_ptr in, word, truth;
    double        usual, lead_ns[ROUNDS];
    int           n_seen;
} parked;

static ts_device_ptr make_truth(ts_trial *t)
{
    static uint32_t truth[ROWS * COLS];
    ts_device_ptr   p = 0;
    for (uint32_t i = 0; i < ROWS * COLS; i++) truth[i] = i * 2654435761u >> 8;
    ts_trial_must(t, t->d->alloc(&p, sizeof truth), "device memory");
    ts_trial_must(t, t->d->copy_in(p, truth, sizeof truth), "copying");
    return p;
}

static void watch(ts_trial *t, int i, uint64_t handle)
{
    ts_device_ptr p = 0, truth = make_truth(t);
    uint32_t      cols = COLS;
    ts_cu_any    *f = ts_trial_kernel(t, "ts_poll");
    ts_trial_must(t, ts_driver_place(t->d, handle, t->granule, 1, &p), "mapping");
    ts_device_ptr word = p + t->granule / 2;
    void         *params[] = { &p, &truth, &cols, &word };
    for (int turn = 1; turn <= ROUNDS; turn++) {
        while (__atomic_load_n(&t->page->turn, __ATOMIC_ACQUIRE) < turn) usleep(100);
        ts_trial_must(t,
                      t->d->launch(f, ROWS / THREADS, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL),
                      "launch");
        ts_trial_must(t, t->d->sync(), "watching");
        __atomic_store_n(&t->page->taken, turn, __ATOMIC_RELEASE);
    }
    t->page->worker[i].code = 0;
}

static bool await_taken(ts_trial *t, int turn)
{
    const double begin = ts_now_ns();
    while (__atomic_load_n(&t->page->taken, __ATOMIC_ACQUIRE) < turn) {
        if (ts_now_ns() - begin > 2e9) return false;
        usleep(200);
    }
    return true;
}

static bool one_round(ts_trial *t, parked *k, int i)
{
    const size_t     n = sizeof(uint32_t) * ROWS * COLS;
    const ts_driver *d = t->d;
    uint64_t         word[WORDS];
    ts_trial_must(t, d->fill(k->in, 0xff, n, NULL), "filling");
    ts_trial_must(t, d->fill(k->word, 0, sizeof word, NULL), "filling");
    ts_trial_must(t, d->sync(), "filling");
    __atomic_store_n(&t->page->turn, i + 1, __ATOMIC_RELEASE);
    if (!await_word(t, k->word + 8 * BEGUN, true, ROWS)) return false;
    ts_trial_must(t, d->copy_within(k->in, k->truth, n, NULL), "layout");
    ts_trial_must(t, d->sync(), "layout");
    k->n_seen += ts_keeper_sees(ts_trial_probe(t), k->usual); /* as the keeper does */
    ts_trial_must(t, d->fill(k->word, 1, 1, NULL), "go");
    ts_trial_must(t, d->fill(k->word, 2, 1, NULL), "go");
    ts_trial_must(t, d->sync(), "go");
    if (!await_taken(t, i + 1)) return false;
    ts_trial_must(t, d->copy_out(word, k->word, sizeof word), "reading");
    k->lead_ns[i] =
        word[CHANGED] && word[WENT] > word[CHANGED] ? (double)(word[WENT] - word[CHANGED]) : 0;
    return true;
}

void ts_trial_head_start(ts_trial *t)
{
    parked k = { 0 };
    int    fd, n = 0;
    ts_trial_hire(t, 1, watch);
    ts_trial_open(t);
    k.in = ts_trial_share(t, BYTE, &fd);
    k.word = k.in + t->granule / 2;
    k.truth = make_truth(t);
    k.usual = ts_trial_usual(t);
    ts_trial_give(t, 0, fd);
    while (n < ROUNDS && one_round(t, &k, n)) n++;
    ts_trial_say(
        t, "device-head-start", n == ROUNDS && k.n_seen == n,
        "a kernel that waits on the device for an input is seen before go: it has the input "
        "%.2f ms before, and the keeper sees it in %d of %d",
        n ? ts_median(k.lead_ns, (size_t)n) / 1e6 : 0, k.n_seen, ROUNDS);
}
