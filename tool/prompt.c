/* SPDX-License-Identifier: Apache-2.0 */
/* prompt.c - puts a prompt together: the contract from challenge/, the rest from the task, the
 * score and the build. */
#define _GNU_SOURCE
#include "prompt.h"

#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "describe.h"
#include "entrant.h"
#include "score.h"

#define C_PARTS                                                                                    \
    { "%s/adapter.c", "adapter-example.c" }, { "%s/selftest.c", "selftest.c" },                    \
    {                                                                                              \
        "common/selftest.h", "selftest.h"                                                          \
    }

const ts_prompt_language ts_prompt_languages[] = {
    { "c", "C", "c", "c", TS_SEALED, "c", "c", TS_CPU, { C_PARTS, { "common/c.mk", "Makefile" } } },
    { "c++",
      "C++",
      "cpp",
      "c++",
      TS_HOST,
      "cpp",
      "c",
      TS_CPU,
      { C_PARTS, { "common/c++.mk", "Makefile" } } },
    { "cuda",
      "CUDA",
      "cuda",
      "cuda",
      TS_GPU_HOST,
      "cu",
      "cu",
      TS_CUDA,
      { { "%s/selftest.c", "selftest.c" },
        { "common/selftest.h", "selftest.h" },
        { "common/selftest_cuda.cu", "selftest_cuda.cu" },
        { "common/cuda.mk", "Makefile" } } },
    { "python",
      "Python with NumPy",
      "python",
      "python",
      TS_PYTHON,
      "py",
      "py",
      TS_CPU,
      { { "%s/adapter.py", "adapter_example.py" },
        { "%s/selftest.py", "selftest.py" },
        { "common/selftest_common.py", "selftest_common.py" },
        { "common/selftest_host.py", "selftest_device.py" },
        { "common/python.mk", "Makefile" } } },
    { "triton",
      "Python with Triton",
      "python",
      "python",
      TS_GPU_PYTHON,
      "py",
      "py",
      TS_CUDA,
      { { "%s/selftest.py", "selftest.py" },
        { "common/selftest_common.py", "selftest_common.py" },
        { "common/selftest_torch.py", "selftest_device.py" },
        { "common/python.mk", "Makefile" } } },
    { 0 },
};

/* ---- files ---- */

static char *slurp(const char *folder, const char *file)
{
    char   path[4300], *text = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "r");
    if (!f || getdelim(&text, &n, 0, f) < 0) {
        fprintf(stderr, "touchstone new: %s: cannot be read\n", path);
        free(text), text = NULL;
    }
    if (f) fclose(f);
    return text;
}

static char *template_of(const char *templates, const char *id, const char *file)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", id, file);
    return slurp(templates, name);
}

/* Writes a text in which `mark` stands for `value`; the rest of it, if there is none. */
static void put_with(const char *text, const char *mark, const char *value, FILE *to)
{
    for (const char *at; *mark && (at = strstr(text, mark)); text = at + strlen(mark))
        fprintf(to, "%.*s%s", (int)(at - text), text, value);
    fputs(text, to);
}

/* ---- the starter ---- */

static bool is_python(const ts_prompt_language *l)
{
    return !strcmp(l->language, "python");
}

/* Python's: the def as the task has it; for a device, other imports. */
static void put_python(const ts_task *t, const ts_prompt_language *l, const char *text, FILE *to)
{
    char         def[96], signature[1024];
    ts_arguments a;
    snprintf(def, sizeof def, "def %s(", t->name);
    while (*text) {
        const size_t n = strcspn(text, "\n") + 1;
        const char  *next = text[n - 1] ? text + n : text + n - 1;
        if (t->kind == TS_PLAIN && !strncmp(text, def, strlen(def)) && ts_arguments_of(t, &a)) {
            ts_python_signature(t, &a, signature, sizeof signature);
            fprintf(to, "def %s:\n", signature);
            next = strstr(text, "):\n") + 3;
        } else if (l->device == TS_CUDA && !strncmp(text, "import numpy", 12))
            fprintf(to, "import torch  # noqa: F401\nimport triton  # noqa: F401\n"
                        "import triton.language as tl  # noqa: F401\n");
        else if (l->device == TS_CUDA && !strncmp(text, "    # Brain floats", 18))
            fprintf(to, "    # Arrays are torch tensors on the device; bf16 is torch.bfloat16.\n");
        else fprintf(to, "%.*s", (int)(next - text), text);
        text = next;
    }
}

bool ts_starter_write(const ts_task *t, const ts_prompt_language *l, const char *templates,
                      FILE *to)
{
    char file[32], was[96], is[96];
    snprintf(file, sizeof file, "starter.%s", l->starter);
    char *text = template_of(templates, t->name, file);
    if (!text) return false;
    snprintf(was, sizeof was, "%s.%s -", t->name, l->starter);
    snprintf(is, sizeof is, "%s.%s -", t->name, l->ending);
    if (is_python(l)) put_python(t, l, text, to);
    else put_with(text, was, is, to);
    free(text);
    return true;
}

