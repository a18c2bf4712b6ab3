/* SPDX-License-Identifier: Apache-2.0 */
/* flaw.c - faults in words. */
#include "flaw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *ts_fault_name(ts_fault f)
{
    static const char *const name[TS_N_FAULTS] = {
        "none", "status", "crash",     "hang",  "input",  "before",
        "past", "gap",    "unwritten", "value", "repeat", "refusal",
    };
    return name[f];
}

/* As many digits, at least 9, as it takes to tell two numbers apart. */
static int digits(double a, double b)
{
    char s[32], t[32];
    int  n = 9;
    for (; n < 17; n++) {
        snprintf(s, sizeof s, "%.*g", n, a);
        snprintf(t, sizeof t, "%.*g", n, b);
        if (a == b || strcmp(s, t)) break;
    }
    return n;
}

/* Of an exact output integers are written in full: -2139062144, not -2.13906214e+09. */
static void number(double x, const ts_flaw *f, char s[64])
{
    if (f->bound == 0 && x == rint(x) && fabs(x) < 0x1p53) snprintf(s, 64, "%.0f", x);
    else snprintf(s, 64, "%.*g", digits(f->got, f->want), x);
}

static void element(const ts_flaw *f, char *s, size_t n)
{
    char got[80] = "was not written", want[64], bound[32] = "";
    if (f->fault != TS_FAULT_UNWRITTEN) memcpy(got, "got ", 4), number(f->got, f, got + 4);
    number(f->want, f, want);
    if (f->bound != 0) snprintf(bound, sizeof bound, " +- %.2g", f->bound);
    snprintf(s, n, "%s: %s[%lld][%lld] %s, want %s%s", ts_fault_name(f->fault), f->what,
             (long long)f->row, (long long)f->col, got, want, bound);
}

void ts_flaw_words(const ts_flaw *f, const char *crash, char *s, size_t n)
{
    switch (f->fault) {
    case TS_FAULT_NONE:
        snprintf(s, n, "nothing wrong");
        break;
    case TS_FAULT_STATUS:
        snprintf(s, n, "status: returned %d (%s)", (int)f->got, f->what);
        break;
    case TS_FAULT_CRASH:
        snprintf(s, n, "crash: %s %s", crash, f->what);
        break;
    case TS_FAULT_HANG:
        snprintf(s, n, "hang: no return within the time limit");
        break;
    case TS_FAULT_INPUT:
        snprintf(s, n, "input: wrote to %s", f->what);
        break;
    case TS_FAULT_BEFORE:
        snprintf(s, n, "before: touched memory before %s", f->what);
        break;
    case TS_FAULT_PAST:
        snprintf(s, n, "past: touched memory past %s", f->what);
        break;
    case TS_FAULT_GAP:
        snprintf(s, n, "gap: wrote between the rows, after row %lld of %s", (long long)f->row,
                 f->what);
        break;
    case TS_FAULT_REPEAT:
        snprintf(s, n, "repeat: different %s with %d threads", f->what, (int)f->got);
        break;
    case TS_FAULT_REFUSAL:
        snprintf(s, n, "refusal: invalid call %lld, %s: got status %d, want %d", (long long)f->row,
                 f->what, (int)f->got, (int)f->want);
        break;
    default:
        element(f, s, n);
    }
}
