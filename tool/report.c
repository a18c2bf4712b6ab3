/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - `touchstone report LOG...`: the tables of one or several logs on the terminal, what
 * changed since another, their page, their site. */
#define _GNU_SOURCE
#include <errno.h>
#include <fts.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compare.h"
#include "merge.h"
#include "page.h"
#include "prompt.h"
#include "signature.h"
#include "site.h"
#include "tool.h"

typedef struct logs {
    ts_merge   *merge;
    int         n, n_trusted;
    size_t      n_records;
    const char *signers;
} logs;

static int complain(const char *what, const char *why)
{
    ts_fail("%s: %s", what, why);
    return TS_EXIT_BROKEN;
}

/* Writes a temporary file and renames it, so that no reader sees half a page. */
int ts_page_to(const ts_records *r, const ts_board *b, const char *dir)
{
    const size_t n = strlen(dir) + sizeof "/index.html.tmp";
    char        *path = malloc(n), *beside = malloc(n);
    int          status = TS_EXIT_BROKEN;
    FILE        *f = NULL;
    if (path && beside) {
        snprintf(path, n, "%s/index.html", dir);
        snprintf(beside, n, "%s/index.html.tmp", dir);
        errno = 0;
        if (!mkdir(dir, 0777) || errno == EEXIST) f = fopen(beside, "w");
    }
    bool ok = f && ts_page_write(r, b, f);
    ok = f && !fclose(f) && ok && !rename(beside, path);
    if (ok) status = TS_EXIT_PASSED;
    else complain(dir, errno ? strerror(errno) : "the page cannot be written");
    if (f && !ok) remove(beside);
    free(path);
    free(beside);
    return status;
}

static void to_json(ts_json *j, const ts_records *r, size_t n_log, int n_logs, const ts_board *b)
{
    ts_json_int(j, "records", (int64_t)n_log);
    ts_json_int(j, "logs", n_logs);
    if (n_logs == 1) ts_json_text(j, "last", r->last);
    if (*b->note) ts_json_text(j, "note", b->note);
    ts_json_bool(j, "ended", b->ended);
    ts_json *signatures = ts_json_array(j, "signatures");
    for (size_t i = 0; i < ts_jr_len(b->signatures); i++)
        ts_json_text(signatures, NULL, ts_jr_str(ts_jr_at(b->signatures, i)));
    ts_json *list = ts_json_array(j, "entrants");
    for (size_t i = 0; j && i < b->n_overall; i++) {
        const ts_entrant_overall *c = &b->overall[i];
        ts_json                  *o = ts_json_object(list, NULL);
        const bool timed = !c->passed || c->S > 0; /* a run with --no-timing has no scores: null */
        ts_json_text(o, "name", b->row[c->first].name);
        ts_json_text(o, "class", c->klass);
        ts_json_int(o, "passed", c->passed);
        ts_json_int(o, "entered", c->entered);
        ts_json_number(o, "S", timed ? c->S : (double)NAN);
        ts_json_number(o, "score", timed ? c->score : (double)NAN);
        ts_json_text(o, "grade", c->grade);
        ts_json_int(o, "answers", c->samples.n);
        ts_json_number(o, "pass_at_1", c->samples.pass_1);
        ts_json_int(o, "k", c->samples.k);
        ts_json_number(o, "pass_at_k", c->samples.pass_k);
        ts_json_number(o, "best", timed ? c->samples.best : (double)NAN);
        ts_json_number(o, "median", timed ? c->samples.median : (double)NAN);
    }
}

/* The records of `change`, without their type. */
static void changes_to_json(ts_json *j, const ts_memory *m)
{
    ts_json *list = m->n ? ts_json_array(j, "changes") : NULL;
    for (size_t i = 0; list && i < m->n; i++) {
        static const char *const keys[] = { "name", "author", "task", "kind" };
        const ts_jr_node        *v = m->at[i].root;
        if (!ts_record_is(&m->at[i], "change")) continue;
        ts_json *o = ts_json_object(list, NULL);
        for (int k = 0; k < 4; k++) ts_json_text(o, keys[k], ts_jr_text(v, keys[k], ""));
        for (int k = 0; k < 2; k++) {
            const ts_jr_node *side = ts_jr_get(v, k ? "now" : "was");
            ts_json          *s = side ? ts_json_object(o, k ? "now" : "was") : NULL;
            if (s) ts_json_text(s, "verdict", ts_jr_text(side, "verdict", ""));
            if (s) ts_json_number(s, "score", ts_jr_number(side, "score", (double)NAN));
        }
    }
}

