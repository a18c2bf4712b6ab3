/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear_cases.c - the cases of ternary_linear. */
#include "ternary_linear_cases.h"

#include <string.h>

#include "case_list.h"
#include "ternary_reference.h"

enum {
    CHECK = TS_USE_CHECK,
    HOST = TS_USE_HOST,
    JUDGE = TS_USE_JUDGE,
    TIME = TS_USE_TIME,
    LARGE = TS_USE_LARGE
};

/* clang-format off */
static const ts_case some[] = {
    { CHECK, TS_F32, { 3, 127, 3, EACH }, "normal" },
    { CHECK, TS_F32, { 3, 128, 17, EACH }, "normal" },
    { CHECK, TS_F32, { 3, 129, 3, EACH }, "normal" },
    { CHECK, TS_F32, { 1, 1, 1, EACH }, "normal" },
    { CHECK, TS_F32, { 5, 200, 17, EACH }, "normal" },
    { CHECK, TS_F32, { 7, 1376, 3, EACH }, "normal" },
    { CHECK, TS_F32, { 64, 1024, 64, EACH }, "normal" },
    { CHECK, TS_F32, { 65, 384, 5, EACH }, "normal" },
    { CHECK, TS_F32, { 128, 16, 9, EACH }, "normal" },
    { CHECK, TS_F32, { 2, 16500, 2, EACH }, "normal" },
    { CHECK, TS_F32, { 4100, 5, 2, EACH }, "normal" },
    { CHECK, TS_F32, { 3, 5, 1030, EACH }, "normal" },
    { CHECK, TS_F32, { 2, 2, TALL_ROWS, EACH }, "tall" },
    { CHECK, TS_F32, { TALLER_ROWS, 2, 2, EACH }, "taller" },
    { CHECK, TS_F32, { 0, 5, 3, EACH }, "normal" },
    { CHECK, TS_F32, { 5, 0, 3, EACH }, "normal" },
    { CHECK, TS_F32, { 5, 130, 0, EACH }, "normal" },
    { CHECK, TS_F64, { 5, 200, 3, EACH }, "normal" },
    { CHECK, TS_F64, { 7, 1376, 17, EACH }, "normal" },
    { CHECK, TS_F16, { 5, 200, 17, EACH }, "normal" },
    { CHECK, TS_F16, { 64, 1024, 3, EACH }, "normal" },
    { CHECK, TS_BF16, { 3, 129, 17, EACH }, "normal" },
    { CHECK, TS_BF16, { 64, 1024, 17, EACH }, "normal" },
    { CHECK, TS_F16, { 2, 16500, 2, EACH }, "normal" },
    { CHECK, TS_BF16, { 2, 16500, 2, EACH }, "normal" },
    { CHECK, TS_BF16, { 3, 9001, 3, EACH }, "normal" },
    { CHECK, TS_F16, { 1500, 130, 3, EACH }, "normal" },
    { CHECK, TS_BF16, { 4100, 5, 2, EACH }, "normal" },
    { CHECK, TS_F64, { 1030, 130, 3, EACH }, "normal" },
    { CHECK, TS_F16, { 3, 5, 1030, EACH }, "normal" },
    { CHECK, TS_BF16, { 3, 5, 2060, EACH }, "normal" },
    { CHECK, TS_F64, { 3, 5, 1030, EACH }, "normal" },
    { CHECK, TS_F32, { 9, 384, 3, EACH }, "ties" },
    { CHECK, TS_F32, { 6, 200, 3, EACH }, "ties" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "zeros" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "spike" },
    { CHECK, TS_F32, { 9, 300, 3, EACH }, "steep" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "tiny" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "huge" },
    { CHECK, TS_BF16, { 9, 260, 3, EACH }, "huge" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "brink" },
    { CHECK, TS_BF16, { 9, 260, 3, EACH }, "brink" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "loud" },
    { CHECK, TS_BF16, { 9, 260, 3, EACH }, "loud" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "faint" },
    { CHECK, TS_BF16, { 9, 260, 3, EACH }, "faint" },
    { CHECK, TS_F32, { 9, 260, 5, EACH }, "nonfinite" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_code" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_scale" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_code_last" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_code_padding" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_scale_inf" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_scale_minus" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_latent" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_latent_inf" },
    { CHECK, TS_F32, { 9, 260, 5, EACH }, "negative" },
    { CHECK, TS_BF16, { 9, 260, 5, EACH }, "negative" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "past_f16" },
    { CHECK, TS_F32, { 5, 200, 3, EACH - BACK }, "normal" }, /* as a scope may have it */
    { CHECK, TS_F32, { 5, 200, 3, 1 << TS_TL_LINEAR }, "normal" },
    { JUDGE, TS_F32, { 1024, 1024, 1, PACKED }, "normal" },
    { JUDGE, TS_F32, { 512, 1024, 8, PACKED }, "normal" },
    { JUDGE, TS_F32, { 256, 512, 64, BACK }, "normal" },
    { JUDGE, TS_F32, { 1024, 1024, 1, PACK }, "normal" },
    { JUDGE | LARGE, TS_F32, { 8192, 4096, 1, PACK }, "normal" },
    { JUDGE | LARGE, TS_F32, { 4096, 4096, 1, PACK }, "normal" },
    { JUDGE | LARGE, TS_F32, { 2048, 2048, 128, BACK }, "normal" },
    { JUDGE | LARGE, TS_F32, { 4096, 4096, 64, PACKED }, "normal" },
    { JUDGE | LARGE, TS_F32, { 2048, 2048, 64, PACKED }, "normal" },
    { TIME, TS_F32, { 4096, 4096, 1, PACKED }, "normal" },
    { TIME, TS_F32, { 4096, 4096, 8, PACKED }, "normal" },
    { TIME | LARGE, TS_F32, { 14336, 4096, 1, PACKED }, "normal" },
    { TIME, TS_F32, { 3072, 1024, 8, PACKED }, "normal" },
    { TIME | LARGE, TS_F32, { 151936, 1024, 1, PACKED }, "normal" },
    { TIME, TS_F32, { 3072, 1024, 1, PACK }, "normal" },
    { TIME, TS_F32, { 1024, 1024, 128, BACK }, "normal" },
};
/* clang-format on */

