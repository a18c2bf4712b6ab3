/* SPDX-License-Identifier: Apache-2.0 */
/* fake_state.h - what the stand-in driver and a kernel that fake_nvcc built know of each other. */
#ifndef TS_FAKE_STATE_H
#define TS_FAKE_STATE_H

#include <stddef.h>
#include <stdint.h>

typedef struct fake_index {
    unsigned x, y, z;
} fake_index;

/* One parameter of a kernel. NAME__params is an array of them; one of no bytes ends it. */
typedef struct fake_param {
    size_t offset, n_bytes;
} fake_param;

/* The thread that is running. Each object has one, thread-local, called fake_now. */
typedef struct fake_state {
    fake_index grid, block, block_at, thread_at;
    unsigned   n_threads, thread, lane; /* of the block; in it; in its warp */
    void      *shared;                  /* dynamic shared memory */
    uint64_t  *slot;                    /* one word for each thread of the block, to show others */
    void (*wait)(unsigned mask);        /* for these lanes of the warp; 0: for the block */
} fake_state;

typedef void fake_call(void **params); /* NAME__call: the kernel, for one thread */

#endif
