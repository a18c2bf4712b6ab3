/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - what follows from a task's description: exports, tensors, numbers, shapes. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "spoil.h"
#include "task.h"

const ts_task *ts_task_called(const char *name)
{
    int i = 0;
    while (ts_tasks[i] && strcmp(ts_tasks[i]->name, name)) i++;
    return ts_tasks[i];
}

const char *ts_task_export(const ts_task *t, int i, char name[TS_EXPORT_NAME])
{
    if (t->kind == TS_SCRIPT) return t->exports[i];
    snprintf(name, TS_EXPORT_NAME, "ts_%s", t->name);
    return i ? NULL : name;
}

const ts_tensor *ts_task_tensor(const ts_task *t, const char *name)
{
    const ts_tensor *b = t->buffer;
    while (b->name && strcmp(b->name, name)) b++;
    return b->name ? b : NULL;
}

const ts_number *ts_task_number(const ts_task *t, const char *name)
{
    const ts_number *n = t->number;
    while (n->name && strcmp(n->name, name)) n++;
    return n->name ? n : NULL;
}

bool ts_task_spoil(const ts_task *t, int i, void *args, ts_exec *x, ts_status *must)
{
    return ts_spoil(t->invalid, i, args, x, must);
}

int ts_task_shape(const ts_task *t, const ts_case *c, const ts_buf *b, int64_t extent[TS_MAX_RANK])
{
    const ts_tensor *const d = ts_task_tensor(t, b->name);
    assert(d && (d->n_axes <= 2 || t->shape));
    if (d->n_axes == 1) extent[0] = b->n_rows * b->n_cols;
    else if (d->n_axes == 2) extent[0] = b->n_rows, extent[1] = b->n_cols;
    else t->shape(c, b->name, extent);
    return d->n_axes;
}

/* ---- a case from its name ---- */

/* Skips the word, if it comes next. */
static bool skip(const char **at, const char *word)
{
    const size_t n = strlen(word);
    if (strncmp(*at, word, n)) return false;
    *at += n;
    return true;
}

static bool read_number(const char **at, int64_t *v)
{
    char *end;
    *v = strtoll(*at, &end, 10);
    if (end == *at || **at == ' ' || **at == '+') return false;
    *at = end;
    return true;
}

static bool read_dims(const ts_task *t, const char **at, ts_case *c)
{
    for (int i = 0; i < TS_MAX_DIMS && t->dim_name[i]; i++)
        if ((i && !skip(at, ",")) || !skip(at, t->dim_name[i]) || !skip(at, "=") ||
            !read_number(at, &c->dim[i]))
            return false;
    for (int i = 0; i < TS_MAX_MORE && t->more_name[i]; i++) {
        const char *next = *at;
        if (!skip(&next, ",") || !skip(&next, t->more_name[i]) || !skip(&next, "=")) continue;
        *at = next;
        if (!read_number(at, &c->dim[TS_MAX_DIMS + i])) return false;
    }
    return skip(at, "/");
}

bool ts_case_read(const ts_task *t, const char *name, ts_case *c, uint64_t *seed)
{
    const char *at = name, *dtype;
    int         d = TS_F32;
    *c = (ts_case) { .use = TS_USE_CHECK };
    if (!skip(&at, t->name) || !skip(&at, "/")) return false;
    for (dtype = at; d <= TS_BF16; d++, at = dtype)
        if (skip(&at, ts_format_of((ts_dtype)d)->name) && skip(&at, "/")) break;
    c->dtype = (ts_dtype)d;
    if (d > TS_BF16 || !read_dims(t, &at, c)) return false;
    const size_t n = strcspn(at, "@");
    for (const ts_case *k = t->cases(); k->use && !c->family; k++)
        if (strlen(k->family) == n && !strncmp(k->family, at, n)) c->family = k->family;
    *seed = at[n] ? strtoull(at + n + 1, NULL, 0) : 0;
    return c->family;
}
