/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the scoreboard on a terminal: table, legend, head to head, challenges. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"
#include "match.h"
#include "show.h"

enum {
    NAME = 15,
    LONG_NAME = 27, /* in the scoreboard */
    CLASS = 10,
    MOST_FAULTS = 4,
    CELLS = 6 /* columns of the matrix that fit next to the names */
};

/* Third-party text in exactly `width` columns; in at most -width columns if that is negative. Only
 * ASCII and Latin letters are printed unchanged: no escape sequences, no direction overrides, no
 * characters of unknown width. */
typedef struct shown {
    char s[256];
} shown;

static shown show(const char *text, int width)
{
    shown  out = { { 0 } };
    char  *q = out.s;
    size_t left = strlen(text);
    int    at = 0, room = abs(width);
    while (left && at < room) {
        uint32_t   c = 0;
        const int  n = ts_utf8(text, left, &c);
        const bool plain = n && ((c >= 32 && c < 127) || (c > 0xa0 && c < 0x250 && c != 0xad));
        const int  last = at == room - 1 && left > (size_t)(n ? n : 1);
        if (last) *q++ = '~';
        else if (plain) memcpy(q, text, (size_t)n), q += n;
        else *q++ = '?';
        text += n ? n : 1;
        left -= (size_t)(n ? n : 1);
        at++;
    }
    while (at++ < width) *q++ = ' ';
    return out;
}

/* "gpt #3": the third answer of a model. */
static shown name_of(const ts_entrant_row *r, int width)
{
    char        text[320];
    const char *which = r->sample ? r->sample : "";
    const char *digits = which + strcspn(which, "0123456789");
    if (!strncmp(which, "sample", 6) && *digits) which = digits;
    if (!*which) return show(r->name, width);
    const int room = abs(width) - (int)strlen(which) - 2;
    snprintf(text, sizeof text, "%s #%.60s", show(r->name, -(room > 4 ? room : 4)).s, which);
    return show(text, width);
}

static void heading(FILE *f, const char *title)
{
    fprintf(f, "\n%s\n", show(title, -99).s);
}

static void percent(FILE *f, double share)
{
    if (share > 0) fprintf(f, " %*.*f %%", 6, share < 9.9995, 100 * share);
    else fprintf(f, "%9s", "-");
}

static bool rated(const ts_board *b)
{
    for (size_t i = 0; i < b->n_overall; i++)
        if (b->overall[i].rank) return true;
    return false;
}

static void scoreboard(const ts_board *b, FILE *f)
{
    heading(f, "Scoreboard");
    fprintf(f, "  #  %-*s %-10s %6s %9s%9s %6s %5s%s\n", LONG_NAME, "entrant", "class", "passed",
            "of limit", "of best", "score", "grade", rated(b) ? " rating group" : "");
    for (size_t i = 0; i < b->n_overall; i++) {
        const ts_entrant_overall *c = &b->overall[i];
        const ts_entrant_row     *r = &b->row[c->first];
        fprintf(f, "%3zu  %s %s %3d/%-2zu ", i + 1, show(r->name, LONG_NAME).s,
                show(c->klass, CLASS).s, c->passed, b->n_challenges);
        percent(f, c->S);
        percent(f, c->of_best);
        if (c->passed && !c->scored) fprintf(f, " %6s %5s", "-", c->grade); /* not timed */
        else fprintf(f, " %6.0f %5s", c->score, c->grade);
        if (c->rank)
            fprintf(f, " %6.0f %5.0f", ts_jr_number(c->rank, "rating", 0),
                    ts_jr_number(c->rank, "rank", 0));
        fputc('\n', f);
    }
}

