/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - reads a launch plan and checks all that does not depend on a call. */
#include "launch_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ts_launch_items[N_ITEMS] = { "workspace", "kernel", "when", "grid",
                                               "block",     "shared", "arg" };
const char *const ts_launch_types[N_TYPES] = { "ptr", "i32", "u32", "i64", "u64", "f32", "f64" };

/* ---- complaints ---- */

static void say_place(place w, char *out, size_t n)
{
    char step[32] = "", number[32] = "";
    if (w.step) snprintf(step, sizeof step, "step %d, ", w.step);
    if (w.number) snprintf(number, sizeof number, " %d", w.number);
    snprintf(out, n, "%s%s%s", step, ts_launch_items[w.item], number);
}

bool ts_launch_fault(complaint c, place w, size_t from, const ts_mistake *f)
{
    char at[96];
    say_place(w, at, sizeof at);
    snprintf(c.why, c.n, "%s, column %zu: %s", at, f->at - from + 1, f->text);
    return false;
}

bool ts_launch_wrong(complaint c, place w, const char *format, ...)
{
    char    at[96], text[160];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    say_place(w, at, sizeof at);
    snprintf(c.why, c.n, "%s: %s", at, text);
    return false;
}

/* ---- kernels' names ---- */

/* Length of the name's next part: that of "{dtype}", 1 for a character of a C identifier, else 0.
 */
