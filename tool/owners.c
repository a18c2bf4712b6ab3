/* SPDX-License-Identifier: Apache-2.0 */
/* owners.c - rejects names of entrants that are another's, or look like it. */
#define _GNU_SOURCE
#include "owners.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "show.h"
#include "tool.h"

/* ---- characters ---- */

enum script { NEUTRAL, LATIN, GREEK, CYRILLIC, OTHER, REFUSED };

/* Combining marks, and what NFKC replaces: superscripts, letterlike and enclosed characters,
 * numerals, ligatures, fullwidth and mathematical letters; also blanks that are not U+0020. */
static const struct {
    uint32_t    from, to;
    enum script is;
} scripts[] = {
    { 0x20, 0x40, NEUTRAL },     { 0x41, 0x5a, LATIN },       { 0x5b, 0x60, NEUTRAL },
    { 0x61, 0x7a, LATIN },       { 0x7b, 0x9f, NEUTRAL },     { 0xa0, 0xbf, REFUSED },
    { 0xc0, 0x2af, LATIN },      { 0x2b0, 0x36f, REFUSED },   { 0x370, 0x3ff, GREEK },
    { 0x400, 0x52f, CYRILLIC },  { 0x1e00, 0x1eff, LATIN },   { 0x1f00, 0x1fff, GREEK },
    { 0x2000, 0x2bff, REFUSED }, { 0x2de0, 0x2dff, REFUSED }, { 0x3000, 0x3000, REFUSED },
    { 0x3001, 0x30ff, NEUTRAL }, { 0x3100, 0x33ff, REFUSED }, { 0x3400, 0x9fff, NEUTRAL },
    { 0xac00, 0xd7a3, NEUTRAL }, { 0xf900, 0xffff, REFUSED }, { 0x10000, 0x10ffff, REFUSED },
};

static enum script script_of(uint32_t c)
{
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (c >= scripts[i].from && c <= scripts[i].to) return scripts[i].is;
    return OTHER;
}

/* NULL, or what is wrong with the name. */
static const char *wrong_in(const char *name)
{
    const size_t n = strlen(name);
    enum script  seen = NEUTRAL;
    if (!n || name[0] == ' ' || name[n - 1] == ' ') return "a blank at an end";
    if (strstr(name, "  ")) return "two blanks in a row";
    for (const char *s = name; *s;) {
        uint32_t          c = 0;
        const int         bytes = ts_utf8(s, strlen(s), &c);
        const enum script is = bytes ? script_of(c) : REFUSED;
        if (is == REFUSED) return "a character that only looks like another";
        if (is != NEUTRAL && seen != NEUTRAL && is != seen) return "letters of several scripts";
        if (is != NEUTRAL) seen = is;
        s += bytes;
    }
    return NULL;
}

/* ---- owners ---- */

typedef struct owner {
    char        name[4 * TS_ENTRANT_NAME + 2], place[PATH_MAX];
    const char *path;
} owner;

static void fold(const char *name, char *to)
{
    for (; *name; name++)
        if (!strchr(" -_", *name)) *to++ = (char)tolower((unsigned char)*name);
    *to = 0;
}

/* An answer's folder in its tree, which may be the tree itself; else the folder that it is in,
 * where a link to it may be. */
static void place_of(const ts_judged *e, char place[PATH_MAX])
{
    char        folder[PATH_MAX];
    struct stat is;
    snprintf(folder, sizeof folder, "%s", e->root ? e->root : e->path);
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--) folder[n - 1] = 0;
    char      *end = strrchr(folder, '/');
    const bool whole = e->root && !stat(e->root, &is) && S_ISDIR(is.st_mode);
    if (!whole && end && end > folder) *end = 0;
    else if (!whole) snprintf(folder, sizeof folder, end ? "/" : ".");
    if (!realpath(folder, place)) snprintf(place, PATH_MAX, "%s", folder);
    const char  *slash = strrchr(place, '/');
    const size_t n = strlen(place);
    if (e->root && (!slash || strcmp(slash + 1, e->entrant.name)))
        snprintf(place + n, PATH_MAX - n, "/%s", e->entrant.name);
}

static bool is_reserved(const char *name)
{
    static const char *const own[] = { "touchstone", "textbook", "threepass", "numpytextbook",
                                       "anchor",     "library",  "judge" };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(own[i], name)) return true;
    return false;
}

static int by_name(const void *x, const void *y)
{
    const owner *a = x, *b = y;
    const int    d = strcmp(a->name, b->name);
    return d ? d : strcmp(a->path, b->path);
}

static bool is_below(const char *path, const char *folder)
{
    char         whole[PATH_MAX];
    const size_t n = strlen(folder);
    return n && realpath(path, whole) && !strncmp(whole, folder, n) && whole[n] == '/';
}

bool ts_owners_ok(const ts_run *c, const char *own)
{
    owner *list = calloc((size_t)c->n + 1, sizeof *list);
    bool   ok = list;
    size_t n = 0;
    for (int i = 0; i < c->n && ok; i++) {
        const ts_judged *e = c->entrant[i];
        const char      *wrong = wrong_in(e->entrant.name);
        owner           *o = &list[n++];
        o->path = e->path;
        fold(e->entrant.name, o->name);
        place_of(e, o->place);
        if (wrong) ok = ts_fail("%s: the name has %s; rename it", e->path, wrong);
        else if (is_reserved(o->name) && !e->built_in && !is_below(e->path, own))
            ok = ts_fail("%s: name '%s': reserved for the built-in entrant of %s; rename it",
                         e->path, e->entrant.name, own);
    }
    if (ok) qsort(list, n, sizeof *list, by_name);
    for (size_t i = 1; i < n && ok; i++)
        if (!strcmp(list[i - 1].name, list[i].name) && strcmp(list[i - 1].place, list[i].place))
            ok = ts_fail("%s: has the name of %s, which is in another folder; rename one, or judge "
                         "them in separate runs",
                         list[i].path, list[i - 1].path);
    free(list);
    return ok;
}
