/* SPDX-License-Identifier: Apache-2.0 */
/* new.c - `touchstone new DIR`: writes a new entrant's files from templates in challenge/. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entrant.h"
#include "prompt.h"
#include "registry.h"
#include "scope.h"
#include "task.h"
#include "tool.h"

static bool failed(const char *what, const char *path)
{
    return ts_fail("%s: %s: %s", path, what, strerror(errno));
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

/* Names the entrant after its folder. */
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

/* With an adapter the class is one that may call the C library: the code was not written for class
 * sealed. */
static bool write_entry(const char *folder, const char *name, const char *id,
                        const ts_prompt_language *l, bool adapter)
{
    char           path[4200], sources[256];
    const ts_class cls = adapter && l->cls == TS_SEALED ? TS_HOST : l->cls;
    snprintf(path, sizeof path, "%s/entry.json", folder);
    if (adapter)
        snprintf(sources, sizeof sources, "[\"theirs.%s\"],\n    \"adapter\": \"adapter.%s\"",
                 l->ending, l->ending);
    else snprintf(sources, sizeof sources, "[\"%s.%s\"]", id, l->ending);
    FILE *f = fopen(path, "wx");
    if (!f) return failed("cannot write", path);
    fprintf(f,
            "{\n    \"name\": \"%s\",\n    \"author\": \"me\",\n    \"challenge\": \"%s\",\n"
            "    \"class\": \"%s\",\n    \"language\": \"%s\",\n    \"sources\": %s\n}\n",
            name, id, ts_class_name(cls), l->language, sources);
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

/* What is written, and where. */
typedef struct scaffold {
    const char               *templates, *headers, *folder, *name;
    const ts_task            *t;
    const ts_prompt_language *l;
    bool                      adapter;
} scaffold;

typedef bool writer(const scaffold *s, FILE *f);

static bool write_prompt(const scaffold *s, FILE *f)
{
    return ts_prompt_write(s->t, s->l, s->templates, s->headers, false, f);
}

static bool write_starter(const scaffold *s, FILE *f)
{
    return ts_starter_write(s->t, s->l, s->templates, f);
}

static bool write_adapter(const scaffold *s, FILE *f)
{
    return ts_adapter_write(s->t, s->l, s->templates, f);
}

static bool write_theirs(const scaffold *s, FILE *f)
{
    const bool python = !strcmp(s->l->language, "python");
    return fprintf(f, "%s theirs.%s - put the code here, unchanged.%s\n", python ? "#" : "/*",
                   s->l->ending, python ? "" : " */") > 0;
}

/* A file of the folder that `write` fills. */
static bool put(const scaffold *s, const char *stem, const char *ending, writer *write)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/%s.%s", s->folder, stem, ending);
    FILE *f = fopen(path, "wx");
    if (!f) return failed("cannot write", path);
    const bool ok = write(s, f);
    return (!fclose(f) || failed("cannot write", path)) && ok;
}

/* The files that are copied. The self-tests call everything that a contract has, so an adapter,
 * which may offer less, gets the example only. */
static bool copy_parts(const scaffold *s)
{
    char file[128], from[4300], to[4300];
    for (const ts_prompt_part *p = s->l->parts; p->from; p++) {
        if (s->adapter && !strstr(p->from, "/adapter")) continue;
        snprintf(file, sizeof file, p->from, s->t->name);
        snprintf(from, sizeof from, "%s/%s", s->templates, file);
        snprintf(to, sizeof to, "%s/%s", s->folder, p->to);
        if (!copy(from, to, s->t->name)) return false;
    }
    return true;
}

static bool write_all(const scaffold *s)
{
    const char *id = s->t->name, *ending = s->l->ending;
    const bool  own = s->adapter ? put(s, "theirs", ending, write_theirs) &&
                                      put(s, "adapter", ending, write_adapter)
                                 : put(s, id, ending, write_starter);
    return own && copy_parts(s) && put(s, "PROMPT", "md", write_prompt) &&
           write_entry(s->folder, s->name, id, s->l, s->adapter) &&
           (!strcmp(s->l->language, "python") || copy_headers(s->headers, s->folder));
}

/* Creates the parent folders. A failure shows when the folder itself is created. */
static void make_parents(const char *path)
{
    char above[4096];
    if (snprintf(above, sizeof above, "%s", path) >= (int)sizeof above) return;
    for (char *p = above + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(above, 0777);
    }
}

/* Creates DIR, or accepts an empty one. */
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

/* Whether the challenge is judged on the language's device, and has templates; if not, says so. */
static bool is_offered(const ts_task *t, const ts_prompt_language *l, const char *templates)
{
    char       path[4300];
    const bool judged = ts_class_enters(t, l->cls), gpu = t->devices & TS_ON_CUDA;
    snprintf(path, sizeof path, "%s/%s/PROMPT.md", templates, t->name);
    if (judged && !access(path, R_OK)) return true;
    return ts_fail("%s: left out of %s, because %s", t->name, l->name,
                   judged ? "contest/challenge/ has no templates of it"
                   : gpu  ? "on a device its script needs class host-gpu: use --language cuda"
                          : "entrants of this challenge are judged on the CPU only");
}

