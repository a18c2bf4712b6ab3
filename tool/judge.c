/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c - `touchstone judge`: judges the named entrants, or the built-in ones. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "board.h"
#include "derive.h"
#include "explain.h"
#include "judge_again.h"
#include "merge.h"
#include "page.h"
#include "python.h"
#include "registry.h"
#include "run.h"
#include "selfcheck.h"
#include "slurm.h"
#include "temporary.h"
#include "tool.h"
#include "verdicts.h"

typedef struct judge_options {
    const char *log, *out, *resume, *depth, *challenge, *selfcheck, *seed, *json, *replay, *device,
        *threads, *klass, *slurm;
} judge_options;

/* ---- entrants ---- */

/* The class of what can be read there, if all of it is for a GPU; else NULL. Classes are read again
 * when entrants are admitted; here they only choose the device. */
static const char *gpu_class(const char *path)
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
    const char *const places[] = { library, source, folder, NULL };
    snprintf(library, sizeof library, "../" TS_LIBDIR "/%s", file);
    snprintf(source, sizeof source, "../contest/%s", file);
    snprintf(folder, sizeof folder, "../share/touchstone/%s", file);
    return ts_beside(file, path, n) || ts_find(places, path, n);
}

/* The built-in entrants: the library, the naive versions, and folders for Python's packages. */
static const struct {
    ts_device   device;
    const char *file, *name, *challenge; /* NULL: every one */
    const char *needs;                   /* a Python module; NULL: none */
} all[] = {
    { TS_CPU, "libtouchstone.so", "touchstone", NULL, NULL },
    { TS_CPU, "touchstone-textbook.so", "textbook", "softmax_topk", NULL },
    { TS_CPU, "touchstone-three_pass.so", "three_pass", "softmax_topk", NULL },
    { TS_CPU, "entrant/numpy", "numpy", NULL, "numpy" },
    { TS_CUDA, "touchstone-cuda.so", "touchstone", NULL, NULL },
    { TS_CUDA, "entrant/textbook", "textbook", NULL, NULL },
    { TS_CUDA, "entrant/torch", "torch", NULL, "torch" },
};

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
            fprintf(stderr,
                    "touchstone judge: skipping the built-in entrant %s: %s has no module %s\n",
                    all[i].name, c->python, all[i].needs);
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
                add(c, whole, task, all[i].name, NULL);
        }
    }
}

/* Leaves out entrants of other classes. */
static void keep_class(ts_run *c, const char *name)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        ts_judged *e = c->entrant[i];
        if (!strcmp(ts_class_name(e->entrant.cls), name)) c->entrant[n++] = e;
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
    fprintf(stderr,
            "touchstone judge: %s: %s, but CPU and GPU entrants cannot be judged in one run; judge "
            "%s alone\n",
            path, why, path);
    return false;
}

static bool add_given(ts_run *c, const char *path, const char *challenge, bool alone)
{
    static ts_paths list;
    ts_refusal      why = { 0 };
    int             n_other = 0;
    if (access(path, F_OK)) {
        fprintf(stderr, "touchstone judge: %s: no such file or folder\n", path);
        return false;
    }
    if (!ts_entrant_list(path, &list, &why)) {
        fprintf(stderr, "touchstone judge: %s\n", why.text);
        return false;
    }
    for (int i = 0; i < list.n; i++) {
        const ts_answer *a = &list.at[i];
        const char      *own = a->challenge;
        if (challenge && own && strcmp(challenge, own)) continue; /* another challenge's answer */
        if (c->n == TS_MOST_ENTRANTS) {
            fprintf(stderr, "touchstone judge: %s: more than %d entrants; judge them in parts\n",
                    path, TS_MOST_ENTRANTS);
            return false;
        }
        const bool       model = *a->model;
        const ts_judged *e = add(c, a->path, model && own ? own : challenge,
                                 model ? kept(a->model) : NULL, model ? kept(a->sample) : NULL);
        if (strcmp(e->evidence.failure.reason, "device")) continue;
        if (list.n > 1) c->n--, n_other++; /* judged elsewhere */
        else if (!alone) return mixed(path, e->evidence.failure.text);
    }
    if (n_other)
        fprintf(stderr, "touchstone judge: %s: %d entrants left out; judge them with --device %s\n",
                path, n_other, c->device == TS_CPU ? "cuda" : "cpu");
    if (list.n_ignored)
        fprintf(stderr,
                "touchstone judge: %s: %d %s ignored, such as %s: answers in Markdown are called "
                "CHALLENGE.md, or are below a folder CHALLENGE\n",
                path, list.n_ignored, list.n_ignored == 1 ? "file" : "files", list.ignored);
    ts_entrant_list_free(&list);
    return true;
}

