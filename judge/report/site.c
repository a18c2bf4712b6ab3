/* SPDX-License-Identifier: Apache-2.0 */
/* site.c - every page is the one page of page.c, filled with the records that it is about. */
#define _GNU_SOURCE
#include "site.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "page.h"

/* The records of a page: those with these numbers, in order. */
typedef struct page {
    size_t *at, n;
} page;

/* What a page is about: an entrant, a challenge, or neither. */
typedef struct about {
    const ts_board  *b;
    ts_site_prompts *prompts;
    const char      *task;
    bool             one; /* only `overall` */
    size_t           overall;
} about;

/* Of the run: on every page. */
static bool is_common(const ts_record *r)
{
    return ts_record_is(r, "run") || ts_record_is(r, "merge") || ts_record_is(r, "end");
}

/* The place on the board of the entrant that a record is about; n_overall: of none, or of two. */
static size_t place_of(const ts_board *b, const ts_record *r)
{
    const bool one = !is_common(r) && !ts_record_is(r, "match") && !ts_record_is(r, "rank");
    const ts_entrant_row *row =
        one ? ts_board_row(b,
                           ts_jr_whole(r->root, ts_record_is(r, "entrant") ? "id" : "entrant", -1))
            : NULL;
    return row ? row->overall : b->n_overall;
}

/* For each entrant, its records and the common ones; [0].at owns all numbers. */
static page *pages_of_entrants(const ts_records *r, const ts_board *b)
{
    const size_t n = b->n_overall;
    page        *p = calloc(n + 1, sizeof *p);
    size_t      *place = calloc(r->n + 1, sizeof *place), n_common = 0, n_all = 1;
    for (size_t i = 0; i < r->n && p && place; i++) {
        n_common += is_common(&r->at[i]);
        place[i] = place_of(b, &r->at[i]);
        p[place[i]].n++;
    }
    for (size_t i = 0; i < n && p; i++) n_all += p[i].n + n_common;
    size_t *room = calloc(n_all, sizeof *room);
    if (!p || !place || !room) return free(p), free(place), free(room), NULL;
    for (size_t i = 0, from = 0; i < n; i++) {
        p[i].at = room + from;
        from += p[i].n + n_common;
        p[i].n = 0;
    }
    for (size_t i = 0; i < r->n; i++) {
        const bool common = is_common(&r->at[i]);
        for (size_t k = common ? 0 : place[i]; k < n; k = common ? k + 1 : n) p[k].at[p[k].n++] = i;
    }
    free(place);
    if (!n) p[0].at = room;
    return p;
}

/* The records of a challenge; task NULL: all but times, which are on the other pages. A source has
 * no task. */
static page page_of_task(const ts_records *r, const char *task)
{
    page p = { .at = calloc(r->n + 1, sizeof *p.at) };
    for (size_t i = 0; i < r->n && p.at; i++) {
        const ts_record *at = &r->at[i];
        if (task ? is_common(at) || !strcmp(ts_jr_text(at->root, "task", ""), task)
                 : !ts_record_is(at, "time"))
            p.at[p.n++] = i;
    }
    return p;
}

/* Letters, digits and ._- as they are; page/table.js makes the same of a name. */
static void slug(const char *name, char *text, size_t n)
{
    size_t k = 0;
    for (; *name && k + 1 < n && k < 60; name++)
        text[k++] =
            (isascii(*name) && isalnum((unsigned char)*name)) || strchr("._-", *name) ? *name : '-';
    text[k] = 0;
}

static void page_of(const ts_board *b, size_t overall, char *name, size_t n)
{
    char text[80];
    slug(b->row[b->overall[overall].first].name, text, sizeof text);
    snprintf(name, n, "entrant/%zu-%s.html", overall + 1, text);
}

/* What page/data.js reads: the kind of page, all challenges of the log, the challenge's prompts,
 * and all entrants; on an entrant's page only its place among them, since there are as many pages.
 */
