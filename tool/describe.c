/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - arguments, timed cases and a worked example of a challenge, from its task. */
#include "describe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "dtype.h"
#include "registry.h"
#include "run.h"

enum { SMALL = 20000 }; /* bytes: cases that are laid out in no time */

static bool is_small(const ts_task *t, const ts_case *c)
{
    return c->use & TS_USE_CHECK && ts_case_about(t, c) < 0 && t->cost(c).bytes < SMALL;
}

static const ts_arena_buf *buffer_of(const ts_arena *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->buf[i].b.name, name)) return &m->buf[i];
    return NULL;
}

/* ---- arguments ---- */

/* An output that holds something before the call is added to, unless it holds an input that is
 * missing: then it is overwritten in place. */
static void look(const ts_task *t, const ts_arena *m, ts_arguments *a)
{
    bool adds = false, lacks = false;
    for (int i = 0; t->buffer[i].name; i++) {
        const ts_arena_buf *b = buffer_of(m, t->buffer[i].name);
        a->absent[i] |= !b;
        if (t->buffer[i].role == TS_IN && b && b->b.role == TS_INOUT) a->in_place[i] = true;
        lacks |= t->buffer[i].role == TS_IN && (!b || b->b.role == TS_INOUT);
        adds |= t->buffer[i].role != TS_IN && b && b->b.role == TS_INOUT;
    }
    a->accumulates |= adds && !lacks;
}

bool ts_arguments_of(const ts_task *t, ts_arguments *a)
{
    ts_arena m;
    void    *args = calloc(1, t->args_bytes);
    *a = (ts_arguments) { 0 };
    if (!args || !ts_arena_open(&m)) return free(args), false;
    for (const ts_case *c = t->cases(); c->use; c++) {
        if (!is_small(t, c)) continue;
        memset(args, 0, t->args_bytes);
        ts_arena_setup(&m, t, c, 1, args);
        look(t, &m, a);
        ts_arena_clear(&m);
        a->n_cases++;
    }
    ts_arena_close(&m);
    free(args);
    return true;
}

static bool is_optional(const ts_task *t, const ts_arguments *a, int i)
{
    return t->buffer[i].role == TS_IN && (a->absent[i] || a->in_place[i]);
}

/* Breaks the line where it would pass 100 columns. */
static void word(char *text, size_t n, const char *name, const char *after)
{
    const char  *line = strrchr(text, '\n');
    const size_t at = strlen(line ? line + 1 : text), open = strcspn(text, "(") + 1;
    const bool   first = text[strlen(text) - 1] == '(';
    snprintf(text + strlen(text), n - strlen(text), "%s", first ? "" : ",");
    if (at + strlen(name) + strlen(after) > 94)
        snprintf(text + strlen(text), n - strlen(text), "\n%*s", (int)open + 4, "");
    else if (!first) snprintf(text + strlen(text), n - strlen(text), " ");
    snprintf(text + strlen(text), n - strlen(text), "%s%s", name, after);
}

void ts_python_signature(const ts_task *t, const ts_arguments *a, char *text, size_t n)
{
    snprintf(text, n, "%s(", t->name);
    for (int i = 0; t->buffer[i].name; i++)
        if (t->buffer[i].role == TS_IN && !is_optional(t, a, i))
            word(text, n, t->buffer[i].name, "");
    for (int i = 0; t->number[i].name; i++) word(text, n, t->number[i].name, "");
    if (a->accumulates) word(text, n, "accumulate", "");
    word(text, n, "out", "");
    for (int i = 0; t->buffer[i].name; i++)
        if (is_optional(t, a, i)) word(text, n, t->buffer[i].name, "=None");
    snprintf(text + strlen(text), n - strlen(text), ")");
}

