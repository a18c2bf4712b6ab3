/* SPDX-License-Identifier: Apache-2.0 */
/* chat.c - `touchstone chat [MODEL]`: its options. chat_run.c talks, if the program has the
 * libraries that models need. */
#include "chat.h"

int ts_tool_chat(int argc, char **argv)
{
    ts_chat_plan    p = { 0 };
    int             status;
    const ts_option options[] = {
        { "--template", "FILE", NULL, "chat template in Jinja (default: the model's)",
          .text = &p.template },
        { "--system", "TEXT", NULL, "system message", .text = &p.system },
        { "--tokens", "N", "512", "maximum number of tokens per answer", .count = &p.n_new,
          .range = { 1, TS_MOST_TOKENS } },
        { "--context", "N", NULL,
          "tokens of a conversation (default: the model's context, at most 4096)",
          .count = &p.context, .range = { 2, TS_MOST_TOKENS } },
        { "", .more = ts_sampling_options(&p.m) },
        { "", .more = ts_model_options(&p.m) },
        { "--json", "FILE|-", NULL, "write messages, answers and figures as JSON",
          .text = &p.m.json },
        { 0 },
    };
    if (!ts_model_parse(argc, argv, "chat [MODEL] [OPTION...]", options, &p.m, &status))
        return status;
#if TS_HAVE_MODEL
    return ts_chat_run(&p);
#else
    return ts_model_absent(p.m.model);
#endif
}
