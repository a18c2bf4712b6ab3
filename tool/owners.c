/* SPDX-License-Identifier: Apache-2.0 */
/* owners.c - rejects names of entrants that are another's, or look like it. */
#define _GNU_SOURCE
#include "owners.h"

#include <ctype.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <wchar.h>
#include <wctype.h>

#include "judge_entrants.h"
#include "show.h"
#include "tool.h"

/* ---- characters ---- */

enum script { NEUTRAL, LATIN, GREEK, CYRILLIC, OTHER, REFUSED };

/* The first that contains the character. Of the phonetic letters, among which are small capitals,
 * only those that alphabets have. */
static const struct {
    uint32_t    from, to;
    enum script is;
} scripts[] = {
    { 0x20, 0x40, NEUTRAL },     { 0x41, 0x5a, LATIN },          { 0x5b, 0x60, NEUTRAL },
    { 0x61, 0x7a, LATIN },       { 0x7b, 0x7e, NEUTRAL },        { 0x7f, 0xbf, REFUSED },
    { 0xc0, 0x24f, LATIN },      { 0x253, 0x254, LATIN },        { 0x256, 0x257, LATIN },
    { 0x259, 0x259, LATIN },     { 0x25b, 0x25b, LATIN },        { 0x263, 0x263, LATIN },
    { 0x268, 0x269, LATIN },     { 0x272, 0x272, LATIN },        { 0x289, 0x28b, LATIN },
    { 0x292, 0x292, LATIN },     { 0x250, 0x36f, REFUSED },      { 0x370, 0x3ff, GREEK },
    { 0x400, 0x482, CYRILLIC },  { 0x483, 0x489, REFUSED },      { 0x48a, 0x52f, CYRILLIC },
    { 0x1100, 0x11ff, REFUSED }, { 0x1d00, 0x1dff, REFUSED },    { 0x1e00, 0x1eff, LATIN },
    { 0x1f00, 0x1fff, GREEK },   { 0x2000, 0x2bff, REFUSED },    { 0x2c60, 0x2c7f, REFUSED },
    { 0x2de0, 0x2fff, REFUSED }, { 0x3000, 0x3000, REFUSED },    { 0x3001, 0x30ff, NEUTRAL },
    { 0x3100, 0x33ff, REFUSED }, { 0x3400, 0x9fff, NEUTRAL },    { 0xa640, 0xa7ff, REFUSED },
    { 0xa960, 0xa97f, REFUSED }, { 0xab30, 0xab6f, REFUSED },    { 0xac00, 0xd7a3, NEUTRAL },
    { 0xd7a4, 0xffff, REFUSED }, { 0x10000, 0x10ffff, REFUSED },
};

/* Combining marks, what NFKC replaces (superscripts, letterlike and enclosed characters, numerals,
 * ligatures, fullwidth and mathematical letters), what is not visible, and blanks that are not
 * U+0020: those that are not in the ranges above. */
static const uint32_t refused[][2] = {
    { 0x132, 0x133 },   { 0x13f, 0x140 },   { 0x149, 0x149 },   { 0x17f, 0x17f },
    { 0x1c4, 0x1cc },   { 0x1f1, 0x1f3 },   { 0x374, 0x374 },   { 0x37a, 0x37a },
    { 0x37e, 0x37e },   { 0x384, 0x385 },   { 0x387, 0x387 },   { 0x3d0, 0x3d6 },
    { 0x3f0, 0x3f2 },   { 0x3f4, 0x3f5 },   { 0x3f9, 0x3f9 },   { 0x587, 0x587 },
    { 0x591, 0x5c7 },   { 0x600, 0x605 },   { 0x610, 0x61c },   { 0x64b, 0x65f },
    { 0x670, 0x670 },   { 0x675, 0x678 },   { 0x6d6, 0x6ed },   { 0x70f, 0x70f },
    { 0x890, 0x891 },   { 0x8d3, 0x8ff },   { 0x958, 0x95f },   { 0x9dc, 0x9df },
    { 0xa33, 0xa36 },   { 0xa59, 0xa5e },   { 0xb5c, 0xb5d },   { 0xe33, 0xe33 },
    { 0xeb3, 0xeb3 },   { 0xedc, 0xedd },   { 0xf0c, 0xf0c },   { 0xf43, 0xfb9 },
    { 0x10fc, 0x10fc }, { 0x1680, 0x1680 }, { 0x17b4, 0x17b5 }, { 0x180b, 0x180f },
    { 0x1ab0, 0x1aff }, { 0x1e9a, 0x1e9b }, { 0x1f71, 0x1f71 }, { 0x1f73, 0x1f73 },
    { 0x1f75, 0x1f75 }, { 0x1f77, 0x1f77 }, { 0x1f79, 0x1f79 }, { 0x1f7b, 0x1f7b },
    { 0x1f7d, 0x1f7d }, { 0x1fbb, 0x1fbb }, { 0x1fbd, 0x1fc1 }, { 0x1fc9, 0x1fc9 },
    { 0x1fcb, 0x1fcb }, { 0x1fcd, 0x1fcf }, { 0x1fd3, 0x1fd3 }, { 0x1fdb, 0x1fdb },
    { 0x1fdd, 0x1fdf }, { 0x1fe3, 0x1fe3 }, { 0x1feb, 0x1feb }, { 0x1fed, 0x1fef },
    { 0x1ff9, 0x1ff9 }, { 0x1ffb, 0x1ffb }, { 0x1ffd, 0x1fff }, { 0x2d6f, 0x2d6f },
    { 0x3036, 0x3036 }, { 0x3038, 0x303a }, { 0x302a, 0x302f }, { 0x3099, 0x309c },
    { 0x309f, 0x309f }, { 0x30ff, 0x30ff },
};

