/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - scans source text: comments, calls, includes. */
#define _GNU_SOURCE
#include "source.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The end of the literal that begins at s; in Python it may be triple-quoted. */
static const char *literal_end(const char *s, const char *end, bool python)
{
    const char q = *s;
    const bool triple = python && end - s >= 3 && s[1] == q && s[2] == q;
    for (s += triple ? 3 : 1; s < end; s++) {
        if (*s == '\\' && s + 1 < end) s++;
        else if (triple && end - s >= 3 && s[0] == q && s[1] == q && s[2] == q) return s + 3;
        else if (!triple && (*s == q || *s == '\n')) return s + 1;
    }
    return end;
}

static const char *comment_end(const char *s, const char *end, bool python)
{
    if (!python && s[1] == '*') {
        for (s += 2; s < end; s++)
            if (end - s >= 2 && s[0] == '*' && s[1] == '/') return s + 2;
        return end;
    }
    while (s < end && *s != '\n') s += !python && *s == '\\' && s + 1 < end ? 2 : 1;
    return s < end ? s : end;
}

void ts_scrub(const char *s, size_t n, bool python, char *out)
{
    const char *end = s + n;
    while (s < end) {
        const bool  pair = end - s >= 2;
        const char *next = s + 1;
        if (!python && pair && s[0] == '\\' && s[1] == '\n') {
            s += 2;
            continue;
        }
        if (python ? *s == '#' : pair && s[0] == '/' && (s[1] == '/' || s[1] == '*')) {
            s = comment_end(s, end, python);
            *out++ = ' ';
            continue;
        }
        if (*s == '"' || *s == '\'') next = literal_end(s, end, python);
        while (s < next) {
            if (*s) *out++ = *s;
            s++;
        }
    }
    *out = 0;
}

bool ts_calls(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += n) {
        const char *after = p + n;
        if ((p > text && is_word(p[-1])) || is_word(*after)) continue;
        while (isspace((unsigned char)*after)) after++;
        if (*after == '(') return true;
    }
    return false;
}

static const char *blanks(const char *p)
{
    return p + strspn(p, " \t");
}

const char *ts_next_include(const char *text, char *name, size_t n_name, bool *quoted)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        const char *p = blanks(line + (*line == '\n'));
        if (*line == '\n') line++;
        if (*p != '#') continue;
        p = blanks(p + 1);
        if (strncmp(p, "include", 7)) continue;
        p = blanks(p + 7);
        const char   close = *p == '<' ? '>' : *p == '"' ? '"' : 0;
        const size_t n = close ? strcspn(p + 1, close == '>' ? ">\n" : "\"\n") : 0;
        if (!close || n == 0 || n >= n_name) continue;
        memcpy(name, p + 1, n);
        name[n] = 0;
        *quoted = close == '"';
        return p + 1 + n;
    }
    return NULL;
}

bool ts_needs_host(const char *text, char *cause, size_t n)
{
    static const char *const sealed[] = { "stdint.h",   "stddef.h",    "stdbool.h", "float.h",
                                          "limits.h",   "math.h",      "string.h",  "assert.h",
                                          "stdalign.h", "stdatomic.h", "arm_neon.h" };
    char                     name[256];
    bool                     quoted;
    const char              *p = text;
    while ((p = ts_next_include(p, name, sizeof name, &quoted))) {
        const size_t length = strlen(name);
        bool         known = quoted || !strncmp(name, "touchstone/", 11) ||
                     (length > 8 && !strcmp(name + length - 8, "intrin.h"));
        for (size_t i = 0; i < sizeof sealed / sizeof *sealed; i++)
            known |= !strcmp(name, sealed[i]);
        if (!known) return snprintf(cause, n, "#include <%s>", name), true;
    }
    const bool parallel = strstr(text, "#pragma omp") != NULL;
    snprintf(cause, n, "%s", parallel ? "#pragma omp" : "");
    return parallel;
}
