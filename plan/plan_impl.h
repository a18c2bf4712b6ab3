/* SPDX-License-Identifier: Apache-2.0 */
/* plan_impl.h - what the files of plan/ share. Private. */
#ifndef TS_PLAN_IMPL_H
#define TS_PLAN_IMPL_H

#include <stdarg.h>
#include <stdio.h>

#include "plan.h"
#include "whole.h"

/* One printable line in `why`; always false, so that it can be returned. */
bool ts_plan_say(char why[TS_PLAN_WHY], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline int64_t ts_times(int64_t a, int64_t b)
{
    return b && a > TS_PLAN_MOST / b ? TS_PLAN_MOST : a * b;
}

static inline int64_t ts_plus(int64_t a, int64_t b)
{
    return a > TS_PLAN_MOST - b ? TS_PLAN_MOST : a + b;
}

/* The model as one of n_gpu GPUs has it: its share of heads, channels and vocabulary. */
ts_plan_model ts_plan_share(const ts_plan_model *m, int64_t n_gpu);

/* What a family of models is known to have, beside what its files say: sets flags of *m and
 * *full_every, the distance of layers without a window (1: none has one, 0: all have). `type` is
 * the name that config.json or GGUF has for it; an unknown one is taken for Llama's. */
bool ts_plan_family(const char *type, ts_plan_model *m, int64_t *full_every);

/* Of a file: config.json in memory, the header of one .safetensors file, and a GGUF file. */
bool ts_plan_config(const char *text, size_t n, ts_plan_model *m, char why[TS_PLAN_WHY]);
bool ts_plan_safetensors(const char *path, int64_t *n_bytes, char why[TS_PLAN_WHY]);
/* Of model.safetensors.index.json: each file once, into `each`. */
bool ts_plan_shards(const char *text, size_t n, bool (*each)(void *user, const char *name),
                    void *user, char why[TS_PLAN_WHY]);
bool ts_plan_gguf(FILE *f, int64_t n_file, ts_plan_model *m, char why[TS_PLAN_WHY]);

#endif
