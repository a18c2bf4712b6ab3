/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - prints the status line. */
#define _GNU_SOURCE
#include "progress.h"
#include "clock.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

static const double EVERY_S = 0.1;

double ts_work_of(const ts_task *t, const ts_case *c)
{
    const ts_cost cost = t->cost(c);
    return 1e-3 + 5e-9 * cost.bytes + 1e-9 * cost.flops;
}

static bool on_terminal(const ts_progress *p)
{
    return p->to && isatty(fileno(p->to));
}

static void show(ts_progress *p)
{
    const double now = ts_seconds();
    if (!on_terminal(p) || now - p->shown < EVERY_S) return;
    p->shown = now;
    fprintf(p->to, "\r\033[K%s", p->stage);
    /* Too little is done to estimate a rate. */
    if (p->done > 0.02 * p->all && now - p->begun > 1)
        fprintf(p->to, "; %.0f s left", (now - p->begun) * (p->all / p->done - 1));
    fflush(p->to);
}

void ts_progress_begin(ts_progress *p, double all)
{
    p->all = all;
    p->begun = ts_seconds();
}

void ts_progress_stage(ts_progress *p, const char *what, const char *who, const char *where)
{
    snprintf(p->stage, sizeof p->stage, "%s %.24s%s%.24s", what, who, *who ? ", " : "", where);
    p->shown = 0;
    show(p);
}

void ts_progress_reach(ts_progress *p, double done)
{
    if (done > p->done) p->done = done < p->all ? done : p->all;
    show(p);
}

void ts_progress_clear(ts_progress *p)
{
    if (!on_terminal(p) || !p->shown) return;
    fprintf(p->to, "\r\033[K");
    fflush(p->to);
    p->shown = 0;
}

void ts_progress_verdict(ts_progress *p, const char *who, const char *sample, const char *where,
                         const char *ruling, const char *reason, const ts_evidence *v)
{
    const bool several = sample && *sample;
    const int  n_drawn = v->n_drawn - v->n_unsupported;
    char       name[64], cases[80] = "";
    if (v->n_run)
        snprintf(cases, sizeof cases, "%s%d/%d cases", *reason ? " " : "", v->n_passed, v->n_run);
    if (v->n_run && v->n_run < n_drawn)
        snprintf(cases + strlen(cases), sizeof cases - strlen(cases), " of %d", n_drawn);
    snprintf(name, sizeof name, "%.20s%s%.20s", who, several ? "/" : "", several ? sample : "");
    ts_progress_clear(p);
    if (p->to) fprintf(p->to, "%-20s %-20.20s %s %s%s\n", name, where, ruling, reason, cases);
}
