/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_cases.c - the cases of beam_search. */
#include <stddef.h>
#include <string.h>

#include "beam_search_inside.h"
#include "case_list.h"

enum { HASH = TS_TOY_HASH, ROPE = TS_TOY_ROPE, TABLE = TS_TOY_TABLE, NOISE = TS_TOY_NOISE };
enum { CHECK = TS_USE_CHECK, TIME = TS_USE_TIME, JUDGE = TS_USE_JUDGE };

/* items, vocab, width, steps, prompt, alpha, eos, model */
static const ts_case some[] = {
    /* Invalid calls are derived from the first. */
    { CHECK, TS_F32, { 2, 97, 3, 6, 5, 60, 2, HASH }, "normal" },
    { CHECK, TS_F32, { 1, 5, 1, 8, 1, 0, 4, HASH }, "normal" },
    { CHECK, TS_F32, { 1, 3, 4, 6, 3, 60, 2, HASH }, "normal" },
    { CHECK, TS_F32, { 2, 1000, 3, 12, 50, 100, 7, HASH }, "normal" },
    { CHECK, TS_F32, { 3, 97, 4, 20, 50, 60, 1, HASH }, "normal" },
    { CHECK, TS_F32, { 4, 97, 4, 20, 50, 200, 1, HASH }, "normal" },
    { CHECK, TS_F32, { 4, 64, 4, 10, 50, 0, -1, HASH }, "normal" },
    { CHECK, TS_F32, { 4, 32, 2, 10, 5, 0, 3, HASH }, "normal" },
    { CHECK, TS_F32, { 8, 1024, 4, 6, 5, 100, 11, HASH }, "normal" },
    { CHECK, TS_F32, { 1, 7, 12, 5, 3, 100, 6, HASH }, "normal" },
    { CHECK, TS_F32, { 2, 1, 3, 4, 1, 0, -1, HASH }, "normal" },
    { CHECK, TS_F32, { 2, 1, 2, 3, 1, 100, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 0, 11, 3, 4, 1, 0, 2, HASH }, "normal" },
    { CHECK, TS_F32, { 3, 11, 3, 0, 5, 60, 2, HASH }, "normal" },
    { CHECK, TS_F32, { 3, 33, 5, 1, 5, 60, 2, HASH }, "normal" },
    { CHECK, TS_F32, { 17, 31, 7, 9, 50, 60, 5, HASH }, "normal" },
    { CHECK, TS_F32, { 2, 97, 20, 4, 3, 60, 2, HASH }, "normal" },
    { CHECK, TS_F32, { 1, 33, 40, 3, 3, 0, -1, HASH }, "normal" },
    { CHECK, TS_F32, { 2, 4099, 8, 4, 5, 0, 9, HASH }, "normal" },
    { CHECK, TS_F32, { 5, 50257, 16, 5, 50, 60, 50256, HASH }, "normal" },
    { CHECK, TS_F32, { 4, 100000, 2, 8, 5, 60, 99999, HASH }, "normal" }, /* past 16 bits */
    { CHECK, TS_F32, { 2, 151936, 4, 4, 5, 60, 151935, HASH }, "normal" },
    { CHECK, TS_F32, { 34, 9, 2, 3, 3, 60, 2, HASH }, "normal" },
    { CHECK, TS_F32, { 1, 200, 130, 2, 3, 0, -1, HASH }, "normal" },
    { CHECK, TS_F32, { 2, 97, 66, 2, 200, 600, 2, HASH }, "normal" },
    /* where every position counts, and where the distribution is stored prefix by prefix */
    { CHECK, TS_F32, { 2, 97, 3, 8, 5, 60, 3, ROPE }, "rope" },
    { CHECK, TS_F32, { 3, 257, 4, 6, 20, 100, 3, ROPE }, "rope" },
    { CHECK, TS_F32, { 2, 4, 3, 5, 2, 60, 3, TABLE }, "table" },
    { CHECK, TS_F32, { 1, 3, 27, 3, 1, 0, -1, TABLE }, "table" }, /* room for every string */
    { CHECK, TS_F32, { 2, 3, 30, 4, 3, 100, 2, TABLE }, "table" },
    { CHECK, TS_F32, { 2, 6, 2, 4, 1, 200, 0, TABLE }, "table" },
    /* ends that are worth nothing, ends that are worth their slot, and those that lose it */
    { CHECK, TS_F32, { 3, 97, 4, 12, 5, 60, 3, HASH }, "poor" },
    { CHECK, TS_F32, { 2, 1000, 3, 10, 5, 0, 3, HASH }, "poor" },
    { CHECK, TS_F32, { 4, 8192, 2, 2, 50, 0, 3, TABLE }, "slots" },
    { CHECK, TS_F32, { 4, 8192, 2, 2, 50, 60, 3, TABLE }, "slots" },
    { CHECK, TS_F32, { 4, 8192, 2, 2, 50, 73, 3, TABLE }, "slots" },
    { CHECK, TS_F32, { 4, 8192, 2, 2, 50, 74, 3, TABLE }, "slots" },
    { CHECK, TS_F32, { 4, 8192, 2, 2, 50, 100, 3, TABLE }, "slots" },
    { CHECK, TS_F32, { 2, 8192, 1, 2, 3, 0, 3, TABLE }, "evict" },
    { CHECK, TS_F32, { 2, 8192, 1, 2, 3, 60, 3, TABLE }, "evict" },
    { CHECK, TS_F32, { 2, 16, 1, 12, 3, 0, 3, TABLE }, "early" },
    { CHECK, TS_F32, { 6, 16, 1, 12, 5, 60, 3, TABLE }, "early" },
    /* numbers */
    { CHECK, TS_F32, { 2, 3, 4, 4, 1, 0, -1, TABLE }, "underflow" },
    { CHECK, TS_F32, { 2, 3, 3, 5, 2, 100, 2, TABLE }, "underflow" },
    { CHECK, TS_F32, { 2, 5, 7, 4, 1, 200, 1, TABLE }, "underflow" },
    { CHECK, TS_F32, { 2, 3, 4, 5, 2, 0, 2, TABLE }, "underflow" }, /* ends tie with others */
    { CHECK, TS_F32, { 3, 5, 6, 4, 1, 0, 0, TABLE }, "underflow" },
    { CHECK, TS_F32, { 9, 4, 5, 5, 1, 0, 1, TABLE }, "underflow" },
    { CHECK, TS_F32, { 20, 3, 3, 6, 2, 0, 0, TABLE }, "underflow" },
    { CHECK, TS_F32, { 30, 3, 5, 5, 3, 0, 1, TABLE }, "underflow" },
    { CHECK, TS_F32, { 30, 4, 6, 4, 3, 0, 3, TABLE }, "underflow" },
    { CHECK, TS_F32, { 2, 5, 3, 3, 2, 60, 3, TABLE }, "offset" },
    { CHECK, TS_F32, { 3, 7, 8, 2, 2, 0, -1, TABLE }, "offset" },
    { CHECK, TS_F32, { 1, 11, 3, 1000, 3, 0, -1, HASH }, "long" },
    { CHECK, TS_F32, { 2, 5, 2, 300, 3, 60, -1, HASH }, "long" },
    { CHECK, TS_F32, { 2, 5, 4, 5, 1, 0, -1, TABLE }, "ties" },
    { CHECK, TS_F32, { 3, 97, 5, 4, 3, 60, -1, TABLE }, "ties" },
    { CHECK, TS_F32, { 2, 1000, 16, 3, 1, 0, 4, TABLE }, "ties" },
    { CHECK, TS_F32, { 1, 50257, 4, 3, 5, 60, 50256, TABLE }, "ties" }, /* shared by threads */
    { CHECK, TS_F32, { 3, 5, 4, 6, 3, 60, 1, HASH }, "masked" },
    { CHECK, TS_F32, { 2, 97, 8, 6, 3, 100, 4, HASH }, "masked" },
    { CHECK, TS_F32, { 2, 3000, 4, 2, 3, 0, -1, TABLE }, "barred" },
    { CHECK, TS_F32, { 1, 20000, 5, 2, 3, 60, 7, TABLE }, "barred" },
    { CHECK, TS_F32, { 3, 20, 12, 2, 3, 0, 2, TABLE }, "barred" },
    { CHECK, TS_F32, { 2, 97, 3, 6, 3, 60, 2, HASH }, "nonfinite" },
    { CHECK, TS_F32, { 3, 11, 2, 5, 2, 0, -1, HASH }, "nonfinite" },
    { CHECK, TS_F32, { 2, 1000, 4, 4, 3, 60, 2, HASH }, "nonfinite" },
    { CHECK, TS_F32, { 2, 97, 3, 6, 3, 60, 2, HASH }, "nonfinite_inf" },
    { CHECK, TS_F32, { 3, 11, 2, 5, 2, 0, -1, HASH }, "nonfinite_inf" },
    { CHECK, TS_F32, { 2, 1000, 4, 4, 3, 60, 2, HASH }, "nonfinite_inf" },
    { CHECK, TS_F32, { 2, 97, 3, 6, 3, 60, 2, HASH }, "nonfinite_none" },
    { CHECK, TS_F32, { 3, 11, 2, 5, 2, 0, -1, HASH }, "nonfinite_none" },
    { CHECK, TS_F32, { 2, 1000, 4, 4, 3, 60, 2, HASH }, "nonfinite_none" },
    { CHECK, TS_F32, { 2, 97, 3, 6, 3, 60, 2, HASH }, "fails" },
    { CHECK, TS_F32, { 3, 11, 2, 5, 2, 0, -1, HASH }, "fails" },
    { CHECK, TS_F32, { 2, 1000, 4, 4, 3, 60, 2, HASH }, "fails" },
    { CHECK, TS_F32, { 2, 97, 5, 1, 3, 60, -1, TABLE }, "near" },
    { CHECK, TS_F32, { 1, 16, 1, 2, 3, 0, -1, TABLE }, "near" },
    { CHECK, TS_F32, { 2, 1000, 16, 1, 1, 100, 4, TABLE }, "near" },
    { CHECK, TS_F32, { 2, 97, 5, 2, 3, 60, -1, TABLE }, "close" },
    { CHECK, TS_F32, { 3, 16, 2, 2, 3, 0, -1, TABLE }, "close" },
    { CHECK, TS_F32, { 2, 1000, 16, 2, 1, 100, 4, TABLE }, "close" },
    { CHECK, TS_F32, { 2, 97, 3, 6, 5, 60, 2, HASH }, "steep" },
    { CHECK, TS_F32, { 3, 1000, 4, 5, 3, 0, 7, HASH }, "steep" },
    { CHECK, TS_F32, { 1, 50257, 4, 3, 5, 100, 50256, HASH }, "steep" },
    { CHECK, TS_F32, { 2, 257, 3, 4, 5, 60, 3, ROPE }, "steep" },
    /* the other search */
    { CHECK, TS_F32, { 2, 97, 3, 6, 5, 60, 2, HASH }, "archive" },
    { CHECK, TS_F32, { 3, 11, 3, 12, 5, 0, 2, HASH }, "archive" },
    { CHECK, TS_F32, { 3, 5, 2, 20, 3, 100, 1, HASH }, "archive" },
    { CHECK, TS_F32, { 3, 7, 5, 16, 3, 200, 1, HASH }, "archive" },
    { CHECK, TS_F32, { 4, 33, 4, 9, 3, 60, 1, HASH }, "archive" },
    { CHECK, TS_F32, { 4, 33, 1, 9, 3, 60, 1, HASH }, "archive" },
    { CHECK, TS_F32, { 3, 97, 4, 12, 5, 60, 3, HASH }, "archive_poor" },
    { CHECK, TS_F32, { 2, 5, 4, 5, 1, 0, 4, TABLE }, "archive_ties" },
    { CHECK, TS_F32, { 2, 3, 3, 6, 1, 0, 1, TABLE }, "archive_ties" },
    { CHECK, TS_F32, { 2, 2, 4, 6, 1, 0, 1, TABLE }, "archive_ties" },
    { CHECK, TS_F32, { 2, 97, 8, 6, 3, 100, 4, HASH }, "archive_masked" },
    { CHECK, TS_F32, { 2, 97, 3, 6, 3, 60, 2, HASH }, "archive_nonfinite" },
    { CHECK, TS_F32, { 2, 97, 3, 6, 3, 60, 2, HASH }, "archive_fails" },
    { CHECK, TS_F32, { 3, 1000, 4, 5, 3, 60, 7, HASH }, "archive_steep" },
    { CHECK, TS_F32, { 2, 33, 3, 10, 5, 60, 2, HASH }, "archive_refused" },
    { JUDGE, TS_F32, { 1, 32000, 4, 8, 5, 60, 2, NOISE }, "normal" },
    { JUDGE, TS_F32, { 4, 32000, 4, 4, 5, 60, 2, NOISE }, "normal" },
    { JUDGE, TS_F32, { 2, 50257, 8, 4, 5, 60, 2, NOISE }, "normal" },
    { TIME, TS_F32, { 1, 32000, 4, 64, 5, 60, 2, NOISE }, "normal" },
    { TIME, TS_F32, { 32, 128256, 4, 64, 5, 60, 2, NOISE }, "normal" },
    { TIME, TS_F32, { 8, 50257, 16, 128, 5, 60, 2, NOISE }, "normal" },
    { TIME, TS_F32, { 64, 151936, 8, 32, 5, 60, 2, NOISE }, "normal" },
};

