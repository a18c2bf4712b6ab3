/* SPDX-License-Identifier: Apache-2.0 */
/* entrant.c - reads an entrant's files, has the reader parse them, and computes their hashes. */
#define _GNU_SOURCE
#include "entrant.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "audit.h"
#include "kind.h"
#include "reading.h"
#include "sha256.h"
#include "task.h"

/* What the parts below share: the reader, and the entrant to fill. */
typedef struct intake {
    ts_ask     *ask;
    const void *reader;
    ts_entrant *e;
    ts_refusal *why;
} intake;

/* ---- files ---- */

/* A versioned library is a link to a version. A submitted folder must not link outside itself, or
 * it could expose other files; a single library on the command line may be any link. */
enum links { NO_LINKS, LINKS_BELOW, ANY_LINKS };

static int open_linked(int folder, const char *path, enum links links)
{
    const struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                                  .resolve = links == ANY_LINKS
                                                 ? 0
                                                 : RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

/* Opens a path below `folder` one component at a time, without following symbolic links. */
static int open_below(int folder, const char *path)
{
    char      step[TS_ENTRANT_NAME + 1];
    int       at = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    while (at >= 0) {
        const size_t n = strcspn(path, "/");
        memcpy(step, path, n);
        step[n] = 0;
        const int next = openat(at, step, path[n] ? flags | O_DIRECTORY : flags);
        close(at);
        if (!path[n]) return next;
        at = next;
        path += n + 1;
    }
    return at;
}

static bool read_all(int fd, size_t limit, ts_source *s, const char *shown, ts_refusal *why)
{
    struct stat st;
    ssize_t     got = 1;
    if (fstat(fd, &st)) return ts_refuse(why, "entry", "%s: %s", shown, strerror(errno));
    if (!S_ISREG(st.st_mode)) return ts_refuse(why, "entry", "%s: not a regular file", shown);
    if ((uint64_t)st.st_size > limit)
        return ts_refuse(why, "size", "%s: got %lld bytes, expected at most %zu", shown,
                         (long long)st.st_size, limit);
    s->bytes = malloc((size_t)st.st_size + 1);
    if (!s->bytes) return ts_refuse(why, "size", "%s: out of memory", shown);
    while (s->n < (size_t)st.st_size &&
           (got = read(fd, s->bytes + s->n, (size_t)st.st_size - s->n)) > 0)
        s->n += (size_t)got;
    s->bytes[s->n] = 0;
    return got >= 0 || ts_refuse(why, "entry", "%s: %s", shown, strerror(errno));
}

static bool read_file(int folder, const char *name, enum links links, size_t limit, ts_source *s,
                      ts_refusal *why)
{
    int fd = open_below(folder, name);
    if (fd < 0 && errno == ELOOP && links) fd = open_linked(folder, name, links);
    if (fd < 0)
        return ts_refuse(why, "entry", "%s: %s", name,
                         errno == ELOOP   ? "symbolic link not allowed"
                         : errno == EXDEV ? "symbolic link leaves the folder"
                                          : strerror(errno));
    const bool ok = read_all(fd, limit, s, name, why);
    close(fd);
    return ok;
}

/* Adds a source of the entrant's language. */
static bool add_source(int folder, const char *name, ts_entrant *e, ts_refusal *why)
{
    size_t left = e->language == TS_BINARY ? TS_ENTRANT_BINARY : TS_ENTRANT_BYTES;
    if (!ts_source_ok(name, e->language, e->n_sources, why)) return false;
    for (int i = 0; i < e->n_sources; i++) {
        if (!strcmp(e->source[i].name, name))
            return ts_refuse(why, "entry", "source '%s': listed twice", name);
        left -= e->source[i].n;
    }
    ts_source *s = &e->source[e->n_sources++];
    strcpy(s->name, name);
    s->compiled = ts_ending_of(name)->unit;
    const enum links links = e->language != TS_BINARY ? NO_LINKS
                             : e->json                ? LINKS_BELOW
                                                      : ANY_LINKS;
    return read_file(folder, name, links, left, s, why);
}

/* ---- challenges ---- */

static const ts_task *task_of(const char *name)
{
    const ts_task *t = ts_task_called(name);
    return t && !t->no_challenge ? t : NULL;
}

static bool unknown_task(const char *name, ts_refusal *why)
{
    char known[256] = "";
    for (int i = 0; ts_tasks[i]; i++)
        if (!ts_tasks[i]->no_challenge)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                     *known ? ", " : "", ts_tasks[i]->name);
    if (name)
        return ts_refuse(why, "entry", "challenge: got '%s', expected one of %s", name, known);
    return ts_refuse(why, "entry",
                     "found no function of a challenge, expected ts_NAME (Python: NAME), where "
                     "NAME is one of %s",
                     known);
}

