/* SPDX-License-Identifier: Apache-2.0 */
/* judge_entrants.c - the entrants of `touchstone judge`: those that are named, and the built-in
 * ones. */
#define _GNU_SOURCE
#include "judge_entrants.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "owners.h"
#include "python.h"
#include "tool.h"

const char *ts_judge_gpu_class(const char *path)
{
    static ts_paths list;
    ts_refusal      why = { 0 };
    const char     *name = NULL;
    bool            others = false;
    if (!ts_entrant_list(path, &list, &why)) return NULL;
    for (int i = 0; i < list.n && !others; i++) {
        ts_entrant e = { 0 };
        if (ts_entrant_read(list.at[i].path, list.at[i].challenge, &e, &why))
            name = ts_class_name(e.cls), others = !ts_on_gpu(e.cls);
        ts_entrant_free(&e);
    }
    ts_entrant_list_free(&list);
    return others ? NULL : name;
}

static ts_judged *add(ts_run *c, const char *path, const char *challenge, const char *name,
                      const char *sample)
{
    ts_judged *e = calloc(1, sizeof *e);
    char      *own = strdup(path);
    if (!e || !own) abort();
    e->path = own;
    e->challenge = challenge;
    e->name = name;
    e->author = !name ? NULL : sample ? "" : "touchstone"; /* a model's folder is all there is */
    e->sample = sample;
    ts_run_admit(c, e);
    return e;
}

/* In a build folder built-in entrants are next to the program, and folders are in the source tree;
 * installed, the library is in lib/ and folders are in share/. */
static bool find_built_in(const char *file, char *path, size_t n)
{
    char              library[256], source[256], folder[256];
    const char *const tree[] = { source, NULL }, *const places[] = { library, folder, NULL };
    snprintf(library, sizeof library, "../" TS_LIBDIR "/%s", file);
    snprintf(source, sizeof source, "../contest/%s", file);
    snprintf(folder, sizeof folder, "../share/touchstone/%s", file);
    return ts_find(tree, path, n) || ts_beside(file, path, n) || ts_find(places, path, n);
}

/* The built-in entrants: the library, the naive versions, and folders for Python's packages. */
static const struct {
    ts_device   device;
    const char *file, *name, *challenge; /* NULL: every one */
    const char *needs;                   /* a Python module; NULL: none */
} all[] = {
    { TS_CPU, "libtouchstone.so", "touchstone", NULL, NULL },
    { TS_CPU, "touchstone-textbook.so", "textbook", NULL, NULL },
    { TS_CPU, "touchstone-three_pass.so", "three_pass", "softmax_topk", NULL },
    { TS_CPU, "entrant/numpy", "numpy", NULL, "numpy" },
    { TS_CUDA, "touchstone-cuda.so", "touchstone", NULL, NULL },
    { TS_CUDA, "entrant/textbook", "textbook", NULL, NULL },
    { TS_CUDA, "entrant/torch", "torch", NULL, "torch" },
};

const char *ts_built_in_name(size_t i)
{
    return i < sizeof all / sizeof *all ? all[i].name : NULL;
}

/* A name is a built-in entrant's only where it is no path. */
static bool is_built_in(const ts_run *c, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        found |= all[i].device == c->device && !strcmp(all[i].name, name);
    return found && access(name, F_OK);
}

/* Whether one of the first n entrants is of this challenge. */
static bool is_entered(const ts_run *c, int n, const ts_task *t)
{
    while (n && c->entrant[n - 1]->task != t) n--;
    return n;
}

/* All of them, or those named `name`; if entrants were given, only in their challenges. */
static void add_built_in(ts_run *c, const char *only, const char *name, int n_given)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char path[4096], whole[4096], file[128];
        if (all[i].device != c->device || (name && strcmp(name, all[i].name))) continue;
        if (all[i].needs && !ts_python_has(c->python, all[i].needs, NULL, 0)) {
            ts_fail("skipping the built-in entrant %s: %s has no module %s", all[i].name, c->python,
                    all[i].needs);
            continue;
        }
        for (int t = 0; ts_tasks[t]; t++) {
            const char *task = ts_tasks[t]->name;
            const bool  folder = !strchr(all[i].file, '.');
            if (all[i].challenge && strcmp(all[i].challenge, task)) continue;
            if (only && strcmp(only, task)) continue;
            if (n_given && !is_entered(c, n_given, ts_tasks[t])) continue;
            if (ts_tasks[t]->no_challenge) continue;
            if (!(ts_tasks[t]->devices >> c->device & 1)) continue;
            snprintf(file, sizeof file, "%s%s%s", all[i].file, folder ? "/" : "",
                     folder ? task : "");
            if (find_built_in(file, path, sizeof path) && realpath(path, whole))
                add(c, whole, task, all[i].name, NULL)->built_in = true;
        }
    }
}

/* The anchors of each kind, see ts_anchor: a shared library, or a folder with one per challenge. */
static const struct {
    ts_device   device;
    const char *kind, *text, *best;
} scale[] = {
    { TS_CPU, "c", "touchstone-textbook.so", "libtouchstone.so" },
    { TS_CPU, "python", "entrant/numpy_textbook", "entrant/numpy" },
    { TS_CUDA, "cuda", "entrant/textbook", "touchstone-cuda.so" },
    { TS_CUDA, "python-gpu", "entrant/textbook", "touchstone-cuda.so" },
};