/* Passed of entered, where an entrant did not enter all challenges. */
static void entered(const ts_board *b, FILE *f)
{
    bool any = false;
    for (size_t i = 0; i < b->n_overall; i++) {
        const ts_entrant_overall *c = &b->overall[i];
        if (c->entered >= (int)b->n_challenges) continue;
        if (!any)
            fprintf(f,
                    "\n  passed is of all %zu challenges, and ranks; of those entered (does not "
                    "rank):\n",
                    b->n_challenges);
        any = true;
        fprintf(f, "    %s %3d/%-2d\n", show(b->row[c->first].name, LONG_NAME).s, c->passed,
                c->entered);
    }
}

static bool has_samples(const ts_board *b)
{
    bool any = false;
    for (size_t i = 0; i < b->n_overall; i++) any |= b->overall[i].samples.n > 1;
    return any;
}

/* Where there are models with several answers to a challenge. */
static void samples(const ts_board *b, FILE *f)
{
    if (!has_samples(b)) return;
    heading(f,
            "Several answers per challenge: chances that one answer, and one of k, passes; scores");
    fprintf(f, "  k: the least number of answers to a challenge\n");
    fprintf(f, "  #  %-*s %7s %7s %3s %7s %6s %6s %6s\n", LONG_NAME, "entrant", "answers", "pass@1",
            "k", "pass@k", "mean", "best", "median");
    for (size_t i = 0; i < b->n_overall; i++) {
        const ts_entrant_overall *c = &b->overall[i];
        const ts_samples         *s = &c->samples;
        fprintf(f, "%3zu  %s %7d %7.3f %3d %7.3f", i + 1, show(b->row[c->first].name, LONG_NAME).s,
                s->n, s->pass_1, s->k, s->pass_k);
        if (c->passed && !c->scored) fprintf(f, " %6s %6s %6s\n", "-", "-", "-"); /* not timed */
        else fprintf(f, " %6.0f %6.0f %6.0f\n", c->score, s->best, s->median);
    }
}

static bool has_class(const ts_board *b, const char *name)
{
    for (size_t i = 0; i < b->n_rows; i++)
        if (!strcmp(b->row[i].klass, name)) return true;
    return false;
}

static bool has_verdict(const ts_board *b, const char *name)
{
    for (size_t i = 0; i < b->n_rows; i++)
        if (!strcmp(ts_jr_text(b->row[i].verdict, "verdict", ""), name)) return true;
    return false;
}

/* The version that score and "of best" are relative to, by class: "Anchors" in doc/judge.md. */
static void best_known(const ts_board *b, FILE *f)
{
    static const char *const of[] = { "sealed and host: the library in C", "python: NumPy",
                                      "classes on a GPU: the library on CUDA" };
    bool                     some[3] = { false };
    for (size_t i = 0; i < b->n_rows; i++) {
        const char *k = b->row[i].klass;
        if (ts_jr_number(b->row[i].score, "of_best", 0) <= 0) continue;
        if (!strcmp(k, "sealed") || !strcmp(k, "host")) some[0] = true;
        else some[strcmp(k, "python") ? 2 : 1] = true;
    }
    for (int i = 0; i < 3; i++)
        if (some[i]) fprintf(f, "  best known version for %s\n", of[i]);
    if (some[0] + some[1] + some[2] > 1)
        fprintf(f, "            of best and score of these are on different scales; of limit and "
                   "matches compare them\n");
}

