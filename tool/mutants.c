/* SPDX-License-Identifier: Apache-2.0 */
/* mutants.c - runs the mutants: each must fail the check that it names. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "mutant_cuda.h"
#include "rng.h"

enum {
    MAX_MUTANTS = 1024, /* of one task */
    MUTANT_LIMIT_MS = 4000,
    HANG_LIMIT_MS = 1000,           /* for a mutant that hangs on purpose */
    DEVICE_MUTANT_LIMIT_MS = 30000, /* a device starts slowly */
    DEVICE_WORKERS = 8
};

/* A control uses one thread: two calls show that it passes and is repeatable. */
ts_function ts_check_function_of(const ts_mutant *m)
{
    const bool control = m->fault == TS_FAULT_NONE && m->device == TS_CPU;
    return (ts_function) { .name = m->name,
                           .device = m->device,
                           .dtypes = ~0u,
                           .mask = ~0u,
                           .run = m->run,
                           .workspace = m->workspace,
                           .one_thread = control };
}

/* Sets `skipped` if no CUDA mutant can be run. Queries the device in a worker, as everywhere. */
void ts_check_probe_cuda(ts_check *r)
{
    const ts_function e = { .name = "probe", .device = TS_CUDA, .mask = ~0u };
    ts_worker        *w = ts_worker_start(&e, &r->arena);
    ts_reply          reply;
    ts_worker_order(w, (ts_order) { .verb = TS_PROBE, .limit_ms = LANE_LIMIT_MS }, &reply);
    if (reply.broken) snprintf(r->skipped, sizeof r->skipped, "%s", reply.text);
    else if (!ts_mutant_cuda_there())
        snprintf(r->skipped, sizeof r->skipped, "%s", TS_NO_CUDA_MUTANTS);
    ts_worker_stop(&w);
}

static void report_caught(ts_check *r, const ts_exam *e, const ts_mutant *m, const ts_verdict *v)
{
    char name[256], why[512];
    ts_case_string(e->task, e->c, e->seed, name, sizeof name);
    ts_flaw_text(v, why, sizeof why);
    ts_check_clear(r);
    fprintf(r->out, "caught %s in %s\n       %s\n", m->name, name, why);
}

/* A mutant to catch; it has a worker from its first case until it is caught. */
typedef struct suspect {
    const ts_mutant *m;
    ts_function      function;
    ts_worker       *worker;
    unsigned         faults;
} suspect;

static bool caught(const suspect *q)
{
    return q->faults >> q->m->fault & 1u;
}

/* Whether to run this case: of the mutant's family, until its check has caught it. */
static bool awaits(const suspect *q, const ts_case *c)
{
    if (caught(q) || strcmp(c->family, q->m->family ? q->m->family : "normal")) return false;
    /* Without rows a NULL is valid. */
    return q->m->fault != TS_FAULT_REFUSAL || c->dim[0] >= 2;
}

static void examine(ts_check *r, const ts_exam *e, suspect *q)
{
    const ts_mutant *m = q->m;
    const int        limit_ms = m->device != TS_CPU         ? DEVICE_MUTANT_LIMIT_MS
                                : m->fault == TS_FAULT_HANG ? HANG_LIMIT_MS
                                                            : MUTANT_LIMIT_MS;
    ts_verdict       v;
    if (!q->worker) q->worker = ts_worker_start(&q->function, &r->arena);
    if (m->fault == TS_FAULT_REFUSAL) ts_examine_refusals(e, q->worker, false, limit_ms, &v);
    else ts_examine(e, q->worker, limit_ms, &v);
    q->faults |= v.faults;
    if (!caught(q)) return;
    if (r->o.only_mutants) report_caught(r, e, m, &v);
    ts_worker_stop(&q->worker);
}

typedef struct priced {
    const ts_case *c;
    double         work; /* bytes and flops together */
} priced;

static int cheaper(const void *a, const void *b)
{
    const priced *x = a, *y = b;
    if (x->work != y->work) return x->work < y->work ? -1 : 1;
    return (x->c > y->c) - (x->c < y->c);
}

/* The cases for mutants of a device, the cheapest first: those catch most mutants. To be freed. */
static priced *by_work(const ts_task *t, ts_device d, int *n)
{
    const ts_case *const all = t->cases();
    int                  n_all = 0;
    while (all[n_all].use) n_all++;
    priced *const list = malloc(((size_t)n_all + 1) * sizeof *list);
    if (!list) abort();
    *n = 0;
    for (const ts_case *c = all; c->use; c++) {
        if (!(c->use & TS_USE_CHECK) || !ts_case_checks(c, d)) continue;
        const ts_cost cost = t->cost(c);
        list[(*n)++] = (priced) { c, cost.bytes + cost.flops };
    }
    qsort(list, (size_t)*n, sizeof *list, cheaper);
    return list;
}

