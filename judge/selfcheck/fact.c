/* SPDX-License-Identifier: Apache-2.0 */
/* fact.c - runs the trials of a device's guarantees, each with a time limit. */
#define _GNU_SOURCE
#include "selfcheck.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cage_inside.h"
#include "fact_inside.h"

enum { LIMIT_MS = 10000 };

static const struct {
    ts_trial_fn *run;
    const char  *name[2]; /* names of its guarantees */
} trials[] = {
    { ts_trial_guards, { "device-guards", "device-shared" } },
    { ts_trial_kill, { "device-kill", "device-busy" } },
    { ts_trial_head_start, { "device-head-start", NULL } },
    { ts_trial_clock, { "device-clock", NULL } },
    { ts_trial_l2, { "device-l2", NULL } },
    { ts_trial_cubin, { "device-cubin", NULL } },
};

static void add(ts_guarantees *g, const ts_guarantee *what)
{
    if (g->n == (int)(sizeof g->g / sizeof *g->g)) abort();
    g->g[g->n++] = *what;
}

/* False if it had to be killed. */
static bool await(pid_t pid)
{
    const double begin = ts_now_ns();
    pid_t        got = 0;
    while ((got = waitpid(pid, NULL, WNOHANG)) != pid && ts_now_ns() - begin < LIMIT_MS * 1e6)
        usleep(2000);
    if (got == pid) return true;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
    return false;
}

/* Resets the judge's fault handlers: a fault must end the trial's process. */
_Noreturn static void run(int i, ts_fact_page *page)
{
    static const int    faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
    const struct rlimit none = { 0, 0 };
    ts_trial            t = { .page = page };
    if (prctl(PR_SET_PDEATHSIG, SIGKILL)) _exit(1);
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) signal(faults[k], SIG_DFL);
    setrlimit(RLIMIT_CORE, &none);
    trials[i].run(&t);
    _exit(0);
}

static void try(int i, ts_fact_page *page, ts_guarantees *g)
{
    *page = (ts_fact_page) { 0 };
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) run(i, page);
    const char *why = pid > 0 && await(pid) ? "the test process crashed" : "the test timed out";
    if (*page->broken) why = page->broken;
    for (int k = 0; k < 2 && trials[i].name[k]; k++) {
        ts_guarantee fact = { .name = trials[i].name[k], .needed = true };
        if (k < page->n) fact = page->said[k];
        else snprintf(fact.text, sizeof fact.text, "not determined: %.160s", why);
        const size_t n = strlen(fact.text);
        if (k < page->n && !fact.held && *page->broken)
            snprintf(fact.text + n, sizeof fact.text - n, " (%s)", why);
        add(g, &fact);
    }
}

/* CUDA's tools may not be on the PATH. */
static void look_for_sanitizer(ts_guarantees *g)
{
    ts_guarantee s = { .name = "device-sanitizer" };
    const char  *path = getenv("PATH");
    char         place[4096] = "/usr/local/cuda/bin/compute-sanitizer";
    s.held = !access(place, X_OK);
    for (; path && *path && !s.held; path += strcspn(path, ":"), path += *path == ':') {
        snprintf(place, sizeof place, "%.*s/compute-sanitizer", (int)strcspn(path, ":"), path);
        s.held = !access(place, X_OK);
    }
    snprintf(s.text, sizeof s.text, "compute-sanitizer %s%.200s", s.held ? "is " : "not found",
             s.held ? place : "");
    add(g, &s);
}

void ts_fact_all(ts_guarantees *g)
{
    ts_fact_page *page =
        mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) abort();
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) try((int)i, page, g);
    munmap(page, sizeof *page);
    look_for_sanitizer(g);
    for (int i = 0; i < g->n; i++)
        if (g->g[i].needed && !g->g[i].held && !strcmp(g->badge, "full")) g->badge = "reduced";
}