static void describe(const about *a, ts_jw *w)
{
    const ts_board *b = a->b;
    ts_jw_open(w, NULL, '{');
    ts_jw_text(w, "kind", a->task ? "challenge" : a->one ? "entrant" : "index");
    ts_jw_open(w, "tasks", '[');
    for (size_t i = 0; i < b->n_tasks; i++) ts_jw_text(w, NULL, b->task[i]);
    ts_jw_close(w, ']');
    ts_jw_int(w, "of", (int64_t)b->n_overall);
    if (a->one) ts_jw_int(w, "place", (int64_t)a->overall);
    ts_jw_open(w, "entrants", '[');
    for (size_t i = 0; i < b->n_overall && !a->one; i++) {
        const ts_entrant_row *r = &b->row[b->overall[i].first];
        char                  page[128];
        page_of(b, i, page, sizeof page);
        ts_jw_open(w, NULL, '{');
        ts_jw_text(w, "name", r->name);
        ts_jw_text(w, "author", r->author);
        ts_jw_open(w, "classes", '{');
        for (int k = 0; k < TS_BOARD_DEVICES; k++)
            if (b->overall[i].class_on[k])
                ts_jw_text(w, k == TS_BOARD_CPU ? "cpu" : "cuda", b->overall[i].class_on[k]);
        ts_jw_close(w, '}');
        ts_jw_text(w, "page", page);
        ts_jw_close(w, '}');
    }
    ts_jw_close(w, ']');
    ts_jw_open(w, "prompts", '[');
    if (a->task && a->prompts) a->prompts(a->task, w);
    ts_jw_close(w, ']');
    ts_jw_close(w, '}');
}

static bool write_page(const ts_records *r, const page *p, const about *a, const char *path)
{
    ts_records some = *r;
    ts_board   b;
    ts_jw      w = { 0 };
    char       why[TS_WHY];
    some.n = 0;
    some.at = p->at ? calloc(p->n + 1, sizeof *some.at) : NULL;
    for (size_t i = 0; some.at && i < p->n; i++) some.at[some.n++] = r->at[p->at[i]];
    describe(a, &w);
    FILE *f = some.at && !w.failed ? fopen(path, "w") : NULL;
    bool  ok = f && ts_board_make(&some, &b, why);
    if (ok) {
        ok = ts_page_write_about(&some, &b, w.text, a->one, f);
        ts_board_free(&b);
    }
    if (f) ok = !fclose(f) && ok;
    free(some.at); /* the records themselves are the caller's */
    ts_jw_free(&w);
    return ok;
}

/* A page of a challenge, or of all. */
static bool write_task(const ts_records *r, const about *a, const char *path)
{
    page       p = page_of_task(r, a->task);
    const bool ok = write_page(r, &p, a, path);
    free(p.at);
    return ok;
}

static bool folder(const char *dir, const char *name, char *path, size_t n)
{
    snprintf(path, n, "%s%s%s", dir, *name ? "/" : "", name);
    return !mkdir(path, 0777) || errno == EEXIST;
}

bool ts_site_write(const ts_records *r, const ts_board *b, ts_site_prompts *prompts,
                   const char *dir, int *n_pages, char why[TS_WHY])
{
    char path[4300], name[128];
    bool ok = folder(dir, "", path, sizeof path) && folder(dir, "entrant", path, sizeof path) &&
              folder(dir, "challenge", path, sizeof path);
    *n_pages = 0;
    snprintf(path, sizeof path, "%s/index.html", dir);
    ok = ok && write_task(r, &(about) { .b = b }, path);
    *n_pages += ok;
    page *of = ok ? pages_of_entrants(r, b) : NULL;
    ok = of;
    for (size_t i = 0; ok && i < b->n_overall; i++) {
        page_of(b, i, name, sizeof name);
        snprintf(path, sizeof path, "%s/%s", dir, name);
        ok = write_page(r, &of[i], &(about) { .b = b, .one = true, .overall = i }, path);
        *n_pages += ok;
    }
    if (of) free(of[0].at);
    free(of);
    for (size_t i = 0; ok && i < b->n_tasks; i++) {
        slug(b->task[i], name, sizeof name);
        snprintf(path, sizeof path, "%s/challenge/%s.html", dir, name);
        ok = write_task(r, &(about) { .b = b, .prompts = prompts, .task = b->task[i] }, path);
        *n_pages += ok;
    }
    if (!ok)
        snprintf(why, TS_WHY, "%.60s: %s", path, errno ? strerror(errno) : "cannot be written");
    return ok;
}
