/* SPDX-License-Identifier: Apache-2.0 */
/* all.c - the list of all tasks. */
#include "challenges.h"
#include "task.h"

#define DECLARE(name) extern const ts_task ts_task_##name;
#define ROW(name)     &ts_task_##name,
TS_CHALLENGES(DECLARE, DECLARE)
const ts_task *const ts_tasks[] = { TS_CHALLENGES(ROW, ROW) NULL };

#define LABEL(name) #name "/cuda",
static const char *const on_cuda[] = { TS_CHALLENGES(LABEL, LABEL) };

const char *ts_task_label(const ts_task *t, ts_device d)
{
    int i = 0;
    while (ts_tasks[i] && ts_tasks[i] != t) i++;
    return d == TS_CUDA && ts_tasks[i] ? on_cuda[i] : t->name;
}
