/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - loads the CUDA driver, opens device 0 and shares device memory between processes. */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ts_driver driver;
static int       is_loaded;

static const ts_driver *load(char *why, size_t n)
{
    static const char *const symbol[] = {
#define X(field, symbol, parameters) #symbol,
        TS_DRIVER(X)
#undef X
    };
    enum { N = sizeof symbol / sizeof *symbol };
    void       *address[N];
    const char *place = getenv("TOUCHSTONE_LIBCUDA");
    _Static_assert(sizeof driver == sizeof address, "one pointer a function");
    if (is_loaded) return &driver;
    void *so = dlopen(place ? place : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!so) return snprintf(why, n, "CUDA driver not found"), NULL;
    for (int i = 0; i < N; i++)
        if (!(address[i] = dlsym(so, symbol[i])))
            return snprintf(why, n, "the CUDA driver is too old: %s is missing", symbol[i]), NULL;
    memcpy(&driver, address, sizeof driver);
    is_loaded = 1;
    return &driver;
}

const char *ts_driver_text(const ts_driver *d, int code)
{
    const char *text = NULL;
    if (d->error_text(code, &text) || !text) text = "unknown error";
    return text;
}

const ts_driver *ts_driver_open(char *why, size_t n)
{
    enum {
        SPIN = 1
    }; /* spin while waiting for the device: a sleep would be timed with the kernel */
    const ts_driver *d = load(why, n);
    ts_cu_any       *context;
    int              device, n_devices = 0, code;
    if (!d) return NULL;
    code = d->init(0);
    if (!code) code = d->device_count(&n_devices);
    if (!code && !n_devices) code = TS_CU_NO_DEVICE;
    if (code == TS_CU_NO_DEVICE) return snprintf(why, n, "no CUDA device"), NULL;
    if (!code) code = d->device_get(&device, 0);
    if (!code) code = d->context_flags(device, SPIN);
    if (!code) code = d->context_retain(&context, device);
    if (!code) code = d->context_set(context);
    if (!code) return d;
    return snprintf(why, n, "the CUDA device cannot be used: %s", ts_driver_text(d, code)), NULL;
}

/* ---- memory shared by two processes ---- */

static ts_mem_prop shared_memory(void)
{
    return (ts_mem_prop) { .type = 1, .handle_types = 1, .location_type = 1 };
}

size_t ts_driver_granule(const ts_driver *d)
{
    const ts_mem_prop p = shared_memory();
    size_t            n = 0;
    return d->granularity(&n, &p, 0) ? 0 : n;
}

int ts_driver_share(const ts_driver *d, size_t n_bytes, uint64_t *handle, int *fd)
{
    const ts_mem_prop p = shared_memory();
    const int         code = d->create(handle, n_bytes, &p, 0);
    return code ? code : d->export_fd(fd, *handle, 1, 0);
}

int ts_driver_place(const ts_driver *d, uint64_t handle, size_t n_bytes, int writable,
                    ts_device_ptr *p)
{
    const size_t        granule = ts_driver_granule(d);
    const size_t        guard = granule > TS_DEVICE_GUARD ? granule : TS_DEVICE_GUARD;
    const ts_mem_access access = { .location_type = 1, .flags = writable ? 3 : 1 };
    ts_device_ptr       base;
    int                 code = d->reserve(&base, n_bytes + 2 * guard, 0, 0, 0);
    *p = base + guard;
    if (!code) code = d->map(*p, n_bytes, 0, handle, 0);
    return code ? code : d->access(*p, n_bytes, &access, 1);
}
