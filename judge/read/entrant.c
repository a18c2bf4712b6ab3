/* SPDX-License-Identifier: Apache-2.0 */
/* entrant.c - reads an entrant: entry.json or a single file, its sources and their hashes. */
#define _GNU_SOURCE
#include "entrant.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "audit.h"
#include "json.h"
#include "markdown.h"
#include "sha256.h"
#include "show.h"
#include "source.h"
#include "task.h"

static const char *const class_names[] = { "sealed",     "host",     "python",
                                           "sealed-gpu", "host-gpu", "python-gpu" };
static const char *const language_names[] = { "c", "c++", "python", "binary", "cuda" };

/* Valid pairs of class and language. */
static bool takes(ts_class cls, ts_language language)
{
    static const bool taken[][TS_N_LANGUAGES] = {
        [TS_SEALED] = { [TS_C] = true },
        [TS_HOST] = { [TS_C] = true, [TS_CXX] = true, [TS_BINARY] = true },
        [TS_PYTHON] = { [TS_PY] = true },
        [TS_GPU_SEALED] = { [TS_CU] = true },
        [TS_GPU_HOST] = { [TS_CU] = true, [TS_BINARY] = true },
        [TS_GPU_PYTHON] = { [TS_PY] = true },
    };
    return taken[cls][language];
}

/* What a file's name implies. The first row of a language gives the class of a single file. */
static const struct ending {
    const char *text;
    ts_language language;
    ts_class    cls;
    bool        unit; /* compiled or loaded on its own */
} endings[] = {
    { ".c", TS_C, TS_SEALED, true },     { ".h", TS_C, TS_SEALED, false },
    { ".cpp", TS_CXX, TS_HOST, true },   { ".cc", TS_CXX, TS_HOST, true },
    { ".cxx", TS_CXX, TS_HOST, true },   { ".hpp", TS_CXX, TS_HOST, false },
    { ".cu", TS_CU, TS_GPU_HOST, true }, { ".cuh", TS_CU, TS_GPU_HOST, false },
    { ".py", TS_PY, TS_PYTHON, true },   { ".so", TS_BINARY, TS_HOST, true },
};

const char *ts_class_name(ts_class c)
{
    return class_names[c];
}

const char *ts_language_name(ts_language l)
{
    return language_names[l];
}

bool ts_refuse(ts_refusal *why, const char *reason, const char *format, ...)
{
    char    text[2 * sizeof why->text];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    why->reason = reason;
    ts_show(text, strlen(text), why->text, sizeof why->text);
    return false;
}

static const struct ending *ending_of(const char *name)
{
    const char *dot = strstr(name, ".so."); /* a version may follow */
    if (dot && !dot[4 + strspn(dot + 4, ".0123456789")])
        return &endings[sizeof endings / sizeof *endings - 1];
    dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (!strcmp(dot, endings[i].text)) return &endings[i];
    return NULL;
}

bool ts_entrant_takes(const char *name)
{
    const struct ending *kind = ending_of(name);
    return kind && kind->unit;
}

/* ---- files ---- */

