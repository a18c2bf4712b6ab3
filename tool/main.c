/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program `touchstone`: selects the subcommand. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "demo.h"
#include "tool.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    { "judge", ts_tool_judge, "test entrants for correctness, time them and rank them" },
    { "check", ts_tool_check, "test this library's implementations; every mutant must fail" },
    { "bench", ts_tool_bench, "time implementations against peers and the machine's peak rates" },
    { "new", ts_tool_new, "create an entrant's folder: prompt, header, starter, self-test" },
    { "demo", ts_tool_demo, "demonstrate one idea: cancellation, paged memory, sampling ..." },
    { "generate", ts_tool_generate, "generate text with a transformer built on these kernels" },
    { "chat", ts_tool_chat, "talk with a model, by its chat template" },
    { "serve", ts_tool_serve, "serve a model over HTTP, by the OpenAI API" },
    { "evaluate", ts_tool_evaluate, "compute the perplexity of a text under a model" },
    { "train", ts_tool_train, "train a transformer on a text, in float or ternary" },
    { "plan", ts_tool_plan, "compute a model's memory, largest context and speed limit on a GPU" },
    { "report", ts_tool_report, "print the tables of a recorded run and write its page" },
    { "list", ts_tool_list,
      "list challenges, tasks, functions, cases, impls, mutants, devices, models or gpus" },
};

static void help(FILE *f)
{
    fprintf(f, "usage: touchstone COMMAND [OPTION...]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(f, "\nEvery command takes --help; all but new also take --json FILE|- and --seed "
               "N.\n'touchstone --version' prints the version.\nExit status: 0 all passed, 1 "
               "something failed, 2 usage error, 3 could not run\n(missing device, I/O error).\n");
}

/* "a, b or c" */
static const char *names(void)
{
    enum { N = sizeof commands / sizeof *commands };
    static char text[256];
    size_t      n = 0;
    for (size_t i = 0; i < N; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s",
                              i == 0       ? ""
                              : i == N - 1 ? " or "
                                           : ", ",
                              commands[i].name);
    return text;
}

/* A failed write to standard output is an error. */
static int delivered(int status)
{
    if (!fflush(stdout) && !ferror(stdout)) return status;
    if (errno != EPIPE) /* a reader such as head that had enough */
        fprintf(stderr, "touchstone: cannot write to standard output\n");
    return TS_EXIT_BROKEN;
}

/* Commands that run a model: a token is hundreds of short loops, and waking a thread for each would
 * take longer than most of them. */
static bool runs_model(const char *command)
{
    static const char *const names[] = { "generate", "chat", "evaluate", "serve" };
    for (size_t i = 0; command && i < sizeof names / sizeof *names; i++)
        if (!strcmp(command, names[i])) return true;
    return false;
}

/* OpenMP threads that wait for work spin by default, on cores where other code is timed. OpenMP
 * reads its settings before main: so set them and exec again, unless the caller has set them. */
static void let_waiting_threads_sleep(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || setenv("OMP_WAIT_POLICY", "passive", 1)) return;
    if (runs_model(argv[1])) setenv("GOMP_SPINCOUNT", "10000", 0); /* some ten microseconds */
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    let_waiting_threads_sleep(argv);
    if (argc < 2)
        return ts_fail("no command given, expected %s; try --help", names()), TS_EXIT_USAGE;
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
        help(stdout);
        return delivered(TS_EXIT_PASSED);
    }
    if (!strcmp(argv[1], "--version")) {
        printf("touchstone %s\n", TS_VERSION);
        return delivered(TS_EXIT_PASSED);
    }
    const char *near = NULL;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (!strcmp(argv[1], commands[i].name))
            return delivered(commands[i].run(argc - 1, argv + 1));
        ts_nearer(argv[1], commands[i].name, &near);
    }
    ts_fail("unknown command '%s'; expected %s%s%s", argv[1], names(),
            near ? "; did you mean " : "", near ? near : "");
    return TS_EXIT_USAGE;
}
