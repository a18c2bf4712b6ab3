/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_cuda.c - finds and loads the module of CUDA mutants, and runs one of them. */
#define _GNU_SOURCE
#include "mutant_cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_module.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void          *module;

static void find(char *path, size_t n)
{
    const char *asked = getenv("TOUCHSTONE_CUDA_MUTANTS");
    if (asked) snprintf(path, n, "%s", asked);
    else ts_cuda_beside("libtouchstone_mutant_cuda.so", path, n);
}

bool ts_mutant_cuda_there(void)
{
    char path[4096];
    find(path, sizeof path);
    return access(path, R_OK) == 0;
}

static void load(void)
{
    char path[4096];
    find(path, sizeof path);
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

ts_status ts_mutant_cuda_run(const char *symbol, unsigned dtypes, ts_dtype t, const void *args,
                             const ts_exec *x)
{
    ts_impl rows[] = { { symbol, TS_CUDA, 0, dtypes, NULL, NULL, NULL }, { 0 } };
    pthread_once(&once, load);
    void *const run = module ? dlsym(module, symbol) : NULL;
    if (!run) return TS_E_UNSUPPORTED;
    /* ISO C has no cast from an object pointer to a function pointer; POSIX guarantees that the
     * copy works. */
    memcpy(&rows->run, &run, sizeof run);
    return ts_impl_run(rows, t, args, x, NULL);
}