/* Draws and solves each case once, for all mutants not caught yet. */
static void run_mutants(ts_check *r, const ts_challenge *ch, suspect *list, int n)
{
    const uint64_t n_seeds = 2; /* one alone does not detect outputs remembered by shape */
    int            n_caught = 0, n_cases;
    priced *const  cases = by_work(ch->task, r->mutant_device, &n_cases);
    for (int k = 0; k < n_cases; k++)
        for (uint64_t s = 0; s < n_seeds; s++) {
            const ts_case *const c = cases[k].c;
            ts_exam              e;
            bool                 open = false;
            for (int i = 0; i < n; i++) {
                if (!awaits(&list[i], c)) continue;
                ts_check_progress(r, ch->task->name, list[i].m->name, n_caught, n);
                if (!open) ts_exam_open(&e, ch->task, c, r->seeds[0] + s, &r->arena);
                open = true;
                examine(r, &e, &list[i]);
                n_caught += caught(&list[i]);
            }
            if (open) ts_exam_close(&e);
        }
    for (int i = 0; i < n; i++) ts_worker_stop(&list[i].worker);
    free(cases);
}

static void count_mutant(ts_check *r, const ts_challenge *ch, const suspect *q)
{
    const ts_fault fault = q->m->fault;
    if (caught(q)) {
        r->n_rejected++;
        if (q->faults != 1u << fault) return;
        r->sole |= q->faults;
        r->sole_by[fault] = q->m->name;
        return;
    }
    ts_check_clear(r);
    fprintf(r->out, "FAIL mutant %s of %s was not caught by '%s'%s\n", q->m->name, ch->task->name,
            ts_fault_name(fault), q->faults ? ", only by other checks" : "");
}

/* Whether `names`, as in A|B, contains the mutant, or is NULL. */
static bool named(const ts_mutant *m, const char *names)
{
    const size_t n = strlen(m->name);
    while (names && (strncmp(names, m->name, n) || (names[n] && names[n] != '|'))) {
        names = strchr(names, '|');
        if (!names++) return false;
    }
    return true;
}

bool ts_check_in_part(const ts_check *r, const ts_mutant *m)
{
    uint64_t z = r->seeds[r->n_seeds - 1];
    for (const char *s = m->task; *s; s++) z = ts_mix(z + (unsigned char)*s);
    for (const char *s = m->name; *s; s++) z = ts_mix(z + (unsigned char)*s);
    return z % (uint64_t)r->mutant_part == 0;
}

void ts_check_mutants(ts_check *r, const ts_challenge *ch)
{
    static suspect list[MAX_MUTANTS];
    int            n = 0;
    for (const ts_mutant *m = ch->mutants; m->name; m++) {
        if (strcmp(m->task, ch->task->name) || m->fault == TS_FAULT_NONE) continue;
        if (m->device != r->mutant_device || !named(m, r->o.impl)) continue;
        if (!ts_check_in_part(r, m)) {
            r->n_left_out++;
            continue;
        }
        if (n == MAX_MUTANTS) abort();
        list[n++] = (suspect) { .m = m, .function = ts_check_function_of(m) };
    }
    r->n_mutants += n;
    if (r->skipped[0]) {
        r->n_skipped += n;
        return;
    }
    /* Each worker takes half a gigabyte of device memory. */
    const int at_once = r->mutant_device == TS_CPU ? n : DEVICE_WORKERS;
    for (int i = 0; i < n; i += at_once)
        run_mutants(r, ch, list + i, n - i < at_once ? n - i : at_once);
    for (int i = 0; i < n; i++) count_mutant(r, ch, &list[i]);
}

/* Every check must have a mutant that only it catches: verified on the CPU, over all tasks
 * together. */
int ts_check_report_mutants(ts_check *r)
{
    const bool every_check =
        r->mutant_device == TS_CPU && !r->o.task && !r->o.impl && r->mutant_part == 1;
    int missing = 0;
    ts_check_clear(r);
    for (int f = 1; f < TS_N_FAULTS && every_check; f++)
        if (!(r->sole >> f & 1u)) {
            missing++;
            fprintf(r->out, "FAIL no mutant is caught by '%s' alone\n", ts_fault_name((ts_fault)f));
        }
    fprintf(r->out, "mutants: %d of %d rejected by the check they name", r->n_rejected,
            r->n_mutants);
    if (every_check)
        fprintf(r->out, "; %d of %d checks have a mutant that only they catch",
                TS_N_FAULTS - 1 - missing, TS_N_FAULTS - 1);
    if (r->n_skipped) fprintf(r->out, "; %d skipped: %s", r->n_skipped, r->skipped);
    if (r->n_left_out) fprintf(r->out, "; %d left out by --mutants", r->n_left_out);
    fprintf(r->out, "\n");
    ts_json *j = ts_json_object(r->json, "mutants");
    ts_json_int(j, "total", r->n_mutants);
    ts_json_int(j, "rejected", r->n_rejected);
    ts_json_int(j, "skipped", r->n_skipped);
    ts_json_int(j, "left_out", r->n_left_out);
    ts_json *sole = ts_json_object(j, "caught_by_one_check_alone");
    for (int f = 1; f < TS_N_FAULTS; f++)
        if (r->sole_by[f]) ts_json_text(sole, ts_fault_name((ts_fault)f), r->sole_by[f]);
    return missing + r->n_mutants - r->n_rejected - r->n_skipped;
}
