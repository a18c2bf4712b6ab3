/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - `touchstone report LOG`: a log's tables on the terminal, its page, its site. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "derive.h"
#include "page.h"
#include "prompt.h"
#include "site.h"
#include "tool.h"

static int complain(const char *what, const char *why)
{
    fprintf(stderr, "touchstone report: %s: %s\n", what, why);
    return TS_EXIT_BROKEN;
}

/* Writes a temporary file and renames it, so that no reader sees half a page. */
static int write_page(const ts_records *r, const ts_board *b, const char *dir)
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

static void to_json(ts_json *j, const ts_records *r, size_t n_log, const ts_board *b)
{
    ts_json_int(j, "records", (int64_t)n_log);
    ts_json_text(j, "last", r->last);
    ts_json_bool(j, "ended", b->ended);
    ts_json *list = ts_json_array(j, "entrants");
    for (size_t i = 0; j && i < b->n_overall; i++) {
        const ts_entrant_overall *c = &b->overall[i];
        ts_json                  *o = ts_json_object(list, NULL);
        ts_json_text(o, "name", b->row[c->first].name);
        ts_json_text(o, "class", c->klass);
        ts_json_int(o, "passed", c->passed);
        ts_json_int(o, "entered", c->entered);
        ts_json_number(o, "S", c->S);
        ts_json_number(o, "score", c->score);
        ts_json_text(o, "grade", c->grade);
        ts_json_int(o, "answers", c->samples.n);
        ts_json_number(o, "pass_at_1", c->samples.pass_1);
        ts_json_int(o, "k", c->samples.k);
        ts_json_number(o, "pass_at_k", c->samples.pass_k);
        ts_json_number(o, "best", c->samples.best);
        ts_json_number(o, "median", c->samples.median);
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

static int report(const ts_records *r, size_t n_log, const ts_board *b, const char *out,
                  const char *site, const char *json)
{
    ts_json *j;
    if (!ts_json_open(json, &j)) return TS_EXIT_BROKEN;
    to_json(j, r, n_log, b);
    if (!json || strcmp(json, "-")) ts_board_print(b, stdout);
    int status = out ? write_page(r, b, out) : TS_EXIT_PASSED;
    if (out && !status && (!json || strcmp(json, "-"))) printf("\npage: %s/index.html\n", out);
    if (site && !status) status = write_site(r, b, site, json && !strcmp(json, "-"));
    return ts_json_close(json, j) ? status : TS_EXIT_BROKEN;
}

int ts_tool_report(int argc, char **argv)
{
    const char     *log = NULL, *out = NULL, *site = NULL, *json = NULL, *seed = NULL;
    char            why[TS_WHY];
    int             status;
    ts_records      r;
    ts_board        b = { 0 };
    const ts_option options[] = {
        { "--out", "DIR", "write the page to DIR/index.html", &out },
        { "--site", "DIR", "write a folder of pages: the board, one per entrant and per challenge",
          &site },
        { "--json", "FILE|-", "write the scoreboard as JSON", &json },
        { "--seed", "N", "accepted for uniformity; a report draws nothing", &seed },
        { 0 },
    };
    if (!ts_options(argc, argv, "report LOG [--out DIR] [--site DIR]", options, &log, &status))
        return status;
    uint64_t ignored;
    if (seed && !ts_parse_u64("--seed", seed, &ignored)) return TS_EXIT_USAGE;
    if (!log) {
        fprintf(stderr, "touchstone report: got no log, expected LOG; try --help\n");
        return TS_EXIT_USAGE;
    }
    if (!ts_records_read(log, &r, why)) return complain(log, why);
    if (r.n_torn)
        fprintf(stderr, "touchstone report: %s: line %zu is incomplete and was skipped\n", log,
                r.n + 1);
    const size_t n = r.n;
    snprintf(why, sizeof why, "out of memory");
    status = ts_derive_into_records(&r) && ts_board_make(&r, &b, why)
                 ? report(&r, n, &b, out, site, json)
                 : complain(log, why);
    ts_board_free(&b);
    ts_records_free(&r);
    return status;
}
