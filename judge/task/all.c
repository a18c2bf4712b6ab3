/* SPDX-License-Identifier: Apache-2.0 */
/* all.c - the list of all tasks. */
#include "challenges.h"
#include "task.h"

#define DECLARE(name) extern const ts_task ts_task_##name;
#define ROW(name)     &ts_task_##name,
TS_CHALLENGES(DECLARE, DECLARE)
const ts_task *const ts_tasks[] = { TS_CHALLENGES(ROW, ROW) NULL };
