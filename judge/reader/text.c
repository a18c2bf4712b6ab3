/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - parses sources: the code in an answer, the functions it has, its scope and includes. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kind.h"
#include "markdown.h"
#include "reader.h"
#include "sha256.h"
#include "show.h"
#include "source.h"

static char *scrubbed(const char *bytes, size_t n, ts_language language)
{
    char *text = malloc(n + 1);
    if (text) ts_scrub(bytes, n, language == TS_PY, text);
    return text;
}

/* A source that another one includes is not compiled on its own. */
static void mark_included(const ts_question *q, const char *text, const char *by, ts_reading *r)
{
    char        name[256];
    bool        quoted;
    const char *folder = strrchr(by, '/'), *p = text;
    const int   n = folder ? (int)(folder - by) + 1 : 0;
    while ((p = ts_next_include(p, name, sizeof name, &quoted)))
        for (uint32_t i = 0; i < q->n_files; i++) {
            char full[512];
            snprintf(full, sizeof full, "%.*s%s", n, by, name);
            if (!strcmp(q->file[i].name, full) || !strcmp(q->file[i].name, name))
                r->included[i] = 1;
        }
}

static int by_hex(const void *a, const void *b)
{
    return memcmp(a, b, 65);
}

/* The hash of scrubbed text without its blanks, which it drops. */
static void hash_dense(char *text, char hex[65])
{
    size_t n = 0;
    for (const char *p = text; *p; p++)
        if (!strchr(" \t\r\n\v\f", *p)) text[n++] = *p;
    ts_sha256_hex(text, n, hex);
}

/* The family ignores comments, blanks and the order of files. */
bool ts_reader_sources(const ts_question *q, const char *const *bytes, ts_reading *r,
                       ts_refusal *why)
{
    char hex[TS_ENTRANT_SOURCES][65];
    for (uint32_t i = 0; i < q->n_files; i++) {
        char *text = scrubbed(bytes[i], q->file[i].n, (ts_language)q->language);
        if (!text) return ts_refuse(why, "size", "out of memory");
        if (q->language != TS_PY) mark_included(q, text, q->file[i].name, r);
        hash_dense(text, hex[i]);
        free(text);
    }
    qsort(hex, q->n_files, sizeof hex[0], by_hex);
    ts_sha256_hex(hex, q->n_files * sizeof hex[0], r->family);
    return true;
}

/* ---- a single file ---- */

/* It has no entry.json: a comment near its beginning declares the scope. */
static bool find_offers(const char *bytes, ts_reading *r, ts_refusal *why)
{
    static const char mark[] = "touchstone-offers:";
    char              text[TS_ENTRANT_OFFERS + 2];
    const char       *at = strstr(bytes, mark);
    int               line = 0;
    for (const char *p = bytes; at && p < at; p++) line += *p == '\n';
    if (!at || line >= 64) return true;
    at += sizeof mark - 1;
    at += strspn(at, " \t");
    size_t n = strcspn(at, "\r\n");
    for (size_t i = 0; i + 1 < n; i++)
        if (at[i] == '*' && at[i + 1] == '/') n = i;
    while (n && strchr(" \t", at[n - 1])) n--;
    snprintf(text, sizeof text, "%.*s", (int)n, at);
    if (!ts_offers_ok(text, why)) return false;
    strcpy(r->offers, text);
    return true;
}

static bool read_code(const ts_question *q, const char *bytes, size_t n, ts_language language,
                      ts_reading *r, ts_refusal *why)
{
    char  cause[TS_ENTRANT_CAUSE + 1];
    char *text = scrubbed(bytes, n, language);
    if (!text) return ts_refuse(why, "size", "out of memory");
    for (uint32_t i = 0; i < q->n_tasks; i++)
        r->calls[i] = ts_calls(text, language == TS_PY ? q->task[i].name : q->task[i].function);
    if (language == TS_C && ts_needs_host(text, cause, sizeof cause)) {
        r->host = 1;
        ts_show(cause, strlen(cause), r->cause, sizeof r->cause);
    }
    hash_dense(text, r->family);
    char hex[65];
    strcpy(hex, r->family);
    ts_sha256_hex(hex, sizeof hex, r->family); /* as of a folder with this file only */
    free(text);
    return find_offers(bytes, r, why);
}

static bool read_markdown(const ts_question *q, const char *bytes, ts_reading *r, ts_refusal *why)
{
    const bool        known = q->wanted >= 0;
    const char *const wanted[] = { q->task[known ? q->wanted : 0].name,
                                   q->task[known ? q->wanted : 0].function, NULL };
    ts_block          b = { 0 };
    r->block.found = ts_markdown_code(bytes, known ? wanted : NULL, &b);
    r->block.of = b.of;
    if (!r->block.found) return true; /* the judge says so */
    const ts_language language = ts_ending_of(b.ending)->language;
    r->block.at = (uint64_t)(b.code - bytes);
    r->block.n = b.n;
    r->block.language = language;
    r->block.closed = b.closed;
    r->block.number = b.number;
    r->block.line = b.line;
    char *code = strndup(b.code, b.n);
    if (!code) return ts_refuse(why, "size", "out of memory");
    const bool ok = read_code(q, code, b.n, language, r, why);
    free(code);
    return ok;
}

bool ts_reader_single(const ts_question *q, const char *bytes, ts_reading *r, ts_refusal *why)
{
    return q->markdown ? read_markdown(q, bytes, r, why)
                       : read_code(q, bytes, q->file[0].n, (ts_language)q->language, r, why);
}
