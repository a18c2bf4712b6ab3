/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.c - prepares cases on all cores while no entrant runs. */
#define _GNU_SOURCE
#include "ahead.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cores.h"

/* ---- prepared cases ---- */

/* Memory limit for prepared cases: an eighth of the machine's, and at most this. */
static const double MOST_BYTES = 8e9;

enum { MOST_AHEAD = 64 };

/* The memory of one case, which later ones reuse: new pages cost more than drawing the inputs. */
typedef struct room {
    bool     open;
    ts_arena arena;
    ts_want *want;
    size_t   n_want; /* capacity */
    ts_exam  exam;
} room;

struct ts_ahead {
    const ts_task *task;
    int            n;
    ts_question   *q;
    int            first, end; /* range of prepared cases */
    room           room[MOST_AHEAD];
};

ts_ahead *ts_ahead_open(const ts_task *t, const ts_question *q, int n)
{
    ts_ahead *a = calloc(1, sizeof *a);
    if (!a) abort();
    *a = (ts_ahead) { .task = t, .n = n };
    a->q = calloc((size_t)n + 1, sizeof *a->q);
    if (!a->q) abort();
    if (n) memcpy(a->q, q, (size_t)n * sizeof *q);
    return a;
}

void ts_ahead_close(ts_ahead **at)
{
    if (!*at) return;
    for (room *r = (*at)->room; r < (*at)->room + MOST_AHEAD && r->open; r++) {
        free(r->exam.args);
        free(r->want);
        r->arena.keep = false;
        ts_arena_close(&r->arena);
    }
    free((*at)->q);
    free(*at);
    *at = NULL;
}

static double bytes_of(const ts_ahead *a, int i)
{
    const ts_case *c = a->q[i].c;
    return a->task->cost(c).bytes + (double)(a->task->n_want(c) * sizeof(ts_want));
}

/* How many to prepare from `first` on; a multiple of the number of cores if there are more. */
static int how_many(const ts_ahead *a, int first)
{
    const int    all = ts_cores_count();
    const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)ts_page() / 8;
    const double most = have < MOST_BYTES ? have : MOST_BYTES;
    double       taken = 0;
    int          n = 0;
    while (first + n < a->n && n < MOST_AHEAD) {
        taken += bytes_of(a, first + n);
        if (taken > most && n) break;
        n++;
    }
    if (n > all && first + n < a->n) n -= n % all;
    return n;
}

static void make(int i, void *of)
{
    const ts_ahead    *a = of;
    const ts_question *q = &a->q[a->first + i];
    const ts_task     *t = a->task;
    room              *r = &((ts_ahead *)of)->room[i];
    const size_t       n = t->n_want(q->c) + 1;
    if (n > r->n_want) {
        free(r->want);
        if (!(r->want = malloc(n * sizeof *r->want))) abort();
        r->n_want = n;
    }
    memset(r->want, 0, n * sizeof *r->want);
    memset(r->exam.args, 0, t->args_bytes);
    r->exam.task = t, r->exam.c = q->c, r->exam.seed = q->seed;
    r->exam.arena = &r->arena, r->exam.want = r->want;
    ts_arena_setup(&r->arena, t, q->c, q->seed, r->exam.args);
    t->oracle(q->c, r->exam.args, r->want);
}

static void prepare(ts_ahead *a, room *r)
{
    if (r->open) return;
    if (!ts_arena_open(&r->arena) || !(r->exam.args = calloc(1, a->task->args_bytes))) abort();
    r->open = r->arena.keep = true;
}

const ts_exam *ts_ahead_at(ts_ahead *a, int i)
{
    if (i >= a->end) {
        a->first = i;
        a->end = a->first + how_many(a, a->first);
        for (int k = 0; k < a->end - a->first; k++) prepare(a, &a->room[k]);
        ts_on_all_cores(a->end - a->first, make, a);
    }
    return &a->room[i - a->first].exam;
}