/* Letters, digits and a few signs, no hidden file, no "..": such names never need escaping. */
static bool path_ok(const char *name)
{
    const size_t n = strlen(name);
    if (n == 0 || n > TS_ENTRANT_NAME || name[n - 1] == '/') return false;
    for (size_t i = 0; i < n; i++) {
        const bool begins = i == 0 || name[i - 1] == '/';
        if (begins && (name[i] == '.' || name[i] == '/' || name[i] == '-')) return false;
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/", name[i]))
            return false;
    }
    return true;
}

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
    const struct ending *kind = ending_of(name);
    size_t               left = e->language == TS_BINARY ? TS_ENTRANT_BINARY : TS_ENTRANT_BYTES;
    if (!path_ok(name))
        return ts_refuse(
            why, "entry",
            "source '%s': expected a path inside the folder of at most %d letters, digits or ._+-/",
            name, TS_ENTRANT_NAME);
    if (!kind ||
        (kind->language != e->language && !(kind->language == TS_C && e->language == TS_CXX) &&
         !(kind->language == TS_C && e->language == TS_CU && !kind->unit)))
        return ts_refuse(why, "entry", "source '%s': extension does not match language %s", name,
                         ts_language_name(e->language));
    if (e->n_sources == TS_ENTRANT_SOURCES)
        return ts_refuse(why, "size", "more than %d sources", TS_ENTRANT_SOURCES);
    for (int i = 0; i < e->n_sources; i++) {
        if (!strcmp(e->source[i].name, name))
            return ts_refuse(why, "entry", "source '%s': listed twice", name);
        left -= e->source[i].n;
    }
    ts_source *s = &e->source[e->n_sources++];
    strcpy(s->name, name);
    s->compiled = kind->unit;
    const enum links links = e->language != TS_BINARY ? NO_LINKS
                             : e->json                ? LINKS_BELOW
                                                      : ANY_LINKS;
    return read_file(folder, name, links, left, s, why);
}

/* ---- source text ---- */

static char *scrubbed(const ts_entrant *e, const ts_source *s)
{
    char *text = malloc(s->n + 1);
    if (text) ts_scrub(s->bytes, s->n, e->language == TS_PY, text);
    return text;
}

/* A source that another one includes is not compiled on its own. */
static void mark_included(ts_entrant *e, const char *text, const char *by)
{
    char        name[256];
    bool        quoted;
    const char *folder = strrchr(by, '/'), *p = text;
    const int   n = folder ? (int)(folder - by) + 1 : 0;
    while ((p = ts_next_include(p, name, sizeof name, &quoted)))
        for (int i = 0; i < e->n_sources; i++) {
            char full[512];
            snprintf(full, sizeof full, "%.*s%s", n, by, name);
            if (!strcmp(e->source[i].name, full) || !strcmp(e->source[i].name, name))
                e->source[i].compiled = false;
        }
}

static int by_hex(const void *a, const void *b)
{
    return memcmp(a, b, 65);
}

/* Computes the hashes, and finds the sources to compile. The family ignores comments, blanks and
 * the order of files. */
static bool digest(ts_entrant *e, ts_refusal *why)
{
    char hex[TS_ENTRANT_SOURCES][65],
        sum[(TS_ENTRANT_SOURCES + 2) * (65 + 2 + TS_ENTRANT_NAME + 1)];
    size_t used = 0;
    for (int i = 0; i < e->n_sources; i++) {
        const ts_source *s = &e->source[i];
        char            *text = e->language == TS_BINARY ? NULL : scrubbed(e, s);
        size_t           n = 0;
        if (!text && e->language != TS_BINARY) return ts_refuse(why, "size", "out of memory");
        if (text && memchr(s->bytes, 0, s->n)) {
            free(text);
            return ts_refuse(why, "entry", "%s: contains a zero byte", s->name);
        }
        ts_sha256_hex(s->bytes, s->n, e->source_sha256);
        used +=
            (size_t)snprintf(sum + used, sizeof sum - used, "%s  %s\n", e->source_sha256, s->name);
        if (text && e->language != TS_PY) mark_included(e, text, s->name);
        for (const char *p = text; p && *p; p++)
            if (!strchr(" \t\r\n\v\f", *p)) text[n++] = *p;
        ts_sha256_hex(text ? text : s->bytes, text ? n : s->n, hex[i]);
        free(text);
    }
    if (*e->launch) { /* the launch plan is part of the source */
        ts_sha256_hex(e->launch, strlen(e->launch), e->source_sha256);
        used += (size_t)snprintf(sum + used, sizeof sum - used, "%s  launch\n", e->source_sha256);
    }
    if (*e->offers && e->json) { /* the verdict depends on the scope */
        ts_sha256_hex(e->offers, strlen(e->offers), e->source_sha256);
        used += (size_t)snprintf(sum + used, sizeof sum - used, "%s  offers\n", e->source_sha256);
    }
    if (e->n_sources > 1 || *e->launch || (*e->offers && e->json))
        ts_sha256_hex(sum, used, e->source_sha256);
    qsort(hex, (size_t)e->n_sources, sizeof hex[0], by_hex);
    ts_sha256_hex(hex, (size_t)e->n_sources * sizeof hex[0], e->family);
    return true;
}

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

