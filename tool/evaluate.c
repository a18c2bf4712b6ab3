/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.c - `touchstone evaluate [MODEL] --text FILE`: parses its options. evaluate_run.c
 * evaluates, if the program has the libraries that models need. */
#include "evaluate.h"

enum { MOST = 1 << 24 };

int ts_tool_evaluate(int argc, char **argv)
{
    ts_evaluate_plan p = { .chunk = 64 };
    const char      *model = NULL, *context = NULL, *stride = NULL, *chunk = NULL, *threads = NULL;
    const char      *device = NULL, *dtype = NULL, *seed = NULL;
    uint64_t         ignored;
    int              status;
    const ts_option  options[] = {
         { "--model", "FILE",
           "the same as MODEL: folder from Hugging Face or train, GGUF or llama2.c file", &p.model },
         { "--tokenizer", "FILE",
           "tokenizer.json, GGUF or llama2.c vocabulary (default: the model's)", &p.tokenizer },
         { "--text", "FILE|-", "text to evaluate, UTF-8; -: standard input", &p.text },
         { "--context", "N", "tokens per window (default: the model's context, at most 2048)",
           &context },
         { "--stride", "N", "tokens from the start of a window to that of the next (default: N)",
           &stride },
         { "--chunk", "N", "tokens per forward pass (default 64)", &chunk },
         { "--threads", "N", "threads on the CPU (default: all cores)", &threads },
         { "--device", "D", "cpu or cuda (default cpu)", &device },
         { "--dtype", "D", "arithmetic: f32 or f64 (default f32)", &dtype },
         { "--exact", NULL, "multiply encoded weights as floats, without rounding activations",
           &p.exact },
         { "--seed", "N", "accepted for uniformity; nothing is drawn", &seed },
         { "--json", "FILE|-", "write the figures as JSON", &p.json },
         { 0 },
    };
    if (!ts_options(argc, argv, "evaluate [MODEL] --text FILE [OPTION...]", options, &model,
                    &status))
        return status;
    if (model && p.model) ts_complain("--model", "a model was named already");
    if (model && p.model) return TS_EXIT_USAGE;
    if (model) p.model = model;
    if (seed && !ts_parse_u64("--seed", seed, &ignored)) return TS_EXIT_USAGE;
    if (!p.text) ts_complain("--text", "missing; expected a file, or - for standard input");
    if (!p.text || !ts_find_model(&p.model) ||
        !ts_parse_count("--context", context, 2, MOST, &p.context) ||
        !ts_parse_count("--stride", stride, 1, MOST, &p.stride) ||
        !ts_parse_count("--chunk", chunk, 1, MOST, &p.chunk) ||
        !ts_parse_count("--threads", threads, 1, 1024, &p.n_threads) ||
        !ts_parse_dtype(dtype, &p.dtype) || !ts_parse_device(device, p.dtype, &p.device))
        return TS_EXIT_USAGE;
#if TS_HAVE_MODEL
    return ts_evaluate_text(&p);
#else
    ts_complain(p.model, "models are not available, built without jansson, CBLAS or PCRE2");
    return TS_EXIT_BROKEN;
#endif
}
