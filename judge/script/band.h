/* SPDX-License-Identifier: Apache-2.0 */
/* band.h - a workspace of exactly the requested bytes, between two bands that must not change,
 * inside a larger one that several functions share.
 *
 * On a device there are no bands: a function gets the end of the workspace, which ends at memory
 * that the judge checks. */
#ifndef TS_SCRIPT_BAND_H
#define TS_SCRIPT_BAND_H

#include <stdbool.h>
#include <string.h>

#include "touchstone/touchstone.h"

enum { TS_BAND = 256, TS_BAND_BYTE = 0xfb };

/* Outputs that a player holds itself: their bands, and what they contain before a call. */
enum { TS_HELD_BAND = 64, TS_HELD_BYTE = 0xfe, TS_HELD_POISON = 0x80 };

/* Number of bytes that have changed. */
static inline int64_t ts_count_other(const void *bytes, size_t n, unsigned char byte)
{
    const unsigned char *p = bytes;
    int64_t              other = 0;
    for (size_t i = 0; i < n; i++) other += p[i] != byte;
    return other;
}

/* How far to move p so that it is one past a multiple of TS_BAND_ALIGN: a function that aligns the
 * pointer itself then has no slack at the end. */
enum { TS_BAND_ALIGN = 64 };
static inline size_t ts_odd_offset(const void *p)
{
    return (TS_BAND_ALIGN + 1 - (uintptr_t)p % TS_BAND_ALIGN) % TS_BAND_ALIGN;
}

/* Offset of the function's bytes; not moved if the workspace is aligned, as for timing. */
static inline size_t ts_band_first(const unsigned char *p)
{
    return TS_BAND + ((uintptr_t)p % TS_BAND_ALIGN ? ts_odd_offset(p + TS_BAND) : 0);
}

/* Size of a workspace of n bytes with its bands. */
static inline size_t ts_banded_bytes(const ts_exec *x, size_t n)
{
    return x->device == TS_CPU ? n + 2 * TS_BAND + TS_BAND_ALIGN : n;
}

/* Alignment of a workspace on a device, as allocators align. */
enum { TS_DEVICE_ALIGN = 256 };

/* Sets up n bytes of a workspace in which the largest request is `most`. */
static inline ts_exec ts_band_lay(const ts_exec *x, size_t n, size_t most)
{
    ts_exec              own = *x;
    unsigned char *const p = x->workspace;
    if (!most) return own;
    if (x->device != TS_CPU) {
        own.workspace = n ? p + (most - n) / TS_DEVICE_ALIGN * TS_DEVICE_ALIGN : NULL;
        own.workspace_bytes = n;
        return own;
    }
    const size_t first = ts_band_first(p);
    memset(p, TS_BAND_BYTE, first);
    memset(p + first + n, TS_BAND_BYTE, ts_banded_bytes(x, most) - first - n);
    own.workspace = n ? p + first : NULL;
    own.workspace_bytes = n;
    return own;
}

/* Whether both bands are unchanged. */
static inline bool ts_band_whole(const ts_exec *x, size_t n, size_t most)
{
    const unsigned char *const p = x->workspace;
    if (x->device != TS_CPU || !most) return true;
    const size_t first = ts_band_first(p);
    for (size_t i = 0; i < ts_banded_bytes(x, most); i++)
        if ((i < first || i >= first + n) && p[i] != TS_BAND_BYTE) return false;
    return true;
}

#endif
