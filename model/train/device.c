/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - what a net does where it is: on the CPU here, on a CUDA device by the module, which is
 * looked for when the first net is made for one. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_module.h"
#include "train_impl.h"

/* ---- the module ---- */

static pthread_once_t         once = PTHREAD_ONCE_INIT;
static const ts_train_module *module;
static char                   reason[TS_MODEL_WHY];

static void load(void)
{
    void *handle = ts_cuda_open("libtouchstone_train_cuda.so", "TOUCHSTONE_TRAIN_CUDA_MODULE");
    if (!handle) {
        ts_say(reason, "CUDA module for training not available: %s", dlerror());
        return;
    }
    const ts_train_module *found = dlsym(handle, "ts_train_cuda");
    if (found && found->abi == TS_TRAIN_CUDA_ABI) module = found;
    else ts_say(reason, "CUDA module for training: version mismatch; rebuild or reinstall");
}

bool ts_train_module_load(const ts_train_module **m, char why[TS_MODEL_WHY])
{
    const char *absent = ts_cuda_unavailable_reason();
    if (absent) return ts_say(why, "%s", absent);
    pthread_once(&once, load);
    *m = module;
    return module || ts_say(why, "%s", reason);
}

/* ---- either device ---- */

void ts_net_zero(ts_net *n)
{
    if (n->cuda) ts_net_cuda_zero(n);
    else memset(n->gradient, 0, (size_t)n->n_count * n->size);
}

ts_status ts_net_pull(ts_net *n, unsigned parts)
{
    return n->cuda ? ts_net_cuda_pull(n, parts) : TS_OK;
}

ts_status ts_net_push(ts_net *n, unsigned parts)
{
    return n->cuda ? ts_net_cuda_push(n, parts) : TS_OK;
}

float *ts_net_begin(ts_net *n)
{
    const size_t count = 2 * (size_t)n->n_count;
    free(n->moments);
    n->moments = calloc(count, sizeof *n->moments);
    if (n->cuda && !ts_net_cuda_begin(n)) return NULL;
    return n->moments;
}

ts_status ts_net_step(ts_net *n, const ts_adamw *how, int64_t step, double *norm)
{
    if (!n->moments) return TS_E_STATE;
    if (n->cuda) return ts_net_cuda_step(n, how, step, norm);
    const ts_clipped_args a = {
        .how = *how,
        .n = n->n_count,
        .n_matrix = n->n_matrix,
        .step = step,
        .w = n->weight,
        .m = n->moments,
        .v = n->moments + n->n_count,
        .gradient = n->gradient,
        .norm = norm,
        .n_threads = n->o.n_threads,
    };
    return ts_clipped_step(&a);
}
