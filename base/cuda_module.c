/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_module.c - finds and loads the CUDA module, and resolves its kernels. */
#define _GNU_SOURCE
#include "cuda_module.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "touchstone/abi.h"

#define MODULE "libtouchstone_cuda.so"

static pthread_once_t            once = PTHREAD_ONCE_INIT;
static void                     *handle;
static const ts_cuda_module_ops *ops;
static char                      reason[512];

void ts_cuda_beside(const char *module, char *path, size_t n)
{
    Dl_info     info;
    const char *slash = NULL;
    if (dladdr(reason, &info) && info.dli_fname) slash = strrchr(info.dli_fname, '/');
    if (slash) snprintf(path, n, "%.*s/%s", (int)(slash - info.dli_fname), info.dli_fname, module);
    else snprintf(path, n, "./%s", module);
}

/* A module that exists but lacks a library must report that: the loader's search path is not tried
 * after it. */
void *ts_cuda_open(const char *module, const char *variable)
{
    char        path[4096];
    const char *asked = getenv(variable);
    if (asked) return dlopen(asked, RTLD_NOW | RTLD_LOCAL);
    ts_cuda_beside(module, path, sizeof path);
    return dlopen(access(path, F_OK) ? module : path, RTLD_NOW | RTLD_LOCAL);
}

/* Defined only if module and library are linked into one object. */
extern const ts_cuda_module_ops ts_cuda_module __attribute__((weak));

static void load(void)
{
    Dl_info info;
    if (&ts_cuda_module && dladdr(reason, &info))
        handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    else handle = ts_cuda_open(MODULE, "TOUCHSTONE_CUDA_MODULE");
    if (!handle) {
        snprintf(reason, sizeof reason, "CUDA module not found: %s", dlerror());
        return;
    }
    const ts_cuda_module_ops *found = dlsym(handle, "ts_cuda_module");
    if (!found || found->abi != TS_CUDA_MODULE_ABI ||
        found->layout != ts_abi_hash(ts_abi_fields, TS_ABI_FIELDS))
        snprintf(reason, sizeof reason, "CUDA module: version mismatch; rebuild or reinstall");
    else ops = found;
}

const ts_cuda_module_ops *ts_cuda_ops(void)
{
    pthread_once(&once, load);
    return ops;
}

const char *ts_cuda_unavailable_reason(void)
{
    static bool there; /* every call of a kernel queries this, and devices do not go away */
    if (__atomic_load_n(&there, __ATOMIC_RELAXED)) return NULL;
    if (!ts_cuda_ops()) return reason;
    if (ops->device_count() <= 0) return "no CUDA device";
    __atomic_store_n(&there, true, __ATOMIC_RELAXED);
    return NULL;
}

static void look_up(ts_impl *row)
{
    char name[128];
    /* ISO C has no cast from an object pointer to a function pointer; POSIX guarantees that the
     * copy works. */
    void *run = dlsym(handle, row->symbol);
    memcpy(&row->run, &run, sizeof run);
    snprintf(name, sizeof name, "%s_workspace", row->symbol);
    void *workspace = run ? dlsym(handle, name) : NULL;
    memcpy(&row->workspace, &workspace, sizeof workspace);
}

/* The loader compares names for 0.3 us, several times per call: what it found is kept, by the
 * address of the symbol's name. */
enum { KEPT = 128 };
static struct {
    const char     *symbol; /* set last */
    ts_run_fn       run;
    ts_workspace_fn workspace;
} kept[KEPT];
static pthread_mutex_t keep = PTHREAD_MUTEX_INITIALIZER;

ts_status ts_cuda_resolve(ts_impl *row)
{
    size_t i = (uintptr_t)row->symbol / 8 % KEPT, n = 0;
    for (const char *s; (s = __atomic_load_n(&kept[i].symbol, __ATOMIC_ACQUIRE)) && n < KEPT; n++) {
        if (s == row->symbol) {
            row->run = kept[i].run, row->workspace = kept[i].workspace;
            return TS_OK;
        }
        i = (i + 1) % KEPT;
    }
    look_up(row);
    if (!row->run) return TS_E_UNSUPPORTED;
    pthread_mutex_lock(&keep);
    if (n < KEPT && !kept[i].symbol) {
        kept[i].run = row->run, kept[i].workspace = row->workspace;
        __atomic_store_n(&kept[i].symbol, row->symbol, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&keep);
    return TS_OK;
}