/* Single files: the task whose function the source defines. */
static bool guess_task(ts_entrant *e, const ts_source *s, ts_refusal *why)
{
    const ts_task *found = NULL;
    char          *text = e->language == TS_BINARY ? NULL : scrubbed(e, s);
    for (int i = 0; ts_tasks[i]; i++) {
        char        room[TS_EXPORT_NAME];
        const char *name = ts_tasks[i]->name;
        if (ts_tasks[i]->no_challenge) continue;
        if (e->language != TS_PY) name = ts_task_export(ts_tasks[i], 0, room);
        if (!(text ? ts_calls(text, name) : ts_audit_exports(s->bytes, s->n, name))) continue;
        if (found) {
            free(text);
            return ts_refuse(why, "entry",
                             "%s: got both %s and %s, expected one; select with --challenge",
                             s->name, found->name, ts_tasks[i]->name);
        }
        found = ts_tasks[i];
    }
    if (text && e->language == TS_C && ts_needs_host(text)) e->cls = TS_HOST;
    free(text);
    if (!found) return unknown_task(NULL, why);
    snprintf(e->task, sizeof e->task, "%s", found->name);
    return true;
}

/* ---- entry.json ---- */

static bool take_name(const ts_jr_node *doc, const char *key, char *out, ts_refusal *why)
{
    const char *text = ts_jr_str(ts_jr_get(doc, key));
    size_t      count = 0;
    if (!text) return ts_refuse(why, "entry", "entry.json: '%s': missing, expected a string", key);
    for (const char *p = text; *p; count++) {
        uint32_t c = 0;
        p += ts_utf8(p, strlen(p), &c); /* the JSON reader guarantees valid UTF-8 */
        if (ts_hostile(c))
            return ts_refuse(why, "entry", "entry.json: '%s': contains a control character", key);
    }
    if (count == 0 || count > TS_ENTRANT_NAME)
        return ts_refuse(why, "entry", "entry.json: '%s': got %zu characters, expected 1 to %d",
                         key, count, TS_ENTRANT_NAME);
    strcpy(out, text);
    return true;
}

static bool take_choice(const ts_jr_node *doc, const char *key, const char *const *names, int n,
                        int *choice, ts_refusal *why)
{
    char known[128] = "", got[4 * TS_ENTRANT_NAME + 1];
    if (!take_name(doc, key, got, why)) return false;
    for (*choice = 0; *choice < n; ++*choice) {
        if (!strcmp(got, names[*choice])) return true;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", *choice ? ", " : "",
                 names[*choice]);
    }
    return ts_refuse(why, "entry", "entry.json: '%s': got '%s', expected one of %s", key, got,
                     known);
}

/* ASCII, so that it never needs escaping. scope.c checks whether it is valid. */
static bool take_offers(const char *text, ts_entrant *e, ts_refusal *why)
{
    const size_t n = text ? strlen(text) : 0;
    bool         plain = n > 0 && n <= TS_ENTRANT_OFFERS;
    for (size_t i = 0; i < n && plain; i++) plain = text[i] >= ' ' && text[i] < 127;
    if (!plain)
        return ts_refuse(why, "entry",
                         "'offers': expected an expression of 1 to %d ASCII characters, such as "
                         "k <= 32 && dtype == f32",
                         TS_ENTRANT_OFFERS);
    strcpy(e->offers, text);
    return true;
}

