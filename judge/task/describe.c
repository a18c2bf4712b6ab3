/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - what follows from a task's description: exports, tensors, numbers, shapes. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

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
