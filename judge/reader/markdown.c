/* SPDX-License-Identifier: Apache-2.0 */
/* markdown.c - finds the code block of an answer in Markdown. */
#define _GNU_SOURCE
#include "markdown.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* A fence: how many of ` or ~ a line begins with, 3 or more after at most 3 blanks; else 0. */
static size_t fence(const char *line, char *mark)
{
    size_t blanks = strspn(line, " "), n = 0;
    *mark = line[blanks];
    if (blanks > 3 || (*mark != '`' && *mark != '~')) return 0;
    while (line[blanks + n] == *mark) n++;
    return n >= 3 ? n : 0;
}

static bool has(const char *code, size_t n, const char *word)
{
    return memmem(code, n, word, strlen(word)) != NULL;
}

/* By the mark of the block, which says "cpp" of CUDA as well; else by what it holds. */
static const char *ending_of(const char *info, const char *code, size_t n)
{
    static const struct {
        const char *mark, *ending;
    } known[] = {
        { "c", ".c" },       { "c11", ".c" },      { "cpp", ".cpp" }, { "c++", ".cpp" },
        { "cxx", ".cpp" },   { "cc", ".cpp" },     { "cuda", ".cu" }, { "cu", ".cu" },
        { "python", ".py" }, { "python3", ".py" }, { "py", ".py" },   { "triton", ".py" }
    };
    const bool   kernel = has(code, n, "__global__");
    const size_t length = strcspn(info, " \t\r\n{:");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].mark) == length && !strncasecmp(known[i].mark, info, length))
            return known[i].ending[1] == 'c' && kernel ? ".cu" : known[i].ending;
    if (length) return NULL;
    if (kernel) return ".cu";
    if (has(code, n, "#include")) return ".c";
    return has(code, n, "def ") || has(code, n, "class ") ? ".py" : NULL;
}

/* 2: the block defines what one of the words names, in which a body follows the name and its
 * parameters, of MOST bytes at most; 1: it has a word, for example in a call; 0: none. */
static int rank(const char *code, const char *end, const char *const *word)
{
    static const char blank[] = " \t\r\n";
    enum { MOST = 4096 };
    int rank = 0;
    for (; word && *word; word++)
        for (const char *p = code; (p = memmem(p, (size_t)(end - p), *word, strlen(*word)));) {
            const bool whole = p == code || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
            int        depth = 0;
            p += strlen(*word);
            const char *q = p + strspn(p, blank), *const stop = end - p > MOST ? p + MOST : end;
            do depth += (*q == '(') - (*q == ')');
            while (depth > 0 && ++q < stop);
            if (q < stop && *q == ')' && !depth) q += 1 + strspn(q + 1, blank);
            if (whole && q < stop && (*q == '{' || *q == ':' || !strncmp(q, "->", 2))) return 2;
            rank = 1;
        }
    return rank;
}

bool ts_markdown_code(const char *text, const char *const *wanted, ts_block *b)
{
    const char *info = NULL, *code = NULL;
    size_t      open = 0;
    char        mark = 0;
    int         n_blocks = 0, line = 1, from = 0, best = -1;
    for (const char *p = text;; line++) {
        char         m = 0;
        const size_t length = strcspn(p, "\n"), n = fence(p, &m);
        const char  *after = p + strspn(p, " ") + n, *next = after + strspn(after, " \t\r");
        const bool   last = !p[length];
        const bool   ends = open && n >= open && m == mark && (!*next || *next == '\n');
        if (open && (ends || last)) {
            const char  *stop = ends ? p : p + length;
            const size_t size = (size_t)(stop > code ? stop - code : 0);
            const char  *ending = ending_of(info, code, size);
            const int    now = rank(code, code + size, wanted);
            if (ending && now >= best) {
                *b = (ts_block) { code, size, ending, n_blocks, 0, from, ends };
                best = now;
            }
            open = 0;
        } else if (!open && n) {
            open = n, mark = m, n_blocks++;
            info = after + strspn(after, " \t");
            code = p + length + !last;
            from = line + 1;
        }
        if (last) break;
        p += length + 1;
    }
    b->of = n_blocks;
    return best >= 0;
}
