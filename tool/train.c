/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - `touchstone train --data FILE --out DIR`: its options. train_run.c trains, if the
 * program has the libraries that models need. */
#include <string.h>

#include "train_plan.h"

enum { MOST = 1 << 20, MOST_STEPS = 1 << 30 };

static const ts_option *shape(ts_train_plan *p)
{
    const ts_option all[] = {
        { "--layers", "N", "4", "number of layers", .count = &p->n_layer, .range = { 1, 1024 } },
        { "--width", "N", "128", "width of the residual stream", .count = &p->width,
          .range = { 1, MOST } },
        { "--heads", "N", "4", "query heads", .count = &p->n_head, .range = { 1, 4096 } },
        { "--kv-heads", "N", "2", "KV heads", .count = &p->n_kv_head, .range = { 1, 4096 } },
        { "--head-dim", "N", "32", "channels per head, even", .count = &p->head_dim,
          .range = { 2, 256 } },
        { "--ffn", "N", "384", "width of the feed-forward", .count = &p->n_ffn,
          .range = { 1, MOST } },
        { "--vocab", "N", "1024", "vocabulary size, including the 256 bytes", .count = &p->n_vocab,
          .range = { 257, MOST } },
        { 0 },
    };
    static ts_option kept[sizeof all / sizeof *all];
    return memcpy(kept, all, sizeof all);
}

static const ts_option *steps(ts_train_plan *p)
{
    const ts_option all[] = {
        { "--steps", "N", "400", "number of steps", .count = &p->n_step,
          .range = { 1, MOST_STEPS } },
        { "--batch", "N", "16", "sequences per batch", .count = &p->n_batch, .range = { 1, MOST } },
        { "--accumulate", "N", "1", "batches per step", .count = &p->n_accumulate,
          .range = { 1, MOST } },
        { "--length", "N", "128", "tokens per sequence", .count = &p->length,
          .range = { 1, MOST } },
        { "--eval-every", "N", "50", "steps between evaluations on held-out text",
          .count = &p->eval_every, .range = { 1, MOST_STEPS } },
        { "--patience", "N", "0", "stop after N evaluations without a gain; 0 means never",
          .count = &p->patience, .range = { 0, MOST_STEPS } },
        { "--lr", "X", "0.003", "peak learning rate", .real = &p->lr, .range = { 1e-9, 10 } },
        { "--decay", "X", "0.1", "weight decay of the matrices", .real = &p->weight_decay,
          .range = { 0, 10 } },
        { 0 },
    };
    static ts_option kept[sizeof all / sizeof *all];
    return memcpy(kept, all, sizeof all);
}

/* On a device bf16 is the default; f32 is for comparison with the CPU. */
static bool check(ts_train_plan *p, bool grouped)
{
    if (!p->data) return ts_complain("--data", "missing; expected a UTF-8 text file");
    if (!p->out) return ts_complain("--out", "missing; expected a folder for the model");
    if (grouped && !p->ternary) return ts_complain("--group", "needs --ternary");
    if (p->dtype == TS_BF16 && p->device == TS_CPU)
        return ts_complain("--dtype", "got bf16 on the CPU, expected f32, or --device cuda");
    if (p->dtype < 0) p->dtype = p->device == TS_CUDA ? TS_BF16 : TS_F32;
    return true;
}

int ts_tool_train(int argc, char **argv)
{
    static const ts_choice dtypes[] = { { "f32", TS_F32 }, { "bf16", TS_BF16 }, { 0 } };
    static const ts_choice groups[] = { { "128", 0 }, { "256", 1 }, { 0 } };
    static const ts_choice formats[] = { { "gguf", 1 }, { 0 } };
    ts_train_plan          p = { .dtype = -1 };
    bool                   grouped = false;
    int                    status;
    const ts_option        options[] = {
               { "--data", "FILE", NULL, "UTF-8 text; empty lines separate documents", .text = &p.data },
               { "--out", "DIR", NULL, "folder for model, tokenizer, log and checkpoint", .text = &p.out },
               { "--ternary", NULL, NULL, "ternary matrices: weights -s, 0 or +s", .flag = &p.ternary },
               { "--group", "N", "128", "with --ternary: weights that share one s", .to = &p.paired,
                 .choices = groups, .given = &grouped },
               { "", .more = shape(&p) },
               { "", .more = steps(&p) },
               { "--device", "D", "cpu", "device", .to = &p.device, .choices = ts_devices },
               { "--dtype", "T", NULL, "dtype of matmuls (default f32; bf16 on cuda)", .to = &p.dtype,
                 .choices = dtypes },
               { "--resume", NULL, NULL,
                 "continue the run in DIR, bitwise; a finished one with more --steps, another with fewer",
                 .flag = &p.resume },
               { "--seed", "N", "0x5eed", "seed of weights, batches and split", .seed = &p.seed },
               { "--export", "gguf", NULL, "also write model.gguf, which llama.cpp reads; exact",
                 .to = &p.gguf, .choices = formats },
               { "--svg", "FILE", NULL, "plot losses, bits per byte and learning rate", .text = &p.svg },
               { "--json", "FILE|-", NULL, "write facts and figures as JSON", .text = &p.json },
               { 0 },
    };
    if (!ts_options(argc, argv, "train --data FILE --out DIR [OPTION...]", options, NULL, 0,
                    &status) ||
        !check(&p, grouped))
        return status;
#if TS_HAVE_MODEL
    return ts_train_text(&p);
#else
    return ts_model_absent(p.data);
#endif
}
