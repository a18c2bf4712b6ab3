/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - `touchstone list`: prints challenges, functions, cases, implementations, mutants and
 * devices. */
#include <string.h>

#include "cpu.h"
#include "dtype.h"
#include "plan.h"
#include "registry.h"
#include "tool.h"

typedef struct listing {
    FILE       *out;
    ts_json    *rows; /* array */
    uint64_t    seed;
    const char *challenge; /* NULL: every task */
} listing;

/* One row: up to three words, printed in columns and written to JSON with these keys. */
static void row(listing *l, const char *const key[3], const char *a, const char *b, const char *c)
{
    const char *const value[3] = { a, b, c };
    ts_json          *o = ts_json_object(l->rows, NULL);
    for (int i = 0; i < 3 && key[i]; i++) {
        ts_print(l->out, i + 1 < 3 && key[i + 1] ? "%-20s " : "%s", value[i]);
        ts_json_text(o, key[i], value[i]);
    }
    ts_print(l->out, "\n");
}

static void list_task(listing *l, const ts_task *t)
{
    const char *const key[3] = { "task", "cases", "dims" };
    char              dims[128] = "", n[32];
    int               n_cases = 0;
    size_t            at = 0;
    for (const ts_case *c = t->cases(); c->use; c++) n_cases++;
    for (int i = 0; i < TS_MAX_DIMS && t->dim_name[i] && at < sizeof dims; i++)
        at += (size_t)snprintf(dims + at, sizeof dims - at, "%s%s", i ? "," : "", t->dim_name[i]);
    snprintf(n, sizeof n, "%d", n_cases);
    row(l, key, t->name, n, dims);
}

static void list_tasks(listing *l)
{
    for (const ts_task *const *t = ts_tasks; *t; t++) list_task(l, *t);
}

static void list_challenges(listing *l)
{
    for (const ts_task *const *t = ts_tasks; *t; t++)
        if (!(*t)->no_challenge) list_task(l, *t);
}

/* A function that entrants must, or may, export. */
static void list_function(listing *l, const ts_task *t, const char *name, bool must)
{
    const char *const key[3] = { "task", "function", "use" };
    row(l, key, t->name, name, must ? "required" : "optional");
}

static void list_functions(listing *l)
{
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        char        room[TS_EXPORT_NAME];
        const char *name;
        if ((*t)->no_challenge) continue;
        for (int i = 0; (name = ts_task_export(*t, i, room)); i++) list_function(l, *t, name, true);
        for (const char *const *f = (*t)->optional; f && *f; f++) list_function(l, *t, *f, false);
    }
}

/* The arguments of a call other than dimensions. */
static void list_arguments(listing *l)
{
    const char *const key[3] = { "task", "argument", "is" };
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        for (const ts_tensor *b = (*t)->buffer; b->name; b++) {
            char is[64];
            snprintf(is, sizeof is, "%s, %d ax%ss, %s", b->role == TS_IN ? "input" : "output",
                     b->n_axes, b->n_axes == 1 ? "i" : "e", b->integers ? "integers" : "reals");
            row(l, key, (*t)->name, b->name, is);
        }
        for (const ts_number *n = (*t)->number; n->name; n++)
            row(l, key, (*t)->name, n->name, n->integer ? "integer" : "real");
    }
}

static void list_cases(listing *l)
{
    const char *const key[3] = { "use", "case", NULL };
    for (const ts_task *const *t = ts_tasks; *t; t++)
        for (const ts_case *c = (*t)->cases(); c->use; c++) {
            char s[256];
            if (l->challenge && strcmp(l->challenge, (*t)->name)) break;
            ts_case_string(*t, c, l->seed, s, sizeof s);
            row(l, key,
                c->use & TS_USE_TIME     ? "time"
                : c->use & TS_USE_JUDGE  ? "judge"
                : c->use & TS_USE_DEVICE ? "device"
                                         : "check",
                s, NULL);
        }
}

static void list_impl(listing *l, const ts_challenge *ch, const char *name, unsigned has)
{
    const char *const key[3] = { "task", "impl", "dtypes" };
    char              dtypes[64] = "";
    size_t            at = 0;
    for (int t = TS_F32; t <= TS_BF16; t++)
        if (has >> t & 1u)
            at += (size_t)snprintf(dtypes + at, sizeof dtypes - at, "%s%s", at ? " " : "",
                                   ts_format_of((ts_dtype)t)->name);
    row(l, key, ch->task->name, name, dtypes);
}

