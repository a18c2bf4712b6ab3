/* SPDX-License-Identifier: Apache-2.0 */
/* unit_expr.c - the expressions of launch plans: values, precedence, errors, depth. */
#include "unit_launch.h"

#define LEAST "(-9223372036854775807 - 1)"

static const char *value(const char *expression, int64_t *v)
{
    char    text[2048];
    ts_step s;
    snprintf(text, sizeof text, STEP(ONE "arg i64 %s\n"), expression);
    const char *why = first_step(text, &s);
    if (!why[0]) memcpy(v, s.arg[0], sizeof *v);
    return why;
}

TEST(computes_as_c_does)
{
#define SAME(e)                                                                                    \
    {                                                                                              \
#e, e                                                                                      \
    }
    static const struct {
        const char *text;
        int64_t     v;
    } good[] = {
        SAME(2 + 3 * 4),
        SAME((2 + 3) * 4),
        SAME(20 - 5 - 3),
        SAME(100 / 7 / 2),
        SAME(100 / 7 * 2),
        SAME(-7 / 2),
        SAME(-7 % 3),
        SAME(7 % -3),
        SAME(2 - -3),
        SAME(- -5),
        SAME(-2 * 3 + 10 % 4),
        { "1 + 2 < 4", 1 },
        { "4 < 1 + 2", 0 },
        { "2 <= 2", 1 },
        { "3 <= 2", 0 },
        { "2 >= 3", 0 },
        { "3 >= 3", 1 },
        { "2 > 1", 1 },
        { "1 > 1", 0 },
        { "1 < 1", 0 },
        { "5 == 5", 1 },
        { "5 != 5", 0 },
        { "5 != 4", 1 },
        { "3 == 2 < 5", 0 }, /* 3 == (2 < 5) */
        { "1 == 2 < 5", 1 },
        { "1 < 2 == 1", 1 },
        { "2 && 4", 1 },
        { "2 && 0", 0 },
        { "0 || 8", 1 },
        { "0 || 0", 0 },
        { "1 || 0 && 0", 1 }, /* 1 || (0 && 0) */
        { "(1 || 0) && 0", 0 },
        { "0 == 1 && 1", 0 },
        { "0 && 1 == 0", 0 },
        { "0 && 1 / 0", 0 }, /* the right side is not looked at */
        { "3 || 1 / 0", 1 },
        { "1 && 2 && 0 || 5", 1 },
        { "min(3, 4) + max(3, 4) * 10", 43 },
        { "min(-3,2)", -3 },
        { "max(4, 3)", 4 },
        { "min(4, 3)", 3 },
        { "ceil_div(0, 4)", 0 },
        { "ceil_div(1, 4)", 1 },
        { "ceil_div(4, 4)", 1 },
        { "ceil_div(5, 4)", 2 },
        { "ceil_div(8, 4)", 2 },
        { "ceil_div(-5, 4)", -1 },
        { "ceil_div(9223372036854775807, 2)", 4611686018427387904 },
        { "align(0, 16)", 0 },
        { "align(1, 16)", 16 },
        { "align(16, 16)", 16 },
        { "align(17, 16)", 32 },
        { "align(-17, 16)", -16 },
        { "rows*k", 448 },
        { "  logits.stride  -  vocab  ", 44 },
        { "min ( rows , k )", 7 },
        { "9223372036854775807", INT64_MAX },
        { LEAST, INT64_MIN },
        { LEAST "/ 1", INT64_MIN },
    };
    for (size_t i = 0; i < LENGTH(good); i++) {
        int64_t     v = 0;
        const char *why = value(good[i].text, &v);
        if (why[0] || v != good[i].v) fail_msg("%s: %lld '%s'", good[i].text, (long long)v, why);
    }
}

