/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - touchstone-mutants: finds the mutant that an entrant's wrong outputs agree with.
 *
 * The judge starts it after an entrant has failed (judge/run/words.c). Mutants crash, hang and
 * write past buffers, so each runs in a worker of its own. The reply is a sentence, of the outputs
 * that are wrong if no mutant agrees; no verdict depends on it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "agree.h"
#include "challenges.h"
#include "clock.h"
#include "examine.h"
#include "mutant.h"
#include "mutants.h"

enum { MOST_MUTANTS = 1024, ORDER_LIMIT_MS = 1500, TRIED = 3 };

static double end_s; /* by the monotonic clock: a reply is due before the judge stops waiting */

#define DECLARE(name) extern const ts_mutant ts_##name##_mutants[];
TS_CHALLENGES(DECLARE, DECLARE)
#define LIST(name) ts_##name##_mutants,
static const ts_mutant *const lists[] = { TS_CHALLENGES(LIST, LIST) };

typedef struct suspect {
    const ts_mutant *m;
    ts_function      function;
    ts_worker       *worker;
    int64_t          tile;   /* keys of a tile, in attention */
    unsigned         agrees; /* bit mask of cases */
    int              n, n_other;
    bool             out;
} suspect;

static suspect suspects[MOST_MUTANTS];
static suspect control;

static suspect suspect_of(const ts_mutant *m)
{
    return (suspect) { .m = m,
                       .tile = ts_mutant_tile,
                       .function = { .name = m->name,
                                     .device = TS_CPU,
                                     .dtypes = ~0u,
                                     .mask = ~0u,
                                     .run = m->run,
                                     .workspace = m->workspace,
                                     .one_thread = true } };
}

/* Whether what it gives depends on the size of its tiles: its running state is wrong. */
static bool is_tiled(const ts_mutant *m)
{
    return !strcmp(m->task, "flash_attention") &&
           (strstr(m->name, "rescale") || strstr(m->name, "tile") || strstr(m->name, "in_loop"));
}

/* The task's mutants on the CPU that give a wrong output, and its control. */
static int gather(const char *task)
{
    static const int64_t tiles[] = { 1, 32, 64, 128 }; /* usual ones; mutants have others */
    int                  n = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const ts_mutant *m = lists[i]; m->name; m++) {
            if (strcmp(m->task, task) || m->device != TS_CPU) continue;
            if (m->fault == TS_FAULT_NONE && !control.m) control = suspect_of(m);
            if (m->fault != TS_FAULT_VALUE && m->fault != TS_FAULT_UNWRITTEN) continue;
            if (n < MOST_MUTANTS) suspects[n++] = suspect_of(m);
            for (size_t k = 0; k < sizeof tiles / sizeof *tiles && is_tiled(m); k++) {
                if (n == MOST_MUTANTS) break;
                suspects[n] = suspect_of(m);
                suspects[n++].tile = tiles[k];
            }
        }
    return n;
}

/* Runs it on the case once; its output is then in the arena. False: it does not come so far. */
static bool runs(suspect *q, const ts_exam *e)
{
    const ts_verb verbs[] = { TS_LOAD, TS_RUN, TS_STORE, TS_DROP };
    ts_status     status = TS_OK;
    ts_mutant_tile = q->tile; /* the worker is a copy of this process */
    if (!q->worker) q->worker = ts_worker_start(&q->function, e->arena);
    ts_arena_reset(e->arena);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        ts_reply       r;
        const ts_order o = { verbs[i], e->task, 1, TS_SOUND, 0, ORDER_LIMIT_MS };
        if (!ts_worker_order(q->worker, o, &r) || r.broken || r.flaw.fault) return false;
        if (!status) status = r.status;
    }
    return !status;
}

static bool is_wrong(const ts_exam *e)
{
    ts_flaw   f = { 0 };
    ts_errors errors = { 0 };
    return !e->task->check(e->c, e->args, e->want, &f, &errors);
}

/* One whose output is wrong in another way than the entrant's is no candidate any more, and neither
 * is one that is right in several cases in which the entrant is wrong. */