/* Explains the columns that this board has; page/words.js has the long version. */
static void legend(const ts_board *b, FILE *f)
{
    static const char *const classes[][2] = {
        { "sealed", "C without operating system, library or clock" },
        { "host", "C, C++ or a shared library, with threads, in a sandbox" },
        { "python", "Python with NumPy, in a sandbox" },
        { "sealed-gpu", "GPU kernels only, launched by the judge" },
        { "host-gpu", "GPU kernels with host code, in a sandbox" },
        { "python-gpu", "Python with PyTorch, Triton or CuPy, in a sandbox" },
    };
    static const char *const verdicts[][2] = {
        { "PASS (common)", "correct by the usual contract, but an additional rule is broken" },
        { "AUDIT", "faster than this machine can be; no score until a person has reviewed it" },
        { "ERROR", "the judge failed; this says nothing about the entrant" },
    };
    fprintf(
        f,
        "\n  of limit  least possible time (floor) / measured time\n"
        "  of best   time of the class's best known version / measured time, same run and machine\n"
        "  score     250 at the time of the class's textbook version, 800 at that of its best "
        "known,\n            1000 at the floor, logarithmic in time;\n            x "
        "robustness^0.15 x precision^0.10 x memory^0.05 x share^0.5;\n            mean over all "
        "challenges%s, where one that was not passed counts 0;\n            entrants are ranked by "
        "%s, then by score, then by cases passed\n"
        "  share     of the challenge that the entrant offers\n"
        "  cases     correctness cases passed / run, by the usual contract;\n            among "
        "failed entrants "
        "their share ranks\n"
        "  grade     A+ from 900, A 800, B 650, C 450, D 250, E below; F: nothing passed\n",
        has_samples(b) ? " of the mean over their answers" : "",
        has_samples(b) ? "pass@1" : "challenges passed");
    best_known(b, f);
    if (rated(b))
        fprintf(f, "  rating    from head-to-head matches; 400 more: odds of 10 to 1; in a group "
                   "no difference is sure\n");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (has_class(b, classes[i][0])) fprintf(f, "  %s: %s\n", classes[i][0], classes[i][1]);
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
        if (has_verdict(b, verdicts[i][0]))
            fprintf(f, "  %s: %s\n", verdicts[i][0], verdicts[i][1]);
}

/* Small differences in percent of the column's speed, large ones as a factor: half the speed is
 * -50 %, twice the speed +100 %. */
static void cell(const ts_head_to_head *p, bool self, FILE *f)
{
    char         s[64], by[24];
    const double ratio = exp(fabs(p->margin));
    const bool   slow = p->margin < 0;
    const double part = 100 * (slow ? 1 - 1 / ratio : ratio - 1);
    if (ratio < 1.995) snprintf(by, sizeof by, "%c%.*f%%", "+-"[slow], part < 9.95, part);
    else snprintf(by, sizeof by, "%c%.*f", "x/"[slow], ratio < 9.95, fmin(ratio, 9999));
    if (self) snprintf(s, sizeof s, "=");
    else if (!(p->won + p->lost + p->tied)) snprintf(s, sizeof s, ".");
    else snprintf(s, sizeof s, "%d-%d-%d %s", p->won, p->lost, p->tied, by);
    fprintf(f, " %11s", s);
}

static void matrix(const ts_board *b, FILE *f)
{
    const size_t all = b->n_overall, n = all < TS_CROWD ? all : TS_CROWD;
    int          met = 0;
    for (size_t i = 0; b->pair && i < all * all; i++) met += b->pair[i].won + b->pair[i].tied;
    if (!met) return;
    heading(f, "Head to head: matches won-lost-tied; the row is faster by +% or a factor x, slower "
               "by -% or /");
    for (size_t from = 0; from < n; from += CELLS) {
        fprintf(f, "     %-*s", NAME, "");
        for (size_t j = from; j < n && j < from + CELLS; j++) fprintf(f, " %11zu", j + 1);
        fputc('\n', f);
        for (size_t i = 0; i < n; i++) {
            fprintf(f, "%3zu  %s", i + 1, show(b->row[b->overall[i].first].name, NAME).s);
            for (size_t j = from; j < n && j < from + CELLS; j++)
                cell(&b->pair[i * all + j], i == j, f);
            fputc('\n', f);
        }
    }
}