/* Single files: the task whose function the source, or the binary, defines. */
static bool guess_task(const ts_reading *r, ts_entrant *e, ts_refusal *why)
{
    const ts_task   *found = NULL;
    const ts_source *s = &e->source[0];
    for (int i = 0; ts_tasks[i]; i++) {
        char room[TS_EXPORT_NAME];
        if (ts_tasks[i]->no_challenge) continue;
        if (e->language != TS_BINARY
                ? !r->calls[i]
                : !ts_audit_exports(s->bytes, s->n, ts_task_export(ts_tasks[i], 0, room)))
            continue;
        if (found)
            return ts_refuse(why, "entry",
                             "%s: got both %s and %s, expected one; select with --challenge",
                             s->name, found->name, ts_tasks[i]->name);
        found = ts_tasks[i];
    }
    if (!found) return unknown_task(NULL, why);
    snprintf(e->task, sizeof e->task, "%s", found->name);
    return true;
}

/* ---- the reader ---- */

static bool consult(const intake *in, const ts_question *q, const ts_source *file, ts_reading *r)
{
    ts_reply reply;
    return in->ask(in->reader, q, file, &reply, in->why) && ts_reading_take(&reply, q, r, in->why);
}

static bool refused(const ts_reading *r, ts_refusal *why)
{
    if (r->reason) ts_refuse(why, ts_reading_reasons[r->reason], "%s", r->text);
    return r->reason != 0;
}

static void put_file(ts_question *q, const ts_source *s)
{
    strcpy(q->file[q->n_files].name, s->name);
    q->file[q->n_files++].n = s->n;
}

static void put_tasks(ts_question *q, const char *challenge)
{
    char room[TS_EXPORT_NAME];
    q->wanted = -1;
    for (int i = 0; ts_tasks[i]; i++) {
        if (i == TS_READING_TASKS) abort();
        q->n_tasks = (uint32_t)i + 1;
        snprintf(q->task[i].name, sizeof q->task[i].name, "%s", ts_tasks[i]->name);
        snprintf(q->task[i].function, sizeof q->task[i].function, "%s",
                 ts_task_export(ts_tasks[i], 0, room));
        if (challenge && ts_tasks[i] == task_of(challenge)) q->wanted = i;
    }
}

static bool is_text(const ts_source *s, ts_refusal *why)
{
    return !memchr(s->bytes, 0, s->n) ||
           ts_refuse(why, "entry", "%s: contains a zero byte", s->name);
}

/* The hash covers all that the verdict depends on. */
static void digest(ts_entrant *e)
{
    char   sum[(TS_ENTRANT_SOURCES + 2) * (65 + 2 + TS_ENTRANT_NAME + 1)], *hex = e->source_sha256;
    size_t used = 0;
    for (int i = 0; i < e->n_sources; i++) {
        const ts_source *s = &e->source[i];
        ts_sha256_hex(s->bytes, s->n, hex);
        used += (size_t)snprintf(sum + used, sizeof sum - used, "%s  %s\n", hex, s->name);
    }
    if (e->language == TS_BINARY) ts_sha256_hex(hex, 65, e->family);
    if (*e->launch) { /* the launch plan is part of the source */
        ts_sha256_hex(e->launch, strlen(e->launch), hex);
        used += (size_t)snprintf(sum + used, sizeof sum - used, "%s  launch\n", hex);
    }
    if (*e->offers && e->json) { /* the verdict depends on the scope */
        ts_sha256_hex(e->offers, strlen(e->offers), hex);
        used += (size_t)snprintf(sum + used, sizeof sum - used, "%s  offers\n", hex);
    }
    if (e->n_sources > 1 || *e->launch || (*e->offers && e->json)) ts_sha256_hex(sum, used, hex);
}

