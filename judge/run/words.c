/* SPDX-License-Identifier: Apache-2.0 */
/* words.c - keeps wrong outputs of an entrant, and asks touchstone-mutants which known bug gives
 * the same ones.
 *
 * That program is ours and gets numbers alone; it runs each mutant in a worker. Its reply is text
 * for readers. */
#define _GNU_SOURCE
#include "words.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "hear.h"
#include "limit.h"
#include "mutants.h"
#include "packed.h"
#include "show.h"

enum { MOST_BYTES = 1 << 18, MOST_ALIKE = 2, MOST_NARROW = 3, MUTANTS_GIB = 2 };

typedef struct kept {
    const ts_case *c;
    uint64_t       seed;
    int            kind; /* of failure */
    unsigned char *bytes;
    size_t         n;
} kept;

struct ts_words {
    int              n_kept, n_results;
    kept             kept[TS_WORDS_CASES];
    ts_words_result *result;
};

static ts_words *of(ts_judged *e)
{
    if (!e->words && !(e->words = calloc(1, sizeof *e->words))) abort();
    return e->words;
}

/* The kind of the failure that was observed last, in the case that is running (1) or ended (0); -1:
 * too many kinds. */
static int last_kind(const ts_evidence *v, int running)
{
    int at = -1;
    for (int i = 0; i < v->n_kinds; i++)
        if (v->kind[i].last == v->n_run + running && !strcmp(v->kind[i].first.reason, v->last))
            at = i;
    return at;
}

void ts_words_note(ts_judged *e, const ts_case *c, bool passed)
{
    ts_words *w = of(e);
    if (!w->result && !(w->result = calloc((size_t)e->evidence.n_drawn + 1, sizeof *w->result)))
        abort();
    if (w->n_results < e->evidence.n_drawn)
        w->result[w->n_results++] =
            (ts_words_result) { c, passed, passed ? -1 : last_kind(&e->evidence, 0) };
}

void ts_words_free(ts_judged *e)
{
    if (!e->words) return;
    for (int i = 0; i < e->words->n_kept; i++) free(e->words->kept[i].bytes);
    free(e->words->result);
    free(e->words);
    e->words = NULL;
}

/* Of few families each, so that one that is degenerate does not decide; and mostly wide dtypes,
 * whose rounding hides least. */
void ts_words_keep(ts_judged *e, const ts_arena *m, const ts_exam *x)
{
    ts_words    *w = of(e);
    const size_t n = ts_packed(m, NULL);
    const bool   narrow = ts_wide(x->c->dtype) != x->c->dtype;
    int          alike = 0, n_narrow = 0;
    if (strcmp(e->evidence.last, "value") && strcmp(e->evidence.last, "unwritten")) return;
    if (w->n_kept == TS_WORDS_CASES || !n || n > MOST_BYTES) return;
    if (e->task->cost(x->c).bytes > 8 * MOST_BYTES) return;
    for (int i = 0; i < w->n_kept; i++) {
        alike += !strcmp(w->kept[i].c->family, x->c->family);
        n_narrow += ts_wide(w->kept[i].c->dtype) != w->kept[i].c->dtype;
    }
    if (alike >= MOST_ALIKE || (narrow && n_narrow >= MOST_NARROW)) return;
    kept *k = &w->kept[w->n_kept++];
    *k = (kept) { x->c, x->seed, last_kind(&e->evidence, 1), malloc(n), n };
    if (!k->bytes) abort();
    ts_packed(m, k->bytes);
}

/* ---- the other process ---- */

static bool put(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    ssize_t     done;
    for (; n; p += done, n -= (size_t)done)
        if ((done = write(fd, p, n)) <= 0) return false;
    return true;
}

