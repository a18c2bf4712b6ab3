/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - scans source text: comments, calls, includes, and pragmas that change flags. */
#define _GNU_SOURCE
#include "source.h"

#include <ctype.h>
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

bool ts_needs_host(const char *text)
{
    static const char *const sealed[] = { "stdint.h",   "stddef.h",    "stdbool.h", "float.h",
                                          "limits.h",   "math.h",      "string.h",  "assert.h",
                                          "stdalign.h", "stdatomic.h", "arm_neon.h" };
    char                     name[256];
    bool                     quoted;
    const char              *p = text;
    while ((p = ts_next_include(p, name, sizeof name, &quoted))) {
        const size_t n = strlen(name);
        bool         known = quoted || !strncmp(name, "touchstone/", 11) ||
                     (n > 8 && !strcmp(name + n - 8, "intrin.h"));
        for (size_t i = 0; i < sizeof sealed / sizeof *sealed; i++)
            known |= !strcmp(name, sealed[i]);
        if (!known) return true;
    }
    return strstr(text, "#pragma omp") != NULL;
}

/* ---- flags in the text ---- */

/* Whether the line of n bytes contains all of the words, in any order. */
static bool holds(const char *line, size_t n, const char *words)
{
    while (*words) {
        const size_t w = strcspn(words, " ");
        if (!memmem(line, n, words, w)) return false;
        words += w + (words[w] == ' ');
    }
    return true;
}

/* A line that begins with '#'. */
static const char *bad_pragma(const char *line, size_t n)
{
    static const char *const bad[] = {
        "GCC optimize",          "clang optimize",   "clang fp",
        "float_control",         "STDC FENV_ACCESS", "STDC FP_CONTRACT",
        "STDC CX_LIMITED_RANGE", "fp_contract",      "fenv_access",
        "clang attribute"
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad && holds(line, n, "pragma"); i++)
        if (holds(line, n, bad[i])) return bad[i];
    return NULL;
}

static bool is_optimize(const char *p, const char *stop, const char *end)
{
    const size_t n = (size_t)(stop - p);
    if (!(n == 8 && !memcmp(p, "optimize", n)) && !(n == 12 && !memcmp(p, "__optimize__", n)))
        return false;
    while (stop < end && isspace((unsigned char)*stop)) stop++;
    return stop < end && (*stop == '(' || *stop == '#'); /* a line marker may come between */
}

/* Literals are not skipped: with raw strings, code could pose as a literal. So `f(optimize(x))` is
 * rejected too. */
const char *ts_smuggled(const char *text, size_t n)
{
    const char *end = text + n, *p = text;
    char        last = 0, kept = 0; /* the last significant character; that of lines without '#' */
    bool        fresh = true, hash = false;
    while (p < end) {
        const char *from = p;
        if (fresh && *p == '#') {
            const char *stop = memchr(p, '\n', (size_t)(end - p));
            const char *found = bad_pragma(p, (size_t)((stop ? stop : end) - p));
            if (found) return found;
            hash = true;
            kept = last;
        }
        while (p < end && is_word(*p)) p++;
        if (p > from && is_optimize(from, p, end) && (hash || strchr("(,:", last)))
            return "__attribute__((optimize))";
        if (p == from) p++;
        if (!isspace((unsigned char)*from)) last = p[-1];
        if (*from == '\n' && hash) {
            last = kept;
            hash = false;
        }
        fresh = *from == '\n' || (fresh && isspace((unsigned char)*from));
    }
    return NULL;
}
