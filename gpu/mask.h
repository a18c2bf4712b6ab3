/* SPDX-License-Identifier: Apache-2.0 */
/* mask.h - an element in every row of an input, and a thousand at least, made unknown until a
 * secret is told: what is computed before that is of no use. Done twice, it is undone. */
#ifndef TS_GPU_MASK_H
#define TS_GPU_MASK_H

#include "driver.h"

typedef struct ts_masked {
    ts_device_ptr p;
    uint64_t      stride_bytes;
    uint32_t      rows, cols, size; /* size: bytes of an element */
} ts_masked;

enum { TS_MASK_LEAST_BYTES = 4096 }; /* smaller buffers are left alone */

extern const char ts_mask_ptx[];

int ts_mask_load(const ts_driver *d, ts_cu_any **kernel);
int ts_mask_apply(const ts_driver *d, ts_cu_any *kernel, ts_masked m, uint64_t secret,
                  ts_cu_any *stream);
int ts_mask_nothing(const ts_driver *d, ts_cu_any *kernel, ts_cu_any *stream); /* an empty kernel */

/* The secret of one of several buffers. */
static inline uint64_t ts_mask_secret(uint64_t secret, int buf)
{
    return secret ^ (uint64_t)(buf + 1) * 0xbf58476d1ce4e5b9u;
}

#endif
