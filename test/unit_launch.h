/* SPDX-License-Identifier: Apache-2.0 */
/* unit_launch.h - a call, and the first step of a plan in it: for unit_expr.c and unit_launch.c. */
#ifndef TS_UNIT_LAUNCH_H
#define TS_UNIT_LAUNCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "unit.h"

#define LENGTH(a) (sizeof(a) / sizeof *(a))

static const ts_launch_env env = {
    .n = 11,
    .v = { { .name = "rows", .kind = TS_ENV_INTEGER, .i = 7 },
           { .name = "k", .kind = TS_ENV_INTEGER, .i = 64 },
           { .name = "none", .kind = TS_ENV_INTEGER, .i = 0 },
           { .name = "vocab", .kind = TS_ENV_INTEGER, .i = 128256 },
           { .name = "logits.stride", .kind = TS_ENV_INTEGER, .i = 128300 },
           { .name = "inv_temperature", .kind = TS_ENV_REAL, .d = 1.25 },
           { .name = "huge", .kind = TS_ENV_REAL, .d = 1e39 },
           { .name = "logits", .kind = TS_ENV_POINTER, .p = 0x7f0000001000 },
           { .name = "index", .kind = TS_ENV_POINTER, .p = 0x7f0000002000 },
           { .name = "lse", .kind = TS_ENV_POINTER, .p = 0 },
           { .name = "workspace", .kind = TS_ENV_POINTER, .p = UINT64_MAX - 15 } },
    .dtype = "bf16",
};

static inline ts_launch *read_text(const char *text, char why[256])
{
    const size_t n = strlen(text);
    char        *copy = malloc(n ? n : 1); /* at its true size, so that one byte too far is seen */
    assert_non_null(copy);
    memcpy(copy, text, n);
    ts_launch *l = ts_launch_read(copy, n, why, 256);
    free(copy);
    return l;
}

/* "" if all went well; `s` may be NULL. */
static inline const char *first_step(const char *text, ts_step *s)
{
    static char why[256];
    ts_step     mine;
    ts_launch  *l = read_text(text, why);
    if (!l) return why;
    if (ts_launch_step(l, 0, &env, s ? s : &mine, why, sizeof why)) why[0] = 0;
    ts_launch_free(l);
    return why;
}

#define STEP(...) "kernel f\n" __VA_ARGS__
#define ONE       "grid 1\nblock 1\n"

typedef struct said {
    const char *text, *why;
} said;

#endif
