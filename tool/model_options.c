/* SPDX-License-Identifier: Apache-2.0 */
/* model_options.c - options of the commands that run a model. */
#include "model_options.h"

#include <stdlib.h>
#include <string.h>

static const ts_choice arithmetic[] = { { "f32", TS_F32 }, { "f64", TS_F64 }, { 0 } };
const ts_choice        ts_stores[] = { { "f32", TS_F32 }, { "bf16", TS_BF16 }, { "f16", TS_F16 },
                                       { "int8", TS_U8 }, { "int4", TS_U4 },   { 0 } };

const ts_option *ts_model_options(ts_model_plan *m)
{
    const ts_option all[] = {
        { "--model", "FILE", NULL,
          "the same as MODEL: folder from Hugging Face or train, GGUF or llama2.c file",
          .text = &m->model },
        { "--tokenizer", "FILE", NULL,
          "tokenizer.json, GGUF or llama2.c vocabulary (default: the model's)",
          .text = &m->tokenizer },
        { "--chunk", "N", "64", "tokens of a prompt or text per forward pass", .count = &m->chunk,
          .range = { 1, TS_MOST_TOKENS } },
        { "--threads", "N", NULL, "threads on the CPU (default: all cores)", .count = &m->n_threads,
          .range = { 1, TS_MOST_THREADS } },
        { "--device", "D", "cpu", "device", .to = &m->device, .choices = ts_devices },
        { "--dtype", "D", "f32", "arithmetic", .to = &m->dtype, .choices = arithmetic },
        { "--exact", NULL, NULL, "multiply encoded weights as floats, without rounding activations",
          .flag = &m->exact },
        { 0 },
    };
    static ts_option kept[sizeof all / sizeof *all];
    return memcpy(kept, all, sizeof all);
}

const ts_option *ts_sampling_options(ts_model_plan *m)
{
    const ts_option all[] = {
        { "--temperature", "T", NULL,
          "sampling temperature; 0 takes the most probable token (default: the model's, or 0)",
          .real = &m->temperature, .range = { 0, 1000 } },
        { "--top-k", "K", NULL,
          "sample from the K most probable tokens; 0: all (default: the model's, or 0)",
          .count = &m->top_k, .range = { 0, TS_MOST_TOKENS } },
        { "--top-p", "P", NULL,
          "sample from the smallest set with probability P (default: the model's, or 1)",
          .real = &m->top_p, .range = { 1e-6, 1 } },
        { "--stop", "TEXT...", NULL, "end before this text; may be given 8 times",
          .texts = m->stop },
        { "--seed", "N", "0x5eed", "seed of the draws", .seed = &m->seed },
        { 0 },
    };
    static ts_option kept[sizeof all / sizeof *all];
    return memcpy(kept, all, sizeof all);
}

bool ts_parse_kv(const char *text, void *layout)
{
    static const char *const names[] = { "contiguous", "paged" };
    ts_kv_layout            *l = layout;
    const size_t             n = strcspn(text, ",");
    for (int i = 0; i < 2; i++) {
        if (n != strlen(names[i]) || strncmp(text, names[i], n)) continue;
        l->paged = i;
        if (!text[n]) return true;
        text += n + 1;
        break;
    }
    const ts_choice *c = l->stores;
    while (c->name && strcmp(c->name, text)) c++;
    if (c->name) l->store = c->value;
    return c->name;
}

const char *ts_model_default(void)
{
    static const char *const places[] = { "../share/austen", "../share/touchstone/austen", NULL };
    static char              path[4096];
    const char              *named = getenv("TOUCHSTONE_MODEL");
    return named ? named : ts_find(places, path, sizeof path) ? path : NULL;
}

bool ts_model_parse(int argc, char **argv, const char *usage, const ts_option *options,
                    ts_model_plan *m, int *status)
{
    const char *operand = NULL;
    m->top_k = -1;
    m->temperature = m->top_p = -1;
    if (!ts_options(argc, argv, usage, options, &operand, 1, status)) return false;
    if (operand && m->model) return ts_complain("--model", "a model was named already");
    if (operand) m->model = operand;
    m->named = m->model;
    if (m->device == TS_CUDA && m->dtype != TS_F32)
        return ts_complain("--device", "got cuda with --dtype f64, expected f32");
    if (!m->model) m->model = ts_model_default();
    return m->model ||
           ts_complain(
               "--model",
               "missing, and no bundled model found; name a folder, a GGUF or a llama2.c file");
}

int ts_model_absent(const char *what)
{
    ts_complain(what, "models are not available, built without jansson, CBLAS or PCRE2");
    return TS_EXIT_BROKEN;
}
