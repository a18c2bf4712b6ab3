/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - implementations take turns on the same case with cold caches, and are compared with the
 * machine's peak rates.
 *
 * Every timed output is checked: once against the oracle, then bit for bit. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ceiling.h"
#include "cpu.h"
#include "peer.h"
#include "registry.h"
#include "roofline.h"
#include "tool.h"

enum { MAX_TIMED = 24, MAX_ROUNDS = 200, LIMIT_MS = 120000 };
enum { MUCH_WORK = 12 }; /* operations per byte: above, bandwidth is not the limit */

typedef struct timed_impl {
    const char *name;
    ts_worker  *worker; /* the library's; or */
    ts_peer    *peer;   /* third-party */
    unsigned    dtypes;
    bool        in, verified;
    uint64_t    bits; /* of the verified outputs */
    double      ns[MAX_ROUNDS];
    int         n;
    char        why[256];
} timed_impl;

typedef struct bench {
    const char *task, *impl, *match, *peers, *json_path, *svg;
    bool        quick, any_order;
    ts_device   where;
    int         n_threads, n_rounds;
    uint64_t    seed;
    FILE       *out;
    bool        live;
    ts_json    *json, *rows;
    ts_arena    arena;
    ts_worker  *meter;                          /* measures peak rates */
    double      gbs[TS_N_CEILINGS][MAX_ROUNDS]; /* peak rates during this case, one per round */
    double      ceiling[TS_N_CEILINGS];         /* their medians */
    double      gflops;                         /* of the CPU's vector units, float32 */
    double      best[TS_N_CEILINGS];            /* the best median of the run */
    int         n_rows, n_unverified, n_cases;
    ts_roofline picture;
} bench;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median, and the distance between the quartiles as a fraction of it. */
static double median(double *ns, int n, double *spread)
{
    qsort(ns, (size_t)n, sizeof *ns, by_value);
    const double m = n % 2 ? ns[n / 2] : (ns[n / 2 - 1] + ns[n / 2]) / 2;
    *spread = (ns[n * 3 / 4] - ns[n / 4]) / m;
    return m;
}

static bool order(bench *b, timed_impl *c, ts_verb verb, const ts_exam *e, ts_reply *r)
{
    const ts_order o = { verb, e->task, b->n_threads, TS_SOUND, 0, LIMIT_MS };
    const bool     alive = ts_worker_order(c->worker, o, r);
    if (alive && !r->broken && !r->status && !r->flaw.fault) return true;
    ts_verdict v = { .first = r->flaw, .faults = 1 };
    memcpy(v.text, r->text, sizeof v.text);
    if (r->broken) snprintf(c->why, sizeof c->why, "%s", r->text);
    else if (r->status) snprintf(c->why, sizeof c->why, "%s", ts_status_text(r->status));
    else ts_flaw_text(&v, c->why, sizeof c->why);
    return false;
}

/* Checks the outputs in the arena against the oracle. */
static bool right(timed_impl *c, const ts_exam *e)
{
    ts_verdict v = { 0 };
    ts_errors  errors = { 0 };
    if (ts_arena_intact(e->arena, &v.first) &&
        e->task->check(e->c, e->args, e->want, &v.first, &errors)) {
        c->bits = ts_arena_output_hash(e->arena);
        return true;
    }
    ts_flaw_text(&v, c->why, sizeof c->why);
    return false;
}

/* The first call, which also warms up code, pages and tables. */
static void enter(bench *b, timed_impl *c, const ts_exam *e)
{
    ts_reply r;
    double   ns;
    ts_arena_reset(e->arena);
    c->n = 0;
    c->why[0] = 0;
    c->verified = false;
    c->in = c->worker ? order(b, c, TS_LOAD, e, &r) && order(b, c, TS_RUN, e, &r) &&
                            order(b, c, TS_STORE, e, &r)
                      : ts_peer_load(c->peer, e, c->why, sizeof c->why) &&
                            ts_peer_run(c->peer, &ns) && ts_peer_store(c->peer);
    if (!c->in && c->peer && !c->why[0])
        snprintf(c->why, sizeof c->why, "%s", ts_peer_said(c->peer));
    if (!c->in) return;
    c->verified = right(c, e);
    /* The library's output must be correct to be timed; a peer's time is shown with its flaw. */
    if (c->worker) c->in = c->verified;
}