/* ---- a folder with entry.json ---- */

static bool take_entry(const ts_reading *r, int folder, ts_entrant *e, ts_refusal *why)
{
    strcpy(e->name, r->name);
    strcpy(e->author, r->author);
    if (*r->task && !task_of(r->task)) return unknown_task(r->task, why);
    snprintf(e->task, sizeof e->task, "%s", *r->task ? task_of(r->task)->name : "");
    e->cls = (ts_class)r->cls;
    e->language = (ts_language)r->language;
    strcpy(e->offers, r->offers);
    strcpy(e->launch, r->launch);
    for (uint32_t i = 0; i < r->n_sources; i++)
        if (!add_source(folder, r->source[i], e, why)) return false;
    e->adapter = r->adapter;
    return !refused(r, why);
}

/* Finds the sources that are not compiled on their own, and what they have without comments. */
static bool read_sources(const intake *in)
{
    ts_entrant *e = in->e;
    ts_question q = { .what = TS_READ_SOURCES, .language = e->language };
    ts_reading  r;
    if (e->language == TS_BINARY) return true;
    for (int i = 0; i < e->n_sources; i++) {
        if (!is_text(&e->source[i], in->why)) return false;
        put_file(&q, &e->source[i]);
    }
    if (!consult(in, &q, e->source, &r) || refused(&r, in->why)) return false;
    for (int i = 0; i < e->n_sources; i++)
        if (r.included[i]) e->source[i].compiled = false;
    strcpy(e->family, r.family);
    return true;
}

static bool read_folder(const intake *in, int folder)
{
    ts_source   text = { .name = "entry.json" };
    ts_question q = { .what = TS_READ_ENTRY };
    ts_reading  r;
    bool        ok = read_file(folder, text.name, NO_LINKS, TS_ENTRANT_JSON_BYTES, &text, in->why);
    if (ok) put_file(&q, &text);
    ok = ok && consult(in, &q, &text, &r) && take_entry(&r, folder, in->e, in->why) &&
         read_sources(in);
    if (ok) digest(in->e);
    free(text.bytes);
    return ok;
}

/* ---- a single file ---- */

/* Keeps of an answer in Markdown the code, under a name with the ending of its language. */
static bool take_block(const ts_reading *r, const char *file, const char *challenge, ts_entrant *e,
                       ts_refusal *why)
{
    static const char *const ending[] = {
        [TS_C] = ".c", [TS_CXX] = ".cpp", [TS_CU] = ".cu", [TS_PY] = ".py"
    };
    ts_source *s = &e->source[0];
    if (!r->block.found)
        return ts_refuse(why, "entry",
                         "%s: got %d code blocks, expected one in C, C++, CUDA or Python", file,
                         r->block.of);
    snprintf(s->name, sizeof s->name, "%.*s%s", TS_ENTRANT_NAME - 8,
             challenge ? challenge : "answer", ending[r->block.language]);
    e->language = (ts_language)r->block.language;
    e->cls = ts_ending_of(s->name)->cls;
    s->compiled = true;
    snprintf(e->block, sizeof e->block, "code block %d of %d, from line %d%s", r->block.number,
             r->block.of, r->block.line, r->block.closed ? "" : ", not closed");
    memmove(s->bytes, s->bytes + r->block.at, r->block.n);
    s->n = r->block.n;
    s->bytes[s->n] = 0;
    return true;
}

