/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program `touchstone`: finds the subcommand, which finds the rest. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    { "judge", ts_tool_judge, "run entrants, and say who is right, how fast, and who wins" },
    { "check", ts_tool_check, "examine our implementations, and the mutants that must fail" },
    { "bench", ts_tool_bench, "time implementations against this machine's memory and peers" },
    { "new", ts_tool_new, "a folder for a contestant: prompt, header, starter, self-test" },
    { "demo", ts_tool_demo, "one idea made visible: cancellation, paged memory, sampling ..." },
    { "generate", ts_tool_generate, "text from a transformer that runs on these kernels" },
    { "train", ts_tool_train, "a transformer from a text, in full precision or ternary" },
    { "plan", ts_tool_plan, "memory, largest context and speed limit of a model on a GPU" },
    { "report", ts_tool_report, "the tables and the page of a recorded run" },
    { "list", ts_tool_list, "challenges, cases, impls, mutants, devices, models, gpus" },
};

static void help(FILE *f)
{
    fprintf(f, "usage: touchstone COMMAND [OPTION...]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(f, "\nEvery command takes --help; all but new also --json FILE|- and --seed N. "
               "touchstone --version tells the version.\n"
               "Exit status: 0 all passed, 1 something failed, 2 usage, 3 could not work.\n");
}

/* What could not be written was not said. */
static int delivered(int status)
{
    if (!fflush(stdout) && !ferror(stdout)) return status;
    fprintf(stderr, "touchstone: cannot write to standard output\n");
    return TS_EXIT_BROKEN;
}

/* OpenMP threads that wait for work spin by default, on the cores where somebody else is measured.
 * OpenMP reads its settings before main: so once more from the start, unless the caller has said
 * what he wants. */
static void let_waiting_threads_sleep(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || setenv("OMP_WAIT_POLICY", "passive", 1)) return;
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    let_waiting_threads_sleep(argv);
    if (argc < 2) {
        fprintf(stderr, "touchstone: a command is needed: judge, check, bench, new, demo, "
                        "generate, train, plan, report or list; try --help\n");
        return TS_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
        help(stdout);
        return delivered(TS_EXIT_PASSED);
    }
    if (!strcmp(argv[1], "--version")) {
        printf("touchstone %s\n", TS_VERSION);
        return delivered(TS_EXIT_PASSED);
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name))
            return delivered(commands[i].run(argc - 1, argv + 1));
    fprintf(stderr,
            "touchstone: unknown command '%s'; expected judge, check, bench, new, demo, "
            "generate, train, plan, report or list\n",
            argv[1]);
    return TS_EXIT_USAGE;
}
