/* SPDX-License-Identifier: Apache-2.0 */
/* slurm.c - writes a Slurm array job that judges answers in shards of a challenge and a class.
 *
 * One array task judges all entrants of its shard on one node, into the shard's own log, so that
 * all times that are compared come from one machine. A task that Slurm starts again, because its
 * node died, resumes that log. */
#define _GNU_SOURCE
#include "slurm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

enum { MOST_TASKS = 64 };

typedef struct shards {
    int n[MOST_TASKS][TS_N_CLASSES]; /* answers */
    int all, n_shards, n_other;      /* n_other: for another device */
} shards;

static int complain(const char *what, const char *why)
{
    ts_fail("%s: %s", what, why);
    return TS_EXIT_USAGE;
}

static int number_of(const char *challenge)
{
    int i = 0;
    while (ts_tasks[i] && strcmp(ts_tasks[i]->name, challenge)) i++;
    return i;
}

/* Admits each answer as a run would, to learn its class. Returns an exit status. */
static int count(ts_run *c, const char *path, shards *s)
{
    static ts_paths list;
    ts_refusal      why = { 0 };
    int             status = TS_EXIT_PASSED;
    if (access(path, F_OK)) return complain(path, "no such file or folder");
    if (!ts_entrant_list(path, &list, &why)) return complain("--slurm", why.text);
    for (int i = 0; i < list.n && !status; i++) {
        const ts_answer *a = &list.at[i];
        ts_judged        e = { .path = a->path, .challenge = a->challenge, .name = a->model };
        if (!a->challenge || !*a->model) {
            status =
                complain(a->path, "named after no challenge; --slurm needs MODEL/CHALLENGE paths");
            break;
        }
        c->n = 0;
        ts_run_admit(c, &e);
        if (e.evidence.machine) {
            complain(a->path, e.evidence.failure.text);
            status = TS_EXIT_BROKEN;
        }
        const bool other = !strcmp(e.evidence.failure.reason, "device");
        const int  n = other ? 0 : s->n[number_of(a->challenge)][e.entrant.cls]++;
        s->n_shards += !other && !n;
        s->all += !other;
        s->n_other += other;
        ts_entrant_free(&e.entrant);
    }
    ts_entrant_list_free(&list);
    c->n = 0;
    return status;
}

/* ---- the two files ---- */

static FILE *create(const char *dir, const char *name)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (!f) complain(path, strerror(errno));
    return f;
}

static bool finish(FILE *f, const char *dir)
{
    bool ok = !ferror(f);
    ok = !fclose(f) && ok;
    if (!ok) complain(dir, "cannot be written");
    return ok;
}

static bool write_shards(const char *dir, const shards *s)
{
    FILE *f = create(dir, "shards");
    for (int t = 0; f && ts_tasks[t]; t++)
        for (int k = 0; k < TS_N_CLASSES; k++)
            if (s->n[t][k])
                fprintf(f, "%s %s %d\n", ts_tasks[t]->name, ts_class_name((ts_class)k), s->n[t][k]);
    return f && finish(f, dir);
}

/* A word for a shell. */
static void quote(const char *word, FILE *f)
{
    fputc('\'', f);
    for (; *word; word++)
        if (*word == '\'') fputs("'\\''", f);
        else fputc(*word, f);
    fputc('\'', f);
}

static bool write_job(const char *dir, const shards *s, bool gpu, const char *here,
                      const char *program, int argc, char **argv)
{
    FILE *f = create(dir, "job.sh");
    if (!f) return false;
    fprintf(f,
            "#!/bin/sh\n"
            "# Judges one line of `shards` per array task. Options given to sbatch come first:\n"
            "#     sbatch --partition=NAME job.sh\n"
            "#SBATCH --job-name=touchstone\n"
            "#SBATCH --array=0-%d\n"
            "#SBATCH --nodes=1 --ntasks=1 --exclusive\n"
            "%s#SBATCH --requeue --open-mode=append\n"
            "#SBATCH --output=\"%s/%%a.out\"\n"
            "dir=",
            s->n_shards - 1, gpu ? "#SBATCH --gpus=1\n" : "", dir);
    quote(dir, f);
    fprintf(f, "\ncd ");
    quote(here, f);
    fprintf(f, " || exit 3\n"
               "set -- $(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" \"$dir/shards\")\n");
    quote(program, f);
    fprintf(f, " judge --challenge \"$1\" --class \"$2\" --log \"$dir/$1.$2.log\" --resume");
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--slurm")) i++;
        else fputc(' ', f), quote(argv[i], f);
    }
    fprintf(f, "\nstatus=$?\n"
               "[ $status = 1 ] && status=0 # an entrant failed, which is a result\n"
               "exit $status\n");
    return finish(f, dir);
}

/* Options that a shard sets itself, or that are not about judging. */
static bool is_free(int argc, char **argv)
{
    static const char *const taken[] = { "--challenge", "--class", "--log",    "--resume",
                                         "--out",       "--json",  "--replay", "--case" };
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof taken / sizeof *taken; k++)
            if (!strcmp(argv[i], taken[k]))
                return complain("--slurm", "not together with --challenge, --class, --log, "
                                           "--resume, --out, --json, --replay or --case"),
                       false;
    return true;
}

int ts_judge_slurm(ts_run *c, const char *dir, const char *const *given, int argc, char **argv)
{
    static shards s;
    char          whole[4096], here[4096], program[4096] = "";
    int           status;
    if (!is_free(argc, argv)) return TS_EXIT_USAGE;
    if (!given[0]) return complain("--slurm", "got no entrant, expected a folder of answers");
    for (int i = 0; given[i]; i++)
        if ((status = count(c, given[i], &s))) return status;
    if (s.n_other)
        ts_fail("--slurm: %d entrants left out; judge them with --device %s", s.n_other,
                c->device == TS_CPU ? "cuda" : "cpu");
    if (!s.all) return complain("--slurm", "no entrants for this device");
    if ((mkdir(dir, 0777) && errno != EEXIST) || !realpath(dir, whole) ||
        !getcwd(here, sizeof here) || readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return complain(dir, strerror(errno)), TS_EXIT_BROKEN;
    if (strpbrk(whole, "%\"\\\n"))
        return complain(dir, "Slurm cannot write to a path with %, \", \\ or a line break");
    if (!write_shards(whole, &s) ||
        !write_job(whole, &s, c->device == TS_CUDA, here, program, argc, argv))
        return TS_EXIT_BROKEN;
    printf("%d answers in %d shards, listed in %s/shards\nsubmit: sbatch %s/job.sh\nthen:   "
           "touchstone report %s\n",
           s.all, s.n_shards, whole, whole, whole);
    return TS_EXIT_PASSED;
}