static void turn(bench *b, timed_impl *c, const ts_exam *e)
{
    ts_reply r = { 0 };
    if (b->where == TS_CPU) ts_arena_reset(e->arena);
    const bool ran = c->worker ? order(b, c, TS_TIME, e, &r) : ts_peer_run(c->peer, &r.ns);
    if (!ran) {
        if (c->peer) snprintf(c->why, sizeof c->why, "%s", ts_peer_said(c->peer));
        c->in = c->verified = false;
        return;
    }
    c->ns[c->n++] = r.ns;
    if (c->peer) {
        if (!ts_peer_store(c->peer)) c->verified = false;
        else if (c->verified && ts_arena_output_hash(e->arena) != c->bits)
            c->verified = right(c, e);
    } else if (b->where == TS_CPU ? ts_arena_output_hash(e->arena) != c->bits : r.changed) {
        if (b->any_order) {
            c->verified = order(b, c, TS_STORE, e, &r) && right(c, e);
            return;
        }
        snprintf(c->why, sizeof c->why, "a timed output differs from the checked one");
        c->verified = false;
    }
}

/* For a task that mostly reads, a copy of its small outputs' size would be meaningless. */
static void measure_ceilings(bench *b, const ts_exam *e, int round)
{
    const bool reads_only = e->task->cost(e->c).reads_only;
    for (int k = 0; k < TS_N_CEILINGS; k++) {
        b->gbs[k][round] = 0;
        if (reads_only && k != TS_CEILING_READ) continue;
        ts_reply       r;
        const ts_order o = { TS_CEILING, e->task, b->n_threads, TS_SOUND, k, LIMIT_MS };
        const bool     ok = ts_worker_order(b->meter, o, &r) && !r.broken && r.ns > 0;
        b->gbs[k][round] = ok ? r.bytes / r.ns : 0;
    }
}

static void settle_ceilings(bench *b)
{
    double spread;
    for (int k = 0; k < TS_N_CEILINGS; k++) {
        b->ceiling[k] = median(b->gbs[k], b->n_rounds, &spread);
        if (b->ceiling[k] > b->best[k]) b->best[k] = b->ceiling[k];
    }
}

/* With or without streaming stores, whichever is faster on this machine. */
static double copy_of(const double *c)
{
    return c[TS_CEILING_COPY] > c[TS_CEILING_COPY_PLAIN] ? c[TS_CEILING_COPY]
                                                         : c[TS_CEILING_COPY_PLAIN];
}

/* The peak that the case is compared with: "copy" or "read". */
static double ceiling_of(const bench *b, const ts_exam *e, const char **name)
{
    const bool reads_only = e->task->cost(e->c).reads_only;
    *name = reads_only ? "read" : "copy";
    return reads_only ? b->ceiling[TS_CEILING_READ] : copy_of(b->ceiling);
}

static ts_json *report_row(bench *b, const timed_impl *c, const ts_exam *e)
{
    char name[256];
    ts_case_string(e->task, e->c, e->seed, name, sizeof name);
    ts_json *j = ts_json_object(b->rows, NULL);
    ts_json_text(j, "task", e->task->name);
    ts_json_text(j, "impl", c->name);
    ts_json_text(j, "case", name);
    ts_json_bool(j, "verified", c->verified);
    if (!c->verified) ts_json_text(j, "flaw", c->why);
    b->n_rows++;
    b->n_unverified += c->worker && !c->verified;
    return j;
}

