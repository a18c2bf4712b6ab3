/* SPDX-License-Identifier: Apache-2.0 */
/* workspace.c - where calls run, and the memory that they work in.
 *
 * On the CPU a workspace belongs to the calling thread, on CUDA to the stream: work of one stream
 * is in order. Threads that call on one stream take turns, each with all launches of its call.
 * Blocks only grow, by doubling. On CUDA an outgrown block is kept, since a captured graph may
 * still use it; so at most as much again as the largest is held. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tvm/ffi/extra/c_env_api.h>

#include "ffi.h"

/* ---- settings of the process ---- */

static int n_threads, deterministic;

TVM_FFI_DLL_EXPORT int __tvm_ffi_set_threads(void *self, const TVMFFIAny *a, int32_t n,
                                             TVMFFIAny *out)
{
    (void)self;
    if (n != 1 || a->type_index != kTVMFFIInt || a->v_int64 < 0 || a->v_int64 > 4096)
        return ts_ffi_error("ValueError",
                            "set_threads: expected an integer from 0 to 4096; 0: all cores");
    *out = (TVMFFIAny) { .type_index = kTVMFFIInt, .v_int64 = n_threads };
    __atomic_store_n(&n_threads, (int)a->v_int64, __ATOMIC_RELAXED);
    return 0;
}

TVM_FFI_DLL_EXPORT int __tvm_ffi_set_deterministic(void *self, const TVMFFIAny *a, int32_t n,
                                                   TVMFFIAny *out)
{
    (void)self;
    if (n != 1 || (a->type_index != kTVMFFIInt && a->type_index != kTVMFFIBool))
        return ts_ffi_error("TypeError", "set_deterministic: expected True or False");
    *out = (TVMFFIAny) { .type_index = kTVMFFIBool, .v_int64 = deterministic };
    __atomic_store_n(&deterministic, a->v_int64 != 0, __ATOMIC_RELAXED);
    return 0;
}

/* ---- the CUDA driver: contexts and memory ---- */

enum { CAPTURE_RELAXED = 2 };
static struct {
    int (*retain)(void **context, int device);
    int (*get)(void **context);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*alloc)(unsigned long long *p, size_t n_bytes);
    int (*mode)(int *mode);
} cu;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool           have_driver, usable;

/* ISO C has no cast from an object pointer to a function; POSIX promises that the copy works. */
static bool find(void *so, const char *name, void *to)
{
    void *p = dlsym(so, name);
    memcpy(to, &p, sizeof p);
    return p != NULL;
}

