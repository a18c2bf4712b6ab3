/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_cases.c - the cases of tree_verify. */
#include <stddef.h>
#include <string.h>

#include "case_list.h"
#include "tree_verify_inside.h"

enum { HASH = TS_TOY_HASH, ROPE = TS_TOY_ROPE, TABLE = TS_TOY_TABLE, NOISE = TS_TOY_NOISE };
enum { CHECK = TS_USE_CHECK, TIME = TS_USE_TIME, JUDGE = TS_USE_JUDGE };

/* nodes, vocab, prompt, max_new, cycles, temperature, model */
static const ts_case some[] = {
    /* Invalid calls are derived from the first. */
    { CHECK, TS_F32, { 7, 97, 5, 8, 1, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 0, 11, 1, 4, 3, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 1, 11, 1, 4, 3, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 12, 17, 3, 0, 2, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 3, 1000, 3, 4, 6, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 7, 97, 5, 8, 8, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 31, 1000, 17, 32, 4, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 16, 64, 2, 9, 8, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 32, 512, 33, 9, 4, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 13, 33, 4, 14, 8, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 29, 101, 2, 30, 8, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 41, 16, 9, 42, 8, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 60, 257, 30, 61, 8, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 5, 1, 2, 4, 2, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 64, 32000, 64, 16, 2, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 3, 200000, 3, 4, 3, 0, HASH }, "normal" }, /* past 16 bits */
    /* where positions turn the keys, and where the distribution is stored prefix by prefix */
    { CHECK, TS_F32, { 7, 97, 5, 8, 4, 0, ROPE }, "rope" },
    { CHECK, TS_F32, { 31, 257, 17, 12, 4, 0, ROPE }, "rope" },
    { CHECK, TS_F32, { 15, 97, 9, 12, 4, 100, ROPE }, "rope" },
    { CHECK, TS_F32, { 4, 3, 2, 3, 1, 0, TABLE }, "table" },
    { CHECK, TS_F32, { 3, 4, 2, 4, 1, 100, TABLE }, "table" },
    /* shapes of trees */
    { CHECK, TS_F32, { 12, 97, 3, 13, 4, 0, HASH }, "chain" },
    { CHECK, TS_F32, { 24, 97, 3, 1, 4, 0, HASH }, "chain" },
    { CHECK, TS_F32, { 24, 97, 3, 2, 4, 0, HASH }, "chain" },
    { CHECK, TS_F32, { 24, 31, 3, 7, 4, 50, HASH }, "chain" },
    { CHECK, TS_F32, { 45, 33, 3, 46, 1, 0, HASH }, "chain" },   /* right down to the 41st */
    { CHECK, TS_F32, { 135, 33, 3, 140, 1, 0, HASH }, "chain" }, /* to the 131st */
    { CHECK, TS_F32, { 45, 97, 3, 46, 1, 100, HASH }, "chain" },
    { CHECK, TS_F32, { 9, 97, 3, 4, 6, 0, HASH }, "star" },
    { CHECK, TS_F32, { 200, 97, 3, 4, 2, 0, HASH }, "star" },
    { CHECK, TS_F32, { 70, 97, 3, 4, 2, 0, HASH }, "late" },
    { CHECK, TS_F32, { 300, 33, 3, 6, 1, 100, HASH }, "late" },
    { CHECK, TS_F32, { 300, 257, 9, 30, 1, 0, HASH }, "normal" },
    { CHECK, TS_F32, { 30, 97, 3, 9, 6, 0, HASH }, "breadth" },
    { CHECK, TS_F32, { 30, 97, 3, 9, 4, 0, ROPE }, "breadth" },
    { CHECK, TS_F32, { 26, 97, 3, 9, 6, 0, HASH }, "depth" },
    { CHECK, TS_F32, { 20, 97, 3, 9, 6, 0, HASH }, "twins" },
    { CHECK, TS_F32, { 6, 5, 3, 9, 6, 0, HASH }, "twins" },
    /* draws, ties, tokens that cannot be, rows that are none */
    { CHECK, TS_F32, { 12, 97, 5, 8, 8, 100, HASH }, "hot" },
    { CHECK, TS_F32, { 31, 1000, 5, 12, 4, 70, HASH }, "hot" },
    { CHECK, TS_F32, { 8, 11, 5, 8, 8, 300, HASH }, "hot" },
    { CHECK, TS_F32, { 16, 32000, 5, 8, 2, 100, HASH }, "hot" },
    { CHECK, TS_F32, { 9, 12, 2, 8, 2, 0, TABLE }, "ties" },
    { CHECK, TS_F32, { 5, 20000, 2, 4, 2, 0, TABLE }, "ties" },
    { CHECK, TS_F32, { 5, 20000, 2, 4, 2, 100, TABLE }, "ties" },
    { CHECK, TS_F32, { 9, 97, 2, 8, 4, 100, HASH }, "masked" },
    { CHECK, TS_F32, { 9, 7, 2, 8, 4, 0, HASH }, "masked" },
    { CHECK, TS_F32, { 12, 97, 5, 8, 2, 0, HASH }, "nonfinite" },
    { CHECK, TS_F32, { 20, 33, 2, 6, 2, 100, HASH }, "nonfinite" },
    { CHECK, TS_F32, { 8, 11, 3, 3, 3, 0, HASH }, "nonfinite" },
    { CHECK, TS_F32, { 16, 64, 3, 5, 3, 0, HASH }, "nonfinite" },
    { CHECK, TS_F32, { 24, 97, 5, 1, 1, 0, HASH }, "nonfinite" },
    { CHECK, TS_F32, { 24, 31, 4, 2, 1, 100, HASH }, "nonfinite" },
    { CHECK, TS_F32, { 12, 97, 5, 8, 2, 0, HASH }, "nonfinite_inf" },
    { CHECK, TS_F32, { 20, 33, 2, 6, 2, 100, HASH }, "nonfinite_inf" },
    { CHECK, TS_F32, { 8, 11, 3, 3, 3, 0, HASH }, "nonfinite_inf" },
    { CHECK, TS_F32, { 16, 64, 3, 5, 3, 0, HASH }, "nonfinite_inf" },
    { CHECK, TS_F32, { 24, 97, 5, 1, 1, 0, HASH }, "nonfinite_inf" },
    { CHECK, TS_F32, { 24, 31, 4, 2, 1, 100, HASH }, "nonfinite_inf" },
    { CHECK, TS_F32, { 12, 97, 5, 8, 2, 0, HASH }, "nonfinite_none" },
    { CHECK, TS_F32, { 20, 33, 2, 6, 2, 100, HASH }, "nonfinite_none" },
    { CHECK, TS_F32, { 8, 11, 3, 3, 3, 0, HASH }, "nonfinite_none" },
    { CHECK, TS_F32, { 16, 64, 3, 5, 3, 0, HASH }, "nonfinite_none" },
    { CHECK, TS_F32, { 24, 97, 5, 1, 1, 0, HASH }, "nonfinite_none" },
    { CHECK, TS_F32, { 24, 31, 4, 2, 1, 100, HASH }, "nonfinite_none" },
    { CHECK, TS_F32, { 12, 97, 5, 8, 1, 0, HASH }, "fails" },
    { CHECK, TS_F32, { 9, 33, 2, 1, 2, 100, HASH }, "fails" },
    { CHECK, TS_F32, { 0, 11, 3, 4, 1, 0, HASH }, "fails" },
    /* where a temperature of a few hundredths still leaves a choice */
    { CHECK, TS_F32, { 9, 33, 2, 6, 4, 1, TABLE }, "cold" },
    { CHECK, TS_F32, { 9, 12, 3, 6, 4, 4, TABLE }, "cold" },
    { CHECK, TS_F32, { 9, 33, 2, 6, 4, 1, TABLE }, "colder" },
    { CHECK, TS_F32, { 9, 12, 3, 6, 4, 3000, TABLE }, "colder" },
    /* logits as large as the temperature: only their ratio counts */
    { CHECK, TS_F32, { 9, 33, 2, 6, 4, 6000, TABLE }, "extreme" },
    { CHECK, TS_F32, { 9, 12, 3, 6, 4, 50100, TABLE }, "extreme" },
    { CHECK, TS_F32, { 9, 33, 2, 6, 4, 100000000, TABLE }, "extreme" },
    { CHECK, TS_F32, { 9, 12, 3, 6, 4, 1000000000000000000, TABLE }, "extreme" },
    /* draws that only sums in double tell from the next token's */
    { CHECK, TS_F32, { 9, 97, 3, 6, 4, 100, HASH }, "beside" },
    { CHECK, TS_F32, { 16, 1000, 3, 8, 2, 200, HASH }, "beside" },
    { CHECK, TS_F32, { 9, 97, 3, 6, 4, 30, HASH }, "beside" },
    { CHECK, TS_F32, { 16, 1000, 3, 8, 2, 30, HASH }, "beside" },
    { CHECK, TS_F32, { 5, 20000, 3, 6, 2, 45, HASH }, "beside" },
    /* a draw of nothing, and tokens before the first that can be */
    { CHECK, TS_F32, { 9, 12, 2, 4, 2, 100, TABLE }, "zero_u" },
    { CHECK, TS_F32, { 5, 97, 3, 3, 1, 30, TABLE }, "zero_u" },
    { CHECK, TS_F32, { 5, 20000, 2, 4, 2, 100, TABLE }, "zero_u" },
    { CHECK, TS_F32, { 5, 20000, 2, 4, 2, 100, TABLE }, "one_u" },
    { CHECK, TS_F32, { 9, 12, 2, 4, 2, 100, TABLE }, "one_u" },
    { CHECK, TS_F32, { 5, 97, 3, 3, 1, 30, TABLE }, "one_u" },
    /* only differences of logits count */
    { CHECK, TS_F32, { 5, 5, 2, 3, 1, 0, TABLE }, "offset" },
    { CHECK, TS_F32, { 5, 5, 2, 3, 1, 100, TABLE }, "offset" },
    { CHECK, TS_F32, { 5, 5, 2, 3, 1, 0, TABLE }, "floor" },
    { CHECK, TS_F32, { 5, 5, 1, 3, 2, 0, TABLE }, "floor" },
    /* the other functions: nodes are those of a tree, or children */
    { CHECK, TS_F32, { 7, 97, 5, 8, 1, 0, HASH }, "mask" },
    { CHECK, TS_F32, { 100, 11, 3, 4, 2, 100, HASH }, "mask" },
    { CHECK, TS_F32, { 9, 11, 4, 4, 1, 0, HASH }, "mask_refused" },
    { CHECK, TS_F32, { 7, 97, 5, 8, 1, 0, HASH }, "bias" },
    { CHECK, TS_F32, { 100, 11, 3, 4, 2, 100, HASH }, "bias" },
    { CHECK, TS_F32, { 9, 11, 4, 4, 1, 0, HASH }, "bias_refused" },
    { CHECK, TS_F32, { 3, 97, 1, 1, 4, 0, HASH }, "residual" },
    { CHECK, TS_F32, { 12, 17, 1, 1, 32, 0, HASH }, "residual" },
    { CHECK, TS_F32, { 5, 9, 1, 1, 64, 0, HASH }, "residual" },
    { CHECK, TS_F32, { 3, 33, 1, 1, 1, 0, HASH }, "residual_refused" },
    { JUDGE, TS_F32, { 16, 32000, 128, 8, 1, 0, NOISE }, "normal" },
    { JUDGE, TS_F32, { 32, 32000, 512, 8, 1, 0, NOISE }, "normal" },
    { JUDGE, TS_F32, { 4, 32000, 64, 8, 1, 0, NOISE }, "normal" },
    { TIME, TS_F32, { 16, 32000, 128, 16, 1, 0, NOISE }, "normal" },
    { TIME, TS_F32, { 64, 128256, 1024, 64, 1, 0, NOISE }, "normal" },
    { TIME, TS_F32, { 256, 151936, 4096, 64, 1, 0, NOISE }, "normal" },
};

