/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - the library's implementations, each under the CPU mask that makes dispatch select it,
 * must pass every case; every mutant must fail the check that it names. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "cpu.h"
#include "dtype.h"
#include "examine.h"
#include "mutant_cuda.h"
#include "registry.h"
#include "rng.h"
#include "tool.h"

enum { MAX_LANES = 32, SMALL_ELEMENTS = 60000, SMALL_FLOPS = 4 * SMALL_ELEMENTS };

typedef struct lane {
    const ts_impl
        *row; /* NULL: a baseline, a control, or a mutant examined like an implementation */
    const ts_mutant *mutant; /* NULL: none */
    ts_function      function;
    ts_worker       *worker;
    ts_counts        n;
    double           worst_of[TS_CHECK_DTYPES]; /* NaN: no case of that dtype */
    char             note[256];                 /* why cases were skipped */
} lane;

void ts_check_progress(const ts_check *r, const char *task, const char *text, int i, int n)
{
    if (r->live) fprintf(stderr, "\r\033[K%s %s %d/%d", task, text, i, n);
}

void ts_check_clear(const ts_check *r)
{
    if (r->live) fprintf(stderr, "\r\033[K");
}

static void report_flaw(ts_check *r, const ts_exam *e, const char *who, const ts_verdict *v)
{
    char name[256], why[512];
    ts_case_string(e->task, e->c, e->seed, name, sizeof name);
    ts_flaw_text(v, why, sizeof why);
    ts_check_clear(r);
    fprintf(r->out, "FAIL %s %s\n     %s\n", who, name, why);
    ts_json *o = ts_json_object(r->flaws, NULL);
    ts_json_text(o, "impl", who);
    ts_json_text(o, "case", name);
    ts_json_text(o, "flaw", why);
}

static void count(ts_check *r, lane *l, const ts_exam *e, const ts_verdict *v)
{
    l->n.cases++;
    l->n.calls += v->n_calls;
    /* Counted separately: at 16 bits, rounding to store uses up to the whole bound. */
    double *const worst = ts_wide(e->c->dtype) == e->c->dtype ? &l->n.worst : &l->n.worst_16;
    *worst = fmax(*worst, v->worst);
    l->worst_of[e->c->dtype] = fmax(l->worst_of[e->c->dtype], v->worst);
    if (v->faults) {
        l->n.failed++;
        report_flaw(r, e, l->function.name, v);
    } else if (v->broken) {
        l->n.skipped++;
        snprintf(l->note, sizeof l->note, "%s", v->text);
    } else l->n.passed++;
}

static bool wanted(const ts_check *r, const ts_task *t, const ts_case *c, ts_device d)
{
    if (!ts_case_checks(c, d) || !ts_case_matches(t, c, r->o.match)) return false;
    if (r->o.dtype >= 0 && c->dtype != (ts_dtype)r->o.dtype) return false;
    return !r->o.small || (c->dim[0] * c->dim[1] <= SMALL_ELEMENTS && strcmp(c->family, "far") &&
                           t->cost(c).flops <= SMALL_FLOPS);
}

/* Dispatch must select this implementation under this mask, or the lane tests another one. */
static bool reaches(const ts_challenge *ch, const lane *l, ts_dtype t)
{
    ts_impl found;
    if (!l->row || l->row->device != TS_CPU) return true;
    ts_cpu_set_mask(l->function.mask);
    const bool ok =
        ts_pick(ch->impls, TS_CPU, t, &found) == TS_OK && !strcmp(found.name, l->row->name);
    ts_cpu_set_mask(~0u);
    return ok;
}

static void examine_lane(ts_check *r, const ts_challenge *ch, lane *l, const ts_exam *e)
{
    ts_verdict v;
    if (!wanted(r, ch->task, e->c, l->function.device)) return;
    if (!(l->function.dtypes >> e->c->dtype & 1u)) {
        l->n.cases++;
        l->n.skipped++;
        return;
    }
    if (!reaches(ch, l, e->c->dtype)) {
        v = (ts_verdict) { .faults = 1u << TS_FAULT_STATUS,
                           .first = { .fault = TS_FAULT_STATUS,
                                      .what = "dispatch did not select this implementation" } };
    } else ts_examine(e, l->worker, LANE_LIMIT_MS, &v);
    count(r, l, e, &v);
}

/* Invalid calls start from one small valid case. */
static void examine_refusals(ts_check *r, const ts_challenge *ch, lane *lanes, int n)
{
    const ts_case *c = ch->task->cases();
    while (c->use && (c->dtype != TS_F32 || c->dim[0] < 2)) c++;
    if (!ts_case_matches(ch->task, c, r->o.match)) return;
    ts_exam e;
    char    name[TS_EXPORT_NAME];
    ts_exam_open(&e, ch->task, c, r->seeds[0], &r->arena);
    for (int i = 0; i < n; i++) {
        ts_verdict v;
        /* A script that calls several functions has no args of theirs to leave out. */
        const bool entry = !lanes[i].mutant && !ts_task_export(ch->task, 1, name);
        ts_examine_refusals(&e, lanes[i].worker, entry, LANE_LIMIT_MS, &v);
        count(r, &lanes[i], &e, &v);
    }
    ts_exam_close(&e);
}

