/* SPDX-License-Identifier: Apache-2.0 */
/* class.h - classes: what an entrant may do. Every score is shown with its class. */
#ifndef TS_CLASS_H
#define TS_CLASS_H

/* The last three are the first three on a CUDA device. */
typedef enum ts_class {
    TS_SEALED,
    TS_HOST,
    TS_PYTHON,
    TS_GPU_SEALED,
    TS_GPU_HOST,
    TS_GPU_PYTHON,
    TS_N_CLASSES
} ts_class;

static inline int ts_on_gpu(ts_class c)
{
    return c >= TS_GPU_SEALED;
}

static inline int ts_in_python(ts_class c)
{
    return c == TS_PYTHON || c == TS_GPU_PYTHON;
}

/* Whether go and done are bytes on a socket, else words of the control page. */
static inline int ts_by_bytes(ts_class c)
{
    return ts_in_python(c) || ts_on_gpu(c);
}

#endif