static bool affordable(const ts_case *c)
{
    const int64_t R = ts_tree_most_rows(c), heat = c->dim[TEMPERATURE];
    /* Draws next to a boundary of two tokens: not among ever so many of them. */
    if (ts_is(c, "beside") && (c->dim[VOCAB] < 9 || (heat && heat < 20) || heat > 300))
        return false;
    if (c->dim[MODEL] == ROPE && (R > 128 || c->dim[VOCAB] > 300)) return false;
    return c->dim[CYCLES] * (R * R + 4 * c->dim[VOCAB] * (c->dim[NODES] + 1)) <= 1500000;
}

/* nodes, vocab, prompt, max_new, cycles, temperature, model */
const ts_cover ts_tree_verify_cover = {
    .use = CHECK,
    .dtypes = F32,
    .family = { { "normal", F32 },
                { "chain", F32 },
                { "star", F32 },
                { "breadth", F32 },
                { "depth", F32 },
                { "twins", F32 },
                { "beside", F32 },
                { "masked", F32 },
                { "nonfinite", F32 },
                { "nonfinite_inf", F32 },
                { "nonfinite_none", F32 },
                { "fails", F32 } },
    .empties = 1u << 3 /* max_new */,
    .dim = { TS_COUNTS(2, 300, 0, 1, 2, 9, 33, 65, 129, 257),
             TS_COUNTS(3, 2000, 1, 2, 3, 9, 33, 129, 257, 1025),
             TS_COUNTS(1, 300, 1, 2, 9, 33, 65, 129), TS_COUNTS(2, 140, 0, 1, 2, 3, 9, 33, 65),
             TS_RANGE(0, 4, 1, 2, 3), TS_RANGE(0, 1000000, 0, 1, 5, 50, 101, 301, 5001, 50001),
             TS_NUMBERS(0, HASH, ROPE) },
    .allows = affordable,
};

