/* SPDX-License-Identifier: Apache-2.0 */
/* make_log_world.h - the simulated run of make_log.c: its challenges, entrants and how each does.
 */
#ifndef TS_MAKE_LOG_WORLD_H
#define TS_MAKE_LOG_WORLD_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "rng.h"

enum {
    N_TASKS = 3,
    MODEL_TASKS = 8,
    N_MODELS = 6,
    CPU_TASKS = 14,
    MOST_TASKS = 23,
    MOST_PEOPLE = 40,
    MOST_ANSWERS = 5,
    N_WORKLOADS = 4,
    MOST_CALLS = 120
};

static const char *const TASKS[MOST_TASKS] = {
    "layernorm_forward",
    "layernorm_backward",
    "softmax_topk",
    "rms_norm_forward",
    "rms_norm_backward",
    "cross_entropy",
    "cross_entropy_logits",
    "flash_attention",
    "flash_attention_backward",
    "kv_cache",
    "beam_search",
    "tree_verify",
    "ternary_linear",
    "ternary_training",
    "layernorm_forward/cuda",
    "layernorm_backward/cuda",
    "softmax_topk/cuda",
    "rms_norm_forward/cuda",
    "rms_norm_backward/cuda",
    "cross_entropy/cuda",
    "cross_entropy_logits/cuda",
    "flash_attention/cuda",
    "flash_attention_backward/cuda",
};
static const char *const CASES[N_TASKS][N_WORKLOADS] = {
    { "f32/rows=512,cols=768,pad=0/normal", "f32/rows=4096,cols=1024,pad=8/normal",
      "bf16/rows=512,cols=768,pad=0/normal", "bf16/rows=2048,cols=4096,pad=0/offset" },
    { "f32/rows=512,cols=768,pad=0/normal", "f32/rows=2048,cols=1024,pad=8/normal",
      "bf16/rows=512,cols=768,pad=0/normal", "bf16/rows=1024,cols=4096,pad=0/offset" },
    { "f32/rows=16,vocab=32000,k=8/normal", "f32/rows=64,vocab=50257,k=50/normal",
      "bf16/rows=16,vocab=128256,k=8/peaked",
      "bf16/q=4096,k=4096,batch=2,q_heads=32,kv_heads=8,head_dim=128,mask=1,window=1024/MWMWMW" },
};

/* How an entrant does in a task: the fraction of the floor it reaches, or why it fails. */
typedef struct outcome {
    double      fraction; /* 0: does not pass; above 1.02: audit; below 0: did not enter */
    const char *reason;
} outcome;

typedef struct person {
    const char *name, *author, *klass, *language;
    outcome     at[MOST_TASKS];
} person;

static const person HOSTILE[] = {
    { "touchstone", "the house", "host", "c", { { .91, "" }, { .86, "" }, { .78, "" } } },
    { "three_pass", "the house", "sealed", "c", { { .55, "" }, { .47, "" }, { .33, "" } } },
    { "textbook", "the house", "sealed", "c", { { .31, "" }, { .28, "" }, { .052, "" } } },
    { "numpy", "the house", "python", "python", { { .12, "" }, { .083, "" }, { .011, "" } } },
    { "<script>document.title='owned'</script><img src=x onerror=alert(1)>",
      "\"O'Brien\" & co",
      "sealed",
      "c",
      { { .89, "" }, { 0, "value" }, { 0, "past" } } },
    { "\x1b[31mred\x1b[0m \xe2\x80\xae"
      "drawkcab \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d",
      "a\tb\r\nc",
      "host",
      "c++",
      { { .62, "" }, { 0, "crash" }, { -1, "" } } },
    { "sixty-four-characters-of-a-name-that-will-not-fit-in-any-column-",
      "someone",
      "sealed",
      "c",
      { { 1.31, "floor" }, { .44, "" }, { 0, "hang" } } },
    { "Jos\xc3\xa9 Mu\xc3\xb1oz's k\xc3\xa9rnel",
      "Jos\xc3\xa9",
      "python",
      "python",
      { { 0, "build" }, { 0, "seal" }, { 0, "unwritten" } } },
};

