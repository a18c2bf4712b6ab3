/* SPDX-License-Identifier: Apache-2.0 */
/* fake_cuda.c - a fake CUDA driver on ordinary memory, to test the judge without a GPU.
 *
 * Device pointers are addresses of this process, and work is done when it is enqueued; its faults
 * are still reported late and persist, as those of a device do. One thread at a time.
 *
 * $TS_FAKE_CUDA_NONE: there is no device. $TS_FAKE_CUDA_OPEN: memory that is reserved and not
 * mapped can be accessed. */
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static int  is_init, is_forked;
static int  dead; /* a fault that a caller has waited for */
static char the_context, the_stream;

int fake_pending;

static _Thread_local ts_cu_any *current;

/* ---- what each call answers before anything else ---- */

int fake_file(const char *name)
{
    const int fd = memfd_create(name, MFD_CLOEXEC);
    return fd >= 0 ? fd : open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

int fake_gate(void)
{
    if (!is_init || is_forked) return NOT_INITIALIZED;
    return dead;
}

int fake_gate_context(void)
{
    const int code = fake_gate();
    return code || current ? code : INVALID_CONTEXT;
}

int fake_synchronise(void)
{
    const int code = fake_gate_context();
    return code ? code : (dead = fake_pending);
}

static void on_fork(void)
{
    is_forked = is_init; /* the device does not follow */
}

int cuInit(unsigned flags)
{
    if (flags) return INVALID_VALUE;
    if (is_init) return fake_gate();
    if (getenv("TS_FAKE_CUDA_NONE")) return TS_CU_NO_DEVICE;
    is_init = 1;
    return pthread_atfork(NULL, NULL, on_fork) ? OUT_OF_MEMORY : 0;
}

int cuDriverGetVersion(int *v)
{
    return *v = 13000, 0;
}

int cuGetErrorString(int code, const char **text)
{
    static const struct {
        int         code;
        const char *text;
    } row[] = {
        { 0, "no error" },
        { INVALID_VALUE, "invalid argument" },
        { OUT_OF_MEMORY, "out of memory" },
        { NOT_INITIALIZED, "initialization error" },
        { TS_CU_NO_DEVICE, "no CUDA-capable device is detected" },
        { INVALID_DEVICE, "invalid device ordinal" },
        { INVALID_IMAGE, "device kernel image is invalid" },
        { INVALID_CONTEXT, "invalid device context" },
        { INVALID_HANDLE, "invalid resource handle" },
        { NOT_FOUND, "named symbol not found" },
        { ILLEGAL_ADDRESS, "an illegal memory access was encountered" },
        { LAUNCH_FAILED, "unspecified launch failure" },
        { NOT_SUPPORTED, "operation not supported" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].code == code) return *text = row[i].text, 0;
    return *text = NULL, INVALID_VALUE;
}

/* ---- the device; its properties can be queried even after a fault ---- */

static int of_device(int device)
{
    if (!is_init || is_forked) return NOT_INITIALIZED;
    return device ? INVALID_DEVICE : 0;
}

int cuDeviceGetCount(int *n)
{
    return *n = 1, of_device(0);
}

int cuDeviceGet(int *device, int number)
{
    return *device = 0, of_device(number);
}

int cuDeviceGetName(char *text, int n, int device)
{
    if (n < 1) return INVALID_VALUE;
    return snprintf(text, (size_t)n, "a stand-in for a CUDA device"), of_device(device);
}

int cuDeviceGetAttribute(int *v, int attribute, int device)
{
    switch (attribute) {
    case 1:
        *v = FAKE_MAX_THREADS;
        break; /* in a block */
    case 8:
        *v = FAKE_SHARED;
        break; /* shared memory of a block */
    case 10:
        *v = 32;
        break; /* lanes of a warp */
    case TS_CU_SMS:
        *v = 2;
        break;
    case TS_CU_L2_BYTES:
        *v = 1 << 20;
        break;
    case TS_CU_MAJOR:
        *v = 9;
        break;
    case TS_CU_MINOR:
        *v = 0;
        break;
    case 97:
        *v = FAKE_MAX_SHARED;
        break; /* the same for every query */
    default:
        return INVALID_VALUE;
    }
    return of_device(device);
}

int cuDeviceTotalMem_v2(size_t *n, int device)
{
    return *n = FAKE_MEMORY, of_device(device);
}

int cuDevicePrimaryCtxRetain(ts_cu_any **c, int device)
{
    const int code = fake_gate();
    *c = (ts_cu_any *)&the_context;
    return code ? code : of_device(device);
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags)
{
    (void)flags;
    return of_device(device);
}

int cuCtxSetCurrent(ts_cu_any *c)
{
    const int code = fake_gate();
    if (!code) current = c;
    return code;
}

int cuCtxSynchronize(void)
{
    return fake_synchronise();
}

int cuCtxResetPersistingL2Cache(void)
{
    return fake_gate_context();
}

/* No line persists here. */
int cuCtxSetLimit(int limit, size_t n)
{
    const int code = fake_gate_context();
    (void)limit, (void)n;
    return code ? code : NOT_SUPPORTED;
}

int cuStreamSetAttribute(ts_cu_any *s, int attribute, const ts_l2_window *w)
{
    const int code = fake_gate_context();
    (void)s, (void)attribute, (void)w;
    return code ? code : NOT_SUPPORTED;
}

int cuStreamCreate(ts_cu_any **s, unsigned flags)
{
    (void)flags;
    return *s = (ts_cu_any *)&the_stream, fake_gate_context();
}

int cuStreamSynchronize(ts_cu_any *s)
{
    (void)s;
    return fake_synchronise();
}

/* ---- events ---- */

typedef struct event {
    struct timespec t;
    int             is_recorded;
} event;

int cuEventCreate(ts_cu_any **e, unsigned flags)
{
    static event    pool[1 << 16]; /* none is ever destroyed */
    static unsigned n;
    const int       code = fake_gate_context();
    (void)flags;
    if (code) return code;
    if (n == sizeof pool / sizeof *pool) return OUT_OF_MEMORY;
    return *e = (ts_cu_any *)&pool[n++], 0;
}

int cuEventRecord(ts_cu_any *e, ts_cu_any *stream)
{
    event    *event_ = (event *)e;
    const int code = fake_gate_context();
    (void)stream;
    if (code || !e) return code ? code : INVALID_HANDLE;
    event_->is_recorded = 1;
    return clock_gettime(CLOCK_MONOTONIC, &event_->t), 0;
}

int cuEventSynchronize(ts_cu_any *e)
{
    return e ? fake_synchronise() : INVALID_HANDLE;
}

int cuEventElapsedTime(float *ms, ts_cu_any *from, ts_cu_any *to)
{
    const event *a = (const event *)from, *b = (const event *)to;
    const int    code = fake_synchronise();
    if (code) return code;
    if (!a || !b || !a->is_recorded || !b->is_recorded) return INVALID_HANDLE;
    *ms = (float)(1e3 * (double)(b->t.tv_sec - a->t.tv_sec) +
                  1e-6 * (double)(b->t.tv_nsec - a->t.tv_nsec));
    return 0;
}
