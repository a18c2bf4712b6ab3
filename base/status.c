/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - the texts of ts_status, and the ABI version. */
#include "touchstone/touchstone.h"

int ts_abi_version(void)
{
    return TS_ABI_VERSION;
}

const char *ts_status_text(ts_status s)
{
    static const char *const text[] = {
        [TS_OK] = "ok",
        [TS_E_ARG] = "a required pointer is NULL or a value is invalid",
        [TS_E_SHAPE] = "invalid extent or stride",
        [TS_E_DTYPE] = "dtype not supported",
        [TS_E_UNSUPPORTED] = "not supported here",
        [TS_E_WORKSPACE] = "workspace missing or too small",
        [TS_E_CAPACITY] = "out of capacity",
        [TS_E_STATE] = "sequence not open",
        [TS_E_RANGE] = "value out of range",
        [TS_E_FORMAT] = "malformed data",
        [TS_E_MODEL] = "model not usable",
        [TS_E_DEVICE] = "device missing, or its runtime failed",
    };
    return (unsigned)s < sizeof text / sizeof *text ? text[s] : "unknown status";
}