static void load(void)
{
    const char *asked = getenv("TOUCHSTONE_LIBCUDA");
    void       *so = dlopen(asked ? asked : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    have_driver = so && find(so, "cuDevicePrimaryCtxRetain", &cu.retain) &&
                  find(so, "cuCtxGetCurrent", &cu.get) &&
                  find(so, "cuCtxPushCurrent_v2", &cu.push) &&
                  find(so, "cuCtxPopCurrent_v2", &cu.pop) && find(so, "cuMemAlloc_v2", &cu.alloc) &&
                  find(so, "cuThreadExchangeStreamCaptureMode", &cu.mode);
}

enum { DEVICES = 64 };
static void              *context_of[DEVICES];
static _Thread_local bool pushed;

/* The primary context of a device, which is what the CUDA runtime uses. */
static int make_current(int device)
{
    if (device < 0 || device >= DEVICES) return 1;
    void *context = __atomic_load_n(&context_of[device], __ATOMIC_ACQUIRE), *now = NULL;
    if (!context) {
        if (cu.retain(&context, device)) return 1;
        __atomic_store_n(&context_of[device], context, __ATOMIC_RELEASE);
    }
    pushed = false;
    if (cu.get(&now) || now == context) return 0;
    pushed = true;
    return cu.push(context);
}

int ts_ffi_enter(DLDevice device, ts_exec *x)
{
    *x = (ts_exec) { .n_threads = __atomic_load_n(&n_threads, __ATOMIC_RELAXED),
                     .deterministic = __atomic_load_n(&deterministic, __ATOMIC_RELAXED) };
    if (device.device_type == kDLCPU || !device.device_type) return 0;
    if (device.device_type != kDLCUDA)
        return ts_ffi_error("ValueError",
                            "got a tensor on DLPack device type %d, expected 1 (CPU) or 2 (CUDA)",
                            device.device_type);
    pthread_once(&once, load);
    if (!__atomic_load_n(&usable, __ATOMIC_RELAXED)) { /* once: counting devices takes time */
        const char *why = ts_cuda_unavailable_reason();
        if (why) return ts_ffi_error("RuntimeError", "got a CUDA tensor, but %s", why);
        __atomic_store_n(&usable, true, __ATOMIC_RELAXED);
    }
    if (!have_driver || make_current(device.device_id))
        return ts_ffi_error("RuntimeError", "CUDA device %d cannot be used", device.device_id);
    x->device = TS_CUDA;
    x->stream = TVMFFIEnvGetStream(device.device_type, device.device_id);
    return 0;
}

/* ---- blocks ---- */

typedef struct block {
    void           *p;
    size_t          n_bytes;
    int             device;
    void           *stream;
    pthread_mutex_t in_use; /* on CUDA: by a call that launches */
    struct block   *next;
} block;

static pthread_key_t  host_key;
static pthread_once_t host_once = PTHREAD_ONCE_INIT;
static void           free_host(void *b)
{
    free(((block *)b)->p);
    free(b);
}
static void make_key(void)
{
    pthread_key_create(&host_key, free_host);
}

static void *host_block(size_t n_bytes)
{
    pthread_once(&host_once, make_key);
    block *b = pthread_getspecific(host_key);
    if (!b) {
        b = calloc(1, sizeof *b);
        if (!b || pthread_setspecific(host_key, b)) return free(b), NULL;
    }
    if (b->n_bytes >= n_bytes) return b->p;
    size_t more = b->n_bytes ? 2 * b->n_bytes : 1 << 16;
    while (more < n_bytes) more *= 2;
    free(b->p);
    b->p = NULL, b->n_bytes = 0;
    if (posix_memalign(&b->p, 256, more)) return b->p = NULL;
    b->n_bytes = more;
    return b->p;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block          *blocks; /* never freed */

static _Thread_local block *held;

/* Under a capture, too, memory may be had in relaxed mode: the block belongs to no graph. */
static void *device_memory(size_t n_bytes)
{
    unsigned long long p = 0;
    int                mode = CAPTURE_RELAXED;
    cu.mode(&mode);
    const int error = cu.alloc(&p, n_bytes);
    cu.mode(&mode);
    return error ? NULL : (void *)(uintptr_t)p;
}

static block *block_of(int device, void *stream)
{
    block *b;
    pthread_mutex_lock(&lock);
    for (b = blocks; b; b = b->next)
        if (b->device == device && b->stream == stream) break;
    if (!b && (b = calloc(1, sizeof *b))) {
        pthread_mutex_init(&b->in_use, NULL);
        b->device = device, b->stream = stream, b->next = blocks;
        blocks = b;
    }
    pthread_mutex_unlock(&lock);
    return b;
}

static void *device_block(int device, void *stream, size_t n_bytes)
{
    block *b = block_of(device, stream);
    if (!b) return NULL;
    pthread_mutex_lock(&b->in_use);
    held = b;
    if (b->n_bytes >= n_bytes) return b->p;
    size_t more = b->n_bytes ? 2 * b->n_bytes : 1 << 20;
    while (more < n_bytes) more *= 2;
    void *p = device_memory(more);
    if (p) b->p = p, b->n_bytes = more;
    return p;
}

void ts_ffi_leave(DLDevice device)
{
    void *context;
    if (device.device_type != kDLCUDA) return;
    if (held) pthread_mutex_unlock(&held->in_use);
    held = NULL;
    if (pushed) cu.pop(&context);
    pushed = false;
}

int ts_ffi_workspace(const char *name, DLDevice device, ts_exec *x, size_t n_bytes)
{
    x->workspace_bytes = n_bytes;
    x->workspace = x->device == TS_CUDA ? device_block(device.device_id, x->stream, n_bytes)
                                        : host_block(n_bytes);
    if (x->workspace) return 0;
    return ts_ffi_error("MemoryError", "%s: no memory for a workspace of %zu bytes", name, n_bytes);
}