/* ---- sections ---- */

/* From a heading of challenge/ID/PROMPT.md to the next; "": what stands before the first. */
static void put_section(const char *text, const char *heading, FILE *to)
{
    const char *begin = *heading ? strstr(text, heading) : text;
    const char *end = begin ? strstr(begin + strlen(heading), "\n## ") : NULL;
    if (begin) fprintf(to, "%.*s\n", (int)(end ? end - begin : (long)strlen(begin)), begin);
}

static void put_what(const ts_task *t, const ts_prompt_language *l, FILE *to)
{
    char        room[TS_EXPORT_NAME], signature[1024];
    const char *name;
    int         n = 0;
    fprintf(to, "## What to write\n\nOne file, `%s.%s`, in %s, ", t->name, l->ending, l->title);
    if (!is_python(l)) {
        while (ts_task_export(t, n, room)) n++;
        fprintf(to, "which defines ");
        for (int i = 0; (name = ts_task_export(t, i, room)); i++)
            fprintf(to, "%s`%s`", !i ? "" : i + 1 < n ? ", " : " and ", name);
        fprintf(to, " as the header at the end of this page declares %s%s.\n",
                n > 1 ? "them" : "it", strcmp(l->name, "cuda") ? "" : ", with C linkage");
        if (t->kind == TS_PLAIN)
            fprintf(to, "\n    %sts_status ts_%s(const ts_%s_args *a, const ts_exec *x);\n",
                    l->device == TS_CUDA ? "extern \"C\" " : "", t->name, t->name);
        for (const char *const *o = t->optional; o && *o; o++)
            fprintf(to, "%s`%s`%s", o == t->optional ? "\nOptional: " : ", ", *o,
                    o[1] ? "" : ".\n");
        fprintf(to, "\n");
        return;
    }
    ts_arguments a;
    fprintf(to, "which defines `%s`.\n\n", t->name);
    if (t->kind != TS_PLAIN || !ts_arguments_of(t, &a)) return;
    ts_python_signature(t, &a, signature, sizeof signature);
    fprintf(to, "    ");
    put_with(signature, "\n", "\n", to);
    fprintf(to, "\n\n");
    ts_python_arguments(t, &a, to);
    fprintf(to, "\nFill the arrays of `out`, or return a dict with the same names. Where this page "
                "says NULL of an\nargument in C, it is `None` here; an output that is NULL is not "
                "in `out`. Dimensions are the arrays'\nshapes.\n\n");
}

static void put_timed(const ts_task *t, const ts_prompt_language *l, FILE *to)
{
    fprintf(to,
            "## What is timed\n\nOnly f32 is timed, on ordinary numbers; other dtypes and inputs "
            "are tested for correctness only.\nThe timed cases on a %s, named with their "
            "dimensions:\n\n",
            l->device == TS_CPU ? "CPU" : "GPU with 4 TB/s (smaller ones on slower GPUs)");
    ts_timed_cases(t, l->device, to);
    fprintf(to, "\n");
}

static void put_score(FILE *to)
{
    fprintf(to,
            "## Score\n\nAn entry that passes every correctness test scores\n\n"
            "    1000 * S^%.2f * R^%.2f * P^%.2f * M^%.2f\n\n"
            "- S, speed: least possible time / measured time on this machine, at most 1; the "
            "geometric mean over\n  the timed cases.\n"
            "- R, robustness: the share of further tests passed: invalid calls, other numbers of "
            "threads, repeated\n  calls, a build with sanitizers.\n"
            "- P, precision: digits of accuracy relative to the most precise entry, from the "
            "99.9th percentile of\n  error / bound.\n"
            "- M, memory: 1 without a workspace; 0.8 with one as large as inputs and outputs "
            "together.\n\n"
            "An entry that fails one correctness test scores 0. Grades:",
            TS_WEIGHT_SPEED, TS_WEIGHT_ROBUSTNESS, TS_WEIGHT_PRECISION, TS_WEIGHT_MEMORY);
    for (int i = 0; i < TS_N_GRADES; i++)
        fprintf(to, " %s from %.0f,", ts_grades[i].grade, ts_grades[i].least);
    fprintf(to, " F failed.\n\n"
                "An entry that supports only some cases declares them in a comment of its first "
                "64 lines, for example\n`touchstone-offers: dtype == f32`, an expression over the "
                "dimensions in a case's name. Other cases are\nnot called, and the score is "
                "multiplied by the share that it supports.\n\n");
}