/* Whether --impl and --device select it. */
static bool asked_for(const ts_check *r, const char *name, ts_device device)
{
    if (r->o.impl && strcmp(r->o.impl, name)) return false;
    return r->o.device < 0 || device == (ts_device)r->o.device;
}

static int open_lanes(const ts_check *r, const ts_challenge *ch, lane *lanes)
{
    int n = 0;
    for (const ts_impl *row = ch->impls; row->name && n < MAX_LANES; row++)
        if (asked_for(r, row->name, row->device))
            lanes[n++] = (lane) { .row = row, .function = ts_function_of(ch, row) };
    for (const ts_function *f = ts_baselines_of(ch); f->name && n < MAX_LANES; f++)
        if (asked_for(r, f->name, f->device)) lanes[n++] = (lane) { .function = *f };
    for (const ts_mutant *m = ch->mutants; m->name && n < MAX_LANES; m++) {
        const bool named = r->o.impl && !strcmp(r->o.impl, m->name);
        const bool control =
            !r->o.impl && m->fault == TS_FAULT_NONE && !r->o.no_mutants && ts_check_in_part(r, m);
        if (strcmp(m->task, ch->task->name) || !(named || control)) continue;
        if (m->device != r->mutant_device && !(named && r->o.device < 0)) continue;
        lanes[n++] = (lane) { .mutant = m, .function = ts_check_function_of(m) };
    }
    for (int i = 0; i < n; i++) {
        lanes[i].worker = ts_worker_start(&lanes[i].function, &r->arena);
        for (int t = 0; t < TS_CHECK_DTYPES; t++) lanes[i].worst_of[t] = NAN;
    }
    return n;
}

/* The largest error of one width over its bound; '-' if no case of that width was compared. */
static const char *worst_text(const lane *l, bool wide, char text[16])
{
    bool any = false;
    for (int t = 0; t < TS_CHECK_DTYPES; t++)
        any |= !isnan(l->worst_of[t]) && (ts_wide((ts_dtype)t) == (ts_dtype)t) == wide;
    if (!any || !(l->n.passed + l->n.failed)) return "-";
    snprintf(text, 16, "%.2f", wide ? l->n.worst : l->n.worst_16);
    return text;
}

static void close_lane(ts_check *r, const ts_challenge *ch, lane *l)
{
    const ts_counts *n = &l->n;
    ts_worker_stop(&l->worker);
    ts_check_clear(r);
    char wide[16], narrow[16];
    fprintf(r->out,
            "%-24s %-16s %5lld passed %4lld failed %4lld skipped   worst %4s of its bound, %4s at "
            "16 bits%s%s\n",
            ch->task->name, l->function.name, (long long)n->passed, (long long)n->failed,
            (long long)n->skipped, worst_text(l, true, wide), worst_text(l, false, narrow),
            l->note[0] ? "   skipped: " : "",
            !l->note[0] || strcmp(l->note, r->said) ? l->note : "as above");
    if (l->note[0]) snprintf(r->said, sizeof r->said, "%s", l->note);
    ts_json *j = ts_json_object(r->lanes, NULL);
    ts_json_text(j, "task", ch->task->name);
    ts_json_text(j, "impl", l->function.name);
    ts_json_int(j, "cases", n->cases);
    ts_json_int(j, "passed", n->passed);
    ts_json_int(j, "failed", n->failed);
    ts_json_int(j, "skipped", n->skipped);
    ts_json_int(j, "calls", n->calls);
    ts_json_number(j, "worst_fraction_of_bound", n->worst);
    ts_json_number(j, "worst_fraction_of_bound_16_bits", n->worst_16);
    ts_json *by = ts_json_object(j, "worst_by_dtype");
    for (int t = 0; t < TS_CHECK_DTYPES; t++)
        if (!isnan(l->worst_of[t]))
            ts_json_number(by, ts_format_of((ts_dtype)t)->name, l->worst_of[t]);
    if (!l->mutant) ts_check_errors_add(&r->errors, ch->task->name, l->function.name, l->worst_of);
    r->total.cases += n->cases;
    r->total.passed += n->passed;
    r->total.failed += n->failed;
    r->total.skipped += n->skipped;
    r->total.calls += n->calls;
}

/* With --cases 1/N one case of N runs, and the fresh seed is used in one case of five: different
 * ones each time, so that over several runs all are covered, and each run stays short. */