void ts_python_arguments(const ts_task *t, const ts_arguments *a, FILE *f)
{
    fprintf(f, "| argument | is | axes | values |\n|---|---|---|---|\n");
    for (int i = 0; t->buffer[i].name; i++) {
        const ts_tensor *b = &t->buffer[i];
        const bool       in = b->role == TS_IN;
        const char      *place = !in ? a->absent[i] ? "output, not in every call" : "output"
                                 : a->in_place[i]       ? "input, or `None` and in `out`, in place"
                                 : is_optional(t, a, i) ? "input or `None`"
                                                        : "input";
        fprintf(f, in ? "| `%s` | %s | %d | %s |\n" : "| `out[\"%s\"]` | %s | %d | %s |\n", b->name,
                place, b->n_axes, b->integers ? "int32" : "floats");
    }
    for (const ts_number *x = t->number; x->name; x++)
        fprintf(f, "| `%s` | number | | %s |\n", x->name, x->integer ? "int" : "float");
    if (a->accumulates)
        fprintf(f,
                "| `accumulate` | number | | 1: add to the gradients that the contract names; 0: "
                "overwrite |\n");
}

/* ---- cases ---- */

static void put_names(const char *const *name, const char *const *says, int n, FILE *f)
{
    for (int i = 0; i < n && name[i]; i++)
        fprintf(f, "| `%s` | %s |\n", name[i], says[i] ? says[i] : "");
}

void ts_case_names(const ts_task *t, FILE *f)
{
    fprintf(f, "A case is named `%s/DTYPE/DIMENSIONS/KIND OF INPUT`. The dimensions are\n\n",
            t->name);
    fprintf(f, "| name | is |\n|---|---|\n");
    put_names(t->dim_name, t->dim_says, TS_MAX_DIMS, f);
    put_names(t->more_name, t->more_says, TS_MAX_MORE, f);
    if (t->more_name[0])
        fprintf(f, "\nDimensions from `%s` on are 0 if a name does not contain them.\n",
                t->more_name[0]);
}

static const char *depths_of(unsigned depths)
{
    static char text[40];
    *text = 0;
    for (int d = TS_QUICK; d < TS_N_DEPTHS; d++)
        if (depths >> d & 1)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *text ? ", " : "",
                     ts_depth_name((ts_depth)d));
    return text;
}

/* The dimensions of a case: "rows=8192,cols=768,pad=0". */
static void put_dims(const ts_task *t, const ts_case *c, FILE *f)
{
    char name[256];
    ts_case_string(t, c, 0, name, sizeof name);
    char *begin = strchr(name, '/') + 1;
    begin = strchr(begin, '/') + 1;
    *strrchr(begin, '/') = 0;
    fprintf(f, "`%s`", begin);
}

void ts_timed_cases(const ts_task *t, ts_device d, FILE *f)
{
    static ts_run c;
    int           number[TS_N_DEPTHS][TS_WORKLOADS], n[TS_N_DEPTHS];
    c.device = d;
    c.peaks.gbs = 4200;
    for (int depth = TS_QUICK; depth < TS_N_DEPTHS; depth++) {
        c.depth = (ts_depth)depth;
        n[depth] = ts_run_workloads(&c, t, number[depth]);
    }
    for (int i = 0; t->cases()[i].use; i++) {
        unsigned at = 0;
        for (int depth = TS_QUICK; depth < TS_N_DEPTHS; depth++)
            for (int k = 0; k < n[depth]; k++) at |= (unsigned)(number[depth][k] == i) << depth;
        if (!at) continue;
        fprintf(f, "- ");
        put_dims(t, &t->cases()[i], f);
        fprintf(f, " (%s)\n", depths_of(at));
    }
}

/* ---- an example ---- */

static int64_t elements(const ts_arena *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->n; i++) {
        const ts_buf *b = &m->buf[i].b;
        if (b->role == TS_INOUT || (b->role == TS_IN && b->n_rows * b->n_cols < 3))
            return INT64_MAX;
        if (b->role == TS_IN && b->n_rows > 1 && b->n_cols < 3) return INT64_MAX;
        n += b->n_rows * b->n_cols;
    }
    return n;
}

static void put_number(double v, FILE *f)
{
    char s[40];
    snprintf(s, sizeof s, "%.7g", v);
    fprintf(f, "%s", isnan(v) ? "NaN" : s);
}

static bool is_residue(double v)
{
    return v != 0 && fabs(v) < 1e-6;
}

