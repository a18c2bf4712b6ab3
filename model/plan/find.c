/* SPDX-License-Identifier: Apache-2.0 */
/* find.c - finds a model or GPU by id or part of it, and suggests the nearest ids for an unknown
 * one. */
#define _GNU_SOURCE
#include <ctype.h>
#include <string.h>

#include "plan_impl.h"

enum { LONGEST = 48, N_NEAR = 3, N_RULES = 4 };

/* Only the first LONGEST letters count. */
int ts_edit_distance(const char *a, const char *b)
{
    int          row[LONGEST + 1];
    const size_t n = strnlen(a, LONGEST), m = strnlen(b, LONGEST);
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int corner = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            const int change = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            const int step = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < step ? change : step;
        }
    }
    return row[m];
}

/* The name as ids are spelled: lower case, words separated by one '-', without the maker. */
static void spell(const char *name, char out[LONGEST + 1])
{
    const char *slash = strchr(name, '/');
    size_t      n = 0;
    for (const char *p = slash ? slash + 1 : name; *p && n < LONGEST; p++) {
        const bool gap = strchr(" -_", *p) != NULL;
        if (!gap) out[n++] = (char)tolower((unsigned char)*p);
        else if (n && out[n - 1] != '-') out[n++] = '-';
    }
    out[n] = 0;
}

/* Whether every word of `name` begins a word of `id`, in this order. */
static bool words_match(const char *name, const char *id)
{
    while (*name) {
        const size_t n = strcspn(name, "-");
        while (id && strncmp(id, name, n)) {
            id = strchr(id, '-');
            id += id != NULL;
        }
        if (!id) return false;
        id += strcspn(id, "-");
        id += *id == '-';
        name += n + (name[n] == '-');
    }
    return true;
}

/* Whether the rest of a name says that its weights are not those of the id, or that it is a file.
 */
static bool is_other(const char *rest)
{
    static const char *const words[] = { "fp8", "fp4",  "int8", "int4", "4bit",  "8bit",
                                         "awq", "gptq", "bnb",  "gguf", ".json", ".safetensors" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(rest, words[i])) return true;
    return false;
}

/* Whether `name` matches `id` by a rule; an earlier rule takes precedence. */
static bool matches(int rule, const char *name, const char *id)
{
    const size_t n = strlen(id);
    switch (rule) {
    case 0:
        return !strcmp(name, id);
    case 1: /* a variant of the same size */
        return !strncmp(name, id, n) && name[n] == '-' && !is_other(name + n);
    case 2:
        return words_match(name, id);
    default:
        return strstr(id, name) != NULL;
    }
}

static const char *id_of(const char *row)
{
    return *(const char *const *)row;
}

/* Lists the ids that match, as many as fit. */
static const void *several(const void *table, size_t stride, int rule, const char *name,
                           const char *kind, char why[TS_PLAN_WHY])
{
    char list[TS_PLAN_WHY / 2] = "";
    int  n_more = 0;
    for (const char *e = table; id_of(e); e += stride) {
        const size_t n = strlen(list);
        if (!matches(rule, name, id_of(e))) continue;
        if (n + strlen(id_of(e)) + 3 < sizeof list)
            snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", id_of(e));
        else n_more++;
    }
    ts_say(why, "got %s '%s', expected one of the matches %s%s", kind, name, list,
           n_more ? ", ..." : "");
    return NULL;
}

static const void *unknown(const void *table, size_t stride, const char *name, const char *kind,
                           char why[TS_PLAN_WHY])
{
    const char *near[N_NEAR] = { 0 };
    int         how_near[N_NEAR];
    for (const char *e = table; id_of(e); e += stride) {
        const int d = ts_edit_distance(name, id_of(e));
        int       at = N_NEAR;
        while (at > 0 && (!near[at - 1] || d < how_near[at - 1])) at--;
        for (int i = N_NEAR - 1; i > at; i--) near[i] = near[i - 1], how_near[i] = how_near[i - 1];
        if (at < N_NEAR) near[at] = id_of(e), how_near[at] = d;
    }
    ts_say(why, "unknown %s '%s'; nearest are %s, %s and %s; see 'touchstone list %ss'", kind, name,
           near[0], near[1], near[2], kind);
    return NULL;
}

/* Searches a table of `stride`-byte rows that begin with their id: the only row that matches by the
 * first rule by which any does. */
static const void *find(const void *table, size_t stride, const char *asked, const char *kind,
                        char why[TS_PLAN_WHY])
{
    char name[LONGEST + 1];
    spell(asked, name);
    for (int rule = 0; *name && rule < N_RULES; rule++) {
        const char *found = NULL;
        int         n = 0;
        for (const char *e = table; id_of(e); e += stride)
            if (matches(rule, name, id_of(e))) found = e, n++;
        if (n == 1) return found;
        if (n > 1) return several(table, stride, rule, name, kind, why);
    }
    return unknown(table, stride, name, kind, why);
}

const ts_plan_model *ts_plan_find_model(const char *id, char why[TS_PLAN_WHY])
{
    return find(ts_plan_models, sizeof *ts_plan_models, id, "model", why);
}

const ts_plan_gpu *ts_plan_find_gpu(const char *id, char why[TS_PLAN_WHY])
{
    return find(ts_plan_gpus, sizeof *ts_plan_gpus, id, "gpu", why);
}
