/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - `touchstone generate [--model FILE] [--prompt TEXT]`: its options. generate_run.c
 * generates, if the program has the libraries that models need. */
#define _POSIX_C_SOURCE 200809L
#include "generate.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BEAMS = 1 << 10, MOST_TREE = 64 };

/* What is only valid together. */
typedef struct given {
    bool alpha, tree;
} given;

/* WIDTHxDEPTH */
static bool parse_tree(const char *text, void *to)
{
    int64_t *n = to;
    char     rest;
    return strspn(text, "0123456789x") == strlen(text) &&
           sscanf(text, "%3" SCNd64 "x%3" SCNd64 "%c", &n[0], &n[1], &rest) == 2 && n[0] >= 1 &&
           n[0] <= MOST_TREE && n[1] >= 1 && n[1] <= MOST_TREE;
}

/* Options that depend on --beam and --draft, which are greedy. */
static bool check_search(const ts_generate_plan *p, const given *g)
{
    const bool draws = p->m.temperature >= 0 || p->m.top_k >= 0 || p->m.top_p >= 0;
    if (p->textbook && p->m.temperature >= 0)
        return ts_complain("--textbook", "cannot be combined with --temperature");
    if (p->draft && p->n_beam) return ts_complain("--draft", "cannot be combined with --beam");
    if (g->alpha && !p->n_beam)
        return ts_complain("--alpha", "missing --beam, which this option needs");
    if (g->tree && !p->draft)
        return ts_complain("--tree", "missing --draft, which this option needs");
    if (p->verify && !p->draft && !p->n_beam)
        return ts_complain("--verify", "missing --beam or --draft, one of which this option needs");
    if (p->n_beam && p->m.stop[0]) return ts_complain("--stop", "cannot be combined with --beam");
    if ((p->draft || p->n_beam) && (draws || p->textbook))
        return ts_complain(p->draft ? "--draft" : "--beam",
                           "cannot be combined with --temperature, --top-k, --top-p or --textbook");
    return true;
}

static bool check(ts_generate_plan *p)
{
    p->samples = !p->m.named && !p->prompt && !p->prompts;
    if (p->samples && !p->n_beam && !p->draft && !p->textbook && p->m.temperature < 0)
        p->m.temperature = 0.8;
    if (!p->samples && !p->prompt && !p->prompts && access(p->m.model, F_OK))
        return ts_complain(p->m.model,
                           "no such file or folder; for a text to continue use --prompt TEXT");
    if (!p->samples && !p->prompt == !p->prompts)
        return ts_complain("--prompt", "missing; expected --prompt TEXT or --prompts FILE");
    if (p->kv.store == TS_F64 && p->m.dtype != TS_F64)
        return ts_complain("--kv", "got f64, expected --dtype f64 with it");
    if (p->kv.store < 0) p->kv.store = (int)p->m.dtype;
    return true;
}

static const ts_option *search_options(ts_generate_plan *p, given *g)
{
    const ts_option all[] = {
        { "--beam", "K", NULL, "beam search with K beams", .count = &p->n_beam,
          .range = { 1, MOST_BEAMS } },
        { "--alpha", "A", "0", "beam score = log-probability / length^A", .real = &p->alpha,
          .range = { 0, 100 }, .given = &g->alpha },
        { "--draft", "D", NULL, "speculative decoding: lookup, or a model with the same vocabulary",
          .text = &p->draft },
        { "--tree", "WIDTHxDEPTH", "2x4", "shape of the draft tree", .to = p->tree,
          .parse = parse_tree, .expected = "WIDTHxDEPTH, 1 to 64 each", .given = &g->tree },
        { "--verify", NULL, NULL, "repeat without cache or drafts and compare",
          .flag = &p->verify },
        { "--textbook", NULL, NULL, "repeat with plain loops and compare (greedy only)",
          .flag = &p->textbook },
        { 0 },
    };
    static ts_option kept[sizeof all / sizeof *all];
    return memcpy(kept, all, sizeof all);
}

int ts_tool_generate(int argc, char **argv)
{
    static const ts_choice stores[] = { { "f32", TS_F32 },
                                        { "f64", TS_F64 },
                                        { "bf16", TS_BF16 },
                                        { "f16", TS_F16 },
                                        { "int8", TS_U8 },
                                        { "int4", TS_U4 },
                                        { 0 } };
    ts_generate_plan       p = { .kv = { stores, -1, true } };
    given                  g = { 0 };
    int                    status;
    const ts_option        options[] = {
               { "--prompt", "TEXT|-", NULL, "text to continue; -: all of standard input",
                 .text = &p.prompt },
               { "--prompts", "FILE|-", NULL, "file of prompts, one per line, run as one batch",
                 .text = &p.prompts },
               { "--tokens", "N", "64", "maximum number of new tokens", .count = &p.n_new,
                 .range = { 1, TS_MOST_TOKENS } },
               { "", .more = ts_sampling_options(&p.m) },
               { "--kv", "LAYOUT,DTYPE", NULL, "KV cache, such as paged,int8 (default paged, as --dtype)",
                 .to = &p.kv, .parse = ts_parse_kv, .expected = TS_KV_EXPECTED " (f64 with --dtype f64)" },
               { "--pages", "N", NULL,
                 "cache pages, 16 tokens of one layer each (default: enough for all)", .count = &p.n_page,
                 .range = { 1, TS_MOST_TOKENS } },
               { "", .more = search_options(&p, &g) },
               { "", .more = ts_model_options(&p.m) },
               { "--json", "FILE|-", NULL, "write tokens, texts and figures as JSON", .text = &p.m.json },
               { 0 },
    };
    if (!ts_model_parse(argc, argv, "generate [MODEL] [--prompt TEXT] [OPTION...]", options, &p.m,
                        &status) ||
        !check_search(&p, &g) || !check(&p))
        return status;
#if TS_HAVE_MODEL
    return ts_generate(&p);
#else
    return ts_model_absent(p.m.model);
#endif
}
