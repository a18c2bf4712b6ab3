/* SPDX-License-Identifier: Apache-2.0 */
/* entrant_list.c - lists the entrants at a path. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entrant.h"

static bool has_entry(const char *path)
{
    char json[4200];
    snprintf(json, sizeof json, "%s/entry.json", path);
    return !access(json, F_OK);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool list_folder(DIR *d, const char *path, ts_paths *list, ts_refusal *why)
{
    for (struct dirent *entry; (entry = readdir(d));) {
        struct stat st;
        char        full[4096];
        if (entry->d_name[0] == '.') continue;
        if (snprintf(full, sizeof full, "%s/%s", path, entry->d_name) >= (int)sizeof full ||
            lstat(full, &st))
            continue;
        const bool file = S_ISREG(st.st_mode) && ts_entrant_takes(entry->d_name);
        if (!file && !(S_ISDIR(st.st_mode) && has_entry(full))) continue;
        if (list->n == TS_ENTRANT_LIST)
            return ts_refuse(why, "size", "%s: more than %d entrants", path, TS_ENTRANT_LIST);
        list->path[list->n] = strdup(full);
        if (!list->path[list->n++]) return ts_refuse(why, "size", "out of memory");
    }
    qsort(list->path, (size_t)list->n, sizeof *list->path, by_text);
    return list->n > 0 ||
           ts_refuse(
               why, "entry",
               "%s: contains no entrant, expected entry.json, or .c, .cpp, .cu, .so or .py files; "
               "for folders of entrants name each: %s/*",
               path, path);
}

bool ts_entrant_list(const char *path, ts_paths *list, ts_refusal *why)
{
    DIR *d = has_entry(path) ? NULL : opendir(path);
    list->n = 0;
    if (d) {
        const bool ok = list_folder(d, path, list, why);
        closedir(d);
        return ok;
    }
    list->path[0] = strdup(path);
    list->n = list->path[0] != NULL;
    return list->n || ts_refuse(why, "size", "out of memory");
}

void ts_entrant_list_free(ts_paths *list)
{
    while (list->n > 0) free(list->path[--list->n]);
}
