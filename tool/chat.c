/* SPDX-License-Identifier: Apache-2.0 */
/* chat.c - `touchstone chat [MODEL]`: parses its options. chat_run.c talks, if the program has the
 * libraries that models need. */
#include "chat.h"

enum { MOST = 1 << 24 };

int ts_tool_chat(int argc, char **argv)
{
    ts_chat_plan p = {
        .n_new = 512, .chunk = 64, .seed = 0x5eed, .top_k = TS_UNSET, .temperature = -1, .top_p = -1
    };
    const char *model = NULL, *tokens = NULL, *context = NULL, *threads = NULL, *chunk = NULL;
    const char *temperature = NULL, *top_k = NULL, *top_p = NULL;
    const char *device = NULL, *dtype = NULL, *seed = NULL;
    int         status;

    const ts_option options[] = {
        { "--model", "FILE", "the same as MODEL: folder from Hugging Face, or GGUF file",
          &p.model },
        { "--tokenizer", "FILE", "tokenizer.json or GGUF vocabulary (default: the model's)",
          &p.tokenizer },
        { "--template", "FILE", "chat template in Jinja (default: the model's)", &p.template },
        { "--system", "TEXT", "system message", &p.system },
        { "--tokens", "N", "maximum number of tokens per answer (default 512)", &tokens },
        { "--stop", "TEXT...", "end an answer before this text; may be given 8 times", p.stop },
        { "--temperature", "T",
          "sampling temperature; 0 takes the most probable token (default: the model's, or 0)",
          &temperature },
        { "--top-k", "K",
          "sample from the K most probable tokens; 0: all (default: the model's, or 0)", &top_k },
        { "--top-p", "P",
          "sample from the smallest set with probability P (default: the model's, or 1)", &top_p },
        { "--context", "N", "tokens of a conversation (default: the model's context, at most 4096)",
          &context },
        { "--chunk", "N", "prompt tokens per forward pass (default 64)", &chunk },
        { "--threads", "N", "threads on the CPU (default: all cores)", &threads },
        { "--device", "D", "cpu or cuda (default cpu)", &device },
        { "--dtype", "D", "arithmetic: f32 or f64 (default f32)", &dtype },
        { "--exact", NULL, "multiply encoded weights as floats, without rounding activations",
          &p.exact },
        { "--seed", "N", "seed of the draws (default 0x5eed)", &seed },
        { "--json", "FILE|-", "write messages, answers and figures as JSON", &p.json },
        { 0 },
    };
    if (!ts_options(argc, argv, "chat [MODEL] [OPTION...]", options, &model, &status))
        return status;
    if (model && p.model) ts_complain("--model", "a model was named already");
    if (model && p.model) return TS_EXIT_USAGE;
    if (model) p.model = model;
    for (int i = 0; p.stop[i]; i++)
        if (!*p.stop[i]) {
            ts_complain("--stop", "got an empty text");
            return TS_EXIT_USAGE;
        }
    if ((seed && !ts_parse_u64("--seed", seed, &p.seed)) || !ts_find_model(&p.model) ||
        !ts_parse_count("--tokens", tokens, 1, MOST, &p.n_new) ||
        !ts_parse_count("--top-k", top_k, 0, MOST, &p.top_k) ||
        !ts_parse_real("--temperature", temperature, 0, 1000, &p.temperature) ||
        !ts_parse_real("--top-p", top_p, 1e-6, 1, &p.top_p) ||
        !ts_parse_count("--context", context, 2, MOST, &p.context) ||
        !ts_parse_count("--chunk", chunk, 1, MOST, &p.chunk) ||
        !ts_parse_count("--threads", threads, 1, 1024, &p.n_threads) ||
        !ts_parse_dtype(dtype, &p.dtype) || !ts_parse_device(device, p.dtype, &p.device))
        return TS_EXIT_USAGE;
#if TS_HAVE_MODEL
    return ts_chat_run(&p);
#else
    ts_complain(p.model, "models are not available, built without jansson, CBLAS or PCRE2");
    return TS_EXIT_BROKEN;
#endif
}
