/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - `touchstone train --data FILE --out DIR`: parses its options. train_run.c trains, if
 * the program has the libraries that models need. */
#include <stdlib.h>
#include <string.h>

#include "train_plan.h"

#ifndef TS_HAVE_MODEL
#define TS_HAVE_MODEL 0
#endif

enum { NUMBERS = 13 };

typedef struct number {
    const char *option;
    uint64_t    least, most;
    uint64_t   *value;
    const char *text;
} number;

static bool parse_number(const number *n)
{
    if (!n->text) return true;
    if (!ts_parse_u64(n->option, n->text, n->value)) return false;
    if (*n->value >= n->least && *n->value <= n->most) return true;
    fprintf(stderr, "touchstone train: %s: got '%s', expected %llu to %llu\n", n->option, n->text,
            (unsigned long long)n->least, (unsigned long long)n->most);
    return false;
}

static bool parse_real(const char *option, const char *text, double least, double most, double *v)
{
    char *end;
    if (!text) return true;
    *v = strtod(text, &end);
    if (*text && !*end && *v >= least && *v <= most) return true;
    fprintf(stderr, "touchstone train: %s: got '%s', expected %g to %g\n", option, text, least,
            most);
    return false;
}

/* On a device bf16 is the default; f32 is for comparison with the CPU. */
static bool parse_device(const char *device, const char *dtype, ts_train_plan *p)
{
    p->device = device && !strcmp(device, "cuda") ? TS_CUDA : TS_CPU;
    p->dtype = dtype                  ? !strcmp(dtype, "bf16") ? TS_BF16 : TS_F32
               : p->device == TS_CUDA ? TS_BF16
                                      : TS_F32;
    if (device && strcmp(device, "cpu") && strcmp(device, "cuda"))
        fprintf(stderr, "touchstone train: --device: got '%s', expected cpu or cuda\n", device);
    else if (dtype && strcmp(dtype, "f32") && strcmp(dtype, "bf16"))
        fprintf(stderr, "touchstone train: --dtype: got '%s', expected f32 or bf16\n", dtype);
    else if (p->dtype == TS_BF16 && p->device == TS_CPU)
        return ts_complain("--dtype", "got bf16 on the CPU, expected f32, or --device cuda");
    else return true;
    return false;
}

static bool parse_group(const char *text, ts_train_plan *p)
{
    p->paired = text && !strcmp(text, "256");
    if (text && !p->ternary) return ts_complain("--group", "needs --ternary");
    if (!text || p->paired || !strcmp(text, "128")) return true;
    fprintf(stderr, "touchstone train: --group: got '%s', expected 128 or 256\n", text);
    return false;
}

static const ts_train_plan defaults = {
    .n_layer = 4,
    .width = 128,
    .n_head = 4,
    .n_kv_head = 2,
    .head_dim = 32,
    .n_ffn = 384,
    .n_vocab = 1024,
    .n_step = 400,
    .n_batch = 16,
    .n_accumulate = 1,
    .length = 128,
    .eval_every = 50,
    .seed = 0x5eed,
    .lr = 3e-3,
    .weight_decay = 0.1,
};