/* ---- results ---- */

/* The log as `touchstone report` reads it: if it was resumed on another machine, times are not
 * compared. */
static bool read_log(const char *path, ts_records *r, char why[TS_WHY])
{
    ts_records log;
    if (!ts_records_read(path, &log, why)) return false;
    ts_merge  *m = ts_merge_begin();
    const bool ok = m && ts_merge_add(m, &log, why);
    ts_records_free(&log);
    if (!ok) ts_merge_free(m);
    return ok && ts_merge_end(m, r, why);
}

static int show(const ts_run *c, const judge_options *o, ts_json *json)
{
    ts_records r;
    ts_board   b;
    char       why[TS_WHY] = "out of memory", page[4200];
    int        status = TS_EXIT_BROKEN;
    if (!read_log(o->log, &r, why)) {
        fprintf(stderr, "touchstone judge: %s: %s\n", o->log, why);
        return status;
    }
    if (ts_board_make(&r, &b, why)) {
        b.program = program_invocation_name;
        ts_board_print(&b, o->json && !strcmp(o->json, "-") ? stderr : stdout);
        status = TS_EXIT_PASSED;
        if (o->out) {
            mkdir(o->out, 0777);
            snprintf(page, sizeof page, "%s/index.html", o->out);
            FILE *f = fopen(page, "w");
            b.program = NULL; /* not on a page that is published */
            const bool whole = f && ts_page_write(&r, &b, f);
            if (f && !fclose(f) && whole) printf("page: %s\n", page);
            else
                fprintf(stderr, "touchstone judge: %s: cannot be written\n", page),
                    status = TS_EXIT_BROKEN;
        }
        ts_verdicts_list(c, &b, json);
        ts_board_free(&b);
    } else fprintf(stderr, "touchstone judge: %s: %s\n", o->log, why);
    ts_records_free(&r);
    return status;
}

static int verdict(const ts_run *c, bool given)
{
    bool audit = false;
    for (int i = 0; i < c->n; i++) {
        const ts_judged *e = c->entrant[i];
        if (e->before) continue;
        if (e->ruled->ruling == TS_RULING_ERROR) return TS_EXIT_BROKEN;
        if (e->ruled->ruling == TS_RULING_FAIL && given) return TS_EXIT_FAILED;
        audit = audit || (e->ruled->ruling == TS_RULING_AUDIT && given);
    }
    return audit ? TS_EXIT_FAILED : TS_EXIT_PASSED;
}

/* Never overwrites verdicts: an earlier log is renamed, unless another run is still writing it. The
 * lock is held during the rename. */
static bool put_aside(const char *log)
{
    char        old[4200];
    struct stat open_is, there;
    const int   fd = open(log, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return true;
    snprintf(old, sizeof old, "%s.old", log);
    for (int i = 2; !access(old, F_OK) && i < 10000; i++)
        snprintf(old, sizeof old, "%s.old.%d", log, i);
    const char *why = "cannot be renamed; move or remove the file";
    bool        ok = fd >= 0;
    if (ok && (flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &open_is) || stat(log, &there) ||
               open_is.st_ino != there.st_ino))
        ok = false, why = "in use by another judge; name another log";
    ok = ok && !rename(log, old);
    if (ok) fprintf(stderr, "touchstone judge: earlier log %s renamed to %s\n", log, old);
    else fprintf(stderr, "touchstone judge: %s: %s\n", log, why);
    if (fd >= 0) close(fd);
    return ok;
}

/* The key is stored next to the log until the log reveals it, so that an interrupted run can resume
 * with the same inputs. */