/* Those that the API selects from, best first; then the baselines, which it never selects. */
static void list_impls(listing *l)
{
    for (const ts_challenge *ch = ts_challenges; ch->task; ch++) {
        for (const ts_impl *i = ch->impls; i->name; i++) list_impl(l, ch, i->name, i->dtypes);
        for (const ts_function *f = ts_baselines_of(ch); f->name; f++)
            list_impl(l, ch, f->name, f->dtypes);
    }
}

static void list_mutants(listing *l)
{
    const char *const key[3] = { "task", "mutant", "caught_by" };
    for (const ts_challenge *ch = ts_challenges; ch->task; ch++)
        for (const ts_mutant *m = ch->mutants; m->name; m++)
            if (!strcmp(m->task, ch->task->name))
                row(l, key, m->task, m->name,
                    m->fault ? ts_fault_name(m->fault) : "nothing (control)");
}

/* Queries the driver in a worker, as everywhere: the examiner itself never loads it. */
static void list_devices(listing *l)
{
    const char *const key[3] = { "device", "is", NULL };
    const char *const name[] = { "cpu", "cuda" };
    ts_arena          m = { 0 };
    for (int d = TS_CPU; d <= TS_CUDA; d++) {
        const ts_function e = { .name = name[d], .device = (ts_device)d, .mask = ~0u };
        ts_worker        *w = ts_worker_start(&e, &m);
        ts_reply          r;
        ts_worker_order(w, (ts_order) { .verb = TS_PROBE, .limit_ms = 60000 }, &r);
        row(l, key, name[d], r.text, NULL);
        ts_worker_stop(&w);
    }
}

static void list_models(listing *l)
{
    const char *const key[3] = { "model", "parameters", "from" };
    for (const ts_plan_model *m = ts_plan_models; m->id; m++) {
        char size[32];
        snprintf(size, sizeof size, "%lld", (long long)ts_plan_params(m));
        row(l, key, m->id, size, m->note);
    }
}

static void list_gpus(listing *l)
{
    const char *const key[3] = { "gpu", "memory", "from" };
    for (const ts_plan_gpu *g = ts_plan_gpus; g->id; g++) {
        char size[48];
        snprintf(size, sizeof size, "%.0f GiB, %.0f GB/s", g->gib, g->gbs);
        row(l, key, g->id, size, g->source);
    }
}

static const struct {
    const char *kind;
    void (*list)(listing *l);
} kinds[] = {
    { "challenges", list_challenges }, { "tasks", list_tasks },
    { "cases", list_cases },           { "functions", list_functions },
    { "arguments", list_arguments },   { "impls", list_impls },
    { "mutants", list_mutants },       { "devices", list_devices },
    { "models", list_models },         { "gpus", list_gpus },
};

int ts_tool_list(int argc, char **argv)
{
    const char     *json = NULL, *kind = NULL, *near = NULL;
    listing         l = { 0 };
    ts_json        *root;
    int             status;
    const ts_option options[] = {
        { "--challenge", "NAME", NULL, "list only the cases of this challenge or task",
          .text = &l.challenge },
        { "--json", "FILE|-", NULL, "write the list as JSON", .text = &json },
        { "--seed", "N", "0x5eed", "seed shown in case names", .seed = &l.seed },
        { 0 },
    };
    if (!ts_options(
            argc, argv,
            "list challenges|tasks|functions|arguments|cases|impls|mutants|devices|models|gpus "
            "[OPTION...]",
            options, &kind, 1, &status) ||
        !ts_task_known("--challenge", l.challenge, false))
        return status;
    if (l.challenge && kind && strcmp(kind, "cases"))
        return ts_fail("--challenge: got %s, expected cases", kind), status;
    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++) {
        ts_nearer(kind, kinds[i].kind, &near);
        if (strcmp(kind, kinds[i].kind)) continue;
        if (!ts_json_open(json, &root)) return TS_EXIT_USAGE;
        l.out = ts_json_beside(json, NULL);
        l.rows = ts_json_array(root, kind);
        kinds[i].list(&l);
        return ts_json_close(json, root) ? TS_EXIT_PASSED : TS_EXIT_BROKEN;
    }
    const char *quote = kind ? "'" : "";
    ts_fail("got %s%s%s, expected challenges, tasks, functions, arguments, cases, impls, mutants, "
            "devices, models or gpus%s%s",
            quote, kind ? kind : "nothing", quote, near ? "; did you mean " : "", near ? near : "");
    return status;
}
