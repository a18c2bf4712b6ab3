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
#include "exp_rate.h"
#include "explain.h"
#include "judge_again.h"
#include "judge_entrants.h"
#include "merge.h"
#include "page.h"
#include "python.h"
#include "registry.h"
#include "run.h"
#include "selfcheck.h"
#include "signature.h"
#include "slurm.h"
#include "temporary.h"
#include "tool.h"
#include "verdicts.h"

enum { MOST_THREADS = 256 };

typedef struct judge_options {
    const char *given[TS_MOST_ENTRANTS];
    const char *log, *out, *challenge, *json, *replay, *slurm, *sign;
    uint64_t    seed;
    int64_t     threads; /* 0: default */
    int         cls;     /* a ts_class; below 0: all */
    int         device;  /* a ts_device; below 0: as the first entrant */
    bool        resume, selfcheck, times;
    char        passing[TS_TEMPORARY_PATH + 8]; /* the log of a run without a verdict */
} judge_options;

/* ---- results ---- */

/* The log as `touchstone report` reads it: if it was resumed on another machine, times are not
 * compared. */
static bool read_log(const char *path, ts_records *r, char why[TS_WHY])
{
    ts_records log;
    char       text[TS_SIGNED];
    bool       trusted;
    if (!ts_records_read(path, &log, why)) return false;
    ts_merge  *m = ts_merge_begin();
    const bool ok = m && ts_signed_by(&log, NULL, text, &trusted, why) &&
                    ts_merge_add(m, &log, why) && ts_merge_signed(m, text);
    ts_records_free(&log);
    if (!ok) ts_merge_free(m);
    return ok && ts_merge_end(m, r, why);
}

