/* SPDX-License-Identifier: Apache-2.0 */
/* compare_print.c - what changed between two logs, for a terminal. */
#include <string.h>

#include "compare.h"
#include "show.h"

/* Third-party text, safe on a terminal and at most n - 1 bytes long. */
typedef struct line {
    char s[128];
} line;

static line safe(const char *text, size_t n)
{
    line l;
    ts_show(text, strlen(text), l.s, n < sizeof l.s ? n : sizeof l.s);
    return l;
}

static const char *const KINDS[][2] = {
    { "lost", "lost" },           { "gained", "gained" },     { "verdict", "other verdict" },
    { "faults", "other faults" }, { "cases", "other cases" }, { "slower", "slower" },
    { "faster", "faster" },
};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

static bool is(const ts_record *r, const char *kind)
{
    return ts_record_is(r, "change") && !strcmp(ts_jr_text(r->root, "kind", ""), kind);
}

static void put_counts(const ts_record *at, size_t n, int64_t both, FILE *f)
{
    int64_t changed = 0;
    fprintf(f, "  of %lld answer%s in both logs:", (long long)both, both == 1 ? "" : "s");
    for (int k = 0; k < N_KINDS; k++) {
        int64_t here = 0;
        for (size_t i = 0; i < n; i++) here += is(&at[i], KINDS[k][0]);
        if (here) fprintf(f, "%s %lld %s", changed ? "," : "", (long long)here, KINDS[k][1]);
        changed += here;
    }
    if (changed) fprintf(f, "; %lld as before\n", (long long)(both - changed));
    else fprintf(f, " no change\n");
}

static void put_people(const ts_jr_node *people, FILE *f)
{
    for (size_t i = 0; i < ts_jr_len(people); i++) {
        const ts_jr_node *p = ts_jr_at(people, i), *was = ts_jr_get(p, "was");
        const ts_jr_node *now = ts_jr_get(p, "now");
        const line        name = safe(ts_jr_text(p, "name", ""), 40);
        double            a, b;
        if (!was || !now) {
            fprintf(f, "  %-40s %s\n", name.s, was ? "no longer there" : "only in this log");
            continue;
        }
        const int64_t x = ts_jr_whole(was, "passed", 0), of_x = ts_jr_whole(was, "entered", 0);
        const int64_t y = ts_jr_whole(now, "passed", 0), of_y = ts_jr_whole(now, "entered", 0);
        if (x == y && of_x == of_y) continue;
        fprintf(f, "  %-40s passed %lld of %lld entered, now %lld of %lld", name.s, (long long)x,
                (long long)of_x, (long long)y, (long long)of_y);
        if (ts_jr_num(ts_jr_get(was, "score"), &a) && ts_jr_num(ts_jr_get(now, "score"), &b))
            fprintf(f, "; score %.0f, now %.0f", a, b);
        fputc('\n', f);
    }
}

/* "FAIL 112/201" */
static line verdict(const ts_jr_node *side)
{
    const ts_jr_node *cases = ts_jr_get(side, "cases");
    int64_t           passed, run;
    const char       *name = ts_jr_text(side, "verdict", "-");
    line              l = safe(!strcmp(name, "PASS (common)") ? "common" : name, 16);
    if (ts_jr_int(ts_jr_at(cases, 0), &passed) && ts_jr_int(ts_jr_at(cases, 1), &run) && run > 0)
        snprintf(l.s + strlen(l.s), sizeof l.s - strlen(l.s), " %d/%d", (int)(passed % 1000000),
                 (int)(run % 1000000));
    return l;
}

static void put_score(const ts_jr_node *side, FILE *f)
{
    double score;
    if (ts_jr_num(ts_jr_get(side, "score"), &score)) fprintf(f, " %4.0f", score);
    else fprintf(f, " %4s", "-");
}

static void put_faults(const ts_jr_node *list, const char *what, FILE *f)
{
    for (size_t i = 0; i < ts_jr_len(list); i++)
        fprintf(f, "      %s: %s\n", what, safe(ts_jr_str(ts_jr_at(list, i)), 84).s);
}

static void put_change(const ts_jr_node *v, FILE *f)
{
    const ts_jr_node *was = ts_jr_get(v, "was"), *now = ts_jr_get(v, "now");
    fprintf(f, "  %-7s %-22s %-24s %-15s", safe(ts_jr_text(v, "kind", ""), 8).s,
            safe(ts_jr_text(v, "name", ""), 22).s, safe(ts_jr_text(v, "task", ""), 25).s,
            safe(verdict(was).s, 16).s);
    fprintf(f, " %-15s", safe(verdict(now).s, 16).s);
    put_score(was, f);
    put_score(now, f);
    fputc('\n', f);
    put_faults(ts_jr_get(v, "faults_new"), "new fault", f);
    put_faults(ts_jr_get(v, "faults_gone"), "gone", f);
    if (ts_jr_bool(ts_jr_get(v, "same_files"))) fprintf(f, "      same files\n");
}

/* Wrapped: names of machines are long. */
static void put_note(const char *text, FILE *f)
{
    enum { WIDTH = 97 };
    while (*text) {
        char   part[WIDTH + 1];
        size_t n = strlen(text);
        if (n > WIDTH) {
            for (n = WIDTH; n > WIDTH / 2 && text[n] != ' ';) n--;
            if (text[n] != ' ') n = WIDTH;
        }
        snprintf(part, sizeof part, "%.*s", (int)n, text);
        fprintf(f, "  %s\n", safe(part, WIDTH + 1).s);
        text += n;
        text += *text == ' ';
    }
}

void ts_compare_print(const ts_record *at, size_t n, FILE *f)
{
    const ts_jr_node *v = NULL;
    bool              any = false, same = false;
    for (size_t i = 0; i < n && !v; i++)
        if (ts_record_is(&at[i], "against")) v = at[i].root;
    if (!v) return;
    fprintf(f, "\nChanges since %s", safe(ts_jr_text(v, "label", ""), 60).s);
    fprintf(f, ", %s\n", safe(ts_jr_text(v, "started", ""), 24).s);
    put_note(ts_jr_text(v, "note", ""), f);
    put_counts(at, n, ts_jr_whole(v, "both", 0), f);
    put_people(ts_jr_get(v, "people"), f);
    for (int k = 0; k < N_KINDS; k++)
        for (size_t i = 0; i < n; i++) {
            if (!is(&at[i], KINDS[k][0])) continue;
            if (!any)
                fprintf(f, "\n  %-7s %-22s %-24s %-15s %-15s %4s %4s\n", "change", "entrant",
                        "challenge", "was", "now", "was", "now");
            any = true;
            put_change(at[i].root, f);
            same |= ts_jr_bool(ts_jr_get(at[i].root, "same_files"));
        }
    if (same)
        fprintf(f, "\n  same files: the entrant did not change; other cases were drawn, or the "
                   "machine differed\n");
}