static bool put_language(const ts_task *t, const ts_prompt_language *l, const char *templates,
                         FILE *to)
{
    char   file[32], flags[1024], limit[16], *page = NULL;
    FILE  *room;
    size_t n;
    snprintf(file, sizeof file, "%s.md", l->name);
    char *text = slurp(templates, (snprintf(flags, sizeof flags, "common/%s", file), flags));
    if (!text || !(room = open_memstream(&page, &n))) return free(text), false;
    put_with(text, "@ID@", t->name, room);
    fclose(room), free(text);
    text = page, page = NULL;
    if (!strcmp(l->name, "cuda")) ts_build_nvcc_flags("sm_90", false, flags, sizeof flags);
    else ts_build_flags(l->cls, l->cls == TS_HOST, "INTRINSICS", flags, sizeof flags);
    snprintf(limit, sizeof limit, "%d", l->device == TS_CPU ? TS_BUILD_LIMIT_S : TS_NVCC_LIMIT_S);
    if (!(room = open_memstream(&page, &n))) return free(text), false;
    put_with(text, "@FLAGS@", flags, room);
    fclose(room), free(text);
    fprintf(to, "## %s\n\n", l->title);
    put_with(page, "@LIMIT@", limit, to);
    free(page);
    fprintf(to,
            "\nAn entry of one file has at most %d KiB of source. With an `entry.json` it may have "
            "%d files.\n\n",
            TS_ENTRANT_BYTES >> 10, TS_ENTRANT_SOURCES);
    return true;
}

/* ---- the header, with what it includes ---- */

static bool put_header(const char *headers, const char *name, const char *fence, char *done,
                       size_t n_done, FILE *to)
{
    char mark[80];
    snprintf(mark, sizeof mark, "<%s>", name);
    if (strstr(done, mark)) return true;
    snprintf(done + strlen(done), n_done - strlen(done), "%s", mark);
    char *text = slurp(headers, name);
    if (!text) return false;
    bool ok = true;
    for (const char *p = text; ok && (p = strstr(p, "#include \"touchstone/")); p++) {
        char other[64];
        if (sscanf(p, "#include \"touchstone/%60[a-z_0-9.]", other) == 1)
            ok = put_header(headers, other, fence, done, n_done, to);
    }
    fprintf(to, "`touchstone/%s`:\n\n```%s\n%s```\n\n", name, fence, text);
    free(text);
    return ok;
}

static bool put_headers(const ts_task *t, const ts_prompt_language *l, const char *templates,
                        const char *headers, FILE *to)
{
    char  done[512] = "", name[64] = "";
    char *starter = template_of(templates, t->name, "starter.c");
    if (!starter) return false;
    const char *at = strstr(starter, "#include \"touchstone/");
    const bool  found = at && sscanf(at, "#include \"touchstone/%60[a-z_0-9.]", name) == 1;
    free(starter);
    fprintf(to, "## The %s\n\n%s", is_python(l) ? "contract in C" : "header",
            is_python(l) ? "For the names and meanings of fields; Python does not use it.\n\n"
                         : "");
    return found && put_header(headers, name, "c", done, sizeof done, to) &&
           (l->cls != TS_SEALED || put_header(headers, "sealed.h", "c", done, sizeof done, to));
}

static void put_ending(const ts_task *t, const ts_prompt_language *l, bool whole, FILE *to)
{
    if (whole)
        fprintf(to,
                "## Your answer\n\nReply with the complete file `%s.%s` in one code block that "
                "begins with ```` ```%s ````. If there are\nseveral, the last one counts. Nothing "
                "can be asked: what is not on this page is up to you.\n",
                t->name, l->ending, l->fence);
    else
        fprintf(to,
                "## Try it\n\n`make test` runs public cases against the definition in plain double "
                "precision%s.\nThe starter fails all of them by design. `touchstone judge DIR` "
                "judges the folder.\n",
                l->device == TS_CUDA ? "; without a GPU it says\nso and tests nothing" : "");
}

bool ts_prompt_write(const ts_task *t, const ts_prompt_language *l, const char *templates,
                     const char *headers, bool whole, FILE *to)
{
    char *text = template_of(templates, t->name, "PROMPT.md");
    if (!text) return false;
    put_section(text, "", to);
    put_what(t, l, to);
    put_section(text, "## The contract\n", to);
    if (is_python(l)) put_section(text, "## Python\n", to);
    put_timed(t, l, to);
    put_section(text, "## How an entry is judged\n", to);
    put_score(to);
    bool ok = put_language(t, l, templates, to);
    fprintf(to, "## Starter\n\n```%s\n", l->fence);
    ok = ok && ts_starter_write(t, l, templates, to);
    fprintf(to, "```\n\n");
    put_section(text, "## Example\n", to); /* of a script */
    if (t->kind == TS_PLAIN) {
        fprintf(to, "## Example\n\n");
        if (!ts_worked_example(t, to))
            fprintf(stderr, "touchstone new: %s: no case is small enough for an example\n",
                    t->name),
                ok = false;
        fprintf(to, "\n");
    }
    ok = ok && put_headers(t, l, templates, headers, to);
    put_ending(t, l, whole, to);
    free(text);
    return ok;
}
