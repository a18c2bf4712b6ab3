/* SPDX-License-Identifier: Apache-2.0 */
/* make_log.c - `make_log PATH [KIND [PART]]`: a log as a run would leave it, for the tests of the
 * board and the page. All times are simulated.
 *
 * KIND full (default), old, failures, untimed, backwards and empty: 8 entrants with hostile names
 * and sources, and 3 tasks; "old" lacks the members and records that logs of version 0.2 lack.
 * "models": 6 entrants and 8 challenges, with failures of several kinds. TASKSxENTRANTS[xANSWERS]:
 * 10x14 has ten challenges and 14 entrants with the names of models, most of which pass most
 * challenges; 23x40x3 has 3 answers per entrant and challenge: the 14 challenges on the CPU, and 9
 * of them on a GPU.
 *
 * PART "cpu" or "cuda": only those challenges. "later": another run of the same entrants, in which
 * some do better or worse. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "make_log_told.h"
#include "make_log_world.h"
#include "match.h"
#include "quantile.h"
#include "rng.h"
#include "score.h"
#include "sha256.h"

static ts_log     *the_log;
static const char *part = ""; /* cpu, cuda, later */

static void commit(void)
{
    if (ts_log_commit(the_log)) return;
    fprintf(stderr, "make_log: cannot append\n");
    exit(3);
}

static double floor_ns(int task, int workload)
{
    return 20000.0 * (1 + task) * pow(2.6, workload);
}

/* Heavy tails: one call in twelve is disturbed. */
static double call_ns(int who, int task, int workload, int i, double fraction)
{
    const uint64_t seed = (uint64_t)(who * 100 + task * 10 + workload);
    const double   u = ts_uniform(seed, 2 * i), n = ts_normal(seed, 2 * i + 1);
    const double   tail = u > 0.84 ? 0.4 * (u - 0.84) / 0.16 : 0;
    const double   shape = 1 + 0.08 * ts_uniform(seed + 7777, 0);
    return floor_ns(task, workload) / (fraction * shape) * exp(0.012 * fabs(n) + tail);
}

static void run(void)
{
    static const struct {
        const char *name, *text;
        bool        held;
    } g[] = {
        { "two processes", "the judge never loads an entrant's code", true },
        { "namespaces", "user, pid, net, ipc and mount: no network, no files", true },
        { "seccomp", "a sealed entrant may make two system calls", true },
        { "cpu accounting", "work before go or after done is seen in the cgroup", true },
        { "freezer", "entrants are stopped as one before outputs are read", true },
        { "landlock", "this kernel has none: the mount namespace stands alone", false },
        { "own core", "two cores are shared with others: the clock may be disturbed", false },
    };
    ts_jw *w = ts_log_begin(the_log, "run");
    ts_jw_text(w, "version", TS_VERSION);
    ts_jw_text(w, "machine", "AMD EPYC 9654 (2 cores of a virtual machine), Linux 6.18, 62 GiB");
    if (!strcmp(part, "cuda")) ts_jw_text(w, "device", "NVIDIA H200, driver 570.1");
    ts_jw_text(w, "badge", "reduced");
    ts_jw_text(w, "commit", "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef");
    ts_jw_text(w, "depth", "normal");
    ts_jw_text(w, "started", "2026-01-15T09:30:00Z");
    ts_jw_open(w, "floors", '{');
    ts_jw_num(w, "memory_gbs", !strcmp(part, "cuda") ? 4400 : 24.9);
    ts_jw_num(w, "gflops", !strcmp(part, "cuda") ? 51000 : 148);
    ts_jw_num(w, "call_ns", 480);
    ts_jw_close(w, '}');
    ts_jw_open(w, "guarantees", '[');
    for (size_t i = 0; i < sizeof g / sizeof *g; i++) {
        ts_jw_open(w, NULL, '{');
        ts_jw_text(w, "name", g[i].name);
        ts_jw_bool(w, "held", g[i].held);
        ts_jw_text(w, "text", g[i].text);
        ts_jw_close(w, '}');
    }
    ts_jw_close(w, ']');
    commit();
}

/* Of a challenge, what an entrant offers. */
static double share(int who, int task)
{
    return who == 2 && task == 2 ? 0.41 : 1;
}