/* A file in memory, complete before the process starts. */
static int question_of(const ts_judged *e)
{
    const ts_words   *w = e->words;
    ts_words_question q = { .n = w->n_kept };
    const int         fd = memfd_create("question", MFD_CLOEXEC);
    snprintf(q.task, sizeof q.task, "%s", e->task->name);
    bool ok = fd >= 0 && put(fd, &q, sizeof q);
    for (const kept *k = w->kept; ok && k < w->kept + w->n_kept; k++) {
        ts_words_case c = { .dtype = (int32_t)k->c->dtype,
                            .use = (int32_t)k->c->use,
                            .seed = k->seed,
                            .n_bytes = k->n };
        memcpy(c.dim, k->c->dim, sizeof c.dim);
        snprintf(c.family, sizeof c.family, "%s", k->c->family);
        ok = put(fd, &c, sizeof c) && put(fd, k->bytes, k->n);
    }
    if (ok && !lseek(fd, 0, SEEK_SET)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

_Noreturn static void become(const char *path, int in, int out)
{
    char *const argv[] = { (char[]) { "touchstone-mutants" }, NULL }, *const env[] = { NULL };
    const bool ok = !prctl(PR_SET_PDEATHSIG, SIGKILL) &&
                    ts_limit(RLIMIT_CPU, (rlim_t)TS_WORDS_LIMIT_S + 1) &&
                    ts_limit(RLIMIT_DATA, (rlim_t)MUTANTS_GIB << 30) && ts_limit(RLIMIT_CORE, 0) &&
                    dup2(open("/dev/null", O_WRONLY), 2) == 2 && dup2(in, 0) == 0 &&
                    dup2(out, 1) == 1 && !syscall(SYS_close_range, 3u, ~0u, 0u);
    if (ok) execve(path, argv, env);
    _exit(126);
}

/* Its reply, 0-terminated; "" if there is none, for whatever reason. */
static void ask(const ts_judged *e, char *reply, size_t n)
{
    char   path[4096];
    size_t got = 0;
    int    out[2], in, status;
    *reply = 0;
    if (!ts_beside("touchstone-mutants", path, sizeof path) || (in = question_of(e)) < 0) return;
    if (!pipe2(out, O_CLOEXEC)) {
        const double end_s = ts_seconds() + TS_WORDS_LIMIT_S;
        const pid_t  pid = fork();
        if (pid == 0) become(path, in, out[1]);
        close(out[1]);
        const bool in_time = pid > 0 && ts_hear(out[0], end_s, false, reply, n - 1, &got);
        reply[in_time ? got : 0] = 0;
        if (pid > 0) kill(pid, SIGKILL); /* its workers die with it */
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
        close(out[0]);
    }
    close(in);
}

/* "1f without the causal mask": of the kinds of failure in which such a case is. False: no mutant
 * agrees; *outputs says which of them are wrong, or is "". */
static bool by_mutants(ts_judged *e, char outputs[TS_WORDS])
{
    char reply[512], line[TS_WORDS], *rest;
    ask(e, reply, sizeof reply);
    reply[strcspn(reply, "\n")] = 0;
    const unsigned long agrees = strtoul(reply, &rest, 16);
    if (*rest != ' ') return false;
    if (!agrees) return ts_show(rest + 1, strlen(rest + 1), outputs, TS_WORDS), false;
    snprintf(line, sizeof line, "behaves like a kernel %.120s", rest + 1);
    for (int i = 0; i < e->words->n_kept; i++) {
        const int kind = e->words->kept[i].kind;
        if (agrees >> i & 1 && kind >= 0)
            ts_show(line, strlen(line), e->evidence.kind[kind].words, TS_WORDS);
    }
    return true;
}

/* What the cases that failed in that way have in common; in any way if kind is -1. */
static void apart(const ts_judged *e, int kind, char text[TS_WORDS])
{
    const ts_words  *w = e->words;
    ts_words_result *some = calloc((size_t)w->n_results + 1, sizeof *some);
    int              n = 0;
    if (!some) abort();
    for (const ts_words_result *r = w->result; r < w->result + w->n_results; r++)
        if (r->passed || kind < 0 || r->kind == kind) some[n++] = *r;
    ts_words_apart(e->task, some, n, kind < 0, text, TS_WORDS);
    free(some);
}

void ts_words_find(ts_judged *e, bool mutants)
{
    ts_evidence *v = &e->evidence;
    if (!e->words) return;
    char       outputs[TS_WORDS] = "";
    const bool named = mutants && e->words->n_kept && by_mutants(e, outputs);
    for (int i = 0; i < v->n_kinds; i++) {
        ts_failures *k = &v->kind[i];
        if (!*k->words) apart(e, i, k->words);
        const bool is_value =
            !strcmp(k->first.reason, "value") || !strcmp(k->first.reason, "unwritten");
        /* With a size of 1 many a bug has no effect: which outputs are wrong says more. */
        const bool any_size = !strncmp(k->words, TS_WORDS_MANY, strlen(TS_WORDS_MANY));
        if ((!*k->words || any_size) && is_value && *outputs) memcpy(k->words, outputs, TS_WORDS);
        if (!*k->words && !named) apart(e, -1, k->words);
    }
}
