/* SPDX-License-Identifier: Apache-2.0 */
/* mask.h - an element in every row of an input, and a thousand at least, made unknown until a
 * secret is told: what is computed before that is of no use. Done twice, it is undone. One launch
 * serves all inputs of all calls of a batch. */
#ifndef TS_GPU_MASK_H
#define TS_GPU_MASK_H

#include <assert.h>
#include <stddef.h>

#include "driver.h"

enum {
    TS_MASKS = 96,
    TS_MASK_LEAST_BYTES = 4096, /* smaller buffers are left alone */
};

/* As the kernel and the Python runner have it. n: threads; with 0 nothing is done. */
typedef struct ts_masked {
    ts_device_ptr p;
    uint64_t      stride_bytes, secret;
    uint32_t      rows, cols, size, n; /* size: bytes of an element */
} ts_masked;

static_assert(sizeof(ts_masked) == 40, "the kernel's table");

typedef struct ts_masks {
    ts_masked e[TS_MASKS];
    uint32_t  n, most; /* most: the largest n */
} ts_masks;

extern const char ts_mask_ptx[];

int ts_mask_load(const ts_driver *d, ts_cu_any **kernel);

/* A buffer of n_bytes more, unless it is too small; its secret follows from the batch's and from
 * how many came before. */
void ts_mask_add(ts_masks *t, ts_device_ptr p, uint64_t stride_bytes, int64_t rows, int64_t cols,
                 size_t size, uint64_t n_bytes, uint64_t secret);
int  ts_mask_apply(const ts_driver *d, ts_cu_any *kernel, const ts_masks *t, ts_cu_any *stream);
int ts_mask_nothing(const ts_driver *d, ts_cu_any *kernel, ts_cu_any *stream); /* an empty kernel */

#endif