static const char *language_of(int who, int task)
{
    const bool python = !strcmp(people[who].language, "python");
    return !on_gpu(task) ? people[who].language : python ? "python" : "cuda";
}

static const char *class_of(int who, int task)
{
    const bool python = !strcmp(people[who].language, "python");
    return !on_gpu(task) ? people[who].klass : python ? "python-gpu" : "host-gpu";
}

/* The source that is logged; a hostile one tries to leave the page's script. */
static void source(int who, int task, int answer)
{
    static const char code[] =
        "/* A textbook version: one row at a time, three passes. */\n#include <math.h>\n\n"
        "#include \"touchstone/softmax_topk.h\"\n\nts_status ts_softmax_topk(const "
        "ts_softmax_topk_args *a, const ts_exec *x)\n{\n\tfor (int64_t r = 0; r < a->n_rows && "
        "a->n_vocab > 0; r++) {\n\t\tfloat most = -INFINITY;\n\t}\n    return TS_OK;\n}\n";
    static const char trap[] =
        "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\n"
        "<!--<script>\n/* \xe2\x80\xae backwards */ ]]> & &amp; &lt;b&gt;bold&lt;/b&gt;\n";
    const bool  hostile = !crowded && !models && who == 4;
    const char *text = hostile ? trap : code;
    char        file[64], hash[65];
    if (!crowded && !models && who == 0) return; /* a library has none */
    snprintf(file, sizeof file, "%.*s.%s", (int)strcspn(TASKS[task], "/"), TASKS[task],
             !strcmp(language_of(who, task), "python") ? "py"
             : on_gpu(task)                            ? "cu"
                                                       : "c");
    ts_sha256_hex(text, strlen(text), hash);
    ts_jw *w = ts_log_begin(the_log, "source");
    ts_jw_int(w, "entrant", id_of(who, task, answer));
    ts_jw_text(w, "file", hostile ? "</script>.c" : file);
    ts_jw_text(w, "sha256", hash);
    ts_jw_text(w, "text", text);
    commit();
}

static ts_jw *describe(int id, int who, const char *klass, const char *language, const char *task)
{
    char   hash[65];
    ts_jw *w = ts_log_begin(the_log, "entrant");
    ts_sha256_hex(&who, sizeof who, hash);
    ts_jw_int(w, "id", id);
    ts_jw_text(w, "name", people[who].name);
    ts_jw_text(w, "author", people[who].author);
    ts_jw_text(w, "class", klass);
    ts_jw_text(w, "language", language);
    ts_jw_text(w, "task", task);
    ts_jw_text(w, "source_sha256", hash);
    hash[8] = 0;
    ts_jw_text(w, "family", hash);
    return w;
}

static void entrant(int who, int task, int answer)
{
    char   sample[32];
    ts_jw *w = describe(id_of(who, task, answer), who, class_of(who, task), language_of(who, task),
                        TASKS[task]);
    snprintf(sample, sizeof sample, "sample-%d", answer + 1);
    if (n_answers > 1) ts_jw_text(w, "sample", sample);
    if (n_answers > 1 && who % 2) ts_jw_text(w, "block", "code block 2 of 3, from line 14");
    if (share(who, task) < 1) {
        ts_jw_text(w, "offers", "k <= 32 && dtype == f32");
        ts_jw_num(w, "share", share(who, task));
    }
    commit();
    source(who, task, answer);
}

static void flaw(ts_jw *w, int task, const char *reason)
{
    char       which[160], replay[240];
    const bool value = !strcmp(reason, "value") || !strcmp(reason, "unwritten");
    snprintf(which, sizeof which, "%s/%s@0x5eed%d", TASKS[task], case_of(task, 1), task);
    if (!strcmp(reason, "build")) {
        ts_jw_text(w, "text", "kernel.c:7:12: error: expected ';' before \x1b[1m'}'\x1b[0m <b>");
        return;
    }
    ts_jw_text(w, "text",
               value ? "value: dgamma[0][511] got 1.53125, want 1.49998474 +- 3.1e-05"
               : !strcmp(reason, "past")  ? "touched memory past values"
               : !strcmp(reason, "floor") ? "1.31 of the floor's speed: no kernel can be that fast"
               : !strcmp(reason, "crash") ? "the process died of signal 11"
               : !strcmp(reason, "seal")  ? "called openat"
                                          : "no answer within 2 s");
    if (!strcmp(reason, "floor")) return;
    ts_jw_text(w, "case", which);
    snprintf(replay, sizeof replay, "touchstone judge --replay run.log --case '%s'", which);
    ts_jw_text(w, "replay", replay);
    if (!value) return;
    ts_jw_text(w, "index", "dgamma[0][511]");
    ts_jw_num(w, "got", task == 2 ? (double)NAN : 1.53125);
    ts_jw_num(w, "want", 1.4999847412109375);
    ts_jw_num(w, "bound", 3.1e-5);
}

