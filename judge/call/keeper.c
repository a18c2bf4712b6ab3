/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.c - the judge's side of the keeper: starts it, sends orders, reads replies. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper_inside.h"

enum { LIMIT_MS = 60000 };

/* False if it died or does not reply. */
static bool listen_to(ts_keeper *k)
{
    struct pollfd p = { .fd = k->fd, .events = POLLIN };
    char          byte;
    int           n;
    while ((n = poll(&p, 1, LIMIT_MS)) < 0 && errno == EINTR) {}
    return n == 1 && read(k->fd, &byte, 1) == 1;
}

ts_keeper *ts_keeper_start(const ts_arena *const *slots, int n, size_t n_workspace, int give_to,
                           const cpu_set_t *cores)
{
    ts_keeper *k = calloc(1, sizeof *k);
    int        pair[2];
    if (!k) abort();
    *k = (ts_keeper) { .n = n, .slots = slots };
    k->page =
        mmap(NULL, sizeof *k->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (k->page == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) abort();
    k->fd = pair[0];
    k->pid = fork();
    if (k->pid == 0) {
        close(pair[0]);
        if (CPU_COUNT(cores)) sched_setaffinity(0, sizeof *cores, cores); /* or it stays with us */
        ts_keep(k, n_workspace, pair[1], give_to);
    }
    close(pair[1]);
    if (k->pid < 0) ts_keeper_stop(&k);
    return k;
}

bool ts_keeper_ready(ts_keeper *k, size_t *n_free, char *why, size_t n)
{
    const bool came = listen_to(k);
    *n_free = k->page->last.word.n_free;
    if (!came) snprintf(why, n, "%s", k->page->last.word.text);
    return came;
}

void ts_keeper_stop(ts_keeper **at)
{
    ts_keeper *k = *at;
    if (!k) return;
    if (k->pid > 0) {
        kill(k->pid, SIGKILL);
        while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR) {}
    }
    if (k->fd > 0) close(k->fd);
    munmap(k->page, sizeof *k->page);
    free(k);
    *at = NULL;
}

static void hear(ts_keeper *k, bool sent, int slot, ts_kept_word *w)
{
    if (sent && listen_to(k)) {
        *w = k->page->last.word;
        const int buf = k->page->last.buf;
        if (w->flaw.fault) w->flaw.what = buf < 0 ? "workspace" : k->slots[slot]->buf[buf].b.name;
        return;
    }
    *w = (ts_kept_word) { 0 };
    snprintf(w->text, sizeof w->text, "%.150s",
             *k->page->last.word.text ? k->page->last.word.text : "the device does not respond");
}

static void send_order(ts_keeper *k, ts_order_kept o, ts_kept_word *w)
{
    hear(k, write(k->fd, &o, sizeof o) == (ssize_t)sizeof o, o.slot, w);
}

void ts_keeper_lay(ts_keeper *k, int slot, unsigned how, size_t n_workspace, ts_kept_word *w)
{
    send_order(k, (ts_order_kept) { TS_KEEP_LAY, slot, how, n_workspace }, w);
}

void ts_keeper_go(ts_keeper *k)
{
    __atomic_store_n(&k->page->go, k->page->laid, __ATOMIC_RELEASE);
}

void ts_keeper_done(ts_keeper *k, ts_kept_word *w)
{
    __atomic_store_n(&k->page->done, k->page->laid, __ATOMIC_RELEASE);
    hear(k, true, 0, w);
}

void ts_keeper_weigh(ts_keeper *k, ts_kept_word *w)
{
    send_order(k, (ts_order_kept) { .verb = TS_KEEP_WEIGH }, w);
}

void ts_keeper_fetch(ts_keeper *k, int slot, size_t n_workspace, ts_kept_word *w)
{
    send_order(k, (ts_order_kept) { TS_KEEP_FETCH, slot, 0, n_workspace }, w);
}

void ts_keeper_survey(ts_survey *out)
{
    ts_survey *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *out = (ts_survey) { .text = "out of memory" };
    if (s == MAP_FAILED) return;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) ts_keep_survey(s);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
    *out = *s;
    if (!out->there && !*out->text) snprintf(out->text, sizeof out->text, "no CUDA device");
    munmap(s, sizeof *s);
}
