/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - touchstone-cage, the process that runs one entrant. The judge starts it with the
 * descriptors that call.h lists; users do not run it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "isa_calls.h"
#include "isa_core.h"
#include "player.h"
#include "process.h"
#include "touchstone/abi.h"

ts_control         *cage_control;
static ts_call_plan plan; /* a private copy: the entrant can change the shared one */
static struct {
    ts_run_fn        run;
    ts_workspace_fn  workspace;
    const ts_player *player;
    void            *table[TS_TABLE_MOST]; /* the player's */
} entrant;

void cage_stop(int reason, const char *format, ...)
{
    va_list a;
    va_start(a, format);
    vsnprintf(cage_control->error.text, sizeof cage_control->error.text, format, a);
    va_end(a);
    cage_control->error.reason = (uint32_t)reason;
    _exit(1);
}

/* Not FUTEX_PRIVATE: some words are shared with the judge. */
void cage_wait(uint32_t *word, uint32_t while_it_is)
{
    syscall(SYS_futex, word, FUTEX_WAIT, while_it_is, NULL, NULL, 0);
}

void cage_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 0x7fffffff, NULL, NULL, 0);
}

/* Buffers are mapped at the judge's addresses, so that pointers in the args are valid in both
 * processes. */
static void map_buffers(void)
{
    void *const region = (void *)plan.region;
    if (mmap(region, plan.region_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != region)
        cage_stop(TS_STOP_SETUP, "the addresses of the block are in use");
    for (uint32_t i = 0; i < plan.n_maps && i < TS_CALL_MAPS; i++) {
        const ts_map *m = &plan.map[i];
        const int     how = PROT_READ | (m->outputs ? PROT_WRITE : 0);
        const int     flags = MAP_SHARED | MAP_FIXED | (m->populate ? MAP_POPULATE : 0);
        const int     fd = m->outputs ? TS_FD_OUTPUTS : TS_FD_INPUTS;
        if (mmap((void *)m->address, m->bytes, how, flags, fd, (off_t)m->offset) == MAP_FAILED)
            cage_stop(TS_STOP_SETUP, "cannot map a buffer of %llu bytes",
                      (unsigned long long)m->bytes);
    }
}

/* A challenge with a script: the player calls the entrant's functions. */
static ts_status play(const void *a, const ts_exec *x)
{
    const ts_mover *const m = ts_on_gpu(plan.class) ? &cage_gpu_mover : NULL;
    return entrant.player->play(entrant.table, m, a, x);
}

static ts_status play_workspace(const void *a, const ts_exec *x, size_t *n)
{
    return entrant.player->workspace(entrant.table, a, x, n);
}

/* Looks up a list of functions and stores them in a table from place n on. Returns the next free
 * place. */
static size_t bind_list(void *(*find)(const char *name), const char *const *names, bool must,
                        void *table, size_t n)
{
    for (; names && *names; names++) {
        void *const f = find(*names);
        if (!f && must) cage_stop(TS_STOP_MISSING, "function '%s' is not exported", *names);
        if (n == TS_TABLE_MOST) cage_stop(TS_STOP_SETUP, "a script of too many functions");
        memcpy((char *)table + n++ * sizeof f, &f, sizeof f);
    }
    return n;
}

static bool bind_script(void *(*find)(const char *name))
{
    const ts_player *const p = entrant.player = ts_player_of(plan.task);
    if (!p) return false;
    size_t n = bind_list(find, p->names, true, entrant.table, 0);
    n = bind_list(find, p->optional, false, entrant.table, n);
    bind_list(find, p->queries, false, entrant.table, n);
    entrant.run = play;
    entrant.workspace = play_workspace;
    return true;
}

/* C has no conversion between function and object pointers; POSIX guarantees the same
 * representation. */
static void bind(void *(*find)(const char *name))
{
    char query[96];
    if (bind_script(find)) return;
    snprintf(query, sizeof query, "%s_workspace", plan.symbol);
    void *const run = find(plan.symbol), *const workspace = find(query);
    if (!run) cage_stop(TS_STOP_MISSING, "function '%s' is not exported", plan.symbol);
    memcpy(&entrant.run, &run, sizeof run);
    memcpy(&entrant.workspace, &workspace, sizeof workspace);
}

static void enter_sealed(void)
{
    cage_hide_clock();
    cage_catch_faults(0);
    cage_load(TS_FD_OBJECT, plan.memory_bytes);
    bind(cage_symbol);
    cage_protect();
    cage_pool_start((int)plan.n_threads, plan.spin && plan.n_threads > 1);
    cage_limit(&plan);
    for (int fd = 0; fd <= TS_FD_RUNNER; fd++) close(fd);
    cage_seccomp(&plan);
    cage_insist(&plan, TS_NEEDED_SEALED);
}

/* Called to measure the judge's own overhead per call. */
static ts_status nothing(const void *args, const ts_exec *x)
{
    (void)args, (void)x;
    return TS_OK;
}

static void *library;

static void *library_symbol(const char *name)
{
    return dlsym(library, name);
}

static void load_host(void)
{
    char object[64];
    entrant.run = nothing;
    if (!*plan.symbol) return;
    snprintf(object, sizeof object, "/proc/self/fd/%d", TS_FD_OBJECT);
    library = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (!library) cage_stop(TS_STOP_SYMBOL, "the object cannot be loaded: %s", dlerror());
    const int *mark = library_symbol("ts_abi_mark");
    if (mark && *mark != TS_ABI_VERSION)
        cage_stop(TS_STOP_SYMBOL,
                  "the object was compiled with version %d of the headers, expected %d", *mark,
                  TS_ABI_VERSION);
    bind(library_symbol);
}

static void enter_host(void)
{
    cage_limit(&plan); /* reads /proc, which the next line hides */
    cage_landlock(&plan);
    cage_catch_faults(plan.memory_bytes);
    cage_seccomp(&plan);
    cage_insist(&plan, TS_NEEDED_HOST);
    close(TS_FD_INPUTS), close(TS_FD_OUTPUTS); /* already mapped, and must not be mapped again */
    load_host();
}

_Noreturn static void become_python(void)
{
    const bool  gpu = ts_on_gpu(plan.class);
    static char fd[5][4], runner[32];
    const int   number[] = { TS_FD_CONTROL, gpu ? TS_FD_BUFFERS : TS_FD_INPUTS, TS_FD_OUTPUTS,
                             TS_FD_GO, TS_FD_DONE };
    static char driver[4096], home[CAGE_PATH + 8] = "HOME=/", tmp[CAGE_PATH + 8];
    char        scratch[CAGE_PATH];
    /* On a device, JIT compilers need a PATH, and a home directory, since each package has its own
     * cache variable. They must compile in this process: a child would not be frozen between calls.
     */
    char *const env[] = {
        gpu ? "PATH=/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
            : "PATH=/usr/bin:/bin",
        "LANG=C.UTF-8",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONHASHSEED=0",
        home,
        "USER=nobody", /* PyTorch's optimizers ask for it; a look-up by number opens a socket */
        gpu ? driver : NULL,
        "CUDA_MODULE_LOADING=EAGER",
        "TORCHINDUCTOR_COMPILE_THREADS=1",
        cage_scratch(&plan, scratch) ? tmp : NULL,
        NULL
    };
    const char *asked = getenv("TOUCHSTONE_LIBCUDA");
    snprintf(driver, sizeof driver, "TOUCHSTONE_LIBCUDA=%s", asked ? asked : "libcuda.so.1");
    static char call[16], arch[16];
    snprintf(call, sizeof call, "%d", SYS_memfd_create);
    snprintf(arch, sizeof arch, "%u", (unsigned)TS_ISA_AUDIT_ARCH);
    char *const argv[] = { plan.python,        "-s", runner, fd[0], fd[1], fd[2], fd[3], fd[4],
                           gpu ? "gpu" : NULL, call, arch,   NULL };
    if (cage_scratch(&plan, scratch)) {
        snprintf(home, sizeof home, "HOME=%s", scratch);
        snprintf(tmp, sizeof tmp, "TMPDIR=%s", scratch);
    }
    for (int i = 0; i < 5; i++) snprintf(fd[i], sizeof fd[i], "%d", number[i]);
    snprintf(runner, sizeof runner, "/proc/self/fd/%d", TS_FD_RUNNER);
    if (!gpu) cage_landlock(&plan); /* else the runner does, once the driver is loaded */
    cage_limit(&plan);
    cage_seccomp(&plan);
    /* On a device the runner checks the rest. */
    cage_insist(&plan, gpu ? TS_NEEDED_HOST & ~TS_HELD_LANDLOCK : TS_NEEDED_HOST);
    execve(plan.python, argv, env);
    cage_stop(TS_STOP_SETUP, "%s cannot be executed", plan.python);
}

/* Whether the buffers of the script are host memory on a device too. */
static bool on_host(void)
{
    const ts_player *const p = ts_on_gpu(plan.class) ? ts_player_of(plan.task) : NULL;
    return p && p->on_host;
}

static void enter_gpu(void)
{
    cage_gpu_open(!*plan.symbol);
    if (on_host()) cage_host_open(&plan);
    cage_catch_faults(0);
    cage_limit(&plan);
    if (plan.class == TS_GPU_SEALED) {
        cage_gpu_load(&plan);
        cage_landlock(&plan);
        return;
    }
    cage_landlock(&plan);
    cage_seccomp(&plan);
    cage_insist(&plan, TS_NEEDED_HOST);
    load_host();
    cage_gpu_arm();
}

typedef struct args_of {
    _Alignas(16) unsigned char bytes[TS_CALL_ARGS];
} args_of;

static ts_status run(int slot, ts_exec *x)
{
    static args_of args;
    memcpy(&args, cage_control->args[slot], sizeof args);
    if (plan.class == TS_GPU_SEALED) return cage_gpu_launch(&plan, slot, x);
    if (ts_on_gpu(plan.class)) cage_gpu_turn(), cage_gpu_exec(x);
    if (entrant.player && on_host()) cage_host_fetch(&plan, slot, args.bytes);
    const ts_status s = entrant.run(&args, x);
    if (entrant.player && on_host()) cage_host_return(&plan, slot);
    if (ts_on_gpu(plan.class)) cage_gpu_finish();
    return s;
}

static ts_status ask_workspace(int slot, ts_exec *x, size_t *n)
{
    args_of args;
    memcpy(&args, cage_control->args[slot], sizeof args);
    if (plan.class == TS_GPU_SEALED) return cage_gpu_workspace(&plan, slot, n);
    if (ts_on_gpu(plan.class)) cage_gpu_exec(x);
    return entrant.workspace ? entrant.workspace(&args, x, n) : TS_OK;
}

static void call(void)
{
    ts_control     *c = cage_control;
    ts_exec         x = c->call.exec;
    const int       slot = (int)(c->call.slot % TS_MAX_SLOTS);
    size_t          n = 0;
    const ts_status s = c->call.verb == TS_VERB_RUN ? run(slot, &x) : ask_workspace(slot, &x, &n);
    c->answer.fp = !ts_isa_fp_kept();
    if (cage_pool_rest()) c->answer.fp = 1;
    c->answer.status = (int32_t)s;
    c->answer.n_bytes = n;
}

_Noreturn static void serve(void)
{
    ts_control *c = cage_control;
    uint32_t    seen = 0, signal;
    __atomic_store_n(&c->ready, UINT32_MAX, __ATOMIC_RELEASE);
    for (;;) {
        while ((signal = __atomic_load_n(&c->signal, __ATOMIC_ACQUIRE)) == seen)
            cage_wait(&c->signal, seen);
        seen = signal;
        if (signal % 2) {
            cage_pool_arm();
            if (ts_on_gpu(plan.class)) cage_gpu_arm();
            ts_isa_fp_set();
            __atomic_store_n(&c->ready, signal, __ATOMIC_RELEASE);
            if (ts_by_bytes(plan.class)) {
                cage_gpu_await_go(plan.spin);
                call();
                cage_gpu_say_done(&plan);
                continue;
            }
            while (plan.spin && __atomic_load_n(&c->signal, __ATOMIC_ACQUIRE) == signal)
                ts_isa_pause();
            continue;
        }
        call();
        __atomic_store_n(&c->done, signal, __ATOMIC_RELEASE);
    }
}

int main(void)
{
    cage_control =
        mmap(NULL, sizeof *cage_control, PROT_READ | PROT_WRITE, MAP_SHARED, TS_FD_CONTROL, 0);
    if (cage_control == MAP_FAILED) {
        fputs("touchstone-cage: not for direct use; run 'touchstone judge'\n", stderr);
        return 2;
    }
    if (cage_control->abi != ts_abi_hash(ts_abi_fields, TS_ABI_FIELDS))
        cage_stop(TS_STOP_SETUP, "judge and cage have different struct layouts; reinstall both");
    plan = cage_control->plan;
    cage_must(&plan, !prctl(PR_SET_PDEATHSIG, SIGKILL), "PR_SET_PDEATHSIG");
    cage_must(&plan, setsid() >= 0, "setsid");
    if (close_range(TS_FD_BUFFERS + 1, ~0u,
                    0)) /* before Linux 5.9: those that the judge inherited */
        for (long fd = sysconf(_SC_OPEN_MAX) - 1; fd > TS_FD_BUFFERS; fd--) close((int)fd);
    cage_become_nobody(&plan);
    if (ts_in_python(plan.class)) become_python();
    if (!ts_on_gpu(plan.class)) map_buffers();
    if (ts_on_gpu(plan.class)) enter_gpu();
    else if (plan.class == TS_SEALED) enter_sealed();
    else enter_host();
    serve();
}
