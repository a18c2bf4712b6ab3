/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - `touchstone serve [MODEL]`: parses its options. serve_run.c runs the server, if the
 * program has the libraries that models and HTTP need. */
#include <string.h>

#include "serve_plan.h"

#ifndef TS_HAVE_SERVE
#define TS_HAVE_SERVE 0
#endif

enum { MOST = 1 << 24, MOST_AT_ONCE = 4096 };

static bool parse_store(const char *text, ts_dtype dtype, ts_dtype *store)
{
    static const struct {
        const char *name;
        ts_dtype    dtype;
    } known[] = { { "f32", TS_F32 },
                  { "bf16", TS_BF16 },
                  { "f16", TS_F16 },
                  { "int8", TS_U8 },
                  { "int4", TS_U4 } };
    *store = dtype;
    if (!text) return true;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(text, known[i].name)) {
            *store = known[i].dtype;
            return true;
        }
    fprintf(stderr, "touchstone serve: --kv: got '%s', expected f32, bf16, f16, int8 or int4\n",
            text);
    return false;
}

int ts_tool_serve(int argc, char **argv)
{
    ts_serve_plan p = { .host = "127.0.0.1",
                        .port = 8080,
                        .n_seq = 64,
                        .n_wait = 256,
                        .n_keep = 32,
                        .chunk = 64,
                        .n_body = 1024,
                        .seed = TS_UNSET,
                        .top_k = TS_UNSET,
                        .temperature = -1,
                        .top_p = -1,
                        .request_s = 600,
                        .receive_s = 30,
                        .drain_s = 30 };
    const char   *model = NULL, *port = NULL, *context = NULL, *slots = NULL, *queue = NULL;
    const char   *keep = NULL, *cache = NULL, *chunk = NULL, *tokens = NULL, *body = NULL;
    const char   *timeout = NULL, *receive = NULL, *drain = NULL, *threads = NULL, *kv = NULL;
    const char   *temperature = NULL, *top_k = NULL, *top_p = NULL, *quiet = NULL;
    const char   *device = NULL, *dtype = NULL, *seed = NULL;
    int           status;

    const ts_option options[] = {
        { "--model", "FILE", "the same as MODEL: folder from Hugging Face, or GGUF file",
          &p.model },
        { "--host", "NAME", "name or address to listen on (default 127.0.0.1: this machine only)",
          &p.host },
        { "--port", "N", "port to listen on; 0: any free one (default 8080)", &port },
        { "--name", "NAME", "name of the model in the API (default: its file's name)", &p.name },
        { "--api-key-file", "FILE", "clients must send the first line of FILE as bearer token",
          &p.key_file },
        { "--tokenizer", "FILE", "tokenizer.json or GGUF vocabulary (default: the model's)",
          &p.tokenizer },
        { "--template", "FILE", "chat template in Jinja (default: the model's)", &p.template },
        { "--context", "N",
          "maximum tokens per text, prompt included (default: the model's context, at most 4096)",
          &context },
        { "--slots", "N", "texts that are generated at once (default 64)", &slots },
        { "--queue", "N", "texts that may wait for a slot (default 256)", &queue },
        { "--cache", "N", "capacity of the KV cache, in tokens (default: 4 contexts)", &cache },
        { "--keep", "N",
          "finished texts kept in the cache for reuse of their prefixes (default 32)", &keep },
        { "--kv", "DTYPE", "KV cache: f32, bf16, f16, int8 or int4 (default: as --dtype)", &kv },
        { "--chunk", "N", "prompt tokens per forward pass (default 64)", &chunk },
        { "--tokens", "N",
          "maximum number of new tokens per text (default: what the context allows)", &tokens },
        { "--temperature", "T",
          "temperature of requests that give none (default: the model's, or 1)", &temperature },
        { "--top-k", "K", "top-k of requests that give none; 0: all (default: the model's, or 0)",
          &top_k },
        { "--top-p", "P", "top-p of requests that give none (default: the model's, or 1)", &top_p },
        { "--body", "KIB", "largest request, in KiB (default 1024)", &body },
        { "--timeout", "S", "seconds for a request, from its arrival to its end (default 600)",
          &timeout },
        { "--receive", "S", "seconds for a client to send a request (default 30)", &receive },
        { "--drain", "S", "seconds for running requests after SIGINT or SIGTERM (default 30)",
          &drain },
        { "--threads", "N", "threads on the CPU (default: all cores)", &threads },
        { "--device", "D", "cpu or cuda (default cpu)", &device },
        { "--dtype", "D", "arithmetic: f32 or f64 (default f32)", &dtype },
        { "--exact", NULL, "multiply encoded weights as floats, without rounding activations",
          &p.exact },
        { "--seed", "N", "seed of the draws of requests that give none (default: random)", &seed },
        { "--quiet", NULL, "no line per request on standard error", &quiet },
        { "--json", "FILE|-", "write the totals as JSON at the end", &p.json },
        { 0 },
    };
    if (!ts_options(argc, argv, "serve [MODEL] [OPTION...]", options, &model, &status))
        return status;
    if (model && p.model) ts_complain("--model", "a model was named already");
    if (model && p.model) return TS_EXIT_USAGE;
    if (model) p.model = model;
    p.quiet = quiet;
    if ((seed && !ts_parse_u64("--seed", seed, &p.seed)) || !ts_find_model(&p.model) ||
        !ts_parse_count("--port", port, 0, 65535, &p.port) ||
        !ts_parse_count("--context", context, 2, MOST, &p.context) ||
        !ts_parse_count("--slots", slots, 1, MOST_AT_ONCE, &p.n_seq) ||
        !ts_parse_count("--queue", queue, 0, MOST_AT_ONCE, &p.n_wait) ||
        !ts_parse_count("--cache", cache, 2, MOST, &p.cache) ||
        !ts_parse_count("--keep", keep, 0, MOST_AT_ONCE, &p.n_keep) ||
        !ts_parse_count("--chunk", chunk, 1, MOST, &p.chunk) ||
        !ts_parse_count("--tokens", tokens, 1, MOST, &p.n_new) ||
        !ts_parse_count("--top-k", top_k, 0, MOST, &p.top_k) ||
        !ts_parse_real("--temperature", temperature, 0, 2, &p.temperature) ||
        !ts_parse_real("--top-p", top_p, 1e-6, 1, &p.top_p) ||
        !ts_parse_count("--body", body, 1, 1 << 20, &p.n_body) ||
        !ts_parse_real("--timeout", timeout, 0.1, 1e6, &p.request_s) ||
        !ts_parse_real("--receive", receive, 0.1, 1e6, &p.receive_s) ||
        !ts_parse_real("--drain", drain, 0, 1e6, &p.drain_s) ||
        !ts_parse_count("--threads", threads, 1, 1024, &p.n_threads) ||
        !ts_parse_dtype(dtype, &p.dtype) || !ts_parse_device(device, p.dtype, &p.device) ||
        !parse_store(kv, p.dtype, &p.store))
        return TS_EXIT_USAGE;
#if TS_HAVE_SERVE
    return ts_serve_run(&p);
#elif TS_HAVE_MODEL
    ts_complain(p.model, "the server is not available, built without libmicrohttpd; install "
                         "libmicrohttpd-dev and build again");
    return TS_EXIT_BROKEN;
#else
    ts_complain(p.model, "models are not available, built without jansson, CBLAS or PCRE2");
    return TS_EXIT_BROKEN;
#endif
}
