/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - `touchstone serve [MODEL]`: its options. serve_run.c runs the server, if the program
 * has the libraries that models and HTTP need. */
#include "serve_plan.h"

#include <string.h>

#ifndef TS_HAVE_SERVE
#define TS_HAVE_SERVE 0
#endif

enum { MOST_AT_ONCE = 4096, MOST_S = 1000000 };

/* Limits: of the cache, of what waits, and of times. */
static const ts_option *limits(ts_serve_plan *p)
{
    const ts_option all[] = {
        { "--context", "N", NULL,
          "maximum tokens per text, prompt included (default: the model's context, at most 4096)",
          .count = &p->context, .range = { 2, TS_MOST_TOKENS } },
        { "--slots", "N", "64", "texts that are generated at once", .count = &p->n_seq,
          .range = { 1, MOST_AT_ONCE } },
        { "--queue", "N", "256", "texts that may wait for a slot", .count = &p->n_wait,
          .range = { 0, MOST_AT_ONCE } },
        { "--cache", "N", NULL, "capacity of the KV cache, in tokens (default: 4 contexts)",
          .count = &p->cache, .range = { 2, TS_MOST_TOKENS } },
        { "--keep", "N", "32", "finished texts kept in the cache for reuse of their prefixes",
          .count = &p->n_keep, .range = { 0, MOST_AT_ONCE } },
        { "--tokens", "N", NULL,
          "maximum number of new tokens per text (default: what the context allows)",
          .count = &p->n_new, .range = { 1, TS_MOST_TOKENS } },
        { "--body", "KIB", "1024", "largest request, in KiB", .count = &p->n_body,
          .range = { 1, 1 << 20 } },
        { "--timeout", "S", "600", "seconds for a request, from its arrival to its end",
          .real = &p->request_s, .range = { 0.1, MOST_S } },
        { "--receive", "S", "30", "seconds for a client to send a request", .real = &p->receive_s,
          .range = { 0.1, MOST_S } },
        { "--drain", "S", "30", "seconds for running requests after SIGINT or SIGTERM",
          .real = &p->drain_s, .range = { 0, MOST_S } },
        { 0 },
    };
    static ts_option kept[sizeof all / sizeof *all];
    return memcpy(kept, all, sizeof all);
}

int ts_tool_serve(int argc, char **argv)
{
    ts_serve_plan   p = { .store = -1 };
    int             status;
    const ts_option options[] = {
        { "--host", "NAME", "127.0.0.1",
          "name or address to listen on; the default is this machine only", .text = &p.host },
        { "--port", "N", "8080", "port to listen on; 0: any free one", .count = &p.port,
          .range = { 0, 65535 } },
        { "--name", "NAME", NULL, "name of the model in the API (default: its file's name)",
          .text = &p.name },
        { "--api-key-file", "FILE", NULL,
          "clients must send the first line of FILE as bearer token", .text = &p.key_file },
        { "--template", "FILE", NULL, "chat template in Jinja (default: the model's)",
          .text = &p.template },
        { "--kv", "DTYPE", NULL, "KV cache (default: as --dtype)", .to = &p.store,
          .choices = ts_stores },
        { "", .more = limits(&p) },
        { "--temperature", "T", NULL,
          "temperature of requests that give none (default: the model's, or 1)",
          .real = &p.m.temperature, .range = { 0, 2 } },
        { "--top-k", "K", NULL,
          "top-k of requests that give none; 0: all (default: the model's, or 0)",
          .count = &p.m.top_k, .range = { 0, TS_MOST_TOKENS } },
        { "--top-p", "P", NULL, "top-p of requests that give none (default: the model's, or 1)",
          .real = &p.m.top_p, .range = { 1e-6, 1 } },
        { "--seed", "N", NULL, "seed of the draws of requests that give none (default: random)",
          .seed = &p.m.seed, .given = &p.seeded },
        { "--quiet", NULL, NULL, "no line per request on standard error", .flag = &p.quiet },
        { "", .more = ts_model_options(&p.m) },
        { "--json", "FILE|-", NULL, "write the totals as JSON at the end", .text = &p.m.json },
        { 0 },
    };
    if (!ts_model_parse(argc, argv, "serve [MODEL] [OPTION...]", options, &p.m, &status))
        return status;
#if TS_HAVE_SERVE
    return ts_serve_run(&p);
#elif TS_HAVE_MODEL
    ts_complain(p.m.model, "the server is not available, built without libmicrohttpd; install "
                           "libmicrohttpd-dev and build again");
    return TS_EXIT_BROKEN;
#else
    return ts_model_absent(p.m.model);
#endif
}