static int seeds_of(const ts_check *r, int number)
{
    if (ts_bits(~r->seeds[1], number) % (uint64_t)r->case_part) return 0;
    return r->n_seeds > 1 && ts_bits(r->seeds[1], number) % 5 == 0 ? 2 : 1;
}

/* A lane whose device is missing skips all its cases, but counts them. */
static bool lane_works(const ts_check *r, const ts_challenge *ch, lane *l)
{
    ts_reply reply = { .broken = true };
    if (l->row && l->row->device == TS_CPU && l->row->needs & ~ts_cpu_features())
        snprintf(reply.text, sizeof reply.text, "not supported by this CPU");
    else if (l->mutant && l->mutant->device == TS_CUDA && !ts_mutant_cuda_there())
        snprintf(reply.text, sizeof reply.text, "%s", TS_NO_CUDA_MUTANTS);
    else
        ts_worker_order(l->worker, (ts_order) { .verb = TS_PROBE, .limit_ms = LANE_LIMIT_MS },
                        &reply);
    if (!reply.broken) return true;
    const ts_case *all = ch->task->cases();
    for (int i = 0; all[i].use; i++)
        if (wanted(r, ch->task, &all[i], l->function.device))
            l->n.cases += seeds_of(r, i), l->n.skipped += seeds_of(r, i);
    snprintf(l->note, sizeof l->note, "%s", reply.text);
    return false;
}

static void check_challenge(ts_check *r, const ts_challenge *ch)
{
    lane lanes[MAX_LANES], *at[MAX_LANES];
    int  n = open_lanes(r, ch, lanes), n_at = 0, n_cases = 0, i = 0;
    for (int k = 0; k < n; k++)
        if (lane_works(r, ch, &lanes[k])) at[n_at++] = &lanes[k];
    for (const ts_case *c = ch->task->cases(); c->use; c++) n_cases++;
    for (int k = 0; k < n_at; k++)
        examine_refusals(r, ch, at[k], 1); /* first, since they are fast */
    for (const ts_case *c = ch->task->cases(); c->use && n_at; c++, i++) {
        bool any = false;
        for (int k = 0; k < n_at; k++) any |= wanted(r, ch->task, c, at[k]->function.device);
        for (int s = 0; s < seeds_of(r, i) && any; s++) {
            ts_exam e;
            ts_check_progress(r, ch->task->name, "case", i, n_cases);
            ts_exam_open(&e, ch->task, c, r->seeds[s], &r->arena);
            for (int k = 0; k < n_at; k++) examine_lane(r, ch, at[k], &e);
            ts_exam_close(&e);
        }
    }
    for (int k = 0; k < n; k++) close_lane(r, ch, &lanes[k]);
}

/* ---- the command ---- */

/* The default seed and a fresh one; or the only one that was given. */
static bool choose_seeds(ts_check *r, bool given)
{
    bool in_name;
    r->n_seeds = 2;
    if (getrandom(&r->seeds[1], sizeof r->seeds[1], 0) != sizeof r->seeds[1])
        r->seeds[1] = (uint64_t)time(NULL);
    r->seeds[1] &= 0xffffffffu; /* short enough to type */
    if (!ts_case_seed(r->o.match, &in_name, &r->seeds[0])) return false;
    if (given || in_name) r->n_seeds = 1;
    return true;
}

/* 1/N */
static bool parse_part(const char *text, void *n)
{
    char rest;
    return sscanf(text, "1/%d%c", (int *)n, &rest) == 1 && *(int *)n >= 1;
}

