/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.c - `touchstone evaluate [MODEL] --text FILE`: its options. evaluate_run.c evaluates, if
 * the program has the libraries that models need. */
#include "evaluate.h"

int ts_tool_evaluate(int argc, char **argv)
{
    ts_evaluate_plan p = { 0 };
    int              status;
    const ts_option  options[] = {
         { "--text", "FILE|-", NULL, "text to evaluate, UTF-8; -: standard input", .text = &p.text },
         { "--context", "N", NULL, "tokens per window (default: the model's context, at most 2048)",
           .count = &p.context, .range = { 2, TS_MOST_TOKENS } },
         { "--stride", "N", NULL,
           "tokens from the start of a window to that of the next (default: N)", .count = &p.stride,
           .range = { 1, TS_MOST_TOKENS } },
         { "--seed", "N", NULL, "accepted for uniformity; nothing is drawn", .seed = &p.m.seed },
         { "", .more = ts_model_options(&p.m) },
         { "--json", "FILE|-", NULL, "write the figures as JSON", .text = &p.m.json },
         { 0 },
    };
    if (!ts_model_parse(argc, argv, "evaluate [MODEL] --text FILE [OPTION...]", options, &p.m,
                        &status))
        return status;
    if (!p.text) ts_complain("--text", "missing; expected a file, or - for standard input");
    if (!p.text) return TS_EXIT_USAGE;
#if TS_HAVE_MODEL
    return ts_evaluate_text(&p);
#else
    return ts_model_absent(p.m.model);
#endif
}