/* False: the caller returns *status. */
static bool parse(int argc, char **argv, ts_train_plan *p, int *status)
{
    const uint64_t most = 1u << 20;
    const char    *lr = NULL, *decay = NULL, *seed = NULL;
    const char    *device = NULL, *dtype = NULL, *group = NULL;
    number         n[NUMBERS] = {
                { "--layers", 1, 1024, &p->n_layer, NULL },
                { "--width", 1, most, &p->width, NULL },
                { "--heads", 1, 4096, &p->n_head, NULL },
                { "--kv-heads", 1, 4096, &p->n_kv_head, NULL },
                { "--head-dim", 2, 256, &p->head_dim, NULL },
                { "--ffn", 1, most, &p->n_ffn, NULL },
                { "--vocab", 257, most, &p->n_vocab, NULL },
                { "--steps", 1, 1u << 30, &p->n_step, NULL },
                { "--batch", 1, most, &p->n_batch, NULL },
                { "--accumulate", 1, most, &p->n_accumulate, NULL },
                { "--length", 1, most, &p->length, NULL },
                { "--eval-every", 1, 1u << 30, &p->eval_every, NULL },
                { "--patience", 0, 1u << 30, &p->patience, NULL },
    };
    const ts_option options[] = {
        { "--data", "FILE", "UTF-8 text; empty lines separate documents", &p->data },
        { "--out", "DIR", "folder for model, tokenizer, log and checkpoint", &p->out },
        { "--ternary", NULL, "ternary matrices: weights -s, 0 or +s", &p->ternary },
        { "--group", "N", "with --ternary: weights that share one s, 128 or 256 (default 128)",
          &group },
        { "--layers", "N", "number of layers (default 4)", &n[0].text },
        { "--width", "N", "width of the residual stream (default 128)", &n[1].text },
        { "--heads", "N", "query heads (default 4)", &n[2].text },
        { "--kv-heads", "N", "KV heads (default 2)", &n[3].text },
        { "--head-dim", "N", "channels per head, even (default 32)", &n[4].text },
        { "--ffn", "N", "width of the feed-forward (default 384)", &n[5].text },
        { "--vocab", "N", "vocabulary size, including the 256 bytes (default 1024)", &n[6].text },
        { "--steps", "N", "number of steps (default 400)", &n[7].text },
        { "--batch", "N", "sequences per batch (default 16)", &n[8].text },
        { "--accumulate", "N", "batches per step (default 1)", &n[9].text },
        { "--length", "N", "tokens per sequence (default 128)", &n[10].text },
        { "--eval-every", "N", "steps between evaluations on held-out text (default 50)",
          &n[11].text },
        { "--patience", "N", "stop after N evaluations without a gain; 0 means never (default 0)",
          &n[12].text },
        { "--lr", "X", "peak learning rate (default 0.003)", &lr },
        { "--decay", "X", "weight decay of the matrices (default 0.1)", &decay },
        { "--device", "D", "cpu or cuda (default cpu)", &device },
        { "--dtype", "T", "dtype of matmuls: f32 or bf16 (default f32; bf16 on cuda)", &dtype },
        { "--resume", NULL, "continue the run in DIR, bitwise; a finished one with more --steps",
          &p->resume },
        { "--seed", "N", "seed of weights, batches and split (default 0x5eed)", &seed },
        { "--export", "gguf", "also write model.gguf, which llama.cpp reads; exact", &p->export },
        { "--svg", "FILE", "plot losses, bits per byte and learning rate", &p->svg },
        { "--json", "FILE|-", "write facts and figures as JSON", &p->json },
        { 0 },
    };
    *p = defaults;
    if (!ts_options(argc, argv, "train --data FILE --out DIR [OPTION...]", options, NULL, status))
        return false;
    *status = TS_EXIT_USAGE;
    if (!p->data) return ts_complain("--data", "missing; expected a UTF-8 text file");
    if (!p->out) return ts_complain("--out", "missing; expected a folder for the model");
    if (seed && !ts_parse_u64("--seed", seed, &p->seed)) return false;
    for (int i = 0; i < NUMBERS; i++)
        if (!parse_number(&n[i])) return false;
    if (p->export && strcmp(p->export, "gguf"))
        return ts_complain("--export", "expected gguf, the only other format");
    return parse_group(group, p) && parse_device(device, dtype, p) &&
           parse_real("--lr", lr, 1e-9, 10, &p->lr) &&
           parse_real("--decay", decay, 0, 10, &p->weight_decay);
}

int ts_tool_train(int argc, char **argv)
{
    ts_train_plan p;
    int           status;
    if (!parse(argc, argv, &p, &status)) return status;
#if TS_HAVE_MODEL
    return ts_train_text(&p);
#else
    ts_complain(p.data, "models are not available, built without jansson, CBLAS or PCRE2");
    return TS_EXIT_BROKEN;
#endif
}
