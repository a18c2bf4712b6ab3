/* SPDX-License-Identifier: Apache-2.0 */
/* smuggled.c - finds pragmas and attributes that change flags, in preprocessed text.
 *
 * The judge itself searches, not the reader: a reader that malicious text has taken over would
 * find none. */
#define _GNU_SOURCE
#include "smuggled.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

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