/* The parameter is -1, 0, 1 or whatever is the last token. */
enum { LAST = 1 << 20 };

static void name_eos(ts_case *c)
{
    if (c->dim[EOS] == LAST && c->dim[VOCAB] > 2) c->dim[EOS] = c->dim[VOCAB] - 1;
}

static void call_eos_last(ts_case *c)
{
    if (c->dim[EOS] > 1 && c->dim[EOS] == c->dim[VOCAB] - 1) c->dim[EOS] = LAST;
}

static bool affordable(const ts_case *c)
{
    const int64_t *m = c->dim;
    if (m[EOS] >= m[VOCAB] || m[ITEMS] * m[WIDTH] > TS_BEAM_MOST) return false;
    if (m[ITEMS] * m[PROMPT] > TS_TOY_MOST_ROWS) return false; /* a query is shown no more */
    /* Or scores have no margins. */
    if (m[STEPS] > (m[ALPHA] > 400 ? 4 : m[ALPHA] > 100 ? 40 : 130)) return false;
    const int64_t most = m[ALPHA] > 400 ? 300 : m[ALPHA] > 200 ? 1000 : 8600;
    const int64_t beams = m[ITEMS] * m[WIDTH];
    if (beams * m[STEPS] > most) return false;
    if (strstr(c->family, "poor") && m[EOS] < 0) return false;
    if (strstr(c->family, "masked") && m[VOCAB] < 33) return false; /* or some row has nothing */
    if (m[MODEL] == ROPE && (m[VOCAB] > 300 || m[PROMPT] + m[STEPS] > 60)) return false;
    return (m[ITEMS] + 1) * m[WIDTH] * m[VOCAB] * (m[STEPS] + 1) <=
           (beams > 1000 ? 450000 : 150000);
}