/* The library, and a textbook version of the class, as shares of the limit. */
static double best_of(const char *kind)
{
    return models && strstr(kind, "python") ? .2 : .9;
}

static double text_of(const char *kind)
{
    return models && strstr(kind, "python") ? .05 : .3;
}

static void anchors(int task)
{
    static const char *const kinds[] = { "c", "python", "cuda", "python-gpu" };
    for (int i = on_gpu(task) ? 2 : 0; i < (on_gpu(task) ? 4 : 2); i++)
        for (int k = 0; k < N_WORKLOADS; k++) {
            ts_jw *w = ts_log_begin(the_log, "anchor");
            ts_jw_text(w, "task", TASKS[task]);
            ts_jw_text(w, "kind", kinds[i]);
            ts_jw_text(w, "workload", case_of(task, k));
            ts_jw_num(w, "text_ns", floor_ns(task, k) / text_of(kinds[i]));
            ts_jw_num(w, "best_ns", floor_ns(task, k) / best_of(kinds[i]));
            commit();
        }
}

/* Whose answers to the last task are right by the usual contract only. */
enum { COMMON = 1, UNTIMED = 2 }; /* and who is not timed, among the models */

static void broken_rule(ts_jw *w)
{
    ts_jw_text(w, "rule", "equal logits are ordered by index, lowest first");
    ts_jw_text(w, "text",
               "equal logits are ordered by index, lowest first; value: "
               "index[1][0] got 7, want 3: row 1, place 0");
    ts_jw_text(w, "case", "softmax_topk/f32/rows=9,vocab=33,k=8/ties@0x5eed");
    ts_jw_text(w, "replay",
               "touchstone judge --challenge softmax_topk --case "
               "'softmax_topk/f32/rows=9,vocab=33,k=8/ties@0x5eed' a/path/to/a/shared/library.so");
}

/* Counts, faults, and why there is no time. */
static void tell(ts_jw *w, int who, int task, const char *reason, bool common, bool right,
                 bool built)
{
    const int  all = 201, bad = right ? 5 * common : 9 + 16 * ((who + task) % 8);
    const bool hang = !strcmp(reason, "hang");
    counts(w, built ? all - bad - 60 * hang : 0, built ? all - 60 * hang : 0, all);
    faults(w, who, task, common ? "canon" : reason, built ? bad : 0);
    if (models && who == UNTIMED && task == 2 && right)
        ts_jw_text(w, "not_timed", "no timed workload within the declared offers");
}

