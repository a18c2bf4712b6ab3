/* SPDX-License-Identifier: Apache-2.0 */
#include "task.h"

extern const ts_task ts_task_layernorm_forward, ts_task_layernorm_backward;

const ts_task *const ts_tasks[] = { &ts_task_layernorm_forward, &ts_task_layernorm_backward, NULL };