static void report(bench *b, timed_impl *c, const ts_exam *e, double best_peer)
{
    ts_json *j = report_row(b, c, e);
    if (!c->n) {
        fprintf(b->out, "  %-14s not timed: %s\n", c->name, c->why);
        return;
    }
    const char   *which;
    const double  ceiling = ceiling_of(b, e, &which);
    const ts_cost cost = e->task->cost(e->c);
    double        spread;
    const double  ns = median(c->ns, c->n, &spread), gbs = cost.bytes / ns;
    char          ratio[32] = "", share[32] = "", rate[96];
    const bool    ours = c->worker != NULL;
    const bool    by_vectors = b->gflops > 0 && e->c->dtype == TS_F32;
    if (by_vectors)
        snprintf(share, sizeof share, "  %5.1f %% of FMA", 100 * cost.flops / ns / b->gflops);
    if (best_peer > 0 && c->worker) snprintf(ratio, sizeof ratio, "  %5.2fx", best_peer / ns);
    if (cost.flops > MUCH_WORK * cost.bytes)
        snprintf(rate, sizeof rate, "%9.3f TFLOP/s%s", cost.flops / ns / 1e3, share);
    else snprintf(rate, sizeof rate, "%7.1f GB/s  %5.1f %% of %s", gbs, 100 * gbs / ceiling, which);
    fprintf(b->out, "  %-14s %10.1f us  +-%4.1f %%  %s  %s%s%s%s\n", c->name, ns / 1e3, spread * 50,
            rate, c->verified ? "verified" : "WRONG", ratio, c->verified ? "" : ": ",
            c->verified ? "" : c->why);
    ts_json_number(j, "time_ns", ns);
    ts_json_number(j, "spread", spread);
    ts_json_number(j, "gbs", gbs);
    ts_json_number(j, "tflops", cost.flops / ns / 1e3);
    if (by_vectors) ts_json_number(j, "fma_fraction", cost.flops / ns / b->gflops);
    ts_json_number(j, "floor_fraction", gbs / ceiling);
    ts_json_text(j, "ceiling", which);
    if (copy_of(b->ceiling) > 0) ts_json_number(j, "copy_gbs", copy_of(b->ceiling));
    ts_json_number(j, "read_gbs", b->ceiling[TS_CEILING_READ]);
    ts_json_int(j, "rounds", c->n);
    ts_roofline_add(&b->picture,
                    (ts_roof_point) { e->task->name, ours ? c->name : "peers", b->n_cases,
                                      cost.flops, cost.bytes, ns, ours && c->verified });
}

/* Of all peers that were timed, even if wrong: one with other tie rules or fewer digits is still
 * the alternative that users have, and its row shows the flaw. */
static double fastest_peer(timed_impl *c, int n)
{
    double best = 0, spread;
    for (int i = 0; i < n; i++) {
        if (!c[i].peer || !c[i].n) continue;
        const double ns = median(c[i].ns, c[i].n, &spread);
        if (!best || ns < best) best = ns;
    }
    return best;
}

static void bench_case(bench *b, const ts_challenge *ch, const ts_case *cs, timed_impl *c, int n)
{
    ts_exam e;
    char    name[256];
    ts_case_string(ch->task, cs, b->seed, name, sizeof name);
    if (b->live) fprintf(stderr, "\r\033[K%s: inputs and oracle", name);
    ts_exam_open(&e, ch->task, cs, b->seed, &b->arena);
    ts_reply r;
    /* On a device the meter has its own memory. */
    if (b->where == TS_CPU)
        ts_worker_order(b->meter,
                        (ts_order) { .verb = TS_LOAD, .task = ch->task, .limit_ms = LIMIT_MS }, &r);
    for (int i = 0; i < n; i++) enter(b, &c[i], &e);
    for (int round = 0; round < b->n_rounds; round++) {
        if (b->live) fprintf(stderr, "\r\033[K%s: round %d of %d", name, round + 1, b->n_rounds);
        for (int k = 0; k < n; k++) {
            timed_impl *who = &c[(k + round) % n]; /* rotate, so that neighbours vary */
            /* Slow implementations run three times, very slow ones once: their times are steady. */
            if (!who->in || (who->n >= 3 && who->ns[0] > 3e8)) continue;
            if (who->n >= 1 && who->ns[0] > 5e9) continue;
            turn(b, who, &e);
        }
        measure_ceilings(b, &e, round);
    }
    settle_ceilings(b);
    if (b->live) fprintf(stderr, "\r\033[K");
    const char  *which;
    const double ceiling = ceiling_of(b, &e, &which);
    fprintf(b->out, "%s   %s %.1f GB/s\n", name, which, ceiling);
    const double peer = fastest_peer(c, n);
    for (int i = 0; i < n; i++) report(b, &c[i], &e, peer);
    b->n_cases++;
    fflush(b->out);
    for (int i = 0; i < n; i++)
        if (c[i].worker) order(b, &c[i], TS_DROP, &e, &r);
    ts_exam_close(&e);
}

