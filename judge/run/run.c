/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - seeds and names of a run. */
#define _GNU_SOURCE
#include "run.h"

#include <string.h>

#include "sha256.h"

const char *ts_depth_name(ts_depth d)
{
    static const char *const name[TS_N_DEPTHS] = { "quick", "normal", "full" };
    return name[d];
}

uint64_t ts_run_seed(const ts_run *c, const ts_task *t, ts_purpose p, int number, int i)
{
    unsigned char text[TS_KEY_BYTES + 128] = { 0 }, hash[32];
    uint64_t      seed;
    memcpy(text, c->key, TS_KEY_BYTES);
    snprintf((char *)text + TS_KEY_BYTES, 128, "%s/%d/%d/%d", t->name, p, number, i);
    ts_sha256(text, sizeof text, hash);
    memcpy(&seed, hash, sizeof seed);
    return seed;
}

const char *ts_run_label(const ts_run *c, const ts_task *t)
{
    return ts_task_label(t, c->device);
}

const char *ts_run_task_of(const ts_run *c, const ts_judged *e)
{
    const ts_task *t = e->task || !e->challenge ? e->task : ts_task_called(e->challenge);
    return t ? ts_run_label(c, t) : e->challenge ? e->challenge : "-";
}
