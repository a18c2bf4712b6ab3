/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - the ts_json_* functions over jansson; without it ts_json_open reports an error. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

#ifndef TS_HAVE_JANSSON
#define TS_HAVE_JANSSON 0
#endif

#if TS_HAVE_JANSSON
#include <jansson.h>
#else /* no document is ever open: nothing of this is called */
typedef ts_json json_t;
#define NOTHING(of)                  ((void)(of), (json_t *)NULL)
#define json_object()                NULL
#define json_array()                 NULL
#define json_null()                  NULL
#define json_string(text)            NOTHING(text)
#define json_stringn(text, n)        ((void)(n), NOTHING(text))
#define json_real(x)                 NOTHING(x)
#define json_integer(i)              NOTHING(i)
#define json_boolean(b)              NOTHING(b)
#define json_is_array(o)             ((void)(o), false)
#define json_array_append_new(o, v)  ((void)(o), (void)(v))
#define json_object_set_new(o, k, v) ((void)(o), (void)(k), (void)(v))
#define json_dumpf(root, f, flags)   ((void)(root), (void)(f), -1)
#define json_decref(root)            ((void)(root))
#endif

FILE *ts_json_beside(const char *path, FILE *instead)
{
    return path && !strcmp(path, "-") ? instead : stdout;
}

bool ts_json_open(const char *path, ts_json **root)
{
    if (path && !TS_HAVE_JANSSON)
        return ts_complain("--json", "not available, built without jansson");
    *root = path ? json_object() : NULL;
    return !path || *root || ts_complain("--json", "out of memory");
}

/* Takes ownership of the value. An array has no keys. A value that could not be created (memory,
 * invalid UTF-8) becomes null, so that expected keys are always present. */
static void put(ts_json *o, const char *key, json_t *value)
{
    if (!value) value = json_null();
    if (json_is_array(o)) json_array_append_new(o, value);
    else json_object_set_new(o, key, value);
}

void ts_json_text(ts_json *o, const char *key, const char *value)
{
    if (o) put(o, key, value ? json_string(value) : NULL);
}

void ts_json_textn(ts_json *o, const char *key, const char *value, size_t n)
{
    if (o) put(o, key, json_stringn(value, n));
}

/* JSON has no NaN and no infinity. */
void ts_json_number(ts_json *o, const char *key, double value)
{
    if (o) put(o, key, isfinite(value) ? json_real(value) : NULL);
}

void ts_json_int(ts_json *o, const char *key, int64_t value)
{
    if (o) put(o, key, json_integer(value));
}

void ts_json_bool(ts_json *o, const char *key, bool value)
{
    if (o) put(o, key, json_boolean(value));
}

ts_json *ts_json_object(ts_json *o, const char *key)
{
    ts_json *child = o ? json_object() : NULL;
    if (o) put(o, key, child);
    return child;
}

ts_json *ts_json_array(ts_json *o, const char *key)
{
    ts_json *child = o ? json_array() : NULL;
    if (o) put(o, key, child);
    return child;
}

/* 17 digits represent every double exactly. */
static bool dump(const ts_json *root, FILE *f)
{
    return json_dumpf(root, f, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) == 0 &&
           fputc('\n', f) != EOF && fflush(f) == 0;
}

static bool dump_and_close(const ts_json *root, FILE *f)
{
    const bool ok = f && dump(root, f);
    return f && fclose(f) == 0 && ok;
}

/* Writes a temporary file and renames it, so that no reader sees half a document; a pipe or a
 * device is written directly. */
static bool dump_to(const ts_json *root, const char *path)
{
    struct stat  is;
    const size_t n = strlen(path) + sizeof ".tmp";
    if (!stat(path, &is) && !S_ISREG(is.st_mode)) return dump_and_close(root, fopen(path, "w"));
    char *beside = malloc(n);
    if (!beside) return false;
    snprintf(beside, n, "%s.tmp", path);
    FILE      *f = fopen(beside, "w");
    const bool ok = dump_and_close(root, f) && rename(beside, path) == 0;
    const int  why = errno;
    if (f && !ok) remove(beside);
    free(beside);
    errno = why;
    return ok;
}

bool ts_json_close(const char *path, ts_json *root)
{
    if (!root) return true;
    errno = 0;
    const bool ok = !strcmp(path, "-") ? dump(root, stdout) : dump_to(root, path);
    if (!ok)
        ts_fail("--json: %s: %s", path,
                errno ? strerror(errno) : "the document could not be built");
    json_decref(root);
    return ok;
}
