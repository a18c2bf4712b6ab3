/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - an entrant that tries to escape from the cage.
 *
 * It is built like a sealed entrant, without libraries, and also runs in class host. An attempt
 * returns TS_E_UNSUPPORTED if the system refuses it, and TS_OK if it succeeds. */
#include "probe.h"

#include <elf.h>

#include "call.h"
#include "isa_raw.h"

TS_API ts_status ts_probe(const ts_probe_args *a, const ts_exec *x);
TS_API ts_status ts_probe_workspace(const ts_probe_args *a, const ts_exec *x, size_t *n_bytes);

/* Weak: class host does not have it. */
TS_API __attribute__((weak)) void j_parallel_for(int64_t n, void (*fn)(int64_t i, void *ctx),
                                                 void   *ctx);

static ts_status told(long r)
{
    return r < 0 ? TS_E_UNSUPPORTED : TS_OK;
}

static void one(int64_t i, void *ctx)
{
    const ts_probe_args *a = ctx;
    a->y[i] = 2 * a->x[i];
    a->z[i] = 3 * a->x[i];
}

static volatile float sink;

static int deep(volatile int *p)
{
    volatile int here[1024];
    here[0] = *p;
    return *p ? 0 : deep(here) + here[1]; /* always 0, but the compiler does not know */
}

static ts_status by_workspace(const ts_probe_args *a, const ts_exec *x)
{
    unsigned char *w = x->workspace;
    if (x->workspace_bytes != 40 * sizeof(float) + 4) return TS_E_WORKSPACE;
    for (size_t i = 0; i < x->workspace_bytes; i++) {
        if (w[i] != 0xff) return TS_E_STATE; /* not poisoned: left by an earlier call */
        w[i] = 7;
    }
    if (a->what == TS_PROBE_WORKSPACE_PAST) w[x->workspace_bytes] = 7;
    if (a->what == TS_PROBE_WORKSPACE_BEFORE) w[-1] = 7;
    for (int64_t i = 0; i < a->n; i++) one(i, (void *)a);
    return TS_OK;
}

/* ---- a pool thread that never returns: the caller leaves the loop without it ---- */

static void        *way_out[RAW_WAY];
static volatile int worker_runs;
static int          n_lurks;
static uintptr_t    own_stack;

static void stay(int64_t i, void *ctx)
{
    const ts_probe_args *a = ctx;
    char                 here;
    (void)i;
    if ((uintptr_t)&here - own_stack + (1 << 18) < 1 << 19) {
        while (!worker_runs) {}
        RAW_GO_BACK(way_out);
    }
    worker_runs = 1;
    for (;;)
        for (int64_t k = 0; k < a->n; k++) {
            if (a->what == TS_PROBE_LATE) a->y[k] += 1;
            else sink = a->x[k];
        }
}

static ts_status leave_a_thread(const ts_probe_args *a)
{
    static ts_probe_args copy;
    char                 here;
    copy = *a;
    own_stack = (uintptr_t)&here;
    for (int64_t i = 0; i < a->n; i++) one(i, (void *)a);
    if (worker_runs) return TS_OK;
    if (!RAW_MARK(way_out)) j_parallel_for(64, stay, &copy);
    return TS_OK;
}

/* ---- forged words of the call protocol ---- */

/* Finds the control page: in the data of the calling program, the first pointer to a page that
 * contains the task's name. The program's headers, below its code, give the location of its data.
 */
static ts_control *find_control(const void *return_address)
{
    const char *base = (const char *)((uintptr_t)return_address & ~(uintptr_t)4095);
    while (*(const uint32_t *)base != 0x464c457f) base -= 4096;
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)base;
    const Elf64_Phdr *s = (const Elf64_Phdr *)(base + h->e_phoff);
    for (;; s++) {
        const uintptr_t *p = (const uintptr_t *)(base + (s->p_vaddr & ~(uintptr_t)7));
        if (s->p_type != PT_LOAD || !(s->p_flags & PF_W)) continue;
        for (size_t n = s->p_memsz / sizeof *p; n > 0; n--, p++) {
            if (*p % 4096 || *p >> 41 != RAW_MAPPED) continue;
            if ((uintptr_t)return_address - *p < 1 << 20 || (uintptr_t)find_control - *p < 1 << 16)
                continue; /* the program itself, or this object */
            ts_control *c = (ts_control *)*p;
            if (c->plan.task[0] == 'p' && c->plan.task[4] == 'e' && !c->plan.task[5]) return c;
        }
    }
}

