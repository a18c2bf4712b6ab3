/* SPDX-License-Identifier: Apache-2.0 */
/* unit_launch.c - tests launch plans: rejected ones, the limits, and the arguments of a launch. */
#include "unit_launch.h"

static ts_launch *must_read(const char *text)
{
    char       why[256] = "";
    ts_launch *l = read_text(text, why);
    if (!l) fail_msg("%s: %s", text, why);
    return l;
}

TEST(refuses_bad_plans)
{
    static const said bad[] = {
        { "", "got no step" },
        { "workspace 8\n", "got no step" },
        { "kernel f", "the last line has no newline" },
        { "kernel f\n", "step 1: grid or block is missing" },
        { STEP("grid 1\n"), "step 1: grid or block is missing" },
        { STEP("block 1\n"), "step 1, block: duplicate or out of order" },
        { STEP("grid 1\nkernel g\n" ONE), "step 2, kernel: duplicate or out of order" },
        { "when 1\n" STEP(ONE), "when: duplicate or out of order" },
        { STEP("grid 1\nwhen 1\nblock 1\n"), "step 1, when: duplicate or out of order" },
        { STEP("grid 1\ngrid 1\nblock 1\n"), "step 1, grid: duplicate or out of order" },
        { STEP(ONE "arg i32 1\nshared 1\n"), "step 1, shared: duplicate or out of order" },
        { STEP(ONE "workspace 1\n"), "step 1, workspace: duplicate or out of order" },
        { "workspace 1\nworkspace 1\n" STEP(ONE), "workspace: duplicate or out of order" },
        { STEP(ONE "grids 1\n"), "step 1: a line does not begin with an item" },
        { STEP(ONE "\n"), "a line does not begin with an item" },
        { STEP(ONE "shared\n"), "a line does not begin with an item" },
        { "kernel f\r\n" ONE, "byte 9 is not printable ASCII" },
        { STEP("grid r\xc3\xb6ws\nblock 1\n"), "byte 16 is not printable ASCII" },
        { "kernel \n" ONE, "step 1, kernel: expected 1 to 127 letters" },
        { "kernel 9f\n" ONE, "step 1, kernel: expected" },
        { "kernel f g\n" ONE, "step 1, kernel: expected" },
        { "kernel f_{type}\n" ONE, "step 1, kernel: expected" },
        { "kernel f_{dtype\n" ONE, "step 1, kernel: expected" },
        { STEP("grid 1,1,1,1\nblock 1\n"), "step 1, grid 3, column 2: got ',', expected an" },
        { STEP("grid 1,\nblock 1\n"), "step 1, grid 2, column 1: the text ends" },
        { STEP("grid 1\nblock 1,(2\n"), "step 1, block 2, column 3: the text ends" },
        { STEP("when (\ngrid 1\nblock 1\n"), "step 1, when, column 2: the text ends" },
        { STEP(ONE "shared 1 1\n"), "step 1, shared, column 3: got '1'" },
        { "workspace 8 8\n" STEP(ONE), "workspace, column 3: got '8'" },
        { STEP(ONE "arg i32\n"), "step 1, arg 1, column 1: expected ptr, i32" },
        { STEP(ONE "arg i16 1\n"), "step 1, arg 1, column 1: expected ptr, i32" },
        { STEP(ONE "arg ptr 1\n"), "step 1, arg 1, column 5: got '1', expected a buffer's name" },
        { STEP(ONE "arg ptr logits - 1\n"), "column 12: got '-', expected '+' or the end" },
        { STEP(ONE "arg ptr logits + \n"), "the text ends, expected a number" },
        { STEP(ONE "arg ptr logits + 1)\n"), "got ')', expected an operator or the end" },
    };
    for (size_t i = 0; i < LENGTH(bad); i++) {
        const char *why = first_step(bad[i].text, NULL);
        if (!strstr(why, bad[i].why))
            fail_msg("%s: said '%s', expected '%s'", bad[i].text, why, bad[i].why);
    }
}

