/* SPDX-License-Identifier: Apache-2.0 */
/* fake_memory.c - the memory of the stand-in driver: files in memory, so that processes can share
 * them, mapped where the kernels find them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_cuda.h"

#define GRANULE ((size_t)2 << 20)

typedef struct memory {
    struct memory *next;
    int            fd;
    size_t         n;
    int            is_held, is_ours; /* a handle is out; it counts here */
    int            n_maps;
} memory;

typedef struct range {
    struct range *next;
    enum { RESERVED, MAPPED, PLAIN } kind;
    ts_device_ptr p;
    size_t        n;
    int           access; /* 1: read, 2: write */
    memory       *of;     /* MAPPED */
} range;

static memory *memories;
static range  *ranges;
static size_t  n_used;

/* ---- address space ---- */

static void *host(ts_device_ptr p)
{
    return (void *)(uintptr_t)p;
}

static int is_whole(uint64_t n)
{
    return n % GRANULE == 0;
}

/* The range that has all of [p, p + n). */
static range *find(int kind, ts_device_ptr p, size_t n)
{
    range *r = ranges;
    while (r && !((int)r->kind == kind && p >= r->p && n <= r->n && p - r->p <= r->n - n))
        r = r->next;
    return r;
}

static int add(int kind, ts_device_ptr p, size_t n, int access, memory *of)
{
    range *r = malloc(sizeof *r);
    if (!r) return OUT_OF_MEMORY;
    *r = (range) { ranges, kind, p, n, access, of };
    ranges = r;
    return 0;
}

static void drop(range *r)
{
    range **at = &ranges;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    free(r);
}

static int touches_a_map(ts_device_ptr p, size_t n)
{
    for (const range *r = ranges; r; r = r->next)
        if (r->kind == MAPPED && p < r->p + r->n && r->p < p + n) return 1;
    return 0;
}