bool ts_ternary_linear_is_bad(const ts_case *c)
{
    return !strncmp(c->family, "bad_", 4) || ts_is(c, "past_f16");
}

ts_status ts_ternary_linear_must(const ts_case *c, int function)
{
    const bool latent = !strncmp(c->family, "bad_latent", 10) || ts_is(c, "past_f16");
    const bool code = ts_ternary_linear_is_bad(c) && !latent;
    if (function == TS_TL_UNPACK || function == TS_TL_PACKED) return code ? TS_E_FORMAT : TS_OK;
    return latent ? TS_E_RANGE : TS_OK;
}

static bool affordable(const ts_case *c)
{
    const int64_t o = c->dim[OUT], n = c->dim[IN], r = c->dim[ROWS];
    if (ts_ternary_linear_is_bad(c) && (!o || !n || !r || c->dim[PARTS] != EACH)) return false;
    if (ts_is(c, "bad_code_padding") && n % TS_TREF_GROUP == 0) return false;
    return (o + 1) * (n + 1) * (r + 1) <= 600000;
}

int ts_ternary_linear_scope(const ts_case *c, ts_parameter p[TS_MAX_PARAMETERS])
{
    static const char *const name[TS_TL_FUNCTIONS] = { [TS_TL_PACK] = "pack",
                                                       [TS_TL_UNPACK] = "unpack",
                                                       [TS_TL_LINEAR] = "linear",
                                                       [TS_TL_PACKED] = "linear_packed",
                                                       [TS_TL_BACKWARD] = "backward" };
    for (int i = 0; i < TS_TL_FUNCTIONS; i++)
        p[i] = (ts_parameter) { name[i], c->dim[PARTS] >> i & 1 };
    return TS_TL_FUNCTIONS;
}

static void mark_host(ts_case *c)
{
    if (ts_ternary_linear_is_bad(c)) c->use |= HOST;
}

/* out, in, rows, parts */
const ts_cover ts_ternary_linear_cover = {
    .use = CHECK,
    .dtypes = ALL,
    .family = { { "normal", ALL },
                { "ties", ALL },
                { "zeros", ALL },
                { "spike", ALL },
                { "steep", WIDE },
                { "tiny", ALL },
                { "huge", WIDE },
                { "nonfinite", ALL },
                { "negative", ALL },
                { "bad_code", ALL },
                { "bad_code_last", ALL },
                { "bad_code_padding", ALL },
                { "bad_scale", ALL },
                { "bad_scale_inf", ALL },
                { "bad_scale_minus", ALL },
                { "bad_latent", ALL },
                { "bad_latent_inf", ALL },
                { "past_f16", ALL } },
    .empties = 1u << OUT | 1u << IN | 1u << ROWS,
    .dim = { TS_COUNTS(1, 300, 0, 1, 2, 9, 17, 33, 65, 129, 257),
             TS_COUNTS(3, 4224, 0, 1, 2, 9, 33, 65, 127, 128, 129, 257, 513, 1025, 4097),
             TS_COUNTS(1, 200, 0, 1, 2, 3, 5, 9, 17, 33, 65, 129), TS_NUMBERS(0, EACH) },
    .allows = affordable,
    .make = mark_host,
};

const ts_case *ts_ternary_linear_cases(void)
{
    static ts_case_list l;
    if (l.n) return l.c;
    ts_list_append(&l, some, COUNT(some));
    ts_list_cover(&l, &ts_ternary_linear_cover);
    return l.c;
}
