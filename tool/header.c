/* SPDX-License-Identifier: Apache-2.0 */
/* header.c - chooses the declarations of a header that a challenge needs.
 *
 * A header is a list of blocks with an empty line between them. A block declares the types and
 * functions that its text outside of comments ends or calls: "} ts_exec;", "ts_kv;", "ts_kv_open(".
 * A block is shown if it declares a name that is needed; then every word of it is needed. */
#define _GNU_SOURCE
#include "header.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "prompt.h"
#include "tool.h"

enum { BLOCKS = 200, WORDS = 2000, FILES = 8 };

typedef struct block {
    const char *begin, *end;
    bool        shown;
} block;

typedef struct reader {
    char       *file[FILES];
    int         n_files;
    block       block[BLOCKS];
    int         n_blocks;
    const char *word[WORDS]; /* needed; with its length */
    size_t      length[WORDS];
    int         n_words;
} reader;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool needs(const reader *r, const char *word, size_t n)
{
    for (int i = 0; i < r->n_words; i++)
        if (r->length[i] == n && !strncmp(r->word[i], word, n)) return true;
    return false;
}

static void need(reader *r, const char *word, size_t n)
{
    if (needs(r, word, n) || r->n_words == WORDS) return;
    r->word[r->n_words] = word;
    r->length[r->n_words++] = n;
}

/* The next word outside of comments at or after s; NULL: there is none. */
static const char *next_word(const char *s, const char *end, size_t *n)
{
    while (s < end && !is_word(*s)) {
        const char *const close = s[0] == '/' && s[1] == '*' ? strstr(s, "*/") : NULL;
        s = close ? close + 2 : s + 1;
    }
    *n = 0;
    while (s + *n < end && is_word(s[*n])) ++*n;
    return *n ? s : NULL;
}

static bool declares_needed(const reader *r, const block *b)
{
    size_t n;
    int    depth = 0;
    for (const char *s = b->begin, *w; (w = next_word(s, b->end, &n)); s = w + n) {
        const char after = w[n];
        for (const char *p = s; p < w; p++) depth += (*p == '{') - (*p == '}');
        const bool of_enum = depth && !strncmp(b->begin, "enum", 4);
        if ((of_enum || (!depth && (after == ';' || after == '('))) && needs(r, w, n)) return true;
    }
    return false;
}

static void need_all(reader *r, const block *b)
{
    size_t n;
    for (const char *s = b->begin, *w; (w = next_word(s, b->end, &n)); s = w + n) need(r, w, n);
}

/* Shows a block, and needs all that it mentions. False: it is shown already, or not needed. */
static bool show(reader *r, block *b)
{
    if (b->shown || !declares_needed(r, b)) return false;
    b->shown = true;
    need_all(r, b);
    return true;
}

/* ---- reading ---- */

static void split(reader *r, const char *s)
{
    const char *const end = s + strlen(s);
    for (s += strspn(s, "\n"); s < end && r->n_blocks < BLOCKS;) {
        const char *stop = strstr(s, "\n\n");
        if (!stop) stop = end;
        if (*s != '#') r->block[r->n_blocks++] = (block) { s, stop, false };
        s = stop + strspn(stop, "\n");
    }
}

static bool read_header(reader *r, const char *folder, const char *header)
{
    char  other[64];
    char *text = r->n_files < FILES ? ts_slurp(folder, header) : NULL;
    if (!text) return false;
    r->file[r->n_files++] = text;
    for (const char *p = text; (p = strstr(p, "#include \"touchstone/")); p++)
        if (sscanf(p, "#include \"touchstone/%60[a-z_0-9.]", other) == 1 &&
            !read_header(r, folder, other))
            return false;
    const char *const body = strstr(text, "extern \"C\" {\n#endif\n");
    split(r, body ? strchr(strchr(body, '\n') + 1, '\n') + 1 : text);
    return true;
}

bool ts_header_write(const char *folder, const char *header, const char *const *names, FILE *to)
{
    static reader r;
    r = (reader) { 0 };
    bool ok = read_header(&r, folder, header);
    for (int i = 0; ok && names[i]; i++) {
        r.n_words = 0;
        need(&r, names[i], strlen(names[i]));
        ok = false;
        for (int b = 0; b < r.n_blocks; b++)
            ok |= show(&r, &r.block[b]) || declares_needed(&r, &r.block[b]);
        if (!ok) ts_fail("%s: not declared in %s", names[i], header);
    }
    r.n_words = 0;
    for (int i = 0; i < r.n_blocks; i++)
        if (r.block[i].shown) need_all(&r, &r.block[i]);
    for (bool more = ok; more;) {
        more = false;
        for (int i = 0; i < r.n_blocks; i++) more |= show(&r, &r.block[i]);
    }
    for (int i = 0, first = 1; ok && i < r.n_blocks; i++) {
        const block *b = &r.block[i];
        if (b->shown)
            fprintf(to, "%s%.*s\n", first ? "" : "\n", (int)(b->end - b->begin), b->begin),
                first = 0;
    }
    while (r.n_files) free(r.file[--r.n_files]);
    return ok;
}
