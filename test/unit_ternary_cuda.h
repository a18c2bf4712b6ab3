/* SPDX-License-Identifier: Apache-2.0 */
/* unit_ternary_cuda.h - calls on a CUDA device, for tests with tensors in host memory. */
#ifndef TS_UNIT_TERNARY_CUDA_H
#define TS_UNIT_TERNARY_CUDA_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_module.h"
#include "unit.h"

/* One of the tensors of a call: where its pointer stands in the args, and what it points to. */
typedef struct handed {
    size_t at, n_bytes, each; /* bytes of an element */
    bool   out;
} handed;

enum { GUARD = 256, MOST_HANDED = 5 };

static inline const void *pointer_at(const void *args, size_t at)
{
    const void *p;
    memcpy(&p, (const char *)args + at, sizeof p);
    return p;
}

/* n bytes on the device, `shift` past a boundary, between guards. */
typedef struct guarded {
    char  *memory;
    size_t shift, n_bytes;
} guarded;

static inline guarded guarded_of(const void *from, size_t n_bytes, size_t shift)
{
    const ts_cuda_module_ops *o = ts_cuda_ops();
    guarded                   g = { .shift = shift, .n_bytes = n_bytes };
    void                     *p;
    assert_int_equal(o->alloc(&p, n_bytes + shift + 2 * GUARD), 0);
    g.memory = p;
    assert_int_equal(o->fill(p, 0xa5, n_bytes + shift + 2 * GUARD), 0);
    assert_int_equal(o->sync(), 0);
    assert_int_equal(o->copy_in(g.memory + GUARD + shift, from, n_bytes), 0);
    return g;
}

/* Copies the contents; nothing may have been written next to them. */
static inline void give_up(guarded *g, void *to)
{
    const ts_cuda_module_ops *o = ts_cuda_ops();
    const size_t              n = g->n_bytes + g->shift + 2 * GUARD;
    unsigned char *const      all = malloc(n);
    assert_non_null(all);
    assert_int_equal(o->copy_out(all, g->memory, n), 0);
    for (size_t i = 0; i < GUARD + g->shift; i++) assert_int_equal(all[i], 0xa5);
    for (size_t i = n - GUARD; i < n; i++) assert_int_equal(all[i], 0xa5);
    if (to) memcpy(to, all + GUARD + g->shift, g->n_bytes);
    free(all);
    assert_int_equal(o->release(g->memory), 0);
}

/* Tensors `shift` elements past a boundary, and so the workspace, which is full of NaN. */
static inline ts_status run_shifted(ts_run_fn run, ts_workspace_fn ask, void *args, const handed *h,
                                    int n, size_t shift, void *const *results)
{
    ts_exec   x = { .device = TS_CUDA, .deterministic = 1 };
    guarded   g[MOST_HANDED + 1];
    size_t    n_bytes = 0;
    ts_status s = ask(args, &x, &n_bytes);
    if (s) return s;
    char *const nan = malloc(n_bytes + 1);
    assert_non_null(nan);
    memset(nan, 0xff, n_bytes);
    for (int i = 0; i < n; i++) {
        g[i] = guarded_of(pointer_at(args, h[i].at), h[i].n_bytes, shift * h[i].each);
        const char *const p = g[i].memory + GUARD + g[i].shift;
        memcpy((char *)args + h[i].at, &p, sizeof p);
    }
    g[n] = guarded_of(nan, n_bytes, shift * 4);
    x.workspace = g[n].memory + GUARD + g[n].shift, x.workspace_bytes = n_bytes;
    s = run(args, &x);
    assert_int_equal(ts_cuda_ops()->sync(), 0);
    for (int i = 0; i < n; i++) give_up(&g[i], results[i]);
    give_up(&g[n], NULL);
    free(nan);
    return s;
}

/* Twice, on boundaries and off them: the bits are the same. */
static inline ts_status call_on_cuda(ts_run_fn run, ts_workspace_fn ask, const void *args,
                                     size_t args_bytes, const handed *h, int n)
{
    char      copy[256];
    void     *result[2][MOST_HANDED];
    ts_status s[2];
    assert_true(args_bytes <= sizeof copy && n <= MOST_HANDED);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < n; i++) assert_non_null(result[k][i] = malloc(h[i].n_bytes + 1));
        memcpy(copy, args, args_bytes);
        s[k] = run_shifted(run, ask, copy, h, n, (size_t)k, result[k]);
    }
    assert_int_equal(s[0], s[1]);
    for (int i = 0; i < n; i++) {
        if (h[i].out && s[0] == TS_OK) {
            assert_memory_equal(result[0][i], result[1][i], h[i].n_bytes);
            memcpy((void *)(uintptr_t)pointer_at(args, h[i].at), result[0][i], h[i].n_bytes);
        }
        free(result[0][i]), free(result[1][i]);
    }
    return s[0];
}

/* Is there none? Says so. */
static inline bool no_cuda(void)
{
    const char *const absent = ts_cuda_unavailable_reason();
    if (absent) printf("skipped: %s\n", absent);
    return absent != NULL;
}

#endif
