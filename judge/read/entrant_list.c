/* SPDX-License-Identifier: Apache-2.0 */
/* entrant_list.c - lists the answers in a tree of folders, and whose they are. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entrant.h"
#include "task.h"

enum { DEEPEST = 12, PARTS = 16 };

static bool has_entry(const char *path)
{
    char json[4200];
    snprintf(json, sizeof json, "%s/entry.json", path);
    return !access(json, F_OK);
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t n = strlen(name), m = strlen(ending);
    return n > m && !strcmp(name + n - m, ending);
}

static const char *challenge_called(const char *name)
{
    const ts_task *t = ts_task_called(name);
    return t && !t->no_challenge ? t->name : NULL;
}

/* "sample-3", "sample_3", "sample3" */
static bool is_sample(const char *part)
{
    if (strncmp(part, "sample", 6)) return false;
    part += 6 + (part[6] == '-' || part[6] == '_');
    return *part && !part[strspn(part, "0123456789")];
}

/* The name of the folder itself, also of ".". */
static void name_of_folder(const char *path, char *name, size_t n)
{
    char *whole = realpath(path, NULL), *last = whole ? strrchr(whole, '/') : NULL;
    snprintf(name, n, "%.*s", (int)n - 1, last && last[1] ? last + 1 : "mine");
    free(whole);
}

static void append(char *text, size_t n, const char *part)
{
    const size_t at = strlen(text);
    snprintf(text + at, n - at, "%s%s", at ? "/" : "", part);
}

/* Finds the model, challenge and sample of `below`, a path below the folder `root` (a file's
 * without its ending). Parts before the first one that is a challenge's name are the model, parts
 * after it the sample. */
static void identify(const char *root, const char *below, bool file, ts_answer *a)
{
    char room[4096], *part[PARTS], *save;
    int  n = 0, at = 0;
    snprintf(room, sizeof room, "%s", below);
    for (char *p = strtok_r(room, "/", &save); p && n < PARTS; p = strtok_r(NULL, "/", &save))
        part[n++] = p;
    while (at < n && !challenge_called(part[at])) at++;
    a->challenge = at < n ? challenge_called(part[at]) : NULL;
    for (int i = 0; i < n; i++) {
        if (a->challenge && !strcmp(part[i], a->challenge)) continue;
        if (!a->challenge && file && i == n - 1) continue; /* a stem names no model */
        if (i > at || is_sample(part[i])) append(a->sample, sizeof a->sample, part[i]);
        else append(a->model, sizeof a->model, part[i]);
    }
    if (a->challenge && !*a->model) name_of_folder(root, a->model, sizeof a->model);
    if (!a->challenge && !file) *a->model = *a->sample = 0; /* entry.json names the entrant */
}

static bool add(const char *root, const char *path, bool file, ts_paths *list, ts_refusal *why)
{
    char below[4096];
    if (list->n == TS_ENTRANT_LIST)
        return ts_refuse(why, "size", "%s: more than %d entrants", root, TS_ENTRANT_LIST);
    ts_answer *a = &list->at[list->n];
    *a = (ts_answer) { .path = strdup(path) };
    if (!a->path) return ts_refuse(why, "size", "out of memory");
    snprintf(below, sizeof below, "%s", path + strlen(root) + 1);
    char *slash = strrchr(below, '/'), *dot = strrchr(slash ? slash : below, '.');
    if (file && dot) *dot = 0;
    identify(root, below, file, a);
    list->n++;
    return true;
}

/* A text is an answer only where it is named after a challenge, or is below a folder that is. */
static bool is_answer(const char *root, const char *path, const char *name)
{
    char      below[4096];
    ts_answer a = { 0 };
    if (ts_entrant_takes(name)) return true;
    if (!ends_with(name, ".md")) return false;
    snprintf(below, sizeof below, "%.*s", (int)(strlen(path) - strlen(root) - 4),
             path + strlen(root) + 1);
    identify(root, below, true, &a);
    return a.challenge != NULL;
}

/* A reply saved under a name that no challenge has. The first by name, whatever the file system's
 * order. */
static void ignore(const char *path, const char *name, ts_paths *list)
{
    if ((!ends_with(name, ".md") && !ends_with(name, ".txt")) || !strncmp(name, "README", 6))
        return;
    if (!list->n_ignored++ || strcmp(path, list->ignored) < 0)
        snprintf(list->ignored, sizeof list->ignored, "%s", path);
}

static bool walk(const char *root, const char *path, int depth, ts_paths *list, ts_refusal *why)
{
    DIR *d = opendir(path);
    bool ok = true;
    for (struct dirent *entry; ok && d && (entry = readdir(d));) {
        struct stat st;
        char        full[4096];
        if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "__pycache__")) continue;
        if (snprintf(full, sizeof full, "%s/%s", path, entry->d_name) >= (int)sizeof full ||
            lstat(full, &st))
            continue;
        if (S_ISREG(st.st_mode) && is_answer(root, full, entry->d_name))
            ok = add(root, full, true, list, why);
        else if (S_ISREG(st.st_mode)) ignore(full, entry->d_name, list);
        else if (S_ISDIR(st.st_mode) && has_entry(full)) ok = add(root, full, false, list, why);
        else if (S_ISDIR(st.st_mode) && depth < DEEPEST)
            ok = walk(root, full, depth + 1, list, why);
    }
    if (d) closedir(d);
    return ok;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const ts_answer *)a)->path, ((const ts_answer *)b)->path);
}

/* A file, or a folder with entry.json, given directly. A file that is named after a challenge takes
 * the name of its folder. */
static bool list_one(const char *path, ts_paths *list, ts_refusal *why)
{
    char        stem[256], parent[4096];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    ts_answer  *a = &list->at[0];
    *a = (ts_answer) { .path = strdup(path) };
    if (!a->path) return ts_refuse(why, "size", "out of memory");
    list->n = 1;
    snprintf(stem, sizeof stem, "%.*s", (int)strcspn(name, "."), name);
    if (has_entry(path) || !challenge_called(stem)) return true;
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    a->challenge = challenge_called(stem);
    name_of_folder(parent, a->model, sizeof a->model);
    return true;
}

bool ts_entrant_list(const char *path, ts_paths *list, ts_refusal *why)
{
    struct stat st;
    char        root[4096];
    list->n = list->n_ignored = 0;
    if (has_entry(path) || stat(path, &st) || !S_ISDIR(st.st_mode))
        return list_one(path, list, why);
    snprintf(root, sizeof root, "%s", path);
    for (size_t n = strlen(root); n > 1 && root[n - 1] == '/';) root[--n] = 0;
    const bool ok = walk(root, root, 0, list, why);
    qsort(list->at, (size_t)list->n, sizeof *list->at, by_path);
    if (ok && list->n) return true;
    if (ok)
        ts_refuse(why, "entry",
                  "%s: contains no entrant, expected entry.json, .c, .cpp, .cu, .so or .py files, "
                  "or answers in Markdown called CHALLENGE.md%s%.200s",
                  path, list->n_ignored ? "; ignored: " : "", list->n_ignored ? list->ignored : "");
    ts_entrant_list_free(list);
    return false;
}

void ts_entrant_list_free(ts_paths *list)
{
    while (list->n > 0) free(list->at[--list->n].path);
}
