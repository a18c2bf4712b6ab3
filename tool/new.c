/* SPDX-License-Identifier: Apache-2.0 */
/* new.c - `touchstone new DIR`: what a contestant gets. challenge/ holds the templates. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "registry.h"
#include "task.h"
#include "tool.h"

typedef struct part {
    const char *from; /* "%s" is the challenge */
    const char *to;
} part;

/* Files of a scaffold, by language; entry.json and the headers come on top. */
static const struct language {
    const char *name, *class, *ending;
    part        parts[8];
} languages[] = {
    { "c",
      "sealed",
      "c",
      { { "%s/PROMPT.md", "PROMPT.md" },
        { "%s/starter.c", "%s.c" },
        { "%s/adapter.c", "adapter-example.c" },
        { "%s/selftest.c", "selftest.c" },
        { "common/selftest.h", "selftest.h" },
        { "common/c.mk", "Makefile" } } },
    { "cuda",
      "host-gpu",
      "cu",
      { { "%s/PROMPT.md", "PROMPT.md" },
        { "%s/starter.cu", "%s.cu" },
        { "common/cuda.mk", "Makefile" } } },
    { "python",
      "python",
      "py",
      { { "%s/PROMPT.md", "PROMPT.md" },
        { "%s/starter.py", "%s.py" },
        { "%s/adapter.py", "adapter_example.py" },
        { "%s/selftest.py", "selftest.py" },
        { "common/selftest_common.py", "selftest_common.py" },
        { "common/python.mk", "Makefile" } } },
};

static bool failed(const char *what, const char *path)
{
    fprintf(stderr, "touchstone new: %s: %s: %s\n", path, what, strerror(errno));
    return false;
}

/* challenge/ and include/ lie beside the build folder; installed, challenge/ is under share/. */
static bool find(const char *const *places, char *path, size_t n)
{
    *path = 0;
    return ts_find(places, path, n) || failed("cannot find the templates", path);
}

/* Copies a file; every @ID@ in it becomes the challenge. */
static bool copy(const char *from, const char *to, const char *id)
{
    FILE *in = fopen(from, "r"), *out = in ? fopen(to, "wx") : NULL;
    char  line[1024];
    if (!in) return failed("cannot read", from);
    while (out && fgets(line, sizeof line, in)) {
        char *rest = line;
        for (char *at; (at = strstr(rest, "@ID@")); rest = at + 4)
            fprintf(out, "%.*s%s", (int)(at - rest), rest, id);
        fputs(rest, out);
    }
    const bool ok = out && !ferror(in) && !ferror(out);
    fclose(in);
    if (!out || fclose(out) || !ok) return failed("cannot write", to);
    return true;
}

/* An entrant is called as the folder that it was asked for: a model's, say. */
static void name_after(const char *folder, char *name, size_t n)
{
    char   path[4096];
    size_t end = (size_t)snprintf(path, sizeof path, "%s", folder);
    if (end >= sizeof path) end = sizeof path - 1;
    while (end > 1 && path[end - 1] == '/') path[--end] = 0;
    const char *last = strrchr(path, '/');
    snprintf(name, n, "%.*s", (int)n - 1, last && last[1] ? last + 1 : path);
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p)) *p = '-';
    if (!strcmp(name, ".") || !strcmp(name, "..")) snprintf(name, n, "mine");
}

static bool write_entry(const char *folder, const char *name, const char *id,
                        const struct language *l)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/entry.json", folder);
    FILE *f = fopen(path, "wx");
    if (!f) return failed("cannot write", path);
    fprintf(f,
            "{\n    \"name\": \"%s\",\n    \"author\": \"me\",\n    \"challenge\": \"%s\",\n"
            "    \"class\": \"%s\",\n    \"language\": \"%s\",\n    \"sources\": [\"%s.%s\"]\n}\n",
            name, id, l->class, l->name, id, l->ending);
    return !fclose(f) || failed("cannot write", path);
}

static bool copy_headers(const char *from, const char *folder)
{
    char to[4200], source[8192], target[8192];
    snprintf(to, sizeof to, "%s/include", folder);
    if (mkdir(to, 0777)) return failed("cannot create", to);
    strcat(to, "/touchstone");
    if (mkdir(to, 0777)) return failed("cannot create", to);
    DIR *d = opendir(from);
    if (!d) return failed("cannot read", from);
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(source, sizeof source, "%s/%s", from, e->d_name);
        snprintf(target, sizeof target, "%s/%s", to, e->d_name);
        ok = copy(source, target, "");
    }
    closedir(d);
    return ok;
}

