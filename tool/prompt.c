/* SPDX-License-Identifier: Apache-2.0 */
/* prompt.c - puts a prompt together: the contract from challenge/, the rest from the task, the
 * score and the build. */
#define _GNU_SOURCE
#include "prompt.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build.h"
#include "describe.h"
#include "entrant.h"
#include "header.h"
#include "markup.h"
#include "run.h"
#include "score.h"
#include "tool.h"

#define C_PARTS                                                                                    \
    { "%s/adapter.c", "adapter-example.c" }, { "%s/selftest.c", "selftest.c" },                    \
    {                                                                                              \
        "common/selftest.h", "selftest.h"                                                          \
    }

const ts_prompt_language ts_prompt_languages[] = {
    { "c",
      "C",
      "c",
      "c cpu sealed",
      "c",
      TS_SEALED,
      "c",
      "c",
      TS_CPU,
      { C_PARTS, { "common/c.mk", "Makefile" } } },
    { "c++",
      "C++",
      "cpp",
      "c cpu cxx",
      "c++",
      TS_HOST,
      "cpp",
      "c",
      TS_CPU,
      { C_PARTS, { "common/c++.mk", "Makefile" } } },
    { "cuda",
      "CUDA",
      "cuda",
      "c gpu cuda",
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
      "py cpu numpy",
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
      "py gpu triton",
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

char *ts_slurp(const char *folder, const char *file)
{
    char   path[4300], *text = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "r");
    if (!f || getdelim(&text, &n, 0, f) < 0) {
        ts_complain(path, "cannot be read");
        free(text), text = NULL;
    }
    if (f) fclose(f);
    return text;
}

static char *template_of(const char *templates, const char *id, const char *file)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", id, file);
    return ts_slurp(templates, name);
}

/* Writes a text in which marks stand for values. */
static void put_with(const char *text, const ts_mark *marks, FILE *to)
{
    while (*text) {
        const ts_mark *m = marks;
        while (m->name && strncmp(text, m->name, strlen(m->name))) m++;
        fputs(m->name ? m->value : (char[]) { *text, 0 }, to);
        text += m->name ? strlen(m->name) : 1;
    }
}

/* The header that a challenge's starter includes, of those in touchstone/. */
static bool header_of(const char *starter, char name[64])
{
    const char *at = strstr(starter, "#include \"touchstone/");
    return at && sscanf(at, "#include \"touchstone/%60[a-z_0-9.]", name) == 1;
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

/* The template is the challenge's own; without one, that of common/ with the header of starter.c.
 */
static char *starter_of(const ts_task *t, const char *templates, const char *file, char header[64])
{
    char own[4300], common[64];
    snprintf(own, sizeof own, "%s/%s/%s", templates, t->name, file);
    if (!access(own, R_OK)) return template_of(templates, t->name, file);
    char *c = template_of(templates, t->name, "starter.c");
    if (!c) return NULL;
    header_of(c, header);
    free(c);
    snprintf(common, sizeof common, "common/%s", file);
    return ts_slurp(templates, common);
}

bool ts_starter_write(const ts_task *t, const ts_prompt_language *l, const char *templates,
                      FILE *to)
{
    char file[32], was[96], is[96], header[64] = "";
    snprintf(file, sizeof file, "starter.%s", l->starter);
    char *text = starter_of(t, templates, file, header);
    if (!text) return false;
    snprintf(was, sizeof was, "%s.%s -", t->name, l->starter);
    snprintf(is, sizeof is, "%s.%s -", t->name, l->ending);
    const ts_mark marks[] = {
        { was, is }, { "CHALLENGE", t->name }, { "HEADER", header }, { NULL, NULL }
    };
    if (is_python(l)) put_python(t, l, text, to);
    else put_with(text, marks, to);
    free(text);
    return true;
}

/* ---- parts ---- */

enum { TAGS = 128, FLAGS = 1024, NUMBER = 16 };

/* What the texts of one prompt are made with. */
typedef struct page {
    const ts_task            *t;
    const ts_prompt_language *l;
    const char               *templates, *headers;
    char                      tags[TAGS]; /* for ts_markup */
    char  flags[FLAGS], build[NUMBER], call[NUMBER], all[NUMBER], memory[NUMBER], room[NUMBER];
    FILE *to;
} page;

static bool has_dtype(const ts_task *t, ts_dtype dtype)
{
    const ts_case *c = t->cases();
    while (c->use && c->dtype != dtype) c++;
    return c->use;
}

static void put_tags(page *p)
{
    const bool many = has_dtype(p->t, TS_BF16);
    snprintf(p->tags, sizeof p->tags, " %s %s %s %s %s ", p->l->tags,
             p->t->kind == TS_PLAIN ? "plain" : "script", many ? "bf" : "nobf",
             many && !is_python(p->l) ? "cbf" : "", has_dtype(p->t, TS_F64) ? "double" : "");
}

static void put_numbers(page *p)
{
    const ts_class cls = p->l->cls;
    const bool     gpu = p->l->device == TS_CUDA;
    if (!strcmp(p->l->name, "cuda")) ts_build_nvcc_flags("sm_90", false, p->flags, FLAGS);
    else ts_build_flags(cls, cls == TS_HOST, "<intrinsics>", p->flags, FLAGS);
    snprintf(p->build, NUMBER, "%d", gpu ? TS_NVCC_LIMIT_S : TS_BUILD_LIMIT_S);
    snprintf(p->call, NUMBER, "%d", ts_call_limit_s(cls));
    snprintf(p->all, NUMBER, "%d", TS_ALL_CALLS_LIMIT_S / 60);
    snprintf(p->memory, NUMBER, "%d", gpu ? TS_GPU_MEMORY_GIB : TS_MEMORY_GIB);
    snprintf(p->room, NUMBER, "%d", gpu ? TS_GPU_WORKSPACE_MIB : TS_WORKSPACE_MIB);
}

static void put_text(const page *p, const char *text)
{
    const ts_mark marks[] = {
        { "@ID@", p->t->name },        { "@EXT@", p->l->ending }, { "@FLAGS@", p->flags },
        { "@BUILD_S@", p->build },     { "@CALL_S@", p->call },   { "@ALL_MIN@", p->all },
        { "@MEMORY_GIB@", p->memory }, { "@ROOM_MIB@", p->room }, { NULL, NULL }
    };
    ts_markup(text, p->tags, marks, p->to);
}

/* A paragraph. */
static void put_filled(const page *p, const char *format, ...)
{
    char   *text = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0) abort();
    va_end(list);
    put_text(p, text);
    free(text);
}