/* A single file has no entry.json: a comment near its beginning declares the scope. */
static bool find_offers(const ts_source *s, ts_entrant *e, ts_refusal *why)
{
    static const char mark[] = "touchstone-offers:";
    char              text[TS_ENTRANT_OFFERS + 2];
    const char       *at = strstr(s->bytes, mark);
    int               line = 0;
    for (const char *p = s->bytes; at && p < at; p++) line += *p == '\n';
    if (!at || line >= 64) return true;
    at += sizeof mark - 1;
    at += strspn(at, " \t");
    size_t n = strcspn(at, "\r\n");
    for (size_t i = 0; i + 1 < n; i++)
        if (at[i] == '*' && at[i + 1] == '/') n = i;
    while (n && strchr(" \t", at[n - 1])) n--;
    snprintf(text, sizeof text, "%.*s", (int)n, at);
    return take_offers(text, e, why);
}

static bool take_head(const ts_jr_node *doc, ts_entrant *e, ts_refusal *why)
{
    static const char *const keys[] = { "name",    "author",  "challenge", "class",     "language",
                                        "sources", "adapter", "launch",    "workspace", "offers" };
    int                      cls, language;
    char                     task[4 * TS_ENTRANT_NAME + 1];
    if (ts_jr_is(doc) != TS_JR_OBJ)
        return ts_refuse(why, "entry", "entry.json: expected an object");
    for (size_t k = 0; k < ts_jr_len(doc); k++) {
        const char *key = ts_jr_key(doc, k);
        size_t      i = 0;
        while (i < sizeof keys / sizeof *keys && strcmp(key, keys[i])) i++;
        if (i == sizeof keys / sizeof *keys)
            return ts_refuse(why, "entry", "entry.json: unknown key '%.64s'", key);
    }
    if (!take_name(doc, "name", e->name, why) || !take_name(doc, "author", e->author, why) ||
        !take_name(doc, "challenge", task, why) ||
        !take_choice(doc, "class", class_names, TS_N_CLASSES, &cls, why) ||
        !take_choice(doc, "language", language_names, TS_N_LANGUAGES, &language, why))
        return false;
    if (!task_of(task)) return unknown_task(task, why);
    snprintf(e->task, sizeof e->task, "%s", task_of(task)->name);
    e->cls = (ts_class)cls;
    e->language = (ts_language)language;
    if (ts_jr_get(doc, "offers") && !take_offers(ts_jr_str(ts_jr_get(doc, "offers")), e, why))
        return false;
    if (!takes(e->cls, e->language))
        return ts_refuse(why, "entry", "entry.json: class '%s' does not accept language '%s'",
                         class_names[cls], language_names[language]);
    if (e->cls == TS_GPU_SEALED) return ts_launch_from_json(doc, e->launch, sizeof e->launch, why);
    return (!ts_jr_get(doc, "launch") && !ts_jr_get(doc, "workspace")) ||
           ts_refuse(why, "entry",
                     "entry.json: class '%s' takes no 'launch' or 'workspace'; host code launches "
                     "the kernels",
                     class_names[cls]);
}

static bool take_sources(int folder, const ts_jr_node *doc, ts_entrant *e, ts_refusal *why)
{
    const ts_jr_node *list = ts_jr_get(doc, "sources"), *extra = ts_jr_get(doc, "adapter");
    const size_t      n = ts_jr_is(list) == TS_JR_ARR ? ts_jr_len(list) : 0;
    if (n == 0)
        return ts_refuse(why, "entry", "entry.json: 'sources': missing, expected a list of files");
    for (size_t i = 0; i < n; i++) {
        const char *name = ts_jr_str(ts_jr_at(list, i));
        if (!name)
            return ts_refuse(why, "entry", "entry.json: 'sources': expected a list of strings");
        if (!add_source(folder, name, e, why)) return false;
    }
    if (e->language == TS_BINARY && (n > 1 || extra))
        return ts_refuse(why, "entry",
                         "entry.json: 'sources': expected exactly one binary and no adapter");
    if (!extra) return true;
    if (!ts_jr_str(extra))
        return ts_refuse(why, "entry", "entry.json: 'adapter': expected the name of a file");
    e->adapter = e->n_sources;
    return add_source(folder, ts_jr_str(extra), e, why);
}

