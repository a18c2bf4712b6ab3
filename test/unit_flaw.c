/* SPDX-License-Identifier: Apache-2.0 */
/* unit_flaw.c - tests the words for a wrong element. */
#include <math.h>
#include <string.h>

#include "examine.h"
#include "unit.h"

static void says(ts_flaw f, const char *want)
{
    const ts_verdict v = { .first = f };
    char             text[256];
    ts_flaw_text(&v, text, sizeof text);
    assert_string_equal(text, want);
}

TEST(numbers_have_a_bound)
{
    says((ts_flaw) { TS_FAULT_VALUE, "dx", 3, 17, 1.25, 1.5, 1e-7 },
         "value: dx[3][17] got 1.25, want 1.5 +- 1e-07");
    says((ts_flaw) { TS_FAULT_VALUE, "y", 0, 0, 3e9, 2, 0.5 },
         "value: y[0][0] got 3e+09, want 2 +- 0.5");
    says((ts_flaw) { TS_FAULT_VALUE, "prob", 0, 1, (double)NAN, 0, 0 },
         "value: prob[0][1] got nan, want 0");
    says((ts_flaw) { TS_FAULT_VALUE, "y", 0, 1, 1e300, -INFINITY, 0 },
         "value: y[0][1] got 1e+300, want -inf");
}

TEST(integers_are_exact)
{
    says((ts_flaw) { TS_FAULT_VALUE, "index", 0, 5, -2139062144, -1, 0 },
         "value: index[0][5] got -2139062144, want -1");
    says((ts_flaw) { TS_FAULT_VALUE, "seen", 0, 1, 1, 2147483647, 0 },
         "value: seen[0][1] got 1, want 2147483647");
}

TEST(poison_is_no_value)
{
    says((ts_flaw) { TS_FAULT_UNWRITTEN, "index", 0, 5, -2139062144, -1, 0 },
         "unwritten: index[0][5] was not written, want -1");
    says((ts_flaw) { TS_FAULT_UNWRITTEN, "y", 1, 2, (double)NAN, 0.5, 0.25 },
         "unwritten: y[1][2] was not written, want 0.5 +- 0.25");
}