/* items, vocab, width, steps, prompt, alpha, eos, model */
const ts_cover ts_beam_search_cover = {
    .use = CHECK,
    .dtypes = F32,
    .family = { { "normal", F32 },
                { "poor", F32 },
                { "masked", F32 },
                { "steep", F32 },
                { "nonfinite", F32 },
                { "nonfinite_inf", F32 },
                { "nonfinite_none", F32 },
                { "fails", F32 } },
    .empties = 1u << 0 | 1u << 3 /* items, steps */,
    .dim = { TS_COUNTS(1, TS_BEAM_ITEMS, 0, 1, 2, 5, 9, 17),
             TS_COUNTS(4, 1100, 1, 2, 3, 9, 33, 129, 257, 1025),
             TS_COUNTS(1, 130, 1, 2, 3, 5, 9, 17, 33), TS_COUNTS(2, 130, 0, 1, 2, 5, 9, 17, 33),
             TS_COUNTS(1, 300, 1, 2, 6, 51, 129), TS_RANGE(0, 1000, 0, 1, 60, 100, 101, 201, 501),
             TS_NUMBERS(1, -1, 0, 1, LAST), TS_NUMBERS(0, HASH, ROPE) },
    .allows = affordable,
    .make = name_eos,
    .read = call_eos_last,
};