/* The bytes of the file, and what the reader finds in them. */
static bool read_text(const intake *in, int folder, const char *file, bool markdown,
                      const char *challenge, ts_reading *r)
{
    ts_entrant *e = in->e;
    ts_question q = { .what = TS_READ_FILE, .language = e->language, .markdown = markdown };
    *r = (ts_reading) { .mark = 0 };
    if (!markdown && !add_source(folder, file, e, in->why)) return false;
    if (e->language == TS_BINARY) return true; /* judge/run/audit.c reads those */
    if (markdown) {
        e->n_sources = 1;
        if (!read_file(folder, file, NO_LINKS, TS_ENTRANT_BYTES, &e->source[0], in->why))
            return false;
        if (memchr(e->source[0].bytes, 0, e->source[0].n))
            return ts_refuse(in->why, "entry", "%s: contains a zero byte", file);
    }
    put_file(&q, &e->source[0]);
    put_tasks(&q, challenge);
    return consult(in, &q, e->source, r) &&
           (!markdown || take_block(r, file, challenge, e, in->why));
}

static bool read_single(const intake *in, int folder, const char *file, const char *challenge)
{
    ts_entrant      *e = in->e;
    ts_refusal      *why = in->why;
    ts_reading       r;
    const ts_ending *kind = ts_ending_of(file);
    const char      *dot = strrchr(file, '.');
    const bool       markdown = dot && !strcmp(dot, ".md");
    if (!markdown && (!kind || !kind->unit))
        return ts_refuse(
            why, "entry",
            "%s: expected a folder with entry.json, or a .c, .cpp, .cu, .so, .py or .md file",
            file);
    if (!markdown) e->language = kind->language, e->cls = kind->cls;
    if (!read_text(in, folder, file, markdown, challenge, &r)) return false;
    snprintf(e->name, sizeof e->name, "%.*s", (int)(dot - file), file);
    strcpy(e->author, "unknown");
    if (!guess_task(&r, e, why) && !challenge) return false;
    if (e->language == TS_C && r.host) e->cls = TS_HOST, strcpy(e->cause, r.cause);
    if (challenge && !task_of(challenge)) return unknown_task(challenge, why);
    if (challenge) snprintf(e->task, sizeof e->task, "%s", challenge);
    if (e->language != TS_BINARY && (refused(&r, why) || !is_text(&e->source[0], why)))
        return false;
    strcpy(e->offers, r.offers);
    strcpy(e->family, r.family);
    digest(e);
    return true;
}

bool ts_entrant_read_with(ts_ask *ask, const void *reader, const char *path, const char *challenge,
                          ts_entrant *e, ts_refusal *why)
{
    const intake in = { ask, reader, e, why };
    const char  *slash = strrchr(path, '/');
    char         parent[4096];
    *e = (ts_entrant) { .adapter = -1 };
    *why = (ts_refusal) { 0 };
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 && errno != ENOTDIR)
        return ts_refuse(why, "entry", "%s: %s", path, strerror(errno));
    const bool single = folder < 0;
    e->json = !single;
    if (single) {
        snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                 slash ? path : ".");
        folder = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0) return ts_refuse(why, "entry", "%s: %s", parent, strerror(errno));
    }
    const bool ok = single ? read_single(&in, folder, slash ? slash + 1 : path, challenge)
                           : read_folder(&in, folder);
    close(folder);
    return ok;
}

bool ts_entrant_read(const char *path, const char *challenge, ts_entrant *e, ts_refusal *why)
{
    static const ts_reader_file reader = { NULL, TS_READER_SECONDS };
    return ts_entrant_read_with(ts_ask_process, &reader, path, challenge, e, why);
}

void ts_entrant_free(ts_entrant *e)
{
    for (int i = 0; i < e->n_sources; i++) free(e->source[i].bytes);
    e->n_sources = 0;
}

const ts_source *ts_entrant_main(const ts_entrant *e)
{
    return &e->source[e->adapter < 0 ? 0 : e->adapter];
}