/* A text of n times the same line after the head. */
static char *repeat(const char *head, const char *line, int n)
{
    static char text[16384];
    strcpy(text, head);
    for (int i = 0; i < n; i++) strcat(text, line);
    return text;
}

#define PADDED STEP("grid 1\nblock 1")

TEST(keeps_to_its_size)
{
    char      name[160] = "kernel ";
    const int blanks = TS_LAUNCH_BYTES - (int)strlen(PADDED "\n");
    assert_string_equal(first_step(repeat(STEP(ONE), "arg i32 1\n", 32), NULL), "");
    assert_string_equal(first_step(repeat(STEP(ONE), "arg i32 1\n", 33), NULL),
                        "step 1, arg 33: more than 32 arguments");
    assert_string_equal(first_step(repeat("", STEP(ONE), 16), NULL), "");
    assert_string_equal(first_step(repeat("", STEP(ONE), 17), NULL),
                        "step 17, kernel: more than 16 steps");
    assert_string_equal(first_step(strcat(repeat(PADDED, " ", blanks), "\n"), NULL), "");
    assert_string_equal(first_step(strcat(repeat(PADDED, " ", blanks + 1), "\n"), NULL),
                        "more than 8192 bytes");
    memset(name + 7, 'f', 127);
    assert_string_equal(first_step(strcat(name, "\n" ONE), NULL), "");
    strcpy(name + 7 + 124, "{dtype}\n" ONE); /* 128 with bf16 */
    assert_string_equal(first_step(name, NULL),
                        "step 1, kernel: expected 1 to 127 letters, digits, _ or {dtype}");
}

TEST(keeps_values_in_range)
{
    static const said bad[] = {
        { STEP("grid 2147483647,65535,65535\nblock 1\n"), "" },
        { STEP("grid 2147483648\nblock 1\n"),
          "step 1, grid 1: 2147483648, expected 0 to 2147483647" },
        { STEP("grid 0-1\nblock 1\n"), "step 1, grid 1: -1, expected 0 to" },
        { STEP("grid 0,65536\nblock 1\n"), "step 1, grid 2: 65536, expected 0 to 65535" },
        { STEP("grid 1,1,65536\nblock 1\n"), "step 1, grid 3: 65536, expected 0 to 65535" },
        { STEP("grid 1\nblock 1024\n"), "" },
        { STEP("grid 1\nblock 1025\n"), "step 1, block 1: 1025, expected 1 to 1024" },
        { STEP("grid 1\nblock 1,none\n"), "step 1, block 2: 0, expected 1 to 1024" },
        { STEP("grid 1\nblock 16,8,8\n"), "" },
        { STEP("grid 1\nblock 32,33\n"),
          "step 1, block: 32 * 33 * 1 threads, expected at most 1024" },
        { STEP(ONE "shared 232448\n"), "" },
        { STEP(ONE "shared 232449\n"), "step 1, shared: 232449, expected 0 to 232448" },
        { STEP(ONE "shared 0 - 1\n"), "step 1, shared: -1, expected" },
        { STEP("when 1 / none\n" ONE), "step 1, when, column 3: division by zero" },
        { STEP(ONE "arg i32 2147483647\narg i32 -2147483648\n"), "" },
        { STEP(ONE "arg i32 1\narg i32 2147483648\n"),
          "step 1, arg 2: 2147483648 does not fit i32" },
        { STEP(ONE "arg i32 -2147483649\n"), "arg 1: -2147483649 does not fit i32" },
        { STEP(ONE "arg u32 4294967295\n"), "" },
        { STEP(ONE "arg u32 4294967296\n"), "arg 1: 4294967296 does not fit u32" },
        { STEP(ONE "arg u32 -1\n"), "arg 1: -1 does not fit u32" },
        { STEP(ONE "arg u64 -1\n"), "arg 1: -1 does not fit u64" },
        { STEP(ONE "arg f32 huge\n"), "arg 1: 1e+39 does not fit f32" },
        { STEP(ONE "arg f32 logits\n"),
          "'logits' is a buffer, expected an integer or a real number" },
        { STEP(ONE "arg f32 inv_temperature * 2\n"),
          "'inv_temperature' is a real number, expected" },
        { STEP(ONE "arg ptr rows\n"), "column 5: 'rows' is an integer, expected a buffer" },
        { STEP(ONE "arg ptr logits + 0 - 1\n"), "arg 1: -1 bytes into a buffer" },
        { STEP(ONE "arg ptr workspace + 15\n"), "" },
        { STEP(ONE "arg ptr workspace + 16\n"), "arg 1: 16 bytes into a buffer" },
    };
    static const said workspace[] = {
        { "1099511627776", "" },
        { "1099511627777", "workspace: 1099511627777, expected 0 to 1099511627776" },
        { "0-1", "workspace: -1, expected" },
        { "rows*what", "workspace, column 6: unknown name 'what'" },
    };
    for (size_t i = 0; i < LENGTH(bad); i++) {
        const char *why = first_step(bad[i].text, NULL);
        if (bad[i].why[0] ? !strstr(why, bad[i].why) : why[0] != 0)
            fail_msg("%s: said '%s', expected '%s'", bad[i].text, why, bad[i].why);
    }
    for (size_t i = 0; i < LENGTH(workspace); i++) {
        char    text[128], why[256] = "";
        int64_t n;
        snprintf(text, sizeof text, "workspace %s\n%s", workspace[i].text, STEP(ONE));
        ts_launch *l = must_read(text);
        assert_int_equal(ts_launch_workspace(l, &env, &n, why, sizeof why), !workspace[i].why[0]);
        if (!strstr(why, workspace[i].why)) fail_msg("said '%s'", why);
        ts_launch_free(l);
    }
}

