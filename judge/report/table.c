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
    NAME = 17,
    LONG_NAME = 27, /* in the scoreboard */
    CLASS = 10,
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

static void speed(FILE *f, double S, double lo, double hi)
{
    if (S > 0) fprintf(f, "%6.1f %% [%5.1f %5.1f]", 100 * S, 100 * lo, 100 * hi);
    else fprintf(f, "%22s", "-");
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
    fprintf(f, "  #  %-*s %-10s %6s  %-22s %6s %5s%s\n", LONG_NAME, "entrant", "class", "passed",
            "   speed / floor", "score", "grade", rated(b) ? " rating group" : "");
    for (size_t i = 0; i < b->n_overall; i++) {
        const ts_entrant_overall *c = &b->overall[i];
        const ts_entrant_row     *r = &b->row[c->first];
        fprintf(f, "%3zu  %s %s %3d/%-2zu  ", i + 1, show(r->name, LONG_NAME).s,
                show(c->klass, CLASS).s, c->passed, b->n_challenges);
        speed(f, c->S, c->S_lo, c->S_hi);
        if (c->passed && !(c->S > 0)) fprintf(f, " %6s %5s", "-", c->grade); /* not timed */
        else fprintf(f, " %6.0f %5s", c->score, c->grade);
        if (c->rank)
            fprintf(f, " %6.0f %5.0f", ts_jr_number(c->rank, "rating", 0),
                    ts_jr_number(c->rank, "rank", 0));
        fputc('\n', f);
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
        if (c->passed && !(c->S > 0)) fprintf(f, " %6s %6s %6s\n", "-", "-", "-"); /* not timed */
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
        "\n  score   1000 x speed^0.70 x robustness^0.15 x precision^0.10 x memory^0.05 x share "
        "offered;\n          mean over all challenges%s, where one that was not passed counts "
        "0;\n          entrants are ranked by %s, then by score\n"
        "  grade   A+ from 900, A 800, B 650, C 450, D 250, E below; F: nothing passed\n"
        "  speed   least possible time (floor) / measured time, with its 95 %% interval\n",
        has_samples(b) ? " of the mean over their answers" : "",
        has_samples(b) ? "pass@1" : "challenges passed");
    if (rated(b))
        fprintf(f, "  rating  from head-to-head matches; 400 more: odds of 10 to 1; within a group "
                   "no difference is sure\n");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (has_class(b, classes[i][0])) fprintf(f, "  %s: %s\n", classes[i][0], classes[i][1]);
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
        if (has_verdict(b, verdicts[i][0]))
            fprintf(f, "  %s: %s\n", verdicts[i][0], verdicts[i][1]);
}

/* Small differences in percent, large ones as a factor. */
static void cell(const ts_head_to_head *p, bool self, FILE *f)
{
    char         s[64], by[24];
    const double ratio = exp(fabs(p->margin));
    const bool   slow = p->margin < 0;
    if (ratio < 1.995)
        snprintf(by, sizeof by, "%c%.*f%%", "+-"[slow], ratio < 1.0995, 100 * (ratio - 1));
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
        fprintf(f, "     %s offers %.0f %% of the challenge:", name_of(r, -NAME).s, 100 * r->share);
        paragraph(r->offers, f);
        fputc('\n', f);
    }
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
    if (*text) paragraph(text, f);
    else if (*which && ts_jr_num(ts_jr_get(v, "got"), &got)) element(v, f);
    if (*replay) {
        fprintf(f, "\n       ");
        put_command(replay, program, f);
    }
    fputc('\n', f);
}

static void entrant(const ts_entrant_row *r, size_t place, FILE *f)
{
    const ts_jr_node *v = r->verdict, *cells = ts_jr_get(v, "robustness");
    char              verdict[64], robust[24] = "-";
    double            passed = 0, all = 0, x;
    const bool        pass = ts_row_passed(r, false);
    snprintf(verdict, sizeof verdict, "%.20s%s%.30s", ts_jr_text(v, "verdict", "not judged"),
             pass || !v ? "" : " ", pass ? "" : ts_jr_text(v, "reason", ""));
    for (size_t i = 0; i < ts_jr_len(cells); i++) {
        passed += ts_jr_num(ts_jr_at(ts_jr_at(cells, i), 0), &x) ? x : 0;
        all += ts_jr_num(ts_jr_at(ts_jr_at(cells, i), 1), &x) ? x : 0;
    }
    if (all > 0) snprintf(robust, sizeof robust, "%.0f/%.0f", passed, all);
    fprintf(f, "%3zu  %s %s %s  ", place, name_of(r, NAME).s, show(r->klass, CLASS).s,
            show(verdict, 15).s);
    speed(f, pass ? ts_jr_number(r->score, "S", 0) : 0, ts_jr_number(r->score, "S_lo", 0),
          ts_jr_number(r->score, "S_hi", 0));
    const bool called = ts_jr_number(v, "calls", 1) > 0;
    /* Of one that failed otherwise, the error of what it did before says little. */
    if (called && ts_jr_num(ts_jr_get(v, "worst"), &x) && (pass || x > 1)) fprintf(f, " %8.2g", x);
    else fprintf(f, " %8s", "-");
    fprintf(f, " %7s", robust);
    if (pass && !r->score) fprintf(f, " %4s", "-"); /* not timed */
    else fprintf(f, " %4.0f", pass ? ts_jr_number(r->score, "score", 0) : 0);
    fprintf(f, " %s\n",
            pass                           ? show(ts_jr_text(r->score, "grade", "-"), -2).s
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

static int better(const void *x, const void *y)
{
    const ts_entrant_row *a = *(ts_entrant_row *const *)x, *b = *(ts_entrant_row *const *)y;
    const double s = ts_jr_number(a->score, "score", 0), t = ts_jr_number(b->score, "score", 0);
    const int    passed = ts_row_passed(b, false) - ts_row_passed(a, false);
    const int    whole = ts_row_passed(b, true) - ts_row_passed(a, true);
    if (passed) return passed;
    if (whole) return whole; /* PASS before PASS (common) */
    if (s > t || s < t) return s > t ? -1 : 1;
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
    fprintf(f, "  #  %-*s %-10s %-15s  %-22s %8s %7s %4s\n", NAME, "entrant", "class", "verdict",
            "   speed / floor", "err/bnd", "robust", "score");
    for (size_t i = 0; i < n; i++) entrant(of[i], i + 1, f);
    for (size_t i = 0; i < n; i++) flaw(of[i], b->program, f);
    if (n == 1) workloads(b, of[0], f);
    free(of);
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
    if (*b->note) paragraph(b->note, f), fputc('\n', f);
    if (!b->n_rows) fprintf(f, "\nNo entrant has been judged yet.\n");
    if (!b->n_rows) return;
    scoreboard(b, f);
    samples(b, f);
    legend(b, f);
    matrix(b, f);
    for (size_t i = 0; i < b->n_tasks; i++) challenge(b, b->task[i], f);
    if (!b->ended) fprintf(f, "\nThe run has not finished: more verdicts may follow.\n");
}
