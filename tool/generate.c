/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - `touchstone generate [--model FILE] [--prompt TEXT]`: parses its options.
 * generate_run.c generates, if the program has the libraries that models need. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "generate.h"

enum { MOST = 1 << 24, MOST_BEAMS = 1 << 10 };

/* LAYOUT,DTYPE */
static bool parse_kv(const char *text, ts_generate_plan *p)
{
    static const struct {
        const char *name;
        ts_dtype    dtype;
    } stores[] = { { "f32", TS_F32 }, { "f64", TS_F64 }, { "bf16", TS_BF16 },
                   { "f16", TS_F16 }, { "int8", TS_U8 }, { "int4", TS_U4 } };
    const char *comma = text ? strchr(text, ',') : NULL;
    p->paged = true;
    p->store = p->dtype;
    if (!text) return true;
    const size_t n = comma ? (size_t)(comma - text) : strlen(text);
    p->paged = n == 5 && !strncmp(text, "paged", n);
    bool ok = p->paged || (n == 10 && !strncmp(text, "contiguous", n));
    if (comma) {
        size_t i = 0, n_stores = sizeof stores / sizeof *stores;
        while (i < n_stores && strcmp(stores[i].name, comma + 1)) i++;
        ok = ok && i < n_stores && (stores[i].dtype != TS_F64 || p->dtype == TS_F64);
        if (ok) p->store = stores[i].dtype;
    }
    if (!ok)
        fprintf(stderr,
                "touchstone generate: --kv: got '%s', expected LAYOUT,DTYPE such as paged,int8: "
                "contiguous or paged, then f32, bf16, f16, int8 or int4 (f64 with --dtype f64)\n",
                text);
    return ok;
}

/* WIDTHxDEPTH */
static bool parse_tree(const char *text, ts_generate_plan *p)
{
    const uint64_t most = 64;
    char          *end = NULL;
    p->tree_width = 2;
    p->tree_depth = 4;
    if (!text) return true;
    if (*text >= '0' && *text <= '9') p->tree_width = strtoull(text, &end, 10);
    bool ok = end && *end == 'x' && end[1] >= '0' && end[1] <= '9';
    if (ok) p->tree_depth = strtoull(end + 1, &end, 10);
    ok = ok && !*end && p->tree_width >= 1 && p->tree_width <= most && p->tree_depth >= 1 &&
         p->tree_depth <= most;
    if (!ok)
        fprintf(stderr,
                "touchstone generate: --tree: got '%s', expected WIDTHxDEPTH, 1 to %u each\n", text,
                (unsigned)most);
    return ok;
}

/* Options that depend on --beam and --draft, which are greedy. */
static bool parse_search(const char *beam, const char *alpha, const char *tree, bool draws,
                         ts_generate_plan *p)
{
    const char *which = p->draft ? "--draft" : "--beam";
    if (p->draft && beam) return ts_complain("--draft", "cannot be combined with --beam");
    if (alpha && !beam) return ts_complain("--alpha", "missing --beam, which this option needs");
    if (tree && !p->draft) return ts_complain("--tree", "missing --draft, which this option needs");
    if (p->verify && !p->draft && !beam)
        return ts_complain("--verify", "missing --beam or --draft, one of which this option needs");
    if (beam && p->stop[0]) return ts_complain("--stop", "cannot be combined with --beam");
    if ((p->draft || beam) && (draws || p->textbook))
        return ts_complain(which,
                           "cannot be combined with --temperature, --top-k, --top-p or --textbook");
    return ts_parse_count("--beam", beam, 1, MOST_BEAMS, &p->n_beam) &&
           ts_parse_real("--alpha", alpha, 0, 100, &p->alpha) && parse_tree(tree, p);
}