static void verdict(int who, int task, int answer)
{
    static const char *const kinds[] = { "basic",   "shapes",      "numerics",
                                         "special", "adversarial", "canon" };
    static const int         many[] = { 48, 62, 40, 24, 18, 9 };
    const outcome            o = outcome_of(who, task, answer);
    const double             f = o.fraction;
    const char              *reason = o.reason;
    const bool               built = strcmp(reason, "build") && strcmp(reason, "seal");
    ts_jw                   *w = ts_log_begin(the_log, "verdict");
    ts_jw_int(w, "entrant", id_of(who, task, answer));
    ts_jw_text(w, "task", TASKS[task]);
    const bool common = who == COMMON && task == 2;
    ts_jw_text(w, "verdict",
               f > 1.02 ? "AUDIT"
               : common ? "PASS (common)"
               : f > 0  ? "PASS"
                        : "FAIL");
    ts_jw_text(w, "reason", common ? "canon" : reason);
    if (common) broken_rule(w);
    else if (f > 0 && f <= 1.02) ts_jw_text(w, "text", "");
    else flaw(w, task, reason);
    ts_jw_open(w, "categories", '{');
    for (int i = 0; i < 6; i++)
        ratio(w, kinds[i],
              common && i == 5 ? 4
              : f > 0          ? many[i]
              : built && i < 2 ? many[i] - 3 * i
                               : 0,
              many[i]);
    ts_jw_close(w, '}');
    if (!old) tell(w, who, task, reason, common, f > 0, built);
    ts_jw_int(w, "calls", built ? 192 + N_WORKLOADS * n_calls : 0);
    if (built) {
        ts_jw_num(w, "worst",
                  f > 0                          ? 0.04 + 0.02 * who
                  : !strcmp(reason, "unwritten") ? HUGE_VAL
                                                 : 1007.9);
        ts_jw_num(w, "p999", f > 0 ? 0.015 + 0.01 * who : 3.2);
        ts_jw_num(w, "ulp", f > 0 ? 0.5 + 0.2 * who : 262144);
    }
    ts_jw_open(w, "robustness", '{');
    ratio(w, "refusals", f > 0 ? 112 - (who == 4) : 0, 112);
    ratio(w, "repeat", f > 0 ? 9 - 2 * (who == 5) : 0, 9);
    ratio(w, "threads", f > 0 ? 4 : 0, 4);
    ratio(w, "sanitizer", f > 0 ? 8 - (who == 2) : 0, 8);
    ts_jw_close(w, '}');
    if (f > 0 && who == 2)
        ts_jw_text(w, "robustness_text", "sanitizer: crash: illegal instruction");
    ts_jw_int(w, "workspace_bytes", who == 1 ? 1 << 20 : who == 3 ? 25 << 20 : 0);
    ts_jw_int(w, "io_bytes", 8 << 20);
    ts_jw_num(w, "seconds", 3.25 + who);
    commit();
}

static void times(int who, int task, int answer, ts_workload *out)
{
    for (int k = 0; k < N_WORKLOADS; k++) {
        double later[MOST_CALLS], sorted[MOST_CALLS], *ns = answer ? later : calls[who][task][k];
        for (int i = 0; i < n_calls; i++)
            ns[i] = floor(call_ns(who, task, k, i, outcome_of(who, task, answer).fraction));
        memcpy(sorted, ns, (size_t)n_calls * sizeof *ns);
        const ts_interval m = ts_quantile_interval(sorted, n_calls, TS_TIME_QUANTILE);
        out[k] = (ts_workload) { floor_ns(task, k), m.mid, m.lo, m.hi };
        ts_jw *w = ts_log_begin(the_log, "time");
        ts_jw_int(w, "entrant", id_of(who, task, answer));
        ts_jw_text(w, "task", TASKS[task]);
        ts_jw_text(w, "case", case_of(task, k));
        ts_jw_num(w, "bytes", floor_ns(task, k) * 21.4);
        ts_jw_num(w, "flops", floor_ns(task, k) * 21.4 * (0.6 + 0.5 * task + 0.15 * k));
        ts_jw_num(w, "floor_ns", floor_ns(task, k));
        ts_jw_open(w, "ns", '[');
        for (int i = 0; i < n_calls; i++) ts_jw_num(w, NULL, ns[i]);
        ts_jw_close(w, ']');
        ts_jw_num(w, "time_ns", m.mid);
        ts_jw_num(w, "lo_ns", m.lo);
        ts_jw_num(w, "hi_ns", m.hi);
        ts_jw_num(w, "fraction", floor_ns(task, k) / m.mid);
        commit();
    }
}