static int write_site(const ts_records *r, const ts_board *b, const char *dir, bool quiet)
{
    char why[TS_WHY];
    int  n;
    if (!ts_site_write(r, b, ts_prompts_of, dir, &n, why)) return complain(dir, why);
    if (!quiet) printf("\nsite: %d pages, %s/index.html\n", n, dir);
    return TS_EXIT_PASSED;
}

static int report(const ts_records *r, const logs *l, ts_board *b, const ts_memory *changes,
                  const char *out, const char *site, const char *json)
{
    ts_json *j;
    if (!ts_json_open(json, &j)) return TS_EXIT_BROKEN;
    to_json(j, r, l->n_records, l->n, b);
    changes_to_json(j, changes);
    b->program = program_invocation_name;
    if (!json || strcmp(json, "-")) {
        ts_board_print(b, stdout);
        ts_compare_print(changes->at, changes->n, stdout);
    }
    b->program = NULL; /* not on a page that is published */
    int status = out ? ts_page_to(r, b, out) : TS_EXIT_PASSED;
    if (out && !status && (!json || strcmp(json, "-"))) printf("\npage: %s/index.html\n", out);
    if (site && !status) status = write_site(r, b, site, json && !strcmp(json, "-"));
    return ts_json_close(json, j) ? status : TS_EXIT_BROKEN;
}

/* ---- the logs ---- */

/* Adds a log; its records are copied, so that one log at a time is in memory. */
static bool add_log(logs *l, const char *path)
{
    char       why[TS_WHY];
    char       text[TS_SIGNED];
    bool       trusted;
    ts_records r;
    if (!ts_records_read(path, &r, why)) return complain(path, why), false;
    if (r.n_torn) ts_fail("%s: line %zu is incomplete and was skipped", path, r.n + 1);
    l->n_records += r.n;
    l->n++;
    const bool ok = ts_signed_by(&r, l->signers, text, &trusted, why) &&
                    ts_merge_add(l->merge, &r, why) && ts_merge_signed(l->merge, text);
    l->n_trusted += ok && trusted;
    if (ok && l->signers && !trusted) ts_fail("%s: %s", path, text);
    if (!ok) complain(path, why);
    ts_records_free(&r);
    return ok;
}

static bool is_log(const FTSENT *e)
{
    const size_t n = strlen(e->fts_name);
    return e->fts_info == FTS_F && n > 4 && !strcmp(e->fts_name + n - 4, ".log");
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Says how many shards of `judge --slurm` have no log yet. */
static void await_shards(logs *l, const char *dir)
{
    char  path[4200], task[64], klass[32];
    int   n = 0, missing = 0;
    FILE *f;
    snprintf(path, sizeof path, "%s/shards", dir);
    if (!(f = fopen(path, "r"))) return;
    for (; fscanf(f, "%63s %31s %*d", task, klass) == 2; n++) {
        snprintf(path, sizeof path, "%s/%s.%s.log", dir, task, klass);
        missing += access(path, F_OK) != 0;
    }
    fclose(f);
    if (!missing) return;
    ts_fail("%s: %d of %d shards have no log yet", dir, missing, n);
    ts_merge_await(l->merge);
}

/* A folder stands for the logs in it and below it. */
static bool add_folder(logs *l, const char *dir)
{
    char *path = strdup(dir), *const roots[] = { path, NULL };
    FTS      *walk = path ? fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name) : NULL;
    const int before = l->n;
    bool      ok = walk;
    for (FTSENT *e; ok && (e = fts_read(walk));)
        if (is_log(e)) ok = add_log(l, e->fts_path);
    if (!walk) complain(dir, strerror(errno));
    else fts_close(walk);
    free(path);
    if (ok && l->n == before) return complain(dir, "contains no file called *.log"), false;
    if (ok) await_shards(l, dir);
    return ok;
}