/* A section of challenge/ID/PROMPT.md without its heading, up to the next; "": what stands before
 * the first. False: it has no such section. */
static bool put_section(const page *p, const char *text, const char *heading)
{
    const char *begin = *heading ? strstr(text, heading) : text;
    if (!begin) return false;
    begin += strlen(heading);
    const char *end = strstr(begin, "\n## ");
    size_t      n = end ? (size_t)(end - begin) : strlen(begin);
    while (n && begin[n - 1] == '\n') n--;
    char *part = strndup(begin, n);
    if (!part) abort();
    put_text(p, part + strspn(part, "\n"));
    free(part);
    return true;
}

/* A file of challenge/common. */
static bool put_common(const page *p, const char *file)
{
    char name[64];
    snprintf(name, sizeof name, "common/%s", file);
    char *const text = ts_slurp(p->templates, name);
    if (!text) return false;
    put_text(p, text);
    free(text);
    return true;
}

/* ---- sections ---- */

/* "`ts_a`, `ts_b` and `ts_c`" */
static void list_names(const ts_task *t, bool optional, char *text, size_t n)
{
    char        room[TS_EXPORT_NAME];
    const char *name;
    *text = 0;
    for (int i = 0; (name = optional ? t->optional[i] : ts_task_export(t, i, room)); i++) {
        char       next[TS_EXPORT_NAME];
        const bool last = !(optional ? t->optional[i + 1] : ts_task_export(t, i + 1, next));
        snprintf(text + strlen(text), n - strlen(text), "%s`%s`",
                 !i     ? ""
                 : last ? " and "
                        : ", ",
                 name);
    }
}

static void put_exports(const page *p)
{
    const ts_task *t = p->t;
    char           names[1024];
    list_names(t, false, names, sizeof names);
    put_filled(p,
               "One file, `%s.%s`, in %s, which defines %s as the header at the end of this page "
               "declares%s.",
               t->name, p->l->ending, p->l->title, names,
               strcmp(p->l->name, "cuda") ? "" : ", with C linkage");
    if (t->kind == TS_PLAIN)
        fprintf(p->to, "\n    %sts_status ts_%s(const ts_%s_args *a, const ts_exec *x);\n",
                p->l->device == TS_CUDA ? "extern \"C\" " : "", t->name, t->name);
    if (!t->optional) return;
    list_names(t, true, names, sizeof names);
    fprintf(p->to, "\n");
    put_filled(p, "Optional, worth no points and not described here: %s.", names);
}