TEST(refuses_bad_expressions)
{
    static const said bad[] = {
        { "", "column 5: the text ends, expected a number, a name, '-' or '('" },
        { "1 +", "column 8: the text ends, expected a number" },
        { "+1", "got '+', expected a number" },
        { "!k", "got '!', expected a number" },
        { "1 2", "column 7: got '2', expected an operator or the end" },
        { "rows k", "got 'k', expected an operator or the end" },
        { "k = 1", "got '=', expected an operator" },
        { "k & 1", "got '&', expected an operator" },
        { "k << 1", "column 8: got '<', expected a number" },
        { "k ? 1 : 2", "got '?'" },
        { "(1", "the text ends, expected ')' or an operator" },
        { "1)", "got ')', expected an operator or the end" },
        { "()", "got ')', expected a number" },
        { "1,2", "got ',', expected an operator" },
        { "min(1)", "got ')', expected ',' or an operator" },
        { "min(1,2,3)", "got ',', expected ')' or an operator" },
        { "min", "the text ends, expected '('" },
        { "system(1)", "column 5: unknown function 'system'" },
        { "010", "a number that begins with 0" },
        { "0x10", "a number that runs into 'x'" },
        { "1.5", "a number that runs into '.'" },
        { "9223372036854775808", "column 5: a number that does not fit 64 bits" },
        { "99999999999999999999999", "a number that does not fit 64 bits" },
        { "1 + what", "step 1, arg 1, column 9: unknown name 'what'" },
        { "row", "unknown name 'row'" },
        { "rowss", "unknown name 'rowss'" },
        { "logits + 1", "'logits' is a buffer, expected an integer" },
        { "huge", "'huge' is a real number, expected an integer" },
        { "1 / none", "column 7: division by zero" },
        { "1 % 0", "division by zero" },
        { "1 && 1 / 0", "division by zero" },
        { "0 || 1 / 0", "division by zero" },
        { LEAST "/ -1", "-9223372036854775808 / -1 does not fit 64 bits" },
        { LEAST "% -1", "-9223372036854775808 % -1 does not fit 64 bits" },
        { "-" LEAST, "0 - -9223372036854775808 does not fit 64 bits" },
        { "9223372036854775807 + 1", "column 25: 9223372036854775807 + 1 does not fit 64 bits" },
        { "0 - 2 - 9223372036854775807", "-2 - 9223372036854775807 does not fit" },
        { "vocab * vocab * vocab * vocab", "does not fit 64 bits" },
        { LEAST "* -1", "does not fit 64 bits" },
        { "ceil_div(1, 0)", "column 5: ceil_div by 0, expected 1 or more" },
        { "ceil_div(1, -4)", "ceil_div by -4, expected 1 or more" },
        { "align(1, none)", "align by 0, expected 1 or more" },
        { "align(9223372036854775807, 16)", "9223372036854775807 aligned to 16 does not fit" },
    };
    for (size_t i = 0; i < LENGTH(bad); i++) {
        int64_t     v;
        const char *why = value(bad[i].text, &v);
        if (!strstr(why, bad[i].why) || strncmp(why, "step 1, arg 1", 13))
            fail_msg("%s: said '%s', expected '%s'", bad[i].text, why, bad[i].why);
    }
}

/* `n` times left, the middle, n times right. */
static const char *nest(const char *left, int n, const char *middle, const char *right)
{
    static char text[2048];
    text[0] = 0;
    for (int i = 0; i < n; i++) strcat(text, left);
    strcat(text, middle);
    for (int i = 0; i < n; i++) strcat(text, right);
    return text;
}

TEST(nests_so_deep)
{
    static const said around[] = {
        { "(", ")" },
        { "-", "" },
        { "min(1,", ")" },
        { "0==1<1+1*max(1==1<1+1*1,", ")" },
    };
    for (size_t i = 0; i < LENGTH(around); i++) {
        int64_t v = 0;
        assert_string_equal(value(nest(around[i].text, 32, "1", around[i].why), &v), "");
        assert_non_null(strstr(value(nest(around[i].text, 33, "1", around[i].why), &v),
                               ": nested more than 32 deep"));
    }
    int64_t v = 0;
    assert_string_equal(value(nest("1+", 900, "1", ""), &v), ""); /* long is not deep */
    assert_int_equal(v, 901);
    assert_string_equal(value(nest("(0)+", 300, "1", ""), &v), "");
    char name[80];
    memset(name, 'a', sizeof name);
    name[64] = 0;
    assert_non_null(strstr(value(name, &v), "a name of more than 63 characters"));
    name[63] = 0;
    assert_non_null(strstr(value(name, &v), "unknown name 'aaa"));
}