static bool draw_key(ts_run *c, const char *path, bool resume)
{
    if (c->key_given) return true;
    FILE *f = resume ? fopen(path, "rb") : NULL;
    bool  ok = f && fread(c->key, sizeof c->key, 1, f) == 1;
    if (f) fclose(f);
    if (ok) return true;
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ok = getrandom(c->key, sizeof c->key, 0) == sizeof c->key &&
         write(fd, c->key, sizeof c->key) == sizeof c->key && !fsync(fd);
    if (fd >= 0) close(fd);
    if (!ok) fprintf(stderr, "touchstone judge: %s: cannot be written\n", path);
    return ok;
}

/* Scores, matches and ranks, before the log ends. */
static bool derive(ts_log *l, const char *path, char why[TS_WHY])
{
    ts_records r;
    if (!ts_records_read(path, &r, why)) return false;
    const bool ok = ts_derive_into_log(&r, l);
    ts_records_free(&r);
    return ok;
}

static bool has_ended(const ts_records *r)
{
    return r->n && !strcmp(r->at[r->n - 1].type, "end");
}

static int sit(ts_run *c, const judge_options *o, bool given)
{
    ts_records earlier = { 0 };
    char       why[TS_WHY];
    if (!o->resume && !put_aside(o->log)) return TS_EXIT_BROKEN;
    c->log = ts_log_open(o->log, &earlier, why);
    if (!c->log) {
        fprintf(stderr, "touchstone judge: %s: %s\n", o->log, why);
        return TS_EXIT_BROKEN;
    }
    char key_path[4200];
    snprintf(key_path, sizeof key_path, "%s.key", o->log);
    bool ok = has_ended(&earlier) && !ts_run_recall(c, &earlier);
    if (ok)
        fprintf(stderr, "touchstone judge: %s: every entrant has a verdict; nothing to judge\n",
                o->log);
    else {
        if (!draw_key(c, key_path, o->resume != NULL)) return TS_EXIT_BROKEN;
        ok = ts_run_all(c, &earlier, why) && derive(c->log, o->log, why) && ts_run_end(c);
        if (ok) unlink(key_path);
    }
    ts_log_close(c->log);
    ts_records_free(&earlier);
    for (int i = 0; i < c->n; i++) ts_built_free(&c->entrant[i]->built);
    if (!ok) {
        fprintf(stderr, "touchstone judge: %s\n", why);
        return TS_EXIT_BROKEN;
    }
    ts_json *json;
    if (!ts_json_open(o->json, &json)) return TS_EXIT_BROKEN;
    const int shown = show(c, o, json);
    ts_explain(c);
    if (!ts_json_close(o->json, json)) return TS_EXIT_BROKEN;
    if (c->only) unlink(o->log);
    return shown ? shown : verdict(c, given);
}

/* Default: all cores of this process but one, which is the judge's. */
static bool count_threads(const char *text, int *n)
{
    enum { MOST = 256 };
    cpu_set_t may;
    uint64_t  asked = 0;
    const int cores = sched_getaffinity(0, sizeof may, &may) ? 1 : CPU_COUNT(&may);
    *n = cores > 2 ? cores - 1 : 1;
    if (text && !ts_parse_u64("--threads", text, &asked)) return false;
    if (text && (asked < 1 || asked > MOST)) {
        fprintf(stderr, "touchstone judge: --threads: got '%s', expected 1 to %d\n", text, MOST);
        return false;
    }
    *n = text ? (int)asked : *n < MOST ? *n : MOST;
    return true;
}

static bool read_depth(const char *text, ts_depth *d)
{
    for (int i = 0; text && i < TS_N_DEPTHS; i++)
        if (!strcmp(text, ts_depth_name((ts_depth)i))) return *d = (ts_depth)i, true;
    if (text)
        fprintf(stderr, "touchstone judge: --depth: got '%s', expected quick, normal or full\n",
                text);
    return !text;
}