/* Addresses that begin at a granule, as a device's do, and cannot be used yet. */
static int take(int kind, ts_device_ptr *p, size_t n)
{
    const int protection = getenv("TS_FAKE_CUDA_OPEN") ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (n > SIZE_MAX - GRANULE) return OUT_OF_MEMORY;
    char *base =
        mmap(NULL, n + GRANULE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return OUT_OF_MEMORY;
    const size_t head = (GRANULE - (uintptr_t)base % GRANULE) % GRANULE;
    if (head) munmap(base, head);
    if (head < GRANULE) munmap(base + head + n, GRANULE - head);
    *p = (uintptr_t)(base + head);
    return add(kind, *p, n, 0, NULL);
}

int cuMemAddressReserve(ts_device_ptr *p, size_t n, size_t alignment, ts_device_ptr hint,
                        uint64_t flags)
{
    const int code = fake_gate();
    (void)hint;
    if (code) return code;
    if (!n || !is_whole(n) || alignment > GRANULE || flags) return INVALID_VALUE;
    return take(RESERVED, p, n);
}

int cuMemAddressFree(ts_device_ptr p, size_t n)
{
    range    *r = find(RESERVED, p, n);
    const int code = fake_gate();
    if (code) return code;
    if (!r || r->p != p || r->n != n || touches_a_map(p, n)) return INVALID_VALUE;
    munmap(host(p), n);
    drop(r);
    return 0;
}

/* ---- memory of its own ---- */

int cuMemGetAllocationGranularity(size_t *n, const ts_mem_prop *p, int recommended)
{
    (void)p;
    (void)recommended;
    return *n = GRANULE, fake_gate();
}

static int new_memory(int fd, size_t n, int is_ours, uint64_t *handle)
{
    memory *m = fd < 0 ? NULL : malloc(sizeof *m);
    if (!m) {
        if (fd >= 0) close(fd);
        return OUT_OF_MEMORY;
    }
    *m = (memory) { memories, fd, n, 1, is_ours, 0 };
    memories = m;
    if (is_ours) n_used += n;
    *handle = (uintptr_t)m;
    return 0;
}

static memory *held(uint64_t handle)
{
    memory *m = memories;
    while (m && (uintptr_t)m != handle) m = m->next;
    return m && m->is_held ? m : NULL;
}

/* It lasts as long as a handle or a mapping. */
static void let_go(memory *m)
{
    memory **at = &memories;
    if (m->is_held || m->n_maps) return;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    if (m->is_ours) n_used -= m->n;
    close(m->fd);
    free(m);
}

int cuMemCreate(uint64_t *handle, size_t n, const ts_mem_prop *p, uint64_t flags)
{
    const int code = fake_gate();
    if (code) return code;
    if (!n || !is_whole(n) || flags || p->type != 1 || p->location_type != 1 || p->location_id)
        return INVALID_VALUE;
    if (n > FAKE_MEMORY - n_used) return OUT_OF_MEMORY;
    const int fd = fake_file("fake_memory");
    if (fd >= 0 && ftruncate(fd, (off_t)n)) return close(fd), OUT_OF_MEMORY;
    return new_memory(fd, n, 1, handle);
}

int cuMemRelease(uint64_t handle)
{
    memory   *m = held(handle);
    const int code = fake_gate();
    if (code || !m) return code ? code : INVALID_VALUE;
    m->is_held = 0;
    let_go(m);
    return 0;
}

int cuMemExportToShareableHandle(void *fd, uint64_t handle, int type, uint64_t flags)
{
    const memory *m = held(handle);
    const int     code = fake_gate();
    if (code) return code;
    if (!m || type != 1 || flags) return INVALID_VALUE;
    const int copy = dup(m->fd);
    memcpy(fd, &copy, sizeof copy);
    return copy < 0 ? OUT_OF_MEMORY : 0;
}

int cuMemImportFromShareableHandle(uint64_t *handle, void *fd, int type)
{
    const int   code = fake_gate(), theirs = (int)(intptr_t)fd;
    struct stat s;
    if (code) return code;
    if (type != 1 || fstat(theirs, &s) || !S_ISREG(s.st_mode)) return INVALID_VALUE;
    if (s.st_size <= 0 || !is_whole((uint64_t)s.st_size)) return INVALID_VALUE;
    return new_memory(fcntl(theirs, F_DUPFD_CLOEXEC, 0), (size_t)s.st_size, 0, handle);
}

int cuMemMap(ts_device_ptr p, size_t n, size_t offset, uint64_t handle, uint64_t flags)
{
    memory   *m = held(handle);
    const int code = fake_gate();
    if (code) return code;
    if (!m || !n || !is_whole(n) || !is_whole(p) || offset || flags || n > m->n)
        return INVALID_VALUE;
    if (!find(RESERVED, p, n) || touches_a_map(p, n)) return INVALID_VALUE;
    if (mmap(host(p), n, PROT_NONE, MAP_SHARED | MAP_FIXED, m->fd, 0) == MAP_FAILED)
        return OUT_OF_MEMORY;
    m->n_maps++;
    return add(MAPPED, p, n, 0, m);
}

int cuMemUnmap(ts_device_ptr p, size_t n)
{
    range    *r = find(MAPPED, p, n);
    const int code = fake_gate();
    if (code) return code;
    if (!r || r->p != p || r->n != n) return INVALID_VALUE;
    if (mmap(host(p), n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
        return INVALID_VALUE;
    r->of->n_maps--;
    let_go(r->of);
    drop(r);
    return 0;
}

int cuMemSetAccess(ts_device_ptr p, size_t n, const ts_mem_access *a, size_t n_access)
{
    static const int protection[] = { PROT_NONE, PROT_READ, -1, PROT_READ | PROT_WRITE };
    range           *r = find(MAPPED, p, n);
    const int        code = fake_gate();
    if (code) return code;
    if (!r || r->p != p || r->n != n || n_access != 1) return INVALID_VALUE;
    if (a->location_type != 1 || a->location_id || a->flags < 0 || a->flags > 3 || a->flags == 2)
        return INVALID_VALUE;
    if (mprotect(host(p), n, protection[a->flags])) return OUT_OF_MEMORY;
    return r->access = a->flags, 0;
}

/* ---- plain memory: what lies past its end in the same granule can be touched, as on a device ----
 */

int cuMemHostAlloc(void **p, size_t n, unsigned flags)
{
    const int code = fake_gate_context();
    (void)flags;
    if (code) return code;
    return (*p = malloc(n)) ? 0 : OUT_OF_MEMORY;
}

int cuMemAlloc_v2(ts_device_ptr *p, size_t n)
{
    int code = fake_gate_context();
    if (code || !n) return code ? code : INVALID_VALUE;
    if (n > FAKE_MEMORY) return OUT_OF_MEMORY;
    n = (n + GRANULE - 1) / GRANULE * GRANULE;
    if (n > FAKE_MEMORY - n_used) return OUT_OF_MEMORY;
    if ((code = take(PLAIN, p, n))) return code;
    if (mprotect(host(*p), n, PROT_READ | PROT_WRITE)) return OUT_OF_MEMORY;
    find(PLAIN, *p, n)->access = 3;
    n_used += n;
    return 0;
}

int cuMemFree_v2(ts_device_ptr p)
{
    const int code = fake_synchronise();
    range    *r = find(PLAIN, p, 1);
    if (code || !p) return code;
    if (!r || r->p != p) return INVALID_VALUE;
    munmap(host(p), r->n);
    n_used -= r->n;
    drop(r);
    return 0;
}

int cuMemGetInfo_v2(size_t *available, size_t *all)
{
    *all = FAKE_MEMORY;
    *available = FAKE_MEMORY - n_used;
    return fake_gate_context();
}

/* ---- copies ---- */

/* A kernel's fault kills the context; a copy's is only refused. */
static int can(ts_device_ptr p, size_t n, int access)
{
    const range *r = find(MAPPED, p, n);
    if (!r) r = find(PLAIN, p, n);
    return r && (r->access & access) == access;
}

int cuMemcpyHtoD_v2(ts_device_ptr to, const void *from, size_t n)
{
    const int code = fake_synchronise();
    if (code || !n) return code;
    if (!can(to, n, 3)) return INVALID_VALUE;
    return memcpy(host(to), from, n), 0;
}

int cuMemcpyDtoH_v2(void *to, ts_device_ptr from, size_t n)
{
    const int code = fake_synchronise();
    if (code || !n) return code;
    if (!can(from, n, 1)) return INVALID_VALUE;
    return memcpy(to, host(from), n), 0;
}

int cuMemcpyDtoDAsync_v2(ts_device_ptr to, ts_device_ptr from, size_t n, ts_cu_any *stream)
{
    const int code = fake_gate_context();
    (void)stream;
    if (code || !n) return code;
    if (!can(to, n, 3) || !can(from, n, 1)) return INVALID_VALUE;
    if (!fake_pending) memmove(host(to), host(from), n);
    return 0;
}

/* No bytes are an error here: some drivers take it for one. */
int cuMemsetD8Async(ts_device_ptr p, unsigned char byte, size_t n, ts_cu_any *stream)
{
    const int code = fake_gate_context();
    (void)stream;
    if (code) return code;
    if (!n || !can(p, n, 3)) return INVALID_VALUE;
    if (!fake_pending) memset(host(p), byte, n);
    return 0;
}
