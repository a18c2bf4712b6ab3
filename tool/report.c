/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - `touchstone report LOG...`: the tables of one or several logs on the terminal, their
 * page, their site. */
#define _GNU_SOURCE
#include <errno.h>
#include <fts.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "merge.h"
#include "page.h"
#include "prompt.h"
#include "site.h"
#include "tool.h"

typedef struct logs {
    ts_merge *merge;
    int       n;
    size_t    n_records;
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

static int write_site(const ts_records *r, const ts_board *b, const char *dir, bool quiet)
{
    char why[TS_WHY];
    int  n;
    if (!ts_site_write(r, b, ts_prompts_of, dir, &n, why)) return complain(dir, why);
    if (!quiet) printf("\nsite: %d pages, %s/index.html\n", n, dir);
    return TS_EXIT_PASSED;
}

static int report(const ts_records *r, const logs *l, ts_board *b, const char *out,
                  const char *site, const char *json)
{
    ts_json *j;
    if (!ts_json_open(json, &j)) return TS_EXIT_BROKEN;
    to_json(j, r, l->n_records, l->n, b);
    b->program = program_invocation_name;
    if (!json || strcmp(json, "-")) ts_board_print(b, stdout);
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
    ts_records r;
    if (!ts_records_read(path, &r, why)) return complain(path, why), false;
    if (r.n_torn) ts_fail("%s: line %zu is incomplete and was skipped", path, r.n + 1);
    l->n_records += r.n;
    l->n++;
    const bool ok = ts_merge_add(l->merge, &r, why);
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

int ts_tool_report(int argc, char **argv)
{
    enum { MOST = 4096 };
    static const char *given[MOST + 1];
    const char        *out = NULL, *site = NULL, *json = NULL;
    uint64_t           seed;
    char               why[TS_WHY];
    int                status;
    ts_records         r;
    ts_board           b = { 0 };
    const ts_option    options[] = {
           { "--out", "DIR", NULL, "write the page to DIR/index.html", .text = &out },
           { "--site", "DIR", NULL,
             "write a folder of pages: the board, one per entrant and per challenge", .text = &site },
           { "--json", "FILE|-", NULL, "write the scoreboard as JSON", .text = &json },
           { "--seed", "N", NULL, "accepted for uniformity; a report draws nothing", .seed = &seed },
           { 0 },
    };
    const char *usage =
        "report LOG... [--out DIR] [--site DIR]\n\nLOG is a log of `touchstone "
        "judge`, or a folder of files called *.log, at any depth.\nSeveral logs make one board; "
        "times are compared only if they were measured on like machines.";
    if (!ts_options(argc, argv, usage, options, given, MOST, &status)) return status;
    if (!given[0]) return ts_fail("got no log, expected LOG; try --help"), status;
    logs l = { .merge = ts_merge_begin() };
    bool ok = l.merge;
    for (int i = 0; given[i] && ok; i++) ok = add(&l, given[i]);
    if (!ok) return ts_merge_free(l.merge), TS_EXIT_BROKEN;
    const char *name = given[1] ? "logs" : given[0];
    if (!ts_merge_end(l.merge, &r, why)) return complain(name, why);
    status = ts_board_make(&r, &b, why) ? report(&r, &l, &b, out, site, json) : complain(name, why);
    ts_board_free(&b);
    ts_records_free(&r);
    return status;
}