static bool is_class(const char *name)
{
    for (int i = 0; i < TS_N_CLASSES; i++)
        if (!strcmp(name, ts_class_name((ts_class)i))) return true;
    fprintf(stderr, "touchstone judge: --class: got '%s', expected", name);
    for (int i = 0; i < TS_N_CLASSES; i++)
        fprintf(stderr, "%s %s", i ? "," : "", ts_class_name((ts_class)i));
    fprintf(stderr, "\n");
    return false;
}

/* False, and an error line, if an entrant could not be confined. */
static bool is_confined(const ts_run *c)
{
    unsigned lacks = 0;
    char     text[128];
    for (int i = 0; i < c->n && !c->unsafe; i++)
        lacks |= c->entrant[i]->entrant.cls == TS_SEALED ? c->machine.sealed_lacks
                                                         : c->machine.host_lacks;
    ts_held_names(lacks, text, sizeof text);
    if (lacks)
        fprintf(stderr,
                "touchstone judge: this machine cannot confine entrants: missing %s; --unsafe runs "
                "them anyway\n",
                text);
    return !lacks;
}

int ts_tool_judge(int argc, char **argv)
{
    static ts_run   c;
    judge_options   o = { .log = "judge.log" };
    const char     *given[TS_MOST_ENTRANTS] = { NULL };
    int             status;
    const ts_option options[] = {
        { "--challenge", "NAME", "judge only this challenge (default: all)", &o.challenge },
        { "--class", "NAME", "judge only entrants of this class (default: all)", &o.klass },
        { "--depth", "D", "number of cases and timed calls: quick, normal or full (default normal)",
          &o.depth },
        { "--no-timing", NULL, "test correctness only, without timing", &c.untimed },
        { "--case", "NAME", "run only this case, named with its seed as in a verdict", &c.only },
        { "--device", "cpu|cuda", "device to judge on (default: from the first entrant's class)",
          &o.device },
        { "--threads", "N",
          "threads per entrant when timed (default: all cores but one, at least 1)", &o.threads },
        { "--sanitize", NULL, "with --device cuda, also run under compute-sanitizer", &c.sanitize },
        { "--log", "FILE", "write verdicts to FILE (default judge.log)", &o.log },
        { "--resume", NULL, "continue the log, skipping entrants already judged", &o.resume },
        { "--out", "DIR", "also write the page to DIR/index.html", &o.out },
        { "--slurm", "DIR", "judge nothing; write a Slurm job that judges in shards to DIR",
          &o.slurm },
        { "--seed", "N", "draw inputs from seed N (default: random); recorded in the log",
          &o.seed },
        { "--json", "FILE|-", "write verdicts, or --selfcheck's guarantees, as JSON", &o.json },
        { "--replay", "LOG", "judge again from the key in LOG and compare verdicts", &o.replay },
        { "--unsafe", NULL, "run entrants even where this machine cannot confine them", &c.unsafe },
        { "--selfcheck", NULL, "test this machine's sandbox guarantees and exit", &o.selfcheck },
        { NULL, NULL, NULL, NULL },
    };
    const char *usage =
        "judge [ENTRANT...] [OPTION...]\n\nENTRANT is a source file, an answer in Markdown, a "
        "folder "
        "with entry.json, a folder of\nanswers at any depth: MODEL/CHALLENGE.c, .cpp, .cu, .py or "
        ".md, MODEL/CHALLENGE/ or\nMODEL/CHALLENGE/sample-3/; or the name of a built-in one, such "
        "as "
        "touchstone: judged in\nthe challenges of the others. Without ENTRANT, the built-in ones "
        "are "
        "judged.";
    if (!ts_options_many(argc, argv, usage, options, given, TS_MOST_ENTRANTS - 1, &status))
        return status;
    if (!ts_task_known("judge", "--challenge", o.challenge, true)) return TS_EXIT_USAGE;
    if (o.klass && !is_class(o.klass)) return TS_EXIT_USAGE;
    if (c.only && !ts_case_find(&c.only)) return TS_EXIT_USAGE;
    if (o.device && strcmp(o.device, "cpu") && strcmp(o.device, "cuda")) {
        fprintf(stderr, "touchstone judge: --device: got '%s', expected cpu or cuda\n", o.device);
        return TS_EXIT_USAGE;
    }
    const char *gpus = !o.device && given[0] ? gpu_class(given[0]) : NULL;
    if (gpus || (o.device && !strcmp(o.device, "cuda"))) c.device = TS_CUDA;
    if (o.slurm) return ts_judge_slurm(&c, o.slurm, given, argc, argv);
    if (c.device == TS_CUDA) ts_keeper_survey(&c.survey);
    if (c.device == TS_CUDA && !c.survey.there) {
        if (gpus)
            fprintf(stderr, "touchstone judge: %s (class %s) needs a GPU: %s\n", given[0], gpus,
                    c.survey.text);
        else fprintf(stderr, "touchstone judge: --device cuda: %s\n", c.survey.text);
        return TS_EXIT_BROKEN;
    }
    if (o.selfcheck) return ts_selfcheck(c.device == TS_CUDA ? &c.survey : NULL, o.json);
    char passing[TS_TEMPORARY_PATH + 8] =
        ""; /* a single case gives no verdict: its log is temporary */
    if ((c.only || o.replay) && !ts_temporary(passing)) {
        fprintf(stderr, "touchstone judge: no temporary folder could be created\n");
        return TS_EXIT_BROKEN;
    }
    strcat(passing, "/log");
    if (c.only) o.log = passing;
    uint64_t seed = 0;
    if (o.seed && !ts_parse_u64("--seed", o.seed, &seed)) return TS_EXIT_USAGE;
    c.key_given = o.seed != NULL;
    memcpy(c.key, &seed, sizeof seed);
    c.depth = TS_NORMAL;
    if (!read_depth(o.depth, &c.depth)) return TS_EXIT_USAGE;
    c.python = ts_python_find();
    c.progress.to = stderr;
    if (!count_threads(o.threads, &c.n_threads)) return TS_EXIT_USAGE;
    if (!ts_places_find(&c.places)) {
        fprintf(stderr, "touchstone judge: contract headers: not found next to the program; "
                        "reinstall, or run the program from its build folder\n");
        return TS_EXIT_BROKEN;
    }
    if (c.device == TS_CUDA) snprintf(c.places.arch, sizeof c.places.arch, "%s", c.survey.arch);
    for (int i = 0; given[i]; i++)
        if (!is_built_in(&c, given[i]) && !add_given(&c, given[i], o.challenge, !given[1]))
            return TS_EXIT_USAGE;
    for (int i = 0, n = c.n; given[i]; i++)
        if (is_built_in(&c, given[i])) add_built_in(&c, o.challenge, given[i], n);
    if (!given[0]) add_built_in(&c, o.challenge, NULL, 0);
    if (o.klass) keep_class(&c, o.klass);
    if (!c.n) {
        fprintf(stderr,
                "touchstone judge: no entrants; name one or check --challenge and --class\n");
        return TS_EXIT_USAGE;
    }
    if (!given[0] && !c.only)
        fprintf(stderr, "touchstone judge: no entrant given: judging the %d built-in ones\n", c.n);
    if (!ts_guarantee_all(&c.machine)) {
        fprintf(stderr,
                "touchstone judge: this machine cannot judge: %s; run 'touchstone judge "
                "--selfcheck' for all guarantees\n",
                c.machine.why);
        return TS_EXIT_BROKEN;
    }
    if (c.device == TS_CUDA) ts_guarantee_device(&c.machine);
    if (!is_confined(&c)) return TS_EXIT_BROKEN;
    if (!o.replay) return sit(&c, &o, given[0] != NULL);
    ts_records was;
    char       why[TS_WHY];
    o.log = passing;
    if (!ts_records_read(o.replay, &was, why)) {
        fprintf(stderr, "touchstone judge: %s: %s\n", o.replay, why);
        return TS_EXIT_BROKEN;
    }
    status = !ts_replay_key(&c, &was, o.replay)     ? TS_EXIT_BROKEN
             : !ts_replay_knows(&c, &was, o.replay) ? TS_EXIT_USAGE
                                                    : sit(&c, &o, given[0] != NULL);
    unlink(passing);
    if (status < TS_EXIT_USAGE) status = ts_replay_compare(&c, &was);
    ts_records_free(&was);
    return status;
}
