/* SPDX-License-Identifier: Apache-2.0 */
/* sanitize.c - runs the tools of CUDA's compute-sanitizer on an entrant's small cases.
 *
 * The tools load a library and start threads, so the process is touchstone-plain instead of the
 * cage: for sealed entrants only, which have no host code. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "hear.h"
#include "run.h"
#include "show.h"
#include "temporary.h"

enum { FOUND = 77, LIMIT_S = 60, CASES = 6, SAID = 16 << 10 };

const char *const ts_tool_name[TS_TOOLS] = { "memcheck", "racecheck", "initcheck", "synccheck" };

/* ---- the entrant as files: another process cannot open a sealed memory file ---- */

static bool put(const char *folder, const char *name, int from)
{
    char    path[80], part[1 << 16];
    off_t   at = 0;
    ssize_t n = -1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    while (to >= 0 && (n = pread(from, part, sizeof part, at)) > 0 &&
           write(to, part, (size_t)n) == n)
        at += n;
    if (to >= 0) close(to);
    return to >= 0 && n == 0;
}

/* ---- a program with a time limit ---- */

_Noreturn static void become(char *const *argv, int out)
{
    const int null = open("/dev/null", O_RDONLY);
    setsid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || dup2(null, 0) < 0 || dup2(out, 1) < 0 ||
        dup2(out, 2) < 0)
        _exit(127);
    execv(argv[0], argv);
    _exit(127);
}

/* Returns the exit status, or -1 at the time limit; `said` gets the beginning of its output. */
static int listen_to(char *const *argv, char said[SAID])
{
    int    out[2], status = 0;
    size_t n = 0;
    if (pipe2(out, O_CLOEXEC)) return *said = 0, 127;
    const pid_t pid = fork();
    if (!pid) become(argv, out[1]);
    close(out[1]);
    const bool late = pid > 0 && !ts_hear(out[0], ts_seconds() + LIMIT_S, true, said, SAID - 1, &n);
    said[n] = 0;
    close(out[0]);
    if (pid > 0 && late) kill(-pid, SIGKILL);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return late ? -1 : pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

/* ---- what it found ---- */

/* The first finding: a line that begins with "========= " and is neither indented nor a banner. */
static void first_finding(const char *said, char *out, size_t n)
{
    static const char bar[] = "========= ";
    const char       *line = said;
    for (; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (!strncmp(line, bar, sizeof bar - 1) && line[sizeof bar - 1] != ' ' &&
            strncmp(line + sizeof bar - 1, "COMPUTE-SANITIZER", 17)) {
            line += sizeof bar - 1;
            break;
        }
    if (!*line) line = "no details given";
    ts_show(line, strcspn(line, "\n"), out, n);
}

/* The last line, where programs report errors. */
static void last_line(const char *said, char *out, size_t n)
{
    size_t end = strlen(said), begin;
    while (end && said[end - 1] == '\n') end--;
    for (begin = end; begin && said[begin - 1] != '\n'; begin--) {}
    ts_show(said + begin, end - begin, out, n);
}

static void judge_by(ts_judged *e, int tool, int status, const char *said)
{
    char what[TS_TOOL_TEXT - 16] = "";
    if (status == -1) snprintf(what, sizeof what, "not finished within %d s", LIMIT_S);
    else if (status == FOUND) first_finding(said, what, sizeof what);
    else if (status) last_line(said, what, sizeof what);
    snprintf(e->tool[tool], TS_TOOL_TEXT, "%s%s%s",
             !status           ? "passed"
             : status == FOUND ? "failed"
                               : "skipped",
             status ? ": " : "", what);
    if (status && status != FOUND) return;
    e->sanitizer.all++;
    e->sanitizer.passed += !status;
    if (status && !*e->robustness_text)
        snprintf(e->robustness_text, sizeof e->robustness_text, "%s: %s", ts_tool_name[tool], what);
}

void ts_run_tools(ts_run *c, ts_judged *e, const int *number, int n)
{
    char        tool[4096], plain[4096], folder[TS_TEMPORARY_PATH], said[SAID];
    char        given[CASES][192];
    char       *argv[8 + CASES + 1] = { tool, "--tool", NULL, "--error-exitcode", "77", plain };
    const char *why = NULL;
    if (e->entrant.cls != TS_GPU_SEALED) why = "host code runs only in the sandbox";
    else if (!ts_cuda_tool("TOUCHSTONE_SANITIZER", "compute-sanitizer", tool, sizeof tool))
        why = "compute-sanitizer not found";
    else if (!ts_beside("touchstone-plain", plain, sizeof plain))
        why = "touchstone-plain not found";
    else if (!n) why = "no small case to run";
    else if (!ts_temporary(folder)) why = "no temporary folder could be created";
    for (int i = 0; i < TS_TOOLS && why; i++)
        snprintf(e->tool[i], TS_TOOL_TEXT, "skipped: %s", why);
    if (why) return;
    argv[6] = folder, argv[7] = (char *)(uintptr_t)e->task->name;
    for (int i = 0; i < n && i < CASES; i++) {
        ts_case_string(e->task, &ts_scope_cases(&e->scope, e->task)[number[i]],
                       ts_run_case_seed(c, e->task, number[i]), given[i], sizeof given[i]);
        argv[8 + i] = given[i];
    }
    const bool laid =
        put(folder, "object", e->built.object) && put(folder, "launch", e->built.launch);
    for (int i = 0; i < TS_TOOLS; i++) {
        argv[2] = (char *)(uintptr_t)ts_tool_name[i];
        if (laid) judge_by(e, i, listen_to(argv, said), said);
        else snprintf(e->tool[i], TS_TOOL_TEXT, "skipped: temporary files could not be written");
    }
    ts_temporary_remove(folder);
}
