/* SPDX-License-Identifier: Apache-2.0 */
/* markup.c - drops the parts of other languages, puts values in, and fills paragraphs. */
#define _GNU_SOURCE
#include "markup.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 100 };

/* ---- parts and marks ---- */

/* The length of "{c,cuda|" at the start of s, and whether one of its tags is set; 0: no part. */
static size_t opening(const char *s, const char *tags, bool *kept)
{
    size_t n = 1;
    *kept = false;
    while (s[0] == '{') {
        char         word[34];
        const size_t len = strspn(s + n, "abcdefghijklmnopqrstuvwxyz+");
        if (!len || len > sizeof word - 3) return 0;
        snprintf(word, sizeof word, " %.*s ", (int)len, s + n);
        *kept |= strstr(tags, word) != NULL;
        n += len + 1;
        if (s[n - 1] == '|') return n;
        if (s[n - 1] != ',') return 0;
    }
    return 0;
}

static const ts_mark *mark_at(const char *s, const ts_mark *marks)
{
    const ts_mark *m = marks;
    while (m->name && strncmp(s, m->name, strlen(m->name))) m++;
    return m->name ? m : NULL;
}

static char *select_parts(const char *text, const char *tags, const ts_mark *marks)
{
    char  *out = NULL;
    size_t n;
    FILE  *f = open_memstream(&out, &n);
    bool   inside = false, kept = true, starts = true, wrote = true; /* of this line */
    if (!f) abort();
    for (const char *s = text; *s; s++) {
        const ts_mark *m;
        bool           here;
        const size_t   open = inside ? 0 : opening(s, tags, &here);
        if (open) {
            inside = true, kept = here, s += open - 1;
            if (starts) wrote = false;
        } else if (inside && *s == '}') inside = false, kept = true;
        else if (!kept) continue;
        else if (*s == '@' && (m = mark_at(s, marks)))
            fputs(m->value, f), s += strlen(m->name) - 1, wrote = true;
        else if (*s != '\n') fputc(*s, f), starts = false, wrote = true;
        else {
            if (wrote) fputc('\n', f);
            starts = wrote = true;
        }
    }
    fclose(f);
    return out;
}

/* ---- filling ---- */

static bool is_item(const char *line)
{
    return line[0] == '-' && line[1] == ' ';
}

static bool is_verbatim(const char *line)
{
    return strchr("\n|#`", *line) != NULL ? *line != '`' || !strncmp(line, "```", 3)
                                          : !strncmp(line, "    ", 4);
}

/* A line must not begin with what would make it an item of a list. */
static bool may_begin(const char *word, size_t n)
{
    return !(n == 1 && strchr("-+*=", *word)) && *word != '#';
}

static const char *next_line(const char *s)
{
    s += strcspn(s, "\n");
    return *s ? s + 1 : s;
}

/* From a line to the end of its paragraph. */
static const char *fill(const char *s, FILE *to)
{
    const int indent = is_item(s) || !strncmp(s, "  ", 2) ? 2 : 0;
    size_t    column = 0;
    if (!is_item(s)) fprintf(to, "%*s", indent, "");
    for (bool first = true;; first = false) {
        if (!first && (!*s || is_item(s) || is_verbatim(s))) break;
        const char *const end = s + strcspn(s, "\n");
        while (s < end) {
            while (s < end && *s == ' ') s++;
            const size_t n = strcspn(s, " \n");
            if (!n) break;
            if (column && column + 1 + n > (size_t)(COLUMNS - indent) && may_begin(s, n))
                fprintf(to, "\n%*s", indent, ""), column = 0;
            else if (column) fputc(' ', to), column++;
            fwrite(s, 1, n, to);
            column += n, s += n;
        }
        s = next_line(s);
    }
    fputc('\n', to);
    return s;
}

void ts_markup(const char *text, const char *tags, const ts_mark *marks, FILE *to)
{
    char *const chosen = select_parts(text, tags, marks);
    bool        code = false, blank = true; /* of two empty lines one is written */
    for (const char *s = chosen; *s;) {
        code ^= !strncmp(s, "```", 3);
        if (!code && !is_verbatim(s)) {
            s = fill(s, to);
            blank = false;
            continue;
        }
        const int n = (int)strcspn(s, "\n");
        if (n || code || !blank) fprintf(to, "%.*s\n", n, s);
        blank = !n;
        s = next_line(s);
    }
    free(chosen);
}