/* items, vocab, width, steps, prompt, alpha, eos, model */
const ts_cover ts_beam_archive_cover = {
    .use = CHECK,
    .dtypes = F32,
    .family = { { "archive", F32 },
                { "archive_poor", F32 },
                { "archive_masked", F32 },
                { "archive_steep", F32 } },
    .empties = 1u << 0 | 1u << 3 /* items, steps */,
    .dim = { TS_COUNTS(1, TS_BEAM_ITEMS, 0, 1, 2, 5, 9, 17),
             TS_COUNTS(4, 1100, 1, 2, 3, 9, 33, 129, 257, 1025),
             TS_COUNTS(1, 33, 1, 2, 3, 5, 9, 17, 33), TS_COUNTS(2, 34, 0, 1, 2, 5, 9, 17, 33),
             TS_COUNTS(1, 60, 1, 2, 6, 51), TS_RANGE(0, 400, 0, 1, 60, 100, 101, 201),
             TS_NUMBERS(1, -1, 0, 1, LAST), TS_NUMBERS(0, HASH) },
    .allows = affordable,
    .make = name_eos,
    .read = call_eos_last,
};

const ts_case *ts_beam_search_cases(void)
{
    static ts_case_list l;
    if (l.n) return l.c;
    ts_list_append(&l, some, COUNT(some));
    ts_list_cover(&l, &ts_beam_search_cover);
    ts_list_cover(&l, &ts_beam_archive_cover);
    return l.c;
}