static void score(int who, int task, int answer, const ts_workload *t)
{
    const char *kind = class_of(who, task);
    ts_anchors  anchor[N_WORKLOADS];
    for (int k = 0; k < N_WORKLOADS; k++)
        anchor[k] = (ts_anchors) { t[k].floor_ns / text_of(kind), t[k].floor_ns / best_of(kind) };
    const ts_score_in in = { .correct = true,
                             .workload = t,
                             .anchor = anchor,
                             .n_workloads = N_WORKLOADS,
                             .error = 0.015 + 0.01 * who,
                             .error_honest = 0.02,
                             .cells_passed = 27 - (who == 4) - 2 * (who == 5),
                             .cells = 27,
                             .workspace_bytes = who == 1   ? 1 << 20
                                                : who == 3 ? 25 << 20
                                                           : 0,
                             .io_bytes = 8 << 20 };
    ts_score          s = ts_score_of(&in);
    s.score *= sqrt(share(who, task));
    ts_jw *w = ts_log_begin(the_log, "score");
    ts_jw_int(w, "entrant", id_of(who, task, answer));
    ts_jw_text(w, "task", TASKS[task]);
    ts_jw_num(w, "score", s.score);
    ts_jw_num(w, "S", s.S);
    ts_jw_num(w, "S_lo", s.S_lo);
    ts_jw_num(w, "S_hi", s.S_hi);
    ts_jw_num(w, "S_min", s.S_min);
    if (!old) ts_jw_num(w, "speed", s.speed), ts_jw_num(w, "of_best", s.of_best);
    ts_jw_num(w, "P", s.P);
    ts_jw_num(w, "R", s.R);
    ts_jw_num(w, "M", s.M);
    ts_jw_text(w, "grade", ts_grade(true, false, s.score));
    commit();
}

static ts_game games[MOST_TASKS * MOST_PEOPLE * MOST_PEOPLE / 2 * N_WORKLOADS];
static size_t  n_games;

static ts_match apart(int a, int b, int task)
{
    const double effect = log(people[a].at[task].fraction / people[b].at[task].fraction);
    return (ts_match) { .effect = effect,
                        .lo = effect - 0.01,
                        .hi = effect + 0.01,
                        .outcome = fabs(effect) < 0.02 ? TS_OUTCOME_TIE
                                   : effect > 0        ? TS_OUTCOME_A
                                                       : TS_OUTCOME_B };
}

static void match(int a, int b, int task)
{
    static ts_pair pair[N_WORKLOADS * MOST_CALLS];
    ts_match       m;
    for (int k = 0; k < N_WORKLOADS; k++)
        for (int i = 0; i < n_calls; i++)
            pair[k * n_calls + i] = (ts_pair) { k, i, calls[a][task][k][i], calls[b][task][k][i] };
    if (crowded) m = apart(a, b, task);
    else if (!ts_match_pairs(pair, (size_t)(N_WORKLOADS * n_calls), 1, &m)) exit(3);
    for (int k = 0; k < N_WORKLOADS; k++) { /* a game per workload */
        ts_match one = m;
        if (!crowded && !ts_match_pairs(pair + k * n_calls, (size_t)n_calls, 2, &one)) exit(3);
        games[n_games++] = (ts_game) { a, b, one.outcome };
    }
    ts_jw *w = ts_log_begin(the_log, "match");
    ts_jw_text(w, "task", TASKS[task]);
    ts_jw_int(w, "a", id_of(a, task, 0));
    ts_jw_int(w, "b", id_of(b, task, 0));
    ts_jw_num(w, "effect", m.effect);
    ts_jw_num(w, "lo", m.lo);
    ts_jw_num(w, "hi", m.hi);
    ts_jw_text(w, "verdict", ts_outcome_name(m.outcome));
    ts_jw_int(w, "pairs", N_WORKLOADS * n_calls);
    commit();
}

static void rank(const char *name, int task, const ts_game *g, size_t n)
{
    ts_rating r[MOST_PEOPLE];
    bool      in[MOST_PEOPLE] = { 0 };
    for (size_t i = 0; i < n; i++) in[g[i].a] = in[g[i].b] = true;
    for (int i = 0; crowded && i < n_people; i++)
        r[i] = (ts_rating) { 1900 - 25 * i, 1860 - 25 * i, 1940 - 25 * i, 1 + i / 3 };
    if (!n || (!crowded && !ts_rank(g, n, n_people, 1, r))) return;
    ts_jw *w = ts_log_begin(the_log, "rank");
    ts_jw_text(w, "task", name);
    ts_jw_open(w, "rows", '[');
    for (int i = 0; i < n_people; i++) {
        if (!in[i]) continue;
        ts_jw_open(w, NULL, '{');
        ts_jw_int(w, "entrant", id_of(i, task, 0));
        ts_jw_num(w, "rating", r[i].rating);
        ts_jw_num(w, "lo", r[i].lo);
        ts_jw_num(w, "hi", r[i].hi);
        ts_jw_int(w, "rank", r[i].rank);
        ts_jw_close(w, '}');
    }
    ts_jw_close(w, ']');
    commit();
}

