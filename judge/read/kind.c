/* SPDX-License-Identifier: Apache-2.0 */
/* kind.c - rules for an entrant's names, class, language and scope; and how it is rejected. */
#include "kind.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "reading.h"
#include "show.h"

const char *const ts_class_names[] = { "sealed",     "host",     "python",
                                       "sealed-gpu", "host-gpu", "python-gpu" };
const char *const ts_language_names[] = { "c", "c++", "python", "binary", "cuda" };

bool ts_class_takes(ts_class cls, ts_language language)
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

/* The first row of a language gives the class of a single file. */
static const ts_ending endings[] = {
    { ".c", TS_C, TS_SEALED, true },     { ".h", TS_C, TS_SEALED, false },
    { ".cpp", TS_CXX, TS_HOST, true },   { ".cc", TS_CXX, TS_HOST, true },
    { ".cxx", TS_CXX, TS_HOST, true },   { ".hpp", TS_CXX, TS_HOST, false },
    { ".cu", TS_CU, TS_GPU_HOST, true }, { ".cuh", TS_CU, TS_GPU_HOST, false },
    { ".py", TS_PY, TS_PYTHON, true },   { ".so", TS_BINARY, TS_HOST, true },
};

const char *ts_class_name(ts_class c)
{
    return ts_class_names[c];
}

const char *ts_language_name(ts_language l)
{
    return ts_language_names[l];
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

const ts_ending *ts_ending_of(const char *name)
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
    const ts_ending *kind = ts_ending_of(name);
    return kind && kind->unit;
}

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

bool ts_source_ok(const char *name, ts_language language, int n_sources, ts_refusal *why)
{
    const ts_ending *kind = ts_ending_of(name);
    if (!path_ok(name))
        return ts_refuse(
            why, "entry",
            "source '%s': expected a path inside the folder of at most %d letters, digits or ._+-/",
            name, TS_ENTRANT_NAME);
    if (!kind || (kind->language != language && !(kind->language == TS_C && language == TS_CXX) &&
                  !(kind->language == TS_C && language == TS_CU && !kind->unit)))
        return ts_refuse(why, "entry", "source '%s': extension does not match language %s", name,
                         ts_language_name(language));
    return n_sources < TS_ENTRANT_SOURCES ||
           ts_refuse(why, "size", "more than %d sources", TS_ENTRANT_SOURCES);
}

long ts_name_length(const char *text)
{
    long count = 0;
    for (; *text; count++) {
        uint32_t  c = 0;
        const int n = ts_utf8(text, strlen(text), &c);
        if (!n || ts_hostile(c)) return -1;
        text += n;
    }
    return count;
}

/* ASCII, so that it never needs escaping. scope.c checks whether it is valid. */
bool ts_offers_ok(const char *text, ts_refusal *why)
{
    const size_t n = text ? strlen(text) : 0;
    bool         plain = n > 0 && n <= TS_ENTRANT_OFFERS;
    for (size_t i = 0; i < n && plain; i++) plain = text[i] >= ' ' && text[i] < 127;
    return plain ||
           ts_refuse(why, "entry",
                     "'offers': expected an expression of 1 to %d ASCII characters, such as "
                     "k <= 32 && dtype == f32",
                     TS_ENTRANT_OFFERS);
}

const char *const ts_reading_reasons[] = { "", "entry", "size", "launch" };