/* Refused are a parent or a child that is none, so there must be two. */
static bool is_call(const ts_case *c)
{
    bool          refused;
    const int64_t f = ts_tree_function(c, &refused), n = c->dim[CYCLES];
    if (refused && c->dim[NODES] < 2) return false;
    if (f == TS_TREE_RESIDUAL) return n * c->dim[VOCAB] * (c->dim[NODES] + 1) <= 100000;
    const int64_t R = c->dim[PROMPT] + c->dim[NODES];
    return n * R * R <= 300000;
}

const ts_cover ts_tree_more_cover = {
    .use = CHECK,
    .dtypes = F32,
    .family = { { "mask", F32 },
                { "bias", F32 },
                { "residual", F32 },
                { "mask_refused", F32 },
                { "bias_refused", F32 },
                { "residual_refused", F32 } },
    .dim = { TS_COUNTS(2, 300, 0, 1, 2, 9, 33, 65, 129, 257),
             TS_COUNTS(3, 2000, 1, 2, 3, 9, 33, 129, 257, 1025), TS_COUNTS(1, 70, 1, 2, 9, 33, 65),
             TS_RANGE(2, 60, 0, 1, 2, 3, 9, 33), TS_RANGE(0, 4, 1, 2, 3),
             TS_RANGE(0, 100000, 0, 1, 5, 50, 101, 301), TS_NUMBERS(0, HASH) },
    .allows = is_call,
};

const ts_case *ts_tree_verify_cases(void)
{
    static ts_case_list l;
    if (l.n) return l.c;
    ts_list_append(&l, some, COUNT(some));
    ts_list_cover(&l, &ts_tree_verify_cover);
    ts_list_cover(&l, &ts_tree_more_cover);
    return l.c;
}