static void open_ours(bench *b, timed_impl *c, ts_function *functions, int *n, ts_function f)
{
    if (*n == MAX_TIMED || f.device != b->where) return;
    if (b->impl && strcmp(b->impl, f.name)) return;
    functions[*n] = f;
    functions[*n].any_order = b->any_order;
    c[*n] = (timed_impl) { .name = f.name, .dtypes = f.dtypes };
    c[*n].worker = ts_worker_start(&functions[*n], &b->arena);
    ++*n;
}

static int open_all(bench *b, const ts_challenge *ch, timed_impl *c, ts_function *functions)
{
    int  n = 0;
    char names[256], *save = NULL;
    for (const ts_impl *row = ch->impls; row->name; row++)
        if (row->device != TS_CPU || !(row->needs & ~ts_cpu_features()))
            open_ours(b, c, functions, &n, ts_function_of(ch, row));
    for (const ts_function *f = ts_baselines_of(ch); f->name; f++)
        open_ours(b, c, functions, &n, *f);
    snprintf(names, sizeof names, "%s", b->peers ? b->peers : "");
    for (char *p = strtok_r(names, ",", &save); p && n < MAX_TIMED;
         p = strtok_r(NULL, ",", &save)) {
        char why[256];
        c[n] = (timed_impl) { .name = strdup(p), .dtypes = ~0u };
        c[n].peer = ts_peer_start(p, b->where, b->n_threads, &b->arena, why, sizeof why);
        if (c[n].peer) n++;
        else {
            fprintf(b->out, "peer %s not available: %s\n", p, why);
            free((char *)(uintptr_t)c[n].name);
        }
    }
    return n;
}

static void bench_challenge(bench *b, const ts_challenge *ch)
{
    timed_impl *c = calloc(MAX_TIMED, sizeof *c);
    ts_function functions[MAX_TIMED];
    if (!c) abort();
    const int n = open_all(b, ch, c, functions);
    for (const ts_case *cs = ch->task->cases(); cs->use && n && c[0].worker; cs++) {
        if (!(cs->use & TS_USE_TIME) || !ts_case_matches(ch->task, cs, b->match)) continue;
        if (cs->use & TS_USE_LARGE && b->where == TS_CPU) continue;
        if (b->quick && cs->dim[0] * cs->dim[1] > 8192 * 768) continue;
        bench_case(b, ch, cs, c, n);
    }
    for (int i = 0; i < n; i++) {
        if (c[i].peer) free((char *)(uintptr_t)c[i].name);
        ts_worker_stop(&c[i].worker);
        ts_peer_stop(&c[i].peer);
    }
    free(c);
}

static bool parse(bench *b, int argc, char **argv, int *status)
{
    int64_t         threads = sysconf(_SC_NPROCESSORS_ONLN), rounds = 0;
    const ts_option table[] = {
        { "--task", "NAME", NULL, "only this task, or all tasks with this prefix",
          .text = &b->task },
        { "--impl", "NAME", NULL, "only this implementation of the library", .text = &b->impl },
        { "--case", "TEXT", NULL, "only cases whose name contains TEXT (or one of A|B|C)",
          .text = &b->match },
        { "--device", "D", "cpu", "device", .to = &b->where, .choices = ts_devices },
        { "--threads", "N", NULL, "CPU threads (default: all cores)", .count = &threads,
          .range = { 1, 256 } },
        { "--rounds", "N", NULL, "timed rounds per implementation (default 15; 5 with --quick)",
          .count = &rounds, .range = { 1, MAX_ROUNDS } },
        { "--peers", "LIST", NULL, "peers to time, of " TS_PEERS "; run by python3",
          .text = &b->peers },
        { "--any-order", NULL, NULL,
          "let the library's sums vary in order between calls, as peers' do",
          .flag = &b->any_order },
        { "--quick", NULL, NULL, "only the smallest cases, in 5 rounds", .flag = &b->quick },
        { "--svg", "FILE", NULL, "draw the run's roofline", .text = &b->svg },
        { "--json", "FILE|-", NULL, "write the result as JSON", .text = &b->json_path },
        { "--seed", "N", "0x5eed", "seed of the inputs", .seed = &b->seed },
        { 0 },
    };
    bool given;
    if (!ts_options(argc, argv, "bench [OPTION...]", table, NULL, 0, status) ||
        !ts_case_seed(b->match, &given, &b->seed) || !ts_task_known("--task", b->task, false) ||
        !ts_peers_known(b->peers))
        return false;
    b->n_threads = (int)(threads < 256 ? threads : 256);
    b->n_rounds = rounds ? (int)rounds : b->quick ? 5 : 15;
    return ts_json_open(b->json_path, &b->json);
}