static bool add(logs *l, const char *path)
{
    struct stat is;
    return !stat(path, &is) && S_ISDIR(is.st_mode) ? add_folder(l, path) : add_log(l, path);
}

/* Reads logs into one list; false, and an error, if that cannot be. */
static bool read_logs(logs *l, const char *const *path, ts_records *r)
{
    char why[TS_WHY];
    l->merge = ts_merge_begin();
    bool ok = l->merge;
    for (int i = 0; path[i] && ok; i++) ok = add(l, path[i]);
    if (!ok) return ts_merge_free(l->merge), false;
    if (ts_merge_end(l->merge, r, why)) return true;
    return complain(path[1] ? "logs" : path[0], why), false;
}

/* Appends to the records what changed since the log `path`; `changes` keeps them. */
static bool compare(const char *path, const ts_board *now, ts_memory *changes, ts_records *r)
{
    const char *const one[] = { path, NULL };
    logs              l = { 0 };
    char              why[TS_WHY];
    ts_records        old;
    ts_board          was;
    if (!read_logs(&l, one, &old)) return false;
    bool ok = ts_board_make(&old, &was, why);
    if (!ok) complain(path, why);
    const char *name = strrchr(path, '/');
    if (ok) {
        ok = ts_compare(&was, now, name && name[1] ? name + 1 : path, changes);
        if (!ok) complain(path, "out of memory");
        ts_board_free(&was);
    }
    ts_records_free(&old);
    ts_record *more = ok ? realloc(r->at, (r->n + changes->n + 1) * sizeof *more) : NULL;
    if (ok && !more) complain(path, "out of memory");
    if (!more) return false;
    r->at = more;
    for (size_t i = 0; i < changes->n; i++) {
        r->at[r->n] = changes->at[i];
        r->at[r->n].doc = NULL; /* the memory is of `changes` */
        r->at[r->n++].own = NULL;
    }
    return true;
}

static int run(const char *const *given, const char *against, const char *signers, const char *out,
               const char *site, const char *json)
{
    char       why[TS_WHY];
    logs       l = { .signers = signers };
    ts_records r;
    ts_board   b = { 0 };
    ts_memory  changes = { 0 };
    if (!read_logs(&l, given, &r)) return TS_EXIT_BROKEN;
    int status = TS_EXIT_PASSED;
    if (!ts_board_make(&r, &b, why)) status = complain(given[1] ? "logs" : given[0], why);
    if (!status && against && !compare(against, &b, &changes, &r)) status = TS_EXIT_BROKEN;
    if (!status) status = report(&r, &l, &b, &changes, out, site, json);
    if (!status && signers && l.n_trusted < l.n) status = TS_EXIT_FAILED;
    ts_board_free(&b);
    ts_records_free(&r);
    ts_memory_free(&changes);
    return status;
}

int ts_tool_report(int argc, char **argv)
{
    enum { MOST = 4096 };
    static const char *given[MOST + 1];
    const char        *out = NULL, *site = NULL, *json = NULL, *against = NULL, *signers = NULL;
    uint64_t           seed;
    int                status;
    const ts_option    options[] = {
           { "--out", "DIR", NULL, "write the page to DIR/index.html", .text = &out },
           { "--site", "DIR", NULL,
             "write a folder of pages: the board, one per entrant and per challenge", .text = &site },
           { "--against", "LOG", NULL,
             "also show what changed since LOG, an earlier log or a folder of logs",
             .text = &against },
           { "--signers", "FILE", NULL,
             "require every log to be signed by a key in FILE (ssh-keygen's allowed signers)",
             .text = &signers },
           { "--json", "FILE|-", NULL, "write the scoreboard as JSON", .text = &json },
           { "--seed", "N", NULL, "accepted for uniformity; a report draws nothing", .seed = &seed },
           { 0 },
    };
    const char *usage =
        "report LOG... [--out DIR] [--site DIR] [--against LOG] [--signers FILE]\n\nLOG is a log "
        "of `touchstone "
        "judge`, or a folder of files called *.log, at any depth.\nSeveral logs make one board; "
        "times are compared only if they were measured on like machines.";
    if (!ts_options(argc, argv, usage, options, given, MOST, &status)) return status;
    if (!given[0]) return ts_fail("got no log, expected LOG; try --help"), status;
    return run(given, against, signers, out, site, json);
}