/* ---- what a call gets ---- */

TEST(fills_arguments)
{
    static const struct {
        const char *text;
        size_t      n;
        union {
            uint64_t u64;
            uint32_t u32;
            float    f32;
            double   f64;
        } bits;
    } args[] = {
        { "i32 -2", 4, { .u32 = 0xfffffffe } },
        { "u32 4294967295", 4, { .u32 = 0xffffffff } },
        { "i64 -2", 8, { .u64 = (uint64_t)-2 } },
        { "u64 k", 8, { .u64 = 64 } },
        { "f32 inv_temperature", 4, { .f32 = 1.25F } },
        { "f64 inv_temperature", 8, { .f64 = 1.25 } },
        { "f64 huge", 8, { .f64 = 1e39 } },
        { "f32 rows", 4, { .f32 = 7 } },
        { "f64 -rows * 2", 8, { .f64 = -14 } },
        { "f32 9007199791611905", 4, { .f32 = 0x1.000002p53F } }, /* by way of a double: 0x1p53 */
        { "ptr logits", 8, { .u64 = 0x7f0000001000 } },
        { "ptr   logits   +   rows*8", 8, { .u64 = 0x7f0000001038 } },
        { "ptr logits+0", 8, { .u64 = 0x7f0000001000 } },
        { "ptr lse + 8", 8, { .u64 = 0 } },
        { "ptr workspace + 15", 8, { .u64 = UINT64_MAX } },
    };
    for (size_t i = 0; i < LENGTH(args); i++) {
        char    text[128];
        ts_step s;
        snprintf(text, sizeof text, STEP(ONE "arg %s\n"), args[i].text);
        assert_string_equal(first_step(text, &s), "");
        if (s.n_args != 1 || s.arg_bytes[0] != args[i].n ||
            memcmp(s.arg[0], &args[i].bits, args[i].n))
            fail_msg("%s", args[i].text);
    }
}