static bool read_folder(int folder, ts_entrant *e, ts_refusal *why)
{
    ts_source  text = { 0 };
    char       what[256];
    bool       ok = read_file(folder, "entry.json", NO_LINKS, TS_ENTRANT_JSON_BYTES, &text, why);
    ts_jr_doc *doc = ok ? ts_jr_parse(text.bytes, text.n, what, sizeof what) : NULL;
    if (ok && !doc) ok = ts_refuse(why, "entry", "entry.json: %s", what);
    ok = ok && take_head(ts_jr_root(doc), e, why) &&
         take_sources(folder, ts_jr_root(doc), e, why) && digest(e, why);
    ts_jr_free(doc);
    free(text.bytes);
    return ok;
}

/* Keeps of an answer in Markdown the code, under a name with the ending of its language. */
static bool take_block(int folder, const char *file, const char *challenge, ts_entrant *e,
                       ts_refusal *why)
{
    ts_source     *s = &e->source[0];
    ts_block       b = { 0 };
    const ts_task *t = challenge ? task_of(challenge) : NULL;
    char           room[TS_EXPORT_NAME];
    const char    *wanted[] = { challenge, t ? ts_task_export(t, 0, room) : NULL, NULL };
    if (!read_file(folder, file, NO_LINKS, TS_ENTRANT_BYTES, s, why))
        return e->n_sources = 1, false;
    e->n_sources = 1;
    if (memchr(s->bytes, 0, s->n)) return ts_refuse(why, "entry", "%s: contains a zero byte", file);
    if (!ts_markdown_code(s->bytes, t ? wanted : NULL, &b))
        return ts_refuse(why, "entry",
                         "%s: got %d code blocks, expected one in C, C++, CUDA or Python", file,
                         b.of);
    const struct ending *kind = ending_of(b.ending);
    e->language = kind->language;
    e->cls = kind->cls;
    s->compiled = true;
    snprintf(s->name, sizeof s->name, "%.*s%s", TS_ENTRANT_NAME - 8,
             challenge ? challenge : "answer", b.ending);
    snprintf(e->block, sizeof e->block, "code block %d of %d, from line %d%s", b.number, b.of,
             b.line, b.closed ? "" : ", not closed");
    memmove(s->bytes, b.code, b.n);
    s->n = b.n;
    s->bytes[s->n] = 0;
    return true;
}

static bool read_single(int folder, const char *file, const char *challenge, ts_entrant *e,
                        ts_refusal *why)
{
    const struct ending *kind = ending_of(file);
    const char          *dot = strrchr(file, '.');
    const bool           text = dot && !strcmp(dot, ".md");
    if (!text && (!kind || !kind->unit))
        return ts_refuse(
            why, "entry",
            "%s: expected a folder with entry.json, or a .c, .cpp, .cu, .so, .py or .md file",
            file);
    if (!text) e->language = kind->language, e->cls = kind->cls;
    if (text ? !take_block(folder, file, challenge, e, why) : !add_source(folder, file, e, why))
        return false;
    snprintf(e->name, sizeof e->name, "%.*s", (int)(dot - file), file);
    strcpy(e->author, "unknown");
    if (!guess_task(e, &e->source[0], why) && !challenge) return false;
    if (challenge && !task_of(challenge)) return unknown_task(challenge, why);
    if (challenge) snprintf(e->task, sizeof e->task, "%s", challenge);
    if (e->language != TS_BINARY && !find_offers(&e->source[0], e, why)) return false;
    return digest(e, why);
}

bool ts_entrant_read(const char *path, const char *challenge, ts_entrant *e, ts_refusal *why)
{
    const char *slash = strrchr(path, '/');
    char        parent[4096];
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
    const bool ok = single ? read_single(folder, slash ? slash + 1 : path, challenge, e, why)
                           : read_folder(folder, e, why);
    close(folder);
    return ok;
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
