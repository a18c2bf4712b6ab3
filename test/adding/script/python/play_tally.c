/* SPDX-License-Identifier: Apache-2.0 */
/* play_tally.c - tally in Python: a class with two methods. */
#include "ask.h"
#include "tally_script.h"

static bool made;

static void begin(const void *args)
{
    (void)args;
    made = false;
}

static void begin_method(const char *name)
{
    if (!made) {
        ts_ask_begin("", 0, (ts_refusals) { 0 });
        ts_ask();
        made = true;
    }
    ts_ask_begin(name, 0, (ts_refusals) { .key = TS_E_STATE });
}

static ts_status add(ts_tally *t, int64_t n, const float *x)
{
    (void)t;
    begin_method("add");
    ts_give_array("", TS_LENT, ts_array('f', x, 1, n, 0, 0));
    return ts_ask();
}

static ts_status mean(const ts_tally *t, double *mean)
{
    (void)t;
    begin_method("mean");
    ts_back(TS_REAL, mean);
    return ts_ask();
}

static const ts_tally_table table = { add, mean };
const ts_python             ts_python_tally = { &table, begin };