TEST(passes_steps_over)
{
    ts_step s;
    /* What is passed over is not looked at. */
    assert_string_equal(first_step(STEP("when k < 64\ngrid 1 / none\nblock 0\n"), &s), "");
    assert_false(s.applies);
    assert_string_equal(first_step(STEP("when -k\n" ONE), &s), "");
    assert_true(s.applies && !s.empty);
    /* A call without rows is right to launch nothing. */
    assert_string_equal(first_step(STEP("grid none\nblock k / none\narg i32 1 / none\n"), &s), "");
    assert_true(s.applies && s.empty);
    assert_string_equal(first_step(STEP("grid 3,2,none\nblock 1\n"), &s), "");
    assert_true(s.applies && s.empty);
    assert_string_equal(first_step(STEP("grid 3,2\nblock 4,5,6\nshared k\n"), &s), "");
    assert_true(s.applies && !s.empty && s.n_args == 0 && s.shared_bytes == 64);
    assert_true(s.grid[0] == 3 && s.grid[1] == 2 && s.grid[2] == 1);
    assert_true(s.block[0] == 4 && s.block[1] == 5 && s.block[2] == 6);
}

TEST(names_kernels)
{
    static const char *const dtypes[] = { "f32", "f64", "f16", "bf16" };
    ts_launch               *l = must_read("kernel {dtype}_to_{dtype}2\n" ONE);
    ts_launch_env            e = env;
    char                     why[256], want[32];
    ts_step                  s;
    for (int i = 0; i < 4; i++) {
        e.dtype = dtypes[i];
        assert_true(ts_launch_step(l, 0, &e, &s, why, sizeof why));
        snprintf(want, sizeof want, "%s_to_%s2", dtypes[i], dtypes[i]);
        assert_string_equal(s.kernel, want);
    }
    for (int i = 0; i < 2; i++) {
        e.dtype = i ? NULL : "f8";
        assert_false(ts_launch_step(l, 0, &e, &s, why, sizeof why));
        assert_string_equal(why, "step 1, kernel: the call has no dtype");
    }
    ts_launch_free(l);
}

TEST(knows_names)
{
    static const said plans[] = {
        { "workspace rows\n" STEP("when k\ngrid rows,1 / none\nblock k\nshared k\n"
                                  "arg ptr lse + k\narg f32 huge\narg f32 k\narg f64 k + 1\n"),
          "" },
        { "workspace a\n" STEP(ONE), "workspace, column 1: unknown name 'a'" },
        { STEP("when 0 && a\n" ONE), "step 1, when, column 6: unknown name 'a'" },
        { STEP("grid 1,1,a\nblock 1\n"), "step 1, grid 3, column 1: unknown name 'a'" },
        { STEP("grid 1\nblock 1,2+a\n"), "step 1, block 2, column 3: unknown name 'a'" },
        { STEP(ONE "shared a\n"), "step 1, shared, column 1: unknown name 'a'" },
        { STEP(ONE) STEP(ONE "arg i32 1\narg i32 a\n"),
          "step 2, arg 2, column 5: unknown name 'a'" },
        { STEP(ONE "arg ptr a\n"), "step 1, arg 1, column 5: unknown name 'a'" },
        { STEP(ONE "arg ptr lse + a\n"), "step 1, arg 1, column 11: unknown name 'a'" },
        { STEP(ONE "arg ptr rows\n"), "'rows' is an integer, expected a buffer" },
        { STEP(ONE "arg ptr huge\n"), "'huge' is a real number, expected a buffer" },
        { STEP(ONE "arg f32 a\n"), "unknown name 'a'" },
        { STEP(ONE "arg f64 lse\n"), "'lse' is a buffer, expected an integer or a real number" },
        { STEP(ONE "arg i32 huge\n"), "'huge' is a real number, expected an integer" },
    };
    for (size_t i = 0; i < LENGTH(plans); i++) {
        char       why[256] = "";
        ts_launch *l = must_read(plans[i].text);
        assert_int_equal(ts_launch_knows(l, &env, why, sizeof why), !plans[i].why[0]);
        if (!strstr(why, plans[i].why)) fail_msg("said '%s', expected '%s'", why, plans[i].why);
        ts_launch_free(l);
    }
}
