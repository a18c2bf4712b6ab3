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

/* Whether the plot can be written, before the demo takes its time. Keeps what the file has. */
static bool writable(const char *path)
{
    FILE *f = fopen(path, "a");
    if (!f) fprintf(stderr, "touchstone demo: --svg: %s: %s\n", path, strerror(errno));
    return f && fclose(f) == 0;
}

int ts_tool_demo(int argc, char **argv)
{
    const char     *json = NULL, *seed = NULL, *svg = NULL, *name = NULL;
    const ts_option options[] = {
        { "--svg", "FILE", "also draw a plot (not for gradients, gqa, prefix, ragged)", &svg },
        { "--json", "FILE|-", "write the numbers as JSON", &json },
        { "--seed", "N", "seed of the inputs (default 0x5eed)", &seed },
        { 0 },
    };
    ts_demo_args a = { .seed = 0x5eed };
    int          status;
    if (!ts_options(argc, argv, usage(), options, &name, &status)) return status;
    if (seed && !ts_parse_u64("--seed", seed, &a.seed)) return TS_EXIT_USAGE;
    if (name && !strcmp(name, "quantized")) name = "quantised";
    for (int i = 0; name && i < N_DEMOS; i++) {
        if (strcmp(name, demos[i].name)) continue;
        if (svg && !demos[i].plots) {
            fprintf(stderr, "touchstone demo: --svg: got %s, which has no plot, expected one of",
                    name);
            for (int k = 0; k < N_DEMOS; k++)
                if (demos[k].plots) fprintf(stderr, " %s", demos[k].name);
            fprintf(stderr, "\n");
            return TS_EXIT_USAGE;
        }
        if (svg && !writable(svg)) return TS_EXIT_BROKEN;
        if (!ts_json_open(json, &a.json)) return TS_EXIT_USAGE;
        a.svg = svg;
        a.table = json && !strcmp(json, "-") ? NULL : stdout;
        ts_json_text(a.json, "demo", name);
        ts_json_int(a.json, "seed", (int64_t)a.seed);
        status = demos[i].run(&a);
        return ts_json_close(json, a.json) ? status : TS_EXIT_BROKEN;
    }
    fprintf(stderr, "touchstone demo: got %s%s%s, expected one of", name ? "'" : "",
            name ? name : "nothing", name ? "'" : "");
    for (int i = 0; i < N_DEMOS; i++) fprintf(stderr, " %s", demos[i].name);
    fprintf(stderr, "\n");
    return TS_EXIT_USAGE;
}
