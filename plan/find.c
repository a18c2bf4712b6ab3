/* SPDX-License-Identifier: Apache-2.0 */
/* find.c - finds a model or GPU by id, and suggests the nearest ids for an unknown one. */
#define _GNU_SOURCE
#include <string.h>

#include "plan_impl.h"

enum { LONGEST = 48, N_NEAR = 3 };

bool ts_plan_say(char why[TS_PLAN_WHY], const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(why, TS_PLAN_WHY, format, list);
    va_end(list);
    for (char *p = why; *p; p++)
        if ((unsigned char)*p < 32 || (unsigned char)*p > 126)
            *p = '?'; /* the text may come from a file */
    return false;
}

/* Edit distance of a and b. Only the first LONGEST letters count. */
static int distance(const char *a, const char *b)
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

/* Lists the ids that contain it, as many as fit. */
static const void *several(const void *table, size_t stride, const char *id, const char *kind,
                           char why[TS_PLAN_WHY])
{
    char list[TS_PLAN_WHY / 2] = "";
    for (const char *e = table; *(const char *const *)e; e += stride) {
        const char  *name = *(const char *const *)e;
        const size_t n = strlen(list);
        if (strcasestr(name, id) && n + strlen(name) + 3 < sizeof list)
            snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", name);
    }
    ts_plan_say(why, "got %s '%.48s', expected one of the matches %s", kind, id, list);
    return NULL;
}

/* Searches a table of `stride`-byte rows that begin with their id: the row of that id, ignoring
 * case, or the only one that contains it. */
static const void *find(const void *table, size_t stride, const char *id, const char *kind,
                        char why[TS_PLAN_WHY])
{
    const char *near[N_NEAR] = { 0 }, *part = NULL;
    int         how_near[N_NEAR], n_parts = 0;
    for (const char *e = table; *(const char *const *)e; e += stride) {
        const char *name = *(const char *const *)e;
        if (!strcasecmp(name, id)) return e;
        if (*id && strcasestr(name, id)) part = e, n_parts++;
        const int d = distance(id, name);
        int       at = N_NEAR;
        while (at > 0 && (!near[at - 1] || d < how_near[at - 1])) at--;
        for (int i = N_NEAR - 1; i > at; i--) near[i] = near[i - 1], how_near[i] = how_near[i - 1];
        if (at < N_NEAR) near[at] = name, how_near[at] = d;
    }
    if (n_parts == 1) return part;
    if (n_parts > 1) return several(table, stride, id, kind, why);
    ts_plan_say(why, "unknown %s '%.48s'; nearest are %s, %s and %s; see 'touchstone list %ss'",
                kind, id, near[0], near[1], near[2], kind);
    return NULL;
}

const ts_plan_model *ts_plan_find_model(const char *id, char why[TS_PLAN_WHY])
{
    return find(ts_plan_models, sizeof *ts_plan_models, id, "model", why);
}

const ts_plan_gpu *ts_plan_find_gpu(const char *id, char why[TS_PLAN_WHY])
{
    return find(ts_plan_gpus, sizeof *ts_plan_gpus, id, "gpu", why);
}