static bool describe(bench *b, char *text, size_t n)
{
    const ts_function e = { .name = "probe", .device = b->where, .mask = ~0u };
    ts_worker        *w = ts_worker_start(&e, &b->arena);
    ts_reply          r;
    ts_worker_order(w, (ts_order) { .verb = TS_PROBE, .limit_ms = LIMIT_MS }, &r);
    ts_worker_stop(&w);
    snprintf(text, n, "%s", r.text);
    return !r.broken;
}

static void report_ceilings(bench *b)
{
    const char *const name[] = { "copy_streaming", "copy_plain", "read" };
    ts_json          *o = ts_json_object(b->json, "ceilings");
    fprintf(b->out, "peak memory bandwidth: ");
    if (copy_of(b->best) > 0)
        fprintf(b->out, "copy %.1f GB/s (bytes read + written), ", copy_of(b->best));
    fprintf(b->out, "read %.1f GB/s\n", b->best[TS_CEILING_READ]);
    for (int k = 0; k < TS_N_CEILINGS; k++) ts_json_number(o, name[k], b->best[k]);
    ts_json_number(o, "copy", copy_of(b->best));
    if (b->gflops > 0) {
        fprintf(b->out, "peak arithmetic: %.1f GFLOP/s (float32 FMA)\n", b->gflops);
        ts_json_number(o, "gflops", b->gflops);
    }
}

int ts_tool_bench(int argc, char **argv)
{
    static bench b;
    char         machine[256];
    int          status;
    if (!parse(&b, argc, argv, &status)) return status;
    b.out = ts_json_beside(b.json_path, stderr);
    b.live = isatty(STDERR_FILENO);
    if (!ts_arena_open(&b.arena)) return ts_fail("cannot reserve address space"), TS_EXIT_BROKEN;
    b.arena.aligned = true;
    if (!describe(&b, machine, sizeof machine)) return ts_fail("%s", machine), TS_EXIT_BROKEN;
    if (b.where == TS_CPU)
        snprintf(machine + strlen(machine), sizeof machine - strlen(machine), ", %d threads",
                 b.n_threads);
    fprintf(b.out, "%s\n", machine);
    ts_json_text(b.json, "machine", machine);
    ts_json_int(b.json, "threads", b.n_threads);
    ts_json_bool(b.json, "any_order", b.any_order);
    char seed[32];
    snprintf(seed, sizeof seed, "0x%llx", (unsigned long long)b.seed);
    ts_json_text(b.json, "seed", seed);
    b.rows = ts_json_array(b.json, "rows");
    const ts_function meter = { .name = "ceilings", .device = b.where, .mask = ~0u };
    b.meter = ts_worker_start(&meter, &b.arena);
    if (b.where == TS_CPU) b.gflops = ts_ceiling_gflops(b.n_threads);
    for (const ts_challenge *ch = ts_challenges; ch->task; ch++)
        if (ts_task_matches(ch->task, b.task)) bench_challenge(&b, ch);
    if (b.n_rows) report_ceilings(&b);
    ts_worker_stop(&b.meter);
    ts_arena_close(&b.arena);
    if (!b.n_rows)
        ts_fail("no case matches --task, --impl and --case; see 'touchstone list cases'");
    b.picture.machine = machine;
    b.picture.gbs =
        b.best[TS_CEILING_READ] > copy_of(b.best) ? b.best[TS_CEILING_READ] : copy_of(b.best);
    b.picture.gflops = b.gflops;
    const bool drawn = !b.svg || !b.n_rows || ts_roofline_write(&b.picture, b.svg);
    free(b.picture.point);
    if (!ts_json_close(b.json_path, b.json) || !drawn) return TS_EXIT_BROKEN;
    return b.n_unverified || !b.n_rows ? TS_EXIT_FAILED : TS_EXIT_PASSED;
}
