/* SPDX-License-Identifier: Apache-2.0 */
/* demo.c - `touchstone demo`: the list of demos, and its options. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "demo.h"

#ifndef TS_HAVE_MODEL
#define TS_HAVE_MODEL 0
#endif

static const struct {
    const char *name, *what;
    int (*run)(const ts_demo_args *a);
    bool plots; /* takes --svg */
} demos[] = {
    { "cancellation", "variance of values far from zero, by four methods", ts_demo_cancellation,
      true },
    { "gradients", "layer norm gradients verified by independent methods (about 8 s)",
      ts_demo_gradients, false },
    { "flash", "tiled attention: memory, time, and softmax by tiles", ts_demo_flash, true },
    { "gqa", "KV cache size when query heads share keys and values", ts_demo_gqa, false },
    { "paged", "paged cache against reservations: use, waste, refilling", ts_demo_paged, true },
    { "cage", "guard pages and bands: what catches a stray access", ts_demo_cage, true },
    { "prefix", "forks that share a prefix; the first write copies a page", ts_demo_prefix, false },
#if TS_HAVE_MODEL
    { "cache", "generation with the KV cache against recomputation (about 8 s)", ts_demo_cache,
      true },
    { "ragged", "different lengths in one batch, and the cost of padding (about 14 s)",
      ts_demo_ragged, false },
    { "chunked", "chunked prefill: less workspace, equal logits (about 19 s)", ts_demo_chunked,
      true },
    { "quantised", "quantised caches: bytes, error, KL, changed tokens", ts_demo_quantised, true },
    { "sampling", "temperature, top-k, top-p: samples against their distribution", ts_demo_sampling,
      true },
    { "beam", "beam search step by step; beams as forks of the cache", ts_demo_beam, true },
    { "tree", "speculative decoding with draft trees, several tokens per pass", ts_demo_tree,
      true },
#endif
};
enum { N_DEMOS = sizeof demos / sizeof demos[0] };

void ts_demo_progress(const char *what, int64_t done, int64_t n)
{
    if (!isatty(STDERR_FILENO)) return;
    if (done < n) fprintf(stderr, "\r\x1b[K%s: %lld of %lld", what, (long long)done, (long long)n);
    else fputs("\r\x1b[K", stderr);
    fflush(stderr);
}

int ts_demo_end(const ts_demo_args *a, bool passed, bool drawn)
{
    ts_json_bool(a->json, "passed", passed);
    return !drawn ? TS_EXIT_BROKEN : passed ? TS_EXIT_PASSED : TS_EXIT_FAILED;
}

/* The usage text, with a line per demo. */
static const char *usage(void)
{
    static char text[2048];
    int         n = snprintf(text, sizeof text, "demo NAME [OPTION...]\n");
    for (int i = 0; i < N_DEMOS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "\n  %-14s %s", demos[i].name,
                      demos[i].what);
    if (!TS_HAVE_MODEL)
        snprintf(
            text + n, sizeof text - (size_t)n,
            "\n\n  Demos that need a model are missing: built without jansson, CBLAS or PCRE2.");
    return text;
}

/* " a b c", of those that plot, or of all. */
static const char *names(bool plots)
{
    static char text[256];
    int         n = 0;
    for (int i = 0; i < N_DEMOS; i++)
        if (demos[i].plots || !plots)
            n += snprintf(text + n, sizeof text - (size_t)n, " %s", demos[i].name);
    return text;
}

/* Whether the plot can be written, before the demo takes its time. Keeps what the file has. */
static bool writable(const char *path)
{
    FILE *f = fopen(path, "a");
    return f ? fclose(f) == 0 : ts_fail("--svg: %s: %s", path, strerror(errno));
}

int ts_tool_demo(int argc, char **argv)
{
    const char     *json = NULL, *name = NULL;
    ts_demo_args    a = { 0 };
    int             status;
    const ts_option options[] = {
        { "--svg", "FILE", NULL, "also draw a plot (not for gradients, gqa, prefix, ragged)",
          .text = &a.svg },
        { "--json", "FILE|-", NULL, "write the numbers as JSON", .text = &json },
        { "--seed", "N", "0x5eed", "seed of the inputs", .seed = &a.seed },
        { 0 },
    };
    if (!ts_options(argc, argv, usage(), options, &name, 1, &status)) return status;
    if (name && !strcmp(name, "quantized")) name = "quantised";
    for (int i = 0; name && i < N_DEMOS; i++) {
        if (strcmp(name, demos[i].name)) continue;
        if (a.svg && !demos[i].plots)
            return ts_fail("--svg: got %s, which has no plot, expected one of%s", name,
                           names(true)),
                   status;
        if (a.svg && !writable(a.svg)) return TS_EXIT_BROKEN;
        if (!ts_json_open(json, &a.json)) return status;
        a.table = ts_json_beside(json, NULL);
        ts_json_text(a.json, "demo", name);
        ts_json_int(a.json, "seed", (int64_t)a.seed);
        status = demos[i].run(&a);
        return ts_json_close(json, a.json) ? status : TS_EXIT_BROKEN;
    }
    ts_fail("got %s%s%s, expected one of%s", name ? "'" : "", name ? name : "nothing",
            name ? "'" : "", names(false));
    return status;
}