static void work(const ts_probe_args *a)
{
    for (int64_t i = 0; i < a->n; i++) one(i, (void *)a);
}

static ts_status forge(const ts_probe_args *a, ts_control *c)
{
    __atomic_store_n(&c->done, c->signal, __ATOMIC_RELEASE);
    work(a);
    return TS_OK;
}

_Noreturn static void be_the_runner(const ts_probe_args *a, ts_control *c)
{
    for (uint32_t seen = c->signal, signal;; seen = signal) {
        work(a);
        c->answer.status = TS_OK;
        __atomic_store_n(&c->done, seen, __ATOMIC_RELEASE);
        while ((signal = __atomic_load_n(&c->signal, __ATOMIC_ACQUIRE)) == seen)
            raw(NR_FUTEX, (long)&c->signal, 0, seen, 0, 0, 0);
        for (int i = 0; i < 20; i++) work(a);
        __atomic_store_n(&c->ready, signal, __ATOMIC_RELEASE);
        while (__atomic_load_n(&c->signal, __ATOMIC_ACQUIRE) == signal) {}
        signal = c->signal;
    }
}

_Noreturn static void eat(void)
{
    for (;;) {
        volatile char *p = (char *)raw(NR_MMAP, 0, 16 << 20, 3, 0x22, -1, 0);
        for (long i = 0; i < 16 << 20; i += 4096) p[i] = 1; /* faults at the memory limit */
    }
}

static ts_status ask_the_system(const ts_probe_args *a)
{
    static char       text[64 << 10];
    static int        word;
    static const long nanosecond[2] = { 0, 1 };
    long              where[2] = { (long)text, 8 }, there[2] = { 0x400000, 8 };
    switch (a->what) {
    case TS_PROBE_OPEN:
        return told(raw(NR_OPENAT, -100, (long)"/etc/passwd", 0, 0, 0, 0));
    case TS_PROBE_WRITE_FILE:
        return told(raw(NR_OPENAT, -100, (long)"/tmp/touchstone-probe", 0101, 0600, 0, 0));
    case TS_PROBE_TIME:
        return told(raw(NR_TIME, 1, (long)text, 0, 0, 0, 0));
    case TS_PROBE_SLEEP:
        return told(raw(NR_FUTEX, (long)&word, 0, 0, (long)nanosecond, 0, 0));
    case TS_PROBE_SOCKET:
        return told(raw(NR_SOCKET, 2, 1, 0, 0, 0, 0));
    case TS_PROBE_FORK:
        if (raw_fork() == 0) raw(NR_EXIT, 0, 0, 0, 0, 0, 0);
        return TS_OK;
    case TS_PROBE_THREAD: /* never runs: without its own stack it would fault */
        return told(raw(NR_CLONE, 0x50f00, (long)text + sizeof text, 0, 0, 0, 0));
    case TS_PROBE_EXEC:
        return told(raw(NR_EXECVE, (long)"/bin/true", 0, 0, 0, 0, 0));
    case TS_PROBE_KILL:
        return told(raw(NR_KILL, raw(NR_GETPPID, 0, 0, 0, 0, 0, 0), 9, 0, 0, 0, 0));
    case TS_PROBE_PEEK:
        return told(
            raw(NR_PEEK, raw(NR_GETPPID, 0, 0, 0, 0, 0, 0), (long)where, 1, (long)there, 1, 0));
    case TS_PROBE_MEMFD:
        return told(raw(NR_MEMFD, (long)text, 0, 0, 0, 0, 0));
    case TS_PROBE_AFFINITY:
        for (int i = 0; i < 128; i++) text[i] = (char)0xff;
        return told(raw(NR_SETAFFINITY, 0, 128, (long)text, 0, 0, 0));
    case TS_PROBE_REMAP_INPUT:
        for (long page = 4096; page <= 65536; page *= 4) {
            if (raw(NR_MPROTECT, (long)a->x & -page, page, 3, 0, 0, 0) < 0) continue;
            ((volatile float *)a->x)[0] = 1;
            return TS_OK;
        }
        return TS_E_UNSUPPORTED;
    case TS_PROBE_FLOOD:
        for (size_t i = 0; i < sizeof text; i++) text[i] = 'x';
        for (int i = 0; i < 1024; i++) raw(NR_WRITE, 2, (long)text, sizeof text, 0, 0, 0);
        return TS_OK;
    default:
        raw(NR_EXIT_GROUP, 0, 0, 0, 0, 0, 0);
        return TS_OK;
    }
}