/* Pairs: a character, and the ASCII one that it looks like. Of ASCII's own, capitals and digits:
 * small letters are compared otherwise, too. */
static const uint32_t alike[][2] = {
    { '0', 'o' },
    { '1', 'l' },
    { 'I', 'l' },
    { '|', 'l' },
    { 0xd7, 'x' },
    { 0x131, 'i' },
    { 0x237, 'j' },
    { 0x185, 'b' },
    { 0x196, 'l' },
    { 0x1a6, 'r' },
    { 0x253, 'b' },
    { 0x256, 'd' },
    { 0x257, 'd' },
    { 0x268, 'i' },
    { 0x269, 'i' },
    { 0x272, 'n' },
    { 0x289, 'u' },
    { 0x28a, 'u' },
    { 0x28b, 'v' },
    { 0x292, '3' },
    { 0x1c0, 'l' },
    { 0x1c3, '!' },
    /* Greek */
    { 0x391, 'a' },
    { 0x392, 'b' },
    { 0x395, 'e' },
    { 0x396, 'z' },
    { 0x397, 'h' },
    { 0x399, 'l' },
    { 0x39a, 'k' },
    { 0x39c, 'm' },
    { 0x39d, 'n' },
    { 0x39f, 'o' },
    { 0x3a1, 'p' },
    { 0x3a4, 't' },
    { 0x3a5, 'y' },
    { 0x3a7, 'x' },
    { 0x3b1, 'a' },
    { 0x3b3, 'y' },
    { 0x3b9, 'i' },
    { 0x3ba, 'k' },
    { 0x3bd, 'v' },
    { 0x3bf, 'o' },
    { 0x3c1, 'p' },
    { 0x3c3, 'o' },
    { 0x3c4, 't' },
    { 0x3c5, 'u' },
    { 0x3c7, 'x' },
    { 0x3f3, 'j' },
    /* Cyrillic */
    { 0x405, 's' },
    { 0x406, 'l' },
    { 0x408, 'j' },
    { 0x410, 'a' },
    { 0x412, 'b' },
    { 0x413, 'r' },
    { 0x415, 'e' },
    { 0x417, '3' },
    { 0x41a, 'k' },
    { 0x41c, 'm' },
    { 0x41d, 'h' },
    { 0x41e, 'o' },
    { 0x420, 'p' },
    { 0x421, 'c' },
    { 0x422, 't' },
    { 0x423, 'y' },
    { 0x425, 'x' },
    { 0x430, 'a' },
    { 0x432, 'b' },
    { 0x433, 'r' },
    { 0x435, 'e' },
    { 0x437, '3' },
    { 0x43a, 'k' },
    { 0x43c, 'm' },
    { 0x43d, 'h' },
    { 0x43e, 'o' },
    { 0x43f, 'n' },
    { 0x440, 'p' },
    { 0x441, 'c' },
    { 0x442, 't' },
    { 0x443, 'y' },
    { 0x445, 'x' },
    { 0x44c, 'b' },
    { 0x455, 's' },
    { 0x456, 'i' },
    { 0x458, 'j' },
    { 0x4ae, 'y' },
    { 0x4af, 'y' },
    { 0x4bb, 'h' },
    { 0x4c0, 'l' },
    { 0x4cf, 'l' },
    { 0x501, 'd' },
    { 0x50c, 'g' },
    { 0x51a, 'q' },
    { 0x51b, 'q' },
    { 0x51c, 'w' },
    { 0x51d, 'w' },
};

static enum script script_of(uint32_t c)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (c >= refused[i][0] && c <= refused[i][1]) return REFUSED;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (c >= scripts[i].from && c <= scripts[i].to) return scripts[i].is;
    return c < 0x20 ? REFUSED : OTHER;
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
        if (!bytes) return "bytes that are not UTF-8";
        if (ts_hostile(c)) return "a control character, or one that is not visible";
        if (is == REFUSED) return "a character that only looks like another";
        if (is != NEUTRAL && seen != NEUTRAL && is != seen) return "letters of several scripts";
        if (is != NEUTRAL) seen = is;
        s += bytes;
    }
    return NULL;
}

/* ---- owners ---- */

