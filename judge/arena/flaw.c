/* SPDX-License-Identifier: Apache-2.0 */
/* flaw.c - the names of faults. */
#include "flaw.h"

const char *ts_fault_name(ts_fault f)
{
    static const char *const name[TS_N_FAULTS] = {
        "none", "status", "crash",     "hang",  "input",  "before",
        "past", "gap",    "unwritten", "value", "repeat", "refusal",
    };
    return name[f];
}