static void drop(suspect *q)
{
    q->out = true;
    ts_worker_stop(&q->worker);
}

static void compare(const ts_exam *e, int at, int n, const unsigned char *entrant,
                    unsigned char *correct, unsigned char *mutant)
{
    if (!runs(&control, e) || is_wrong(e)) return;
    ts_packed(e->arena, correct);
    ts_outputs_add(e->arena, entrant, correct);
    for (int i = 0; i < n; i++) {
        suspect *q = &suspects[i];
        if (q->out || ts_seconds() > end_s) continue;
        const bool ran = runs(q, e), wrong = ran && is_wrong(e);
        if (wrong) ts_packed(e->arena, mutant);
        const ts_agreement is =
            wrong ? ts_agree(e->arena, entrant, mutant, correct) : TS_AGREES_WITH_BOTH;
        if (wrong && is == TS_AGREES) {
            q->agrees |= 1u << at;
            q->n++;
        } else if ((is == TS_DISAGREES && !q->n) || q->n_other++ >= TRIED) drop(q);
    }
}

/* The question, all of it: a worker that exits would set the position of a shared file back. */
static unsigned char *question;
static size_t         n_question, n_taken;

static bool read_question(void)
{
    struct stat is;
    if (fstat(0, &is) || is.st_size <= 0) return false;
    n_question = (size_t)is.st_size;
    question = mmap(NULL, n_question, PROT_READ, MAP_PRIVATE, 0, 0);
    return question != MAP_FAILED;
}

static bool take(void *to, size_t n)
{
    if (n > n_question - n_taken) return false;
    memcpy(to, question + n_taken, n);
    n_taken += n;
    return true;
}

/* One case of the question. False: it is malformed, or too large. */
static bool examine(const ts_task *t, int at, int n, ts_arena *m)
{
    ts_words_case w;
    ts_exam       e;
    if (!take(&w, sizeof w) || w.n_bytes > (64u << 20)) return false;
    w.family[sizeof w.family - 1] = 0;
    ts_case c = { .use = (unsigned)w.use, .dtype = (ts_dtype)w.dtype, .family = w.family };
    memcpy(c.dim, w.dim, sizeof c.dim);
    unsigned char *bytes = calloc(3, w.n_bytes + 1);
    if (!bytes) return false;
    bool ok = take(bytes, w.n_bytes);
    if (ok) {
        ts_exam_open(&e, t, &c, w.seed, m);
        ok = ts_packed(m, NULL) == w.n_bytes;
        if (ok) compare(&e, at, n, bytes, bytes + w.n_bytes, bytes + 2 * w.n_bytes);
        ts_exam_close(&e);
    }
    free(bytes);
    return ok;
}

int main(void)
{
    ts_words_question q;
    ts_arena          m;
    const suspect    *best = NULL;
    char              sentence[160];
    end_s = ts_seconds() + 0.75 * TS_WORDS_LIMIT_S;
    if (!read_question() || !take(&q, sizeof q) || q.n < 1 || q.n > TS_WORDS_CASES) return 2;
    q.task[sizeof q.task - 1] = 0;
    const ts_task *t = ts_task_called(q.task);
    if (!t || !ts_arena_open(&m)) return 2;
    const int n = gather(t->name);
    if (!n || !control.m) return 0;
    for (int i = 0; i < q.n; i++)
        if (!examine(t, i, n, &m)) return 2;
    for (int i = 0; i < n; i++) {
        if (suspects[i].n && (!best || suspects[i].n > best->n)) best = &suspects[i];
        ts_worker_stop(&suspects[i].worker);
    }
    ts_worker_stop(&control.worker);
    if (best && 4 * best->n >= q.n) { /* in fewer cases it is not said */
        ts_sentence(t->name, best->m->name, sentence, sizeof sentence);
        printf("%x %s\n", best->agrees, sentence);
    } else if (ts_outputs_say(sentence, sizeof sentence)) printf("0 %s\n", sentence);
    return 0;
}