static bool parse(ts_check *r, int argc, char **argv, int *status)
{
    static const ts_choice dtypes[] = {
        { "f32", TS_F32 }, { "f64", TS_F64 }, { "bf16", TS_BF16 }, { "f16", TS_F16 }, { 0 }
    };
    ts_check_options *o = &r->o;
    bool              seeded = false;
    const ts_option   table[] = {
          { "--task", "NAME", NULL, "only this task, or all tasks with this prefix",
            .text = &o->task },
          { "--impl", "NAME", NULL,
            "only this implementation, or this mutant in its place; with --only-mutants, A|B",
            .text = &o->impl },
          { "--case", "TEXT", NULL,
            "only cases whose name contains TEXT (or one of A|B|C); a full name replays a case",
            .text = &o->match },
          { "--cases", "1/N", NULL, "run one case in N, a different selection each time",
            .to = &r->case_part, .parse = parse_part, .expected = "1/N" },
          { "--device", "D", NULL, "only on this device", .to = &o->device, .choices = ts_devices },
          { "--dtype", "NAME", NULL, "only cases of this dtype", .to = &o->dtype, .choices = dtypes },
          { "--small", NULL, NULL, "only small cases, for sanitizers and valgrind",
            .flag = &o->small },
          { "--no-mutants", NULL, NULL, "skip the mutants", .flag = &o->no_mutants },
          { "--mutants", "1/N", NULL, "run one mutant in N, a different selection each time",
            .to = &r->mutant_part, .parse = parse_part, .expected = "1/N" },
          { "--only-mutants", NULL, NULL, "run only the mutants and show what caught each",
            .flag = &o->only_mutants },
          { "--svg", "FILE", NULL,
            "draw the largest error over its bound, per implementation and dtype", .text = &o->svg },
          { "--json", "FILE|-", NULL, "write the result as JSON", .text = &o->json },
          { "--seed", "N", NULL,
            "use only this seed (default: 0x5eed, and a fresh one in one case of five)",
            .seed = &r->seeds[0], .given = &seeded },
          { 0 },
    };
    r->seeds[0] = 0x5eed;
    r->case_part = r->mutant_part = 1;
    o->device = o->dtype = -1;
    if (!ts_options(argc, argv, "check [OPTION...]", table, NULL, 0, status)) return false;
    if (o->only_mutants && (o->no_mutants || o->match || o->dtype >= 0))
        return ts_fail("--only-mutants: got another filter, expected only --task, --impl, --device "
                       "or --seed with this option");
    return choose_seeds(r, seeded) && ts_task_known("--task", o->task, false) &&
           ts_json_open(o->json, &r->json);
}

int ts_tool_check(int argc, char **argv)
{
    static ts_check r;
    int             status, bad = 0;
    if (!parse(&r, argc, argv, &status)) return status;
    if (!ts_arena_open(&r.arena)) return ts_fail("cannot reserve address space"), TS_EXIT_BROKEN;
    r.out = ts_json_beside(r.o.json, stderr);
    r.live = isatty(STDERR_FILENO);
    setvbuf(r.out, NULL, _IOLBF, 0); /* an interrupted run keeps its findings */
    r.flaws = ts_json_array(r.json, "flaws");
    r.lanes = ts_json_array(r.json, "lanes");
    fprintf(r.out, "seeds: 0x%llx", (unsigned long long)r.seeds[0]);
    if (r.n_seeds > 1)
        fprintf(r.out, ", plus a fresh seed in one case of five, 0x%llx",
                (unsigned long long)r.seeds[1]);
    fprintf(r.out, "\n");
    const bool mutants = r.o.only_mutants ||
                         (!r.o.no_mutants && !r.o.impl && !r.o.match && !r.o.task && r.o.dtype < 0);
    if (r.o.device == TS_CUDA) r.mutant_device = TS_CUDA;
    if (mutants && r.mutant_device == TS_CUDA) ts_check_probe_cuda(&r);
    for (const ts_challenge *ch = ts_challenges; ch->task; ch++) {
        if (!ts_task_matches(ch->task, r.o.task)) continue;
        if (!r.o.only_mutants) check_challenge(&r, ch);
        if (mutants) ts_check_mutants(&r, ch);
    }
    if (mutants) bad = ts_check_report_mutants(&r);
    else if (!r.o.no_mutants)
        fprintf(r.out, "mutants: not run, because the selection is narrowed; run them with "
                       "--only-mutants\n");
    ts_json_int(r.json, "cases", r.total.cases);
    ts_json_int(r.json, "passed", r.total.passed);
    ts_json_int(r.json, "failed", r.total.failed);
    ts_json_int(r.json, "skipped", r.total.skipped);
    ts_json_int(r.json, "calls", r.total.calls);
    for (int i = 0; i < r.n_seeds; i++) {
        char seed[32];
        snprintf(seed, sizeof seed, "0x%llx", (unsigned long long)r.seeds[i]);
        ts_json_text(r.json, i ? "seed_fresh" : "seed", seed);
    }
    if (r.case_part > 1)
        fprintf(r.out, "one case in %d, a different selection each time; without --cases: all\n",
                r.case_part);
    fprintf(r.out, "%lld cases, %lld calls: %lld passed, %lld failed, %lld skipped\n",
            (long long)r.total.cases, (long long)r.total.calls, (long long)r.total.passed,
            (long long)r.total.failed, (long long)r.total.skipped);
    if (!r.total.passed && !r.total.failed && !r.n_rejected)
        ts_fail("no case matches the filters, or every case was skipped; see 'touchstone list "
                "cases'");
    bad += r.total.failed || !(r.total.passed || r.n_rejected);
    ts_arena_close(&r.arena);
    const bool drawn = ts_check_errors_draw(&r.errors, r.o.svg);
    return !ts_json_close(r.o.json, r.json) || !drawn ? TS_EXIT_BROKEN
           : bad                                      ? TS_EXIT_FAILED
                                                      : TS_EXIT_PASSED;
}