/* `challenge` NULL: every challenge that is offered. */
static bool is_wanted(const ts_task *t, const char *challenge, const ts_prompt_language *l,
                      const char *templates)
{
    if (challenge) return !strcmp(challenge, t->name);
    return !t->no_challenge && is_offered(t, l, templates);
}

static bool find_all(ts_prompt_places *p)
{
    return ts_prompt_places_find(p) || failed("cannot find the templates", p->templates);
}

/* Every challenge that is wanted, in a folder of its own or, if it is the only one, in DIR. */
static int scaffold_all(const char *folder, const char *challenge, const ts_prompt_language *l,
                        bool adapter)
{
    ts_prompt_places p;
    char             one[4096], name[64];
    if (!find_all(&p)) return TS_EXIT_BROKEN;
    if (challenge && !is_offered(ts_task_called(challenge), l, p.templates)) return TS_EXIT_USAGE;
    if (!make_folder(folder)) return TS_EXIT_USAGE;
    name_after(folder, name, sizeof name);
    for (int i = 0; ts_tasks[i]; i++) {
        const ts_task *t = ts_tasks[i];
        if (!is_wanted(t, challenge, l, p.templates)) continue;
        snprintf(one, sizeof one, challenge ? "%s" : "%s/%s", folder, t->name);
        if (!challenge && mkdir(one, 0777)) return failed("cannot create", one), TS_EXIT_BROKEN;
        if (!write_all(&(scaffold) { p.templates, p.headers, one, name, t, l, adapter }))
            return TS_EXIT_BROKEN;
        if (adapter)
            printf("%s: %s in %s; put the code into theirs.%s, answer the questions in adapter.%s, "
                   "then run: touchstone judge %s --depth quick --no-timing%s\n",
                   one, t->name, l->name, l->ending, l->ending, one,
                   l->device == TS_CUDA ? " --device cuda" : "");
        else
            printf("%s: %s in %s; read PROMPT.md, then run: make -C %s test\n", one, t->name,
                   l->name, one);
    }
    return TS_EXIT_PASSED;
}

/* With DIR, a file for each challenge; without, one challenge on standard output. */
static int prompt_all(const char *folder, const char *challenge, const ts_prompt_language *l)
{
    ts_prompt_places p;
    char             path[4300];
    if (!find_all(&p)) return TS_EXIT_BROKEN;
    if (challenge && !is_offered(ts_task_called(challenge), l, p.templates)) return TS_EXIT_USAGE;
    if (folder && !make_folder(folder)) return TS_EXIT_USAGE;
    for (int i = 0; ts_tasks[i]; i++) {
        const ts_task *t = ts_tasks[i];
        FILE          *f = stdout;
        if (!is_wanted(t, challenge, l, p.templates)) continue;
        snprintf(path, sizeof path, "%s/%s.md", folder ? folder : "", t->name);
        if (folder && !(f = fopen(path, "wx"))) return failed("cannot write", path), TS_EXIT_BROKEN;
        const bool ok = ts_prompt_write(t, l, p.templates, p.headers, true, f);
        if (folder && fclose(f)) return failed("cannot write", path), TS_EXIT_BROKEN;
        if (!ok) return TS_EXIT_BROKEN;
        if (folder) printf("%s\n", path);
    }
    return TS_EXIT_PASSED;
}

int ts_tool_new(int argc, char **argv)
{
    const char     *folder = NULL, *challenge = NULL;
    bool            prompt = false, adapter = false;
    int             status, language = 0;
    ts_choice       languages[8] = { { 0 } };
    const ts_option options[] = {
        { "--challenge", "ID", NULL, "one challenge, in DIR itself (default: all, in subfolders)",
          .text = &challenge },
        { "--language", "NAME", "c", "language", .to = &language, .choices = languages },
        { "--adapter", NULL, NULL,
          "for code that was not written for the challenge: an adapter to fill in, with questions",
          .flag = &adapter },
        { "--prompt", NULL, NULL,
          "write only the prompt, as one text to paste: to standard output, or all to DIR/ID.md",
          .flag = &prompt },
        { 0 },
    };
    for (int i = 0; ts_prompt_languages[i].name; i++)
        languages[i] = (ts_choice) { ts_prompt_languages[i].name, i };
    if (!ts_options(
            argc, argv,
            "new DIR [--challenge ID] [--language c|c++|cuda|python|triton] [--adapter]\n"
            "       touchstone new --prompt --challenge ID [--language NAME]\n\n"
            "Writes a new entrant's folder; without --challenge, one folder per challenge in "
            "DIR.",
            options, &folder, 1, &status))
        return status;
    if ((!folder || !folder[0]) && !(prompt && challenge))
        ts_fail("got no folder, expected DIR%s; try --help", prompt ? ", or --challenge ID" : "");
    else if (prompt && adapter) ts_fail("got --prompt and --adapter, expected one of them");
    else if (!challenge || ts_task_known("--challenge", challenge, true))
        return prompt ? prompt_all(folder, challenge, &ts_prompt_languages[language])
                      : scaffold_all(folder, challenge, &ts_prompt_languages[language], adapter);
    return TS_EXIT_USAGE;
}
