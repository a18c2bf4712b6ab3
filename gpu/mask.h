/* SPDX-License-Identifier: Apache-2.0 */
/* mask.h - every element of the inputs made unknown until a secret is told: what is computed before
 * that is of no use. Done twice, it is undone. One launch serves all inputs of all calls of a
 * batch.
 */
#ifndef TS_GPU_MASK_H
#define TS_GPU_MASK_H

#include <assert.h>
#include <stddef.h>

#include "driver.h"

enum { TS_MASKS = 96 };

/* As the kernel and the Python runner have it. With no rows nothing is done. */
typedef struct ts_masked {
    ts_device_ptr p;
    uint64_t      stride_bytes, secret;
    uint32_t      rows, cols, size, chunks; /* size: bytes of an element; chunks of a row */
} ts_masked;

static_assert(sizeof(ts_masked) == 40, "the kernel's table");

typedef struct ts_masks {
    ts_masked e[TS_MASKS];
    uint32_t  n;
    uint64_t  most; /* chunks of one entry */
} ts_masks;

extern const char ts_mask_ptx[];

int ts_mask_load(const ts_driver *d, ts_cu_any **kernel);

/* A buffer more; its secret follows from the batch's and from how many came before. Those beyond
 * TS_MASKS stay as they are. */
void ts_mask_add(ts_masks *t, ts_device_ptr p, uint64_t stride_bytes, int64_t rows, int64_t cols,
                 size_t size, uint64_t secret);
int  ts_mask_apply(const ts_driver *d, ts_cu_any *kernel, const ts_masks *t, ts_cu_any *stream);
int ts_mask_nothing(const ts_driver *d, ts_cu_any *kernel, ts_cu_any *stream); /* an empty kernel */

#endif
