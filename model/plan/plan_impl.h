/* SPDX-License-Identifier: Apache-2.0 */
/* plan_impl.h - private to the files of model/plan/. */
#ifndef TS_PLAN_IMPL_H
#define TS_PLAN_IMPL_H

#include <stdarg.h>
#include <stdio.h>

#include "file.h"
#include "plan.h"
#include "whole.h"

static inline int64_t ts_times(int64_t a, int64_t b)
{
    return b && a > TS_PLAN_MOST / b ? TS_PLAN_MOST : a * b;
}

static inline int64_t ts_plus(int64_t a, int64_t b)
{
    return a > TS_PLAN_MOST - b ? TS_PLAN_MOST : a + b;
}

/* The part of the model on one of n_gpu GPUs: its share of heads, channels and vocabulary. */
ts_plan_model ts_plan_share(const ts_plan_model *m, int64_t n_gpu);

/* Properties of a model family that its files do not state: sets flags of *m, and *full_every, the
 * period of layers without a window (1: no layer has one, 0: all have). `type` is the family's name
 * in config.json or GGUF; an unknown one is treated as Llama. */
bool ts_plan_family(const char *type, ts_plan_model *m, int64_t *full_every);

/* Readers of config.json in memory, of the header of a .safetensors file, and of a GGUF file. */
bool ts_plan_config(const char *text, size_t n, ts_plan_model *m, char why[TS_PLAN_WHY]);
bool ts_plan_safetensors(const char *path, int64_t *n_bytes, char why[TS_PLAN_WHY]);
/* Reads model.safetensors.index.json: calls `each` once per file. */
bool ts_plan_shards(const char *text, size_t n, bool (*each)(void *user, const char *name),
                    void *user, char why[TS_PLAN_WHY]);
bool ts_plan_gguf(const char *path, ts_plan_model *m, char why[TS_PLAN_WHY]);

#endif