static bool has_residue(const ts_arena_buf *b)
{
    for (int64_t r = 0; r < b->b.n_rows && b->b.dtype == TS_F32; r++)
        for (int64_t i = 0; i < b->b.n_cols; i++)
            if (is_residue(ts_load(b->p, b->b.dtype, r * b->b.row_stride + i))) return true;
    return false;
}

static void put_buffer(const ts_task *t, const ts_case *c, const ts_arena_buf *b, FILE *f)
{
    int64_t   extent[TS_MAX_RANK];
    const int n_axes = ts_task_shape(t, c, &b->b, extent);
    fprintf(f, "    %s (", b->b.name);
    for (int i = 0; i < n_axes; i++) fprintf(f, "%s%lld", i ? ", " : "", (long long)extent[i]);
    fprintf(f, "):");
    for (int64_t r = 0; r < b->b.n_rows; r++) {
        fprintf(f, b->b.n_rows > 1 ? "\n        " : " ");
        for (int64_t i = 0; i < b->b.n_cols; i++) {
            const int64_t at = r * b->b.row_stride + i;
            if (i) fprintf(f, "  ");
            if (b->b.dtype == TS_I32) fprintf(f, "%d", ((const int32_t *)b->p)[at]);
            else put_number(ts_load(b->p, b->b.dtype, at), f);
        }
    }
    fprintf(f, "\n");
}

static const ts_challenge *challenge_of(const ts_task *t)
{
    const ts_challenge *ch = ts_challenges;
    while (ch->task && ch->task != t) ch++;
    return ch->task ? ch : NULL;
}

/* The smallest case of ordinary numbers in which every input has three elements a row or more. */
static const ts_case *smallest(const ts_task *t, ts_arena *m, void *args)
{
    const ts_case *best = NULL;
    int64_t        least = 400;
    for (const ts_case *c = t->cases(); c->use; c++) {
        if (!is_small(t, c) || c->dtype != TS_F32 || strcmp(c->family, "normal")) continue;
        memset(args, 0, t->args_bytes);
        ts_arena_setup(m, t, c, 1, args);
        const int64_t n = elements(m);
        if (n < least) least = n, best = c;
        ts_arena_clear(m);
    }
    return best;
}

bool ts_worked_example(const ts_task *t, FILE *f)
{
    const ts_challenge *ch = challenge_of(t);
    ts_arena            m;
    ts_exec             x = { .device = TS_CPU, .n_threads = 1, .deterministic = 1 };
    char                name[256];
    void               *args = calloc(1, t->args_bytes);
    if (t->kind != TS_PLAIN || !ch || !args || !ts_arena_open(&m)) return free(args), false;
    const ts_case *c = smallest(t, &m, args);
    bool           ok = c != NULL;
    if (ok) {
        memset(args, 0, t->args_bytes);
        ts_arena_setup(&m, t, c, 1, args);
        ok = !ch->workspace || ch->workspace(args, &x, &x.workspace_bytes) == TS_OK;
        x.workspace = malloc(x.workspace_bytes + 64);
        ok = ok && x.workspace && ch->run(args, &x) == TS_OK;
    }
    if (ok) {
        ts_case_string(t, c, 1, name, sizeof name);
        name[strcspn(name, "@")] = 0;
        fprintf(f, "One call, of the case\n`%s`.\nIt is given\n\n", name);
        for (int i = 0; i < m.n_scalars; i++) {
            fprintf(f, "    %s = ", m.scalar[i].name);
            put_number(m.scalar[i].value, f), fputc('\n', f);
        }
        for (int i = 0; i < m.n; i++)
            if (m.buf[i].b.role == TS_IN) put_buffer(t, c, &m.buf[i], f);
        fprintf(f, "\nand writes\n\n");
        bool residue = false;
        for (int i = 0; i < m.n; i++)
            if (m.buf[i].b.role != TS_IN) {
                put_buffer(t, c, &m.buf[i], f);
                residue |= has_residue(&m.buf[i]);
            }
        if (residue) fprintf(f, "\nNumbers below 1e-6 are rounding errors of 0.\n");
    }
    free(x.workspace), free(args);
    ts_arena_close(&m);
    return ok;
}