static void put_what(const page *p)
{
    const ts_task *t = p->t;
    char           signature[1024];
    ts_arguments   a;
    fprintf(p->to, "## What to write\n\n");
    if (!is_python(p->l)) {
        put_exports(p);
        fprintf(p->to, "\n");
        return;
    }
    put_filled(p, "One file, `%s.%s`, in %s, which defines `%s`.", t->name, p->l->ending,
               p->l->title, t->name);
    fprintf(p->to, "\n");
    if (t->kind != TS_PLAIN || !ts_arguments_of(t, &a)) return;
    ts_python_signature(t, &a, signature, sizeof signature);
    fprintf(p->to, "    %s\n\n", signature);
    ts_python_arguments(t, &a, p->to);
    fprintf(p->to, "\n");
    put_filled(p,
               "Fill the arrays of `out`; or return a dict with some of their names, whose values "
               "are copied into them.%s Other dimensions on this page, such as the number of "
               "rows, are extents of the arrays.",
               a.accumulates
                   ? " With `accumulate` a returned value is the whole sum, not the increment."
                   : "");
    fprintf(p->to, "\n");
}

/* The names of dimensions, in cases and in offers. */
static void put_names(const page *p)
{
    ts_case_names(p->t, p->to);
    if (!p->t->scope_says) return;
    fprintf(p->to, "\n");
    put_filled(p, "In offers (see the score) %s.", p->t->scope_says);
}

static void put_timed(const page *p)
{
    const bool many = has_dtype(p->t, TS_BF16) || has_dtype(p->t, TS_F64);
    fprintf(p->to, "## Cases, and what is timed\n\n");
    put_names(p);
    fprintf(p->to, "\n");
    if (p->t->has_model && p->l->device != TS_CPU) {
        put_filled(p, "Nothing is timed on a device, so an entry that passes has no score.\n\n");
        return;
    }
    put_filled(
        p,
        "Timed are only these cases, on ordinary numbers%s, at the depths in brackets, one of "
        "which the judge's operator chooses%s:",
        many ? " of f32" : "",
        p->l->device == TS_CPU ? "" : " (for a GPU with 4 TB/s; smaller ones on slower GPUs)");
    fprintf(p->to, "\n");
    ts_timed_cases(p->t, p->l->device, p->to);
    fprintf(p->to, "\n");
}

static bool put_score(const page *p)
{
    fprintf(p->to,
            "## Score\n\nAn entry that passes every correctness test scores\n\n"
            "    S * R^%.2f * P^%.2f * M^%.2f * share^0.5, at least 1\n\n",
            TS_WEIGHT_ROBUSTNESS, TS_WEIGHT_PRECISION, TS_WEIGHT_MEMORY);
    const bool ok = put_common(p, "score.md");
    fprintf(p->to, "\nGrades:");
    for (int i = 0; i < TS_N_GRADES; i++)
        fprintf(p->to, " %s from %.0f,", ts_grades[i].grade, ts_grades[i].least);
    fprintf(p->to, " F failed.\n\n");
    return ok;
}

static bool put_language(const page *p)
{
    char file[32];
    snprintf(file, sizeof file, "%s.md", p->l->name);
    fprintf(p->to, "## %s\n\n", p->l->title);
    const bool ok = put_common(p, file);
    fprintf(p->to, "\nThe file has at most %d KiB.\n\n", TS_ENTRANT_BYTES >> 10);
    return ok;
}

/* The functions that the judge calls, and those that say how much workspace they need. */
static bool put_header(const page *p)
{
    static const char *const queries[] = { "workspace", "host" };
    const char              *names[64];
    char                     room[32][TS_EXPORT_NAME + 16], name[64] = "";
    int                      n = 0;
    const bool               cuda = p->l->device == TS_CUDA && p->t->kind == TS_SCRIPT;
    char *starter = template_of(p->templates, p->t->name, cuda ? "starter.cu" : "starter.c");
    if (!starter) return false;
    bool ok = header_of(starter, name);
    for (int i = 0; (names[n] = ts_task_export(p->t, i, room[n])); i++) {
        const char *const of = names[n++];
        for (int k = 0; k < 2; k++) {
            char query[TS_EXPORT_NAME + 16];
            snprintf(query, sizeof query, "%s_%s", of, queries[k]);
            if (!strstr(starter, query)) continue;
            names[n] = memcpy(room[n], query, sizeof query);
            n++;
        }
    }
    free(starter);
    fprintf(
        p->to,
        "## The header\n\nThis challenge's part of `touchstone/%s`, which your file includes%s:\n\n"
        "```c\n#include <stddef.h>\n#include <stdint.h>\n\n#define TS_API "
        "__attribute__((visibility(\"default\")))\n\n",
        name, p->l->cls == TS_SEALED ? "" : "; in C++ all of it is\ninside `extern \"C\"`");
    ok = ok && ts_header_write(p->headers, name, names, p->to);
    fprintf(p->to, "```\n\n");
    if (p->l->cls != TS_SEALED) return ok;
    fprintf(p->to, "`touchstone/sealed.h`:\n\n```c\n");
    ok = ok && ts_header_write(p->headers, "sealed.h",
                               (const char *const[]) { "j_parallel_for", NULL }, p->to);
    fprintf(p->to, "```\n\n");
    return ok;
}

