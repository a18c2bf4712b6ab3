/* SPDX-License-Identifier: Apache-2.0 */
/* fake_cuda.h - what the files of the stand-in driver have of each other. */
#ifndef TS_FAKE_CUDA_H
#define TS_FAKE_CUDA_H

#include "driver.h"
#include "fake_state.h"

#define X(field, symbol, parameters) int symbol parameters; /* or a wrong one would compile */
TS_DRIVER(X)
#undef X

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
};
enum { FAKE_MAX_THREADS = 1024, FAKE_SHARED = 48 << 10, FAKE_MAX_SHARED = 227 << 10 };
#define FAKE_MEMORY ((size_t)8 << 30)

/* What a call answers before it looks at its arguments; the second also needs a context, and the
 * third waits for the device, so that a fault is seen, and stays. */
int fake_gate(void);
int fake_file(const char *name); /* in memory, or where the judge lets files be; -1: nowhere */
int fake_gate_context(void);
int fake_synchronise(void);

extern int fake_pending; /* a kernel has faulted and no caller has waited for it yet */

/* Gives 0, ILLEGAL_ADDRESS or LAUNCH_FAILED; after one of those it must not be called again. */
int fake_launch(fake_call *call, fake_state *state, fake_index grid, fake_index block,
                void **params);

/* A kernel of judge/gpu/fact_ptx.c, by name; *calls: ts_count's, of its module. 0 or a fault. */
int fake_fact(const char *name, uint32_t *calls, unsigned n_threads, void **params);

#endif
