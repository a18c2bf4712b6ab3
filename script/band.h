/* SPDX-License-Identifier: Apache-2.0 */
/* band.h - a workspace of just the bytes that a function asked for, inside of one that serves
 * several: before it and behind it lies what nobody may change. On the CPU alone; elsewhere all of
 * it is lent. */
#ifndef TS_SCRIPT_BAND_H
#define TS_SCRIPT_BAND_H

#include <stdbool.h>
#include <string.h>

#include "touchstone/touchstone.h"

enum { TS_BAND = 256, TS_BAND_BYTE = 0xfb };

/* Of a workspace of n bytes with its bands. */
static inline size_t ts_banded_bytes(size_t n)
{
    return n + 2 * TS_BAND;
}

/* n bytes of a workspace whose largest lender asks for `most`. */
static inline ts_exec ts_band_lay(const ts_exec *x, size_t n, size_t most)
{
    ts_exec              own = *x;
    unsigned char *const p = x->workspace;
    if (x->device != TS_CPU || !most) return own;
    memset(p, TS_BAND_BYTE, TS_BAND);
    memset(p + TS_BAND + n, TS_BAND_BYTE, most - n + TS_BAND);
    own.workspace = n ? p + TS_BAND : NULL;
    own.workspace_bytes = n;
    return own;
}

/* Whether nothing around them was changed. */
static inline bool ts_band_whole(const ts_exec *x, size_t n, size_t most)
{
    const unsigned char *const p = x->workspace;
    if (x->device != TS_CPU || !most) return true;
    for (size_t i = 0; i < ts_banded_bytes(most); i++)
        if ((i < TS_BAND || i >= TS_BAND + n) && p[i] != TS_BAND_BYTE) return false;
    return true;
}

#endif