static void put_ending(const page *p, bool whole)
{
    if (whole) {
        fprintf(p->to, "## Your answer\n\n");
        put_filled(
            p,
            "Reply with the complete file `%s.%s` in one code block that begins with ```` ```%s "
            "````. If there are several, the last one counts. Nothing can be asked: what is not "
            "on this page is up to you.",
            p->t->name, p->l->ending, p->l->fence);
    } else
        fprintf(p->to,
                "## Try it\n\n`make test` runs public cases against the definition in plain double "
                "precision%s.\nThe starter fails all of them by design. `touchstone judge DIR` "
                "judges the folder.\n",
                p->l->device == TS_CUDA ? "; without a GPU it says\nso and tests nothing" : "");
}

static bool put_example(const page *p, const char *text)
{
    fprintf(p->to, "## Example\n\n");
    if (put_section(p, text, "## Example\n")) return true;
    return ts_worked_example(p->t, p->to) ||
           ts_complain(p->t->name, "no case is small enough for an example");
}

bool ts_prompt_write(const ts_task *t, const ts_prompt_language *l, const char *templates,
                     const char *headers, bool whole, FILE *to)
{
    page  p = { .t = t, .l = l, .templates = templates, .headers = headers, .to = to };
    char *text = template_of(templates, t->name, "PROMPT.md");
    if (!text) return false;
    put_tags(&p);
    put_numbers(&p);
    put_section(&p, text, "");
    fprintf(to, "\n");
    put_what(&p);
    fprintf(to, "## The contract\n\n");
    bool ok = put_section(&p, text, "## The contract\n");
    if (is_python(l) && t->kind == TS_SCRIPT) {
        fprintf(to, "\n## Python\n\n");
        ok &= put_section(&p, text, "## Python\n");
    } else if (!is_python(l)) {
        fprintf(to, "\n## Calls\n\n");
        ok &= put_common(&p, "calls.md") && put_section(&p, text, "## Rejected calls\n");
    }
    fprintf(to, "\n");
    put_timed(&p);
    fprintf(to, "## How an entry is judged\n\n");
    ok &= put_common(&p, "judged.md") && put_section(&p, text, "## How an entry is judged\n");
    fprintf(to, "\n");
    ok = ok && put_score(&p) && put_language(&p);
    fprintf(to, "## Starter\n\n```%s\n", l->fence);
    ok = ok && ts_starter_write(t, l, templates, to);
    fprintf(to, "```\n\n");
    ok = ok && put_example(&p, text);
    fprintf(to, "\n");
    ok = ok && (is_python(l) || put_header(&p));
    put_ending(&p, whole);
    free(text);
    return ok;
}

/* ---- the adapter ---- */

/* The questions as a comment: in C " * " before each line, in Python a docstring. */
static bool put_questions(const ts_task *t, const ts_prompt_language *l, const char *templates,
                          FILE *to)
{
    char  *text = NULL;
    size_t n;
    page   p = { .t = t, .l = l, .templates = templates, .to = open_memstream(&text, &n) };
    if (!p.to) abort();
    put_tags(&p);
    const bool ok = put_common(&p, "adapter.md");
    fprintf(p.to, "\n");
    put_names(&p);
    fclose(p.to);
    fprintf(to, is_python(l) ? "\"\"\"adapter.py - " : "/* adapter.%s - ", l->ending);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const int length = (int)strcspn(line, "\n");
        if (line != text) fputs(is_python(l) ? "\n" : length ? "\n * " : "\n *", to);
        fprintf(to, "%.*s", length, line);
    }
    fputs(is_python(l) ? "\n\"\"\"\n" : " */\n", to);
    free(text);
    return ok;
}

bool ts_adapter_write(const ts_task *t, const ts_prompt_language *l, const char *templates,
                      FILE *to)
{
    char  *text = NULL;
    size_t n;
    FILE  *f = open_memstream(&text, &n);
    if (!f) abort();
    const bool ok = put_questions(t, l, templates, to) && ts_starter_write(t, l, templates, f);
    fclose(f);
    const char *begin = text ? strstr(text, is_python(l) ? "import " : "#include") : NULL;
    if (begin && is_python(l)) {
        const char *rest = strstr(begin, "\n\n");
        fprintf(to, "%.*s\n\nimport theirs  # noqa: F401%s", (int)(rest - begin), begin, rest);
    } else if (begin) fputs(begin, to);
    free(text);
    return ok && begin;
}