/* Six models that answer eight challenges; reasons of failures, and what was not entered. */
static const person MODELS[] = {
    { "orion-5-large-thinking",
      "Northwind",
      "python",
      "python",
      { { .19, "" },
        { .17, "" },
        { .21, "" },
        { .16, "" },
        { .11, "" },
        { .14, "" },
        { .18, "" },
        { 0, "value" } } },
    { "heron-3-preview",
      "Acme Research",
      "python",
      "python",
      { { .15, "" },
        { .12, "" },
        { .09, "" },
        { .14, "" },
        { 0, "value" },
        { .12, "" },
        { .11, "" },
        { 0, "value" } } },
    { "quartz-coder-480b",
      "Contoso",
      "python",
      "python",
      { { .11, "" },
        { 0, "crash" },
        { .04, "" },
        { .1, "" },
        { .09, "" },
        { .03, "" },
        { 0, "hang" },
        { .08, "" } } },
    { "lumen-2",
      "Initech",
      "python",
      "python",
      { { .06, "" },
        { .05, "" },
        { 0, "unwritten" },
        { .07, "" },
        { -1, "" },
        { .06, "" },
        { -1, "" },
        { .05, "" } } },
    { "teal-oss-120b",
      "Umbrella Labs",
      "python",
      "python",
      { { .02, "" },
        { 0, "value" },
        { .03, "" },
        { .02, "" },
        { -1, "" },
        { 0, "value" },
        { -1, "" },
        { 0, "value" } } },
    { "kestrel",
      "Contoso",
      "python",
      "python",
      { { 0, "value" },
        { 0, "build" },
        { 0, "value" },
        { .015, "" },
        { 0, "crash" },
        { 0, "value" },
        { -1, "" },
        { 0, "value" } } },
};

/* What a later run has: a fixed answer, a broken one, a faster entrant, and another last entrant.
 */
static void change(person *p, int n)
{
    p[1].at[n > 4 ? 4 : n - 1] = (outcome) { .13, "" };
    p[2].at[0] = (outcome) { 0, "value" };
    for (int task = 0; task < n; task++)
        if (p[3].at[task].fraction > 0) p[3].at[task].fraction *= 1.6;
}

static int    n_tasks = N_TASKS, n_people = sizeof HOSTILE / sizeof *HOSTILE, n_calls = MOST_CALLS;
static int    n_answers = 1;
static bool   old; /* without counts, faults, words and anchors, as logs were */
static bool   models;
static bool   crowded; /* without bootstrap intervals: 9360 matches would take minutes */
static person people[MOST_PEOPLE];
static double calls[MOST_PEOPLE][MOST_TASKS][N_WORKLOADS][MOST_CALLS];

static const char *case_of(int task, int workload)
{
    return CASES[task % N_TASKS][workload];
}

static int id_of(int who, int task, int answer)
{
    return (who * n_tasks + task) * n_answers + answer;
}

static bool on_gpu(int task)
{
    return task >= CPU_TASKS;
}

static const char *const REASONS[] = { "value", "crash", "build", "hang", "past", "unwritten" };

/* Later answers are up to 20 % slower, and some fail. */
static outcome outcome_of(int who, int task, int answer)
{
    outcome      o = people[who].at[task];
    const double u = fabs(ts_uniform((uint64_t)(1000 + who), answer * MOST_TASKS + task));
    if (!answer || o.fraction < 0) return o;
    if (u < 0.015 * who) return (outcome) { 0, REASONS[(who + task + answer) % 6] };
    if (o.fraction > 1.02) o.fraction = 0.5;
    return (outcome) { fmax(.01, (o.fraction > 0 ? o.fraction : 0.2) * (1 - 0.2 * u)), "" };
}

/* The first is the fastest; the later ones fail more often, each for a reason of its own. */
static void crowd(void)
{
    static const char *const makers[] = { "Northwind", "Acme Research", "Contoso", "Initech",
                                          "Umbrella Labs" };
    static const char *const names[] = { "orion-5-large-thinking", "heron-3-preview",
                                         "quartz-coder-480b",      "lumen-2",
                                         "vega-4.5-mini-high",     "Basalt R2 0528 Distill 70B",
                                         "teal-oss-120b",          "kestrel" };
    static const char *const classes[] = { "host", "sealed", "sealed", "python", "host" };
    static char              made[MOST_PEOPLE][64];
    for (int who = 0; who < n_people; who++) {
        const char *klass = classes[who % 5], *name = names[who % 8];
        if (who >= 8) snprintf(made[who], sizeof made[who], "%s-v%d", name, who / 8 + 1);
        people[who] = (person) { .name = who < 8 ? name : made[who],
                                 .author = makers[who % 5],
                                 .klass = klass,
                                 .language = !strcmp(klass, "python") ? "python" : "c" };
        for (int task = 0; task < n_tasks; task++) {
            const double u = fabs(ts_uniform((uint64_t)who, 2 * task));
            const double v = fabs(ts_uniform((uint64_t)who, 2 * task + 1));
            if (on_gpu(task) && who % 3 == 2) {
                people[who].at[task] = (outcome) { -1, "" };
                continue;
            }
            if (v < 0.02 * who) people[who].at[task].reason = REASONS[(who + task) % 6];
            else people[who].at[task].fraction = fmax(.01, (0.95 - 0.2 * u) * pow(0.93, who));
            if (people[who].at[task].reason) continue;
            people[who].at[task].reason = who == 3 && task == 1 ? "floor" : "";
            if (who == 3 && task == 1) people[who].at[task].fraction = 1.31;
            if (who == 6 && task == 2) people[who].at[task].fraction = -1;
        }
    }
}

#endif