/* A name as it is compared, without blanks, '-' and '_': in small letters, and as it looks. */
typedef struct folded {
    wchar_t small[TS_ENTRANT_NAME + 1], looks[TS_ENTRANT_NAME + 1];
} folded;

typedef struct owner {
    folded      name;
    char        place[PATH_MAX];
    const char *path;
} owner;

static wint_t small_of(wint_t c)
{
    static locale_t utf8;
    if (!utf8) utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
    const wint_t l = utf8 ? towlower_l(c, utf8) : c < 0x80 ? (wint_t)tolower((int)c) : c;
    return l == 0x3c2 ? 0x3c3 : l; /* sigma at the end of a word */
}

static wint_t look_of(uint32_t c)
{
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        if (alike[i][0] == c) return alike[i][1];
    return small_of(c);
}

static void fold(const char *name, folded *f)
{
    size_t n = 0, k = 0;
    for (const char *s = name; *s && n < TS_ENTRANT_NAME;) {
        uint32_t  c = 0;
        const int bytes = ts_utf8(s, strlen(s), &c);
        s += bytes ? bytes : 1;
        if (c < 0x80 && strchr(" -_", (int)c)) continue;
        f->small[n++] = (wchar_t)small_of(c);
        f->looks[k++] = (wchar_t)look_of(c);
        if (k >= 2 && !wcsncmp(f->looks + k - 2, L"rn", 2)) f->looks[--k - 1] = L'm';
        if (k >= 2 && !wcsncmp(f->looks + k - 2, L"vv", 2)) f->looks[--k - 1] = L'w';
    }
    f->small[n] = f->looks[k] = 0;
}

static bool same_name(const folded *a, const folded *b)
{
    return !wcscmp(a->small, b->small) || !wcscmp(a->looks, b->looks);
}

/* Whether the last part of a path is a challenge's name, as a contestant's folders may be called.
 */
static bool is_challenge(const char *path)
{
    const char *slash = strrchr(path, '/');
    return ts_task_called(slash ? slash + 1 : path) != NULL;
}

/* "." and "..", also at the end of a path. */
static bool has_no_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
    return !last[strspn(last, ".")];
}

/* An answer's folder in its tree, which may be the tree itself; of a file, the folder that it is
 * in; of a folder with entry.json, that folder, or the one that it is in if it is called like a
 * challenge. Where a link to it may be. */
static void place_of(const ts_judged *e, char place[PATH_MAX])
{
    char        folder[PATH_MAX];
    struct stat is;
    snprintf(folder, sizeof folder, "%s", e->root ? e->root : e->path);
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--) folder[n - 1] = 0;
    if (has_no_name(folder) && realpath(folder, place))
        snprintf(folder, sizeof folder, "%s", place);
    char      *end = strrchr(folder, '/');
    const bool is_folder = !stat(folder, &is) && S_ISDIR(is.st_mode);
    const bool whole = is_folder && (e->root || !is_challenge(folder));
    if (!whole && end && end > folder) *end = 0;
    else if (!whole) snprintf(folder, sizeof folder, end ? "/" : ".");
    if (!realpath(folder, place)) snprintf(place, PATH_MAX, "%s", folder);
    const char  *slash = strrchr(place, '/');
    const size_t n = strlen(place);
    if (e->root && (!slash || strcmp(slash + 1, e->entrant.name)))
        snprintf(place + n, PATH_MAX - n, "/%s", e->entrant.name);
}

static bool is_reserved(const folded *name)
{
    static const char *const own[] = { "numpytextbook", "anchor", "library", "judge" };
    const size_t             n = sizeof own / sizeof *own;
    const char              *s;
    for (size_t i = 0; (s = i < n ? own[i] : ts_built_in_name(i - n)); i++) {
        folded f;
        fold(s, &f);
        if (same_name(&f, name)) return true;
    }
    return false;
}

static int by_path(const void *x, const void *y)
{
    return strcmp(((const owner *)x)->path, ((const owner *)y)->path);
}

/* One error line that names both places, if the name is of two owners. */
static bool differ(const owner *a, const owner *b)
{
    if (!same_name(&a->name, &b->name) || !strcmp(a->place, b->place)) return true;
    return ts_fail(
        "%s: has the name of %s, or one that looks like it, and is in another folder; rename "
        "one, or judge them in separate runs",
        b->path, a->path);
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
        fold(e->entrant.name, &o->name);
        place_of(e, o->place);
        if (wrong) ok = ts_fail("%s: the name has %s; rename it", e->path, wrong);
        else if (is_reserved(&o->name) && !e->built_in && !is_below(e->path, own))
            ok = ts_fail("%s: name '%s': reserved for the built-in entrant of %s; rename it",
                         e->path, e->entrant.name, own);
    }
    if (ok) qsort(list, n, sizeof *list, by_path);
    for (size_t i = 0; i < n && ok; i++)
        for (size_t k = 0; k < i && ok; k++) ok = differ(&list[k], &list[i]);
    free(list);
    return ok;
}
