/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tool.h"

static const struct {
    const char *name;
    int (*run)(const ts_demo_args *a);
} demos[] = {
    { "cancellation", ts_demo_cancellation },
    { "gradients", ts_demo_gradients },
};

int ts_tool_demo(int argc, char **argv)
{
    const char     *json = NULL, *seed = NULL, *svg = NULL, *name = NULL;
    const ts_option options[] = {
        { "--svg", "FILE", "also draw a plot (cancellation)", &svg },
        { "--json", "FILE|-", "the numbers as JSON", &json },
        { "--seed", "N", "seed of the inputs (default 0x5eed)", &seed },
        { 0 },
    };
    ts_demo_args a = { .seed = 0x5eed };
    int          status;
    if (!ts_options(argc, argv,
                    "demo NAME [OPTION...]\n\n"
                    "  cancellation   the variance of values far from zero, four ways\n"
                    "  gradients      the backward pass verified in four ways",
                    options, &name, &status))
        return status;
    if (seed && !ts_parse_u64("--seed", seed, &a.seed)) return TS_EXIT_USAGE;
    for (size_t i = 0; name && i < sizeof demos / sizeof *demos; i++) {
        if (strcmp(name, demos[i].name)) continue;
        if (!ts_json_open(json, &a.json)) return TS_EXIT_USAGE;
        a.svg = svg;
        a.table = json && !strcmp(json, "-") ? NULL : stdout;
        ts_json_text(a.json, "demo", name);
        ts_json_int(a.json, "seed", (int64_t)a.seed);
        status = demos[i].run(&a);
        return ts_json_close(json, a.json) ? status : TS_EXIT_BROKEN;
    }
    fprintf(stderr, "touchstone demo: got '%s', expected cancellation or gradients\n",
            name ? name : "");
    return TS_EXIT_USAGE;
}
