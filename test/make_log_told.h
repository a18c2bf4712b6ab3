/* SPDX-License-Identifier: Apache-2.0 */
/* make_log_told.h - what a verdict of make_log.c says of cases: counts, and faults in words. */
#ifndef TS_MAKE_LOG_TOLD_H
#define TS_MAKE_LOG_TOLD_H

#include "json.h"
#include "make_log_world.h"

static void ratio(ts_jw *w, const char *key, int passed, int all)
{
    ts_jw_open(w, key, '[');
    ts_jw_int(w, NULL, passed);
    ts_jw_int(w, NULL, all);
    ts_jw_close(w, ']');
}

static void counts(ts_jw *w, int passed, int run, int drawn)
{
    static const char *const names[] = { "normal", "offset", "masked", "huge" };
    ts_jw_open(w, "cases", '[');
    ts_jw_int(w, NULL, passed);
    ts_jw_int(w, NULL, run);
    ts_jw_int(w, NULL, drawn);
    ts_jw_close(w, ']');
    ts_jw_open(w, "families", '{');
    for (int i = 0, wrong = run - passed; i < 4 && run; i++) {
        const int all = i < 3 ? run / 4 : run - 3 * (run / 4), bad = wrong < all ? wrong : all;
        wrong -= bad;
        ratio(w, names[3 - i], all - bad, all);
    }
    ts_jw_close(w, '}');
}

static void fault(ts_jw *w, int task, const char *reason, const char *family, int n,
                  const char *words)
{
    char which[200];
    snprintf(which, sizeof which, "%s/%s@0x5eed%d", TASKS[task], case_of(task, 1), task);
    ts_jw_open(w, NULL, '{');
    ts_jw_text(w, "reason", reason);
    ts_jw_text(w, "text", "value: o[0][511] got 1.53125, want 1.49998474 +- 3.1e-05");
    ts_jw_text(w, "case", which);
    ts_jw_text(w, "family", family);
    ts_jw_int(w, "n", n);
    ts_jw_text(w, "words", words);
    ts_jw_close(w, '}');
}

/* Of an answer that failed `n` cases; the hostile one is behind a sentence of the judge's. */
static void faults(ts_jw *w, int who, int task, const char *reason, int n)
{
    static const char *const said[] = {
        "behaves like a kernel without the causal mask",
        "behaves like a kernel that adds eps outside of the root",
        "fails where rows have no unmasked key",
        "",
    };
    const bool  value = !strcmp(reason, "value") || !strcmp(reason, "unwritten");
    const bool  ends = !strcmp(reason, "crash") || !strcmp(reason, "hang");
    const char *words = ends     ? "fails only when rows <= 1"
                        : !value ? ""
                        : !crowded && !models && who == 4
                            ? "behaves like <img src=x onerror=alert(1)>"
                            : said[(who / 3 + task / 2) % 4];
    const int   first = value ? n - n / 4 : n;
    ts_jw_open(w, "faults", '[');
    if (n) fault(w, task, reason, value ? "masked" : "huge", first, words);
    if (n > first) fault(w, task, "crash", "empty", n - first, "crashes for a single row");
    ts_jw_close(w, ']');
    ts_jw_text(w, "words", words);
}

#endif