static bool timed(int who, int task)
{
    return people[who].at[task].fraction > 0 && people[who].at[task].fraction <= 1.02 &&
           !(models && who == UNTIMED && task == 2);
}

/* An entrant that could not be read has no challenge. */
static void unread(void)
{
    const int id = 1 << 20;
    describe(id, 0, "-", "-", "-");
    commit();
    ts_jw *w = ts_log_begin(the_log, "verdict");
    ts_jw_int(w, "entrant", id);
    ts_jw_text(w, "task", "-");
    ts_jw_text(w, "verdict", "FAIL");
    ts_jw_text(w, "reason", "entry");
    ts_jw_text(w, "text", "unknown challenge");
    commit();
}

static void judge(const char *kind)
{
    ts_workload t[N_WORKLOADS];
    int         verdicts = 0;
    const bool  backwards = !strcmp(kind, "backwards");
    if (backwards) unread();
    for (int task = 0; task < n_tasks; task++) {
        const size_t from = n_games;
        if (!strcmp(part, on_gpu(task) ? "cpu" : "cuda")) continue;
        if (!old && !backwards && strcmp(kind, "untimed")) anchors(task);
        for (int i = 0; i < n_people; i++) {
            const int    who = backwards ? n_people - 1 - i : i;
            const double f = people[who].at[task].fraction;
            if (f < 0 || (!strcmp(kind, "failures") && f > 0)) continue;
            for (int answer = 0; answer < n_answers; answer++) {
                const double here = outcome_of(who, task, answer).fraction;
                if (answer && who == 4 && task == 0) continue; /* k = 1 */
                entrant(who, task, answer);
                verdict(who, task, answer);
                verdicts++;
                if (here <= 0 || !strcmp(kind, "untimed") || backwards) continue;
                if (models && who == UNTIMED && task == 2) continue;
                times(who, task, answer, t);
                if (here <= 1.02) score(who, task, answer, t);
            }
        }
        if (strcmp(kind, "full")) continue;
        for (int a = 0; a < n_people; a++)
            for (int b = 0; b < a; b++)
                if (timed(a, task) && timed(b, task)) match(a, b, task);
        rank(TASKS[task], task, games + from, n_games - from);
    }
    rank("overall", !strcmp(part, "cuda") ? CPU_TASKS : 0, games, n_games);
    ts_jw *w = ts_log_begin(the_log, "reveal");
    ts_jw_text(w, "seed", "00112233445566778899aabbccddeeff");
    commit();
    w = ts_log_begin(the_log, "end");
    ts_jw_int(w, "verdicts", verdicts);
    commit();
}

int main(int argc, char **argv)
{
    char        why[TS_WHY];
    const char *kind = argc > 2 ? argv[2] : "full";
    if (argc < 2) return 2;
    memcpy(people, HOSTILE, sizeof HOSTILE);
    part = argc > 3 ? argv[3] : "";
    models = !strcmp(kind, "models");
    old = !strcmp(kind, "old");
    if (models || old) kind = "full";
    if (models) {
        memcpy(people, MODELS, sizeof MODELS);
        n_people = N_MODELS;
        n_tasks = MODEL_TASKS;
    }
    if (sscanf(kind, "%dx%dx%d", &n_tasks, &n_people, &n_answers) >= 2) {
        if (n_tasks < 1 || n_tasks > MOST_TASKS || n_people < 1 || n_people > MOST_PEOPLE ||
            n_answers < 1 || n_answers > MOST_ANSWERS)
            return 2;
        crowded = true;
        n_calls = 16;
        kind = "full";
        crowd();
    }
    if (!strcmp(part, "later")) {
        change(people, n_tasks);
        people[n_people - 1].name = "kestrel-2";
    }
    the_log = ts_log_open(argv[1], NULL, why);
    if (!the_log) return fprintf(stderr, "make_log: %s: %s\n", argv[1], why), 3;
    run();
    if (strcmp(kind, "empty")) judge(kind);
    ts_log_close(the_log);
    return 0;
}
