/* SPDX-License-Identifier: Apache-2.0 */
/* make_shards.c - writes the logs of an array job, one per challenge and class, with simulated
 * verdicts and times: `make_shards DIR ENTRANTS CHALLENGE...`.
 *
 * $MODEL (model) begins the names of entrants, $MACHINE is the machine.
 *
 * Three of five entrants are sealed, one is of class host, one of class python; four of five
 * answers pass. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "derive.h"
#include "log.h"
#include "quantile.h"
#include "rng.h"
#include "sha256.h"

enum { WORKLOADS = 3, CALLS = 45, GUARANTEES = 32 };

static ts_log *the_log;

static void commit(void)
{
    if (ts_log_commit(the_log)) return;
    fprintf(stderr, "make_shards: cannot append\n");
    exit(3);
}

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static const char *class_of(int who)
{
    static const char *const classes[] = { "sealed", "host", "sealed", "python", "sealed" };
    return classes[who % 5];
}

static void run(void)
{
    ts_jw *w = ts_log_begin(the_log, "run");
    ts_jw_text(w, "version", TS_VERSION);
    ts_jw_text(w, "machine", setting("MACHINE", "Neoverse-V1, 64 cores"));
    ts_jw_open(w, "guarantees", '[');
    for (int i = 0; i < GUARANTEES; i++) {
        ts_jw_open(w, NULL, '{');
        ts_jw_text(w, "name", "a guarantee");
        ts_jw_bool(w, "held", true);
        ts_jw_text(w, "text", "what was tried, and what was seen");
        ts_jw_close(w, '}');
    }
    ts_jw_close(w, ']');
    ts_jw_text(w, "badge", "full");
    ts_jw_text(w, "commit", "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef");
    ts_jw_text(w, "depth", "normal");
    ts_jw_int(w, "draw", 5);
    ts_jw_int(w, "threads", 63);
    ts_jw_text(w, "started", "2026-01-15T09:30:00Z");
    ts_jw_open(w, "floors", '{');
    ts_jw_num(w, "memory_gbs", 240);
    ts_jw_num(w, "gflops", 1900);
    ts_jw_num(w, "call_ns", 480);
    ts_jw_close(w, '}');
    commit();
}

static void entrant(int who, const char *task)
{
    char   hash[65], name[64];
    ts_jw *w = ts_log_begin(the_log, "entrant");
    snprintf(name, sizeof name, "%s-%04d", setting("MODEL", "model"), who);
    ts_sha256_hex(name, strlen(name), hash);
    ts_jw_int(w, "id", who);
    ts_jw_text(w, "name", name);
    ts_jw_text(w, "author", "");
    ts_jw_text(w, "class", class_of(who));
    ts_jw_text(w, "language", !strcmp(class_of(who), "python") ? "python" : "c");
    ts_jw_text(w, "task", task);
    ts_jw_text(w, "source_sha256", hash);
    ts_jw_text(w, "family", hash);
    ts_jw_text(w, "sample", "");
    commit();
}

static bool passes(int who, int task)
{
    return fabs(ts_uniform((uint64_t)who, task)) >= 0.2;
}

static void verdict(int who, int number, const char *task)
{
    static const char *const kinds[] = { "basic",   "shapes",      "numerics",
                                         "special", "adversarial", "canon" };
    static const char *const robust[] = { "refusals", "repeat", "threads", "sanitizer" };
    const bool               pass = passes(who, number);
    char                     text[160];
    ts_jw                   *w = ts_log_begin(the_log, "verdict");
    ts_jw_int(w, "entrant", who);
    ts_jw_text(w, "task", task);
    ts_jw_text(w, "verdict", pass ? "PASS" : "FAIL");
    ts_jw_text(w, "reason", pass ? "" : "value");
    ts_jw_text(w, "text", pass ? "" : "value: y[3][511] got 1.53125, want 1.49998474 +- 3.1e-05");
    snprintf(text, sizeof text, "%s/f32/rows=512,cols=768,pad=0/normal@0x5eed", task);
    ts_jw_text(w, "case", pass ? "" : text);
    snprintf(text, sizeof text, "touchstone judge --case '%s/...' answers/model-%04d", task, who);
    ts_jw_text(w, "replay", pass ? "" : text);
    for (int group = 0; group < 2; group++) {
        ts_jw_open(w, group ? "robustness" : "categories", '{');
        for (int i = 0; i < (group ? 4 : 6); i++) {
            ts_jw_open(w, group ? robust[i] : kinds[i], '[');
            ts_jw_int(w, NULL, pass ? 112 : 87);
            ts_jw_int(w, NULL, 112);
            ts_jw_close(w, ']');
        }
        ts_jw_close(w, '}');
    }
    ts_jw_int(w, "calls", 400);
    ts_jw_num(w, "worst", pass ? 0.04 : 1007.9);
    ts_jw_num(w, "ulp", 0.5);
    ts_jw_num(w, "p999", 0.015);
    ts_jw_num(w, "workspace_bytes", 0);
    ts_jw_num(w, "io_bytes", 8 << 20);
    ts_jw_num(w, "seconds", 3.25);
    commit();
}

static void times(int who, const char *task)
{
    for (int k = 0; k < WORKLOADS; k++) {
        const double floor_ns = 20000.0 * (1 + k);
        const double slow = 1.1 + 8 * fabs(ts_uniform((uint64_t)who, 100 + k));
        double       ns[CALLS], sorted[CALLS];
        for (int i = 0; i < CALLS; i++)
            ns[i] = floor(floor_ns * slow *
                          exp(0.02 * fabs(ts_normal((uint64_t)(who * 8 + k), 7 * i))));
        memcpy(sorted, ns, sizeof ns);
        const ts_interval m = ts_quantile_interval(sorted, CALLS, TS_TIME_QUANTILE);
        ts_jw            *w = ts_log_begin(the_log, "time");
        ts_jw_int(w, "entrant", who);
        ts_jw_text(w, "task", task);
        char which[64];
        snprintf(which, sizeof which, "f32/rows=%d,cols=768,pad=0/normal", 512 << k);
        ts_jw_text(w, "case", which);
        ts_jw_int(w, "workload", k);
        ts_jw_int(w, "workloads", WORKLOADS);
        ts_jw_num(w, "bytes", floor_ns * 240);
        ts_jw_num(w, "flops", floor_ns * 300);
        ts_jw_num(w, "floor_ns", floor_ns);
        ts_jw_open(w, "ns", '[');
        for (int i = 0; i < CALLS; i++) ts_jw_num(w, NULL, ns[i]);
        ts_jw_close(w, ']');
        ts_jw_num(w, "time_ns", m.mid);
        ts_jw_num(w, "lo_ns", m.lo);
        ts_jw_num(w, "hi_ns", m.hi);
        ts_jw_num(w, "fraction", floor_ns / m.mid);
        ts_jw_num(w, "error", 0.01);
        commit();
    }
}

/* As a run leaves it: entrants, times, verdicts, what follows from them, the end. */
static void shard(const char *dir, const char *klass, int n, int number, const char *task)
{
    char       path[4200], why[TS_WHY];
    ts_records r;
    int        verdicts = 0;
    snprintf(path, sizeof path, "%s/%s.%s.log", dir, task, klass);
    remove(path);
    the_log = ts_log_open(path, NULL, why);
    if (!the_log) {
        fprintf(stderr, "make_shards: %s: %s\n", path, why);
        exit(3);
    }
    run();
    for (int who = 0; who < n; who++)
        if (!strcmp(class_of(who), klass)) entrant(who, task);
    for (int who = 0; who < n; who++)
        if (!strcmp(class_of(who), klass) && passes(who, number)) times(who, task);
    for (int who = 0; who < n; who++)
        if (!strcmp(class_of(who), klass)) verdict(who, number, task), verdicts++;
    if (!ts_records_read(path, &r, why) || !ts_derive_into_log(&r, the_log)) exit(3);
    ts_records_free(&r);
    ts_jw_text(ts_log_begin(the_log, "reveal"), "seed", "5eed");
    commit();
    ts_jw_int(ts_log_begin(the_log, "end"), "verdicts", verdicts);
    commit();
    ts_log_close(the_log);
}

int main(int argc, char **argv)
{
    static const char *const classes[] = { "sealed", "host", "python" };
    if (argc < 4 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: make_shards DIR ENTRANTS CHALLENGE...\n");
        return 2;
    }
    mkdir(argv[1], 0777);
    for (int i = 3; i < argc; i++)
        for (int k = 0; k < 3; k++) shard(argv[1], classes[k], atoi(argv[2]), i, argv[i]);
    return 0;
}