/* NULL, and a note, if it is not there; a GPU has no textbook version of most challenges. */
static ts_judged *add_anchor(ts_run *c, const ts_task *t, const char *from, bool must, char *note,
                             size_t n)
{
    const bool folder = from && !strchr(from, '.');
    char       path[4096], file[128];
    if (!from) return NULL;
    snprintf(file, sizeof file, "%s%s%s", from, folder ? "/" : "", folder ? t->name : "");
    if (!find_built_in(file, path, sizeof path)) {
        if (must) snprintf(note, n, "%.100s was not found", file);
        return NULL;
    }
    ts_judged *e = add(c, path, t->name, "anchor", NULL);
    c->n--; /* no entrant */
    e->hidden = true;
    return e;
}

static bool has_kind(const ts_run *c, const ts_task *t, const char *kind)
{
    for (int i = 0; i < c->n; i++)
        if (c->entrant[i]->task == t && !strcmp(ts_kind_of(c->entrant[i]->entrant.cls), kind))
            return true;
    return false;
}

static void add_anchors(ts_run *c)
{
    for (size_t i = 0; i < sizeof scale / sizeof *scale; i++)
        for (int t = 0; ts_tasks[t] && c->n < TS_MOST_ENTRANTS; t++) {
            if (scale[i].device != c->device || c->n_anchors == TS_MOST_ANCHORS ||
                !has_kind(c, ts_tasks[t], scale[i].kind))
                continue;
            ts_anchor *a = &c->anchor[c->n_anchors++];
            *a = (ts_anchor) { .task = ts_tasks[t], .kind = scale[i].kind };
            a->text = add_anchor(c, ts_tasks[t], scale[i].text, c->device == TS_CPU, a->note,
                                 sizeof a->note);
            a->best = add_anchor(c, ts_tasks[t], scale[i].best, true, a->note, sizeof a->note);
        }
}

/* Leaves out entrants of other classes; not those that the judge failed to read. */
static void keep_class(ts_run *c, int cls)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        ts_judged *e = c->entrant[i];
        if ((int)e->entrant.cls == cls || e->evidence.machine) c->entrant[n++] = e;
        else ts_entrant_free(&e->entrant);
    }
    c->n = n;
}

static const char *kept(const char *text)
{
    char *own = strdup(text);
    if (!own) abort();
    return own;
}

static bool mixed(const char *path, const char *why)
{
    return ts_fail("%s: %s, but CPU and GPU entrants cannot be judged in one run; judge %s alone",
                   path, why, path);
}

static bool add_given(ts_run *c, const char *path, const char *challenge, bool alone)
{
    static ts_paths list;
    ts_refusal      why = { 0 };
    int             n_other = 0;
    if (access(path, F_OK)) return ts_complain(path, "no such file or folder");
    if (!ts_entrant_list(path, &list, &why)) return ts_fail("%s", why.text);
    for (int i = 0; i < list.n; i++) {
        const ts_answer *a = &list.at[i];
        const char      *own = a->challenge;
        if (challenge && own && strcmp(challenge, own)) continue; /* another challenge's answer */
        if (c->n == TS_MOST_ENTRANTS)
            return ts_fail("%s: more than %d entrants; judge them in parts", path,
                           TS_MOST_ENTRANTS);
        const bool model = *a->model;
        ts_judged *e = add(c, a->path, model && own ? own : challenge,
                           model ? kept(a->model) : NULL, model ? kept(a->sample) : NULL);
        e->root = model ? path : NULL;
        if (strcmp(e->evidence.failure.reason, "device")) continue;
        if (list.n > 1) c->n--, n_other++; /* judged elsewhere */
        else if (!alone) return mixed(path, e->evidence.failure.text);
    }
    if (n_other)
        ts_fail("%s: %d entrants left out; judge them with --device %s", path, n_other,
                c->device == TS_CPU ? "cuda" : "cpu");
    if (list.n_ignored)
        ts_fail("%s: %d %s ignored, such as %s: answers in Markdown are called CHALLENGE.md, or "
                "are below a folder CHALLENGE",
                path, list.n_ignored, list.n_ignored == 1 ? "file" : "files", list.ignored);
    ts_entrant_list_free(&list);
    return true;
}

bool ts_judge_gather(ts_run *c, const char *const *given, const char *challenge, int cls)
{
    char own[4096], whole[4096];
    for (int i = 0; given[i]; i++)
        if (!is_built_in(c, given[i]) && !add_given(c, given[i], challenge, !given[1]))
            return false;
    for (int i = 0, n = c->n; given[i]; i++)
        if (is_built_in(c, given[i])) add_built_in(c, challenge, given[i], n);
    if (!given[0]) add_built_in(c, challenge, NULL, 0);
    if (cls >= 0) keep_class(c, cls);
    if (!find_built_in("entrant", own, sizeof own) || !realpath(own, whole)) *whole = 0;
    if (!ts_owners_ok(c, whole)) return false;
    if (!c->untimed && !c->only) add_anchors(c);
    if (!c->n) return ts_fail("no entrants; name one or check --challenge and --class");
    if (!given[0] && !c->only) ts_fail("no entrant given: judging the %d built-in ones", c->n);
    return true;
}
