/* SPDX-License-Identifier: Apache-2.0 */
/* play.c - sets the names of a launch plan and launches its steps. */
#include "play.h"

#include <stdio.h>
#include <string.h>

enum { SHARED_ALWAYS = 48 << 10 }; /* more must be requested */

static void add(ts_names *n, ts_env_value v)
{
    if (n->env.n < TS_ENV_NAMES) n->env.v[n->env.n++] = v;
}

void ts_names_begin(ts_names *n, unsigned dtype)
{
    static const char *const text[] = { "f32", "f64", "f16", "bf16" };
    n->env = (ts_launch_env) { .dtype = dtype < 4 ? text[dtype] : "" };
    n->n_buffers = 0;
}

void ts_names_integer(ts_names *n, const char *name, int64_t v)
{
    add(n, (ts_env_value) { name, TS_ENV_INTEGER, .i = v });
}

void ts_names_real(ts_names *n, const char *name, double v)
{
    add(n, (ts_env_value) { name, TS_ENV_REAL, .d = v });
}

void ts_names_pointer(ts_names *n, const char *name, ts_device_ptr p)
{
    add(n, (ts_env_value) { name, TS_ENV_POINTER, .p = p });
}

void ts_names_buffer(ts_names *n, const char *name, ts_device_ptr p, int64_t rows, int64_t cols,
                     int64_t stride)
{
    static const char *const part[] = { "rows", "cols", "stride" };
    const int64_t            v[] = { rows, cols, stride };
    ts_names_pointer(n, name, p);
    if (n->n_buffers == TS_ENV_BUFFERS) return;
    char(*text)[TS_ENV_TEXT] = n->text[n->n_buffers++];
    for (int i = 0; i < 3; i++) {
        snprintf(text[i], TS_ENV_TEXT, "%s.%s", name, part[i]);
        ts_names_integer(n, text[i], v[i]);
    }
}

void ts_names_absent(ts_names *n, const char *name)
{
    for (int i = 0; i < n->env.n; i++)
        if (n->env.v[i].kind == TS_ENV_POINTER && !strcmp(n->env.v[i].name, name)) return;
    ts_names_pointer(n, name, 0);
}

int ts_step_play(const ts_driver *d, ts_cu_any *f, ts_step *s, ts_cu_any *stream)
{
    void *params[TS_LAUNCH_ARGS];
    for (int k = 0; k < s->n_args; k++) params[k] = s->arg[k];
    const int code = s->shared_bytes > SHARED_ALWAYS
                         ? d->function_set(f, TS_CU_MAX_DYNAMIC_SHARED, (int)s->shared_bytes)
                         : 0;
    return code ? code
                : d->launch(f, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1],
                            s->block[2], s->shared_bytes, stream, params, NULL);
}