/* A whole text, filtered like `show`: a truncated command would be useless. */
static void put(const char *text, FILE *f)
{
    for (const size_t step = 60; *text;) {
        char   part[64];
        size_t n = strlen(text);
        if (n > step) n = step;
        while (text[n] && n > 1 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
        snprintf(part, sizeof part, "%.*s", (int)n, text);
        fputs(show(part, -(int)step).s, f);
        text += n;
    }
}

/* A text of several lines, indented and wrapped. */
static void paragraph(const char *text, FILE *f)
{
    enum { WIDTH = 90 };
    while (*text) {
        char   line[WIDTH + 1];
        size_t n = strlen(text);
        if (n > WIDTH) {
            for (n = WIDTH; n > WIDTH / 2 && text[n] != ' ';) n--;
            if (text[n] != ' ') n = WIDTH;
            while (n > 1 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
        }
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        fprintf(f, "\n       %s", show(line, -WIDTH).s);
        text += n;
        text += *text == ' ';
    }
}

/* One element: got, want, bound. `index` is a number or a text. */
static void element(const ts_jr_node *v, FILE *f)
{
    int64_t i;
    fprintf(f, "\n       at ");
    if (ts_jr_int(ts_jr_get(v, "index"), &i)) fprintf(f, "%lld", (long long)i);
    else fprintf(f, "%s", show(ts_jr_text(v, "index", "?"), -30).s);
    const double bound = ts_jr_number(v, "bound", (double)NAN);
    fprintf(f, " got %.10g, want %.10g", ts_jr_number(v, "got", (double)NAN),
            ts_jr_number(v, "want", (double)NAN));
    if (bound != 0) fprintf(f, " +- %.2g", bound);
}

/* The command that reproduces a flaw, with the program as it was called, since a build folder is
 * not in PATH. A program whose path a shell would split is called touchstone. */
static void put_command(const char *replay, const char *program, FILE *f)
{
    static const char name[] = "touchstone ", safe[] = "_.+-/@%:,";
    const char       *c = program && strchr(program, '/') ? program : " ";
    while (isalnum((unsigned char)*c) || (*c && strchr(safe, *c))) c++;
    if (!*c && !strncmp(replay, name, strlen(name))) {
        put(program, f);
        replay += strlen(name) - 1;
    }
    put(replay, f);
}

/* The fault that the words of a verdict are about; the verdict, if it is not among its faults. */
static const ts_jr_node *named_fault(const ts_jr_node *verdict)
{
    const ts_jr_node *list = ts_jr_get(verdict, "faults");
    const char       *words = ts_jr_text(verdict, "words", "");
    for (size_t i = 0; i < ts_jr_len(list); i++)
        if (!strcmp(ts_jr_text(ts_jr_at(list, i), "words", ""), words)) return ts_jr_at(list, i);
    return verdict;
}

/* The cases that were not run, and the faults other than the one that the verdict names. */
static void faults(const ts_entrant_row *r, FILE *f)
{
    const ts_jr_node  *list = ts_jr_get(r->verdict, "faults");
    const ts_row_cases n = ts_row_cases_of(r);
    const char        *named = ts_jr_text(r->verdict, "text", "");
    char               line[640];
    ts_fault_words(named_fault(r->verdict), line, sizeof line);
    paragraph(line, f);
    if (n.run < n.drawn) {
        snprintf(line, sizeof line, "%d of %d cases were run", n.run, n.drawn);
        paragraph(line, f);
    }
    for (size_t i = 0; i < ts_jr_len(list) && i < MOST_FAULTS; i++) {
        const ts_jr_node *at = ts_jr_at(list, i);
        const char       *text = ts_jr_text(at, "text", "");
        const int         in = (int)ts_jr_whole(at, "n", 0);
        if (!strcmp(text, named)) continue;
        snprintf(line, sizeof line, "also, in %d case%s: %.500s", in, in == 1 ? "" : "s", text);
        paragraph(line, f);
    }
}

/* "in 27 of 73 cases: equal logits are ordered by index ...": how often the canon is broken. */
static void rule(const ts_entrant_row *r, const char *text, FILE *f)
{
    const int common = (int)ts_jr_whole(r->verdict, "common", 0);
    char      line[640];
    snprintf(line, sizeof line, "in %d of %d cases: %.560s", common, ts_row_cases_of(r).run, text);
    paragraph(common && ts_row_passed(r, false) ? line : text, f);
}

static void flaw(const ts_entrant_row *r, const char *program, FILE *f)
{
    const ts_jr_node *v = r->verdict;
    const char       *which = ts_jr_text(v, "case", "");
    double            got;
    const char       *weak = ts_jr_text(v, "robustness_text", "");
    const char       *more = ts_jr_text(v, "optional_examined", "");
    const char       *lacks = ts_jr_text(v, "unsupported", "");
    const char       *text = ts_jr_text(v, "text", ""), *replay = ts_jr_text(v, "replay", "");
    if (*r->offers) {
        char share[24]; /* two digits below 10 % */
        snprintf(share, sizeof share, r->share < 0.1 ? "%.2g" : "%.0f", 100 * r->share);
        fprintf(f, "     %s offers %s %% of the challenge:", name_of(r, -NAME).s, share);
        paragraph(r->offers, f);
        fputc('\n', f);
    }
    if (*ts_jr_text(v, "not_timed", ""))
        fprintf(f, "     %s: not timed: %s\n", name_of(r, -NAME).s,
                show(ts_jr_text(v, "not_timed", ""), -72).s);
    const ts_jr_node *part = ts_jr_get(v, "timed_workloads");
    int64_t           n_timed, n_all;
    if (ts_jr_int(ts_jr_at(part, 0), &n_timed) && ts_jr_int(ts_jr_at(part, 1), &n_all))
        fprintf(f, "     %s: timed in %lld of %lld workloads: no others are within its offers\n",
                name_of(r, -NAME).s, (long long)n_timed, (long long)n_all);
    if (*lacks)
        fprintf(f, "     %s: unsupported dtypes: %s\n", name_of(r, -NAME).s, show(lacks, -72).s);
    if (*more)
        fprintf(f, "     %s: optional functions examined: %s\n", name_of(r, -NAME).s,
                show(more, -72).s);
    if (*weak) fprintf(f, "     %s: %s\n", name_of(r, -NAME).s, show(weak, -72).s);
    if (!v || ts_row_passed(r, true)) return;
    if (*r->block) fprintf(f, "     %s: %s\n", name_of(r, -NAME).s, show(r->block, -72).s);
    fprintf(f, "     %s:", name_of(r, -NAME).s);
    if (*which) fprintf(f, " %s", show(which, -76).s);
    if (*text) rule(r, text, f);
    else if (*which && ts_jr_num(ts_jr_get(v, "got"), &got)) element(v, f);
    if (!ts_row_passed(r, false)) faults(r, f);
    if (*replay) {
        fprintf(f, "\n       ");
        put_command(replay, program, f);
    }
    fputc('\n', f);
}

static void entrant(const ts_entrant_row *r, size_t place, FILE *f)
{
    const ts_jr_node *v = r->verdict, *cells = ts_jr_get(v, "robustness");
    char              verdict[64], robust[24] = "-", count[32] = "-";
    double            passed = 0, all = 0, x;
    const bool        pass = ts_row_passed(r, false);
    snprintf(verdict, sizeof verdict, "%.20s%s%.30s", ts_jr_text(v, "verdict", "not judged"),
             pass || !v ? "" : " ", pass ? "" : ts_jr_text(v, "reason", ""));
    for (size_t i = 0; i < ts_jr_len(cells); i++) {
        passed += ts_jr_num(ts_jr_at(ts_jr_at(cells, i), 0), &x) ? x : 0;
        all += ts_jr_num(ts_jr_at(ts_jr_at(cells, i), 1), &x) ? x : 0;
    }
    if (all > 0) snprintf(robust, sizeof robust, "%.0f/%.0f", passed, all);
    const ts_row_cases cases = ts_row_cases_of(r);
    if (cases.run) snprintf(count, sizeof count, "%d/%d", cases.passed, cases.run);
    fprintf(f, "%3zu  %s %s %s %9s", place, name_of(r, NAME).s, show(r->klass, CLASS).s,
            show(verdict, 14).s, count);
    percent(f, pass ? ts_jr_number(r->score, "S", 0) : 0);
    percent(f, pass ? ts_jr_number(r->score, "of_best", 0) : 0);
    const bool called = ts_jr_number(v, "calls", 1) > 0;
    /* Of one that failed otherwise, the error of what it did before says little. */
    if (called && ts_jr_num(ts_jr_get(v, "worst"), &x) && (pass || x > 1)) fprintf(f, " %8.2g", x);
    else fprintf(f, " %8s", "-");
    fprintf(f, " %7s", robust);
    if (pass && !ts_row_scored(r)) fprintf(f, " %4s", "-"); /* not timed, or without anchors */
    else fprintf(f, " %4.0f", pass ? ts_jr_number(r->score, "score", 0) : 0);
    fprintf(f, " %s\n",
            pass ? show(ts_row_scored(r) ? ts_jr_text(r->score, "grade", "-") : "-", -2).s
            : !strncmp(verdict, "FAIL", 4) ? "F"
                                           : "-");
}

static void put_time(double ns, FILE *f)
{
    static const char *const unit[] = { "ns", "us", "ms", "s " };
    int                      i = 0;
    for (; ns >= 999.95 && i < 3; i++) ns /= 1000;
    fprintf(f, " %7.4g %s", ns, unit[i]);
}

/* "bf16/rows=64,vocab=128256": without its task, family and seed. */
static void put_workload(const char *name, FILE *f)
{
    const char *from = strchr(name, '/'), *to = strrchr(name, '/');
    char        text[192];
    from = from && from < to ? from + 1 : name;
    snprintf(text, sizeof text, "%.*s", (int)(to > from ? (size_t)(to - from) : strlen(from)),
             from);
    fprintf(f, "     %s", show(text, 43).s);
}

/* The times of an entrant, if the table has no other. */
static void workloads(const ts_board *b, const ts_entrant_row *r, FILE *f)
{
    size_t at = 0;
    bool   first = true;
    for (const ts_jr_node *t; (t = ts_board_time(b, r, &at)); first = false) {
        const double ns = ts_jr_number(t, "time_ns", 0), floor = ts_jr_number(t, "floor_ns", 0);
        const double bytes = ts_jr_number(t, "bytes", 0);
        if (first)
            fprintf(f, "\n     %-43s %10s %8s %10s %8s  %s\n", "workload", "time", "GB/s", "floor",
                    "GB/s", "floor by");
        put_workload(ts_jr_text(t, "case", ""), f);
        put_time(ns, f);
        fprintf(f, " %8.3g", ns > 0 ? bytes / ns : 0);
        put_time(floor, f);
        fprintf(f, " %8.3g  %s\n", floor > 0 ? bytes / floor : 0,
                show(ts_jr_text(t, "floor_by", "-"), -12).s);
    }
}

/* Why entrants have no score, if they should. */
static void anchor_notes(const ts_board *b, const char *task, FILE *f)
{
    const char *last = "";
    for (size_t i = 0; i < b->records->n; i++) {
        const ts_jr_node *v = b->records->at[i].root;
        const char       *note = ts_jr_text(v, "note", "");
        if (!ts_record_is(&b->records->at[i], "anchor") || strcmp(ts_jr_text(v, "task", ""), task))
            continue;
        if (*note && strcmp(note, last))
            fprintf(f, "     no score for %s entrants: %s\n",
                    show(ts_jr_text(v, "kind", ""), -12).s, show(note, -60).s);
        last = *note ? note : last;
    }
}

static int better(const void *x, const void *y)
{
    const ts_entrant_row *a = *(ts_entrant_row *const *)x, *b = *(ts_entrant_row *const *)y;
    const double s = ts_jr_number(a->score, "score", 0), t = ts_jr_number(b->score, "score", 0);
    const int    passed = ts_row_passed(b, false) - ts_row_passed(a, false);
    const int    whole = ts_row_passed(b, true) - ts_row_passed(a, true);
    if (passed) return passed;
    if (whole) return whole; /* PASS before PASS (common) */
    if (s > t || s < t) return s > t ? -1 : 1;
    const double c = ts_row_cases_of(a).share, d = ts_row_cases_of(b).share;
    if (c > d || c < d) return c > d ? -1 : 1; /* the share of cases ranks those that failed */
    return a < b ? -1 : a > b;
}

static void challenge(const ts_board *b, const char *task, FILE *f)
{
    const ts_entrant_row **of = calloc(b->n_rows + 1, sizeof *of);
    size_t                 n = 0;
    if (!of) return;
    for (size_t i = 0; i < b->n_rows; i++)
        if (!strcmp(b->row[i].task, task)) of[n++] = &b->row[i];
    qsort(of, n, sizeof *of, better);
    heading(f, strcmp(task, TS_UNREAD) ? task : "Not judged");
    fprintf(f, "  #  %-*s %-10s %-14s %9s%9s%9s %8s %7s %4s\n", NAME, "entrant", "class", "verdict",
            "cases", "of limit", "of best", "err/bnd", "robust", "score");
    for (size_t i = 0; i < n; i++) entrant(of[i], i + 1, f);
    anchor_notes(b, task, f);
    for (size_t i = 0; i < n; i++) flaw(of[i], b->program, f);
    if (n == 1) workloads(b, of[0], f);
    free(of);
}

/* Logs with the same line are counted. */
static void signatures(const ts_board *b, FILE *f)
{
    const size_t n = ts_jr_len(b->signatures);
    for (size_t i = 0; i < n; i++) {
        const char *text = ts_jr_str(ts_jr_at(b->signatures, i));
        size_t      alike = 0, before = 0;
        for (size_t k = 0; k < n; k++)
            if (!strcmp(ts_jr_str(ts_jr_at(b->signatures, k)), text)) alike++, before += k < i;
        if (before || !*text) continue;
        if (n > 1) fprintf(f, "%zu of %zu logs ", alike, n);
        else fputs("log ", f);
        for (const char *end; *text; text = end + (*end ? 2 : 0)) { /* a line per part */
            char part[128];
            end = strstr(text, "; ");
            if (!end) end = text + strlen(text);
            snprintf(part, sizeof part, "%.*s", (int)(end - text), text);
            fprintf(f, "%s%s\n", show(part, -95).s, *end ? ";" : "");
        }
    }
}

void ts_board_print(const ts_board *b, FILE *f)
{
    const char       *device = ts_jr_text(b->run, "device", "");
    const ts_jr_node *all = ts_jr_get(b->run, "guarantees");
    size_t            held = 0;
    for (size_t i = 0; i < ts_jr_len(all); i++)
        held += ts_jr_bool(ts_jr_get(ts_jr_at(all, i), "held"));
    if (b->run)
        fprintf(f, "%s\nbadge %s: %zu of %zu guarantees verified\n",
                show(ts_jr_text(b->run, "machine", ""), -99).s,
                show(ts_jr_text(b->run, "badge", "none"), -20).s, held, ts_jr_len(all));
    if (*device) fprintf(f, "%s\n", show(device, -99).s);
    signatures(b, f);
    if (*b->note) paragraph(b->note, f), fputc('\n', f);
    if (!b->n_rows) fprintf(f, "\nNo entrant has been judged yet.\n");
    if (!b->n_rows) return;
    scoreboard(b, f);
    entered(b, f);
    samples(b, f);
    legend(b, f);
    matrix(b, f);
    for (size_t i = 0; i < b->n_tasks; i++) challenge(b, b->task[i], f);
    if (!b->ended) fprintf(f, "\nThe run has not finished: more verdicts may follow.\n");
}