/* False: the caller returns *status. */
static bool parse(int argc, char **argv, ts_generate_plan *p, int *status)
{
    const char     *tokens = NULL, *temperature = NULL, *top_k = NULL, *top_p = NULL, *kv = NULL;
    const char     *pages = NULL, *chunk = NULL, *device = NULL, *dtype = NULL, *seed = NULL;
    const char     *beam = NULL, *alpha = NULL, *tree = NULL, *model = NULL, *threads = NULL;
    const ts_option options[] = {
        { "--model", "FILE",
          "the same as MODEL: folder from Hugging Face or train, GGUF or llama2.c file",
          &p->model },
        { "--tokenizer", "FILE",
          "tokenizer.json, GGUF or llama2.c vocabulary (default: the model's)", &p->tokenizer },
        { "--prompt", "TEXT|-", "text to continue; -: all of standard input", &p->prompt },
        { "--prompts", "FILE|-", "file of prompts, one per line, run as one batch", &p->prompts },
        { "--tokens", "N", "maximum number of new tokens (default 64)", &tokens },
        { "--stop", "TEXT...", "end before this text; may be given 8 times", p->stop },
        { "--temperature", "T",
          "sampling temperature; 0 takes the most probable token (default: the model's, or 0)",
          &temperature },
        { "--top-k", "K",
          "sample from the K most probable tokens; 0: all (default: the model's, or 0)", &top_k },
        { "--top-p", "P",
          "sample from the smallest set with probability P (default: the model's, or 1)", &top_p },
        { "--threads", "N", "threads on the CPU (default: all cores)", &threads },
        { "--kv", "LAYOUT,DTYPE", "KV cache, such as paged,int8 (default paged,f32)", &kv },
        { "--pages", "N", "cache pages, 16 tokens of one layer each (default: enough for all)",
          &pages },
        { "--chunk", "N", "prompt tokens per prefill step (default 64)", &chunk },
        { "--device", "D", "cpu or cuda (default cpu)", &device },
        { "--dtype", "D", "arithmetic: f32 or f64 (default f32)", &dtype },
        { "--exact", NULL, "multiply encoded weights as floats, without rounding activations",
          &p->exact },
        { "--beam", "K", "beam search with K beams", &beam },
        { "--alpha", "A", "beam score = log-probability / length^A (default 0)", &alpha },
        { "--draft", "D", "speculative decoding: lookup, or a model with the same vocabulary",
          &p->draft },
        { "--tree", "WIDTHxDEPTH", "shape of the draft tree (default 2x4)", &tree },
        { "--verify", NULL, "repeat without cache or drafts and compare", &p->verify },
        { "--textbook", NULL, "repeat with plain loops and compare (greedy only)", &p->textbook },
        { "--seed", "N", "seed of the draws (default 0x5eed)", &seed },
        { "--json", "FILE|-", "write tokens, texts and figures as JSON", &p->json },
        { 0 },
    };
    *p = (ts_generate_plan) { .n_new = 64, .chunk = 64, .seed = 0x5eed };
    p->temperature = p->top_p = -1;
    p->top_k = TS_UNSET;
    if (!ts_options(argc, argv, "generate [MODEL] [--prompt TEXT] [OPTION...]", options, &model,
                    status))
        return false;
    *status = TS_EXIT_USAGE;
    if (model && p->model) return ts_complain("--model", "a model was named already");
    if (model) p->model = model;
    if (seed && !ts_parse_u64("--seed", seed, &p->seed)) return false;
    p->samples = !p->model && !p->prompt && !p->prompts;
    if (!ts_find_model(&p->model)) return false;
    if (p->samples && !beam && !p->draft && !p->textbook) p->temperature = 0.8;
    if (!p->samples && !p->prompt && !p->prompts && access(p->model, F_OK))
        return ts_complain(p->model,
                           "no such file or folder; for a text to continue use --prompt TEXT");
    if (!p->samples && !p->prompt == !p->prompts)
        return ts_complain("--prompt", "missing; expected --prompt TEXT or --prompts FILE");
    for (int i = 0; p->stop[i]; i++)
        if (!*p->stop[i]) return ts_complain("--stop", "got an empty text");
    if (p->textbook && temperature)
        return ts_complain("--textbook", "cannot be combined with --temperature");
    return ts_parse_count("--tokens", tokens, 1, MOST, &p->n_new) &&
           ts_parse_count("--top-k", top_k, 0, MOST, &p->top_k) &&
           ts_parse_count("--pages", pages, 1, MOST, &p->n_page) &&
           ts_parse_count("--chunk", chunk, 1, MOST, &p->chunk) &&
           ts_parse_count("--threads", threads, 1, 1024, &p->n_threads) &&
           ts_parse_real("--temperature", temperature, 0, 1000, &p->temperature) &&
           ts_parse_real("--top-p", top_p, 1e-6, 1, &p->top_p) &&
           ts_parse_dtype(dtype, &p->dtype) && parse_kv(kv, p) &&
           ts_parse_device(device, p->dtype, &p->device) &&
           parse_search(beam, alpha, tree, temperature || top_k || top_p, p);
}

int ts_tool_generate(int argc, char **argv)
{
    ts_generate_plan p;
    int              status;
    if (!parse(argc, argv, &p, &status)) return status;
#if TS_HAVE_MODEL
    return ts_generate(&p);
#else
    ts_complain(p.model, "models are not available, built without jansson, CBLAS or PCRE2");
    return TS_EXIT_BROKEN;
#endif
}