static bool scaffold(const char *templates, const char *headers, const char *folder,
                     const char *name, const char *id, const struct language *l)
{
    for (const part *p = l->parts; p->from; p++) {
        char file[128], from[4300], to[4300];
        snprintf(file, sizeof file, p->from, id);
        snprintf(from, sizeof from, "%s/%s", templates, file);
        snprintf(file, sizeof file, p->to, id);
        snprintf(to, sizeof to, "%s/%s", folder, file);
        if (!copy(from, to, id)) return false;
    }
    return write_entry(folder, name, id, l) &&
           (!strcmp(l->name, "python") || copy_headers(headers, folder));
}

/* The folders above one. What cannot be made shows when the folder itself is. */
static void make_parents(const char *path)
{
    char above[4096];
    if (snprintf(above, sizeof above, "%s", path) >= (int)sizeof above) return;
    for (char *p = above + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(above, 0777);
    }
}

/* Makes DIR, or takes an empty one. */
static bool make_folder(const char *path)
{
    make_parents(path);
    if (!mkdir(path, 0777)) return true;
    if (errno != EEXIST) return failed("cannot create", path);
    DIR *d = opendir(path);
    if (!d) return failed("cannot use", path);
    int n = 0;
    while (readdir(d)) n++;
    closedir(d);
    errno = ENOTEMPTY;
    return n <= 2 || failed("expected a new or empty folder", path);
}

/* Whether the challenge can be entered in that language: the judge does not take every one. */
static bool has_starter(const char *templates, const char *id, const struct language *l)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/%s/starter.%s", templates, id, l->ending);
    return !access(path, R_OK);
}

static int scaffold_all(const char *folder, const char *challenge, const struct language *l)
{
    static const char *const templates[] = { "../challenge", "../share/touchstone/challenge",
                                             NULL };
    static const char *const contract[] = { "../include/touchstone", NULL };
    char                     from[4096], headers[4096], one[4096], name[64];
    if (!find(templates, from, sizeof from) || !find(contract, headers, sizeof headers))
        return TS_EXIT_BROKEN;
    if (challenge && !has_starter(from, challenge, l)) {
        fprintf(stderr, "touchstone new: %s: no starter in %s, expected another --language\n",
                challenge, l->name);
        return TS_EXIT_USAGE;
    }
    if (!make_folder(folder)) return TS_EXIT_USAGE;
    name_after(folder, name, sizeof name);
    for (int i = 0; ts_tasks[i]; i++) {
        const char *id = ts_tasks[i]->name;
        if (ts_tasks[i]->no_challenge) continue;
        if (challenge ? strcmp(challenge, id) : !has_starter(from, id, l)) continue;
        snprintf(one, sizeof one, challenge ? "%s" : "%s/%s", folder, id);
        if (!challenge && mkdir(one, 0777)) return failed("cannot create", one), TS_EXIT_BROKEN;
        if (!scaffold(from, headers, one, name, id, l)) return TS_EXIT_BROKEN;
        printf("%s: %s in %s; read PROMPT.md, then run: make -C %s %s\n", one, id, l->name, one,
               strcmp(l->name, "cuda") ? "test" : "build");
    }
    return TS_EXIT_PASSED;
}

int ts_tool_new(int argc, char **argv)
{
    const char            *folder = NULL, *challenge = NULL, *language = "c";
    int                    status;
    const struct language *l = NULL;
    const ts_option        options[] = {
               { "--challenge", "ID", "one challenge, in DIR itself (default: all, in subfolders)",
                 &challenge },
               { "--language", "NAME", "c, cuda or python (default c)", &language },
               { 0 },
    };
    if (!ts_options(argc, argv, "new DIR [--challenge ID] [--language c|cuda|python]", options,
                    &folder, &status))
        return status;
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++)
        if (!strcmp(language, languages[i].name)) l = &languages[i];
    if (!folder || !folder[0])
        fprintf(stderr, "touchstone new: got no folder, expected DIR; try --help\n");
    else if (!l)
        fprintf(stderr, "touchstone new: --language: got '%s', expected c, cuda or python\n",
                language);
    else if (!challenge || ts_task_known("new", "--challenge", challenge, true))
        return scaffold_all(folder, challenge, l);
    return TS_EXIT_USAGE;
}
