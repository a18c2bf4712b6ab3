/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - log records of a run: its machine, entrants and correctness results. */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include "ceiling.h"
#include "dtype.h"
#include "run.h"
#include "sha256.h"

bool ts_run_log_run(ts_run *c)
{
    char      commit[65], machine[256], when[32];
    time_t    now = time(NULL);
    struct tm utc;
    ts_describe_cpu(machine, sizeof machine);
    ts_sha256_hex(c->key, sizeof c->key, commit);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    ts_jw *w = ts_log_begin(c->log, "run");
    ts_jw_text(w, "version", TS_VERSION);
    ts_jw_text(w, "machine", machine);
    if (c->device == TS_CUDA) ts_jw_text(w, "device", c->survey.text);
    ts_jw_open(w, "guarantees", '[');
    for (int i = 0; i < c->machine.n; i++) {
        ts_jw_open(w, NULL, '{');
        ts_jw_text(w, "name", c->machine.g[i].name);
        ts_jw_bool(w, "held", c->machine.g[i].held);
        ts_jw_text(w, "text", c->machine.g[i].text);
        ts_jw_close(w, '}');
    }
    ts_jw_close(w, ']');
    ts_jw_text(w, "badge", c->machine.badge);
    ts_jw_text(w, "commit", commit);
    ts_jw_text(w, "key", c->key_given ? "given" : "drawn");
    ts_jw_text(w, "depth", ts_depth_name(c->depth));
    ts_jw_int(w, "draw", TS_DRAW);
    ts_jw_bool(w, "timed", !c->untimed);
    ts_jw_int(w, "threads", c->n_threads);
    ts_jw_text(w, "started", when);
    ts_jw_open(w, "floors", '{');
    ts_jw_num(w, "memory_gbs", c->peaks.gbs);
    ts_jw_num(w, "gflops", c->peaks.gflops);
    ts_jw_num(w, "gexps", c->peaks.gexps);
    ts_jw_num(w, "gdexps", c->peaks.gdexps);
    ts_jw_num(w, "model_ns", c->peaks.model_ns);
    ts_jw_num(w, "model_sum_ns", c->peaks.sum_ns);
    ts_jw_num(w, "call_ns", c->peaks.call_ns);
    ts_jw_close(w, '}');
    return ts_log_commit(c->log);
}

/* The files that are built, as text, so that a reader of the log can see what was judged. Shared
 * libraries are left out. The hash is of the bytes: invalid UTF-8 is '?' in the text. */
static bool log_sources(ts_run *c, const ts_judged *e)
{
    bool ok = true;
    for (int i = 0; ok && i < e->entrant.n_sources; i++) {
        const ts_source *s = &e->entrant.source[i];
        char             hash[65];
        if (!s->bytes || memchr(s->bytes, 0, s->n)) continue;
        ts_sha256_hex(s->bytes, s->n, hash);
        ts_jw *w = ts_log_begin(c->log, "source");
        ts_jw_int(w, "entrant", e->id);
        ts_jw_text(w, "file", s->name);
        ts_jw_text(w, "sha256", hash);
        ts_jw_text(w, "text", s->bytes);
        ok = ts_log_commit(c->log);
    }
    return ok;
}

bool ts_run_log_entrant(ts_run *c, const ts_judged *e)
{
    ts_jw *w = ts_log_begin(c->log, "entrant");
    ts_jw_int(w, "id", e->id);
    ts_jw_text(w, "name", e->entrant.name);
    ts_jw_text(w, "author", e->entrant.author);
    ts_jw_text(w, "class", e->task ? ts_class_name(e->entrant.cls) : "-");
    ts_jw_text(w, "language", e->task ? ts_language_name(e->entrant.language) : "-");
    ts_jw_text(w, "task", ts_run_task_of(c, e));
    ts_jw_text(w, "source_sha256", e->entrant.source_sha256);
    ts_jw_text(w, "family", e->entrant.family);
    if (e->sample) ts_jw_text(w, "sample", e->sample);
    if (*e->entrant.block) ts_jw_text(w, "block", e->entrant.block);
    if (e->task && *e->scope.text) {
        ts_jw_text(w, "offers", e->entrant.offers);
        ts_jw_num(w, "share", e->scope.share);
    }
    return ts_log_commit(c->log) && log_sources(c, e);
}

/* Quotes a word for a shell, if necessary. */
static size_t quote(const char *word, char *s, size_t n)
{
    size_t at = 0;
    if (!word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/")])
        return (size_t)snprintf(s, n, "%s", word);
    s[at++] = '\'';
    for (; *word && at + 6 < n; word++)
        at += (size_t)snprintf(s + at, n - at, *word == '\'' ? "'\\''" : "%c", *word);
    s[at++] = '\'';
    s[at] = 0;
    return at;
}

/* A case that is run only between timed calls cannot be run on its own. */
void ts_run_replay(const ts_run *c, const ts_judged *e, const char *where, char *s, size_t n)
{
    uint64_t seed;
    *s = 0;
    if (!*where || ts_run_case_named(&e->scope, e->task, where, &seed) < 0) return;
    const size_t at = (size_t)snprintf(
        s, n, "touchstone judge%s%s%s --case '%s' ", c->device == TS_CUDA ? " --device cuda" : "",
        e->challenge ? " --challenge " : "", e->challenge ? e->challenge : "", where);
    quote(e->path, s + at, n - at);
}

const char *ts_run_unsupported(const ts_judged *e, char *names, size_t n)
{
    *names = 0;
    for (unsigned d = 0; e->unsupported >> d; d++) {
        const size_t at = strlen(names);
        if (e->unsupported >> d & 1)
            snprintf(names + at, n - at, "%s%s", at ? " " : "", ts_format_of((ts_dtype)d)->name);
    }
    return names;
}

/* The correctness result of an entrant that will be timed; its verdict follows later. */
bool ts_run_log_correctness(ts_run *c, const ts_judged *e, const ts_ruled *r)
{
    ts_jw *w = ts_log_begin(c->log, "correctness");
    ts_jw_int(w, "entrant", e->id);
    ts_jw_text(w, "task", ts_run_task_of(c, e));
    ts_jw_text(w, "verdict", ts_ruling_name(r->ruling));
    ts_jw_text(w, "reason", r->why.reason);
    ts_jw_text(w, "text", r->why.text);
    ts_jw_text(w, "case", r->why.where);
    return ts_log_commit(c->log);
}

bool ts_run_end(ts_run *c)
{
    char   key[2 * TS_KEY_BYTES + 1];
    ts_jw *w = ts_log_begin(c->log, "reveal");
    for (int i = 0; i < TS_KEY_BYTES; i++) snprintf(key + 2 * i, 3, "%02x", c->key[i]);
    ts_jw_text(w, "seed", key);
    if (!ts_log_commit(c->log)) return false;
    w = ts_log_begin(c->log, "end");
    ts_jw_int(w, "verdicts", c->n_verdicts);
    return ts_log_commit(c->log);
}