static int show(const ts_run *c, const judge_options *o, ts_json *json)
{
    ts_records r;
    ts_board   b;
    char       why[TS_WHY] = "out of memory";
    int        status = TS_EXIT_PASSED;
    if (!read_log(o->log, &r, why)) return ts_fail("%s: %s", o->log, why), TS_EXIT_BROKEN;
    if (ts_board_make(&r, &b, why)) {
        b.program = program_invocation_name;
        ts_board_print(&b, ts_json_beside(o->json, stderr));
        b.program = NULL; /* not on a page that is published */
        if (o->out) status = ts_page_to(&r, &b, o->out);
        if (o->out && !status) printf("page: %s/index.html\n", o->out);
        ts_verdicts_list(c, &b, json);
        ts_board_free(&b);
    } else ts_fail("%s: %s", o->log, why), status = TS_EXIT_BROKEN;
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
    if (ok) ts_fail("earlier log %s renamed to %s", log, old);
    else ts_fail("%s: %s", log, why);
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
    return ok || ts_complain(path, "cannot be written");
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

/* Judges into the log: what it has no verdict on yet. */
static bool judge_all(ts_run *c, const judge_options *o, const ts_records *earlier)
{
    char key_path[4200], why[TS_WHY];
    snprintf(key_path, sizeof key_path, "%s.key", o->log);
    if (ts_records_ended(earlier) && !ts_run_recall(c, earlier)) {
        ts_fail("%s: every entrant has a verdict; nothing to judge", o->log);
        const bool open = !ts_record_is(&earlier->at[earlier->n - 1], "signature");
        return !o->sign || !open || ts_sign_log(c->log, o->sign);
    }
    if (!draw_key(c, key_path, o->resume)) return false;
    if (!ts_run_all(c, earlier) || !derive(c->log, o->log, why) || !ts_run_end(c))
        return c->log->error ? ts_fail("%s: cannot be written: %s", o->log, strerror(c->log->error))
                             : ts_fail("%s", why);
    unlink(key_path);
    return !o->sign || ts_sign_log(c->log, o->sign);
}

static int sit(ts_run *c, const judge_options *o)
{
    ts_records earlier = { 0 };
    char       why[TS_WHY];
    ts_json   *json;
    if (!o->resume && !put_aside(o->log)) return TS_EXIT_BROKEN;
    c->log = ts_log_open(o->log, &earlier, why);
    if (!c->log) return ts_fail("%s: %s", o->log, why), TS_EXIT_BROKEN;
    const bool ok = judge_all(c, o, &earlier);
    ts_log_close(c->log);
    ts_records_free(&earlier);
    for (int i = 0; i < c->n; i++) ts_built_free(&c->entrant[i]->built);
    if (!ok || !ts_json_open(o->json, &json)) return TS_EXIT_BROKEN;
    const int shown = show(c, o, json);
    ts_explain(c);
    if (!ts_json_close(o->json, json)) return TS_EXIT_BROKEN;
    if (c->only) unlink(o->log);
    return shown ? shown : verdict(c, o->given[0] != NULL);
}

/* Judges again from the key of a log, and compares. */
static int replay(ts_run *c, judge_options *o)
{
    ts_records was;
    char       why[TS_WHY];
    o->log = o->passing;
    if (!ts_records_read(o->replay, &was, why))
        return ts_fail("%s: %s", o->replay, why), TS_EXIT_BROKEN;
    int        status = !ts_replay_key(c, &was, o->replay)     ? TS_EXIT_BROKEN
                        : !ts_replay_knows(c, &was, o->replay) ? TS_EXIT_USAGE
                                                               : sit(c, o);
    ts_records now = { 0 };
    if (status < TS_EXIT_USAGE && !ts_records_read(o->passing, &now, why))
        status = (ts_fail("%s", why), TS_EXIT_BROKEN);
    unlink(o->passing);
    if (status < TS_EXIT_USAGE) {
        status = ts_replay_compare(c, &was);
        const int timed = o->times ? ts_replay_times(c, &now, &was) : TS_EXIT_PASSED;
        status = status ? status : timed;
    }
    ts_records_free(&now);
    ts_records_free(&was);
    return status;
}

/* ---- options ---- */

static const char usage[] =
    "judge [ENTRANT...] [OPTION...]\n\nENTRANT is a source file, an answer in Markdown, a folder "
    "with entry.json, a folder of\nanswers at any depth: MODEL/CHALLENGE.c, .cpp, .cu, .py or .md, "
    "MODEL/CHALLENGE/ or\nMODEL/CHALLENGE/sample-3/; or the name of a built-in one, such as "
    "touchstone: judged in\nthe challenges of the others. Without ENTRANT, the built-in ones are "
    "judged.";

static bool parse(int argc, char **argv, ts_run *c, judge_options *o, int *status)
{
    static const ts_choice depths[] = {
        { "quick", TS_QUICK }, { "normal", TS_NORMAL }, { "full", TS_FULL }, { 0 }
    };
    ts_choice       classes[TS_N_CLASSES + 1] = { { 0 } };
    const ts_option options[] = {
        { "--challenge", "NAME", NULL, "judge only this challenge (default: all)",
          .text = &o->challenge },
        { "--class", "NAME", NULL, "judge only entrants of this class (default: all)",
          .to = &o->cls, .choices = classes },
        { "--depth", "D", "normal", "number of cases and timed calls", .to = &c->depth,
          .choices = depths },
        { "--no-timing", NULL, NULL, "test correctness only, without timing", .flag = &c->untimed },
        { "--first", NULL, NULL, "stop at an entrant's first failure, without counting the others",
          .flag = &c->first },
        { "--case", "NAME", NULL, "run only this case, named with its seed as in a verdict",
          .text = &c->only },
        { "--device", "D", NULL, "device to judge on (default: from the first entrant's class)",
          .to = &o->device, .choices = ts_devices },
        { "--threads", "N", NULL,
          "threads per entrant when timed (default: all cores but one, at least 1)",
          .count = &o->threads, .range = { 1, MOST_THREADS } },
        { "--sanitize", NULL, NULL, "with --device cuda, also run under compute-sanitizer",
          .flag = &c->sanitize },
        { "--log", "FILE", "judge.log", "write verdicts to FILE", .text = &o->log },
        { "--resume", NULL, NULL, "continue the log, skipping entrants already judged",
          .flag = &o->resume },
        { "--sign", "KEY", NULL, "sign the log with an SSH key (ssh-keygen -Y sign)",
          .text = &o->sign },
        { "--out", "DIR", NULL, "also write the page to DIR/index.html", .text = &o->out },
        { "--slurm", "DIR", NULL, "judge nothing; write a Slurm job that judges in shards to DIR",
          .text = &o->slurm },
        { "--seed", "N", NULL, "draw inputs from seed N (default: random); recorded in the log",
          .seed = &o->seed, .given = &c->key_given },
        { "--json", "FILE|-", NULL, "write verdicts, or --selfcheck's guarantees, as JSON",
          .text = &o->json },
        { "--replay", "LOG", NULL, "judge again from the key in LOG and compare verdicts",
          .text = &o->replay },
        { "--times", NULL, NULL, "with --replay, also compare times, within their intervals",
          .flag = &o->times },
        { "--unsafe", NULL, NULL, "run entrants even where this machine cannot confine them",
          .flag = &c->unsafe },
        { "--selfcheck", NULL, NULL, "test this machine's sandbox guarantees and exit",
          .flag = &o->selfcheck },
        { 0 },
    };
    for (int i = 0; i < TS_N_CLASSES; i++) classes[i] = (ts_choice) { ts_class_name(i), i };
    return ts_options(argc, argv, usage, options, o->given, TS_MOST_ENTRANTS - 1, status) &&
           ts_task_known("--challenge", o->challenge, true) && (!c->only || ts_case_find(&c->only));
}

/* ---- the run ---- */

/* Default: all cores of this process but one, which is the judge's. */
static int count_threads(int64_t asked)
{
    cpu_set_t may;
    const int cores = sched_getaffinity(0, sizeof may, &may) ? 1 : CPU_COUNT(&may);
    const int most = cores > 2 ? cores - 1 : 1;
    return asked ? (int)asked : most < MOST_THREADS ? most : MOST_THREADS;
}

/* Whether the GPU is there, if entrants need it; `gpus`: their class, if that chose the device. */
static bool survey(ts_run *c, const char *entrant, const char *gpus)
{
    if (c->device == TS_CUDA) ts_keeper_survey(&c->survey);
    if (c->device != TS_CUDA || c->survey.there) return true;
    return gpus ? ts_fail("%s (class %s) needs a GPU: %s", entrant, gpus, c->survey.text)
                : ts_fail("--device cuda: %s", c->survey.text);
}

/* What the run needs before its entrants are known. */
static bool prepare(ts_run *c, judge_options *o)
{
    /* A single case gives no verdict: its log is temporary. */
    if ((c->only || o->replay) && !ts_temporary(o->passing))
        return ts_fail("no temporary folder in /tmp: %s", strerror(errno));
    strcat(o->passing, "/log");
    if (c->only) o->log = o->passing;
    memcpy(c->key, &o->seed, sizeof o->seed);
    c->python = ts_python_find();
    c->progress.to = stderr;
    c->n_threads = count_threads(o->threads);
    c->exp_sums = ts_exp_sums_here();
    if (access("/proc/self/exe", F_OK))
        return ts_fail("/proc: %s; the judge needs it mounted", strerror(errno));
    if (!ts_places_find(&c->places))
        return ts_fail("contract headers: not found next to the program; reinstall, or run the "
                       "program from its build folder");
    if (c->device == TS_CUDA) snprintf(c->places.arch, sizeof c->places.arch, "%s", c->survey.arch);
    return true;
}

/* False, and an error line, if the machine cannot judge, or confine an entrant. */
static bool is_confined(ts_run *c)
{
    unsigned lacks = 0;
    char     text[128];
    if (!ts_guarantee_all(&c->machine))
        return ts_fail("this machine cannot judge: %s; run 'touchstone judge --selfcheck' for all "
                       "guarantees",
                       c->machine.why);
    if (c->device == TS_CUDA) ts_guarantee_device(&c->machine);
    for (int i = 0; i < c->n && !c->unsafe; i++)
        lacks |= c->entrant[i]->entrant.cls == TS_SEALED ? c->machine.sealed_lacks
                                                         : c->machine.host_lacks;
    ts_held_names(lacks, text, sizeof text);
    return !lacks ||
           ts_fail("this machine cannot confine entrants: missing %s; --unsafe runs them anyway",
                   text);
}

int ts_tool_judge(int argc, char **argv)
{
    static ts_run        c;
    static judge_options o = { .cls = -1, .device = -1 };
    int                  status;
    if (!parse(argc, argv, &c, &o, &status)) return status;
    const char *gpus = o.device < 0 && o.given[0] ? ts_judge_gpu_class(o.given[0]) : NULL;
    if (gpus || o.device == TS_CUDA) c.device = TS_CUDA;
    if (o.times && !o.replay)
        return ts_fail("--times: got no --replay, expected the log whose times to compare"),
               TS_EXIT_USAGE;
    if (o.slurm) return ts_judge_slurm(&c, o.slurm, o.given, argc, argv);
    if (!survey(&c, o.given[0], gpus)) return TS_EXIT_BROKEN;
    if (o.selfcheck) return ts_selfcheck(c.device == TS_CUDA ? &c.survey : NULL, o.json);
    if (!prepare(&c, &o)) return TS_EXIT_BROKEN;
    if (!ts_judge_gather(&c, o.given, o.challenge, o.cls)) return TS_EXIT_USAGE;
    if (!is_confined(&c)) return TS_EXIT_BROKEN;
    if (o.sign && !ts_sign_try(o.sign)) return TS_EXIT_BROKEN;
    return o.replay ? replay(&c, &o) : sit(&c, &o);
}
