/* SPDX-License-Identifier: Apache-2.0 */
/* launch_json.c - converts "launch" and "workspace" of entry.json to a launch plan. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "launch.h"
#include "reader.h"

/* The output, and the name of the step in error messages. */
typedef struct writer {
    char       *text;
    size_t      n, used;
    char        where[32]; /* "" or "step 2, " */
    ts_refusal *why;
} writer;

static bool refuse(writer *w, const char *key, const char *what)
{
    return ts_refuse(w->why, "launch", "entry.json: launch: %s%s: %s", w->where, key, what);
}

static bool put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool put(writer *w, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(w->text + w->used, w->n - w->used, format, list);
    va_end(list);
    if (n < 0 || w->used + (size_t)n >= w->n || w->used + (size_t)n > TS_LAUNCH_BYTES)
        return ts_refuse(w->why, "launch", "entry.json: launch: more than %d bytes",
                         TS_LAUNCH_BYTES);
    w->used += (size_t)n;
    return true;
}

/* A string without newlines, since items are separated by lines. */
static const char *line_of(writer *w, const char *key, const ts_jr_node *v)
{
    const char *text = ts_jr_str(v);
    if (!text) return refuse(w, key, "expected a string"), NULL;
    for (const char *p = text; *p; p++)
        if (*p < 0x20 || *p > 0x7e)
            return refuse(w, key, "contains a character that is not printable ASCII"), NULL;
    return text;
}

/* Strings are joined with ',': each must be exactly one expression. */
static bool whole(const char *text)
{
    int depth = 0;
    for (; *text; text++) {
        depth += (*text == '(') - (*text == ')');
        if (depth < 0 || (depth == 0 && *text == ',')) return false;
    }
    return depth == 0;
}

static bool put_text(writer *w, const ts_jr_node *object, const char *key)
{
    const char *text = line_of(w, key, ts_jr_get(object, key));
    return text && put(w, "%s %s\n", key, text);
}

static bool put_if_there(writer *w, const ts_jr_node *object, const char *key)
{
    return !ts_jr_get(object, key) || put_text(w, object, key);
}

static bool put_dims(writer *w, const ts_jr_node *step, const char *key)
{
    const ts_jr_node *list = ts_jr_get(step, key);
    const size_t      n = ts_jr_is(list) == TS_JR_ARR ? ts_jr_len(list) : 0;
    if (n < 1 || n > 3) return refuse(w, key, "expected a list of 1 to 3 strings");
    for (size_t i = 0; i < n; i++) {
        const char *text = line_of(w, key, ts_jr_at(list, i));
        if (!text) return false;
        if (!whole(text)) return refuse(w, key, "expected one expression per string");
        if (!(i ? put(w, ",%s", text) : put(w, "%s %s", key, text))) return false;
    }
    return put(w, "\n");
}

static bool put_args(writer *w, const ts_jr_node *step)
{
    const ts_jr_node *list = ts_jr_get(step, "args");
    if (list && ts_jr_is(list) != TS_JR_ARR) return refuse(w, "args", "expected a list of strings");
    for (size_t i = 0; i < ts_jr_len(list); i++) {
        const char *text = line_of(w, "args", ts_jr_at(list, i));
        if (!text || !put(w, "arg %s\n", text)) return false;
    }
    return true;
}

static bool known_keys(writer *w, const ts_jr_node *step)
{
    static const char *const keys[] = { "kernel", "when", "grid", "block", "shared", "args" };
    for (size_t k = 0; k < ts_jr_len(step); k++) {
        size_t i = 0;
        while (i < sizeof keys / sizeof *keys && strcmp(ts_jr_key(step, k), keys[i])) i++;
        if (i == sizeof keys / sizeof *keys)
            return ts_refuse(w->why, "launch", "entry.json: launch: %sunknown key '%.64s'",
                             w->where, ts_jr_key(step, k));
    }
    return true;
}

static bool put_step(writer *w, const ts_jr_node *step)
{
    if (ts_jr_is(step) != TS_JR_OBJ) return refuse(w, "value", "expected an object");
    return known_keys(w, step) && put_text(w, step, "kernel") && put_if_there(w, step, "when") &&
           put_dims(w, step, "grid") && put_dims(w, step, "block") &&
           put_if_there(w, step, "shared") && put_args(w, step);
}

bool ts_launch_from_json(const ts_jr_node *doc, char *text, size_t n, ts_refusal *why)
{
    const ts_jr_node *list = ts_jr_get(doc, "launch");
    writer            w = { .text = text, .n = n, .why = why };
    char              what[256];
    if (n) text[0] = 0;
    if (ts_jr_is(list) != TS_JR_ARR || ts_jr_len(list) < 1 || ts_jr_len(list) > TS_LAUNCH_STEPS)
        return ts_refuse(why, "launch", "entry.json: launch: expected a list of 1 to %d steps",
                         TS_LAUNCH_STEPS);
    if (!put_if_there(&w, doc, "workspace")) return false;
    for (size_t i = 0; i < ts_jr_len(list); i++) {
        snprintf(w.where, sizeof w.where, "step %zu, ", i + 1);
        if (!put_step(&w, ts_jr_at(list, i))) return false;
    }
    ts_launch *plan = ts_launch_read(text, w.used, what, sizeof what);
    if (!plan) return ts_refuse(why, "launch", "entry.json: launch: %s", what);
    ts_launch_free(plan);
    return true;
}