static size_t piece(const char *name, size_t n, bool first)
{
    static const char mark[] = "{dtype}";
    const char        c = *name;
    if (n >= sizeof mark - 1 && !memcmp(name, mark, sizeof mark - 1)) return sizeof mark - 1;
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

bool ts_launch_kernel(const char *name, size_t n, const char *dtype, char out[TS_LAUNCH_KERNEL + 1])
{
    size_t used = 0;
    for (size_t i = 0, size; i < n; i += size) {
        size = piece(name + i, n - i, i == 0);
        const char  *from = size > 1 ? dtype : name + i;
        const size_t more = size > 1 ? strlen(dtype) : 1;
        if (size == 0 || used + more > TS_LAUNCH_KERNEL) return false;
        memcpy(out + used, from, more);
        used += more;
    }
    out[used] = 0;
    return used > 0;
}

static bool read_kernel(ts_launch *l, const ts_reader *r, place w, complaint c)
{
    char       longest[TS_LAUNCH_KERNEL + 1];
    plan_step *s = &l->step[l->n_steps - 1];
    s->kernel = (uint16_t)r->at;
    s->size = (uint16_t)(r->end - r->at);
    return ts_launch_kernel(l->text + r->at, r->end - r->at, "bf16", longest) ||
           ts_launch_wrong(c, w, "expected 1 to %d letters, digits, _ or {dtype}",
                           TS_LAUNCH_KERNEL);
}

/* ---- reading ---- */

static bool read_end(ts_reader *r)
{
    return r->at == r->end || ts_read_wrong(r, "an operator or the end");
}

static bool read_one(ts_reader *r, part *p)
{
    p->from = (uint16_t)r->at;
    return ts_expr_read(r, &p->e) && read_end(r);
}

/* 1 to 3 expressions, separated by ','. Reports its own errors, since each has its own place. */
static bool read_dims(ts_reader *r, part dim[3], place w, complaint c)
{
    for (int i = 0; i < 3; i++) {
        dim[i].from = (uint16_t)r->at;
        w.number = i + 1;
        if (!ts_expr_read(r, &dim[i].e)) return ts_launch_fault(c, w, dim[i].from, &r->fault);
        if (r->at == r->end) return true;
        if (r->code.text[r->at] != ',' || i == 2) {
            ts_read_wrong(r, "an operator or the end");
            return ts_launch_fault(c, w, dim[i].from, &r->fault);
        }
        r->at++;
    }
    return true;
}

static bool read_buffer(ts_reader *r, part *a)
{
    ts_read_blanks(r);
    a->name = (uint16_t)r->at;
    a->size = (uint16_t)ts_read_name(r);
    if (a->size == 0) return ts_read_wrong(r, "a buffer's name");
    if (a->size > TS_EXPR_NAME)
        return ts_mistake_at(&r->fault, a->name, "a name of more than %d characters", TS_EXPR_NAME);
    ts_read_blanks(r);
    if (r->at == r->end) return true;
    if (r->code.text[r->at] != '+') return ts_read_wrong(r, "'+' or the end");
    r->at++;
    return ts_expr_read(r, &a->e) && read_end(r);
}

static bool read_arg(ts_reader *r, part *a)
{
    a->from = (uint16_t)r->at;
    for (int t = 0; t < N_TYPES; t++) {
        const char  *name = ts_launch_types[t];
        const size_t n = strlen(name);
        if (r->end - r->at <= n || memcmp(name, r->code.text + r->at, n) ||
            r->code.text[r->at + n] != ' ')
            continue;
        a->type = (type)t;
        r->at += n + 1;
        return t == PTR ? read_buffer(r, a) : ts_expr_read(r, &a->e) && read_end(r);
    }
    return ts_mistake_at(&r->fault, a->from,
                         "expected ptr, i32, u32, i64, u64, f32 or f64, a blank and a value");
}

/* Reads what follows a line's keyword. */
static bool read_item(ts_launch *l, ts_reader *r, place w, complaint c)
{
    plan_step *s = &l->step[w.step ? w.step - 1 : 0];
    part      *p = &l->workspace;
    bool       ok;
    switch (w.item) {
    case KERNEL:
        return read_kernel(l, r, w, c);
    case GRID:
    case BLOCK:
        return read_dims(r, w.item == GRID ? s->grid : s->block, w, c);
    case ARG:
        w.number = s->n_args + 1;
        if (s->n_args == TS_LAUNCH_ARGS)
            return ts_launch_wrong(c, w, "more than %d arguments", TS_LAUNCH_ARGS);
        p = &s->arg[s->n_args++];
        ok = read_arg(r, p);
        break;
    default:
        p = w.item == WHEN ? &s->when : w.item == SHARED ? &s->shared : p;
        ok = read_one(r, p);
    }
    return ok || ts_launch_fault(c, w, p->from, &r->fault);
}

/* Whether `now` may follow `last` in the same step, or begin a step. */
static bool in_order(item last, item now)
{
    if (now == WORKSPACE) return false; /* allowed on the first line only */
    if (now == KERNEL) return last == WORKSPACE || last >= BLOCK;
    if (last == WORKSPACE || (now > GRID && last < GRID) || (now > BLOCK && last < BLOCK))
        return false;
    return now > last || now == ARG;
}

static bool read_line(ts_launch *l, ts_reader *r, item *last, complaint c)
{
    const char *line = l->text + r->at;
    place       w = { .step = l->n_steps };
    size_t      n = 0;
    for (; w.item < N_ITEMS; w.item++) {
        n = strlen(ts_launch_items[w.item]);
        if (r->end - r->at > n && !memcmp(line, ts_launch_items[w.item], n) && line[n] == ' ')
            break;
    }
    if (w.item == N_ITEMS)
        return snprintf(c.why, c.n, "step %d: a line does not begin with an item", w.step), false;
    if (w.item == KERNEL) w.step++;
    if (!in_order(*last, w.item) && !(w.item == WORKSPACE && r->at == 0))
        return ts_launch_wrong(
            c, w, "duplicate or out of order; expected kernel, when, grid, block, shared, arg");
    if (w.step > TS_LAUNCH_STEPS)
        return ts_launch_wrong(c, w, "more than %d steps", TS_LAUNCH_STEPS);
    l->n_steps = w.step;
    *last = w.item;
    r->at += n + 1;
    return read_item(l, r, w, c);
}

static bool read_lines(ts_launch *l, size_t n, complaint c)
{
    ts_reader r = { .code = l->code };
    item      last = WORKSPACE;
    for (size_t line = 0; line < n; line = r.end + 1) {
        const char *end = memchr(l->text + line, '\n', n - line);
        if (!end) return snprintf(c.why, c.n, "the last line has no newline"), false;
        r.at = line;
        r.end = (size_t)(end - l->text);
        if (!read_line(l, &r, &last, c)) return false;
    }
    if (l->n_steps == 0) return snprintf(c.why, c.n, "got no step, expected at least 1"), false;
    if (last < BLOCK)
        return snprintf(c.why, c.n, "step %d: grid or block is missing", l->n_steps), false;
    return true;
}

ts_launch *ts_launch_read(const char *text, size_t n, char *why, size_t n_why)
{
    if (n > TS_LAUNCH_BYTES)
        return snprintf(why, n_why, "more than %d bytes", TS_LAUNCH_BYTES), NULL;
    for (size_t i = 0; i < n; i++)
        if ((text[i] < 0x20 || text[i] > 0x7e) && text[i] != '\n')
            return snprintf(why, n_why, "byte %zu is not printable ASCII", i + 1), NULL;
    ts_launch *l = calloc(1, sizeof *l + (n + 1) * sizeof l->op[0]);
    if (!l) return snprintf(why, n_why, "out of memory"), NULL;
    memcpy(l->text, text, n);
    l->code = (ts_code) { l->text, l->op };
    if (read_lines(l, n, (complaint) { why, n_why })) return l;
    free(l);
    return NULL;
}

void ts_launch_free(ts_launch *l)
{
    free(l);
}

int ts_launch_steps(const ts_launch *l)
{
    return l->n_steps;
}