static ts_status overstep(const ts_probe_args *a)
{
    volatile float *x = (volatile float *)a->x;
    switch (a->what) {
    case TS_PROBE_WRITE_INPUT:
        x[a->n / 2] = 1;
        break;
    case TS_PROBE_READ_PAST:
        sink = x[a->n];
        break;
    case TS_PROBE_READ_BEFORE:
        sink = ((volatile float *)a->z)[-1];
        break;
    case TS_PROBE_WRITE_PAST:
        ((volatile float *)a->z)[a->n] = 1;
        break;
    default:
        ((volatile float *)a->y)[-1] = 1;
    }
    return TS_OK;
}

ts_status ts_probe(const ts_probe_args *a, const ts_exec *x)
{
    volatile int  zero = 0;
    volatile int *nowhere = (volatile int *)(uintptr_t)zero;
    switch (a->what) {
    case TS_PROBE_NOTHING:
        return TS_OK;
    case TS_PROBE_FLUSH:
        raw_flush_to_zero();
        return TS_OK;
    case TS_PROBE_PARALLEL:
        j_parallel_for(a->n, one, (void *)a);
        return TS_OK;
    case TS_PROBE_RIGHT:
        for (int64_t i = 0; i < a->n; i++) one(i, (void *)a);
        return TS_OK;
    case TS_PROBE_WORKSPACE:
    case TS_PROBE_WORKSPACE_PAST:
    case TS_PROBE_WORKSPACE_BEFORE:
        return by_workspace(a, x);
    case TS_PROBE_TSC:
        raw_clock();
        return TS_OK;
    case TS_PROBE_WRITE_INPUT:
    case TS_PROBE_READ_PAST:
    case TS_PROBE_READ_BEFORE:
    case TS_PROBE_WRITE_PAST:
    case TS_PROBE_WRITE_BEFORE:
        return overstep(a);
    case TS_PROBE_NULL:
        return (ts_status)*nowhere;
    case TS_PROBE_DIVIDE:
        return (ts_status)(7 / zero);
    case TS_PROBE_TRAP:
        __builtin_trap();
    case TS_PROBE_DEEP:
        return (ts_status)deep(&zero);
    case TS_PROBE_HANG:
        for (;;) sink = 0;
    case TS_PROBE_LURK_41:
        if (++n_lurks > 40) return leave_a_thread(a);
        for (int64_t i = 0; i < a->n; i++) one(i, (void *)a);
        return TS_OK;
    case TS_PROBE_LATE:
    case TS_PROBE_LURK:
        return leave_a_thread(a);
    case TS_PROBE_FORGE:
        return forge(a, find_control(__builtin_return_address(0)));
    case TS_PROBE_HEAD_START:
        be_the_runner(a, find_control(__builtin_return_address(0)));
    case TS_PROBE_MEMORY:
        eat();
    default:
        return ask_the_system(a);
    }
}

ts_status ts_probe_workspace(const ts_probe_args *a, const ts_exec *x, size_t *n_bytes)
{
    (void)x;
    *n_bytes = a->what == TS_PROBE_MEMORY ? (size_t)1 << 40 : 40 * sizeof(float) + 4;
    return TS_OK;
}
